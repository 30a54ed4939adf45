"""Models quantised by torchao: the fast search steps aside, folders keep the quantisation."""

import logging

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, TorchAoConfig

from hf_vanilla_transformer.model import fast_generation
from hf_vanilla_transformer.model.fast_model import fast_model

quantization = pytest.importorskip("torchao.quantization")
IDS = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])


def kinds(model):
    return {name: type(x).__name__ for name, x in model.named_parameters()}


def logits(model):
    return model(input_ids=IDS, decoder_input_ids=IDS).logits


@torch.no_grad()
def test_a_quantised_model_translates_and_is_saved_as_it_is(tiny_model, tmp_path, caplog):
    plain = tiny_model()
    plain.save_pretrained(tmp_path / "plain")
    settings = TorchAoConfig(quantization.Int8WeightOnlyConfig())
    model = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "plain", quantization_config=settings
    ).eval()
    assert "Int8Tensor" in kinds(model).values()
    assert 0 < (logits(model) - logits(plain)).abs().max() < 0.5
    fast_generation._tell.cache_clear()
    with caplog.at_level(logging.INFO, logger=fast_generation.logger.name):
        fast_generation.logger.addHandler(caplog.handler)
        found = [model.generate(IDS, num_beams=n, max_new_tokens=5) for n in (1, 2)]
        fast_generation.logger.removeHandler(caplog.handler)
    assert fast_model(model) is None
    assert caplog.text.count("generate runs the library's loop: the model is not plain") >= 1
    model.save_pretrained(tmp_path / "quantised")
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "quantised").eval()
    assert kinds(loaded) == kinds(model)
    assert logits(loaded).equal(logits(model))
    assert loaded.generate(IDS, num_beams=2, max_new_tokens=5).equal(found[1])
