"""What a pipeline reads: texts, checked one by one as they come."""

from collections.abc import Iterable, Iterator

from torch.utils.data import Dataset, IterableDataset

# The library's names for both values of `truncation` are taken too.
_CUT, _REFUSE = (True, "longest_first", "only_first"), (False, "do_not_truncate")


class TextDataset(Dataset):
    """A dataset whose items are checked to be text as they are read."""

    def __init__(self, texts: Dataset) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> str:
        return checked(self.texts[index], index)


class TextStream(IterableDataset):
    """Texts that are read and checked one by one; early transformers 5 would list a generator."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = texts

    def __iter__(self) -> Iterator[str]:
        return each_checked(self.texts)


def each_checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, each checked.

    Raises:
        TypeError: As `checked`.
        ValueError: As `checked`.
    """
    for index, text in enumerate(texts):
        yield checked(text, index)


def checked(text: object, index: int) -> str:
    """Return a text.

    Raises:
        TypeError: It is not text; the message names its index.
        ValueError: It cannot be encoded; the message names its index.
    """
    if not isinstance(text, str):
        raise TypeError(f"input {index} is {text!r} ({type(text).__name__}), not text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"input {index} is {text!r}: half of a surrogate pair is no text")
    return text


def cuts_long_text(truncation: bool | str) -> bool:
    """Tell whether a text that is too long is cut; if not, it is refused.

    Raises:
        ValueError: The value says neither.
    """
    if truncation not in _CUT + _REFUSE:
        raise ValueError(f"truncation={truncation!r} is not one of {_CUT + _REFUSE}")
    return truncation in _CUT
