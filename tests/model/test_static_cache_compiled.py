"""The separate mode for GPUs: the library's static cache and `torch.compile`, tried on the CPU."""

import pytest
import torch
from transformers import CompileConfig


@pytest.mark.parametrize(
    "backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)], ids=str
)
def test_compiled_decoding_gives_the_same_ids_from_one_graph(tiny_model, ragged, backend):
    model, (source, _) = tiny_model(), ragged((9, 5, 7))
    expected = model.generate(source, max_new_tokens=12)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    settings = CompileConfig(fullgraph=True, dynamic=False, mode=None, backend=backend)
    settings._compile_all_devices = True  # the library compiles for accelerators alone
    ids = model.generate(
        source, max_new_tokens=12, cache_implementation="static", compile_config=settings
    )
    assert torch.equal(ids, expected)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
