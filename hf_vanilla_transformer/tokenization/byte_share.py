"""Warn if a vocabulary lacks the script of a text, and encodes it as bytes."""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.corpus import Corpus
from hf_vanilla_transformer.data.lines import ignore
from hf_vanilla_transformer.data.token_cache import backends

logger = logging.getLogger(__name__)

SAMPLE = 1000
"""Number of lines of a text, or pairs of a corpus, that are checked."""
TOLD_FROM = 0.25
"""Share of byte tokens that causes a warning; a rare character in each sentence is below it."""
FEWEST = 12
"""Fewest byte tokens for a warning: fewer are a few rare characters."""
# Emoji and signs are spelt in bytes in every language.
NO_WORDS = re.compile(r"[^\w\s]+")
HALF_CHARACTER = "\ufffd"


def warn_of_bytes_in_pairs(tokenizer: PreTrainedTokenizerBase, corpora: Sequence[Corpus]) -> None:
    """Warn before training if a script of either side is encoded as bytes.

    Args:
        tokenizer: The tokenizer of the model.
        corpora: Training corpora; the first pairs of each are checked.
    """
    pairs = [texts for corpus in corpora for _, *texts in islice(corpus.rows(ignore), SAMPLE)]
    sides = backends(tokenizer)
    remedy = "train with a vocabulary of this corpus: leave out --tokenizer and --from"
    for name, side, texts in zip(
        ("source", "target"), (sides[:1], sides[-1:]), zip(*pairs, strict=True), strict=False
    ):
        _warn(f"{name} of the training pairs", side, texts=texts, remedy=remedy)


def warn_of_bytes(tokenizer: PreTrainedTokenizerBase, sources: Sequence[str]) -> None:
    """Warn before translating if the script of the sources is encoded as bytes.

    Args:
        tokenizer: The tokenizer of the model.
        sources: Text to translate; its first lines are checked.
    """
    remedy = "the model was hardly trained on this script; use a model that was"
    _warn("text to translate", backends(tokenizer)[:1], texts=sources[:SAMPLE], remedy=remedy)


def byte_counts(backend: Tokenizer, texts: Iterable[str]) -> tuple[int, int]:
    """Return the numbers of byte tokens and of all tokens in the words of texts.

    Unknown tokens count as byte tokens.
    """
    counts: Counter[int] = Counter()
    for text in texts:
        encoding = backend.encode(NO_WORDS.sub("", text), add_special_tokens=False)
        counts.update(encoding.ids)
    unknown = backend.token_to_id(getattr(backend.model, "unk_token", None) or "<unk>")
    parts = sum(
        count
        for index, count in counts.items()
        if index == unknown or HALF_CHARACTER in backend.decode([index])
    )
    return parts, counts.total()


def _warn(what: str, backend: list[Tokenizer], *, texts: Sequence[str], remedy: str) -> None:
    """Warn of one text; tokenizers written in Python have no backend, and cause no warning."""
    parts, tokens = byte_counts(backend[0], texts) if backend else (0, 0)
    if parts >= FEWEST and parts > TOLD_FROM * tokens:
        logger.warning(
            "%s: %d %% of the tokens are bytes or unknown, as the vocabulary lacks the script or "
            "many of its characters; %s",
            what,
            round(100 * parts / tokens),
            remedy,
        )
