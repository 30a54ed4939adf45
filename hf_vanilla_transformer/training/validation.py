"""Measure the loss of a model on pairs that it is not trained on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from hf_vanilla_transformer.data.batching import cut_batches
from hf_vanilla_transformer.data.collate import IGNORED_LABEL, collate_pairs
from hf_vanilla_transformer.data.encoding import EncodedPairs

VALIDATION_TOKENS = 2048
"""Target tokens of a validation batch: evaluation holds its logits, 4 bytes x tokens x entries."""


@dataclass(frozen=True)
class Validation:
    """Negative log-likelihood per target token, without label smoothing, after an update."""

    step: int
    loss: float

    @property
    def perplexity(self) -> float:
        """Return e to the loss."""
        return math.exp(min(self.loss, 700.0))


def share_of(batches: Sequence[list[int]], accelerator: Accelerator) -> list[list[int] | None]:
    """Deal batches out to the processes and return those of this one.

    Every process gets equally many, as collectives need; None stands for a batch that is lacking.
    """
    rank, processes = accelerator.process_index, accelerator.num_processes
    rounds = -(-len(batches) // processes)
    indices = range(rank, rounds * processes, processes)
    return [batches[index] if index < len(batches) else None for index in indices]


def tensors_of(
    batch: list[int] | None, pairs: EncodedPairs, accelerator: Accelerator, pad_token_id: int
) -> dict[str, Tensor]:
    """Collate a batch on this process's device; a lacking one is a pair without a target."""
    indices = [0] if batch is None else batch
    sources = [pairs.sources[index] for index in indices]
    targets = [pairs.targets[index] for index in indices]
    if batch is None:
        targets = [[IGNORED_LABEL] * len(target) for target in targets]
    tensors = collate_pairs(sources, targets, pad_token_id)
    return {name: tensor.to(accelerator.device) for name, tensor in tensors.items()}


@torch.no_grad()
def validation_loss(
    model: nn.Module, pairs: EncodedPairs, accelerator: Accelerator, *, pad_token_id: int
) -> float:
    """Return the negative log-likelihood per target token, whatever batches and processes.

    The model is left in the mode, training or evaluation, that it was in.
    """
    was_training = model.training
    model.eval()
    lengths = pairs.lengths
    order = sorted(range(len(lengths)), key=lambda index: lengths[index])
    batches = list(cut_batches(order, lengths, VALIDATION_TOKENS))
    total = torch.zeros((), device=accelerator.device)
    for batch in share_of(batches, accelerator):
        tensors = tensors_of(batch, pairs, accelerator, pad_token_id)
        total += model(**tensors, num_items_in_batch=1).loss.float()
    model.train(was_training)
    return accelerator.reduce(total).item() / sum(target for _, target in lengths)
