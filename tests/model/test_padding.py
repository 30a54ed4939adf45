"""A translation does not depend on padding, nor on the sentences beside it.

Reported of others: https://github.com/OpenNMT/OpenNMT-py/issues/318
"""

import pytest
import torch

SENTENCES = ["a", "b c d e f g h i", "j"]
SEARCHES = [{}, {"num_beams": 4}]
BACKENDS = ["eager", "sdpa"]


@pytest.fixture(params=BACKENDS)
def model(tiny_model, request):
    model = tiny_model()
    model.set_attn_implementation(request.param)
    return model


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_batch_mates_do_not_change_a_translation(reversing_model, search):
    expected = [reversing_model.translate([s], **search)[0] for s in SENTENCES]
    assert expected[1] == "i h g f e d c b"
    assert all(expected)
    for order in (1, -1):
        batch = SENTENCES[::order]
        for size in (1, 2, 3):
            chunks = [batch[i : i + size] for i in range(0, 3, size)]
            found = [line for c in chunks for line in reversing_model.translate(c, **search)]
            assert found[::order] == expected


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_amount_and_side_of_padding_do_not_matter(reversing_model, side, backend, search):
    model, before = reversing_model.model, reversing_model.model.config._attn_implementation
    expected = reversing_model.translate(SENTENCES, **search)
    model.set_attn_implementation(backend)
    inputs = reversing_model.encode(SENTENCES, width=64, side=side)
    assert inputs["input_ids"].shape == (3, 64)
    assert reversing_model.decode(model.generate(**inputs, **search)) == expected
    model.set_attn_implementation(before)


def states_and_logits(model, ids, mask, target):
    output = model(input_ids=ids, attention_mask=mask, decoder_input_ids=target)
    return output.encoder_last_hidden_state, output.logits


@pytest.mark.parametrize(("side", "extra"), [("right", 0), ("right", 50), ("left", 0), ("left", 9)])
def test_states_and_logits_of_a_batch_are_those_of_single_sentences(model, ragged, side, extra):
    lengths = (7, 4, 2)
    ids, mask = ragged(lengths, side=side, extra=extra)
    target = torch.randint(4, 100, (3, 5))
    states, logits = states_and_logits(model, ids, mask, target)
    for row, length in enumerate(lengths):
        alone = ids[row][mask[row].bool()][None]
        assert alone.shape == (1, length)
        own_states, own_logits = states_and_logits(model, alone, None, target[row : row + 1])
        torch.testing.assert_close(states[row][mask[row].bool()], own_states[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(logits[row], own_logits[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("side", ["right", "left"])
def test_ids_under_the_padding_do_not_matter(model, ragged, side):
    ids, mask = ragged(side=side)
    target = torch.randint(4, 100, (3, 5))
    garbage = ids.masked_fill(mask.eq(0), 5)
    assert not garbage.equal(ids)
    clean, dirty = (states_and_logits(model, x, mask, target) for x in (ids, garbage))
    is_real = mask.bool()
    torch.testing.assert_close(dirty[0][is_real], clean[0][is_real], atol=0, rtol=0)
    torch.testing.assert_close(dirty[1], clean[1], atol=0, rtol=0)
    found, expected = (
        model.generate(x, attention_mask=mask, max_new_tokens=6) for x in (garbage, ids)
    )
    assert found.equal(expected)
    # The same garbage counts where the mask shows it.
    shown = states_and_logits(model, garbage, torch.ones_like(mask), target)[1]
    assert (shown[2] - clean[1][2]).abs().max() > 1e-3


@pytest.mark.parametrize("side", ["right", "left"])
def test_a_padded_batch_without_a_mask_is_masked_all_the_same(model, ragged, side):
    ids, mask = ragged(side=side)
    target = torch.randint(4, 100, (3, 5))
    given, inferred = (states_and_logits(model, ids, m, target) for m in (mask, None))
    torch.testing.assert_close(inferred[1], given[1], atol=0, rtol=0)
    for search in SEARCHES:
        found, expected = (
            model.generate(ids, **kwargs, max_new_tokens=6, **search)
            for kwargs in ({}, {"attention_mask": mask})
        )
        assert found.equal(expected)


@pytest.mark.parametrize("side", ["right", "left"])
def test_backends_agree_on_a_padded_batch(tiny_model, ragged, side):
    ids, mask = ragged(side=side, extra=3)
    target, target_mask = ragged((3, 6, 5), seed=2, side=side)
    results = []
    for backend in BACKENDS:
        model = tiny_model()
        model.set_attn_implementation(backend)
        results.append(
            model(
                input_ids=ids,
                attention_mask=mask,
                decoder_input_ids=target,
                decoder_attention_mask=target_mask,
            ).logits
        )
    is_real = target_mask.bool()
    assert results[0].std() > 0.5
    torch.testing.assert_close(results[0][is_real], results[1][is_real], atol=1e-5, rtol=0)
