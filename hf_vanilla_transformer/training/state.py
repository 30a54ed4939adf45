"""State of a run: saved with every checkpoint, and part of the report."""

from dataclasses import asdict, dataclass, field

from hf_vanilla_transformer.evaluation.metrics import perplexity


@dataclass(frozen=True)
class Validation:
    """Scores on the validation pairs after a step.

    Attributes:
        step: Number of the step.
        loss: Negative log-likelihood per target token, without label smoothing.
        bleu: BLEU of their translations, from 0 to 100; None if they were not translated.
        seconds: Training time until then, without validations and saving.
    """

    step: int
    loss: float
    bleu: float | None = None
    seconds: float | None = None

    @property
    def perplexity(self) -> float:
        """Return e to the loss."""
        return perplexity(self.loss)

    def is_better(self, other: "Validation", best_by: str) -> bool:
        """Tell whether "loss" or "bleu" is better than another's."""
        return self.rank(best_by) > other.rank(best_by)

    def rank(self, best_by: str) -> tuple[float, ...]:
        """Return what is greater the better the score is; of equal BLEU, the loss decides."""
        return (self.bleu, -self.loss) if best_by == "bleu" else (-self.loss,)

    @property
    def scores(self) -> str:
        """Return the scores as text."""
        bleu = "" if self.bleu is None else f", BLEU {self.bleu:.2f}"
        return f"validation loss {self.loss:.4f}, perplexity {self.perplexity:.3f}{bleu}"

    def __str__(self) -> str:
        """Return step and scores as text."""
        return f"step {self.step}: {self.scores}"


@dataclass
class RunState:
    """How far a run has come."""

    steps: int = 0
    epoch: int = 0
    """Epoch that the next step belongs to, from 0."""
    batch: int = 0
    """Steps of that epoch that are done."""
    passes: float = 0.0
    """Epochs that are done, with the fraction of the current one."""
    seconds: float = 0.0
    """Time of training, the same for all processes."""
    tokens: int = 0
    """Source and target tokens trained on, of all processes."""
    stopped_by: str = ""
    """What ended it: "epochs", "max_steps", "max_minutes", "patience" or "interrupt"."""
    validations: list[Validation] = field(default_factory=list)

    @property
    def epochs(self) -> int:
        """Return how many epochs were begun."""
        return self.epoch + (self.batch > 0)

    def best(self, best_by: str) -> Validation | None:
        """Return the first of the best validations by "loss" or "bleu", None without any."""
        measured = [one for one in self.validations if one.bleu is not None or best_by == "loss"]
        return max(measured, key=lambda one: one.rank(best_by), default=None)

    def validations_since_best(self, best_by: str) -> int:
        """Return how many validations came after the best one."""
        best = self.best(best_by)
        return sum(best is not None and one.step > best.step for one in self.validations)

    def as_json(self) -> dict[str, object]:
        """Return what `from_json` takes."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, object]) -> "RunState":
        """Return the state that was saved."""
        validations = [Validation(**one) for one in content["validations"]]
        return cls(**content | {"validations": validations})
