"""The likeliest tokens against sorting and normalising the whole vocabulary."""

import pytest
import torch

from hf_vanilla_transformer.model import fast_topk
from hf_vanilla_transformer.model.fast_rules import SearchRules
from hf_vanilla_transformer.model.fast_topk import (
    NEVER,
    highest,
    log_normalizer,
    top_continuations,
    top_token,
)

BANNED, REMOVED, END = [0, 7], [9, 11], 3


def rules(**fields):
    limits = torch.tensor([9, 5])
    fields = {"removed": torch.empty(0, dtype=torch.long), "banned": BANNED, **fields}
    return SearchRules(limits=limits, ends=torch.tensor([END]), **fields)


@pytest.mark.parametrize("size", [50, 2048, 2049, 4999, 10_000])
@pytest.mark.parametrize("count", [1, 8, 20])
def test_the_highest_are_those_of_a_full_sort(size, count):
    torch.manual_seed(size + count)
    logits = torch.randn(5, size)
    logits[0, -1] = 9.0  # in the last, incomplete block
    logits[1, :count] = torch.arange(count) + 9.0  # all in one block
    values, indices = highest(logits, count)
    sorted_values, order = logits.sort(-1, descending=True)
    assert torch.equal(values, sorted_values[:, :count])
    assert torch.equal(indices, order[:, :count])


def test_normalised_values_keep_their_digits_where_logits_are_large():
    exact = torch.randn(3, 400, dtype=torch.float64)
    for offset in (0.0, 1e4, -1e4):
        logits = (exact + offset).float()
        expected = logits.double().log_softmax(-1)[:, :5]
        peak, log_sum = log_normalizer(logits)
        found = (logits[:, :5] - peak - log_sum).double()
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("size", [300, 2048, 2049, 32_000])
def test_the_likeliest_token_of_a_single_sentence_is_the_highest(size):
    for seed in range(20):
        torch.manual_seed(seed)
        logits = torch.randn(1, size)
        expected = logits[0].clone()
        expected[BANNED] = -torch.inf
        tokens, _ = top_token(logits, rules(), length=2, keeps_scores=False)
        assert tokens.tolist() == [expected.tolist().index(expected.max())]


@pytest.mark.parametrize("cached", [1, 8000, 1 << 19])
@pytest.mark.parametrize("keeps_scores", [False, True])
@pytest.mark.parametrize("beams", [1, 3])
def test_continuations_are_those_of_the_formula(keeps_scores, beams, cached, monkeypatch):
    monkeypatch.setattr(fast_topk, "CACHED", cached)
    torch.manual_seed(0)
    logits, running = torch.randn(2 * beams, 4000) * 3, torch.randn(2, beams)
    logits[:, REMOVED] = 5.0  # they would have most of the probability
    expected = logits.index_fill(1, torch.tensor(REMOVED), -torch.inf).log_softmax(-1)
    expected[:, [*BANNED, END]] = -torch.inf  # the end is banned up to length 4
    expected = (expected.view(2, beams, -1) + running[..., None]).flatten(1).topk(6)
    early = rules(banned_until=[(4, [END])], removed=torch.tensor(REMOVED))
    scores, tokens, parents, kept = top_continuations(
        logits.clone(), running, rules=early, length=4, count=6, keeps_scores=keeps_scores
    )
    torch.testing.assert_close(scores, expected.values)
    assert torch.equal(parents * 4000 + tokens, expected.indices)
    assert (kept is not None) == keeps_scores


@pytest.mark.parametrize("keeps_scores", [False, True])
def test_a_forced_end_is_certain_at_the_limit_alone(keeps_scores):
    logits, running = torch.randn(4, 3000), torch.tensor([[-1.0, -2.0], [-3.0, -4.0]])
    forced = rules(forced_last=END)
    scores, tokens, parents, _ = top_continuations(
        logits, running, rules=forced, length=5, count=4, keeps_scores=keeps_scores
    )
    assert scores[1, :2].tolist() == [-3.0, -4.0]
    assert tokens[1, :2].tolist() == [END, END]
    assert parents[1, :2].tolist() == [0, 1]
    assert (scores[1, 2:] <= NEVER / 2).all()
    assert (scores[0] < -1.0).all()


def test_the_likeliest_token_obeys_the_rules():
    logits = torch.zeros(2, 3000)
    logits[:, [0, 7, END, 11]] = torch.tensor([9.0, 8.0, 7.0, 6.0])
    tokens, scores = top_token(
        logits.clone(), rules(banned_until=[(4, [END])]), length=4, keeps_scores=True
    )
    assert tokens.tolist() == [11, 11]
    assert scores[:, BANNED].eq(-torch.inf).all()
    tokens, scores = top_token(logits.clone(), rules(forced_first=20), length=2, keeps_scores=False)
    assert tokens.tolist() == [20, 20]
    assert scores is None
