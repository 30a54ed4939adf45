"""What a training run can be told, with the check and the help text of every option."""

from dataclasses import dataclass, field
from typing import TypeVar

from hf_vanilla_transformer.presets import Preset

T = TypeVar("T")

LIMITS = ("max_steps", "epochs", "max_minutes")
POSITIVE = (
    *LIMITS,
    *("batch_tokens", "accumulate", "warmup_steps", "learning_rate"),
    *("save_every", "keep_checkpoints", "max_length"),
)


def _option(default: T, help_text: str) -> T:
    """Declare a field with the help text that the command line shows."""
    return field(default=default, metadata={"help": help_text})


@dataclass(frozen=True, kw_only=True)
class RunArguments:
    """Where a run reads and writes, and which model it trains."""

    train: list[str] = field(
        metadata={
            "help": "Training pairs: .tsv or .jsonl files, or a source and a target text file; "
            "each may be gzipped."
        }
    )
    valid: list[str] = field(metadata={"help": "Validation pairs, in the formats of --train."})
    output: str = field(metadata={"help": "New folder for model/, checkpoints/ and report.json."})
    source_lang: str | None = _option(
        None, "Language code of the source (zh, de, ...), saved in the model's configuration."
    )
    target_lang: str | None = _option(
        None, "Language code of the target; it also chooses the tokenisation that BLEU needs."
    )
    preset: str = _option(
        "base",
        "Architecture and training numbers: tiny (for small corpora), base, big, or another row "
        "of the paper's table 3.",
    )
    vocab_size: int | None = _option(
        None, "Entries of the shared vocabulary; left out: the preset's."
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
        "included. The command line takes the preset's if it is left out.",
    )
    accumulate: int = _option(1, "Batches per update and process.")
    max_steps: int | None = _option(
        None, "Stop after this many updates. The command line takes the preset's if no end is set."
    )
    epochs: int | None = _option(None, "Stop after this many passes over the training pairs.")
    max_minutes: float | None = _option(None, "Stop after this many minutes of training.")
    warmup_steps: int = _option(
        4000,
        "Updates during which the learning rate rises. The command line takes the preset's if it "
        "is left out.",
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
