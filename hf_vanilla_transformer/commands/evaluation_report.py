"""What `vanilla-transformer evaluate` writes into its report."""

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass

from transformers import GenerationConfig

from hf_vanilla_transformer.commands.options import search_settings
from hf_vanilla_transformer.line_output import in_one_line
from hf_vanilla_transformer.scoring import Measurement
from hf_vanilla_transformer.training.run import describe_environment

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
