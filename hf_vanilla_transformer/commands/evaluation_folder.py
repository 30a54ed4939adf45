"""The folder that `vanilla-transformer evaluate` writes its results to."""

import argparse
import json
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from hf_vanilla_transformer.journal import PATTERN
from hf_vanilla_transformer.line_output import (
    as_lines,
    refuse_closed,
    refuse_overwriting,
    writing_to,
)
from hf_vanilla_transformer.writing import locked, real_place, write_json, write_text

TRANSLATIONS, REPORT, MODEL = "translations.txt", "report.json", "config.json"


def alone_in_output(folder: str) -> AbstractContextManager[None]:
    """Keep other runs from writing to a folder."""
    busy = f"another run is at work in {folder}; wait for its end, or name another --output"
    return locked(Path(folder) / ".lock", busy)


def write_results(folder: Path, translations: list[str], report: dict[str, object]) -> None:
    """Write the results; a report is never beside translations that it is not of."""
    with writing_to(folder):
        real_place(folder / REPORT).unlink(missing_ok=True)
        write_text(folder / TRANSLATIONS, as_lines(translations))
        write_json(folder / REPORT, report)


def check_output(options: argparse.Namespace) -> None:
    """Refuse, before anything is read, to write over what is no result of an evaluation."""
    if not options.output:
        if options.examples:
            raise ValueError("--examples go into the report: name its folder with --output")
        refuse_closed(sys.stdout, 1)
        return
    folder = Path(options.output)
    remedy = "name another folder with --output"
    if (folder / MODEL).exists():
        raise ValueError(f"{folder} holds a model ({MODEL}); {remedy}")
    if (folder / REPORT).is_file() and not _is_evaluation(folder / REPORT):
        raise ValueError(
            f"{folder / REPORT} is no report of an evaluation, and would be written over; {remedy}"
        )
    inputs = [options.source, *(options.reference or [])]
    inputs += [options.baseline] if options.baseline else []
    written = [folder / TRANSLATIONS, folder / REPORT, *folder.glob(PATTERN)]
    refuse_overwriting(inputs, written)


def _is_evaluation(file: Path) -> bool:
    """Tell whether this command wrote a report, and not, for example, training."""
    try:
        report = json.loads(file.read_text("utf-8"))
    except ValueError:
        return False
    return isinstance(report, dict) and "bleu" in report and "training" not in report
