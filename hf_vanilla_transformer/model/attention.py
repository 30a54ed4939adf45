"""Scaled dot-product attention and its multi-head form (Vaswani et al. 2017, §3.2)."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from .cache import DecoderCache
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_attention import fast_attention, is_worthwhile


def eager_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, Tensor]:
    """Compute softmax(Q K^T / sqrt(d_k)) V and keep the weights (§3.2.1, eq. 1).

    A row whose mask allows no key has weights, and so an output, of zero.

    Args:
        query: [B, h, T, d_k].
        key: [B, h, S, d_k].
        value: [B, h, S, d_v].
        mask: Boolean, broadcastable to [B, h, T, S], True where attention is allowed, or None.
        dropout: Probability with which a weight is dropped.

    Returns:
        Output [B, h, T, d_v] and weights [B, h, T, S] before dropout.
    """
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return functional.dropout(weights, dropout) @ value, weights


def sdpa_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float
) -> tuple[Tensor, None]:
    """Compute the same output with PyTorch's fused kernels, which do not show the weights."""
    output = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout
    )
    return output, None


ATTENTION_FUNCTIONS: dict[str, Callable[..., tuple[Tensor, Tensor | None]]] = {
    "eager": eager_attention,
    "sdpa": sdpa_attention,
}


class MultiHeadAttention(nn.Module):
    """h attentions in parallel on projections of width d_k and d_v (§3.2.2).

    Attributes:
        fast: Whether `fast_attention` may stand in for the configured backend.
    """

    fast = True

    def __init__(self, config: VanillaTransformerConfig, layer_idx: int) -> None:
        super().__init__()
        self.config = config
        self.layer_idx = layer_idx
        bias = config.attention_bias
        self.q_proj = nn.Linear(config.d_model, config.num_heads * config.d_k, bias=bias)
        self.k_proj = nn.Linear(config.d_model, config.num_heads * config.d_k, bias=bias)
        self.v_proj = nn.Linear(config.d_model, config.num_heads * config.d_v, bias=bias)
        self.out_proj = nn.Linear(config.num_heads * config.d_v, config.d_model, bias=bias)

    def split_heads(self, x: Tensor) -> Tensor:
        """Turn [B, L, h*d] into [B, h, L, d]."""
        return x.unflatten(-1, (self.config.num_heads, -1)).transpose(1, 2)

    def project_keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Project [B, S, D] to keys [B, h, S, d_k] and values [B, h, S, d_v]."""
        return self.split_heads(self.k_proj(x)), self.split_heads(self.v_proj(x))

    def attend(
        self, query: Tensor, key: Tensor, *, value: Tensor, mask: Tensor | None, show_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Attend with the configured backend, or with the one that shows its weights."""
        backend = "eager" if show_weights else self.config._attn_implementation
        dropout = self.config.attention_dropout if self.training else 0.0
        if self.fast and not show_weights and is_worthwhile(backend, key, dropout=dropout):
            return fast_attention(query, key, value, mask), None
        return ATTENTION_FUNCTIONS[backend](query, key, value, mask, dropout)


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence to itself, over what a cache holds of it (§3.2.3)."""

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        cache: DecoderCache | None = None,
        show_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Map [B, T, D] to [B, T, D] and, if shown, weights [B, h, T, S]."""
        query = self.split_heads(self.q_proj(x))
        key, value = self.project_keys_values(x)
        if cache is not None:
            key, value = cache.extend(self.layer_idx, key, value=value)
        context, weights = self.attend(
            query, key, value=value, mask=mask, show_weights=show_weights
        )
        return self.out_proj(context.transpose(1, 2).flatten(-2)), weights


class CrossAttention(MultiHeadAttention):
    """Attention of the target to the encoder's memory (§3.2.3).

    The n beams of a sentence share one row of memory: they are folded into the query axis, so that
    keys and values of the memory are neither repeated nor reordered.
    """

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None,
        cache: DecoderCache | None = None,
        show_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Map [B*n, T, D] and memory [B, S, D] to [B*n, T, D] and weights [B*n, h, T, S]."""
        key, value = self._memory_keys_values(memory, cache)
        beams, length = x.shape[0] // key.shape[0], x.shape[1]
        query = self.split_heads(self.q_proj(x.reshape(key.shape[0], beams * length, -1)))
        context, weights = self.attend(
            query, key, value=value, mask=mask, show_weights=show_weights
        )
        context = context.transpose(1, 2).reshape(x.shape[0], length, -1)
        if weights is not None and beams > 1:
            weights = weights.unflatten(2, (beams, length)).transpose(1, 2).flatten(0, 1)
        return self.out_proj(context), weights

    def _memory_keys_values(
        self, memory: Tensor, cache: DecoderCache | None
    ) -> tuple[Tensor, Tensor]:
        if cache is None:
            return self.project_keys_values(memory)
        stored = cache.memory(self.layer_idx)
        if stored is None:
            stored = cache.store_memory(self.layer_idx, *self.project_keys_values(memory))
        return stored
