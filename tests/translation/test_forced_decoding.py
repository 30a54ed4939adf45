import math

import pytest
import torch
from tiny import build_model

from hf_vanilla_transformer.evaluation.metrics import perplexity
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation import forced_decoding
from hf_vanilla_transformer.translation.forced_decoding import (
    PairLikelihood,
    log_probs_of_pairs,
)

SOURCES = ["a b c d e f", "b", "", "c d", "h g f e d c b a"]
TARGETS = ["f e", "a b c d e f g h", "b", "", "c"]


@pytest.fixture(scope="module")
def scorer():
    tokenizer = train_tokenizer(SOURCES * 3, vocab_size=290, max_length=16)
    model = build_model(vocab_size=len(tokenizer), max_position_embeddings=16, label_smoothing=0.1)
    return model, tokenizer


@torch.no_grad()
def one_by_one(model, tokenizer, source, target):
    """Ask for the distribution after every prefix of the target."""
    ids = tokenizer(source, return_tensors="pt").input_ids
    prefix, found = [model.config.decoder_start_token_id], []
    for token in tokenizer(text_target=target).input_ids:
        logits = model(input_ids=ids, decoder_input_ids=torch.tensor([prefix])).logits[0, -1]
        found.append(logits.log_softmax(-1)[token].item())
        prefix.append(token)
    return found


@pytest.mark.parametrize("budget", [1, 12, 2048])
def test_each_token_has_its_log_probability_after_those_before_it(scorer, monkeypatch, budget):
    monkeypatch.setattr(forced_decoding, "LIKELIHOOD_TOKENS", budget)
    model, tokenizer = scorer
    model.train()
    found = log_probs_of_pairs(model, tokenizer, SOURCES, TARGETS)
    assert model.training
    model.eval()
    for source, target, tokens in zip(SOURCES, TARGETS, found, strict=True):
        expected = one_by_one(model, tokenizer, source, target)
        assert [value for _, value in tokens] == pytest.approx(expected, rel=1e-4)
        names = [name for name, _ in tokens]
        assert tokenizer.convert_tokens_to_ids(names) == tokenizer(text_target=target).input_ids
        assert names[-1] == "</s>"


def test_the_mean_is_the_loss_of_evaluation(scorer):
    model, tokenizer = scorer
    found = log_probs_of_pairs(model, tokenizer, SOURCES[:1], TARGETS[:1])[0]
    inputs = tokenizer(SOURCES[0], text_target=TARGETS[0], return_tensors="pt")
    loss = model(input_ids=inputs.input_ids, labels=inputs.labels).loss.item()
    assert -sum(value for _, value in found) / len(found) == pytest.approx(loss, rel=1e-5)


def test_what_cannot_be_paired_is_refused(scorer):
    with pytest.raises(ValueError, match="2 sources and 1 targets"):
        PairLikelihood(*scorer, ["a", "b"], ["a"])
    with pytest.raises(TypeError, match="target 0 is None"):
        PairLikelihood(*scorer, ["a"], [None])
    assert log_probs_of_pairs(*scorer, [], []) == []


def test_translations_over_the_limit_are_cut_with_a_warning(scorer, caplog):
    long = " ".join("abcdefgh" * 4)
    found = log_probs_of_pairs(*scorer, ["a", "a"], ["b", long])
    assert [len(tokens) for tokens in found][1] == 16
    assert caplog.messages == [
        "translations over the limit of 16 tokens that were cut: 1, the first in line 2"
    ]


def test_perplexity_of_a_hopeless_model_is_a_number():
    assert perplexity(math.log(7)) == pytest.approx(7)
    assert 1e300 < perplexity(1e6) < math.inf
