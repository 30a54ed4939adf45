"""A beam wide enough to hold every hypothesis finds what brute force finds."""

import itertools
import math

import pytest
import torch

VOCABULARY = 6  # <pad>, <unk>, <s>, </s> and two words
LONGEST = 4
EOS = 3
WORDS = (1, 2, 4, 5)


@pytest.fixture
def model(tiny_model):
    model = tiny_model(vocab_size=VOCABULARY, d_model=16, d_ff=32, num_heads=2)
    with torch.no_grad():
        model.model.shared.weight.mul_(3)  # decisive, so that ranks are far apart
    return model


def hypotheses():
    """Yield every sequence that ends with </s>, or that the length limit cuts."""
    for length in range(LONGEST):
        for words in itertools.product(WORDS, repeat=length):
            yield (*words, EOS)
    yield from itertools.product(WORDS, repeat=LONGEST)


@torch.no_grad()
def log_probability(model, source, hypothesis):
    inputs = torch.tensor([[model.config.decoder_start_token_id, *hypothesis[:-1]]])
    logits = model(input_ids=source, decoder_input_ids=inputs).logits[0]
    logits[:, model.config.pad_token_id] = -torch.inf  # no token of the search
    chosen = logits.log_softmax(-1)[torch.arange(len(hypothesis)), torch.tensor(hypothesis)]
    return chosen.sum().item()


def library_penalty(power):
    return lambda length: length**power


def gnmt_penalty(alpha):
    return lambda length: ((5 + length) / 6) ** alpha


@pytest.mark.parametrize(
    ("settings", "penalty"),
    [
        ({"length_penalty": 0.0}, library_penalty(0.0)),
        ({"length_penalty": 1.0}, library_penalty(1.0)),
        ({"length_penalty": -0.7}, library_penalty(-0.7)),
        ({"gnmt_alpha": 0.6}, gnmt_penalty(0.6)),
        ({"gnmt_alpha": 2.0}, gnmt_penalty(2.0)),
    ],
    ids=["none", "library-1", "library-minus", "gnmt-0.6", "gnmt-2"],
)
def test_wide_beam_equals_brute_force(model, settings, penalty):
    sources = torch.tensor([[4, 5, 5, 4, 3], [5, 4, 3, 0, 0]])
    beams = 4**LONGEST + 64
    output = model.generate(
        sources,
        num_beams=beams,
        num_return_sequences=30,
        max_new_tokens=LONGEST,
        early_stopping="never",
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    found = output.sequences.view(2, 30, -1)[:, :, 1:]
    scores = output.sequences_scores.view(2, 30)
    for row, source in enumerate(([4, 5, 5, 4, 3], [5, 4, 3])):
        source = torch.tensor([source])
        ranked = sorted(
            ((log_probability(model, source, h) / penalty(len(h)), h) for h in hypotheses()),
            reverse=True,
        )[:30]
        for rank, (score, hypothesis) in enumerate(ranked):
            assert math.isclose(scores[row, rank].item(), score, abs_tol=1e-4)
            expected = [*hypothesis, *[0] * (LONGEST - len(hypothesis))]
            is_tie = any(abs(score - other) < 1e-4 and h != hypothesis for other, h in ranked)
            assert is_tie or found[row, rank].tolist() == expected
    best_lengths = {len(h) for _, h in ranked}
    assert len(best_lengths) > 1, "hypotheses of one length cannot show a penalty"


def test_penalties_rank_differently(model):
    source = torch.tensor([[4, 5, 5, 4, 3]])

    def best(**settings):
        return model.generate(source, num_beams=300, max_new_tokens=LONGEST, **settings).tolist()

    assert best(length_penalty=-3.0) != best(length_penalty=3.0)
    assert best(gnmt_alpha=0.0) == best(length_penalty=0.0)


def test_two_penalties_at_once_are_refused(model):
    with pytest.raises(ValueError, match=r"gnmt_alpha=0\.6 and length_penalty=1\.0"):
        model.generate(torch.tensor([[4, 3]]), num_beams=2, length_penalty=1.0, gnmt_alpha=0.6)


@pytest.mark.parametrize("alpha", [-0.1, "0.6", True, math.nan])
def test_alpha_out_of_range_is_refused(model, alpha):
    with pytest.raises(ValueError, match="gnmt_alpha="):
        model.generate(torch.tensor([[4, 3]]), num_beams=2, gnmt_alpha=alpha)


def test_own_penalty_of_a_call_wins_over_a_saved_alpha(model):
    source = torch.tensor([[4, 5, 5, 4, 3]])
    settings = {"num_beams": 300, "max_new_tokens": LONGEST}
    penalty = {
        "length_penalty": next(
            p
            for p in (3.0, -3.0)
            if not torch.equal(
                model.generate(source, length_penalty=p, **settings),
                model.generate(source, length_penalty=0.0, **settings),
            )
        )
    }
    plain = model.generate(source, **penalty, **settings)
    model.generation_config.gnmt_alpha = 0.0
    assert torch.equal(model.generate(source, **penalty, **settings), plain)
    assert not torch.equal(model.generate(source, **settings), plain)
