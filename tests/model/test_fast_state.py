"""What the decoding state holds, counted in bytes and in copies."""

import torch

from hf_vanilla_transformer.model.fast_state import DecodingState

HEADS, WIDTH, SOURCE, BEAMS = 4, 8, 50, 4


def state(sentences=3, layers=2):
    def memory():
        return torch.randn(sentences, SOURCE, HEADS * WIDTH)

    return DecodingState(
        memory=[(memory(), memory()) for _ in range(layers)],
        is_real=None,
        num_heads=HEADS,
    )


def step(held, rows):
    held.begin(rows)
    for layer in range(2):
        held.attend_self(layer, *torch.randn(3, rows, HEADS * WIDTH))
        held.attend_memory(layer, torch.randn(rows, HEADS * WIDTH))
    held.end()


def test_the_source_is_held_once_for_all_hypotheses():
    held = state()
    step(held, 3)
    held.follow(torch.zeros(3, BEAMS, dtype=torch.long))
    step(held, 3 * BEAMS)
    count = sum(keys.numel() + values.numel() for keys, values in held.memory)
    assert count == 2 * 2 * 3 * SOURCE * HEADS * WIDTH


def test_keys_of_the_past_stay_where_they_are():
    held = state()
    step(held, 3)
    places = set()
    for _ in range(8):
        held.follow(torch.randint(0, 1, (3, BEAMS)))
        step(held, 3 * BEAMS)
        places.add(held.own[0].data_ptr())
    assert len(places) == 1


def test_attention_is_equation_one():
    """A single head of a single sentence, by hand."""
    keys, values = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.tensor([[[2.0], [4.0]]])
    held = DecodingState([(keys, values)], None, num_heads=1)
    held.begin(1)
    context = held.attend_memory(0, torch.tensor([[2.0, 0.0]]))
    weight = torch.tensor(2.0 / 2**0.5).sigmoid()  # exp(a) / (exp(a) + exp(0))
    torch.testing.assert_close(context, (weight * 2 + (1 - weight) * 4).view(1, 1))


def test_half_precision_is_attended_to_in_float32():
    held = DecodingState(
        [(torch.randn(1, 3, 8).bfloat16(), torch.randn(1, 3, 8).bfloat16())],
        torch.tensor([[True, True, False]]),
        num_heads=2,
    )
    held.begin(1)
    context = held.attend_memory(0, torch.randn(1, 8).bfloat16())
    assert context.dtype == torch.bfloat16
    assert held.memory[0][0].dtype == torch.float32
