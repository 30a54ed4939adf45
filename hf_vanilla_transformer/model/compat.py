"""What differs between transformers 4.57 and 5.x: the only file that knows versions."""

import dataclasses
import functools
import inspect
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import (
    Cache,
    EncoderDecoderCache,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.cache_utils import StaticLayer
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.models.auto import tokenization_auto

from .cache import DecoderCache, VanillaTransformerCache
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .guard_config import CONFIG_READ_RULES, TOKENIZER_READ_RULES
from .guard_rules import check_rules

# From 5.24 on `generate` and the output classes say `cache`, before that `past_key_values`.
_OUTPUT_FIELDS = {field.name for field in dataclasses.fields(Seq2SeqLMOutput)}
CACHE_KEY = "cache" if "cache" in _OUTPUT_FIELDS else "past_key_values"

# From 5.0 on the library ties weights by a table of names.
TIES_BY_TABLE = "missing_keys" in inspect.signature(PreTrainedModel.tie_weights).parameters


class LibraryCache:
    """A cache of the library, seen as the decoder's cache.

    Args:
        cache: Self-attention and cross-attention caches, dynamic or static, of one row for each
            row of the decoder (the library's `reorder_cache` reorders both).
    """

    def __init__(self, cache: EncoderDecoderCache) -> None:
        self._target = cache.self_attention_cache
        self._memory = cache.cross_attention_cache
        self._is_filled = cache.is_updated
        # A copy: the static cache of transformers 5 counts in place while layers are updated.
        self._past_length = cache.get_seq_length() + 0

    def past_length(self) -> int | Tensor:
        """Return how many target positions are held; a tensor if the cache is static."""
        return self._past_length

    def key_length(self, new_tokens: int) -> int:
        """Return how many keys a self-attention will see after `new_tokens` more."""
        layers = self._target.layers
        static_length = getattr(layers[0], "max_cache_len", None) if layers else None
        return static_length or self._past_length + new_tokens

    def extend(self, layer_idx: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append [B, h, T, d] and return all keys and values [B, h, S, d] of a layer."""
        # Static caches of transformers 4 and early 5 do not count for themselves.
        indices = torch.arange(key.shape[2], device=key.device) + self._past_length
        return self._target.update(key, value, layer_idx, {"cache_position": indices})

    def memory(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """Return keys and values of the encoder's memory for a layer, if they are held."""
        if not self._is_filled.get(layer_idx):
            return None
        layer = self._memory.layers[layer_idx]
        return layer.keys, layer.values

    def store_memory(self, layer_idx: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Hold keys and values of the encoder's memory for a layer and return them."""
        self._is_filled[layer_idx] = True
        return self._memory.update(key, value, layer_idx)


def as_decoder_cache(cache: VanillaTransformerCache | Cache | None) -> DecoderCache | None:
    """Return a cache with the methods that the decoder calls.

    Raises:
        TypeError: The cache is neither ours nor an `EncoderDecoderCache`.
    """
    if cache is None or isinstance(cache, VanillaTransformerCache):
        return cache
    if not isinstance(cache, EncoderDecoderCache):
        raise TypeError(
            f"the cache is a {type(cache).__name__}; pass a VanillaTransformerCache or an "
            "EncoderDecoderCache, or leave it out"
        )
    return LibraryCache(cache)


def chosen_cache(
    cache: VanillaTransformerCache | Cache | None,
    past_key_values: VanillaTransformerCache | Cache | None,
) -> VanillaTransformerCache | Cache | None:
    """Return the cache by its new or old name; of two, the one that is not empty.

    PEFT passes its trained prefix under the old name, in addition to the cache of `generate`.
    """
    if past_key_values is None or (cache is not None and cache.get_seq_length()):
        return cache
    return past_key_values


def check_static_cache(config: VanillaTransformerConfig) -> None:
    """Refuse a preallocated cache where the library's has one width for keys and values.

    Raises:
        ValueError: The model has d_k != d_v and this version of transformers cannot hold both.
    """
    is_aware = "value_states" in inspect.signature(StaticLayer.lazy_initialization).parameters
    if config.d_k != config.d_v and not is_aware:
        raise ValueError(
            f"the static cache of this transformers version cannot hold d_k={config.d_k} and "
            f"d_v={config.d_v}; leave cache_implementation out, or upgrade transformers"
        )


def check_what_auto_classes_read() -> None:
    """Have the automatic classes refuse, by name, what they would stumble over.

    They read files before they know whose class to ask, and `AutoTokenizer` of transformers 5 takes
    a config that its class has refused for a common one. For the models of others only what would
    end in a traceback is refused.
    """
    for owner, check in ((PretrainedConfig, _check_config), (GenerationConfig, dict)):
        read = owner._dict_from_json_file.__func__
        owner._dict_from_json_file = classmethod(_checked(read, check))
    read = tokenization_auto.get_tokenizer_config
    tokenization_auto.get_tokenizer_config = _checked(read, _check_tokenizer_config)


def recompute_activations(model: PreTrainedModel) -> None:
    """Have the layers compute their activations again in the backward pass, to save memory."""
    # From 5.24 on the old name is deprecated.
    new_name = getattr(model, "activation_checkpointing_enable", None)
    enable = new_name or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def _checked(
    read: Callable[..., dict[str, object]], check: Callable[[dict[str, object]], object]
) -> Callable[..., dict[str, object]]:
    """Wrap a function that reads settings; the last of its arguments says from where."""

    @functools.wraps(read)
    def wrapper(*args: object, **kwargs: object) -> dict[str, object]:
        try:
            settings = read(*args, **kwargs)
            check(dict(settings.items()))
        except (TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"{args[-1]} has a file that is no object of JSON: {error}") from error
        return settings

    return wrapper


def _check_config(settings: dict[str, object]) -> None:
    check_rules(settings, CONFIG_READ_RULES)
    if settings.get("model_type") == VanillaTransformerConfig.model_type:
        VanillaTransformerConfig.from_dict(settings)


def _check_tokenizer_config(settings: dict[str, object]) -> None:
    check_rules(settings, TOKENIZER_READ_RULES)
