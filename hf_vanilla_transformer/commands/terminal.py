"""Terminal output: text without control characters, failures in one line."""

import logging
import re

import torch
from safetensors import SafetensorError

from hf_vanilla_transformer.translation.output import printable

PROGRAM = "vanilla-transformer"
# Texts of PyTorch, whose errors are all of one type.
NO_MEMORY = re.compile("out of memory|allocate memory|start new thread", re.IGNORECASE)
LOST_PROCESS = re.compile(
    r"gloo|nccl|Connection (closed|reset) by peer|Broken pipe|Socket", re.IGNORECASE
)
NO_DISK = re.compile("No space left|File too large|PytorchStreamWriter|inline_container")


class LineFormatter(logging.Formatter):
    """Format log lines without control characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return printable(super().format(record))


def in_one_line(text: object) -> str:
    """Return a text, or the message of an error, as one line without control characters."""
    return printable(" ".join(str(text).split()))


def failure(error: BaseException) -> str | None:
    """Return the message of a failure that the user can fix; None for a bug in this program.

    Such failures are bad input, lack of memory or disk space, a missing package, a lost process,
    and every error of `tokenizers`.
    """
    if isinstance(error, OSError) and error.filename and error.strerror:
        return in_one_line(f"{error.filename}: {error.strerror.lower()}")
    text = in_one_line(error)
    if isinstance(error, ValueError | OSError | ArithmeticError | ImportError | SafetensorError):
        return text or type(error).__name__
    if isinstance(error, MemoryError) or _says(error, NO_MEMORY):
        return f"not enough memory ({text or type(error).__name__}); use smaller batches or files"
    if isinstance(error, torch.distributed.DistError) or _says(error, LOST_PROCESS):
        return f"another process of this run has ended; see its message ({text})"
    if _says(error, NO_DISK):
        return f"the disk is full, or a limit on file size is reached ({text})"
    # `tokenizers` raises nothing more precise; its panics are no `Exception`.
    if type(error) is Exception or type(error).__name__ == "PanicException":
        return f"the tokenizer failed: {text}"
    return None


def _says(error: BaseException, what: re.Pattern[str]) -> bool:
    return isinstance(error, RuntimeError) and what.search(str(error)) is not None
