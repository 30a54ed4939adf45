"""Tiny random models."""

import torch

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
)

TINY = {
    "vocab_size": 100,
    "d_model": 64,
    "d_ff": 128,
    "num_heads": 4,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "dropout": 0.0,
    "max_position_embeddings": 64,
}


def build_model(seed=0, **fields):
    """Build a random model in evaluation mode whose every parameter, biases too, is random."""
    torch.manual_seed(seed)
    model = VanillaTransformerForConditionalGeneration(
        VanillaTransformerConfig(**{**TINY, **fields})
    )
    for parameter in model.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=parameter.mean().item(), std=0.2)
    return model.eval()
