"""What a search holds of its hypotheses: keys and values of sentences, and who descends from whom.

The hypotheses of a sentence share a row of slots, n for each position, that are written once and
never moved: an additive mask tells each hypothesis which slots are its ancestors. So neither
choosing beams nor adding a token copies a cache.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

FIRST_SLOTS = 64


class DecodingState:
    """Caches of B sentences with n hypotheses each; attention runs in float32.

    Args:
        memory: Keys [B, S, h*d_k] and values [B, S, h*d_v] of the source, for each layer.
        is_real: Whether a source position is no padding [B, S]; None if all are. Every sentence
            must have one.
        encodings: Position encodings [T, D] of the target.
        num_heads: h.
    """

    def __init__(
        self,
        memory: Sequence[tuple[Tensor, Tensor]],
        is_real: Tensor | None,
        encodings: Tensor,
        num_heads: int,
    ) -> None:
        self.num_heads = num_heads
        self.sentences = len(memory[0][0])
        self._memory = [(self._by_head(keys), self._by_head(values)) for keys, values in memory]
        self._memory_bias = None
        if is_real is not None:
            bias = torch.zeros(is_real.shape, device=is_real.device)
            bias = bias.masked_fill_(~is_real, -torch.inf)[:, None]
            self._memory_bias = self._for_heads(bias)  # [B*h, 1, S]
        self._encodings = encodings
        self._length = self._slots = 0
        self._hypotheses = 1
        self._own = [
            (_buffer(keys, 0, FIRST_SLOTS), _buffer(values, 0, FIRST_SLOTS))
            for keys, values in self._memory
        ]
        self._ancestry: Tensor | None = None  # [B, n, slots], 0 for ancestors, -inf for others
        self._self_bias: Tensor | None = None  # [B*h, n, slots]
        self._nothing = encodings.new_zeros((1, 1, 1), dtype=torch.float32)

    def _by_head(self, x: Tensor) -> Tensor:
        """Turn [B, L, h*d] into float32 [B, h, L, d]."""
        return x.float().unflatten(-1, (self.num_heads, -1)).transpose(1, 2).contiguous()

    def encoding(self) -> Tensor:
        """Return the encoding [D] of the newest position."""
        return self._encodings[self._length]

    def begin(self, rows: int) -> None:
        """Make room for the newest token of R hypotheses."""
        count = self._hypotheses = rows // self.sentences
        if self._slots + count > self._own[0][0].shape[2]:
            used, slots = self._slots, 2 * (self._slots + count)
            self._own = [
                (_buffer(keys, used, slots), _buffer(values, used, slots))
                for keys, values in self._own
            ]
        if self._ancestry is None:
            return
        itself = self._nothing.new_full((count, count), -torch.inf).fill_diagonal_(0.0)
        itself = itself.expand(self.sentences, -1, -1)
        self._ancestry = torch.cat((self._ancestry, itself), -1)
        self._self_bias = self._for_heads(self._ancestry)

    def end(self) -> None:
        """Count the newest token."""
        self._length += 1
        self._slots += self._hypotheses

    def attend_self(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Write the newest key and value [R, h*d] and attend with query [R, h*d_k] to all.

        Returns:
            Contexts [R, h*d_v] in the dtype of the query.
        """
        start, end = self._slots, self._slots + self._hypotheses
        keys, values = self._own[layer]
        keys[:, :, start:end] = self._folded(key)
        values[:, :, start:end] = self._folded(value)
        return self._attend(query, keys[:, :, :end], values[:, :, :end], self._self_bias)

    def attend_memory(self, layer: int, query: Tensor) -> Tensor:
        """Attend with query [R, h*d_k] to the source; return contexts [R, h*d_v]."""
        return self._attend(query, *self._memory[layer], self._memory_bias)

    def _folded(self, x: Tensor) -> Tensor:
        """Turn [B*n, h*d] into float32 [B, h, n, d]."""
        x = x.float().view(self.sentences, self._hypotheses, self.num_heads, -1)
        return x.transpose(1, 2)

    def _for_heads(self, bias: Tensor) -> Tensor:
        """Turn [B, n, S] into [B*h, n, S]."""
        return bias[:, None].expand(-1, self.num_heads, -1, -1).flatten(0, 1)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        folded = self._folded(query).flatten(0, 1)  # [B*h, n, d]
        scores = torch.baddbmm(
            self._nothing if bias is None else bias,
            folded,
            keys.flatten(0, 1).transpose(1, 2),
            beta=0 if bias is None else 1,
            alpha=folded.shape[-1] ** -0.5,
        )
        weights = torch.softmax(scores, -1, out=scores)
        context = torch.bmm(weights, values.flatten(0, 1)).unflatten(0, (-1, self.num_heads))
        return context.transpose(1, 2).reshape(len(query), -1).to(query.dtype)

    def follow(self, parents: Tensor) -> None:
        """Let hypothesis i of each sentence continue hypothesis `parents[:, i]`, [B, n]."""
        if self._ancestry is None:
            shape = (self.sentences, parents.shape[1], self._slots)
            self._ancestry = self._nothing.new_zeros(shape)
            return
        self._ancestry = self._ancestry.take_along_dim(parents[..., None], 1)

    def keep(self, kept: Tensor) -> None:
        """Drop all sentences but those of the given indices."""
        self.sentences = len(kept)
        self._memory = [(keys[kept], values[kept]) for keys, values in self._memory]
        used, slots = self._slots, self._own[0][0].shape[2]
        self._own = [
            (
                _buffer(keys[kept, :, :used], used, slots),
                _buffer(values[kept, :, :used], used, slots),
            )
            for keys, values in self._own
        ]
        if self._memory_bias is not None:
            by_sentence = self._memory_bias.unflatten(0, (-1, self.num_heads))
            self._memory_bias = by_sentence[kept].flatten(0, 1)
        if self._ancestry is not None:
            self._ancestry = self._ancestry[kept]


def _buffer(held: Tensor, used: int, slots: int) -> Tensor:
    """Return a buffer [B, h, slots, d] that begins with the `used` first of what is held."""
    buffer = held.new_empty((*held.shape[:2], slots, held.shape[3]))
    buffer[:, :, :used] = held[:, :, :used]
    return buffer
