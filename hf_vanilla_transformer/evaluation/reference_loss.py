"""Compute the loss of references, on one or more processes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from accelerate import Accelerator
from accelerate.utils import gather_object
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.evaluation.metrics import perplexity
from hf_vanilla_transformer.translation.forced_decoding import PairLikelihood
from hf_vanilla_transformer.translation.inference import inference


@dataclass(frozen=True)
class ReferenceLoss:
    """How probable a model finds the references.

    Attributes:
        loss: Negative log-likelihood per target token, in nats.
        perplexity: e to it.
        tokens: Target tokens, ends of sentences included.
    """

    loss: float
    perplexity: float
    tokens: int


def reference_loss(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sources: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    accelerator: Accelerator,
) -> ReferenceLoss | None:
    """Return the loss of all references, the same whatever batches and processes.

    Pairs with a blank side count for nothing; None if there are no others.

    Args:
        model: Any sequence-to-sequence model.
        tokenizer: Its tokenizer.
        sources: Source text, one sentence each.
        references: Sets of references, each with one for each sentence.
        accelerator: Its processes share the work.
    """
    pairs = [
        (line, *pair)
        for texts in references
        for line, pair in enumerate(zip(sources, texts, strict=True), start=1)
        if all(map(str.strip, pair))
    ]
    if not pairs:
        return None
    lines, filled_sources, targets = zip(*pairs, strict=True)
    likelihood = PairLikelihood(model, tokenizer, filled_sources, targets, lines=lines)
    mine = likelihood.batches[accelerator.process_index :: accelerator.num_processes]
    with inference(model):
        log_probs = [value for batch in mine for row in likelihood.of(batch) for value in row]
    # Rounded once, at the end: the order of the numbers does not matter.
    everything = gather_object(log_probs)
    loss = -math.fsum(everything) / len(everything)
    return ReferenceLoss(loss, perplexity(loss), len(everything))
