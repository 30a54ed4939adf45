"""Yield the updates of an epoch, in an order that depends on seed and epoch alone.

An update is the batch of one step. It is split into `accumulate` parts
for every process, so neither number changes the pairs of a step.
"""

import itertools
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from accelerate import Accelerator
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from hf_vanilla_transformer.data.batching import epoch_batches, split_batch
from hf_vanilla_transformer.data.collate import IGNORED_LABEL, collate_pairs
from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.data.packing import collate_packed
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.training.loop_arguments import LoopArguments
from hf_vanilla_transformer.training.state import RunState

LOADERS_PER_GPU = 2
UPDATES_AHEAD = 4
PACKED_ROW_TOKENS = 128

PairsOfEpoch = Callable[[int], EncodedPairs]
"""Returns the training pairs of an epoch, given its number from 0."""
Collate = Callable[[list[np.ndarray], list[np.ndarray]], dict[str, Tensor]]


class Share(NamedTuple):
    """What one process computes of an update.

    Attributes:
        tensors: Arguments of the model's `forward` for each part.
        parts: Indices of the pairs of each part; a part without pairs has a pair without target.
        tokens: Source and target tokens of the whole update, all processes together.
        target_tokens: Target tokens of the whole update.
        waste: Share of padding in the padded size of this process's parts.
    """

    tensors: list[dict[str, Tensor]]
    parts: list[np.ndarray]
    tokens: int
    target_tokens: int
    waste: float


class Update(NamedTuple):
    """One update: this process's share, and where the run stands when it is made."""

    share: Share
    pairs: EncodedPairs
    next_epoch: int
    next_batch: int
    passes: float


def plan_updates(
    pairs_of: PairsOfEpoch,
    arguments: LoopArguments,
    *,
    accelerator: Accelerator,
    collate: Collate,
    state: RunState,
) -> Iterator[Update]:
    """Yield every update after `state`; without `arguments.epochs` there is no end.

    Where there is a GPU, other processes collate ahead of it.
    """
    # Not the state itself: it moves on while updates are made.
    first_epoch, first_batch = state.epoch, state.batch
    last = arguments.epochs
    for epoch in itertools.count(first_epoch) if last is None else range(first_epoch, last):
        pairs = pairs_of(epoch)
        batches = epoch_batches(
            pairs.lengths, batch_tokens=arguments.batch_tokens, seed=arguments.seed, epoch=epoch
        )
        done = first_batch if epoch == first_epoch else 0
        shares = _Shares(
            pairs,
            batches[done:],
            accumulate=arguments.accumulate,
            accelerator=accelerator,
            collate=collate,
        )
        for number, share in enumerate(_in_order(shares, accelerator), start=done + 1):
            is_last = number == len(batches)
            passes = epoch + number / len(batches)
            yield Update(share, pairs, epoch + is_last, 0 if is_last else number, passes)


def collate_part(
    pairs: EncodedPairs, part: Sequence[int] | np.ndarray, *, collate: Collate
) -> dict[str, Tensor]:
    """Return the tensors of some pairs; of none, those of a pair without a target.

    Every process must run the model equally often, also the one that has nothing to learn.
    """
    if len(part):
        return collate(*pairs.fetch(part))
    sources, targets = pairs.fetch([0])
    ignored = [np.full(len(target), IGNORED_LABEL) for target in targets]
    return collate_pairs(sources, ignored, pad_token_id=0)


def pair_collator(config: VanillaTransformerConfig) -> Collate:
    """Return the function that puts one pair in a row."""
    return partial(collate_pairs, pad_token_id=config.pad_token_id)


def packed_collator(config: VanillaTransformerConfig) -> Collate:
    """Return the function that puts several pairs in a row."""
    return partial(
        collate_packed,
        pad_token_id=config.pad_token_id,
        start_token_id=config.decoder_start_token_id,
        row_tokens=PACKED_ROW_TOKENS,
    )


class _Shares(Dataset):
    """This process's share of every update of an epoch."""

    def __init__(
        self,
        pairs: EncodedPairs,
        batches: list[np.ndarray],
        *,
        accumulate: int,
        accelerator: Accelerator,
        collate: Collate,
    ) -> None:
        self.pairs, self.batches, self.collate = pairs, batches, collate
        self.accumulate, self.parts = accumulate, accumulate * accelerator.num_processes
        self.first = accumulate * accelerator.process_index

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, number: int) -> Share:
        batch, lengths = self.batches[number], self.pairs.lengths
        parts = split_batch(batch, lengths, parts=self.parts)[
            self.first : self.first + self.accumulate
        ]
        source_tokens, target_tokens = lengths[batch].sum(axis=0).tolist()
        tensors = [collate_part(self.pairs, part, collate=self.collate) for part in parts]
        own_tokens = sum(int(lengths[part].sum()) for part in parts)
        padded = sum(one["input_ids"].numel() + one["labels"].numel() for one in tensors)
        return Share(
            tensors,
            parts,
            tokens=source_tokens + target_tokens,
            target_tokens=target_tokens,
            waste=1 - own_tokens / padded,
        )


def _in_order(shares: _Shares, accelerator: Accelerator) -> DataLoader:
    """Return what yields the shares in order, prepared ahead where a GPU would wait for them."""
    keep = {"batch_size": None, "collate_fn": _as_it_is}
    if accelerator.device.type == "cpu":
        return DataLoader(shares, **keep)
    return DataLoader(
        shares,
        num_workers=LOADERS_PER_GPU,
        prefetch_factor=UPDATES_AHEAD,
        pin_memory=True,
        multiprocessing_context="fork",  # shares the mapped corpus
        worker_init_fn=_leave_signals_to_the_run,
        **keep,
    )


def _as_it_is(share: Share) -> Share:
    return share


def _leave_signals_to_the_run(_worker: int) -> None:
    """Let Ctrl-C, which reaches every process of a terminal, not end a process that collates."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def seed_of_step(seed: int, *, step: int, process: int) -> int:
    """Return the seed of one process's random numbers in one step.

    Dropout then depends neither on validation nor on the step at which a run was resumed.
    """
    return int(np.random.SeedSequence([seed, step, process]).generate_state(1, np.uint64)[0])
