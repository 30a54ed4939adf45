"""The fast search against its plain twin, the library's loop, and what makes it step aside."""

import copy
import logging

import pytest
import torch
from transformers import (
    DynamicCache,
    EncoderDecoderCache,
    EosTokenCriteria,
    LogitsProcessorList,
    MaxLengthCriteria,
    MaxTimeCriteria,
    StoppingCriteriaList,
    TemperatureLogitsWarper,
)
from transformers.generation import ForcedEOSTokenLogitsProcessor
from transformers.generation.streamers import BaseStreamer

from hf_vanilla_transformer import PAPER_DECODING
from hf_vanilla_transformer.model import fast_generation
from hf_vanilla_transformer.model.cache import VanillaTransformerCache
from hf_vanilla_transformer.model.compat import CACHE_KEY
from hf_vanilla_transformer.model.fast_layers import FastDecoder, FastEncoder
from hf_vanilla_transformer.model.positions import SinusoidalPositions

END = 3
SEVERAL_ENDS = {"eos_token_id": [3, 50, 60, 70, 90, 100, 200, 300, 400]}
SEARCHES = {
    "greedy": {},
    "greedy with a least and a most": {"min_new_tokens": 5, "max_new_tokens": 9},
    "greedy with forced ids": {"forced_bos_token_id": 17, "forced_eos_token_id": END},
    "greedy with several ends": SEVERAL_ENDS,
    "beams": {"num_beams": 4},
    "paper": PAPER_DECODING,
    "several beams": {"num_beams": 4, "num_return_sequences": 3},
    "early end": {"num_beams": 3, "early_stopping": True, **SEVERAL_ENDS},
    "long beams": {"num_beams": 3, "length_penalty": 2.0, "min_length": 8},
    "short beams": {"num_beams": 3, "length_penalty": -1.0, **SEVERAL_ENDS},
    "patient beams": {"num_beams": 2, "early_stopping": "never", **SEVERAL_ENDS},
    "beams with forced ids": {
        "num_beams": 2,
        "forced_bos_token_id": 17,
        "forced_eos_token_id": END,
        "extra_decode_length": 2,
    },
    "beams with banned ids": {"num_beams": 4, "suppress_tokens": [5, 6, 7, 8], **SEVERAL_ENDS},
    "a long prompt": {"num_beams": 3, "decoder_input_ids": torch.tensor([[2, 5, 9]] * 4)},
}
ARCHITECTURES = {
    "paper": {},
    "marian": {"attention_bias": True, "output_bias": True, "activation_function": "silu"},
    "pre-norm": {"norm_position": "pre", "activation_function": "swiglu"},
    "wide heads": {"d_k": 24, "d_v": 8, "activation_function": "gelu"},
    "learned positions": {"position_type": "learned", "tie_word_embeddings": False},
}


def build(tiny_model, **fields):
    """Build a model whose translations are lively, and end here and there."""
    model = tiny_model(seed=5, vocab_size=3000, **{"tie_word_embeddings": False, **fields})
    with torch.no_grad():
        model.get_decoder().embed_tokens.weight *= 0.3
        model.get_output_embeddings().weight[torch.tensor([END, 50, 90, 300])] *= 1.5
    return model


@pytest.fixture
def model(tiny_model):
    return build(tiny_model)


@pytest.fixture
def source(ragged):
    return ragged((9, 5, 2, 7))[0]


@pytest.fixture
def log(caplog):
    """Return a function that tells how often the library's loop has run, and why."""
    caplog.set_level(logging.INFO, logger=fast_generation.__name__)
    fast_generation._tell.cache_clear()  # it tells each reason once
    return lambda: [record.getMessage() for record in caplog.records if "loop" in record.msg]


def run(model, source, fast=True, **settings):
    model.fast = fast
    settings = {"return_dict_in_generate": True, **settings}
    settings.setdefault("output_scores", not fast)
    if "extra_decode_length" not in settings:
        settings = {"max_new_tokens": 14, **settings}
    torch.manual_seed(0)
    return model.generate(source, **settings)


def assert_same(model, source, **settings):
    fast, plain = (run(model, source, fast, **copy.deepcopy(settings)) for fast in (True, False))
    for ours, theirs in zip(fast.sequences, plain.sequences, strict=True):
        assert torch.equal(ours, theirs) or are_tied(fast, plain)
    return fast, plain


def are_tied(fast, plain):
    """Tell whether all hypotheses of one are worth as much as those of the other."""
    scores = fast.sequences_scores, plain.sequences_scores
    return torch.allclose(*scores, atol=0, rtol=1e-6)


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ids_are_those_of_the_plain_path(tiny_model, source, log, architecture, name):
    model = build(tiny_model, **ARCHITECTURES[architecture])
    fast, _ = assert_same(model, source, **SEARCHES[name])
    assert fast.sequences.unique().numel() > 4
    assert log() == []


@pytest.mark.parametrize("early_stopping", [True, False, "never"])
def test_as_many_beams_go_on_where_every_end_is_likelier_than_a_word(
    tiny_model, source, log, early_stopping
):
    model = tiny_model(seed=5, vocab_size=100, output_bias=True)
    ends = [END, 10, 20, 30]
    model.lm_head.bias.data[ends] = 6.0
    search = {"num_beams": 2, "eos_token_id": ends, "length_penalty": 3.0}
    search |= {"num_return_sequences": 2, "early_stopping": early_stopping}
    fast, _ = assert_same(model, source, **search)
    assert log() == []
    if early_stopping == "never":
        assert fast.sequences.shape[1] > 3


@pytest.mark.parametrize("name", ["beams", "paper", "early end", "beams with forced ids"])
def test_scores_are_those_of_the_plain_path(model, source, log, name):
    fast, plain = assert_same(model, source, output_scores=True, **SEARCHES[name])
    torch.testing.assert_close(fast.sequences_scores, plain.sequences_scores)
    assert torch.equal(fast.beam_indices, plain.beam_indices)
    rebuilt = [
        model.compute_transition_scores(found.sequences, found.scores, found.beam_indices)
        for found in (fast, plain)
    ]
    torch.testing.assert_close(*rebuilt, atol=1e-5, rtol=1e-5)
    assert torch.equal(run(model, source, **SEARCHES[name]).sequences, fast.sequences)
    assert log() == []


def test_greedy_scores_are_those_of_the_plain_path(model, source):
    settings = {"output_scores": True, "min_new_tokens": 4, "forced_bos_token_id": 8}
    fast, plain = assert_same(model, source, **settings)
    for ours, theirs in zip(fast.scores, plain.scores, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("settings", [{}, {"cache_implementation": "static"}], ids=str)
def test_default_limits_are_those_of_each_sentence(model, source, settings):
    settings = {"num_beams": 2, **settings}
    fast, plain = (model.generate(source, **settings) for model.fast in (True, False))
    assert torch.equal(fast, plain)
    assert fast.shape[1] > 50


def test_hypotheses_that_there_are_not_are_blank(model, source):
    """A forced end leaves one hypothesis: what fills the beam up has no score."""
    settings = {"num_beams": 3, "num_return_sequences": 3, "gnmt_alpha": 0.0}
    settings |= {"forced_eos_token_id": END, "max_new_tokens": 1}
    found = run(model, source, **settings)
    assert found.sequences.tolist() == [[2, END], [2, 0], [2, 0]] * 4
    assert found.sequences_scores.view(4, 3)[:, 1:].eq(-1e9).all()


class Silence(BaseStreamer):
    def put(self, value):
        pass

    def end(self):
        pass


ASIDE = {
    "sampling": {"do_sample": True},
    "sampling without filters": {"do_sample": True, "top_k": 0},
    "beam sampling": {"do_sample": True, "num_beams": 2},
    "a streamer": {"streamer": Silence()},
    "attentions": {"output_attentions": True},
    "states": {"output_hidden_states": True, "num_beams": 2},
    "logits": {"output_logits": True},
    "no cache": {"use_cache": False},
    "a static cache": {"cache_implementation": "static", "num_beams": 2},
    "a cache of the user's": {CACHE_KEY: EncoderDecoderCache(DynamicCache(), DynamicCache())},
    "a cache of ours": {CACHE_KEY: VanillaTransformerCache(2)},
    "a repetition penalty": {"repetition_penalty": 1.5},
    "n-grams": {"no_repeat_ngram_size": 1, "num_beams": 2},
    "bad words": {"bad_words_ids": [[5, 6]]},
    "a processor": {"logits_processor": LogitsProcessorList([TemperatureLogitsWarper(0.5)])},
    "a criterion": {"stopping_criteria": StoppingCriteriaList([MaxTimeCriteria(60.0)])},
    "a limit of the user's": {"stopping_criteria": StoppingCriteriaList([MaxLengthCriteria(5)])},
    "a forced end of the user's": {
        "logits_processor": LogitsProcessorList([ForcedEOSTokenLogitsProcessor(5, END)])
    },
    "an id that there is not": {"suppress_tokens": [-1], "num_beams": 3},
    "an end that there is not": {"eos_token_id": 9999, "min_new_tokens": 2, "num_beams": 3},
    "two forced ids in one place": {
        "forced_bos_token_id": 5,
        "forced_eos_token_id": END,
        "max_new_tokens": 1,
    },
    "many beams": {"num_beams": 33, "max_new_tokens": 4},
    "a target mask": {
        "decoder_input_ids": torch.tensor([[2, 5], [2, 5], [2, 5], [2, 5]]),
        "decoder_attention_mask": torch.ones(4, 2, dtype=torch.long),
    },
}


@pytest.mark.parametrize("name", ASIDE)
def test_what_it_does_not_know_runs_in_the_librarys_loop(model, source, log, name):
    def no_step(*args):
        raise AssertionError("the fast decoder ran")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastDecoder, "step", no_step)
        assert_same(model, source, **ASIDE[name])
    assert len(log()) == (0 if name == "a streamer" else 1)


def test_an_end_of_the_users_is_followed(model, source):
    criteria = StoppingCriteriaList([EosTokenCriteria(torch.tensor([90]))])
    assert_same(model, source, stopping_criteria=criteria, num_beams=2)


def test_limits_of_each_sentence_without_an_end_run_in_the_librarys_loop(model, source, log):
    model.generation_config.eos_token_id = None
    fast, plain = (model.generate(source) for model.fast in (True, False))
    assert torch.equal(fast, plain)
    assert log() == ["generate runs the library's loop: limits without an end"]


@pytest.mark.parametrize("fast", [True, False])
def test_a_mask_of_another_shape_is_refused_on_both_paths(model, source, fast):
    encoded = model.get_encoder()(source, source.ne(0))
    with pytest.raises(ValueError, match=r"attention_mask has shape \(4, 5\)"):
        run(model, None, fast, encoder_outputs=encoded, attention_mask=torch.ones(4, 5))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_the_default_dtype_of_others_changes_nothing(model, source, dtype):
    expected = run(model, source, num_beams=3).sequences
    torch.set_default_dtype(dtype)
    try:
        assert torch.equal(run(model, source, num_beams=3).sequences, expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_far_limit_costs_nothing_before_it_is_reached(model, source, monkeypatch):
    counts = []
    encode = SinusoidalPositions.forward
    monkeypatch.setattr(
        SinusoidalPositions,
        "forward",
        lambda self, ids, dtype: counts.append(ids.numel()) or encode(self, ids, dtype),
    )
    model.get_output_embeddings().weight.data[END] *= 50
    assert run(model, source, max_new_tokens=100_000).sequences.shape[1] < 400
    assert max(counts) < 1000


def test_a_source_without_a_token_runs_in_the_librarys_loop(model, source, log):
    source[1] = 0
    assert_same(model, source, num_beams=2)
    assert "without a token" in log()[0]


def test_a_vocabulary_of_few_choices_runs_in_the_librarys_loop(tiny_model, ragged, log):
    model = tiny_model(vocab_size=9)
    assert_same(model, ragged((4, 3))[0] % 9, num_beams=4)
    assert "vocabulary of 9" in log()[0]


def test_sentences_leave_when_they_are_finished(model, source, monkeypatch):
    rows, step = [], FastDecoder.step

    def counting(self, token_ids, state):
        rows.append(len(token_ids))
        return step(self, token_ids, state)

    monkeypatch.setattr(FastDecoder, "step", counting)
    run(model, source, num_beams=3, extra_decode_length=0)
    assert rows[0] == 4, "the first step sees every sentence once"
    assert rows[1] == 12
    assert rows == sorted(rows[:1]) + sorted(rows[1:], reverse=True)
    assert rows[-1] == 3, "the longest sentence is alone at the end"


def test_encoding_is_fast_too(model, source, monkeypatch):
    calls = []
    encode = FastEncoder.__call__
    monkeypatch.setattr(
        FastEncoder, "__call__", lambda self, *args: calls.append(1) or encode(self, *args)
    )
    run(model, source)
    run(model, source, fast=False)
    run(model, source, encoder_outputs=model.get_encoder()(source, source.ne(0)))
    run(model, None, inputs_embeds=model.get_encoder().embed_tokens(source))
    assert calls == [1]


def test_half_precision_stays_close(model, source):
    """The scores of the same weights in bfloat16 differ by rounding alone."""
    exact = run(model, source, num_beams=2, output_scores=True, max_new_tokens=4)
    rounded = run(model.bfloat16(), source, num_beams=2, output_scores=True, max_new_tokens=4)
    assert rounded.sequences_scores.dtype == torch.float32
    torch.testing.assert_close(
        rounded.sequences_scores, exact.sequences_scores, atol=0.1, rtol=0.05
    )
