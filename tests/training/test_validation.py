import logging
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from copying import copying_pairs
from torch.nn import functional

from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.model.fast_model import fast_model
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.training import validation
from hf_vanilla_transformer.training.state import RunState, Validation
from hf_vanilla_transformer.training.validation import Validator, validation_bleu, validation_loss
from hf_vanilla_transformer.translation.translate import translate


def test_loss_is_per_token_whatever_the_batches(tiny_model, monkeypatch):
    model, pairs = tiny_model(label_smoothing=0.3), copying_pairs()
    batch = collate_pairs(*pairs.fetch(range(len(pairs))), 0)
    logits = model(batch["input_ids"], batch["attention_mask"], labels=batch["labels"]).logits
    expected = functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())
    model.train()
    for budget in (1, 30, 10_000):
        monkeypatch.setattr(validation, "VALIDATION_TOKENS", budget)
        loss = validation_loss(model, pairs, accelerator=Accelerator(cpu=True), config=model.config)
        assert loss == pytest.approx(expected.item(), rel=1e-5)
    assert model.training


@pytest.fixture
def corpus():
    texts = [["a b", "b a"], ["c d e f g", "c d e f g"], ["a", "a"], ["b c a", "e"]]
    tokenizer = train_tokenizer([one for pair in texts for one in pair], vocab_size=290)
    return texts, tokenizer, encode_pairs(texts, tokenizer, max_length=64, name="valid")


@pytest.mark.parametrize("beams", [1, 3])
def test_bleu_is_that_of_translating_the_text(tiny_model, monkeypatch, corpus, beams):
    texts, tokenizer, pairs = corpus
    model = tiny_model(vocab_size=len(tokenizer)).train()
    sources, references = map(list, zip(*texts, strict=True))
    translations = translate(model, tokenizer, sources, num_beams=beams)
    expected = score_translations(translations, references, target_language="en").bleu
    monkeypatch.setattr(validation, "VALIDATION_TOKENS", 12)
    bleu = validation_bleu(
        model, tokenizer, pairs=pairs, accelerator=Accelerator(cpu=True), beams=beams
    )
    assert bleu == pytest.approx(expected)
    assert model.training


def test_right_translations_in_the_order_of_the_pairs_score_100(tiny_model, monkeypatch, corpus):
    _, tokenizer, pairs = corpus
    targets = {tuple(s): t.tolist() for s, t in zip(*pairs.fetch(range(len(pairs))), strict=True)}
    monkeypatch.setattr(
        validation,
        "_generate",
        lambda model, sources, *, beams: [targets[tuple(s)] for s in sources],
    )
    model = tiny_model(vocab_size=len(tokenizer))
    validator = Validator(pairs, tokenizer, Accelerator(cpu=True), beams=1)
    assert validator(model, 7).bleu == pytest.approx(100)
    assert Validator(pairs, tokenizer, Accelerator(cpu=True))(model, 7).bleu is None


@pytest.fixture
def mixed_precision():
    AcceleratorState._reset_state(reset_partial_state=True)
    yield Accelerator(cpu=True, mixed_precision="bf16")
    AcceleratorState._reset_state(reset_partial_state=True)


def test_translations_in_mixed_precision_are_those_of_the_saved_model(
    tiny_model, monkeypatch, corpus, mixed_precision
):
    _, tokenizer, pairs = corpus
    model = mixed_precision.prepare(tiny_model(vocab_size=len(tokenizer)))
    wrapped, generate, twins = model.forward, validation._generate, []

    def watched(model, sources, *, beams):
        twins.append(fast_model(model))
        return generate(model, sources, beams=beams)

    monkeypatch.setattr(validation, "_generate", torch.no_grad()(watched))
    validation_bleu(model, tokenizer, pairs=pairs, accelerator=mixed_precision, beams=1)
    assert twins != []
    assert all(twins), "the fast search knows the model without its wrapping"
    assert model.forward is wrapped, "training goes on in mixed precision"


def test_the_scorer_gives_no_advice_on_what_a_half_trained_model_writes(
    tiny_model, monkeypatch, corpus, caplog
):
    _, tokenizer, pairs = corpus

    def score(*_, **__):
        logging.getLogger("sacrebleu").warning("forgot to detokenize")
        return SimpleNamespace(bleu=7.0)

    monkeypatch.setattr(validation, "score_translations", score)
    model = tiny_model(vocab_size=len(tokenizer))
    assert (
        validation_bleu(model, tokenizer, pairs=pairs, accelerator=Accelerator(cpu=True), beams=1)
        == 7.0
    )
    assert not caplog.messages
    score()
    assert caplog.messages == ["forgot to detokenize"], "elsewhere it does"


def test_the_best_validation_is_the_first_of_equals():
    losses, bleus = [3.0, 2.0, 2.0, 2.5], [1.0, 4.0, 9.0, 9.0]
    scores = zip(losses, bleus, strict=True)
    validations = [Validation(step, *both) for step, both in enumerate(scores)]
    state = RunState(validations=validations)
    assert (state.best("loss").step, state.best("bleu").step) == (1, 2)
    assert state.validations_since_best("loss") == 2
    state.validations.append(Validation(step=4, loss=1.9, bleu=9.0))
    assert state.best("bleu").step == 4, "of equal BLEU, the loss decides"
    del state.validations[-1]
    state.validations.insert(0, Validation(step=-1, loss=9.0))
    assert state.best("bleu").step == 2, "where an earlier part of the run measured the loss alone"
    assert RunState().best("loss") is None
    assert RunState().validations_since_best("bleu") == 0
