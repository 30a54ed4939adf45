"""Tied and untied matrices survive saving, loading, training and resizing.

Reported of others: https://github.com/huggingface/transformers/issues/45005
"""

import itertools
import os
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_vanilla_transformer import VanillaTransformerForConditionalGeneration

SOURCE, TARGET = "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight"
SHARED, OUTPUT = "model.shared.weight", "lm_head.weight"
SEPARATE = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 90}
# Configuration, and the groups of matrices that are one.
WAYS = {
    "all": ({}, [{SHARED, SOURCE, TARGET, OUTPUT}]),
    "embeddings": ({"tie_word_embeddings": False}, [{SHARED, SOURCE, TARGET}]),
    "output": (SEPARATE, [{TARGET, OUTPUT}]),
    "nothing": (SEPARATE | {"tie_word_embeddings": False}, []),
}
IDS = torch.tensor([[5, 6, 7, 3], [8, 9, 3, 0]])
LABELS = torch.tensor([[15, 16, 3], [17, 3, -100]])

LOAD = """
import sys
import torch
from hf_vanilla_transformer import VanillaTransformerForConditionalGeneration

for folder in sys.argv[1:]:
    inputs = torch.load(folder + "/inputs.pt")
    model, info = VanillaTransformerForConditionalGeneration.from_pretrained(
        folder, output_loading_info=True
    )
    parameters = dict(model.named_parameters(remove_duplicate=False))
    torch.save(
        {
            "parameters": parameters,
            "addresses": {name: x.data_ptr() for name, x in parameters.items()},
            "logits": model(**inputs).logits,
            "missing": sorted(info["missing_keys"]),
        },
        folder + "/found.pt",
    )
"""


def parameters(model):
    return dict(model.named_parameters(remove_duplicate=False))


def ties(addresses):
    """Return the groups of names with one address, from {name: address}."""
    groups = {}
    for name, address in addresses.items():
        groups.setdefault(address, set()).add(name)
    return sorted((group for group in groups.values() if len(group) > 1), key=sorted)


def ties_of(model):
    return ties({name: x.data_ptr() for name, x in parameters(model).items()})


def logits(model):
    return model(input_ids=IDS, labels=LABELS).logits


def load(folder):
    return VanillaTransformerForConditionalGeneration.from_pretrained(
        folder, output_loading_info=True
    )


def assert_same(loaded, model):
    for name, parameter in parameters(model).items():
        assert parameters(loaded)[name].equal(parameter), name
    assert logits(loaded).equal(logits(model))


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.fixture
def model(tiny_model, way):
    return tiny_model(**WAYS[way][0], output_bias=True)


def test_a_new_process_finds_the_same_weights_and_ties(tiny_model, tmp_path):
    models = {name: tiny_model(**fields) for name, (fields, _) in WAYS.items()}
    for name, model in models.items():
        assert ties_of(model) == WAYS[name][1]
        model.save_pretrained(tmp_path / name)
        torch.save({"input_ids": IDS, "labels": LABELS}, tmp_path / name / "inputs.pt")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    environment = {**os.environ, "PYTHONPATH": root}
    folders = [str(tmp_path / name) for name in WAYS]
    subprocess.run([sys.executable, "-c", LOAD, *folders], check=True, env=environment)
    for name, model in models.items():
        found = torch.load(tmp_path / name / "found.pt")
        assert found["missing"] == []
        assert ties(found["addresses"]) == WAYS[name][1]
        for key, parameter in parameters(model).items():
            assert found["parameters"][key].equal(parameter), key
        assert found["logits"].equal(logits(model))


def test_the_file_holds_each_matrix_once(tiny_model, way, tmp_path):
    # Wide enough that the names in the file's header weigh nothing.
    model = tiny_model(**WAYS[way][0], d_ff=1024)
    model.save_pretrained(tmp_path)
    weight = sum(parameter.numel() for parameter in model.parameters()) * 4
    size = (tmp_path / "model.safetensors").stat().st_size
    assert weight <= size <= 1.01 * weight


def test_a_step_after_loading_keeps_ties_and_differences(model, way, tmp_path):
    model.save_pretrained(tmp_path / "first")
    loaded, _ = load(tmp_path / "first")
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.5)
    loaded(input_ids=IDS, labels=LABELS).loss.backward()
    optimizer.step()
    assert not logits(loaded).equal(logits(model))
    loaded.save_pretrained(tmp_path / "second")
    again, info = load(tmp_path / "second")
    assert not info["missing_keys"]
    assert ties_of(again) == ties_of(loaded) == WAYS[way][1]
    assert_same(again, loaded)
    if way == "embeddings":
        assert not again.lm_head.weight.equal(again.model.shared.weight)


def aliases(way):
    return sorted(set.union({SOURCE, TARGET, OUTPUT}, *WAYS[way][1]))


@pytest.mark.parametrize(
    ("way", "lost"),
    [
        (way, lost)
        for way in WAYS
        for count in (1, 2, 3, 4)
        for lost in itertools.combinations(aliases(way), count)
    ],
    ids=lambda x: x if isinstance(x, str) else "+".join(name.split(".")[-2][:12] for name in x),
)
def test_an_alias_missing_from_the_file_is_found_elsewhere_or_named(
    tiny_model, way, lost, tmp_path
):
    """The file holds every alias, as foreign files do, but for those that are lost."""
    model = tiny_model(**WAYS[way][0])
    model.save_pretrained(tmp_path)
    tensors = {n: x.detach().clone() for n, x in model.state_dict().items() if n not in lost}
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    assert not set(lost) & set(load_file(tmp_path / "model.safetensors"))
    loaded, info = load(tmp_path)
    tied = set().union(*WAYS[way][1])
    groups = WAYS[way][1] + [{name} for name in aliases(way) if name not in tied]
    lost_groups = [group for group in groups if group <= set(lost)]
    for group in lost_groups:
        assert group & set(info["missing_keys"])
    if not lost_groups:
        assert not set(info["missing_keys"])
        assert_same(loaded, model)
    assert ties_of(loaded) == WAYS[way][1]


RESIZABLE = {
    name: {key: value for key, value in fields.items() if key != "decoder_vocab_size"}
    for name, (fields, _) in WAYS.items()
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("pad_to", "rows"), [(None, 108), (16, 112)])
@pytest.mark.parametrize("output_bias", [False, True])
def test_a_resized_vocabulary_keeps_its_rows_and_ties(
    tiny_model, way, pad_to, rows, output_bias, tmp_path
):
    model = tiny_model(**RESIZABLE[way], output_bias=output_bias)
    before = {name: x.detach().clone() for name, x in parameters(model).items()}
    old_logits = logits(model)
    model.resize_token_embeddings(108, pad_to_multiple_of=pad_to)
    assert model.config.vocab_size == rows
    assert ties_of(model) == WAYS[way][1]
    names = [SOURCE, TARGET, OUTPUT] + ["lm_head.bias"] * output_bias
    for name in names:
        assert parameters(model)[name].shape[0] == rows, name
        assert parameters(model)[name][:100].equal(before[name]), name
    assert logits(model).shape[-1] == rows
    torch.testing.assert_close(logits(model)[..., :100], old_logits, atol=1e-5, rtol=0)
    model.save_pretrained(tmp_path)
    loaded, info = load(tmp_path)
    assert not info["missing_keys"]
    assert ties_of(loaded) == WAYS[way][1]
    assert_same(loaded, model)


@pytest.mark.parametrize("way", WAYS)
def test_a_smaller_vocabulary_keeps_its_first_rows_and_ties(tiny_model, way):
    model = tiny_model(**RESIZABLE[way], output_bias=True)
    before = logits(model)
    model.resize_token_embeddings(50)
    assert ties_of(model) == WAYS[way][1]
    torch.testing.assert_close(logits(model), before[..., :50], atol=1e-5, rtol=0)


@pytest.mark.parametrize("way", WAYS)
def test_two_vocabularies_of_one_size_are_resized_together(tiny_model, way, tmp_path):
    model = tiny_model(**WAYS[way][0] | {"vocab_size": 90, "decoder_vocab_size": 90})
    model.resize_token_embeddings(108)
    assert model.config.vocab_size == model.config.decoder_vocab_size == 108
    model.save_pretrained(tmp_path)
    loaded, info = load(tmp_path)
    assert not info["missing_keys"]
    assert_same(loaded, model)


@pytest.mark.parametrize(
    ("fields", "rows", "message"),
    [
        (SEPARATE, 108, "vocab_size=100 and decoder_vocab_size=90 differ"),
        ({}, 3, "eos_token_id=3 is not an id below the vocabulary size 3"),
    ],
)
def test_a_resize_that_cannot_be_is_refused_before_anything_changes(
    tiny_model, fields, rows, message
):
    model = tiny_model(**fields)
    before, config = parameters(model), model.config.to_dict()
    with pytest.raises(ValueError, match=message):
        model.resize_token_embeddings(rows)
    assert model.config.to_dict() == config
    after = parameters(model)
    assert all(after[name] is parameter for name, parameter in before.items())
