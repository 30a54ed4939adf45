"""How probable a model finds translations that are given to it."""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.data.batching import cut_batches
from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.model.finite import check_finite
from hf_vanilla_transformer.translation.inference import check_texts, encode_within_limit, inference

LIKELIHOOD_TOKENS = 2048
"""Target tokens of a batch: its logits are held, 4 bytes x tokens x entries of the vocabulary."""


class PairLikelihood:
    """Log-probabilities of the tokens of given translations, to be computed batch by batch.

    Batches depend on the texts alone, so that several processes can share them out.

    Args:
        model: Any sequence-to-sequence model.
        tokenizer: Its tokenizer.
        sources: Source text, one sentence each.
        targets: A translation of each. Texts over the model's limit are cut, with one warning.
        lines: Number of each pair in the user's text, for the warning; None counts from 1.

    Raises:
        TypeError: A text is not text.
        ValueError: The counts differ.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        lines: Sequence[int] | None = None,
    ) -> None:
        check_texts("source", sources)
        check_texts("target", targets)
        if len(sources) != len(targets):
            raise ValueError(
                f"{len(sources)} sources and {len(targets)} targets; give equally many"
            )
        self._model, self._pad = model, model.config.pad_token_id
        self._sources = encode_within_limit(sources, model, tokenizer=tokenizer, lines=lines)
        self.targets = encode_within_limit(
            targets, model, tokenizer=tokenizer, is_target=True, lines=lines
        )
        """Ids of every translation, end of sentence included."""
        lengths = np.array(
            [list(map(len, pair)) for pair in zip(self._sources, self.targets, strict=True)]
        ).reshape(-1, 2)
        order = np.lexsort(lengths.T)
        self.batches = list(cut_batches(order, lengths, batch_tokens=LIKELIHOOD_TOKENS))
        """Indices of pairs of similar length."""

    def of(self, batch: np.ndarray) -> list[list[float]]:
        """Return the natural log-probabilities of every target token of a batch."""
        sources, targets = ([side[i] for i in batch] for side in (self._sources, self.targets))
        return token_log_probs(self._model, sources, targets, pad_token_id=self._pad)


def log_probs_of_pairs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    lines: Sequence[int] | None = None,
) -> list[list[tuple[str, float]]]:
    """Return every target token, end of sentence included, with its natural log-probability.

    Their sum is the log-probability of the translation. Arguments are those of `PairLikelihood`.

    Raises:
        TypeError: A text is not text.
        ValueError: The counts differ.
    """
    pairs = PairLikelihood(model, tokenizer, sources, targets, lines=lines)
    to_tokens = getattr(tokenizer, "target", tokenizer).convert_ids_to_tokens
    found: list[list[tuple[str, float]]] = [[] for _ in sources]
    with inference(model):
        for batch in pairs.batches:
            for index, log_probs in zip(batch, pairs.of(batch), strict=True):
                found[index] = list(zip(to_tokens(pairs.targets[index]), log_probs, strict=True))
    return found


def token_log_probs(
    model: PreTrainedModel,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    *,
    pad_token_id: int,
) -> list[list[float]]:
    """Return the natural log-probability of every target token, given those before it.

    Args:
        model: In evaluation mode.
        sources: Ids of every source.
        targets: Ids of every target, without the token that starts the decoder; neighbours of
            similar length waste little.
        pad_token_id: What fills up the sources.
    """
    lengths = [(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
    found: list[list[float]] = []
    for batch in cut_batches(range(len(lengths)), lengths, batch_tokens=LIKELIHOOD_TOKENS):
        rows = [targets[index] for index in batch]
        tensors = collate_pairs([sources[index] for index in batch], rows, pad_token_id)
        tensors = {name: tensor.to(model.device) for name, tensor in tensors.items()}
        log_probs = _log_probs(model(**tensors).logits.float(), tensors["labels"])
        check_finite(log_probs)
        of_rows = zip(log_probs.tolist(), rows, strict=True)
        found += [row[: len(ids)] for row, ids in of_rows]
    return found


def _log_probs(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the log-probability [B, T] of labels [B, T] under logits [B, T, V]."""
    chosen = logits.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    return chosen - logits.logsumexp(-1)


def perplexity(loss: float) -> float:
    """Return exp(loss), at most e^700, which is still a float; the loss is in nats per token."""
    return math.exp(min(loss, 700.0))
