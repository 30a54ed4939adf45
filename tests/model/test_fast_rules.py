"""Rules against the objects of the library that they stand for."""

import pytest
import torch
from transformers import StoppingCriteriaList, TemperatureLogitsWarper
from transformers.generation import (
    EosTokenCriteria,
    ForcedBOSTokenLogitsProcessor,
    ForcedEOSTokenLogitsProcessor,
    LogitsProcessorList,
    MaxLengthCriteria,
    MaxTimeCriteria,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    SuppressTokensLogitsProcessor,
)

from hf_vanilla_transformer.model.fast_rules import compile_rules
from hf_vanilla_transformer.model.fast_topk import top_continuations
from hf_vanilla_transformer.model.lengths import ForcedEndAtLimit, SourceLengthLimit
from hf_vanilla_transformer.model.vocabulary import RemovedTokens

LIMITS, VOCABULARY = torch.tensor([4, 6]), 30
CRITERIA = StoppingCriteriaList(
    [MaxLengthCriteria(7), EosTokenCriteria([3, 9]), SourceLengthLimit(LIMITS)]
)
PROCESSORS = {
    "none": [],
    "a least length": [MinLengthLogitsProcessor(3, [3, 9])],
    "least new tokens": [MinNewTokensLengthLogitsProcessor(2, 2, [3, 9])],
    "suppressed ids": [SuppressTokensLogitsProcessor([0, 5]), SuppressTokensLogitsProcessor([8])],
    "removed ids": [RemovedTokens([0, 5]), SuppressTokensLogitsProcessor([8])],
    "a forced start": [ForcedBOSTokenLogitsProcessor(12)],
    "a forced end": [ForcedEOSTokenLogitsProcessor(7, 3), ForcedEndAtLimit(LIMITS, 3)],
    "two leasts": [
        MinLengthLogitsProcessor(2, [3]),
        MinLengthLogitsProcessor(4, [9]),
        SuppressTokensLogitsProcessor([11]),
    ],
}


def compiled(processors, criteria=CRITERIA):
    device = torch.device("cpu")
    return compile_rules(processors, criteria, sentences=2, max_length=7, device=device)


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("length", range(2, 7))
def test_scores_are_what_the_librarys_objects_make_of_them(name, length):
    processors = LogitsProcessorList(PROCESSORS[name])
    rules = compiled(processors)
    logits = torch.randn(2, VOCABULARY)
    texts = torch.full((2, length - 1), 4)
    expected = processors(texts, logits.log_softmax(-1)).clamp(min=-1e9).topk(5).values
    for keeps_scores in (True, False):
        scores, tokens, _, _ = top_continuations(
            logits.clone(),
            torch.zeros(2, 1),
            rules=rules,
            length=length,
            count=5,
            keeps_scores=keeps_scores,
        )
        torch.testing.assert_close(scores, expected)
    longer = torch.cat((texts.repeat_interleave(5, 0), tokens.view(-1, 1)), 1)
    has_ended = CRITERIA(longer, None).view(2, 5)
    assert torch.equal(rules.are_ends(tokens, length), has_ended)


@pytest.mark.parametrize(
    ("processors", "criteria", "name"),
    [
        ([TemperatureLogitsWarper(0.5)], CRITERIA, "TemperatureLogitsWarper"),
        ([], [*CRITERIA, MaxTimeCriteria(1.0)], "MaxTimeCriteria"),
        ([ForcedEOSTokenLogitsProcessor(7, [3, 9])], CRITERIA, "ForcedEOSTokenLogitsProcessor"),
        ([], [EosTokenCriteria(3)], "criteria beside those of the settings"),
        ([], [*CRITERIA, EosTokenCriteria(8)], "criteria beside those of the settings"),
        ([], [MaxLengthCriteria(5)], "criteria beside those of the settings"),
        ([ForcedEOSTokenLogitsProcessor(5, 3)], CRITERIA, "a forced end at another length"),
    ],
)
def test_what_has_no_rule_is_named(processors, criteria, name):
    criteria = StoppingCriteriaList(criteria)
    assert compiled(LogitsProcessorList(processors), criteria) == name


def test_limits_are_the_shortest_of_all_and_leave_with_their_sentence():
    rules = compiled(LogitsProcessorList())
    assert rules.limits.tolist() == [4, 6]
    rules.keep(torch.tensor([1]))
    tokens = torch.tensor([4])
    assert rules.are_ends(tokens, 5).tolist() == [False]
    assert rules.are_ends(tokens, 6).tolist() == [True]
