"""Read the files of an earlier comparison, and check them against the options."""

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from comparison_options import MARIAN, OURS, PAIRS

from hf_vanilla_transformer.data.corpus import open_corpora
from hf_vanilla_transformer.evaluation.report_file import NUMBER, STRING, Whole, faults_of_report
from hf_vanilla_transformer.storage.files import write_json
from hf_vanilla_transformer.training.fit import CHECKPOINTS

Figures = dict[str, object]

ASKED = "ours.asked.json"
DRAWN = Whole(
    curve=[Whole(minutes=NUMBER, loss=NUMBER, bleu=NUMBER)],
    test=(Whole(beams=NUMBER, bleu=NUMBER, chrf=NUMBER), None),
)
PART = Whole(DRAWN, asked={}, model=Whole(loss=NUMBER, bleu=NUMBER))
COMPARISON = Whole(name=STRING, minutes=NUMBER, ours=DRAWN, marian=DRAWN)


def read_figures(file: Path, shape: Whole, remedy: str) -> Figures:
    """Read a JSON file.

    Raises:
        ValueError: It cannot be read, or holds something else than it should.
    """
    try:
        found = json.loads(file.read_text("utf-8"))
        fault = next(faults(found, shape), None)
    except OSError as error:
        fault = (error.strerror or str(error)).lower()
    except (ValueError, RecursionError) as error:
        fault = f"it is not JSON ({error})"
    if fault:
        raise ValueError(f"{file}: {fault}; {remedy}")
    return found


def faults(found: object, shape: Whole) -> Iterator[str]:
    """Say what is of another shape, and then what curve is empty."""
    yield from faults_of_report(found, shape)
    for name, part in {"it": found, **found}.items():
        if isinstance(part, dict) and part.get("curve") == []:
            yield f"the curve of {name} is empty"


def read_comparison(file: Path) -> Figures:
    """Read a comparison that is to be drawn.

    Raises:
        ValueError: It is none.
    """
    return read_figures(file, COMPARISON, "name the comparison.json of a finished comparison")


def read_part(file: Path, asked: Figures) -> Figures | None:
    """Read a part that is finished; return None if it is not.

    Raises:
        ValueError: It is damaged, or was made with other options.
    """
    if not file.exists():
        return None
    part = read_figures(file, PART, "delete the file, and the same command makes it anew")
    check_same(part["asked"], asked, file)
    return part


def claim_ours(output: Path, asked: Figures) -> None:
    """Note what our run is begun with, or see that the run to go on with was begun so.

    Raises:
        ValueError: It is another run.
    """
    file, folder = output / ASKED, output / OURS
    if not (folder / CHECKPOINTS).exists():
        write_json(file, asked)
        return
    remedy = f"{folder} holds a run that is not of this comparison: name another --output"
    check_same(read_figures(file, Whole(), remedy), asked, file)


def check_same(before: Figures, asked: Figures, file: Path) -> None:
    """Refuse to take a part for one with other options.

    Raises:
        ValueError: An option differs.
    """
    for name, value in asked.items():
        if before.get(name) != value:
            raise ValueError(
                f"{file} was made with {name} {shown(before.get(name))}, not {shown(value)}: name "
                "another --output"
            )


def shown(value: object) -> str:
    """Return an option, or names and checksum of corpora, as text."""
    if isinstance(value, dict):
        return f"{' '.join(value.get('files', []))} ({value.get('sha256')})"
    return repr(value)


def asked_for(options: argparse.Namespace) -> dict[str, Figures]:
    """Return what decides what each part finds: options, and the content of files.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A name is none of a corpus.
    """
    names = ("source_lang", "target_lang", "minutes", "threads", "beams")
    common = {name: describe_pairs(name, options) for name in PAIRS}
    common |= {name: getattr(options, name) for name in names}
    common["config"] = options.config and options.config.read_text("utf-8")
    own = {name: value for name, value in vars(options).items() if name.startswith("marian_")}
    return {OURS: common, MARIAN: common | own | {"every": options.every}}


def describe_pairs(name: str, options: argparse.Namespace) -> Figures | None:
    """Return names and checksum of corpora."""
    given = getattr(options, name)
    if given is None:
        return None
    checksum = hashlib.sha256()
    for corpus in open_corpora(given, **languages(options)):
        corpus.stamp()  # refuses what cannot be read twice
        for file in corpus.files:
            with file.open("rb") as stream:
                checksum.update(hashlib.file_digest(stream, "sha256").digest())
    return {"files": given, "sha256": checksum.hexdigest()[:16]}


def languages(options: argparse.Namespace) -> dict[str, str | None]:
    """Return source and target language as the corpus readers take them."""
    return {"source_language": options.source_lang, "target_language": options.target_lang}
