"""What every use of a trained model needs: ids within its limit, and evaluation mode."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


def encode_within_limit(
    texts: Sequence[str],
    model: PreTrainedModel,
    *,
    tokenizer: PreTrainedTokenizerBase,
    is_target: bool = False,
    lines: Sequence[int] | None = None,
) -> list[list[int]]:
    """Return the ids of every text; those over the model's limit are cut, with one warning.

    Args:
        texts: Sentences.
        model: It has a limit.
        tokenizer: It may have one too.
        is_target: Whether they are translations, not sources.
        lines: Number of each sentence in the user's text; None counts from 1.
    """
    if not texts:
        return []
    kind = "text_target" if is_target else "text"
    positions = getattr(model.config, "max_position_embeddings", None)
    limit = min(tokenizer.model_max_length, positions or tokenizer.model_max_length)
    ids = tokenizer(**{kind: list(texts)}, truncation=False, verbose=False)["input_ids"]
    too_long = [index for index, row in enumerate(ids) if len(row) > limit]
    if too_long:
        logger.warning(
            "%s over the limit of %d tokens that were cut: %d, the first in line %d",
            "translations" if is_target else "sentences",
            limit,
            len(too_long),
            lines[too_long[0]] if lines else too_long[0] + 1,
        )
        cut = [texts[index] for index in too_long]
        cut_ids = tokenizer(**{kind: cut}, truncation=True, max_length=limit)["input_ids"]
        for index, row in zip(too_long, cut_ids, strict=True):
            ids[index] = row
    return ids


@contextmanager
def inference(model: PreTrainedModel) -> Iterator[None]:
    """Put a model into evaluation mode, without gradients, for the block; then back."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        yield
    model.train(was_training)


def check_texts(name: str, texts: Sequence[str], *, place: str = "") -> None:
    """Refuse anything but a sequence of strings; refuse a single string too.

    Raises:
        TypeError: The message contains the index and the value.
    """
    if isinstance(texts, str):
        raise TypeError(f"{name}: a sequence of texts is expected, not the single text {texts!r}")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"{name} {index}{place} is {text!r}; one text for each sentence is expected"
            )
