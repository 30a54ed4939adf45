"""`vanilla-transformer evaluate`: translate a test set, score it, report."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path

from accelerate import Accelerator
from sacrebleu.metrics import BLEU
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.commands.options import (
    Commands,
    add_languages,
    add_model,
    add_search,
    languages,
    search_settings,
    whole_number,
)
from hf_vanilla_transformer.data.corpus import holds_pairs, read_pairs
from hf_vanilla_transformer.data.lines import read_lines
from hf_vanilla_transformer.evaluation.reference_loss import ReferenceLoss, reference_loss
from hf_vanilla_transformer.evaluation.report import (
    TestSet,
    report_examples,
    report_scores,
    report_task,
)
from hf_vanilla_transformer.evaluation.scoring import RESAMPLES, Measurement, Scorer
from hf_vanilla_transformer.storage.files import locked, real_place, write_json, write_text
from hf_vanilla_transformer.storage.models import (
    find_model,
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
    in_one_line,
    refuse_closed,
    refuse_overwriting,
    writing_to,
)
from hf_vanilla_transformer.translation.translate import Sentences, translate_shared

logger = logging.getLogger(__name__)

PRINTED_NAMES = {"BLEU": "BLEU", "chrF2": "chrF", "TER": "TER"}


def add_evaluate(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "evaluate",
        help="translate a test set and score it with sacreBLEU",
        description="Translate a test set and print BLEU, chrF and TER with their signatures, and "
        "the loss of the references. Several processes (torchrun, accelerate launch) share the "
        "work.",
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
    command.set_defaults(run=run)


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
        help="folder for report.json and translations.txt; translations are noted there as they "
        "come, so that the same command goes on after a break",
    )
    command.add_argument(
        "--examples",
        type=whole_number,
        default=0,
        metavar="N",
        help="put so many sentences of the test set, drawn at random, with translations and first "
        "references into the report, from where the model's card takes them",
    )


def run(options: argparse.Namespace) -> str | None:
    """Run the command; return what to print, on the main process."""
    check_output(options)
    model_name = find_model(options.model)
    of_text = languages(options, load_config(model_name))
    test_set = read_test_set(options, of_text)
    scorer = Scorer(
        test_set.references,
        target_language=of_text["target_language"],
        tokenize=options.tokenize,
        lowercase=options.lowercase,
    )
    accelerator = start_accelerator()
    is_main = accelerator.is_main_process
    if not is_main:
        logging.getLogger("hf_vanilla_transformer").setLevel(logging.ERROR)
    device = options.device or str(accelerator.device)
    loaded = load_for_translation(model_name, dtype=options.dtype, device=device)
    warn_of_bytes(loaded[1], test_set.sources)
    is_reported = is_main and bool(options.output)
    weights = weight_digests(Path(model_name)) if is_reported else {}
    with alone_in_output(options.output) if is_reported else nullcontext():
        translations, loss, journal = _translate(options, model_name, loaded, test_set, accelerator)
        if not is_main:
            return None
        measurements = _measure(scorer, translations, test_set, options)
        if journal:
            report = {
                **report_scores(measurements, options.baseline),
                **(asdict(loss) if loss else {}),
                **report_task(options, loaded[0].generation_config, test_set, of_text),
                "weights": weights,
                **report_examples(options.examples, test_set, translations),
            }
            write_results(Path(options.output), translations, report)
            journal.remove()
    rows = [*_rows(measurements), _describe_loss(loss)]
    return "\n".join(filter(None, rows))


def read_test_set(options: argparse.Namespace, of_text: dict[str, str | None]) -> TestSet:
    """Return what the options name.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: Files do not fit together, or there is nothing in them.
    """
    source, references = options.source, options.reference or []
    if references and any(map(_holds_pairs, [source, *references])):
        raise ValueError(
            f"{' and '.join([source, *references])}: a corpus of pairs holds its references; give "
            "it as --source alone, or give text files"
        )
    if len(references) > 1 and Path(source).exists() and not Path(source).is_file():
        raise ValueError(
            f"{source} is a pipe, which can be read only once, and is read for each of "
            f"{len(references)} references; give a file"
        )
    sets = [
        read_pairs([source, *([reference] if reference else [])], **of_text)
        for reference in references or [None]
    ]
    sources = [pair.source for pair in sets[0]]
    if not sources:
        names = " ".join([source, *references])
        raise ValueError(f"{names} holds no pairs: 0 sentences, 0 references")
    baseline = read_lines(options.baseline) if options.baseline else None
    if baseline is not None and len(baseline) != len(sources):
        raise ValueError(
            f"{options.baseline} has {len(baseline)} lines, {source} has {len(sources)}; a "
            "baseline has one line for each sentence"
        )
    return TestSet(sources, [[pair.target for pair in pairs] for pairs in sets], baseline)


def _holds_pairs(name: str) -> bool:
    """Tell by its name whether a corpus holds pairs, and not the lines of one side."""
    return holds_pairs(name) or Path(name).is_dir() or (":" in name and not Path(name).exists())


def _translate(
    options: argparse.Namespace,
    model_name: str,
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    test_set: TestSet,
    accelerator: Accelerator,
) -> tuple[list[str], ReferenceLoss | None, Journal | None]:
    """Return translations of all processes, each in one line, loss of references, and the notes.

    Raises:
        KeyboardInterrupt: The message says what is kept.
    """
    model, tokenizer = loaded
    settings = {"batch_tokens": options.batch_tokens, "generation": search_settings(options)}
    sentences = Sentences(model, tokenizer, test_set.sources, **settings)
    journal = None
    if options.output:
        task = [model_stamp(model_name, tokenizer), options.dtype, settings, test_set.sources]
        journal = Journal(options.output, task, accelerator.process_index)
    done = f", {len(journal.found):,} of them done" if journal and journal.found else ""
    logger.info("translating %s sentences%s ...", f"{len(sentences):,}", done)
    try:
        translations = translate_shared(sentences, accelerator, journal=journal)
    except KeyboardInterrupt:
        kept = f"; {options.output} keeps what is done, the same command goes on" if journal else ""
        raise KeyboardInterrupt(f"interrupted{kept}") from None
    logger.info("loss of the references ...")
    loss = reference_loss(
        model, tokenizer, test_set.sources, test_set.references, accelerator=accelerator
    )
    return list(map(in_one_line, translations)), loss, journal


def _measure(
    scorer: Scorer, translations: list[str], test_set: TestSet, options: argparse.Namespace
) -> list[Measurement]:
    """Return all metrics, and say before what takes its time."""
    resamples = RESAMPLES if options.confidence or test_set.baseline is not None else 0
    of_resamples = f", with {resamples:,} resamples of the test set" if resamples else ""
    logger.info("BLEU, chrF and TER%s ...", of_resamples)
    return scorer.measure(translations, resamples=resamples, baseline=test_set.baseline)


def _rows(measurements: Sequence[Measurement]) -> list[str]:
    """Return one line for each metric."""
    rows = []
    for found in measurements:
        cells = [f"{PRINTED_NAMES[found.name]} {found.score:.2f}"]
        if found.mean is not None:
            cells.append(f"({found.mean:.2f} ± {found.margin:.2f})")
        if found.baseline is not None:
            cells.append(f"baseline {found.baseline:.2f}, p = {found.p_value:.4f}")
        rows.append("  ".join([*cells, found.signature]))
    return rows


def _describe_loss(loss: ReferenceLoss | None) -> str:
    if loss is None:
        return ""
    return (
        f"loss {loss.loss:.4f} per token, perplexity {loss.perplexity:.2f} "
        f"(references, {loss.tokens:,} tokens)"
    )


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
