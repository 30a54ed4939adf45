"""The growing cache against plain concatenation."""

import random

import pytest
import torch

from hf_vanilla_transformer.model.cache import VanillaTransformerCache
from hf_vanilla_transformer.model.compat import CACHE_KEY

ROWS, HEADS, KEY_WIDTH, VALUE_WIDTH = 4, 2, 3, 5


def draw(length):
    return torch.randn(ROWS, HEADS, length, KEY_WIDTH), torch.randn(
        ROWS, HEADS, length, VALUE_WIDTH
    )


class ConcatenatedCache:
    """Keys and values of one layer, joined with torch.cat at every step."""

    def __init__(self):
        self.states = draw(0)

    def extend(self, new):
        self.states = tuple(torch.cat(pair, dim=2) for pair in zip(self.states, new, strict=True))

    def keep(self, length):
        self.states = tuple(x[:, :, :length] for x in self.states)

    def reorder(self, rows):
        self.states = tuple(x[rows] for x in self.states)


def extend_both(cache, plain, layer_idx, length):
    new = draw(length)
    plain.extend(new)
    found = cache.extend(layer_idx, *new)
    assert all(x.equal(y) for x, y in zip(found, plain.states, strict=True))
    return found


@pytest.mark.parametrize("lengths", [[1] * 200, [3, 1, 61, 1, 1, 70, 1], [64, 1, 63, 1], [500, 1]])
def test_growth_past_every_capacity_is_concatenation(lengths):
    cache, plain = VanillaTransformerCache(1), ConcatenatedCache()
    for length in lengths:
        assert cache.key_length(length) == cache.past_length() + length
        extend_both(cache, plain, 0, length)
        assert cache.past_length() == cache.get_seq_length() == plain.states[0].shape[2]


def reorder(rng, cache, plain):
    rows = torch.tensor([rng.randrange(ROWS) for _ in range(ROWS)])
    cache.reorder_cache(rows)
    for layer in plain:
        layer.reorder(rows)


def keep(rng, cache, plain):
    kept = rng.randint(1, cache.past_length() + 2)
    cache.crop(kept)
    for layer in plain:
        layer.keep(kept)


def drop(rng, cache, plain):
    held = cache.past_length()
    dropped = rng.randint(0, min(3, held - 1))
    cache.crop(-dropped)
    for layer in plain:
        layer.keep(held - dropped)


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_growing_cropping_and_reordering_is_that_of_concatenation(seed):
    rng = random.Random(seed)
    cache, plain = VanillaTransformerCache(2), [ConcatenatedCache() for _ in range(2)]
    for _ in range(30):
        length = rng.choice([1, 1, 1, 4, 40])
        for layer_idx, layer in enumerate(plain):
            extend_both(cache, layer, layer_idx, length)
        rng.choice([reorder, keep, drop])(rng, cache, plain)
        lengths = [cache.get_seq_length(i) for i in range(2)]
        assert lengths == [layer.states[0].shape[2] for layer in plain]


def test_cropping_by_nothing_keeps_everything():
    cache = VanillaTransformerCache(1)
    cache.extend(0, *draw(3))
    cache.crop(0)
    assert cache.past_length() == 3


def test_the_memory_is_stored_once_and_keeps_its_rows_under_beams():
    cache = VanillaTransformerCache(2)
    assert cache.memory(0) is None
    key, value = torch.randn(2, HEADS, 6, KEY_WIDTH), torch.randn(2, HEADS, 6, VALUE_WIDTH)
    assert cache.store_memory(0, key, value=value) == (key, value)
    cache.extend(0, *draw(2))
    cache.reorder_cache(torch.tensor([3, 3, 0, 1]))
    cache.crop(1)
    assert cache.memory(0)[0] is key
    assert cache.memory(0)[1] is value
    assert cache.memory(1) is None


def test_a_token_is_written_in_place_until_the_buffer_is_full():
    cache = VanillaTransformerCache(1)
    keys, _ = cache.extend(0, *draw(1))
    addresses = {cache.extend(0, *draw(1))[0].data_ptr() for _ in range(63)}
    assert addresses == {keys.data_ptr()}
    assert cache.extend(0, *draw(1))[0].data_ptr() != keys.data_ptr()


@pytest.mark.parametrize(
    ("fast", "search"),
    [
        (True, {}),
        (False, {}),
        (True, {"num_beams": 3}),
        (True, {"num_beams": 3, "num_return_sequences": 2}),
    ],
    ids=str,
)
def test_decoding_goes_on_from_the_cache_that_generate_returns(tiny_model, ragged, fast, search):
    model = tiny_model(seed=5)
    model.fast = fast
    source, mask = ragged((7, 4, 2))
    output = model.generate(
        source, attention_mask=mask, max_new_tokens=6, return_dict_in_generate=True, **search
    )
    assert output.sequences.unique().numel() > 4
    assert output[CACHE_KEY].get_seq_length() == output.sequences.shape[1] - 1
    inputs = {"encoder_outputs": model.get_encoder()(source, mask), "attention_mask": mask}
    whole = model(**inputs, decoder_input_ids=output.sequences).logits
    cache = {CACHE_KEY: output[CACHE_KEY]}
    last = model(**inputs, decoder_input_ids=output.sequences[:, -1:], **cache).logits
    torch.testing.assert_close(last[:, 0], whole[:, -1], atol=1e-5, rtol=0)


def test_a_cache_that_nobody_reads_costs_no_step(tiny_model, ragged, monkeypatch):
    model, calls = tiny_model(seed=5), []
    monkeypatch.setattr(type(model.get_decoder()), "forward", lambda *args, **_: calls.append(1))
    output = model.generate(ragged((7, 4))[0], num_beams=2, return_dict_in_generate=True)
    assert isinstance(output[CACHE_KEY], VanillaTransformerCache)
    assert not hasattr(output[CACHE_KEY], "other")
    assert not calls
