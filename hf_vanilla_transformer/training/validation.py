"""Measure loss and BLEU of a model on pairs that it is not trained on, on all processes."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.data.batching import cut_batches
from hf_vanilla_transformer.data.collate import collate_sources
from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.evaluation.scoring import score_translations
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.model.vocabulary import suppress_rows_without_token
from hf_vanilla_transformer.training.state import Validation
from hf_vanilla_transformer.training.updates import collate_part, pair_collator

VALIDATION_TOKENS = 2048
"""Target tokens of a validation batch: evaluation holds its logits, 4 bytes x tokens x entries."""


@dataclass(frozen=True)
class Validator:
    """Scores a model.

    Attributes:
        pairs: Validation pairs.
        tokenizer: It turns ids into text.
        accelerator: Its processes share the work.
        beams: Width of the search that translates; 0 for the loss alone.
    """

    pairs: EncodedPairs
    tokenizer: PreTrainedTokenizerBase
    accelerator: Accelerator
    beams: int = 0

    def __call__(self, model: nn.Module, step: int) -> Validation:
        """Return the scores of a prepared model after a step."""
        plain = self.accelerator.unwrap_model(model, keep_torch_compile=False)
        loss = validation_loss(model, self.pairs, accelerator=self.accelerator, config=plain.config)
        if not self.beams:
            return Validation(step, loss)
        bleu = validation_bleu(
            plain,
            self.tokenizer,
            pairs=self.pairs,
            accelerator=self.accelerator,
            beams=self.beams,
        )
        return Validation(step, loss, bleu)


def share_of(batches: Sequence[np.ndarray], accelerator: Accelerator) -> list[np.ndarray]:
    """Deal batches out to the processes and return those of this one.

    Every process gets equally many, as collectives need; an empty one stands for what is lacking.
    """
    rank, processes = accelerator.process_index, accelerator.num_processes
    rounds = -(-len(batches) // processes)
    indices = range(rank, rounds * processes, processes)
    none = np.zeros(0, dtype=np.int64)
    return [batches[index] if index < len(batches) else none for index in indices]


@torch.no_grad()
def validation_loss(
    model: nn.Module,
    pairs: EncodedPairs,
    *,
    accelerator: Accelerator,
    config: VanillaTransformerConfig,
) -> float:
    """Return the negative log-likelihood per target token, whatever batches and processes.

    The model is left in the mode, training or evaluation, that it was in.
    """
    was_training = model.training
    model.eval()
    total = torch.zeros((), device=accelerator.device)
    collate = pair_collator(config)
    for batch in share_of(_batches_by_length(pairs.lengths), accelerator):
        tensors = collate_part(pairs, batch, collate=collate)
        tensors = {name: tensor.to(accelerator.device) for name, tensor in tensors.items()}
        total += model(**tensors, num_items_in_batch=1).loss.float()
    model.train(was_training)
    return accelerator.reduce(total).item() / int(pairs.lengths[:, 1].sum())


def validation_bleu(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    pairs: EncodedPairs,
    accelerator: Accelerator,
    beams: int,
) -> float:
    """Translate every pair once, dealt out to the processes, and return BLEU, the same on all.

    References are the decoded target ids, so nothing that the tokenizer drops counts against the
    model. The model is left in the mode that it was in.
    """
    suppress_rows_without_token(model, tokenizer)
    was_training = model.training
    model.eval()
    decode = partial(tokenizer.batch_decode, skip_special_tokens=True)
    translations: list[tuple[int, str]] = []
    with _unwrapped(model):
        for batch in share_of(_batches_by_length(pairs.lengths[:, :1], beams), accelerator):
            if len(batch):  # no collective within: a process that lacks a batch need not take part
                sources, _ = pairs.fetch(batch)
                texts = decode(_generate(model, sources, beams=beams))
                translations += zip(batch.tolist(), texts, strict=True)
    model.train(was_training)
    of_pair = dict(gather_object(translations))
    references = decode(pairs.fetch(range(len(pairs)))[1])
    # Without a language the scorer would say at every validation which tokenisation it takes.
    language = model.config.target_language or ""
    hypotheses = [of_pair[index] for index in range(len(pairs))]
    with _without_advice():
        return score_translations(hypotheses, references, target_language=language).bleu


@contextmanager
def _without_advice() -> Iterator[None]:
    """Keep sacreBLEU from taking what a model writes that has learned little for tokenised text."""
    scorer = logging.getLogger("sacrebleu")
    level = scorer.level
    scorer.setLevel(logging.ERROR)
    try:
        yield
    finally:
        scorer.setLevel(level)


@contextmanager
def _unwrapped(model: PreTrainedModel) -> Iterator[None]:
    """Take off what Accelerate puts around `forward` in mixed precision, for the fast search.

    The model then translates with its own weights' precision, as it does once it is saved.
    """
    forward = model.__dict__.pop("forward", None)
    try:
        yield
    finally:
        if forward is not None:
            model.forward = forward


def _batches_by_length(lengths: np.ndarray, beams: int = 1) -> list[np.ndarray]:
    """Cut all pairs into batches of similar length."""
    order = np.lexsort(lengths.T)
    return list(cut_batches(order, lengths, batch_tokens=VALIDATION_TOKENS // beams))


@torch.no_grad()
def _generate(model: PreTrainedModel, sources: list[np.ndarray], *, beams: int) -> list[list[int]]:
    """Translate one batch of source ids."""
    inputs = collate_sources(sources, model.config.pad_token_id)
    inputs = {name: tensor.to(model.device) for name, tensor in inputs.items()}
    return model.generate(**inputs, num_beams=beams).tolist()
