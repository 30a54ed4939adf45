"""Contenders do the same work: the same weights, lengths and ids."""

import sys
from types import SimpleNamespace

import pytest
import torch

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.benchmark.contenders import (
    CONTENDERS,
    Contenders,
    load_model,
    random_model,
)
from hf_vanilla_transformer.benchmark.measuring import Case, Race, draw_sources
from hf_vanilla_transformer.model.fast_int8 import Int8Linear

SMALL = {"d_model": 32, "d_ff": 64, "num_heads": 4, "encoder_layers": 1, "decoder_layers": 2}


def small(**fields):
    return random_model(VanillaTransformerConfig(**{**SMALL, "vocab_size": 90, **fields}))


def varied(**fields):
    """Return a model whose translations hold many tokens, and a tokenizer for it."""
    model, tokenizer = small(tie_word_embeddings=False, **fields)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.5)
    return model, tokenizer


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("other", ["marian-fp32", "ctranslate2-fp32"])
def test_other_engines_give_our_ids(other, beams):
    if other.startswith("ctranslate2"):
        pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    model, tokenizer = varied()
    case = Case(batch=16, beams=beams, source_tokens=7, new_tokens=9)
    made = Contenders(model, tokenizer, threads=1, longest=9)
    sources = draw_sources(case, model.config)
    ours, theirs = (made.make(name)(sources, case) for name in ("ours-fp32", other))
    assert ours == theirs
    assert len({tuple(row) for row in ours}) > 8
    assert len({token for row in ours for token in row}) > 5


def test_engines_know_both_vocabularies():
    pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    fields = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 70}
    model, tokenizer = varied(**fields)
    case = Case(batch=2, beams=2, source_tokens=7, new_tokens=9)
    made = Contenders(model, tokenizer, threads=1, longest=9)
    sources = draw_sources(case, model.config)
    assert max(max(row) for row in sources) >= 70
    names = ("ours-fp32", "marian-fp32", "ctranslate2-fp32")
    ours, *theirs = (made.make(name)(sources, case) for name in names)
    assert theirs == [ours, ours]


def test_all_give_the_number_of_tokens_that_is_forced():
    """Even where the model would end, or never end."""
    model, tokenizer = small(output_bias=True)
    model.lm_head.bias.data[model.config.eos_token_id] = 100.0
    made, missing = Contenders(model, tokenizer, threads=1, longest=6).make_all(None)
    assert {*made, *missing} == {*CONTENDERS}
    assert all(name.startswith("ctranslate2") for name in missing)
    cases = [Case(1, 1, 5, 3), Case(3, 2, 5, 6)]
    race = Race(made, {case: draw_sources(case, model.config) for case in cases})
    assert sum(race.warm_up()) == len(made) * len(cases)


def test_each_precision_is_what_its_name_says():
    model, tokenizer = small()
    made = Contenders(model, tokenizer, threads=1, longest=5)
    assert made.make_model("ours-fp32") is model
    for name in ("ours-bf16", "marian-bf16"):
        assert {tensor.dtype for tensor in made.make_model(name).parameters()} == {torch.bfloat16}
    assert model.dtype == made.make_model("marian-fp32").dtype == torch.float32
    assert isinstance(made.make_model("ours-int8").lm_head, Int8Linear)


def test_the_models_own_rules_of_generation_are_laid_aside():
    model, tokenizer = small()
    model.generation_config.num_beams, model.generation_config.gnmt_alpha = 3, 0.6
    model.generation_config.suppress_tokens = list(range(4, 80))
    made = Contenders(model, tokenizer, threads=1, longest=5)
    for name in ("ours-fp32", "marian-fp32"):
        settings = made.make_model(name).generation_config
        assert settings.suppress_tokens is None
        assert settings.num_beams in (1, None)
        assert getattr(settings, "gnmt_alpha", None) is None


def test_tables_of_positions_reach_the_longest_translation():
    made = Contenders(*small(), threads=1, longest=3000)
    assert made.make_model("marian-fp32").config.max_position_embeddings == 3001


def test_an_engine_that_is_not_installed_is_left_out_unless_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    contenders = Contenders(*small(), threads=1, longest=5)
    made, missing = contenders.make_all(None)
    assert [*made, *missing] == CONTENDERS
    assert set(missing) == {"ctranslate2-fp32", "ctranslate2-int8"}
    assert "pip install" in missing["ctranslate2-int8"]
    with pytest.raises(ValueError, match="ctranslate2-int8 cannot take part: .*pip install"):
        contenders.make_all(["ours-fp32", "ctranslate2-int8"])


def test_a_model_that_marian_cannot_express_runs_without_it():
    contenders = Contenders(*small(norm_position="pre"), threads=1, longest=5)
    _, missing = contenders.make_all(None)
    assert "norm_position='pre'" in missing["marian-bf16"]
    with pytest.raises(ValueError, match="marian-fp32 cannot take part: .*norm_position='pre'"):
        contenders.make_all(["marian-fp32"])


def test_ctranslate2_gets_the_threads_and_one_worker(monkeypatch):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")
    given = []
    monkeypatch.setattr(ctranslate2, "Translator", lambda *_, **kwargs: given.append(kwargs))
    Contenders(*small(), threads=2, longest=5).make("ctranslate2-int8")
    assert given == [{"compute_type": "int8", "inter_threads": 1, "intra_threads": 2}]


def test_another_kind_of_model_is_refused_by_name(monkeypatch):
    from hf_vanilla_transformer.benchmark import contenders

    monkeypatch.setattr(
        contenders, "load_for_translation", lambda *_, **__: (SimpleNamespace(), None)
    )
    with pytest.raises(ValueError, match="some/model is a SimpleNamespace"):
        load_model("some/model")
