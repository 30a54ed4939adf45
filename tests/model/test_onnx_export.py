"""Encoder, decoder and decoder with cache are exported, as ONNX graphs too, for any length."""

import pytest
import torch
from torch.export import Dim
from transformers import DynamicCache, EncoderDecoderCache

from hf_vanilla_transformer.model.masks import segment_positions

pytestmark = pytest.mark.filterwarnings("ignore")
LAYERS = 2


class Encoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model.get_encoder()(input_ids, attention_mask).last_hidden_state


class Decoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, decoder_input_ids, memory, attention_mask, decoder_attention_mask):
        return self.model(
            decoder_input_ids=decoder_input_ids,
            encoder_outputs=(memory,),
            attention_mask=attention_mask,
            decoder_attention_mask=decoder_attention_mask,
            use_cache=False,
        ).logits


class CachedDecoder(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, decoder_input_ids, memory, attention_mask, past):
        """Take keys and values of target and source, layer by layer, and extend the target's."""
        held = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for layer in range(LAYERS):
            keys, values, memory_keys, memory_values = past[4 * layer : 4 * layer + 4]
            held.self_attention_cache.update(keys, values, layer)
            held.cross_attention_cache.update(memory_keys, memory_values, layer)
            held.is_updated[layer] = True
        logits = self.model(
            decoder_input_ids=decoder_input_ids,
            encoder_outputs=(memory,),
            attention_mask=attention_mask,
            past_key_values=held,
        ).logits
        layers = held.self_attention_cache.layers
        return logits, [x for layer in layers for x in (layer.keys, layer.values)]


B, S, T, P = Dim("B", max=64), Dim("S", max=64), Dim("T", max=64), Dim("P", max=64)


def source(rows, length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, 100, (rows, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, length - 1 :] = 0
    return ids, mask


def encoder_inputs(rows, length, target, model):
    return source(rows, length)


def decoder_inputs(rows, length, target, model):
    memory = torch.randn(rows, length, 64, generator=torch.Generator().manual_seed(1))
    ids, target_mask = source(rows, target, seed=2)
    return ids, memory, source(rows, length)[1], target_mask


def cached_inputs(rows, length, target, model):
    ids, memory, mask, _ = decoder_inputs(rows, length, target, model)
    held = EncoderDecoderCache(DynamicCache(), DynamicCache())
    with torch.no_grad():
        model(
            decoder_input_ids=ids,
            encoder_outputs=(memory,),
            attention_mask=mask,
            past_key_values=held,
        )
    caches = held.self_attention_cache.layers, held.cross_attention_cache.layers
    past = [x for pair in zip(*caches, strict=True) for y in pair for x in (y.keys, y.values)]
    return ids[:, -1:], memory, mask, past


PARTS = {
    "encoder": (Encoder, encoder_inputs, ({0: B, 1: S}, {0: B, 1: S})),
    "decoder": (
        Decoder,
        decoder_inputs,
        ({0: B, 1: T}, {0: B, 1: S}, {0: B, 1: S}, {0: B, 1: T}),
    ),
    "cached": (
        CachedDecoder,
        cached_inputs,
        (
            {0: B},
            {0: B, 1: S},
            {0: B, 1: S},
            [{0: B, 2: P}, {0: B, 2: P}, {0: B, 2: S}, {0: B, 2: S}] * LAYERS,
        ),
    ),
}


def flat(value):
    return [y for x in value for y in flat(x)] if isinstance(value, list | tuple) else [value]


@pytest.fixture(params=PARTS)
def exported(request, tiny_model):
    """Return a part of a model, its program, and what makes its inputs."""
    kind, inputs, shapes = PARTS[request.param]
    model = tiny_model(encoder_layers=1, decoder_layers=LAYERS)
    part = kind(model).eval()
    arguments = inputs(3, 5, 6, model)
    program = torch.export.export(part, arguments, dynamic_shapes=shapes, strict=False)
    return part, program, lambda *sizes: inputs(*sizes, model)


def assert_same(found, expected, arguments):
    for x, y in zip(found, expected, strict=True):
        if x.dim() == 3 and y.shape[:2] == arguments[-1].shape:
            # What is computed of padding nobody reads.
            x, y = (z[arguments[-1].bool()] for z in (x, y))
        torch.testing.assert_close(x, y, atol=1e-4, rtol=1e-4)


SIZES = [(3, 5, 6), (2, 9, 4), (5, 17, 20)]


@torch.no_grad()
def test_a_program_computes_what_the_model_does_for_any_length(exported):
    part, program, inputs = exported
    for sizes in SIZES:
        arguments = inputs(*sizes)
        found, expected = ([program.module()(*arguments)], [part(*arguments)])
        assert_same(flat(found), flat(expected), flat(arguments))


@pytest.mark.slow
@torch.no_grad()
def test_a_graph_of_onnx_computes_what_the_model_does_for_any_length(exported, tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")
    part, program, inputs = exported
    torch.onnx.export(program, dynamo=True, verbose=False).save(tmp_path / "part.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "part.onnx")
    names = [each.name for each in session.get_inputs()]
    for sizes in SIZES:
        arguments = flat(inputs(*sizes))
        graph = session.run(None, {n: x.numpy() for n, x in zip(names, arguments, strict=True)})
        found = [torch.as_tensor(x) for x in graph]
        assert_same(found, flat([part(*inputs(*sizes))]), arguments)


def test_positions_have_a_graph_in_onnx(tmp_path):
    pytest.importorskip("onnxscript")
    onnxruntime = pytest.importorskip("onnxruntime")

    class Positions(torch.nn.Module):
        def forward(self, segments):
            return segment_positions(segments)

    segments = torch.tensor([[0, 1, 1, 2, 2, 2, 0], [1, 1, 0, 1, 3, 0, 3]])
    shapes = ({0: B, 1: S},)
    torch.onnx.export(
        Positions(), (segments,), dynamo=True, dynamic_shapes=shapes, verbose=False
    ).save(tmp_path / "positions.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "positions.onnx")
    found = session.run(None, {session.get_inputs()[0].name: segments.numpy()})[0]
    assert found[0, 1:6].tolist() == [0, 1, 0, 1, 2]
    assert found[1, [0, 1, 3, 4, 6]].tolist() == [0, 1, 2, 0, 1]
