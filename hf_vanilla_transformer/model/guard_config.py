"""Refuse unsafe or unsupported content in the files of a model folder.

The library takes every name that it finds in `config.json` and `tokenizer_config.json`. Among them
are names of files, which could lie anywhere, of kernels that it would download and run, and of its
own methods. A value of another type than it expects ends in a traceback somewhere inside it.
"""

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedTokenizerBase

from .guard_generation import check_search_settings
from .guard_rules import (
    FLAG,
    OBJECT,
    REFUSED,
    TEXT,
    TEXT_OR_NULL,
    Rule,
    check_names,
    check_rules,
    either,
    is_whole,
    listed,
    named,
    one_of,
    whole,
)


def _is_dtype(value: object) -> bool:
    return (getattr(torch, value, None) if isinstance(value, str) else value) in WEIGHT_TYPES


def _is_torchao(value: object) -> bool:
    kind = value.get("quant_type") if isinstance(value, dict) else None
    if not isinstance(kind, dict) or list(kind) != ["default"]:
        return False
    settings = kind["default"]
    is_typed = isinstance(settings, dict) and isinstance(settings.get("_type"), str)
    return value.get("quant_method") == "torchao" and is_typed


def _is_token(value: object) -> bool:
    content = value.get("content") if isinstance(value, dict) else value
    flags = {**value, "content": True, "__type": True} if isinstance(value, dict) else {}
    return (
        isinstance(content, str)
        and len(content) <= MAX_TOKEN
        and flags.keys() <= TOKEN_FIELDS
        and all(isinstance(flag, bool) for flag in flags.values())
    )


def _may_be_tokenizer(name: object) -> bool:
    # An automatic class would ask itself without end; the base has no method to load with.
    if not isinstance(name, str) or name.removesuffix("Fast") in ENDLESS_TOKENIZERS:
        return False
    return "Tokenizer" in name or not hasattr(transformers, name)


def _is_tokenizer(name: object) -> bool:
    is_known = name == "VanillaTransformerTokenizer" or hasattr(transformers, str(name))
    return _may_be_tokenizer(name) and is_known and name != "PreTrainedTokenizer"


def _is_tokenizer_map(value: object) -> bool:
    names = value.get("AutoTokenizer") if isinstance(value, dict) else value
    if names is None:
        return value is not None
    is_pair = isinstance(names, list) and len(names) == 2 and any(names)
    return is_pair and all(isinstance(name, str | None) for name in names)


def _is_length(value: object) -> bool:
    # The library's own word for "no limit" is 1e30.
    return (is_whole(value) and value > 0) or (isinstance(value, float) and value > 1e9)


WEIGHT_TYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
TOKEN_FIELDS = {"content", "__type", "lstrip", "rstrip", "single_word", "normalized", "special"}
ENDLESS_TOKENIZERS = ("AutoTokenizer", "PreTrainedTokenizerBase")
MAX_TOKEN = 1000  # characters; the library of version 4 takes minutes over a hundred thousand
MAX_LABELS = 10_000  # the library makes a name for each

TOKEN = Rule("a token: text, or an object with its content", _is_token)
TOKEN_OBJECT = Rule("an object with a token's content", lambda v: OBJECT.holds(v) and _is_token(v))

# What the library reads beside the model's own fields.
CONFIG_RULES = {
    **dict.fromkeys(("id2label", "label2id"), OBJECT),
    **dict.fromkeys(("prefix", "problem_type", "transformers_version"), TEXT),
    **dict.fromkeys(("output_attentions", "output_hidden_states", "return_dict"), FLAG),
    **dict.fromkeys(("dtype", "torch_dtype"), Rule("a type of weights", _is_dtype)),
    "architectures": listed(TEXT),
    "attn_implementation": one_of("eager", "sdpa"),
    **dict.fromkeys(("add_cross_attention", "is_decoder", "tie_encoder_decoder"), REFUSED),
    "is_encoder_decoder": one_of(True),
    "num_labels": whole(0, MAX_LABELS),
    "pruned_heads": Rule("an empty object", lambda value: value == {}),
    "quantization_config": Rule("a torchao configuration; no other is supported", _is_torchao),
    "task_specific_params": named(OBJECT),
    "tokenizer_class": Rule("a tokenizer's class of transformers", _is_tokenizer),
}
# What a class of the library says of itself, and a file that it would read.
CLASS_SETTINGS = (
    *("attribute_map", "base_config_key", "base_model_ep_plan", "base_model_pp_plan"),
    *("base_model_tp_plan", "keys_to_ignore_at_inference", "sub_configs", "transformers_weights"),
)
# What the automatic classes read, in the files of every model.
CONFIG_READ_RULES = {
    "auto_map": named(either(TEXT, listed(TEXT_OR_NULL)))._replace(takes_null=False),
    "model_type": TEXT,
}
TOKENIZER_READ_RULES = {
    "auto_map": Rule("a pair of names, nor an object with one", _is_tokenizer_map, False),
    "tokenizer_class": Rule("the name of a tokenizer's class", _may_be_tokenizer),
}
SPECIAL_TOKENS = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)
TOKENIZER_RULES = {
    **dict.fromkeys(SPECIAL_TOKENS, TOKEN),
    **dict.fromkeys(
        ("additional_special_tokens", "extra_special_tokens"), either(listed(TOKEN), named(TOKEN))
    ),
    **dict.fromkeys(("padding_side", "truncation_side"), one_of("left", "right")),
    "model_max_length": Rule("a whole number above 0", _is_length),
    "added_tokens_decoder": named(TOKEN_OBJECT),
    "model_input_names": listed(TEXT),
}
# Objects, not settings: the library takes them from a file all the same.
TOKENIZER_OBJECTS = (
    *("tokenizer_object", "slow_tokenizer", "from_slow", "init_inputs", "gguf_file"),
    *("cls", "self"),
)


def check_config_settings(
    config_class: type[PretrainedConfig], settings: dict[str, object]
) -> None:
    """Refuse content of `config.json` that is unsafe or makes transformers fail.

    Args:
        config_class: Its methods are no settings.
        settings: All but the model's own fields and what the library itself passes on.

    Raises:
        ValueError: Names the setting and its value.
    """
    check_names(config_class, settings, refused=CLASS_SETTINGS)
    check_rules(settings, CONFIG_RULES)
    for search in (settings, *(settings.get("task_specific_params") or {}).values()):
        check_search_settings(search)


def check_tokenizer_settings(
    tokenizer_class: type[PreTrainedTokenizerBase], settings: dict[str, object]
) -> None:
    """Refuse content of `tokenizer_config.json` that is unsafe or makes transformers fail.

    Args:
        tokenizer_class: Its methods are no settings.
        settings: The content of the file.

    Raises:
        ValueError: Names the setting and its value.
    """
    files = [name for name in settings if name.endswith(("_file", "_files"))]
    check_names(tokenizer_class, settings, refused=(*files, *TOKENIZER_OBJECTS))
    check_rules(settings, TOKENIZER_RULES)
