"""Load model folders, one for each line of standard input, and tell how each load ended.

Memory is limited; a connection, and a file opened outside the folder by Python, are told. Files
that compiled libraries open are not seen here: who runs this watches the files that mutations name.
"""

import json
import os
import resource
import sys
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerTokenizer,
)

MEMORY = 1 << 30  # bytes of address space above what the imports have taken

# Where Python and its libraries read for themselves.
OWN_PLACES = (
    *(sys.prefix, sys.base_prefix, str(Path(os.__file__).parent), "/proc", "/sys", "/dev", "/etc"),
    str(Path(__file__).resolve().parents[2] / "hf_vanilla_transformer"),
)


class Reached(BaseException):
    """A load tried to connect; no library may catch this and try again."""


class Watch:
    """What a load reached for beyond its folder."""

    def __init__(self) -> None:
        self.folder, self.found = None, []
        sys.addaudithook(self.hear)

    def hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.folder is None:
            return
        if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system"):
            self.found.append(f"{event} {arguments[-1]!r}")
            raise Reached(event)
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not path.startswith((self.folder, *OWN_PLACES)):
                self.found.append(f"open {path}")


def load(folder: str) -> None:
    """Load a folder by our classes, by the library's automatic ones, and as a pipeline."""
    VanillaTransformerTokenizer.from_pretrained(folder)
    VanillaTransformerForConditionalGeneration.from_pretrained(folder)
    AutoTokenizer.from_pretrained(folder)
    AutoModelForSeq2SeqLM.from_pretrained(folder)
    pipeline("translation", model=folder)


def outcome(folder: str, watch: Watch) -> dict[str, object]:
    """Return how a load ended: the error, if there was one, and what it reached for."""
    watch.folder, watch.found = str(Path(folder).resolve()), []
    error = None
    try:
        load(folder)
    except Exception as raised:
        error = raised
    except Reached:
        pass
    finally:
        watch.folder = None
    place = error and error.__traceback__
    while place and place.tb_next:
        place = place.tb_next
    return {
        "error": error and type(error).__name__,
        "message": error and str(error),
        "is_refusal": isinstance(error, ValueError | TypeError | OSError | KeyError | ImportError),
        "raised_in": place and place.tb_frame.f_code.co_filename,
        "line": place and place.tb_lineno,
        "reached": watch.found,
    }


def main() -> None:
    """Answer each line of standard input, a folder, with a line of JSON."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer,
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nor a folder for what somebody typed
    load(sys.argv[1])  # what is imported late is imported now
    watch = Watch()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    for line in folders:
        print(json.dumps(outcome(line.rstrip("\n"), watch)), file=answers, flush=True)


main()
