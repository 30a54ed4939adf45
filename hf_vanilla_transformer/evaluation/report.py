"""Whether a report holds, where the card reads it, what can stand there."""

import argparse
import json
import platform
import random
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import GenerationConfig

from hf_vanilla_transformer.commands.options import search_settings
from hf_vanilla_transformer.evaluation.metrics import (
    DECIMALS,
)
from hf_vanilla_transformer.evaluation.scoring import Measurement
from hf_vanilla_transformer.translation.output import in_one_line

METRICS = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "ter": "TER",
    "loss": "loss of the references per token",
    "perplexity": "perplexity of the references",
}
FIGURES = {
    "pairs": "training pairs",
    "steps": "updates",
    "passes": "passes over the data",
    "tokens": "source and target tokens trained on",
    "seconds": "time",
    "processes": "processes",
    "validation_loss": "validation loss per token",
    "validation_perplexity": "validation perplexity",
}
NUMBER, TEXT, OTHERS = "a finite number", "text", "all other fields"
LARGEST = 1e15


class Whole(dict):
    """An object that needs all of its fields but those that may be null; others need none."""


# A list has one shape of items; a tuple is a shape that may be null; what is not named is not read.
SCORES = {
    **dict.fromkeys((*METRICS, "tokens"), NUMBER),
    **{f"{metric}_{part}": TEXT for metric in METRICS for part in ("name", "signature")},
    "confidence": {OTHERS: Whole(mean=NUMBER, margin=NUMBER)},
}
REPORT = {
    **SCORES,
    "scores": SCORES,
    "source": TEXT,
    **dict.fromkeys(("source_language", "target_language", "dtype"), (TEXT, None)),
    "model": (TEXT, None),
    "weights": {OTHERS: TEXT},
    "reference": [TEXT],
    "made_by": TEXT,
    "arguments": {
        **dict.fromkeys(("train", "valid"), ([TEXT], None)),
        **dict.fromkeys(("output", "from", "tokenizer"), (TEXT, None)),
        **dict.fromkeys(("max_length", "seed"), (NUMBER, None)),
    },
    "left_out": {OTHERS: NUMBER},
    "training": {
        **dict.fromkeys(FIGURES, NUMBER),
        "validations": [Whole(step=NUMBER, loss=NUMBER, bleu=(NUMBER, None))],
    },
    "environment": {"device": TEXT, "versions": {OTHERS: TEXT}},
    "translations": [Whole(source=TEXT, translation=TEXT, reference=(TEXT, None))],
}


def faults_of_report(value: object, shape: object = REPORT, place: str = "") -> Iterator[str]:
    """Say of every field that is of another shape where it is, what it is and what is expected."""
    if isinstance(shape, tuple):
        if value is None:
            return
        shape = shape[0]
    expected = {list: "a list", dict: "an object", Whole: "an object"}.get(type(shape), shape)
    if not _is_of_kind(value, shape):
        yield f"{place or 'it'} is {reprlib.repr(value)}, not {expected}"
    elif isinstance(shape, list):
        for number, item in enumerate(value):
            yield from faults_of_report(item, shape[0], f"{place}[{number}]")
    elif isinstance(shape, dict):
        yield from _faults_of_fields(value, shape, place)


def _faults_of_fields(
    value: dict[str, object], shape: dict[str, object], place: str
) -> Iterator[str]:
    """Say what is wrong with the fields of an object."""
    if isinstance(shape, Whole):
        needed = [name for name, field in shape.items() if not isinstance(field, tuple)]
        yield from (f"{place} has no {name}" for name in needed if name not in value)
    for name, field in value.items():
        if name in shape or OTHERS in shape:
            inside = f"{place}.{name}" if place else name
            yield from faults_of_report(field, shape.get(name, shape.get(OTHERS)), inside)


def _is_of_kind(value: object, shape: object) -> bool:
    if shape == NUMBER:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and abs(value) < LARGEST  # false of NaN too
    return isinstance(value, str if shape == TEXT else list if isinstance(shape, list) else dict)


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


def read_scores(path: str | Path) -> dict[str, object]:
    """Return the content of a report that holds scores.

    Raises:
        ValueError: It holds none, or is no report.
        FileNotFoundError: It is missing.
    """
    report = read_report(path)
    if not any(_scores(report)):
        raise ValueError(
            f"{path} holds no scores; give the report.json in the --output folder of `evaluate` "
            "(that of the training is found beside the model)"
        )
    return report


def _scores(report: dict[str, object]) -> Iterator[tuple[str, str, float, dict[str, object]]]:
    """Yield metric, its name, score, and more: signature, interval, tokens, type of numbers."""
    scores, dtype = report.get("scores", report), report.get("dtype")
    for metric in filter(scores.__contains__, METRICS):
        rounded = partial(round, ndigits=DECIMALS[metric])
        interval = scores.get("confidence", {}).get(metric)
        found = {
            "signature": scores.get(f"{metric}_signature"),
            "confidence": interval and {n: rounded(interval[n]) for n in ("mean", "margin")},
            "tokens": scores.get("tokens") if metric in OF_TOKENS else None,
            "dtype": dtype if dtype != "fp32" else None,
        }
        title, value = scores.get(f"{metric}_name", METRICS[metric]), scores[metric]
        arguments = {name: x for name, x in found.items() if x is not None}
        yield metric, title, rounded(value), arguments


NAMES = {"BLEU": "bleu", "chrF2": "chrf", "TER": "ter"}


@dataclass(frozen=True)
class TestSet:
    """Sentences and what they should become.

    Attributes:
        sources: Text to translate.
        references: Sets of references, each with one for each sentence.
        baseline: Translations of another system.
    """

    sources: list[str]
    references: list[list[str]]
    baseline: list[str] | None


def report_scores(
    measurements: Sequence[Measurement], baseline: str | None
) -> dict[str, float | str | dict]:
    """Return scores with two decimals, as sacreBLEU writes them to JSON."""
    report: dict[str, float | str | dict] = {}
    for found in measurements:
        name = NAMES[found.name]
        report |= {name: round(found.score, 2), f"{name}_signature": found.signature}
        if found.mean is not None:
            interval = {"mean": round(found.mean, 2), "margin": round(found.margin, 2)}
            report.setdefault("confidence", {})[name] = interval
        if found.baseline is not None:
            test = {"score": round(found.baseline, 2), "p_value": round(found.p_value, 4)}
            report.setdefault("baseline", {"file": baseline})[name] = test
    return report


def report_task(
    options: argparse.Namespace,
    own: GenerationConfig,
    test_set: TestSet,
    of_text: dict[str, str | None],
) -> dict[str, object]:
    """Return what was translated, by what, and how.

    Args:
        options: What was asked for.
        own: The model's own settings of the search, for what was not.
        test_set: What was translated.
        of_text: Its languages.
    """
    search = {"num_beams": own.num_beams or 1, "gnmt_alpha": getattr(own, "gnmt_alpha", None)}
    search |= search_settings(options)
    return {
        "sentences": len(test_set.sources),
        "model": options.model,
        "source": options.source,
        "reference": options.reference or [],
        **of_text,
        "search": {name: value for name, value in search.items() if value is not None},
        "dtype": options.dtype,
        "batch_tokens": options.batch_tokens,
        "environment": describe_environment(),
    }


def report_examples(
    number: int, test_set: TestSet, translations: list[str]
) -> dict[str, list[dict[str, str]]]:
    """Return sentences that are always the same of one test set, in its order."""
    lines = range(len(translations))
    drawn = sorted(random.Random(0).sample(lines, min(number, len(lines))))
    examples = [
        {
            "source": in_one_line(test_set.sources[line]),
            "translation": translations[line],
            "reference": in_one_line(test_set.references[0][line]),
        }
        for line in drawn
    ]
    return {"translations": examples} if examples else {}


PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "sacrebleu")


def describe_environment() -> dict[str, object]:
    """Return versions, device and threads, for a report."""
    own = {
        "python": platform.python_version(),
        "hf_vanilla_transformer": version("hf-vanilla-transformer"),
    }
    return {
        "versions": own | {name: version(name) for name in PACKAGES},
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        "threads": torch.get_num_threads(),
    }
