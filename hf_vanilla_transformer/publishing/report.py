"""What the reports of training and of evaluation say that belongs on a card."""

import hashlib
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from huggingface_hub import EvalResult

from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.publishing.languages import are_different
from hf_vanilla_transformer.publishing.report_shape import FIGURES, METRICS, faults_of_report
from hf_vanilla_transformer.training.arguments import DataArguments, LoopArguments, RunArguments

CORPORA = ("train", "valid")
PATHS = (*CORPORA, "output", "from", "tokenizer")
OF_TOKENS = ("loss", "perplexity")


def read_report(path: str | Path) -> dict[str, object]:
    """Return the content of a report.

    Raises:
        ValueError: It is no report; the message names the field that holds what none can.
        FileNotFoundError: It is missing.
    """
    try:
        report = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if fault := next(faults_of_report(report), None):
        raise ValueError(f"{path}: {fault}; give a report as train or evaluate wrote it")
    if "training" not in report and not any(_scores(report)):
        raise ValueError(f"{path} is neither a report of training nor one of evaluation")
    return report


def evaluation_results(report: dict[str, object], languages: Sequence[str]) -> list[EvalResult]:
    """Return the scores of a report, each as the Hub has them.

    Args:
        report: A report with scores, or without any.
        languages: Codes of source and target, as far as they are known.
    """
    name, config, split = _test_set(report)
    return [
        EvalResult(
            task_type="translation",
            task_name=" ".join(["Translation", "-".join(languages)]).strip(),
            dataset_type=name,
            dataset_name=name,
            dataset_config=config,
            dataset_split=split,
            metric_type=metric,
            metric_name=METRICS[metric],
            metric_value=value,
            metric_args=arguments or None,
        )
        for metric, value, arguments in _scores(report)
    ]


def refuse_other_languages(report: dict[str, object], config: VanillaTransformerConfig) -> None:
    """Refuse the report of a model that translates other languages.

    Raises:
        ValueError: A language of the report is another one than that of the model.
    """
    for name in ("source_language", "target_language"):
        given, own = report.get(name), getattr(config, name)
        if are_different(given, own):
            raise ValueError(
                f"the report on {_test_set(report)[0]} has {name}={given}, the model {own}; "
                "give a report of this model"
            )


def training_figures(report: dict[str, object]) -> list[tuple[str, object]]:
    """Return what a card tells of a training, label and figure as the report has it."""
    training, environment = report.get("training", {}), report.get("environment", {})
    told = [(label, training[name]) for name, label in FIGURES.items() if name in training]
    versions = environment.get("versions", {})
    return [
        *told,
        *([("device", environment["device"])] if "device" in environment else []),
        *([("versions", ", ".join(" ".join(one) for one in versions.items()))] if versions else []),
    ]


def training_data(report: dict[str, object]) -> str:
    """Return a list of the corpora of a training, in Markdown, empty if they are not known."""
    arguments = report.get("arguments", {})
    lines = [
        f"- {label}: {', '.join(f'`{shown_path(name)}`' for name in arguments[kind])}"
        for kind, label in zip(CORPORA, ("training", "validation"), strict=True)
        if arguments.get(kind)
    ]
    left_out = {rule: count for rule, count in report.get("left_out", {}).items() if count}
    if left_out:
        counts = ", ".join(f"{rule.replace('_', ' ')}: {n}" for rule, n in left_out.items())
        lines.append(f"- left out by cleaning: {counts}")
    return "\n".join(lines)


def training_command(report: dict[str, object]) -> str:
    """Return the command that made the model; options that are as they always are stay out."""
    arguments = report.get("arguments")
    if arguments is None:
        return str(report.get("made_by", ""))
    words = ["vanilla-transformer", "train"]
    for name, value in arguments.items():
        if value is None or value is False or value == _defaults().get(name, MISSING):
            continue
        words.append(f"--{name.replace('_', '-')}")
        given = value if isinstance(value, list) else [] if value is True else [value]
        words += [shown_path(one) if name in PATHS else str(one) for one in given]
    return shlex.join(words)


def shown_path(name: str) -> str:
    """Return a path as others may see it: of one that begins at the root, its last part."""
    path = Path(name)
    return path.name if path.is_absolute() else name


def _defaults() -> dict[str, object]:
    """Return the default of every option of training."""
    kinds = (RunArguments, DataArguments, LoopArguments)
    return {option.name: option.default for kind in kinds for option in fields(kind)}


def _scores(report: dict[str, object]) -> Iterator[tuple[str, float, dict[str, object]]]:
    """Yield metric, score, and what belongs to it: signature, interval, tokens, type of numbers."""
    scores, dtype = report.get("scores", report), report.get("dtype")
    for metric in filter(scores.__contains__, METRICS):
        found = {
            "signature": scores.get(f"{metric}_signature"),
            "confidence": scores.get("confidence", {}).get(metric),
            "tokens": scores.get("tokens") if metric in OF_TOKENS else None,
            "dtype": dtype if dtype != "fp32" else None,
        }
        yield metric, scores[metric], {name: x for name, x in found.items() if x is not None}


def _test_set(report: dict[str, object]) -> tuple[str, str | None, str | None]:
    """Return name, configuration and split of what was translated.

    Where a path is not shown in full, a mark of it keeps files of the same name apart.
    """
    source, *rest = (report.get("source") or report.get("made_by") or "test set").split(":")
    files = [source, *report.get("reference", [])]
    name = " + ".join(map(shown_path, files))
    if any(Path(file).is_absolute() for file in files):
        name += f" ({hashlib.sha256(chr(0).join(files).encode()).hexdigest()[:6]})"
    return name, rest[0] if len(rest) > 1 else None, rest[-1] if rest else None
