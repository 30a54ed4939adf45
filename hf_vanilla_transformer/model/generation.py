"""How translations are searched for: hooks into the library's `generate`, no fork of it."""

import copy
from collections.abc import Callable
from os import PathLike

import torch
from torch import Tensor
from transformers import GenerationConfig, GenerationMixin, StoppingCriteriaList
from transformers.generation import LogitsProcessorList, SuppressTokensLogitsProcessor
from transformers.utils import ModelOutput

from .cache import VanillaTransformerCache
from .compat import CACHE_KEY, check_static_cache
from .finite import FiniteScores
from .guard_ids import check_token_ids
from .lengths import (
    NEUTRAL_LENGTH_PENALTY,
    ForcedEndAtLimit,
    SourceLengthLimit,
    given_ranking,
    length_penalty,
)
from .vocabulary import RemovedTokens, removed_ids

# Settings of Vaswani et al. 2017, §6.1: beam 4, alpha 0.6, at most source length + 50 tokens.
# "never" stops a search when no running beam can still win, as the authors' own beam search does.
PAPER_DECODING = {
    "num_beams": 4,
    "gnmt_alpha": 0.6,
    "extra_decode_length": 50,
    "early_stopping": "never",
}

# Settings that `GenerationConfig` does not know; they are saved in generation_config.json.
OWN_SETTINGS = {"gnmt_alpha": None, "extra_decode_length": 50}

# A stock Seq2SeqTrainer writes the library's default of 20 into the model's generation config.
LIBRARY_MAX_LENGTH = 20

GROWING_CACHES = (None, "dynamic", "dynamic_full")


class TranslationGenerationMixin(GenerationMixin):
    """`generate` with memory shared by beams, GNMT's length penalty and length limits by source."""

    @staticmethod
    def create_masks_for_generate(attention_mask: Tensor | None = None, **kwargs: object) -> Tensor:
        """Leave the decoder's 2D mask as it is: the model builds its own."""
        return attention_mask

    def load_custom_generate(
        self,
        pretrained_model_name_or_path: str | PathLike[str] | None = None,
        trust_remote_code: bool | None = None,
        **kwargs: object,
    ) -> Callable[..., object]:
        """Load code of a folder in place of `generate`, where that is asked for.

        `from_pretrained` of transformers 4.57 would run it unasked if the folder is a local one.

        Raises:
            OSError: It is not asked for, or there is none.
        """
        if not trust_remote_code:
            raise OSError(
                f"custom_generate of {pretrained_model_name_or_path} is code, which is run with "
                "trust_remote_code=True only"
            )
        return super().load_custom_generate(
            pretrained_model_name_or_path, trust_remote_code=trust_remote_code, **kwargs
        )

    def _prepare_generation_config(
        self, generation_config: GenerationConfig | None, *args: object, **kwargs: object
    ) -> tuple[GenerationConfig, dict[str, object]]:
        _add_own_settings(self.generation_config, OWN_SETTINGS)
        ranking = given_ranking(kwargs, None) or _saved_ranking(generation_config)
        ranking = ranking or given_ranking(vars(self.generation_config))
        limit_is_given = self.generation_config.max_length not in (None, LIBRARY_MAX_LENGTH)
        if generation_config is not None:
            generation_config = copy.deepcopy(generation_config)
            _add_own_settings(generation_config, vars(self.generation_config))
            limit_is_given = generation_config.max_length not in (
                None,
                GenerationConfig().max_length,
            )
        prepared, model_kwargs = super()._prepare_generation_config(
            generation_config, *args, **kwargs
        )
        prepared._length_limits = prepared._own_cache = None
        prepared._limit_is_given = (
            limit_is_given
            or kwargs.get("max_length") is not None
            or prepared.max_new_tokens is not None
        )
        prepared.gnmt_alpha = ranking.get("gnmt_alpha")
        prepared.length_penalty = ranking.get("length_penalty", NEUTRAL_LENGTH_PENALTY)
        extra = prepared.extra_decode_length
        if isinstance(extra, bool) or not isinstance(extra, int) or extra < 0:
            raise ValueError(f"extra_decode_length={extra!r} is not a whole number of at least 0")
        return prepared, model_kwargs

    def _prepare_model_inputs(
        self, inputs: Tensor | None, bos_token_id: int | None, model_kwargs: dict[str, object]
    ) -> tuple[Tensor, str, dict[str, object]]:
        inputs, name, model_kwargs = super()._prepare_model_inputs(
            inputs, bos_token_id, model_kwargs
        )
        # The library fills up with -100 where the encoder's outputs are given.
        if name == "input_ids" and model_kwargs.get("encoder_outputs") is None:
            check_token_ids(inputs, self.config.vocab_size, name="the source")
        if name == "input_ids" and model_kwargs.get("attention_mask") is None:
            model_kwargs["attention_mask"] = inputs.ne(self.config.pad_token_id).long()
        return inputs, name, model_kwargs

    def _expand_inputs_for_generation(
        self,
        expand_size: int = 1,
        is_encoder_decoder: bool = False,
        input_ids: Tensor | None = None,
        **model_kwargs: object,
    ) -> tuple[Tensor, dict[str, object]]:
        # Memory and its mask stay at one row per sentence; the decoder folds the beams.
        kept = {
            name: model_kwargs.pop(name)
            for name in ("encoder_outputs", "attention_mask")
            if name in model_kwargs
        }
        input_ids, model_kwargs = super()._expand_inputs_for_generation(
            expand_size=expand_size, is_encoder_decoder=False, input_ids=input_ids, **model_kwargs
        )
        return input_ids, model_kwargs | kept

    def _prepare_generated_length(
        self,
        generation_config: GenerationConfig,
        has_default_max_length: bool,
        has_default_min_length: bool,
        model_input_name: str,
        input_ids_length: int,
        inputs_tensor: Tensor,
    ) -> GenerationConfig:
        if not generation_config._limit_is_given:
            has_default_max_length = False
            extra = input_ids_length + generation_config.extra_decode_length
            limit = inputs_tensor.shape[1] + extra
            generation_config._longest_extra = extra
            generation_config.max_length = min(limit, self._longest_target() or limit)
        generation_config = super()._prepare_generated_length(
            generation_config=generation_config,
            has_default_max_length=has_default_max_length,
            has_default_min_length=has_default_min_length,
            model_input_name=model_input_name,
            input_ids_length=input_ids_length,
            inputs_tensor=inputs_tensor,
        )
        longest = self._longest_target()
        if longest is not None and generation_config.max_length > longest:
            raise ValueError(
                f"the length limit of {generation_config.max_length} tokens (start token included) "
                f"exceeds the table of max_position_embeddings={longest} learned positions; lower "
                "max_new_tokens or max_length"
            )
        return generation_config

    def _validate_generated_length(
        self,
        generation_config: GenerationConfig,
        input_ids_length: int,
        has_default_max_length: bool,
    ) -> None:
        # A limit by the source is not the library's default that it warns of.
        has_default_max_length = has_default_max_length and generation_config._limit_is_given
        super()._validate_generated_length(
            generation_config, input_ids_length, has_default_max_length
        )

    def _longest_target(self) -> int | None:
        return self.get_decoder().embed_positions.longest

    def _prepare_cache_for_generation(
        self,
        generation_config: GenerationConfig,
        model_kwargs: dict[str, object],
        generation_mode: str,
        batch_size: int,
        max_cache_length: int,
    ) -> None:
        if not generation_config._limit_is_given:
            generation_config._length_limits = _length_limits(generation_config, model_kwargs)
        # PEFT fills the library's cache with a trained prefix, and takes no other.
        has_prefix = "prepare_inputs_for_generation" in vars(self) and not hasattr(
            self, "peft_config"
        )
        is_ours = (
            not has_prefix
            and model_kwargs.get(CACHE_KEY) is None
            and generation_config.use_cache is not False
            and generation_config.cache_implementation in GROWING_CACHES
        )
        if is_ours:
            generation_config._own_cache = VanillaTransformerCache(self.config.decoder_layers)
            model_kwargs[CACHE_KEY] = generation_config._own_cache
            return
        if generation_config.cache_implementation is not None:
            check_static_cache(self.config)
        super()._prepare_cache_for_generation(
            generation_config, model_kwargs, generation_mode, batch_size, max_cache_length
        )
        cache = model_kwargs.get(CACHE_KEY)
        if cache is not None and not isinstance(cache, VanillaTransformerCache):
            rows = max(generation_config.num_beams, generation_config.num_return_sequences)
            _unshare_memory(model_kwargs, rows)

    def _get_logits_processor(
        self, generation_config: GenerationConfig, *args: object, **kwargs: object
    ) -> LogitsProcessorList:
        processors = super()._get_logits_processor(generation_config, *args, **kwargs)
        if removed := removed_ids(self):
            # Other searches are given no log-probabilities.
            is_beam_search = generation_config.num_beams > 1
            kind = RemovedTokens if is_beam_search else SuppressTokensLogitsProcessor
            # An offloaded model says that it is nowhere.
            processors.insert(0, kind(removed, device=kwargs.get("device") or self.device))
        if not generation_config.remove_invalid_values:
            processors.insert(0, FiniteScores())
        limits, forced = generation_config._length_limits, generation_config.forced_eos_token_id
        if limits is not None and forced is not None:
            processors.append(ForcedEndAtLimit(limits, forced))
        return processors

    def _get_stopping_criteria(
        self, generation_config: GenerationConfig, *args: object, **kwargs: object
    ) -> StoppingCriteriaList:
        if (tokenizer := kwargs.get("tokenizer")) is not None:  # for `stop_strings`
            kwargs["tokenizer"] = getattr(tokenizer, "target", tokenizer)
        criteria = super()._get_stopping_criteria(generation_config, *args, **kwargs)
        if generation_config._length_limits is not None:
            criteria.append(SourceLengthLimit(generation_config._length_limits))
        return criteria

    def _beam_search(
        self, input_ids: Tensor, *, generation_config: GenerationConfig, **kwargs: object
    ) -> ModelOutput | Tensor:
        # The library fills up with the end of sentence where the padding id is 0, which would end
        # a hypothesis that its length limit had cut.
        wants_output = generation_config.return_dict_in_generate
        generation_config.return_dict_in_generate = True
        generation_config.length_penalty = length_penalty(generation_config)
        output = super()._beam_search(input_ids, generation_config=generation_config, **kwargs)
        lengths = input_ids.shape[1] + output.beam_indices.ge(0).sum(-1, keepdim=True)
        indices = torch.arange(output.sequences.shape[1], device=lengths.device)
        output.sequences = output.sequences.masked_fill(
            indices.ge(lengths), generation_config._pad_token_tensor
        )
        return output if wants_output else output.sequences


def _add_own_settings(generation_config: GenerationConfig, settings: dict[str, object]) -> None:
    for name in OWN_SETTINGS:
        if not hasattr(generation_config, name):
            setattr(generation_config, name, settings[name])


def _saved_ranking(generation_config: GenerationConfig | None) -> dict[str, float]:
    """Return the length penalty of a generation config passed to a call."""
    if generation_config is None:
        return {}
    # Assistants and pipelines pass on what `_prepare_generation_config` has returned and decided.
    is_decided = hasattr(generation_config, "_limit_is_given")
    has_penalty = is_decided and generation_config.gnmt_alpha is None
    neutral = None if has_penalty else NEUTRAL_LENGTH_PENALTY
    return given_ranking(vars(generation_config), neutral)


def _length_limits(generation_config: GenerationConfig, model_kwargs: dict[str, object]) -> Tensor:
    """Return the longest decoder sequence [B] of each sentence, prompt included."""
    memory = model_kwargs["encoder_outputs"][0]
    mask = model_kwargs.get("attention_mask")
    if mask is None:
        mask = torch.ones(memory.shape[:2], dtype=torch.long, device=memory.device)
    return mask.ne(0).sum(-1) + generation_config._longest_extra


def _unshare_memory(model_kwargs: dict[str, object], rows: int) -> None:
    """Repeat memory and mask for each beam: the library's caches reorder them with the beams."""
    outputs = model_kwargs["encoder_outputs"]
    memory = outputs.last_hidden_state.repeat_interleave(rows, dim=0)
    model_kwargs["encoder_outputs"] = type(outputs)(**{**outputs, "last_hidden_state": memory})
    if model_kwargs.get("attention_mask") is not None:
        model_kwargs["attention_mask"] = model_kwargs["attention_mask"].repeat_interleave(rows, 0)
