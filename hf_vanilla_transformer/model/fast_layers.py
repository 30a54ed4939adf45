"""Encoder and decoder for inference: packed projections, and one new token of a hypothesis a step.

The references are `Encoder` and `Decoder`, whose norms, residuals and positions are used here.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from .attention import MultiHeadAttention, sdpa_attention
from .fast_linear import TensorMap, pack
from .fast_state import DecodingState
from .layers import DecoderLayer, EncoderLayer, FeedForward
from .masks import segment_mask, segment_positions
from .stacks import Decoder, Encoder

FIRST_POSITIONS = 128


class FastFeedForward:
    """`FeedForward` on packed weights, without dropout.

    Args:
        ffn: The reference version.
    """

    def __init__(self, ffn: FeedForward) -> None:
        self.activation = ffn.activation
        self.is_relu = ffn.activation is functional.relu_
        self.is_gated = ffn.gate is not None
        inner = (ffn.fc1, ffn.gate) if self.is_gated else (ffn.fc1,)
        self.inner = pack(*inner, relu=self.is_relu)
        self.fc2 = pack(ffn.fc2)

    def __call__(self, x: Tensor) -> Tensor:
        """Map [..., D] to [..., D]."""
        inner = self.inner(x)
        if self.is_gated:
            inner, gate = inner.chunk(2, -1)
            return self.fc2(self.activation(inner) * gate)
        return self.fc2(inner if self.is_relu else self.activation(inner))


class FastEncoder:
    """`Encoder` on packed weights.

    Args:
        encoder: The reference version.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.layers = [FastEncoderLayer(layer) for layer in encoder.layers]

    def __call__(self, input_ids: Tensor, segments: Tensor | None) -> Tensor:
        """Encode ids [B, S] with segment ids [B, S], None for no padding, as memory [B, S, D]."""
        encoder = self.encoder
        if segments is None:
            positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        else:
            positions = segment_positions(segments)
        encoder.check_length(input_ids.shape[1], positions)
        x = encoder.embed(encoder.embed_tokens(input_ids), positions)
        mask = segment_mask(segments, segments)
        for layer in self.layers:
            x = layer(x, mask)
        return encoder.final_norm(x)


class FastEncoderLayer:
    """`EncoderLayer` on packed weights.

    Args:
        layer: The plain twin.
    """

    def __init__(self, layer: EncoderLayer) -> None:
        self.layer = layer
        self.self_attn = layer.self_attn
        self.widths = _widths(layer.self_attn)
        self.qkv = pack(*_projections(layer.self_attn))
        self.out = pack(layer.self_attn.out_proj)
        self.ffn = FastFeedForward(layer.ffn)

    def __call__(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map [B, S, D] to [B, S, D]."""
        layer = self.layer
        y = layer.entering(x, layer.self_attn_layer_norm)
        heads = (self.self_attn.split_heads(z) for z in self.qkv(y).split(self.widths, -1))
        context, _ = sdpa_attention(*heads, mask, 0.0)
        y = self.out(context.transpose(1, 2).flatten(-2))
        x = layer.leaving(x, y, norm=layer.self_attn_layer_norm)
        y = self.ffn(layer.entering(x, layer.ffn_layer_norm))
        return layer.leaving(x, y, norm=layer.ffn_layer_norm)


class FastDecoder:
    """`Decoder` and the projection to the vocabulary on packed weights, a token at a time.

    Args:
        decoder: The reference version.
        projection: From decoder states to logits.
    """

    def __init__(self, decoder: Decoder, projection: nn.Module) -> None:
        self.decoder = decoder
        self.layers = [FastDecoderLayer(layer) for layer in decoder.layers]
        self.projection = pack(projection)
        self._encodings: Tensor | None = None

    def start(self, memory: Tensor, segments: Tensor | None) -> DecodingState:
        """Prepare to decode.

        Args:
            memory: Encoder states [B, S, D].
            segments: Segment ids [B, S] of the source, None for no padding.
        """
        return DecodingState(
            memory=[layer.project_memory(memory) for layer in self.layers],
            is_real=None if segments is None else segments.eq(1),
            num_heads=self.decoder.config.num_heads,
        )

    def _encoding(self, position: int) -> Tensor:
        """Return the encoding [D] of a position, from a table whose length doubles when needed."""
        if self._encodings is None or position >= len(self._encodings):
            weight = self.decoder.embed_tokens.weight
            rows = max(FIRST_POSITIONS, 2 * position)
            self._encodings = self.decoder.embed_positions.table(rows, weight)
        return self._encodings[position]

    def step(self, token_ids: Tensor, state: DecodingState) -> Tensor:
        """Extend each hypothesis by a token id [R] and return logits [R, V] of the next one."""
        state.begin(len(token_ids))
        x = self.decoder.embed_tokens(token_ids) + self._encoding(state.length)
        for index, layer in enumerate(self.layers):
            x = layer(x, state, index)
        state.end()
        return self.projection(self.decoder.final_norm(x))


class FastDecoderLayer:
    """`DecoderLayer` on packed weights.

    Args:
        layer: The plain twin.
    """

    def __init__(self, layer: DecoderLayer) -> None:
        own, cross = layer.self_attn, layer.cross_attn
        self.is_pre_norm = layer.is_pre_norm
        self.self_widths, self.memory_widths = _widths(own), _widths(cross)[1:]
        self.self_qkv = pack(*_projections(own))
        self.self_out = pack(own.out_proj)
        self.self_norm = _norm(layer.self_attn_layer_norm)
        self.cross_query = pack(cross.q_proj)
        self.memory_kv = pack(cross.k_proj, cross.v_proj)
        self.cross_out = pack(cross.out_proj)
        self.cross_norm = _norm(layer.cross_attn_layer_norm)
        self.ffn = FastFeedForward(layer.ffn)
        self.ffn_norm = _norm(layer.ffn_layer_norm)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Project memory [B, S, D] to keys [B, S, h*d_k] and values [B, S, h*d_v]."""
        return self.memory_kv(memory).split(self.memory_widths, -1)

    def __call__(self, x: Tensor, state: DecodingState, index: int) -> Tensor:
        """Map the newest position [R, D] to [R, D]."""

        def attend_self(y: Tensor) -> Tensor:
            query, key, value = self.self_qkv(y).split(self.self_widths, -1)
            return self.self_out(state.attend_self(index, query, key=key, value=value))

        def attend_memory(y: Tensor) -> Tensor:
            return self.cross_out(state.attend_memory(index, self.cross_query(y)))

        x = self._residual(x, attend_self, norm=self.self_norm)
        x = self._residual(x, attend_memory, norm=self.cross_norm)
        return self._residual(x, self.ffn, norm=self.ffn_norm)

    def _residual(self, x: Tensor, sublayer: TensorMap, *, norm: TensorMap) -> Tensor:
        """Join x with the sub-layer's output, as `ResidualLayer` does."""
        if self.is_pre_norm:
            return sublayer(norm(x)).add_(x)
        return norm(sublayer(x).add_(x))


def _norm(norm: nn.LayerNorm) -> TensorMap:
    """Return a norm without the way through its module."""
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _projections(attention: MultiHeadAttention) -> tuple[nn.Module, nn.Module, nn.Module]:
    return attention.q_proj, attention.k_proj, attention.v_proj


def _widths(attention: MultiHeadAttention) -> list[int]:
    return [projection.out_features for projection in _projections(attention)]
