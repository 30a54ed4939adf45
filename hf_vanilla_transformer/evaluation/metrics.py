"""Table of all metrics, and figures as text."""

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A metric: its key in reports, and how its scores are printed.

    Attributes:
        key: Its name in `report.json` and in the Hub's metadata.
        name: Its name in the output of `evaluate`.
        decimals: Decimals in output, reports and cards.
        more_is_better: Whether a higher score is better.
        title: Its name on the card; left out: `name`.
        of_references: Whether it is computed from the model's probabilities of the references;
            others compare translations with references.
    """

    key: str
    name: str
    decimals: int
    more_is_better: bool
    title: str = ""
    of_references: bool = False

    def rounded(self, value: float) -> float:
        """Return a score with the decimals of this metric."""
        return round(value, self.decimals)

    def printed(self, value: float) -> str:
        """Return a score as text that a program can read."""
        return f"{value:.{self.decimals}f}"


# One line a metric; `Scorer` computes those of translations, `reference_loss` the others.
METRICS = {
    metric.key: metric
    for metric in (
        Metric("bleu", "BLEU", 2, more_is_better=True),
        Metric("chrf", "chrF", 2, more_is_better=True),
        Metric("ter", "TER", 2, more_is_better=False),
        Metric("loss", "loss", 4, False, "loss of the references per token", of_references=True),
        Metric(
            "perplexity", "perplexity", 2, False, "perplexity of the references", of_references=True
        ),
    )
}


def names_in_words(metrics: Iterable[Metric]) -> str:
    """Return the names of metrics as a list within a sentence."""
    *names, last = [metric.name for metric in metrics]
    return f"{', '.join(names)} and {last}" if names else last


def shown_score(metric: str, value: object) -> object:
    """Return a score with the decimals of its metric; unchanged if the metric is unknown."""
    if metric in METRICS and isinstance(value, int | float):
        return f"{value:,.{METRICS[metric].decimals}f}"
    return value


def shown_count(number: float) -> str:
    """Return a number that is mostly whole, with two decimals at most."""
    whole, _, decimals = f"{number:,.2f}".partition(".")
    decimals = decimals.rstrip("0")
    return f"{whole}.{decimals}" if decimals else whole


def shown_time(seconds: float) -> str:
    """Return a duration in its two largest units of hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if minutes else f"{rest} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours:,} h {minutes} min"


def perplexity(loss: float) -> float:
    """Return e to a loss in nats per token, at most e^700, which is still a float."""
    return math.exp(min(loss, 700.0))
