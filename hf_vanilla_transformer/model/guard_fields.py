"""Names of configuration fields, and refusal of unknown names.

transformers keeps every unknown name, so a misspelt field would silently keep its default. In a
call every unknown name is refused. A file may contain fields of other tools; there a name is
refused if it resembles a field or consists of words that describe an architecture.
"""

import inspect
import re
import reprlib
from collections.abc import Iterable
from difflib import get_close_matches

from transformers import PretrainedConfig

from .guard_config import CONFIG_RULES
from .guard_generation import SEARCH_RULES

CLOSE = 0.75
# Beside what the installed version has: fields of other versions, and arguments of the base class.
LIBRARY_FIELDS = {
    *vars(PretrainedConfig()),
    *CONFIG_RULES,
    *SEARCH_RULES,
    *("auto_map", "custom_pipelines", "model_type", "_commit_hash", "_name_or_path"),
    *("chunk_size_feed_forward", "cross_attention_hidden_size", "finetuning_task"),
    *("gradient_checkpointing", "name_or_path", "sep_token_id"),
    *("tf_legacy_loss", "torchscript", "use_bfloat16"),
}
ARCHITECTURE = re.compile(
    r"(?:^|_)(?:act|activation|attention|attn|bias|bos|decoder|depth|dims?|drop|dropout|embed|"
    r"embeddings?|encoder|eos|experts?|ff|ffn|heads?|hidden|intermediate|kv|layers?|mlp|norm|pad|"
    r"positions?|rope|rotary|smoothing|tie|vocab|width|window)(?:_|$)"
)


def own_fields(config_class: type[PretrainedConfig]) -> set[str]:
    """Return the field names of a configuration class, aliases included."""
    return {*inspect.signature(config_class.__init__).parameters, *config_class.attribute_map} - {
        *("self", "kwargs")
    }


def check_field_names(config_class: type[PretrainedConfig], settings: dict[str, object]) -> None:
    """Refuse names that are unknown to the configuration and to transformers.

    Raises:
        ValueError: A name is unknown; the message has its value and the most similar field.
    """
    fields = own_fields(config_class)
    for name in sorted(settings.keys() - fields - LIBRARY_FIELDS):
        close = get_close_matches(name, fields, 1, CLOSE)
        remedy = f"did you mean {close[0]}?" if close else "leave it out"
        text = f"{name}={reprlib.repr(settings[name])}"
        raise ValueError(f"{text} is no field of {config_class.__name__}; {remedy}")


def notes(config_class: type[PretrainedConfig], names: Iterable[str]) -> set[str]:
    """Return the names in a file that belong to other tools."""
    fields = own_fields(config_class)
    return {
        name
        for name in {*names} - fields - LIBRARY_FIELDS
        if not ARCHITECTURE.search(name)
        and not get_close_matches(name, fields, 1, CLOSE)
        and not hasattr(config_class, name)
    }
