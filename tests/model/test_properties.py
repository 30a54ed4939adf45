"""Standing properties of the model, over random architectures and shapes."""

import random

import pytest
import torch

from hf_vanilla_transformer.model.compat import CACHE_KEY

SEEDS = range(5)


def random_fields(seed):
    rng = random.Random(seed)
    heads = rng.choice([1, 2, 4])
    return {
        "seed": seed,
        "num_heads": heads,
        "d_model": rng.choice([16, 24, 48]),
        "d_ff": rng.choice([20, 64]),
        "d_k": rng.choice([4, 9]),
        "d_v": rng.choice([5, 8]),
        "encoder_layers": rng.choice([1, 2, 3]),
        "decoder_layers": rng.choice([1, 2, 3]),
        "norm_position": rng.choice(["post", "pre"]),
        "position_type": rng.choice(["sinusoidal", "learned"]),
        "activation_function": rng.choice(["relu", "gelu", "silu", "swiglu"]),
        "attention_bias": rng.choice([True, False]),
        "output_bias": rng.choice([True, False]),
        "share_encoder_decoder_embeddings": rng.choice([True, False]),
        "tie_word_embeddings": rng.choice([True, False]),
    }


def lengths(seed, rows=4, longest=11):
    rng = random.Random(100 + seed)
    drawn = [rng.randint(1, longest) for _ in range(rows - 2)]
    return (longest, *drawn, 1)


@pytest.fixture(params=SEEDS)
def model(request, tiny_model):
    model = tiny_model(**random_fields(request.param))
    model.test_seed = request.param
    return model


def decisive(model):
    """Sharpen the output and let the layers, not the last token's embedding, decide it."""
    with torch.no_grad():
        for layer in model.model.decoder.layers:
            for module in (layer.ffn.fc2, layer.cross_attn.out_proj, layer.self_attn.out_proj):
                module.weight.mul_(5)
        for embeddings in {model.model.encoder.embed_tokens, model.model.decoder.embed_tokens}:
            embeddings.weight.mul_(2)
        if not model.config.tie_word_embeddings:
            model.lm_head.weight.mul_(8)
    return model


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}, {"num_beams": 4, "gnmt_alpha": 0.6}])
def test_cached_equals_uncached(model, ragged, search):
    decisive(model)
    ids, mask = ragged(lengths(model.test_seed))
    settings = {"attention_mask": mask, "max_new_tokens": 12, "no_repeat_ngram_size": 1, **search}
    cached = model.generate(ids, **settings)
    assert torch.equal(cached, model.generate(ids, use_cache=False, **settings))
    assert cached.unique().numel() > 4, "a constant output proves nothing"


@pytest.mark.parametrize("with_gradients", [True, False])
def test_cached_steps_give_the_logits_of_one_pass(model, ragged, with_gradients):
    with torch.set_grad_enabled(with_gradients):
        check_cached_steps(model, ragged)


def check_cached_steps(model, ragged):
    ids, mask = ragged(lengths(model.test_seed))
    target, target_mask = ragged((9, 6, 9, 9), side="left", seed=5)
    whole = model(ids, mask, target, target_mask, use_cache=False).logits
    cache, steps = None, []
    for start, end in ((0, 3), (3, 4), (4, 9)):
        output = model(
            ids, mask, target[:, start:end], target_mask[:, :end], cache=cache, use_cache=True
        )
        cache = output[CACHE_KEY]
        steps.append(output.logits)
    is_real = target_mask.bool()
    stepped = torch.cat(steps, 1)[is_real]
    torch.testing.assert_close(stepped, whole[is_real], atol=1e-5, rtol=1e-5)
    if whole.requires_grad:
        weight = model.model.decoder.layers[0].self_attn.k_proj.weight
        gradients = [
            torch.autograd.grad(t.square().sum(), weight)[0] for t in (stepped, whole[is_real])
        ]
        torch.testing.assert_close(*gradients, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("extra", [0, 5])
def test_batch_equals_single_rows(model, ragged, side, extra):
    sizes = lengths(model.test_seed)
    ids, mask = ragged(sizes, side=side, extra=extra)
    target, target_mask = ragged((5, 8, 1, 3), side=side, extra=extra, seed=7)
    batched = model(ids, mask, target, target_mask)
    for row in range(len(sizes)):
        source, target_row = mask[row].bool(), target_mask[row].bool()
        single = model(ids[row][source][None], None, target[row][target_row][None])
        torch.testing.assert_close(
            batched.encoder_last_hidden_state[row][source],
            single.encoder_last_hidden_state[0],
            atol=1e-5,
            rtol=1e-5,
        )
        torch.testing.assert_close(
            batched.logits[row][target_row], single.logits[0], atol=2e-5, rtol=1e-5
        )


@pytest.mark.parametrize("search", [{}, {"num_beams": 4, "gnmt_alpha": 0.6}])
@pytest.mark.parametrize("side", ["left", "right"])
def test_generated_batch_equals_single_rows(model, ragged, side, search):
    decisive(model)
    sizes = lengths(model.test_seed)
    ids, mask = ragged(sizes, side=side, extra=3)
    limit = {"extra_decode_length": 4} if model.config.position_type == "sinusoidal" else {}
    batched = model.generate(ids, attention_mask=mask, **search, **limit)
    for row in range(len(sizes)):
        single = model.generate(ids[row][mask[row].bool()][None], **search, **limit)[0]
        width = single.shape[0]
        assert torch.equal(batched[row, :width], single)
        assert batched[row, width:].eq(0).all()


def test_eager_equals_sdpa_in_values_and_gradients(model, ragged):
    ids, mask = ragged(lengths(model.test_seed))
    labels, label_mask = ragged((7, 3, 5, 1), seed=9)
    labels = labels.masked_fill(label_mask.eq(0), -100)
    results = {}
    for backend in ("eager", "sdpa"):
        model.set_attn_implementation(backend)
        assert model.config._attn_implementation == backend
        model.zero_grad()
        output = model(input_ids=ids, attention_mask=mask, labels=labels)
        output.loss.backward()
        results[backend] = output.logits, [p.grad.clone() for p in model.parameters()]
    torch.testing.assert_close(*(results[b][0] for b in results), atol=1e-5, rtol=1e-5)
    for eager, sdpa in zip(*(results[b][1] for b in results), strict=True):
        torch.testing.assert_close(eager, sdpa, atol=1e-5, rtol=1e-4)


def test_packed_equals_unpacked(model):
    generator = torch.Generator().manual_seed(model.test_seed)
    pairs = [
        tuple(torch.randint(4, 100, (n,), generator=generator) for n in sizes)
        for sizes in ((4, 6), (7, 2), (1, 3))
    ]

    def pack(side, padding):
        ids = torch.cat([pair[side] for pair in pairs] + [torch.zeros(padding, dtype=torch.long)])
        segments = [torch.full_like(pair[side], i + 1) for i, pair in enumerate(pairs)]
        segments.append(torch.zeros(padding, dtype=torch.long))
        return ids[None], torch.cat(segments)[None]

    (source, source_segments), (target, target_segments) = pack(0, 2), pack(1, 3)
    packed = model(source, source_segments, target, target_segments).logits[0]
    for i, (source_ids, target_ids) in enumerate(pairs):
        alone = model(source_ids[None], None, target_ids[None]).logits[0]
        torch.testing.assert_close(
            packed[target_segments[0].eq(i + 1)], alone, atol=2e-5, rtol=1e-5
        )


def test_future_tokens_never_matter(model, ragged):
    ids, mask = ragged(lengths(model.test_seed))
    target = torch.randint(4, 100, (4, 8))
    changed = target.clone()
    changed[:, 5:] = (target[:, 5:] - 4 + 17) % 96 + 4
    before, after = (model(ids, mask, t).logits for t in (target, changed))
    torch.testing.assert_close(before[:, :5], after[:, :5], atol=1e-6, rtol=1e-6)
    assert (before[:, 5:] - after[:, 5:]).abs().max() > 1e-3


def test_what_is_masked_never_matters(model, ragged):
    ids, mask = ragged(lengths(model.test_seed), extra=2)
    target, target_mask = ragged((5, 8, 2, 3), side="left", seed=7)
    garbage = [torch.where(m.eq(0), 57, t) for t, m in ((ids, mask), (target, target_mask))]
    clean = model(ids, mask, target, target_mask).logits
    dirty = model(garbage[0], mask, garbage[1], target_mask).logits
    is_real = target_mask.bool()
    assert torch.equal(clean[is_real], dirty[is_real])


def test_saved_and_loaded_gives_the_same_logits(model, ragged, tmp_path):
    ids, mask = ragged(lengths(model.test_seed))
    target = torch.randint(4, 100, (4, 8))
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert not loaded.training
    assert torch.equal(model(ids, mask, target).logits, loaded(ids, mask, target).logits)
    states = model.state_dict(), loaded.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_without_a_mask_padding_ids_are_padding(model, ragged):
    ids, mask = ragged(lengths(model.test_seed))
    target = torch.randint(4, 100, (4, 8))
    assert torch.equal(model(ids, None, target).logits, model(ids, mask, target).logits)
