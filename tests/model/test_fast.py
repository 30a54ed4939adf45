"""`model.fast` switches between fast paths and their plain twins, which agree."""

import pytest
import torch


@pytest.fixture
def precision(request):
    """Set the precision of float32 products for a test."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(request.param)
    yield request.param
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("tie", [True, False])
@pytest.mark.parametrize("backend", ["eager", "sdpa"])
@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_loss_and_gradients_are_those_of_the_plain_paths(
    tiny_model, ragged, tie, backend, precision
):
    ids, mask = ragged((9, 5, 3))
    labels = ragged((6, 4, 8), seed=2)[0]
    labels = labels.masked_fill(labels.eq(0), -100)
    fields = {"label_smoothing": 0.1, "tie_word_embeddings": tie, "output_bias": True}
    model = tiny_model(**fields, attn_implementation=backend).train()
    results = []
    for fast in (True, False):
        model.fast = fast
        model.zero_grad()
        output = model(input_ids=ids, attention_mask=mask, labels=labels)
        output.loss.backward()
        results.append((output.loss.detach(), [p.grad.clone() for p in model.parameters()]))
        assert output.logits is None
    torch.testing.assert_close(results[0][0], results[1][0], atol=1e-6, rtol=1e-6)
    for fused, plain in zip(results[0][1], results[1][1], strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-6, rtol=1e-4)
