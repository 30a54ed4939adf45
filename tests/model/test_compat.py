"""What differs between versions of transformers, on the one that is installed."""

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache

from hf_vanilla_transformer.model.cache import VanillaTransformerCache
from hf_vanilla_transformer.model.compat import (
    CACHE_KEY,
    LibraryCache,
    as_decoder_cache,
    chosen_cache,
    recompute_activations,
)


def library_cache():
    return EncoderDecoderCache(DynamicCache(), DynamicCache())


def draw(length):
    return torch.randn(2, 4, length, 8), torch.randn(2, 4, length, 8)


def test_a_cache_of_the_library_keeps_what_is_appended_and_stores_memory_once():
    parts = [draw(length) for length in (3, 1, 2)]
    cache = library_cache()
    for count, (key, value) in enumerate(parts, start=1):
        seen = as_decoder_cache(cache)
        assert isinstance(seen, LibraryCache)
        assert seen.past_length() == sum(len(part[0][0, 0]) for part in parts[: count - 1])
        assert seen.key_length(key.shape[2]) == seen.past_length() + key.shape[2]
        keys, values = seen.extend(0, key, value)
        assert keys.equal(torch.cat([part[0] for part in parts[:count]], 2))
        assert values.equal(torch.cat([part[1] for part in parts[:count]], 2))
    memory = draw(5)
    assert as_decoder_cache(cache).memory(0) is None
    assert all(a.equal(b) for a, b in zip(seen.store_memory(0, *memory), memory, strict=True))
    again = as_decoder_cache(cache).memory(0)
    assert all(found.equal(part) for found, part in zip(again, memory, strict=True))


def test_our_cache_is_taken_as_it_is_and_another_kind_is_refused():
    ours = VanillaTransformerCache(1)
    assert as_decoder_cache(ours) is ours
    assert as_decoder_cache(None) is None
    with pytest.raises(TypeError, match="the cache is a DynamicCache; pass"):
        as_decoder_cache(DynamicCache())


def test_a_full_cache_under_the_old_name_is_taken_before_an_empty_one():
    empty, full = library_cache(), library_cache()
    full.self_attention_cache.update(*draw(2), 0)
    assert chosen_cache(empty, full) is full
    assert chosen_cache(full, empty) is full
    assert chosen_cache(None, empty) is empty
    assert chosen_cache(full, None) is full


def test_the_name_of_the_cache_is_one_that_outputs_have(tiny_model):
    model = tiny_model()
    output = model(torch.tensor([[5, 3]]), decoder_input_ids=torch.tensor([[2]]), use_cache=True)
    assert output[CACHE_KEY] is not None


def test_activations_are_computed_again_in_every_layer(tiny_model):
    model = tiny_model().train()
    recompute_activations(model)
    assert model.get_encoder().is_recomputed()
    assert model.get_decoder().is_recomputed()
