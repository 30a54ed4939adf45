"""Turn pairs of text into token ids, and say which pairs cannot be learned from."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.corpus import Pair

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class EncodedPairs:
    """Token ids of a corpus, EOS at the end of both sides."""

    sources: list[list[int]]
    targets: list[list[int]]
    blank: int
    """Pairs left out because a side is blank."""
    too_long: int
    """Pairs left out because a side has more tokens than the limit."""

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Tokens of source and target of every pair."""
        return [(len(s), len(t)) for s, t in zip(self.sources, self.targets, strict=True)]


def encode_pairs(
    pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase, *, max_length: int, name: str
) -> EncodedPairs:
    """Tokenise pairs; leave out, and count in one log line, those that are blank or too long.

    Args:
        pairs: Pairs of text.
        tokenizer: A tokenizer that ends source and target in EOS.
        max_length: Longest side that is kept, in tokens, EOS included.
        name: What the log calls the corpus.

    Raises:
        ValueError: No pair is left.
    """
    filled = [pair for pair in pairs if pair.source.strip() and pair.target.strip()]
    kept = [
        (source, target)
        for source, target in zip(*_encode(filled, tokenizer), strict=True)
        if max(len(source), len(target)) <= max_length
    ]
    blank, too_long = len(pairs) - len(filled), len(filled) - len(kept)
    if kept and (blank or too_long):
        logger.info(
            "%s: %d pairs kept, %d blank and %d of more than %d tokens left out",
            name, len(kept), blank, too_long, max_length,
        )  # fmt: skip
    if not kept:
        raise ValueError(
            f"{name}: none of {len(pairs)} pairs is left ({blank} blank, {too_long} of more than "
            f"{max_length} tokens)"
        )
    sources, targets = map(list, zip(*kept, strict=True))
    return EncodedPairs(sources, targets, blank=blank, too_long=too_long)


def _encode(
    pairs: Sequence[Pair], tokenizer: PreTrainedTokenizerBase
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ids of all sources and of all targets."""
    if not pairs:
        return [], []
    sources = [pair.source for pair in pairs]
    targets = [pair.target for pair in pairs]
    encoded = tokenizer(sources, text_target=targets, verbose=False)
    return encoded["input_ids"], encoded["labels"]
