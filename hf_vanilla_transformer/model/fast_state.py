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
    """Caches of B sentences with n hypotheses each, in L layers; attention runs in float32.

    Args:
        memory: Keys [B, S, h*d_k] and values [B, S, h*d_v] of the source, for each layer.
        is_real: Whether a source position is no padding [B, S]; None if all are. Every sentence
            must have one.
        num_heads: h.
    """

    def __init__(
        self,
        memory: Sequence[tuple[Tensor, Tensor]],
        is_real: Tensor | None,
        *,
        num_heads: int,
    ) -> None:
        self.num_heads = num_heads
        self.sentences = len(memory[0][0])
        self.memory: list[tuple[Tensor, Tensor]] = []
        self._hold_memory([tuple(map(self._by_head, pair)) for pair in memory])
        self._memory_bias = None
        if is_real is not None:
            bias = torch.zeros(is_real.shape, dtype=torch.float32, device=is_real.device)
            bias = bias.masked_fill_(~is_real, -torch.inf)[:, None]
            self._memory_bias = self._for_heads(bias)  # [B*h, 1, S]
        self.length = self._slots = 0
        self._hypotheses = 1
        self.own = tuple(  # keys and values [L, B, h, slots, d]
            held.new_empty((len(memory), *held.shape[:2], FIRST_SLOTS, held.shape[3]))
            for held in self.memory[0]
        )
        self._ancestry: Tensor | None = None  # [B, n, slots], 0 for ancestors, -inf for others
        self._own_bias: Tensor | None = None  # [B*h, n, slots]
        self._nothing = self.own[0].new_zeros((1, 1, 1))

    def _hold_memory(self, memory: list[tuple[Tensor, Tensor]]) -> None:
        self.memory = memory
        self._memory_views = [  # keys [B*h, d_k, S] and values [B*h, S, d_v]
            (keys.flatten(0, 1).transpose(1, 2), values.flatten(0, 1)) for keys, values in memory
        ]

    def _by_head(self, x: Tensor) -> Tensor:
        """Turn [B, L, h*d] into float32 [B, h, L, d]."""
        return x.float().unflatten(-1, (self.num_heads, -1)).transpose(1, 2).contiguous()

    def begin(self, rows: int) -> None:
        """Make room for the newest token of R hypotheses."""
        count = self._hypotheses = rows // self.sentences
        start, end = self._slots, self._slots + count
        if end > self.own[0].shape[3]:
            self.own = tuple(_resized(held[..., :start, :], 2 * end) for held in self.own)
        # Views for all layers at once: the newest slots [B, n, h, d], and all [B*h, slots, d].
        self._newest = [held[..., start:end, :].transpose(2, 3).unbind() for held in self.own]
        keys, values = (held.flatten(1, 2)[:, :, :end] for held in self.own)
        self._keys, self._values = keys.transpose(2, 3).unbind(), values.unbind()
        if self._ancestry is not None:
            itself = self._nothing.new_full((count, count), -torch.inf).fill_diagonal_(0.0)
            itself = itself.expand(self.sentences, -1, -1)
            self._ancestry = torch.cat((self._ancestry, itself), -1)
            self._own_bias = self._for_heads(self._ancestry)

    def end(self) -> None:
        """Count the newest token."""
        self.length += 1
        self._slots += self._hypotheses

    def attend_self(self, layer: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Write the newest key and value [R, h*d] and attend with query [R, h*d_k] to all.

        Returns:
            Contexts [R, h*d_v] in the dtype of the query.
        """
        keys, values = self._newest[0][layer], self._newest[1][layer]
        keys.copy_(key.view(keys.shape))
        values.copy_(value.view(values.shape))
        return self._attend(
            query, self._keys[layer], values=self._values[layer], bias=self._own_bias
        )

    def attend_memory(self, layer: int, query: Tensor) -> Tensor:
        """Attend with query [R, h*d_k] to the source; return contexts [R, h*d_v]."""
        return self._attend(query, *self._memory_views[layer], self._memory_bias)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, bias: Tensor | None) -> Tensor:
        """Attend with query [R, h*d_k] to keys [B*h, d_k, S] and values [B*h, S, d_v]."""
        count, width = self._hypotheses, keys.shape[1]
        folded = query if query.dtype is torch.float32 else query.float()
        if count > 1:
            folded = folded.view(self.sentences, count, self.num_heads, width).transpose(1, 2)
        scores = torch.baddbmm(
            self._nothing if bias is None else bias,
            folded.reshape(-1, count, width),
            keys,
            beta=0 if bias is None else 1,
            alpha=width**-0.5,
        )
        context = torch.bmm(scores.softmax(-1), values)  # [B*h, n, d_v]
        if count > 1:
            context = context.unflatten(0, (-1, self.num_heads)).transpose(1, 2)
        context = context.reshape(len(query), -1)
        return context if query.dtype is torch.float32 else context.to(query.dtype)

    def _for_heads(self, bias: Tensor) -> Tensor:
        """Turn [B, n, S] into [B*h, n, S]."""
        return bias[:, None].expand(-1, self.num_heads, -1, -1).flatten(0, 1)

    def follow(self, parents: Tensor) -> None:
        """Let hypothesis i of each sentence continue hypothesis `parents[:, i]`, [B, n]."""
        if self._ancestry is None:
            shape = (self.sentences, parents.shape[1], self._slots)
            self._ancestry = self._nothing.new_zeros(shape)
            return
        self._ancestry = self._ancestry.take_along_dim(parents[..., None], 1)

    def keep(self, kept: Tensor) -> None:
        """Keep only the sentences of the given indices."""
        self.sentences = len(kept)
        self._hold_memory([(keys[kept], values[kept]) for keys, values in self.memory])
        self.own = tuple(
            _resized(held[:, kept, :, : self._slots], held.shape[3]) for held in self.own
        )
        if self._memory_bias is not None:
            by_sentence = self._memory_bias.unflatten(0, (-1, self.num_heads))
            self._memory_bias = by_sentence[kept].flatten(0, 1)
        if self._ancestry is not None:
            self._ancestry = self._ancestry[kept]


def _resized(held: Tensor, slots: int) -> Tensor:
    """Return a buffer [L, B, h, slots, d] that begins with what is held."""
    buffer = held.new_empty((*held.shape[:3], slots, held.shape[4]))
    buffer[..., : held.shape[3], :] = held
    return buffer
