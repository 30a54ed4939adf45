"""Load and use model folders, one for each line of standard input, and tell how that ended.

Memory is limited; a connection, and a file opened outside the folder by Python, are told. Files
that compiled libraries open are not seen here: who runs this watches the files that mutations name.
"""

import contextlib
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
    pipeline,
)

from hf_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerTokenizer,
)
from hf_vanilla_transformer.translation.translate import translate

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


LOADS = {
    "tokenizer": VanillaTransformerTokenizer.from_pretrained,
    "model": VanillaTransformerForConditionalGeneration.from_pretrained,
    "AutoConfig": AutoConfig.from_pretrained,
    "AutoTokenizer": AutoTokenizer.from_pretrained,
    "AutoModelForSeq2SeqLM": AutoModelForSeq2SeqLM.from_pretrained,
    "pipeline": lambda folder: pipeline("translation", model=folder),
}


def generate(tokenizer: VanillaTransformerTokenizer, model: PreTrainedModel) -> None:
    """Generate five tokens for each of two texts."""
    model.generate(**tokenizer(["a b", "c"], padding=True, return_tensors="pt"), max_new_tokens=5)


USES = {
    "generate": lambda loaded: generate(loaded["tokenizer"], loaded["model"]),
    "translate": lambda loaded: translate(
        loaded["model"], loaded["tokenizer"], ["a b", "c"], max_new_tokens=5
    ),
    "pipeline's call": lambda loaded: loaded["pipeline"]("a b", max_new_tokens=5),
}


class Attempts:
    """How each way to load a folder, and to use what was loaded, ended."""

    def __init__(self) -> None:
        self.loaded, self.errors = {}, {}

    def make(self, name: str, action: Callable[[object], object], argument: object) -> None:
        """Take one step, unless one before it that it needs has failed."""
        try:
            self.loaded[name] = action(argument)
        except Exception as error:
            place = error.__traceback__
            while place.tb_next:
                place = place.tb_next
            self.errors[name] = {
                "message": str(error),
                "is_refusal": isinstance(error, ValueError | OSError),
                "place": f"{type(error).__name__} {place.tb_frame.f_code.co_filename} "
                f"{place.tb_lineno}",
            }

    def make_all(self, folder: str) -> None:
        """Load a folder in every way and, where all of them succeed, use what was loaded."""
        for name, load in LOADS.items():
            self.make(name, load, folder)
        for name, use in USES.items() if not self.errors else ():
            self.make(name, use, self.loaded)


def outcome(folder: str, watch: Watch) -> dict[str, object]:
    """Return the errors of a folder by step, and what was reached for."""
    watch.folder, watch.found = str(Path(folder).resolve()), []
    attempts = Attempts()
    with contextlib.suppress(Reached):
        attempts.make_all(folder)
    watch.folder = None
    return {"errors": attempts.errors, "reached": watch.found}


def main() -> None:
    """Answer each line of standard input, a folder, with a line of JSON."""
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    folders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints must not be taken for an answer,
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nor a folder for what somebody typed
    Attempts().make_all(sys.argv[1])  # what is imported late is imported now
    watch = Watch()
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY,) * 2)
    for line in folders:
        print(json.dumps(outcome(line.rstrip("\n"), watch)), file=answers, flush=True)


main()
