"""Whether a report holds, where the card reads it, what can stand there."""

import reprlib
from collections.abc import Iterator

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
