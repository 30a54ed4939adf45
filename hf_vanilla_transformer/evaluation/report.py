"""Content of the reports of evaluation and of training."""

import platform
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version

import torch

from hf_vanilla_transformer.evaluation.metrics import METRICS, shown_count, shown_score, shown_time
from hf_vanilla_transformer.evaluation.reference_loss import ReferenceLoss
from hf_vanilla_transformer.evaluation.scoring import Measurement
from hf_vanilla_transformer.translation.output import in_one_line

REPORT_FILE = "report.json"


@dataclass(frozen=True)
class Interval:
    """A confidence interval of 95 %, `mean` ± `margin`."""

    mean: float
    margin: float


@dataclass(frozen=True)
class Example:
    """A sentence with its translation, and its first reference if there is one."""

    source: str
    translation: str
    reference: str | None = None


@dataclass(frozen=True)
class Environment:
    """Environment of a computation: device, threads, and versions of packages."""

    versions: dict[str, str] = field(default_factory=dict)
    device: str = ""
    threads: int = 0


@dataclass(frozen=True)
class EvaluationTask:
    """Test set, model and settings of an evaluation.

    Attributes:
        sentences: Sentences of the test set.
        model: The model as the user named it.
        source: File or corpus of the test set.
        reference: Files of the references.
        source_language: Language code.
        target_language: Language code.
        search: Settings of beam search.
        dtype: Type of the weights in the computation.
        batch_tokens: Source tokens times beams of a batch.
        environment: Where it was computed.
        weights: SHA-256 of each file of weights.
    """

    sentences: int
    model: str | None
    source: str
    reference: list[str]
    source_language: str | None
    target_language: str | None
    search: dict[str, float]
    dtype: str | None
    batch_tokens: int
    environment: Environment
    weights: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationReport:
    """Scores of the translations of a test set.

    Attributes:
        task: Test set, model and settings.
        translations: One line for each sentence.
        measurements: Each metric of the translations.
        loss: Loss of the references under the model; None if all of them are blank.
        examples: Some sentences of the test set.
        baseline: File of the baseline that the translations were compared with.
    """

    task: EvaluationTask
    translations: list[str]
    measurements: list[Measurement]
    loss: ReferenceLoss | None
    examples: list[Example] = field(default_factory=list)
    baseline: str | None = None

    @property
    def scores(self) -> dict[str, float]:
        """Return all scores, rounded, by their keys in `METRICS`."""
        found = {one.key: one.score for one in self.measurements}
        found |= {} if self.loss is None else asdict(self.loss)
        return {key: METRICS[key].rounded(value) for key, value in found.items() if key in METRICS}

    def as_json(self) -> dict[str, object]:
        """Return the content of `report.json`."""
        examples = {"translations": [asdict(one) for one in self.examples]}
        return {
            **report_scores(self.measurements, self.baseline),
            **(asdict(self.loss) if self.loss else {}),
            **asdict(self.task),
            **(examples if self.examples else {}),
        }

    def __str__(self) -> str:
        """Return one line for each metric, and one for the loss of the references."""
        rows = [_row_of_metric(one) for one in self.measurements]
        if self.loss is not None:
            loss, perplexity = METRICS["loss"], METRICS["perplexity"]
            rows.append(
                f"{loss.name} {loss.printed(self.loss.loss)} per token, "
                f"{perplexity.name} {perplexity.printed(self.loss.perplexity)} "
                f"(references, {self.loss.tokens:,} tokens)"
            )
        return "\n".join(rows)


def _row_of_metric(found: Measurement) -> str:
    """Return the line of one metric."""
    metric = METRICS[found.key]
    cells = [f"{metric.name} {metric.printed(found.score)}"]
    if found.mean is not None:
        cells.append(f"({metric.printed(found.mean)} ± {metric.printed(found.margin)})")
    if found.baseline is not None:
        cells.append(f"baseline {metric.printed(found.baseline)}, p = {found.p_value:.4f}")
    return "  ".join([*cells, found.signature])


def report_scores(
    measurements: Sequence[Measurement], baseline: str | None
) -> dict[str, float | str | dict]:
    """Return scores for a report, with the decimals of their metrics."""
    report: dict[str, float | str | dict] = {}
    for found in measurements:
        name, rounded = found.key, METRICS[found.key].rounded
        report |= {name: rounded(found.score), f"{name}_signature": found.signature}
        if found.mean is not None:
            interval = Interval(rounded(found.mean), rounded(found.margin))
            report.setdefault("confidence", {})[name] = asdict(interval)
        if found.baseline is not None:
            test = {"score": rounded(found.baseline), "p_value": round(found.p_value, 4)}
            report.setdefault("baseline", {"file": baseline})[name] = test
    return report


def draw_examples(
    number: int,
    *,
    sources: Sequence[str],
    translations: Sequence[str],
    references: Sequence[str],
) -> list[Example]:
    """Return random sentences, always the same for one test set, in its order."""
    lines = range(len(translations))
    drawn = sorted(random.Random(0).sample(lines, min(number, len(lines))))
    return [
        Example(in_one_line(sources[line]), translations[line], in_one_line(references[line]))
        for line in drawn
    ]


def _shown_figure(label: str, shown: Callable[[float], object] = shown_count) -> float:
    """Return a field that the card shows under a label."""
    return field(default=0.0, metadata={"label": label, "shown": shown})


@dataclass(frozen=True)
class ValidationScores:
    """Scores on the validation pairs after a step."""

    step: int
    loss: float
    bleu: float | None = None


@dataclass(frozen=True)
class TrainingFigures:
    """Figures of a training on the card, in this order."""

    pairs: int = _shown_figure("training pairs")
    steps: int = _shown_figure("updates")
    passes: float = _shown_figure("passes over the data")
    tokens: int = _shown_figure("source and target tokens trained on")
    seconds: float = _shown_figure("time", shown_time)
    processes: int = _shown_figure("processes")
    validation_loss: float = _shown_figure(
        "validation loss per token", lambda value: shown_score("loss", value)
    )
    validation_perplexity: float = _shown_figure(
        "validation perplexity", lambda value: shown_score("perplexity", value)
    )
    validations: list[ValidationScores] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingOptions:
    """Options of a training on the card, in its command."""

    train: list[str] | None = None
    valid: list[str] | None = None
    output: str | None = None
    tokenizer: str | None = None
    max_length: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class TrainingReport:
    """The part of a training report that the card shows.

    Attributes:
        arguments: Options of the run.
        left_out: Number of pairs left out by each cleaning rule.
        training: Figures of the run.
        environment: Where it was computed.
        made_by: Command that made the model, if it had no options.
    """

    arguments: TrainingOptions
    left_out: dict[str, int]
    training: TrainingFigures
    environment: Environment
    made_by: str = ""


PACKAGES = ("torch", "transformers", "accelerate", "tokenizers", "sacrebleu")


def describe_environment() -> Environment:
    """Return versions, device and threads, for a report."""
    own = {
        "python": platform.python_version(),
        "hf_vanilla_transformer": version("hf-vanilla-transformer"),
    }
    return Environment(
        versions=own | {name: version(name) for name in PACKAGES},
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
        threads=torch.get_num_threads(),
    )
