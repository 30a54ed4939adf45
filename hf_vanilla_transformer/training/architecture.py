"""Fields of a model's configuration as words of the command line, `dropout=0.2`."""

import difflib
import inspect
from collections.abc import Sequence

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig

# Others follow from the tokenizer, or have an option of their own.
FIELDS = (
    *("d_model", "d_ff", "num_heads", "d_k", "d_v", "encoder_layers", "decoder_layers"),
    *("dropout", "attention_dropout", "activation_dropout", "activation_function"),
    *("norm_position", "position_type", "max_position_embeddings"),
    *("attention_bias", "scale_embedding", "tie_word_embeddings", "output_bias"),
)
_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(VanillaTransformerConfig.__init__).parameters.items()
}
_TRUTH = {"true": True, "false": False}


def read_architecture(words: Sequence[str]) -> dict[str, object]:
    """Return fields of the configuration; whether a value is in range, the configuration tells.

    Args:
        words: `NAME=VALUE` each.

    Raises:
        ValueError: A word is of another form, its name is none of `FIELDS` or comes twice, or its
            value is of another type than the field's.
    """
    fields: dict[str, object] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {near[0]}" if near else f"give NAME=VALUE of {', '.join(FIELDS)}"
            raise ValueError(f"architecture {word!r} is no field of the model; {hint}")
        if name in fields:
            raise ValueError(f"architecture {name} is given twice; leave one out")
        fields[name] = _value(name, text)
    return fields


def _value(name: str, text: str) -> object:
    default = _DEFAULTS[name]
    kind = int if default is None else type(default)
    try:
        return _TRUTH[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        expected = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise ValueError(f"architecture {name}={text} is not {expected}") from None
