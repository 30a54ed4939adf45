"""Keys and values of past positions: what makes a decoding step cost one token."""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

FIRST_CAPACITY = 64


class DecoderCache(Protocol):
    """What the decoder asks of a cache, be it ours or one of the library's."""

    def past_length(self) -> int | Tensor:
        """Return how many target positions are held."""

    def key_length(self, new_tokens: int) -> int:
        """Return how many keys a self-attention will see after `new_tokens` more."""

    def extend(self, layer_idx: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append [B, h, T, d] and return all keys and values [B, h, S, d] of a layer."""

    def memory(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """Return keys and values of the encoder's memory for a layer, if they are held."""

    def store_memory(self, layer_idx: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Hold keys and values of the encoder's memory for a layer and return them."""


class VanillaTransformerCache:
    """Self-attention buffers written in place, and the memory's keys and values once per sentence.

    Buffers double when they are full, so that a token costs the same whatever came before. Beams
    share the memory of their sentence, which is therefore never reordered.

    The remaining attributes and methods are what `generate` of transformers 4.57 to 5.24 reads.

    Args:
        num_layers: Layers of the decoder.
    """

    is_compileable = False
    is_croppable = True
    is_sliding: tuple[bool, ...] = ()
    is_linear: tuple[bool, ...] = ()
    _is_user_defined = False

    def __init__(self, num_layers: int) -> None:
        self._buffers: list[tuple[Tensor, Tensor] | None] = [None] * num_layers
        self._lengths = [0] * num_layers
        self._memory: list[tuple[Tensor, Tensor] | None] = [None] * num_layers

    def past_length(self) -> int:
        """Return how many target positions are held."""
        return self._lengths[0]

    def key_length(self, new_tokens: int) -> int:
        """Return how many keys a self-attention will see after `new_tokens` more."""
        return self._lengths[0] + new_tokens

    def extend(self, layer_idx: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Append keys [B, h, T, d_k] and values [B, h, T, d_v]; return those of all positions."""
        start = self._lengths[layer_idx]
        end = start + key.shape[2]
        if key.requires_grad:  # writing in place would spoil what backward needs of this step
            return self._concatenate(layer_idx, key, value=value)
        self._buffers[layer_idx] = tuple(
            _with_room(buffer, new, start=start, end=end)
            for buffer, new in zip(
                self._buffers[layer_idx] or (None, None), (key, value), strict=True
            )
        )
        self._lengths[layer_idx] = end
        keys, values = self._buffers[layer_idx]
        keys[:, :, start:end] = key
        values[:, :, start:end] = value
        return keys[:, :, :end], values[:, :, :end]

    def _concatenate(self, layer_idx: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        start, held = self._lengths[layer_idx], self._buffers[layer_idx]
        if held is not None:
            key, value = (
                torch.cat((buffer[:, :, :start], new), dim=2)
                for buffer, new in zip(held, (key, value), strict=True)
            )
        self._buffers[layer_idx] = key, value
        self._lengths[layer_idx] = key.shape[2]
        return key, value

    def memory(self, layer_idx: int) -> tuple[Tensor, Tensor] | None:
        """Return keys and values of the encoder's memory for a layer, if they are held."""
        return self._memory[layer_idx]

    def store_memory(self, layer_idx: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Hold keys [B, h, S, d_k] and values [B, h, S, d_v] of the memory and return them."""
        self._memory[layer_idx] = (key, value)
        return key, value

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return how many target positions a layer holds."""
        return self._lengths[layer_idx]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Let row i continue the hypothesis of row `beam_idx[i]`; the memory stays as it is."""
        for buffers, length in zip(self._buffers, self._lengths, strict=True):
            for buffer in buffers or ():
                buffer[:, :, :length] = buffer[:, :, :length].index_select(0, beam_idx)

    def crop(self, length: int) -> None:
        """Keep the first `length` positions or, if it is not positive, drop the last -`length`."""
        kept = length if length > 0 else self._lengths[0] + length
        self._lengths = [min(held, kept) for held in self._lengths]

    def activate_past_recording(self) -> None:
        """Allow `crop`: nothing to do, every position is held until it is cropped."""


class LaterCache(VanillaTransformerCache):
    """A cache that is filled at the first read, because few callers of `generate` read it.

    Args:
        num_layers: Layers of the decoder.
        fill: Fills an empty cache.
    """

    def __init__(self, num_layers: int, fill: Callable[[VanillaTransformerCache], object]) -> None:
        self._num_layers, self._fill = num_layers, fill

    def __getattr__(self, name: str) -> object:
        """Fill the cache at the first access to a missing attribute, and return the attribute."""
        if name not in ("_buffers", "_lengths", "_memory"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        super().__init__(self._num_layers)
        self._fill(self)
        return getattr(self, name)


def _with_room(buffer: Tensor | None, new: Tensor, *, start: int, end: int) -> Tensor:
    if buffer is not None and end <= buffer.shape[2]:
        return buffer
    capacity = max(FIRST_CAPACITY, end if buffer is None else 2 * end)
    grown = new.new_empty((*new.shape[:2], capacity, new.shape[3]))
    if buffer is not None:
        grown[:, :, :start] = buffer[:, :, :start]
    return grown
