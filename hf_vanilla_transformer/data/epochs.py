"""Compose the pairs of each epoch from several corpora."""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.bpe_dropout import BpeDropout
from hf_vanilla_transformer.data.cleaning import Cleaning
from hf_vanilla_transformer.data.corpus import Corpus
from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.data.token_cache import prepare_pairs

logger = logging.getLogger(__name__)

MOST_REPEATS = 1000
"""Highest weight of a corpus: each repetition takes memory."""


@dataclass(frozen=True, kw_only=True)
class PassOptions:
    """How an epoch is composed of the corpora, and how its words are split.

    Raises:
        ValueError: A number is out of range.
    """

    seed: int
    """Seed of the run; it chooses the pairs of a corpus with a fractional weight."""
    weights: Sequence[float] | None = None
    """Weight of each corpus in an epoch: 3 = each pair three times, 0.5 = a random half,
    drawn anew each epoch. Left out: 1 for each."""
    bpe_dropout: float = 0.0
    """Share of BPE merges left out at random, anew each epoch; 0 switches it off."""

    def __post_init__(self) -> None:
        for weight in self.weights or ():
            if not 0 < weight <= MOST_REPEATS:
                raise ValueError(
                    f"weight {weight} must be a positive number of at most {MOST_REPEATS}"
                )
        if not 0 <= self.bpe_dropout < 1:
            raise ValueError(f"bpe_dropout={self.bpe_dropout} must be at least 0 and below 1")


class TrainingData:
    """Training pairs by epoch; the same for the same options, in every process.

    Attributes:
        pairs: Every pair that cleaning kept, once, without BPE-dropout.
    """

    def __init__(
        self, pairs: EncodedPairs, options: PassOptions, *, dropout: BpeDropout | None = None
    ) -> None:
        self.pairs = pairs
        self._options, self._dropout = options, dropout
        self._weights = options.weights or [1.0] * len(pairs.sizes)
        if not any(map(round, np.multiply(self._weights, pairs.sizes))):
            raise ValueError(f"weights {self._weights} leave no pair of corpora of {pairs.sizes}")

    @classmethod
    def prepare(
        cls,
        corpora: Sequence[Corpus],
        tokenizer: PreTrainedTokenizerBase,
        *,
        cleaning: Cleaning,
        options: PassOptions,
        passes: Path,
        cache: Path | None = None,
    ) -> "TrainingData":
        """Read, clean and tokenise corpora, or open what an earlier run has cached.

        Args:
            corpora: What to train on.
            tokenizer: A tokenizer that ends source and target in EOS.
            cleaning: Which pairs to leave out.
            options: How an epoch is composed.
            passes: Folder of this run for the ids of its passes, written with BPE-dropout only.
            cache: Folder of the cache; left out, one in the cache of `datasets`.

        Raises:
            ValueError: A corpus cannot be read, no pair is left, the tokenizer has no merges to
                leave out, or there are more or fewer weights than corpora.
        """
        check_corpus_weights(options.weights, corpora)
        pairs = prepare_pairs(corpora, tokenizer, cleaning=cleaning, name="training", cache=cache)
        if not options.bpe_dropout:
            return cls(pairs, options)
        dropout = BpeDropout(
            corpora,
            tokenizer,
            pairs=pairs,
            probability=options.bpe_dropout,
            seed=options.seed,
            folder=passes,
            max_length=cleaning.max_length,
        )
        return cls(pairs, options, dropout=dropout)

    def epoch(self, number: int) -> EncodedPairs:
        """Return the pairs of an epoch, from 0; all processes may call it at once."""
        pairs = self._dropout.epoch(number) if self._dropout else self.pairs
        if set(self._weights) == {1.0}:
            return pairs
        generator = np.random.default_rng([self._options.seed, number])
        return pairs.select(_weighted_rows(pairs.sizes, self._weights, generator=generator))

    def discard_before(self, number: int) -> None:
        """Delete what was written for the passes before one: no run resumes them any more."""
        if self._dropout:
            self._dropout.discard_before(number)


def check_corpus_weights(weights: Sequence[float] | None, corpora: Sequence[Corpus]) -> None:
    """Refuse another number of weights than of corpora.

    Raises:
        ValueError: There are more or fewer.
    """
    if weights and len(weights) != len(corpora):
        raise ValueError(
            f"{len(weights)} weights for {len(corpora)} corpora; give one for each (two text files "
            "are one corpus)"
        )


def warn_of_overlap(training: EncodedPairs, validation: EncodedPairs) -> int:
    """Return how many validation pairs are training pairs as well, and warn if any are."""
    count = int(np.isin(validation.digests, training.digests).sum())
    if count:
        logger.warning(
            "%d of %d validation pairs are training pairs, too: validation will look better than "
            "it is; take them out of one of the two",
            count,
            len(validation),
        )
    return count


def _weighted_rows(
    sizes: Sequence[int], weights: Sequence[float], *, generator: np.random.Generator
) -> np.ndarray:
    """Return the rows of consecutive corpora, each repeated by its weight."""
    chosen, start = [], 0
    for size, weight in zip(sizes, weights, strict=True):
        whole = math.floor(weight)
        part = generator.permutation(size)[: round((weight - whole) * size)]
        chosen += [np.arange(start, start + size)] * whole + [start + np.sort(part)]
        start += size
    return np.concatenate(chosen)
