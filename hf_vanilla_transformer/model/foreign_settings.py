"""What the files of a folder may not say to the library.

The library takes every name that it finds in `config.json` and `tokenizer_config.json`. Among them
are names of files, which could lie anywhere, of kernels that it would download and run, and of its
own methods.
"""

import reprlib

import torch
from transformers import PretrainedConfig, PreTrainedTokenizerBase

# What the library reads beside the model's own fields; null is allowed everywhere.
CONFIG_TYPES = {
    **dict.fromkeys(("id2label", "label2id", "pruned_heads", "task_specific_params"), dict),
    **dict.fromkeys(("prefix", "problem_type", "transformers_version", "tokenizer_class"), str),
    **dict.fromkeys(("output_attentions", "output_hidden_states", "return_dict"), bool),
    "architectures": list,
}
TOKENIZER_TYPES = {
    "model_max_length": int | float,
    "added_tokens_decoder": dict,
    "model_input_names": list,
}
ATTENTION = (None, "eager", "sdpa")
MAX_LABELS = 10_000  # the library makes a name for each
# Objects, not settings: the library takes them from a file all the same.
TOKENIZER_OBJECTS = ("tokenizer_object", "slow_tokenizer", "from_slow", "init_inputs", "gguf_file")


def check_config_settings(
    config_class: type[PretrainedConfig], settings: dict[str, object]
) -> None:
    """Refuse what `config.json` must not say to the library, or what it would stumble over.

    Args:
        config_class: Its methods are no settings.
        settings: All but the model's own fields and what the library itself passes on.

    Raises:
        ValueError: Names the setting and its value.
    """
    _check_names(config_class, settings, ("transformers_weights",))
    _check_types(settings, CONFIG_TYPES)
    attention, labels = settings.get("attn_implementation"), settings.get("num_labels")
    if attention not in ATTENTION:
        raise ValueError(f"attn_implementation={reprlib.repr(attention)} is not eager or sdpa")
    if labels is not None and not (isinstance(labels, int) and 0 <= labels <= MAX_LABELS):
        raise ValueError(f"num_labels={labels!r} is not a whole number up to {MAX_LABELS}")
    for name in ("dtype", "torch_dtype"):
        if not _is_dtype(settings.get(name)):
            raise ValueError(f"{name}={reprlib.repr(settings[name])} is no type of weights")


def check_tokenizer_settings(
    tokenizer_class: type[PreTrainedTokenizerBase], settings: object
) -> None:
    """Refuse what `tokenizer_config.json` must not say to the library, or would stumble over.

    Args:
        tokenizer_class: Its methods are no settings.
        settings: The content of the file.

    Raises:
        ValueError: Names the setting and its value.
    """
    if not isinstance(settings, dict):
        raise ValueError(f"tokenizer_config.json holds {reprlib.repr(settings)}, not an object")
    files = [name for name in settings if name.endswith(("_file", "_files"))]
    _check_names(tokenizer_class, settings, (*files, *TOKENIZER_OBJECTS))
    _check_types(settings, TOKENIZER_TYPES)
    length = settings.get("model_max_length")
    if length is not None and not length > 0:
        raise ValueError(f"model_max_length={length!r} is not a number above 0")


def _check_names(owner: type, settings: dict[str, object], refused: tuple[str, ...]) -> None:
    """Refuse names of files, private names and names of methods."""
    for name, value in settings.items():
        if name.startswith("_") or name in refused or callable(getattr(owner, name, None)):
            text = f"{name}={reprlib.repr(value)}"
            raise ValueError(f"{text} is no setting that a file may have; delete it")


def _check_types(settings: dict[str, object], types: dict[str, type]) -> None:
    for name, kind in types.items():
        value = settings.get(name)
        if value is not None and not isinstance(value, kind):
            wanted = getattr(kind, "__name__", kind)
            raise ValueError(f"{name}={reprlib.repr(value)} is not a {wanted}")


def _is_dtype(value: object) -> bool:
    kind = getattr(torch, value, None) if isinstance(value, str) else value
    return value in (None, "auto") or (isinstance(kind, torch.dtype) and kind.is_floating_point)
