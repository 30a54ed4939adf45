"""The contenders: our model, HF Marian and CTranslate2, all of the same weights."""

import copy
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import Tokenizer, models
from transformers import GenerationConfig, MarianMTModel, PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.benchmark.measuring import Case, Contender, SourceRows
from hf_vanilla_transformer.convert.ctranslate2 import export_to_ctranslate2
from hf_vanilla_transformer.convert.marian import export_to_marian
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.model.tokenization_vanilla_transformer import (
    VanillaTransformerTokenizer,
)
from hf_vanilla_transformer.storage.models import load_for_translation

PRECISIONS = {
    "ours": ("fp32", "bf16", "int8"),
    "marian": ("fp32", "bf16"),
    "ctranslate2": ("fp32", "int8"),
}
CONTENDERS = [f"{engine}-{precision}" for engine in PRECISIONS for precision in PRECISIONS[engine]]
COMPUTE_TYPES = {"fp32": "float32", "int8": "int8"}
ROLE_TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}

Model = tuple[VanillaTransformerForConditionalGeneration, PreTrainedTokenizerBase]


def random_model(config: VanillaTransformerConfig) -> Model:
    """Return a model with random weights, the same at every call, and its target tokenizer."""
    torch.manual_seed(1)
    entries = min(config.vocab_size, config.decoder_vocab_size or config.vocab_size)
    words = [f"w{index}" for index in range(len(ROLE_TOKENS), entries)]
    vocabulary = {token: index for index, token in enumerate([*ROLE_TOKENS.values(), *words])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=ROLE_TOKENS["unk_token"]))
    tokenizer = VanillaTransformerTokenizer(tokenizer_object=backend, **ROLE_TOKENS)
    return VanillaTransformerForConditionalGeneration(config).eval(), tokenizer


def load_model(name: str) -> Model:
    """Load one of our models and its tokenizer, by its folder or its name on the Hub.

    Raises:
        ValueError: There is none of that name, or it is another kind of model.
    """
    model, tokenizer = load_for_translation(name, device="cpu")
    if not isinstance(model, VanillaTransformerForConditionalGeneration):
        kind = type(model).__name__
        raise ValueError(f"{name} is a {kind}; benchmark takes models of this package")
    return model, tokenizer


class Contenders:
    """Makes contenders of one model, each on its own copy of the weights.

    Args:
        model: Its generation settings are replaced: a contender does nothing but decode, by lengths
            that are forced, without rules that one engine has to apply and another has not.
        tokenizer: Its tokenizer.
        threads: For engines that do not go by PyTorch's number.
        longest: The most tokens of a translation that will be asked for.
    """

    def __init__(
        self,
        model: VanillaTransformerForConditionalGeneration,
        tokenizer: PreTrainedTokenizerBase,
        *,
        threads: int,
        longest: int,
    ) -> None:
        self.model, self.tokenizer, self.threads = model, tokenizer, threads
        model.generation_config = _plain_settings(model)
        model.generation_config.max_new_tokens = longest  # exported tables of positions reach there

    def make(self, name: str) -> Contender:
        """Make a contender by its name in `CONTENDERS`.

        Raises:
            ValueError: Its engine is not installed, or cannot express the model.
        """
        engine, precision = name.split("-")
        if engine == "ctranslate2":
            with TemporaryDirectory() as folder:
                export_to_ctranslate2(self.model, self.tokenizer, folder)
                return _translating(Path(folder), COMPUTE_TYPES[precision], threads=self.threads)
        return _generating(self.make_model(name))

    def make_model(self, name: str) -> PreTrainedModel:
        """Make the model of a PyTorch contender.

        Raises:
            ValueError: Its engine cannot express the model.
        """
        engine, precision = name.split("-")
        model = self.model if engine == "ours" else self._marian
        if precision == "int8":
            return model.quantize_int8()
        return copy.deepcopy(model).bfloat16() if precision == "bf16" else model

    def make_all(self, names: Sequence[str] | None) -> tuple[dict[str, Contender], dict[str, str]]:
        """Make those of `names`; None makes all that there can be.

        Returns:
            Contenders by name, and why others are missing.

        Raises:
            ValueError: A contender that is named cannot be made.
        """
        made: dict[str, Contender] = {}
        missing: dict[str, str] = {}
        for name in names or CONTENDERS:
            try:
                made[name] = self.make(name)
            except ValueError as error:
                if names:
                    raise ValueError(f"{name} cannot take part: {error}") from error
                missing[name] = str(error)
        return made, missing

    @cached_property
    def _marian(self) -> MarianMTModel:
        with TemporaryDirectory() as folder:
            export_to_marian(self.model, self.tokenizer, folder)
            model = MarianMTModel.from_pretrained(folder, dtype=torch.float32).eval()
        model.generation_config = _plain_settings(model)
        return model


def _plain_settings(model: PreTrainedModel) -> GenerationConfig:
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    return GenerationConfig(**{name: getattr(model.config, name) for name in names})


def _generating(model: PreTrainedModel) -> Contender:
    """Return the `generate` of a model, as users call it."""

    def decode(sources: SourceRows, case: Case) -> list[list[int]]:
        return generate(model, sources, case=case)[:, 1:].tolist()

    return decode


def generate(
    model: PreTrainedModel, sources: SourceRows, *, case: Case, **settings: object
) -> object:
    """Return what `generate` of a model gives for a case."""
    ids = torch.tensor(sources)
    length = {"min_new_tokens": case.new_tokens, "max_new_tokens": case.new_tokens}
    search = {"num_beams": case.beams, "do_sample": False, **length, **settings}
    return model.generate(ids, attention_mask=torch.ones_like(ids), **search)


def _translating(folder: Path, compute_type: str, *, threads: int) -> Contender:
    """Return CTranslate2 on a folder that was exported for it."""
    import ctranslate2

    engine = ctranslate2.Translator(
        str(folder), compute_type=compute_type, inter_threads=1, intra_threads=threads
    )
    words, target = (_vocabulary(folder, side) for side in ("source", "target"))
    indices = {token: index for index, token in enumerate(target)}

    def decode(sources: SourceRows, case: Case) -> list[list[int]]:
        results = engine.translate_batch(
            [[words[index] for index in row] for row in sources],
            beam_size=case.beams,
            max_input_length=0,
            min_decoding_length=case.new_tokens,
            max_decoding_length=case.new_tokens,
        )
        return [[indices[token] for token in result.hypotheses[0]] for result in results]

    return decode


def _vocabulary(folder: Path, side: str) -> list[str]:
    """Return the tokens of a side by their ids."""
    own = folder / f"{side}_vocabulary.json"
    return json.loads((own if own.exists() else folder / "shared_vocabulary.json").read_bytes())
