"""Sizes, memory and weight files, checked before anything is allocated."""

import os

import pytest
import torch
from safetensors.torch import save_file
from tiny import build_model

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model import pretrained
from hf_vanilla_transformer.model.pretrained import (
    check_known,
    check_memory,
    check_weight_files,
    count_parameters,
    tensor_shapes,
)

SHAPES = [
    {},
    {"tie_word_embeddings": False},
    {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 90},
    {"activation_function": "swiglu", "d_k": 6, "d_v": 10},
    {"position_type": "learned", "encoder_layers": 1, "decoder_layers": 3},
]


@pytest.mark.parametrize("fields", SHAPES)
def test_the_count_is_that_of_the_matrices_and_embeddings_of_a_model(fields):
    model = build_model(**fields)
    parameters = {id(one): one for one in model.parameters()}.values()
    assert count_parameters(model.config) == sum(one.numel() for one in parameters if one.dim() > 1)


def test_a_model_that_memory_cannot_hold_is_refused_with_both_sizes(monkeypatch):
    config = VanillaTransformerConfig(vocab_size=1000)
    size = count_parameters(config) * torch.get_default_dtype().itemsize
    for pages, is_refused in ((size, False), (size - 1, True)):
        sizes = {"SC_PHYS_PAGES": pages, "SC_PAGE_SIZE": 1}
        monkeypatch.setattr(os, "sysconf", sizes.get)
        if is_refused:
            with pytest.raises(
                ValueError, match=rf"{count_parameters(config):,} parameters, .* GB"
            ):
                check_memory(config)
        else:
            check_memory(config)


def test_shapes_are_read_from_the_head_of_a_file(tmp_path):
    tensors = {"a": torch.zeros(2, 3), "b": torch.zeros(4, dtype=torch.bfloat16)}
    save_file(tensors, tmp_path / "w.safetensors", {"format": "pt"})
    assert tensor_shapes(str(tmp_path / "w.safetensors")) == {"a": [2, 3], "b": [4]}


def test_weights_elsewhere_of_another_kind_or_shape_are_refused(tmp_path):
    model = build_model()
    model.save_pretrained(tmp_path / "model")
    model.name_or_path = str(tmp_path / "model")
    file = str(tmp_path / "model" / "model.safetensors")
    check_weight_files(model, [file], check_shapes=True)
    outside = str(tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match=f"names {outside}, which is not in"):
        check_weight_files(model, [outside], check_shapes=True)
    with pytest.raises(ValueError, match=r"model\.bin is not read: .*pickles"):
        check_weight_files(model, [file.replace("safetensors", "bin")], check_shapes=True)
    save_file({"lm_head.weight": torch.zeros(7, 5)}, file)
    with pytest.raises(ValueError, match=r"lm_head.weight is \[7, 5\] in .*, and \[100, 64\] by"):
        check_weight_files(model, [file], check_shapes=True)
    check_weight_files(model, [file], check_shapes=False)


def test_an_argument_that_would_be_ignored_is_refused():
    check_known(dict.fromkeys(pretrained.IGNORED_ARGUMENTS))
    with pytest.raises(TypeError, match=r"unexpected argument head_mask=1"):
        check_known({"head_mask": 1})
