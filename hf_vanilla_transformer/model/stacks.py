"""Encoder and decoder: embeddings, positions and N layers (Vaswani et al. 2017, §3.1)."""

import math

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import (
    BaseModelOutput,
    BaseModelOutputWithPastAndCrossAttentions,
)

from .cache import VanillaTransformerCache
from .compat import CACHE_KEY, as_decoder_cache
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_dropout import FastDropout
from .guard_ids import check_token_ids
from .layers import DecoderLayer, EncoderLayer
from .masks import decoder_self_mask, segment_mask, segment_positions
from .positions import POSITIONS


class ScaledEmbedding(nn.Embedding):
    """Token embeddings multiplied by sqrt(d_model) (§3.4), unless the config turns that off."""

    def __init__(self, config: VanillaTransformerConfig, vocab_size: int) -> None:
        super().__init__(vocab_size, config.d_model)
        self.embed_scale = math.sqrt(config.d_model) if config.scale_embedding else 1.0

    def forward(self, input_ids: Tensor) -> Tensor:
        """Look ids [B, L] up as vectors [B, L, D]."""
        try:
            return super().forward(input_ids) * self.embed_scale
        except IndexError:
            check_token_ids(input_ids, self.num_embeddings, name="the batch")
            raise


class Stack(nn.Module):
    """What encoder and decoder share: embeddings plus positions, and the final norm of pre-norm."""

    main_input_name = "input_ids"

    def __init__(
        self,
        config: VanillaTransformerConfig,
        embed_tokens: ScaledEmbedding,
        *,
        layers: list[nn.Module],
    ) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = embed_tokens
        self.embed_positions = POSITIONS[config.position_type](
            config.d_model, config.max_position_embeddings
        )
        self.dropout = FastDropout(config.dropout)
        self.layers = nn.ModuleList(layers)
        self.layer_norm = nn.LayerNorm(config.d_model) if config.norm_position == "pre" else None

    def embed(self, inputs_embeds: Tensor, position_ids: Tensor) -> Tensor:
        """Add positions [B or 1, L] to embeddings [B, L, D]."""
        return self.dropout(inputs_embeds + self.embed_positions(position_ids, inputs_embeds.dtype))

    def final_norm(self, x: Tensor) -> Tensor:
        """Normalise the last layer's output [B, L, D] where layers do not do it themselves."""
        return x if self.layer_norm is None else self.layer_norm(x)

    def is_recomputed(self) -> bool:
        """Tell whether gradient checkpointing will run layers twice."""
        is_checkpointed = any(layer.gradient_checkpointing for layer in self.layers)
        return is_checkpointed and self.training and torch.is_grad_enabled()

    def embeddings(
        self, input_ids: Tensor | None, inputs_embeds: Tensor | None, name: str
    ) -> Tensor:
        """Return the given embeddings [B, L, D], or the embeddings of ids [B, L].

        Raises:
            ValueError: Both or neither of ids and embeddings are given, or the batch is empty.
        """
        if (input_ids is None) == (inputs_embeds is None):
            given = "neither" if input_ids is None else "both"
            raise ValueError(
                f"give {name}input_ids or {name}inputs_embeds; {given} given (a "
                "DataCollatorForSeq2Seq makes decoder_input_ids if it is told model=...)"
            )
        x = self.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if not x.shape[0]:
            raise ValueError(f"{name}input_ids: the batch is empty; give at least one row")
        return x

    def check_length(self, length: int | Tensor, positions: Tensor) -> None:
        """Refuse positions past the table of learned ones.

        Args:
            length: Tokens so far, padding counted; a tensor (of a preallocated cache, whose length
                `generate` has checked) is not looked at, nor are positions that must fit.
            positions: Positions [B or 1, L] of the newest tokens.

        Raises:
            ValueError: A sentence has more tokens than the table has positions.
        """
        longest = self.embed_positions.longest
        if longest is None or isinstance(length, Tensor):
            return
        if length > longest and positions.max() >= longest:
            raise ValueError(
                f"a sequence of {positions.max().item() + 1} tokens is longer than "
                f"max_position_embeddings={longest}; truncate it"
            )


class Encoder(Stack):
    """Maps a source sentence to its memory."""

    def __init__(self, config: VanillaTransformerConfig, embed_tokens: ScaledEmbedding) -> None:
        layers = [EncoderLayer(config, i) for i in range(config.encoder_layers)]
        super().__init__(config, embed_tokens, layers=layers)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        **kwargs: object,
    ) -> BaseModelOutput:
        """Encode ids or embeddings.

        Args:
            input_ids: Source ids [B, S].
            attention_mask: Segment ids [B, S], 0 for padding; None means no padding.
            inputs_embeds: Embeddings [B, S, D] in place of ids, already scaled.
            output_attentions: Whether to return weights [B, h, S, S] of each layer.
            output_hidden_states: Whether to return the N+1 states [B, S, D].
            **kwargs: What `generate` hands on and an encoder has no use for.

        Returns:
            The memory [B, S, D] as `last_hidden_state`, and what was asked for.
        """
        x = self.embeddings(input_ids, inputs_embeds, "")
        segments = checked_segments(attention_mask, x.shape[:2], name="attention_mask")
        if segments is None:
            positions = torch.arange(x.shape[1], device=x.device)[None]
        else:
            positions = segment_positions(segments)
        self.check_length(x.shape[1], positions)
        mask = segment_mask(segments, segments)
        x = self.embed(x, positions)
        states, attentions = [x], []
        for layer in self.layers:
            x, weights = layer(x, mask, output_attentions)
            states.append(x)
            attentions.append(weights)
        x = states[-1] = self.final_norm(x)
        return BaseModelOutput(
            last_hidden_state=x,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(attentions) if output_attentions else None,
        )


class Decoder(Stack):
    """Maps the target so far and the memory to states that predict the next token."""

    def __init__(self, config: VanillaTransformerConfig, embed_tokens: ScaledEmbedding) -> None:
        layers = [DecoderLayer(config, i) for i in range(config.decoder_layers)]
        super().__init__(config, embed_tokens, layers=layers)

    def forward(
        self,
        input_ids: Tensor | None,
        memory: Tensor,
        attention_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        cache: VanillaTransformerCache | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """Decode ids or embeddings.

        Args:
            input_ids: Target ids [B*n, T] that the cache does not hold yet.
            memory: Encoder states [B, S, D]; n consecutive rows of the target share a row.
            attention_mask: Segment ids [B*n, past + T] of the target; None means no padding.
            memory_mask: Segment ids [B, S] of the source; None means no padding.
            inputs_embeds: Embeddings [B*n, T, D] in place of ids, already scaled.
            cache: What is held of past positions; it is extended in place.
            output_attentions: Whether to return self- and cross-attention weights.
            output_hidden_states: Whether to return the N+1 states [B*n, T, D].

        Returns:
            States [B*n, T, D] as `last_hidden_state`, the cache, and what was asked for.
        """
        x = self.embeddings(input_ids, inputs_embeds, "decoder_")
        if not x.shape[1]:
            raise ValueError("decoder_input_ids or labels have no token; give at least one a row")
        check_rows(x.shape[0], memory.shape[0])
        held = as_decoder_cache(cache)
        past, length = 0 if held is None else held.past_length(), x.shape[1]
        indices = torch.arange(length, device=x.device) + past
        expected = (x.shape[0], past + length)
        segments = checked_segments(attention_mask, expected, name="decoder_attention_mask")
        memory_segments = checked_segments(memory_mask, memory.shape[:2], name="attention_mask")
        positions = indices[None] if segments is None else segment_positions(segments)[:, -length:]
        self.check_length(past + length, positions)
        key_length = length if held is None else held.key_length(length)
        self_mask = decoder_self_mask(segments, indices, key_length=key_length, past_length=past)
        cross_mask = segment_mask(
            None if segments is None else segments[:, -length:], memory_segments
        )
        x = self.embed(x, positions)
        states, self_weights, cross_weights = [x], [], []
        for layer in self.layers:
            x, own, cross = layer(x, memory, self_mask, cross_mask, held, output_attentions)
            states.append(x)
            self_weights.append(own)
            cross_weights.append(cross)
        x = states[-1] = self.final_norm(x)
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=x,
            hidden_states=tuple(states) if output_hidden_states else None,
            attentions=tuple(self_weights) if output_attentions else None,
            cross_attentions=tuple(cross_weights) if output_attentions else None,
            **{CACHE_KEY: cache},
        )


def checked_segments(
    mask: Tensor | None, shape: tuple[int, int | Tensor], *, name: str
) -> Tensor | None:
    """Return a mask as segment ids [B, L], None for none.

    Args:
        mask: Segment ids or truth values.
        shape: The shape that it must have; a length that is a tensor (of a preallocated cache) is
            not looked at.
        name: What an error calls the mask.

    Raises:
        ValueError: The mask has another shape.
    """
    if mask is None:
        return None
    rows, length = shape
    is_counted = isinstance(length, Tensor)
    if mask.dim() != 2 or mask.shape[0] != rows or not (is_counted or mask.shape[1] == length):
        expected = (rows, "tokens so far" if is_counted else length)
        raise ValueError(
            f"{name} has shape {tuple(mask.shape)}; give segment ids of shape {expected}, "
            "0 for padding"
        )
    return mask.long()


def check_rows(targets: int, sources: int) -> None:
    """Refuse targets that cannot be dealt out evenly to the sources.

    Raises:
        ValueError: The number of targets is no multiple of the number of sources.
    """
    if not sources or targets % sources:
        raise ValueError(
            f"{targets} decoder rows for {sources} source rows: give as many, or n for each source"
        )
