"""Content of a card from reports of training and of evaluation."""

import shlex
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path

from huggingface_hub import EvalResult

from hf_vanilla_transformer.evaluation.metrics import shown_count
from hf_vanilla_transformer.evaluation.report import TrainingFigures
from hf_vanilla_transformer.evaluation.report_file import scores_of_report
from hf_vanilla_transformer.languages import are_different
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.publishing.markup import ODD, code, plain, shell_words
from hf_vanilla_transformer.storage.files import text_digest
from hf_vanilla_transformer.storage.weights import weight_digests
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.loop_arguments import LoopArguments

CORPORA = ("train", "valid")
PATHS = (*CORPORA, "output", "from", "tokenizer")


def evaluation_results(report: dict[str, object], languages: Sequence[str]) -> list[EvalResult]:
    """Return the scores of a report, rounded, each as the Hub has them.

    Args:
        report: A report with scores, or without any.
        languages: Codes of source and target, as far as they are known.
    """
    name, mark, config, split = _test_set(report)
    return [
        EvalResult(
            task_type="translation",
            task_name=" ".join(["Translation", "-".join(languages)]).strip(),
            dataset_type=name + mark,
            dataset_name=name,
            dataset_config=config,
            dataset_split=split,
            metric_type=metric,
            metric_name=title,
            metric_value=value,
            metric_args=arguments or None,
        )
        for metric, title, value, arguments in scores_of_report(report)
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


def refuse_other_weights(path: Path, report: dict[str, object], *, folder: Path) -> None:
    """Refuse a report that says of which weights it is, where a folder has others.

    Raises:
        ValueError: The folder has others.
    """
    given = report.get("weights")
    if given and given != weight_digests(folder):
        raise ValueError(
            f"{path} holds the scores of {report.get('model') or 'a model'}, which had other "
            "weights than this model has; score this one with `evaluate` and give that report"
        )


def training_figures(report: dict[str, object]) -> list[tuple[str, object]]:
    """Return the labels and formatted figures of a training for a card."""
    training, environment = report.get("training", {}), report.get("environment", {})
    told = [
        (figure.metadata["label"], figure.metadata["shown"](training[figure.name]))
        for figure in fields(TrainingFigures)
        if figure.metadata and training.get(figure.name) is not None
    ]
    seed = report.get("arguments", {}).get("seed")
    versions = environment.get("versions", {})
    return [
        *told,
        *([] if seed is None else [("seed", _typed(seed))]),
        *([("device", environment["device"])] if "device" in environment else []),
        *([("versions", ", ".join(" ".join(one) for one in versions.items()))] if versions else []),
    ]


def training_data(report: dict[str, object]) -> str:
    """Return a list of the corpora of a training, in Markdown, empty if they are not known."""
    arguments = report.get("arguments", {})
    lines = [
        f"- {label}: {', '.join(code(shown_path(name)) for name in arguments[kind])}"
        for kind, label in zip(CORPORA, ("training", "validation"), strict=True)
        if arguments.get(kind)
    ]
    left_out = {rule: count for rule, count in report.get("left_out", {}).items() if count}
    if left_out:
        counts = ", ".join(
            f"{plain(rule.replace('_', ' '))}: {shown_count(n)}" for rule, n in left_out.items()
        )
        lines.append(f"- left out by cleaning: {counts}")
    return "\n".join(lines)


def training_command(report: dict[str, object]) -> str:
    """Return the command that made the model; options that are as they always are stay out."""
    arguments = report.get("arguments")
    if arguments is None:
        return shell_words(str(report.get("made_by", "")).split())
    words = ["vanilla-transformer", "train"]
    for name, value in arguments.items():
        if value is None or value is False or value == _defaults().get(name, MISSING):
            continue
        words.append(f"--{name.replace('_', '-')}")
        given = value if isinstance(value, list) else [] if value is True else [value]
        words += [shown_path(one) if name in PATHS else _typed(one) for one in given]
    return shell_words([word if ODD.search(word) else shlex.quote(word) for word in words])


def shown_path(name: str) -> str:
    """Return a path as others may see it: of one that begins at the root, its last part."""
    path = Path(name)
    return path.name if path.is_absolute() else name


def _typed(value: object) -> str:
    """Return a value as a person types it: 84, not 84.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _defaults() -> dict[str, object]:
    """Return the default of every option of training."""
    kinds = (RunArguments, DataArguments, LoopArguments)
    return {option.name: option.default for kind in kinds for option in fields(kind)}


def _test_set(report: dict[str, object]) -> tuple[str, str, str | None, str | None]:
    """Return name, mark, configuration and split of what was translated.

    Where a path is not shown in full, the mark keeps files of the same name apart.
    """
    source, *rest = (report.get("source") or report.get("made_by") or "test set").split(":")
    files = [source, *report.get("reference", [])]
    name = " + ".join(map(shown_path, files))
    is_cut = any(Path(file).is_absolute() for file in files)
    mark = f" ({text_digest(chr(0).join(files))[:6]})" if is_cut else ""
    return name, mark, rest[0] if len(rest) > 1 else None, rest[-1] if rest else None
