"""The layers of encoder and decoder: attention and feed-forward sub-layers with residuals."""

from torch import Tensor, nn
from torch.nn import functional
from transformers.modeling_layers import GradientCheckpointingLayer

from .attention import CrossAttention, SelfAttention
from .cache import DecoderCache
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_dropout import FastDropout

ACTIVATION_FUNCTIONS = {
    "relu": functional.relu_,
    "gelu": functional.gelu,
    "silu": functional.silu,
    "swiglu": functional.silu,
}


class FeedForward(nn.Module):
    """A position-wise network, max(0, x W1 + b1) W2 + b2 (Vaswani et al. 2017, §3.3, eq. 2).

    With "swiglu" the inner activation is silu(x W1 + b1) * (x V + c) (Shazeer 2020, eq. 6).
    """

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__()
        self.activation = ACTIVATION_FUNCTIONS[config.activation_function]
        self.dropout = FastDropout(config.activation_dropout)
        self.fc1 = nn.Linear(config.d_model, config.d_ff)
        is_gated = config.activation_function == "swiglu"
        self.gate = nn.Linear(config.d_model, config.d_ff) if is_gated else None
        self.fc2 = nn.Linear(config.d_ff, config.d_model)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, L, D] to [B, L, D]."""
        inner = self.activation(self.fc1(x))
        if self.gate is not None:
            inner = inner * self.gate(x)
        return self.fc2(self.dropout(inner))


class ResidualLayer(GradientCheckpointingLayer):
    """A layer whose sub-layers y = Sublayer(x) sit in residual connections (§3.1).

    Post-norm: LayerNorm(x + y). Pre-norm: x + Sublayer(LayerNorm(x)).
    """

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__()
        self.is_pre_norm = config.norm_position == "pre"
        self.dropout = FastDropout(config.dropout)

    def entering(self, x: Tensor, norm: nn.LayerNorm) -> Tensor:
        """Return what the sub-layer reads, [B, L, D]."""
        return norm(x) if self.is_pre_norm else x

    def leaving(self, x: Tensor, y: Tensor, *, norm: nn.LayerNorm) -> Tensor:
        """Join the residual x with the sub-layer's output y, both [B, L, D]."""
        x = x + self.dropout(y)
        return x if self.is_pre_norm else norm(x)


class EncoderLayer(ResidualLayer):
    """Self-attention, then a feed-forward network (§3.1)."""

    def __init__(self, config: VanillaTransformerConfig, layer_idx: int) -> None:
        super().__init__(config)
        self.self_attn = SelfAttention(config, layer_idx)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.ffn = FeedForward(config)
        self.ffn_layer_norm = nn.LayerNorm(config.d_model)

    def forward(
        self, x: Tensor, mask: Tensor | None, show_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Map [B, S, D] to [B, S, D] and, if shown, weights [B, h, S, S]."""
        y, weights = self.self_attn(
            self.entering(x, self.self_attn_layer_norm), mask, show_weights=show_weights
        )
        x = self.leaving(x, y, norm=self.self_attn_layer_norm)
        y = self.ffn(self.entering(x, self.ffn_layer_norm))
        return self.leaving(x, y, norm=self.ffn_layer_norm), weights


class DecoderLayer(ResidualLayer):
    """Causal self-attention, attention to the memory, then a feed-forward network (§3.1)."""

    def __init__(self, config: VanillaTransformerConfig, layer_idx: int) -> None:
        super().__init__(config)
        self.self_attn = SelfAttention(config, layer_idx)
        self.self_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.cross_attn = CrossAttention(config, layer_idx)
        self.cross_attn_layer_norm = nn.LayerNorm(config.d_model)
        self.ffn = FeedForward(config)
        self.ffn_layer_norm = nn.LayerNorm(config.d_model)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        self_mask: Tensor | None,
        cross_mask: Tensor | None,
        cache: DecoderCache | None = None,
        show_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Map [B*n, T, D] and memory [B, S, D] to [B*n, T, D] and, if shown, both weights."""
        y, self_weights = self.self_attn(
            self.entering(x, self.self_attn_layer_norm), self_mask, cache, show_weights
        )
        x = self.leaving(x, y, norm=self.self_attn_layer_norm)
        y, cross_weights = self.cross_attn(
            self.entering(x, self.cross_attn_layer_norm), memory, cross_mask, cache, show_weights
        )
        x = self.leaving(x, y, norm=self.cross_attn_layer_norm)
        y = self.ffn(self.entering(x, self.ffn_layer_norm))
        return self.leaving(x, y, norm=self.ffn_layer_norm), self_weights, cross_weights
