"""Fast encoder and decoder against their plain twins, a token at a time."""

import pytest
import torch

from hf_vanilla_transformer.model.fast_layers import FastDecoder, FastEncoder

ARCHITECTURES = [
    {},
    {"norm_position": "pre", "activation_function": "swiglu", "attention_bias": True},
    {"d_k": 24, "d_v": 8, "activation_function": "gelu", "output_bias": True},
    {"position_type": "learned", "scale_embedding": False, "activation_function": "silu"},
]
CLOSE = {"atol": 2e-5, "rtol": 2e-5}


@pytest.mark.parametrize("fields", ARCHITECTURES)
@pytest.mark.parametrize("padding", ["none", "right", "left"])
@torch.no_grad()
def test_memory_and_logits_are_those_of_the_model(tiny_model, ragged, fields, padding):
    model = tiny_model(**fields)
    lengths = (6, 6, 6) if padding == "none" else (6, 3, 1)
    source, mask = ragged(lengths, side="left" if padding == "left" else "right")
    segments = None if padding == "none" else mask
    expected = model.get_encoder()(source, mask).last_hidden_state
    memory = FastEncoder(model.get_encoder())(source, segments)
    is_real = mask.bool()
    torch.testing.assert_close(memory[is_real], expected[is_real], **CLOSE)
    decoder = FastDecoder(model.get_decoder(), model.lm_head)
    target = torch.randint(4, 100, (3, 20))
    state = decoder.start(memory, segments)
    ours = torch.stack([decoder.step(column, state) for column in target.t()], 1)
    theirs = model(input_ids=source, attention_mask=mask, decoder_input_ids=target).logits
    torch.testing.assert_close(ours, theirs, **CLOSE)


@torch.no_grad()
def test_hypotheses_see_their_own_ancestors_alone(tiny_model, ragged):
    """Follow random parents past the first buffers, and drop a sentence on the way."""
    model, (source, mask) = tiny_model(), ragged((5, 3, 4))
    memory = model.get_encoder()(source, mask).last_hidden_state
    decoder = FastDecoder(model.get_decoder(), model.lm_head)
    state = decoder.start(memory, mask)
    beams, kept = 3, torch.arange(3)
    texts = torch.randint(4, 100, (3, 1, 2))
    for column in texts[:, 0].t():
        decoder.step(column, state)
    for step in range(30):
        parents = torch.randint(0, texts.shape[1], (len(texts), beams))
        tokens = torch.randint(4, 100, (len(texts), beams, 1))
        texts = torch.cat((texts.take_along_dim(parents[..., None], 1), tokens), -1)
        state.follow(parents)
        logits = decoder.step(tokens.flatten(), state)
        if step == 20:
            kept = torch.tensor([0, 2])
            state.keep(kept)
            texts = texts[kept]
    theirs = model(
        input_ids=source[kept], attention_mask=mask[kept], decoder_input_ids=texts.flatten(0, 1)
    ).logits[:, -1]
    torch.testing.assert_close(logits, theirs, **CLOSE)
