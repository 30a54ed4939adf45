"""The library's generation modes and their arguments: what works, and what is refused in words.

What HF Marian takes, our model takes on both paths, with results of the same kind; what HF Marian
refuses, ours refuses. Values are compared by the tests of each feature.
"""

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MarianConfig,
    MarianMTModel,
    StoppingCriteriaList,
    WatermarkingConfig,
)
from transformers.generation import MaxTimeCriteria, MinLengthLogitsProcessor
from transformers.generation.streamers import BaseStreamer


class Ignored(BaseStreamer):
    def put(self, value):
        pass

    def end(self):
        pass


BEAMS = {"num_beams": 3}
WORKS = {
    "greedy": {"num_beams": 1},
    "sampling": {"do_sample": True, "top_k": 20, "top_p": 0.9, "temperature": 0.7},
    "sampling, other filters": {"do_sample": True, "typical_p": 0.9, "min_p": 0.01},
    "sampling, cutoffs": {"do_sample": True, "epsilon_cutoff": 0.001, "eta_cutoff": 0.001},
    "several samples": {"do_sample": True, "num_return_sequences": 2},
    "beams": {**BEAMS, "length_penalty": 0.5, "early_stopping": True},
    "n-best": {**BEAMS, "num_return_sequences": 3},
    "beam sampling": {**BEAMS, "do_sample": True},
    "prompt lookup": {"prompt_lookup_num_tokens": 2},
    "several ends": {**BEAMS, "eos_token_id": [3, 20, 21]},
    "least lengths": {"min_length": 3, "min_new_tokens": 4},
    "forced ids": {**BEAMS, "forced_bos_token_id": 9, "forced_eos_token_id": [3, 20]},
    "suppressed ids": {"suppress_tokens": [5, 6], "begin_suppress_tokens": [7, 8]},
    "bad words": {"bad_words_ids": [[5], [6, 7]]},
    "biases": {"sequence_bias": [[[5], 3.0], [[6, 7], -2.0]]},
    "repetition": {"repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
    "repetition of the source": {
        "encoder_repetition_penalty": 1.3,
        "encoder_no_repeat_ngram_size": 2,
    },
    "decay": {"exponential_decay_length_penalty": (2, 1.2)},
    "renormalised": {**BEAMS, "renormalize_logits": True, "remove_invalid_values": True},
    "a watermark": {"watermarking_config": WatermarkingConfig(greenlist_ratio=0.4, bias=3.0)},
    "a time limit": {"max_time": 60.0},
    "a prompt": {"decoder_input_ids": torch.tensor([[2, 5, 6]])},
    "a static cache": {"cache_implementation": "static", **BEAMS},
    "no cache": {"use_cache": False},
    "outputs": {
        "return_dict_in_generate": True,
        **{f"output_{name}": True for name in ("scores", "logits", "attentions", "hidden_states")},
    },
    "a streamer": {"streamer": Ignored()},
    "a processor": {"logits_processor": LogitsProcessorList([MinLengthLogitsProcessor(4, 3)])},
    "a criterion": {"stopping_criteria": StoppingCriteriaList([MaxTimeCriteria(60.0)])},
    "allowed tokens": {"prefix_allowed_tokens_fn": lambda row, ids: [5, 6, 7, 3]},
}
# What the library refuses of every model, or loads from the Hub.
REFUSED = {
    "more results than beams": {**BEAMS, "num_return_sequences": 4},
    "several greedy results": {"num_return_sequences": 2},
    "a streamer of beams": {**BEAMS, "streamer": Ignored()},
    "no temperature": {"do_sample": True, "temperature": 0.0},
    "no new tokens": {"max_new_tokens": 0},
    "no penalty": {"repetition_penalty": 0.0},
    "another cache": {"cache_implementation": "unheard_of"},
    "stop strings alone": {"stop_strings": ["a"]},
    "an unknown argument": {"unheard_of": 1},
    "beam groups": {"num_beams": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "a contrastive search": {"penalty_alpha": 0.6, "top_k": 4},
    "layers against layers": {"dola_layers": "high"},
}
SOURCE = torch.tensor([[5, 6, 7, 3]])


@pytest.fixture(scope="module")
def marian():
    torch.manual_seed(0)
    sizes = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 100}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    widths = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64}
    ids = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 2, "bos_token_id": 2}
    others = {"forced_eos_token_id": None, "init_std": 0.3}
    return MarianMTModel(MarianConfig(**sizes, **heads, **widths, **ids, **others)).eval()


def outcome(model, settings):
    """Return what a model generates, or the error that refuses the settings in words."""
    torch.manual_seed(0)
    try:
        return model.generate(SOURCE, **{"max_new_tokens": 6, **settings})
    except (ValueError, OSError) as error:
        return error


@pytest.mark.parametrize("name", WORKS)
def test_what_a_stock_model_takes_works_on_both_paths(tiny_model, marian, name):
    settings = WORKS[name]
    stock = outcome(marian, settings)
    assert not isinstance(stock, Exception), stock
    model = tiny_model(seed=5)
    for model.fast in (True, False):
        found = outcome(model, settings)
        assert type(found) is type(stock), found
        ids, stock_ids = (getattr(each, "sequences", each) for each in (found, stock))
        assert len(ids) == len(stock_ids)
        assert ids.shape[1] > 1
        if not isinstance(found, torch.Tensor):
            assert {name for name in stock if stock[name] is not None} <= {*found}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_stock_model_refuses_is_refused_in_words(tiny_model, marian, name):
    settings = REFUSED[name]
    stock, found = outcome(marian, settings), outcome(tiny_model(seed=5), settings)
    assert isinstance(stock, Exception)
    assert isinstance(found, Exception)
    assert str(found)


def test_an_assistant_of_another_architecture_gives_the_greedy_ids(tiny_model, marian):
    model = tiny_model(seed=5)
    greedy = outcome(model, {})
    assert torch.equal(outcome(model, {"assistant_model": marian}), greedy)
