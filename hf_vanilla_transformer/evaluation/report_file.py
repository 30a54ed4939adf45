"""Read reports, and check the type of each field."""

import json
import reprlib
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import get_args, get_origin, get_type_hints

from hf_vanilla_transformer.evaluation.metrics import METRICS
from hf_vanilla_transformer.evaluation.report import (
    EvaluationTask,
    Example,
    Interval,
    TrainingReport,
)

NUMBER, STRING, OTHERS = "a finite number", "text", "all other fields"
LARGEST = 1e15


class Whole(dict):
    """An object whose fields are required unless they may be null; other objects require none."""


def shape_of(kind: object) -> object:
    """Return the shape of a value of some type, for `faults_of_report`.

    A list has one shape of items; a tuple is a shape that may be null; unnamed fields are not
    read. A dataclass whose fields all have defaults requires none of them.
    """
    arguments = get_args(kind)
    if NoneType in arguments:
        return (shape_of(arguments[0]), None)
    if get_origin(kind) is list:
        return [shape_of(arguments[0])]
    if get_origin(kind) is dict:
        return {OTHERS: shape_of(arguments[1])}
    if is_dataclass(kind):
        shapes = {name: shape_of(hint) for name, hint in get_type_hints(kind).items()}
        defaults = [(one.default, one.default_factory) for one in fields(kind)]
        return Whole(shapes) if (MISSING, MISSING) in defaults else shapes
    return STRING if kind is str else NUMBER


# Reports that others wrote, and those of `quickstart`, may have the scores apart.
SCORES = {
    **dict.fromkeys((*METRICS, "tokens"), NUMBER),
    **{f"{metric}_{part}": STRING for metric in METRICS for part in ("name", "signature")},
    "confidence": {OTHERS: shape_of(Interval)},
}
REPORT_SHAPE = {
    **shape_of(TrainingReport),
    **shape_of(EvaluationTask),
    **SCORES,
    "scores": SCORES,
    "translations": [shape_of(Example)],
}
REPORT_SHAPE["arguments"]["from"] = (STRING, None)  # a word of Python, no name of a field


def faults_of_report(
    value: object, shape: object = REPORT_SHAPE, *, place: str = ""
) -> Iterator[str]:
    """Yield a message for every field of a wrong type: its place, value and expected type."""
    if isinstance(shape, tuple):
        if value is None:
            return
        shape = shape[0]
    expected = {list: "a list", dict: "an object", Whole: "an object"}.get(type(shape), shape)
    if not _is_of_kind(value, shape):
        yield f"{place or 'it'} is {reprlib.repr(value)}, not {expected}"
    elif isinstance(shape, list):
        for number, item in enumerate(value):
            yield from faults_of_report(item, shape[0], place=f"{place}[{number}]")
    elif isinstance(shape, dict):
        yield from _faults_of_fields(value, shape, place=place)


def _faults_of_fields(
    value: dict[str, object], shape: dict[str, object], *, place: str
) -> Iterator[str]:
    """Yield the faults in the fields of an object."""
    if isinstance(shape, Whole):
        needed = [name for name, field in shape.items() if not isinstance(field, tuple)]
        yield from (f"{place} has no {name}" for name in needed if name not in value)
    for name, field in value.items():
        if name in shape or OTHERS in shape:
            inside = f"{place}.{name}" if place else name
            yield from faults_of_report(field, shape.get(name, shape.get(OTHERS)), place=inside)


def _is_of_kind(value: object, shape: object) -> bool:
    if shape == NUMBER:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) < LARGEST  # false of NaN too
    return isinstance(value, str if shape == STRING else list if isinstance(shape, list) else dict)


def read_report(path: str | Path) -> dict[str, object]:
    """Return the content of a report.

    Raises:
        ValueError: The file is not a report; the message names the wrong field.
        FileNotFoundError: It is missing.
    """
    try:
        report = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    if fault := next(faults_of_report(report), None):
        raise ValueError(f"{path}: {fault}; give an unchanged report of train or evaluate")
    if "training" not in report and not any(scores_of_report(report)):
        raise ValueError(f"{path} is neither a report of train nor of evaluate")
    return report


def read_scores(path: str | Path) -> dict[str, object]:
    """Return the content of a report with scores.

    Raises:
        ValueError: The file is not a report, or has no scores.
        FileNotFoundError: It is missing.
    """
    report = read_report(path)
    if not any(scores_of_report(report)):
        raise ValueError(
            f"{path} holds no scores; give the report.json in the --output folder of `evaluate` "
            "(that of the training is found beside the model)"
        )
    return report


def scores_of_report(
    report: dict[str, object],
) -> Iterator[tuple[str, str, float, dict[str, object]]]:
    """Yield metric, its name, score, and details: signature, interval, tokens, dtype."""
    scores, dtype = report.get("scores", report), report.get("dtype")
    for key, metric in METRICS.items():
        if key not in scores:
            continue
        interval = scores.get("confidence", {}).get(key)
        found = {
            "signature": scores.get(f"{key}_signature"),
            "confidence": interval and {n: metric.rounded(interval[n]) for n in ("mean", "margin")},
            "tokens": scores.get("tokens") if metric.of_references else None,
            "dtype": dtype if dtype != "fp32" else None,
        }
        title = scores.get(f"{key}_name", metric.title or metric.name)
        arguments = {name: x for name, x in found.items() if x is not None}
        yield key, title, metric.rounded(scores[key]), arguments
