"""What a training run can be told, with the check and the help text of every option."""

from dataclasses import dataclass, field
from typing import TypeVar

from hf_vanilla_transformer.presets import PRESETS, Preset

T = TypeVar("T")

LIMITS = ("max_steps", "epochs", "max_minutes")
POSITIVE = (
    *LIMITS,
    *("batch_tokens", "accumulate", "warmup_steps", "learning_rate"),
    *("save_every", "keep_checkpoints", "max_length"),
)


def _option(default: T, help_text: str, metavar: str | None = None) -> T:
    """Declare a field with what the command line's help shows."""
    return field(default=default, metadata={"help": help_text, "metavar": metavar})


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """Where a run reads and writes, and which model it trains."""

    train: list[str] = field(
        metadata={
            "help": "Training pairs: .tsv or .jsonl files, or a source and a target text file; "
            "each may be gzipped.",
            "metavar": "FILE",
        }
    )
    valid: list[str] = field(
        metadata={"help": "Validation pairs, in the formats of --train.", "metavar": "FILE"}
    )
    output: str = field(
        metadata={"help": "New folder for model/, checkpoints/ and report.json.", "metavar": "DIR"}
    )
    source_lang: str | None = _option(
        None,
        "Language code of the source (zh, de, ...), saved in the model's configuration.",
        "CODE",
    )
    target_lang: str | None = _option(
        None, "Language code of the target; it also chooses the tokenisation of BLEU.", "CODE"
    )
    preset: str = _option(
        "base",
        "Architecture and training numbers: tiny suits small corpora, the others are the rows of "
        f"the paper's table 3. One of: {', '.join(PRESETS)}.",
        "NAME",
    )
    vocab_size: int | None = _option(
        None, "Entries of the shared vocabulary. Left out: the preset's number."
    )
    isolate_han: bool = _option(
        False, "Make every Chinese character a token of its own; helps small Chinese corpora."
    )


@dataclass(frozen=True, kw_only=True)
class LoopArguments:
    """Numbers of the training loop; whichever limit is met first ends it.

    Raises:
        ValueError: A number is out of range.
    """

    batch_tokens: int = _option(
        4096,
        "Budget of a batch: at most this many source and this many target tokens, padding "
        "included. Left out: the preset's number.",
    )
    accumulate: int = _option(1, "Batches per update and process.")
    max_steps: int | None = _option(
        None, "Stop after this many updates. With no end given: the preset's number."
    )
    epochs: int | None = _option(None, "Stop after this many passes over the training pairs.")
    max_minutes: float | None = _option(None, "Stop after this many minutes of training.")
    warmup_steps: int = _option(
        4000,
        "Updates during which the learning rate rises. Left out: the preset's number.",
    )
    learning_rate: float | None = _option(
        None,
        "Highest learning rate; it falls with the inverse square root of the update. Left out: "
        "the paper's, (d_model * warmup_steps)^-0.5.",
    )
    clip_norm: float = _option(1.0, "Largest norm of the gradient; 0 switches clipping off.")
    save_every: int = _option(1000, "Validate and save a checkpoint every so many updates.")
    keep_checkpoints: int = _option(
        5, "Checkpoints to keep; their average becomes the model (the paper: 5 for base)."
    )
    max_length: int = _option(
        256, "Longest side of a pair in tokens; longer pairs are left out and counted."
    )
    seed: int = _option(1, "Seed of weights, dropout and batch order.")

    def __post_init__(self) -> None:
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value} must be positive")
        if not self.clip_norm >= 0:
            raise ValueError(f"clip_norm={self.clip_norm} must be positive, or 0 to switch it off")
        if not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed} is not a whole number from 0 to 2^32 - 1")
        if all(getattr(self, name) is None for name in LIMITS):
            raise ValueError(f"training needs an end: set one of {', '.join(LIMITS)}")

    @classmethod
    def with_preset(cls, preset: Preset, options: dict[str, object]) -> "LoopArguments":
        """Fill the options that are None with the preset's numbers, then with the defaults."""
        given = {name: value for name, value in options.items() if value is not None}
        numbers = {"batch_tokens": preset.batch_tokens, "warmup_steps": preset.warmup_steps}
        if not given.keys() & set(LIMITS):
            numbers["max_steps"] = preset.train_steps
        return cls(**numbers | given)
