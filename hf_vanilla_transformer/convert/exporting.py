"""What every export shares: what is refused, and what `generate` is set to."""

import json
import logging
from pathlib import Path

import torch
from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.model.generation import LIBRARY_MAX_LENGTH, OWN_SETTINGS
from hf_vanilla_transformer.model.vocabulary import ids_past_tokenizer
from hf_vanilla_transformer.storage.files import write_json

logger = logging.getLogger(__name__)

EXPORTED = "VanillaTransformerForConditionalGeneration"
MODEL_INPUTS = ["input_ids", "attention_mask"]
SINUSOID_ROWS = 1024
"""Fewest rows of a table of sinusoids: other programs cut longer sources unless told otherwise."""


def check_model(
    model: PreTrainedModel, form: str, *, expressible: dict[str, tuple[object, ...]]
) -> None:
    """Refuse a model that a format cannot hold.

    Args:
        model: Any model.
        form: Name of the format.
        expressible: Values that the format knows of fields of which it knows not all values.

    Raises:
        ValueError: It is no model of this package, has adapters or is in int8, or the format cannot
            express a field: names it, its value and what the format knows.
    """
    kind = type(model).__name__  # code that came with a checkpoint has a class of its own
    if kind != EXPORTED:
        raise ValueError(f"a {kind} cannot be exported, only a {EXPORTED}")
    names = model.state_dict()
    if any(".base_layer." in name for name in names):
        raise ValueError("the model has adapters; merge them with merge_and_unload() and save it")
    if "lm_head.weight" not in names:
        raise ValueError("the model is in int8; export the one that it was made of")
    config = model.config
    width = (config.d_model / config.num_heads,)
    for field, values in {**expressible, "d_k": width, "d_v": width}.items():
        if (value := getattr(config, field)) not in values:
            known = " or ".join(f"{x:g}" if isinstance(x, float) else repr(x) for x in values)
            raise ValueError(f"{form} cannot express {field}={value!r}, only {known}")


def check_is_new(folder: str | Path) -> None:
    """Refuse to write over something.

    Raises:
        ValueError: There is a file of that name, or a folder with something in it.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"output folder {folder} is not empty; name a new one")


def float_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return a copy of every tensor, as fp32 on the CPU; tied ones under each of their names."""
    return {
        name: tensor.to("cpu", torch.float32, copy=True)
        for name, tensor in model.state_dict().items()
    }


def position_rows(model: PreTrainedModel) -> int:
    """Return the rows of a table of positions in which every sentence within the limits fits."""
    if longest := model.get_decoder().embed_positions.longest:
        return longest
    longest = model.config.max_position_embeddings
    return max(SINUSOID_ROWS, longest, longest_translation(model) + 1)


def longest_translation(model: PreTrainedModel) -> int:
    """Return how many tokens `generate` writes at most, end of sentence included."""
    settings, longest = model.generation_config, model.config.max_position_embeddings
    if settings.max_new_tokens is not None:
        return settings.max_new_tokens
    if settings.max_length not in (None, LIBRARY_MAX_LENGTH):
        return settings.max_length - 1
    if table := model.get_decoder().embed_positions.longest:
        return table - 1
    name = "extra_decode_length"
    return longest + getattr(settings, name, OWN_SETTINGS[name])


def length_exponent(settings: GenerationConfig) -> float:
    """Return a for hypotheses ranked by log-probability / n^a, which every format knows.

    The paper's ((5 + n) / 6)^alpha is no power of n: alpha stands in for a, which is logged.
    """
    alpha = getattr(settings, "gnmt_alpha", None)
    if alpha is None:
        return 1.0 if settings.length_penalty is None else settings.length_penalty
    logger.warning(
        "gnmt_alpha=%s, ((5+n)/6)^%s, becomes a length_penalty, n^%s: beam search may rank "
        "translations of different lengths differently",
        *(alpha,) * 3,
    )
    return alpha


def suppressed_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Return the ids that `generate` never writes."""
    chosen = model.generation_config.suppress_tokens or ()
    past = ids_past_tokenizer(model, tokenizer)
    return sorted({model.config.pad_token_id, *chosen, *past})


def check_tokenizer(size: int, rows: int, *, side: str) -> None:
    """Refuse a tokenizer with more entries than a model has embeddings.

    Raises:
        ValueError: Gives both numbers.
    """
    if size > rows:
        raise ValueError(
            f"the {side}'s tokenizer has {size} entries and the model {rows} embeddings; "
            "give the tokenizer that the model was trained with"
        )


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a tokenizer so that `AutoTokenizer` needs no code of ours to read it.

    With two vocabularies it does: no class of the library has them.
    """
    tokenizer.save_pretrained(folder)
    if not hasattr(tokenizer, "target_backend") or tokenizer.target_backend is not None:
        return
    file = folder / "tokenizer_config.json"
    settings = json.loads(file.read_text("utf-8"))
    del settings["auto_map"]
    plain = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": MODEL_INPUTS}
    write_json(file, settings | plain)
    for code in folder.glob("*.py"):
        code.unlink()
