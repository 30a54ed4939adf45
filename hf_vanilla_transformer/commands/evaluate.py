"""`vanilla-transformer evaluate`: translate a test set, score it, report."""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

from accelerate import Accelerator
from sacrebleu.metrics import BLEU

from hf_vanilla_transformer.commands.options import (
    Commands,
    add_languages,
    add_model,
    add_search,
    languages,
    whole_number,
)
from hf_vanilla_transformer.data.corpus import holds_pairs, read_pairs
from hf_vanilla_transformer.data.lines import read_lines
from hf_vanilla_transformer.evaluation.evaluating import EvaluationSettings, TestSet, evaluate
from hf_vanilla_transformer.evaluation.metrics import METRICS, names_in_words
from hf_vanilla_transformer.evaluation.report import REPORT_FILE, EvaluationReport
from hf_vanilla_transformer.storage.files import only_run_in, real_place, write_json, write_text
from hf_vanilla_transformer.storage.models import (
    find_model,
    folder_of,
    load_config,
    load_for_translation,
    model_stamp,
)
from hf_vanilla_transformer.storage.weights import weight_digests
from hf_vanilla_transformer.tokenization.byte_share import warn_of_bytes
from hf_vanilla_transformer.training.setup import start_accelerator
from hf_vanilla_transformer.translation.journal import PATTERN, Journal
from hf_vanilla_transformer.translation.output import (
    as_lines,
    refuse_closed,
    refuse_overwriting,
    writing_to,
)

TRANSLATIONS, MODEL_CONFIG = "translations.txt", "config.json"


def add_evaluate(commands: Commands) -> None:
    """Add the command."""
    names = names_in_words(one for one in METRICS.values() if not one.of_references)
    command = commands.add_parser(
        "evaluate",
        help="translate a test set and score it with sacreBLEU",
        description=f"Translate a test set and print {names} with their signatures, and the loss "
        "of the references. Several processes (torchrun, accelerate launch) share the work.",
    )
    add_model(command)
    command.add_argument(
        "--source",
        required=True,
        metavar="F",
        help="source text; or pairs, in any format that train reads",
    )
    command.add_argument(
        "--reference",
        action="append",
        metavar="F",
        help="reference translations, unless --source holds pairs; may be given several times",
    )
    add_languages(command)
    add_search(command)
    _add_measures(command)
    _add_results(command)
    command.set_defaults(run=run_evaluate)


def _add_measures(command: argparse.ArgumentParser) -> None:
    """Add how translations are scored."""
    command.add_argument(
        "--tokenize",
        choices=BLEU.TOKENIZERS,
        help="tokenisation of BLEU; left out: by the target language",
    )
    command.add_argument("--lowercase", action="store_true", help="ignore case in BLEU and chrF")
    command.add_argument(
        "--confidence", action="store_true", help="95%% confidence intervals, by bootstrap"
    )
    command.add_argument(
        "--baseline",
        metavar="F",
        help="translations of another system: tests whether the difference is significant",
    )


def _add_results(command: argparse.ArgumentParser) -> None:
    """Add what is written, and where."""
    command.add_argument(
        "--output",
        metavar="DIR",
        help="folder for report.json and translations.txt; finished translations are saved there, "
        "and the same command continues after an interrupt",
    )
    command.add_argument(
        "--examples",
        type=whole_number,
        default=0,
        metavar="N",
        help="put N random sentences of the test set, with translations and first references, into "
        "the report; the model card shows them",
    )


def run_evaluate(options: argparse.Namespace) -> str | None:
    """Run the command; return what to print, on the main process."""
    inputs = [options.source, *(options.reference or [])]
    inputs += [options.baseline] if options.baseline else []
    check_output(options.output, inputs, has_examples=bool(options.examples))
    name = find_model(options.model)
    of_text = languages(options, load_config(name))
    test_set = read_test_set(
        options.source, options.reference or [], baseline=options.baseline, **of_text
    )
    given = {field.name: getattr(options, field.name) for field in fields(EvaluationSettings)}
    settings = EvaluationSettings(**given)
    scorer = settings.scorer(test_set)  # an error comes before the model is loaded
    accelerator = start_accelerator()
    is_main = accelerator.is_main_process
    if not is_main:
        logging.getLogger("hf_vanilla_transformer").setLevel(logging.ERROR)
    device = options.device or str(accelerator.device)
    loaded = load_for_translation(name, dtype=options.dtype, device=device)
    warn_of_bytes(loaded[1], test_set.sources)
    run = partial(evaluate, *loaded, test_set, settings, accelerator=accelerator, scorer=scorer)
    if not options.output:
        report = run()
        return report and str(report)
    output, weights = Path(options.output), weight_digests(folder_of(name)) if is_main else {}
    with only_run_in(output) if is_main else nullcontext():
        journal = _journal(
            output,
            model_stamp(name, loaded[1]),
            test_set=test_set,
            settings=settings,
            accelerator=accelerator,
        )
        report = _interruptible(run, output, journal=journal)
        if report is None:
            return None
        task = replace(report.task, model=options.model, weights=weights)
        write_results(output, replace(report, task=task))
        journal.remove()
    return str(report)


def _interruptible(
    run: Callable[..., EvaluationReport | None], output: Path, *, journal: Journal
) -> EvaluationReport | None:
    """Evaluate with a journal; explain on an interrupt how to continue."""
    try:
        return run(journal=journal)
    except KeyboardInterrupt:
        kept = f"{output} keeps the finished translations; the same command continues"
        raise KeyboardInterrupt(f"interrupted; {kept}") from None


def _journal(
    output: Path,
    stamp: dict[str, object],
    *,
    test_set: TestSet,
    settings: EvaluationSettings,
    accelerator: Accelerator,
) -> Journal:
    """Return the journal for these sentences, weights and generation settings."""
    search = {"batch_tokens": settings.batch_tokens, "generation": settings.generation}
    task = [stamp, settings.dtype, search, test_set.sources]
    return Journal(output, task, process=accelerator.process_index)


def read_test_set(
    source: str,
    references: Sequence[str],
    *,
    baseline: str | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> TestSet:
    """Read a test set from files.

    Args:
        source: File of the sources, or a corpus of pairs.
        references: Files of references, unless `source` holds pairs.
        baseline: File of the translations of another system.
        source_language: Language code, also the name of a column.
        target_language: Language code, also the name of a column.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: The numbers of lines differ, or a file is empty.
    """
    _check_sources(source, references)
    of_text = {"source_language": source_language, "target_language": target_language}
    sets = [
        read_pairs([source, *([reference] if reference else [])], **of_text)
        for reference in references or [None]
    ]
    sources = [pair.source for pair in sets[0]]
    if not sources:
        names = " ".join([source, *references])
        raise ValueError(f"{names} holds no pairs: 0 sentences, 0 references")
    return TestSet(
        sources,
        [[pair.target for pair in pairs] for pairs in sets],
        _read_baseline(baseline, source, count=len(sources)),
        **of_text,
        name=source,
        reference_names=tuple(references),
        baseline_name=baseline,
    )


def _check_sources(source: str, references: Sequence[str]) -> None:
    """Refuse a corpus of pairs with extra references, and a pipe with several references."""
    if references and any(map(_holds_pairs, [source, *references])):
        raise ValueError(
            f"{' and '.join([source, *references])}: a corpus of pairs holds its references; give "
            "it as --source alone, or give text files"
        )
    if len(references) > 1 and Path(source).exists() and not Path(source).is_file():
        raise ValueError(
            f"{source} is a pipe, which can be read only once; {len(references)} references "
            "need a file"
        )


def _read_baseline(baseline: str | None, source: str, *, count: int) -> list[str] | None:
    """Return the translations of another system, one for each sentence; None without a file."""
    compared = read_lines(baseline) if baseline else None
    if compared is not None and len(compared) != count:
        raise ValueError(
            f"{baseline} has {len(compared)} lines, {source} has {count}; a baseline has one line "
            "for each sentence"
        )
    return compared


def _holds_pairs(name: str) -> bool:
    """Return by its name whether a corpus holds pairs, not the lines of one side."""
    return holds_pairs(name) or Path(name).is_dir() or (":" in name and not Path(name).exists())


def write_results(folder: Path, report: EvaluationReport) -> None:
    """Write translations, then their report; an outdated report is deleted first."""
    with writing_to(folder):
        real_place(folder / REPORT_FILE).unlink(missing_ok=True)
        write_text(folder / TRANSLATIONS, as_lines(report.translations))
        write_json(folder / REPORT_FILE, report.as_json())


def check_output(output: str | None, inputs: Sequence[str], *, has_examples: bool) -> None:
    """Refuse, before anything is read, to overwrite files that `evaluate` did not write."""
    if not output:
        if has_examples:
            raise ValueError("--examples need a report; name its folder with --output")
        refuse_closed(sys.stdout, 1)
        return
    folder = Path(output)
    remedy = "name another folder with --output"
    if (folder / MODEL_CONFIG).exists():
        raise ValueError(f"{folder} holds a model ({MODEL_CONFIG}); {remedy}")
    report = folder / REPORT_FILE
    if report.is_file() and not _is_evaluation(report):
        raise ValueError(
            f"{report} is not a report of evaluate, and would be overwritten; {remedy}"
        )
    refuse_overwriting(inputs, [folder / TRANSLATIONS, report, *folder.glob(PATTERN)])


def _is_evaluation(file: Path) -> bool:
    """Return whether `evaluate` wrote a report, not, for example, training."""
    try:
        report = json.loads(file.read_text("utf-8"))
    except ValueError:
        return False
    return isinstance(report, dict) and "bleu" in report and "training" not in report
