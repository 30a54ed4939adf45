"""The fast search gives what the library's loop gives, whatever settings come together."""

import random

import pytest
import torch

from hf_vanilla_transformer.model.cache import LaterCache
from hf_vanilla_transformer.model.compat import CACHE_KEY

ENDS = (3, 10, 20, 30, 41)
ARCHITECTURES = (
    {},
    {"norm_position": "pre", "activation_function": "swiglu"},
    {"attention_bias": True, "output_bias": True},
    {"position_type": "learned", "d_k": 24, "d_v": 8},
    {"tie_word_embeddings": False, "activation_function": "gelu"},
    {"decoder_vocab_size": 90, "share_encoder_decoder_embeddings": False},
)


def draw_settings(draw, sources):
    """Draw settings: always a search and a limit, and each of the others now and then."""

    def ids(most):
        return draw.sample(range(90), draw.randint(1, most))

    beams = draw.choice([1, 1, 2, 3, 5])
    settings = {"num_beams": beams, "return_dict_in_generate": True, "output_scores": True}
    settings |= draw.choice(
        [{"max_new_tokens": draw.randint(2, 12)}, {"max_length": draw.randint(5, 12)}]
        + [{"extra_decode_length": draw.randint(0, 6)}]
    )
    if beams > 1:
        settings["early_stopping"] = draw.choice([True, False, "never"])
        settings["num_return_sequences"] = draw.randint(1, beams)
        settings |= draw.choice(
            [{}, {"length_penalty": draw.choice([-2.0, -0.5, 0.0, 0.7, 1.0, 3.0])}]
            + [{"gnmt_alpha": draw.choice([0.0, 0.6, 2.0])}]
        )
    others = {
        "eos_token_id": draw.sample(ENDS, draw.randint(1, len(ENDS))),
        "min_new_tokens": draw.randint(1, 5),
        "min_length": draw.randint(1, 8),
        "suppress_tokens": ids(20),
        "begin_suppress_tokens": ids(5),
        "bad_words_ids": [ids(3) for _ in range(draw.randint(1, 3))],
        "forced_bos_token_id": draw.randrange(4, 90),
        "forced_eos_token_id": draw.choice([3, [3], draw.sample(ENDS, 2)]),
        "no_repeat_ngram_size": draw.randint(1, 3),
        "repetition_penalty": draw.choice([0.8, 1.3]),
        "sequence_bias": [[ids(2), draw.choice([-4.0, 4.0])]],
        "exponential_decay_length_penalty": (2, 1.1),
        "renormalize_logits": True,
        "decoder_input_ids": torch.tensor([[2, draw.randrange(4, 90)]] * sources),
        "use_cache": False,
        "cache_implementation": "static",
    }
    chosen = draw.sample(sorted(others), draw.choice([0, 1, 1, 2, 3, 4]))
    if {"use_cache", "cache_implementation"} <= set(chosen):
        chosen.remove("use_cache")
    return settings | {name: others[name] for name in chosen}


def results(model, source, settings):
    """Return what a search finds, or the text of the error that refuses the settings."""
    try:
        return model.generate(source, **settings)
    except (ValueError, IndexError) as error:
        return f"{type(error).__name__}: {error}"


def assert_same(fast, plain, settings):
    if isinstance(fast, str):
        assert fast == plain
        return
    if settings["num_beams"] > 1:
        torch.testing.assert_close(
            fast.sequences_scores, plain.sequences_scores, atol=1e-5, rtol=1e-5
        )
        exists = fast.sequences_scores.gt(-1e6)  # where nothing goes on, a beam is filled up
        is_tied = fast.sequences_scores.unique().numel() < len(fast.sequences_scores)
        for name in ("sequences", "beam_indices"):
            assert is_tied or torch.equal(fast[name][exists], plain[name][exists])
    else:
        assert torch.equal(fast.sequences, plain.sequences)
    assert len(fast.scores) == len(plain.scores)


def count_served(tiny_model, ragged, seeds):
    """Compare both loops for each seed and return how many searches the fast one served."""
    served = 0
    for seed in seeds:
        draw = random.Random(seed)
        model = tiny_model(seed=seed % 7, **draw.choice(ARCHITECTURES))
        with torch.no_grad():  # so that texts end here and there
            model.lm_head.weight[list(ENDS)] *= 1.0 + draw.random()
        source = ragged([draw.randint(1, 9) for _ in range(draw.randint(1, 4))], seed=seed)[0]
        settings = draw_settings(draw, len(source))
        found = []
        for model.fast in (True, False):
            found.append(results(model, source, dict(settings)))
        try:
            assert_same(*found, settings)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {settings}") from error
        served += isinstance(getattr(found[0], CACHE_KEY, None), LaterCache)
    return served


def test_both_loops_find_the_same_under_any_settings(tiny_model, ragged):
    assert count_served(tiny_model, ragged, range(500, 524)) > 4


@pytest.mark.slow
def test_both_loops_find_the_same_under_500_settings(tiny_model, ragged):
    assert count_served(tiny_model, ragged, range(500)) > 150
