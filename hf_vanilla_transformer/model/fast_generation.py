"""Which calls of `generate` the fast search serves, and its results in the library's form."""

import functools
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteriaList
from transformers.generation import BaseStreamer, LogitsProcessorList
from transformers.generation.utils import (
    GenerateBeamEncoderDecoderOutput,
    GenerateEncoderDecoderOutput,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput, logging

from .cache import LaterCache, VanillaTransformerCache
from .compat import CACHE_KEY
from .fast_hypotheses import Hypotheses
from .fast_model import fast_model
from .fast_rules import SearchRules, compile_rules
from .fast_search import BeamSearch, Search, greedy_search
from .generation import TranslationGenerationMixin
from .lengths import length_penalty
from .pretrained import IGNORED_ARGUMENTS
from .stacks import checked_segments

logger = logging.get_logger(__name__)

# What the decoder is told at each step, and the fast one knows: the rest makes it step aside.
MOST_BEAMS = 32  # each attends over the slots of all: beyond, moving caches costs less
KNOWN_ARGUMENTS = {"encoder_outputs", "attention_mask", "use_cache", CACHE_KEY, *IGNORED_ARGUMENTS}


class FastGenerationMixin(TranslationGenerationMixin):
    """Greedy and beam search of `generate` on the fast version of the model, where possible.

    What the fast search does not know (sampling, streamers, own processors or criteria, attentions,
    other caches) runs in the library's loop, with the same result.
    """

    def _sample(
        self,
        input_ids: Tensor,
        *,
        synced_gpus: bool = False,
        streamer: BaseStreamer | None = None,
        **kwargs: object,
    ) -> ModelOutput | Tensor:
        if not synced_gpus and streamer is None:
            found = _fast_search(self, input_ids, **kwargs)
            if found is not None:
                return found
        return super()._sample(input_ids, synced_gpus=synced_gpus, streamer=streamer, **kwargs)

    def _beam_search(
        self, input_ids: Tensor, *, synced_gpus: bool = False, **kwargs: object
    ) -> ModelOutput | Tensor:
        found = None if synced_gpus else _fast_search(self, input_ids, **kwargs)
        if found is not None:
            return found
        return super()._beam_search(input_ids, synced_gpus=synced_gpus, **kwargs)

    # The name up to 5.14, and that of 5.24.
    def _prepare_encoder_decoder_kwargs_for_generation(
        self, inputs_tensor: Tensor, model_kwargs: dict[str, object], *args: object
    ) -> dict[str, object]:
        prepare = super()._prepare_encoder_decoder_kwargs_for_generation
        return self._encode(prepare, inputs_tensor, model_kwargs, *args)

    def _maybe_prepare_encoder_kwargs_for_generation(
        self, inputs_tensor: Tensor, model_kwargs: dict[str, object], *args: object
    ) -> dict[str, object]:
        prepare = super()._maybe_prepare_encoder_kwargs_for_generation
        return self._encode(prepare, inputs_tensor, model_kwargs, *args)

    def _encode(
        self,
        prepare: Callable[..., dict[str, object]],
        inputs: Tensor,
        model_kwargs: dict[str, object],
        input_name: str,
        settings: GenerationConfig,
    ) -> dict[str, object]:
        """Add what the encoder makes of ids [B, S] to `model_kwargs`."""
        is_given = model_kwargs.get("encoder_outputs") is not None
        wants_more = settings.output_attentions or settings.output_hidden_states
        is_plain = is_given or wants_more or input_name != "input_ids"
        twin = None if is_plain else fast_model(self)
        if twin is None:
            return prepare(inputs, model_kwargs, input_name, settings)
        mask = checked_segments(
            model_kwargs.get("attention_mask"), inputs.shape, name="attention_mask"
        )
        outputs = BaseModelOutput(last_hidden_state=twin.encoder(inputs, _padding(mask)))
        outputs._twin = twin  # so that the search need not look for it again
        return {**model_kwargs, "encoder_outputs": outputs}


def _fast_search(
    model: PreTrainedModel,
    input_ids: Tensor,
    *,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    **model_kwargs: object,
) -> ModelOutput | Tensor | None:
    """Return the result of `_sample` or `_beam_search` of transformers, computed faster.

    Returns:
        The result of transformers; None if the fast search does not support the call.
    """
    if not model.fast:
        return None
    beams, encoded = generation_config.num_beams, model_kwargs["encoder_outputs"]
    memory = encoded[0]
    rules = compile_rules(
        logits_processor,
        stopping_criteria,
        sentences=len(memory),
        max_length=generation_config.max_length,
        device=input_ids.device,
    )
    obstacle = _obstacle(
        model, input_ids, settings=generation_config, model_kwargs=model_kwargs, rules=rules
    )
    twin = None if obstacle else getattr(encoded, "_twin", None) or fast_model(model)
    if twin is None:
        _tell(obstacle or "the model is not plain")
        return None
    mask = _padding(model_kwargs.get("attention_mask"))
    search = Search(
        step=twin.decoder.step,
        state=twin.decoder.start(memory, mask),
        prompt=input_ids[::beams],
        rules=rules,
        pad_token_id=int(generation_config._pad_token_tensor),
        keeps_scores=bool(generation_config.output_scores),
    )
    found = _run(search, generation_config)
    if not generation_config.return_dict_in_generate:
        return found.sequences
    return _output(found, _later_cache(model, encoded, mask=mask, sequences=found.sequences))


def _run(search: Search, settings: GenerationConfig) -> Hypotheses:
    if settings.num_beams == 1:
        return greedy_search(search)
    ranking = length_penalty(settings), settings.early_stopping
    return BeamSearch(search, settings.num_beams, *ranking).run(settings.num_return_sequences)


@functools.cache
def _tell(obstacle: str) -> None:
    """Log once for each reason why the fast search is not used."""
    logger.info("generate runs the library's loop: %s", obstacle)


def _obstacle(
    model: PreTrainedModel,
    input_ids: Tensor,
    *,
    settings: GenerationConfig,
    model_kwargs: dict[str, object],
    rules: SearchRules | str,
) -> str | None:
    """Return what the fast search does not know in a call, or None."""
    if isinstance(rules, str):
        return rules
    names = ("do_sample", "output_attentions", "output_hidden_states", "output_logits")
    asked = [name for name in (*names, "low_memory") if getattr(settings, name, None)]
    given = {name for name, value in model_kwargs.items() if value is not None}
    if unknown := [*asked, *sorted(given - KNOWN_ARGUMENTS)]:
        return ", ".join(unknown)
    cache, mask = model_kwargs.get(CACHE_KEY), model_kwargs.get("attention_mask")
    memory, beams = model_kwargs["encoder_outputs"][0], settings.num_beams
    vocabulary = getattr(model.get_output_embeddings(), "out_features", 0)
    checks = {
        "another cache, or none": cache is None or cache is not settings._own_cache,
        "no pad_token_id": settings._pad_token_tensor is None,
        "a mask of another shape": mask is not None and mask.shape != memory.shape[:2],
        "a prompt for each beam": len(input_ids) != beams * len(memory),
        f"{beams} beams": beams > MOST_BEAMS,
    }
    if obstacle := next((name for name, holds in checks.items() if holds), None):
        return obstacle
    if mask is not None and not mask.eq(1).any(-1).all():
        return "a source without a token"
    return rules.obstacle(vocabulary, beams)


def _padding(mask: Tensor | None) -> Tensor | None:
    """Return a mask [B, S], or None for one that masks nothing."""
    return None if mask is None or bool(mask.eq(1).all()) else mask


def _later_cache(
    model: PreTrainedModel, encoded: BaseModelOutput, *, mask: Tensor | None, sequences: Tensor
) -> LaterCache:
    """Return the cache of sequences [B*m, T], without their last token, as transformers does."""

    @torch.no_grad()
    def fill(cache: VanillaTransformerCache) -> None:
        model.get_decoder()(sequences[:, :-1], encoded[0], memory_mask=mask, cache=cache)

    return LaterCache(model.config.decoder_layers, fill)


def _output(found: Hypotheses, cache: VanillaTransformerCache) -> ModelOutput:
    shared = {"sequences": found.sequences, "scores": found.step_scores, CACHE_KEY: cache}
    if found.scores is None:
        return GenerateEncoderDecoderOutput(**shared)
    return GenerateBeamEncoderDecoderOutput(
        sequences_scores=found.scores, beam_indices=found.beam_indices, **shared
    )
