"""The options of the training loop, with the check and the help text of each."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hf_vanilla_transformer.presets import FINE_TUNING, Preset
from hf_vanilla_transformer.training.options import option, spelt
from hf_vanilla_transformer.training.schedule import Shape
from hf_vanilla_transformer.training.state import RunState

MOST_PARTS = 1024


WARMUP_SHARE = 0.1


LIMITS = ("max_steps", "epochs", "max_minutes")


POSITIVE = (
    *LIMITS,
    *("batch_tokens", "accumulate", "warmup_steps", "learning_rate"),
    *("save_every", "keep_checkpoints", "patience"),
)


RULES: dict[str, tuple[str, Callable[[float], bool]]] = {
    "accumulate": (f"at most {MOST_PARTS:,}", lambda value: value <= MOST_PARTS),
    "clip_norm": ("positive, or 0 to switch it off", lambda value: 0 <= value < math.inf),
    "spike_ratio": ("more than 1 and finite", lambda value: 1 < value < math.inf),
    "valid_beams": ("positive, or 0 for the loss alone", lambda value: value >= 0),
    "warmup_share": ("above 0 and at most 1", lambda value: 0 < value <= 1),
    "seed": ("a whole number from 0 to 2^32 - 1", lambda value: 0 <= value < 2**32),
}


@dataclass(frozen=True, kw_only=True)
class LoopArguments:
    """Numbers of the training loop; whichever limit is met first ends it.

    Raises:
        ValueError: A number is out of range.
    """

    batch_tokens: int = option(
        4096,
        "Budget of a step, all processes together: at most this many source and this many "
        "target tokens, padding included. Left out: the preset's number.",
    )
    accumulate: int = option(
        1, "Parts into which each process splits its share of a step; more parts, less memory."
    )
    max_steps: int | None = option(
        None, "Stop after this many steps. With no end given, the preset sets one."
    )
    epochs: int | None = option(None, "Stop after this many epochs over the training pairs.")
    max_minutes: float | None = option(
        None, "Stop after this many minutes of training, validation not included."
    )
    patience: int | None = option(
        None, "Stop after this many validations in a row without a new best. Left out: never."
    )
    warmup_steps: int = option(
        4000,
        "Steps during which the learning rate rises. Left out: the preset's number. With "
        "fewer, the paper's rate has a higher peak: set --learning-rate too.",
    )
    warmup_share: float = option(
        1.0,
        "Longest warm-up as a share of the run, measured by the nearest of its limits. Left "
        f"out: {WARMUP_SHARE}, or 1 (no such limit) with --warmup-steps.",
    )
    learning_rate: float | None = option(
        None,
        "Highest learning rate. Left out: the preset's number, or the paper's, (d_model * "
        "warmup_steps)^-0.5.",
    )
    schedule: Shape = option(
        "inverse-sqrt",
        "How the learning rate falls after the warm-up: with the inverse square root of the "
        "step, as in the paper, or in a straight line to 0 at the end of the run. Left out: the "
        "preset's schedule.",
    )
    clip_norm: float = option(1.0, "Largest norm of the gradient; 0 switches clipping off.")
    spike_ratio: float | None = option(
        None,
        "Stop if the loss exceeds N times the mean of the previous 100 steps, after the "
        "warm-up. Left out: only if the loss is not finite.",
    )
    precision: Literal["fp32", "bf16", "fp16"] | None = option(
        None,
        "Precision of matrix products; weights stay fp32, and fp16 needs a GPU. Left out: the "
        "setting of accelerate, or fp32.",
    )
    compile: bool = option(False, "Compile the model with torch.compile.")
    gradient_checkpointing: bool = option(
        False, "Compute activations again in the backward pass: less memory, more time."
    )
    pack: bool = option(
        False, "Pack several pairs into one row of a batch; attention stays within each pair."
    )
    save_every: int = option(1000, "Validate and save a checkpoint every N steps.")
    keep_checkpoints: int = option(
        5,
        "Last checkpoints to keep; their average becomes the model (the paper: 5 for base, 20 for "
        "big). The best one is kept as well.",
    )
    best_by: Literal["loss", "bleu"] | None = option(
        None,
        "Validation score that chooses the best checkpoint. Left out: bleu, or the loss where "
        "nothing is translated.",
    )
    valid_beams: int = option(
        1,
        "Beams with which the validation pairs are translated for BLEU; 0: measure the loss alone.",
    )
    seed: int = option(1, "Seed of weights, dropout and batch order.")

    def __post_init__(self) -> None:
        for name in POSITIVE:
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                rule = "finite" if value == math.inf else "positive"
                raise ValueError(f"{name}={value} must be {rule}")
        for name, (rule, is_kept) in RULES.items():
            if getattr(self, name) is not None and not is_kept(getattr(self, name)):
                raise ValueError(f"{name}={getattr(self, name)} must be {rule}")
        if self.best_by == "bleu" and not self.valid_beams:
            raise ValueError("best_by=bleu needs translations: set valid_beams to at least 1")
        if all(getattr(self, name) is None for name in LIMITS):
            raise ValueError(f"training needs an end: set {', '.join(map(spelt, LIMITS))}")

    @property
    def judged_by(self) -> str:
        """Return "loss" or "bleu"; with few pairs BLEU still rises when the loss stops falling."""
        return self.best_by or ("bleu" if self.valid_beams else "loss")

    def share_done(self, state: RunState) -> float:
        """Return how much of a run is over, from 0 to 1, by the nearest of its limits."""
        shares = (
            state.steps / (self.max_steps or math.inf),
            state.passes / (self.epochs or math.inf),
            state.seconds / (60 * (self.max_minutes or math.inf)),
        )
        return min(1.0, max(shares))

    def limit_reached(self, state: RunState) -> str | None:
        """Return the name of a limit that the run has reached, if any."""
        limits = {
            "max_steps": state.steps >= (self.max_steps or math.inf),
            "epochs": state.epoch >= (self.epochs or math.inf),
            "max_minutes": state.seconds >= 60 * (self.max_minutes or math.inf),
            "patience": state.validations_since_best(self.judged_by) >= (self.patience or math.inf),
        }
        return next((name for name, is_reached in limits.items() if is_reached), None)

    @classmethod
    def with_preset(cls, preset: Preset | None, options: dict[str, object]) -> "LoopArguments":
        """Fill options that are None with the preset's numbers, or those of fine-tuning.

        Other options keep their defaults.
        """
        given = {name: value for name, value in options.items() if value is not None}
        numbers: dict[str, object] = dict(FINE_TUNING)
        if preset is not None:
            numbers = dict(preset.training)
        if given.keys() & set(LIMITS):
            numbers = {name: number for name, number in numbers.items() if name not in LIMITS}
        if "warmup_steps" not in given:
            numbers["warmup_share"] = WARMUP_SHARE
        return cls(**numbers | given)
