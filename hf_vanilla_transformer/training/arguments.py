"""What a training run can be told, with the check and the help text of every option."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hf_vanilla_transformer.data.cleaning import Cleaning
from hf_vanilla_transformer.data.training_data import PassOptions
from hf_vanilla_transformer.presets import PRESETS, Preset
from hf_vanilla_transformer.training.options import option, required, spelt
from hf_vanilla_transformer.training.schedule import Shape

MOST_ENTRIES, MOST_PARTS = 10_000_000, 1024
WARMUP_SHARE = 0.1
"""What a warm-up that nobody asked for may take of a run."""
LIMITS = ("max_steps", "epochs", "max_minutes")
FINE_TUNING = {"batch_tokens": 4096, "warmup_steps": 100, "learning_rate": 2e-4, "epochs": 3}
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
class RunArguments:
    """Where a run reads and writes, and which model it trains.

    Raises:
        ValueError: Options contradict each other.
    """

    train: list[str] = required(
        "Training pairs: .tsv, .csv, .jsonl or .parquet files, a source and a target text file, "
        "each perhaps gzipped; or a dataset, as a folder, NAME:SPLIT or NAME:CONFIG:SPLIT.",
        "CORPUS",
    )
    valid: list[str] = required("Validation pairs, in the formats of --train.", "CORPUS")
    output: str = required(
        "Folder for model/, checkpoints/ and report.json, new except with --resume.", "DIR"
    )
    source_lang: str | None = option(
        None,
        "Language code of the source (zh, de, ...), saved in the model's configuration.",
        "CODE",
    )
    target_lang: str | None = option(
        None, "Language code of the target; it also chooses the tokenisation of BLEU.", "CODE"
    )
    preset: str | None = option(
        None,
        "Architecture and training numbers: tiny suits small corpora, the others are the rows of "
        f"the paper's table 3. One of: {', '.join(PRESETS)}. Left out: tiny, small or base, by the "
        "number of pairs.",
        "NAME",
    )
    architecture: list[str] | None = option(
        None,
        "Fields of the model's configuration in place of the preset's: d_ff=512 dropout=0.2 "
        "norm_position=post ...",
        "NAME=VALUE",
    )
    from_model: str | None = option(
        None,
        "Fine-tune this model with its tokenizer, a saved folder or a name on the Hub, with a "
        "fresh optimiser. In place of a preset's numbers, unless given: "
        + ", ".join(f"{spelt(name)} {value}" for name, value in FINE_TUNING.items())
        + ".",
        "MODEL",
        aliases=("--from",),
    )
    tokenizer: str | None = option(
        None, "Use this tokenizer.json, or the one in this folder, and train none.", "PATH"
    )
    vocab_size: int | None = option(
        None,
        "Entries of the vocabulary, of each if there are two. Left out: by the number of pairs.",
    )
    separate_vocabularies: bool = option(
        False, "Train a vocabulary and embeddings for each side, in place of shared ones."
    )
    isolate_han: bool = option(
        False, "Make every Chinese character a token of its own; helps small Chinese corpora."
    )
    beams: int | None = option(
        None, "Width of the beam search that the model is saved with. Left out: the paper's 4."
    )
    alpha: float | None = option(
        None,
        "Length penalty ((5+n)/6)^N that the model is saved with, larger favours longer "
        "translations. Left out: the paper's 0.6.",
    )
    label_smoothing: float | None = option(
        None, "Label smoothing of the training loss. Left out: the preset's or the model's."
    )
    track: list[str] | None = option(
        None,
        "Trackers of accelerate to send figures to (tensorboard, wandb, ...), or none. Left out: "
        "tensorboard if it is installed.",
        "NAME",
    )
    dry_run: bool = option(
        False, "Print the training pairs that cleaning would leave out, and why; write nothing."
    )
    resume: bool = option(
        False, "Go on with the run in --output from its last checkpoint, if it has one."
    )

    def __post_init__(self) -> None:
        if self.label_smoothing is not None and not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing={self.label_smoothing} must be from 0 to below 1")
        if self.beams is not None and self.beams < 1:
            raise ValueError(f"beams={self.beams} must be at least 1")
        if self.alpha is not None and not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha={self.alpha} must be finite and at least 0")
        if self.vocab_size is not None and not 1 <= self.vocab_size <= MOST_ENTRIES:
            raise ValueError(f"vocab_size={self.vocab_size} must be from 1 to {MOST_ENTRIES:,}")
        for name, why in (
            ("from_model", "the model brings its own"),
            ("tokenizer", "it comes with the tokenizer"),
        ):
            contradictions = [
                other for other in CONTRADICTIONS[name] if getattr(self, other) not in (None, False)
            ]
            if getattr(self, name) is not None and contradictions:
                raise ValueError(
                    f"{spelt(name)} does not go with {spelt(contradictions[0])}: {why}; "
                    "leave one of them out"
                )


TRAINED = ("vocab_size", "separate_vocabularies", "isolate_han")
CONTRADICTIONS = {
    "from_model": ("preset", "architecture", "tokenizer", *TRAINED),
    "tokenizer": TRAINED,
}


@dataclass(frozen=True, kw_only=True)
class DataArguments:
    """Which training pairs are used, and how.

    Raises:
        ValueError: A number is out of range.
    """

    max_length: int = option(
        256, "Longest side of a pair in tokens; longer pairs are left out and counted."
    )
    max_ratio: float = option(
        0.0,
        "Leave out training pairs one side of which has over so many times the tokens of the "
        "other; 0 switches the rule off.",
    )
    drop_identical: bool = option(False, "Leave out training pairs with identical sides.")
    drop_duplicates: bool = option(False, "Leave out training pairs that were met before.")
    weights: list[float] | None = option(
        None,
        "How often each training corpus comes in a pass: 3 is each pair three times, 0.5 a random "
        "half, another one each pass. Left out: 1 for each.",
        "N",
    )
    bpe_dropout: float = option(
        0.0, "Share of BPE merges left out at random, anew each pass; 0 switches it off."
    )

    def __post_init__(self) -> None:
        self.cleaning(self.max_length)  # refuses what is out of range
        self.passes(seed=0)
        if self.max_ratio == math.inf:
            raise ValueError("max_ratio=inf must be finite; 0 switches the rule off")

    def cleaning(self, limit: int) -> Cleaning:
        """Return the rules, for a model that takes at most `limit` tokens a side."""
        return Cleaning(
            max_length=min(self.max_length, limit),
            max_ratio=self.max_ratio,
            drop_identical=self.drop_identical,
            drop_duplicates=self.drop_duplicates,
        )

    def passes(self, seed: int) -> PassOptions:
        """Return how the passes of a run with some seed are put together."""
        return PassOptions(seed=seed, weights=self.weights, bpe_dropout=self.bpe_dropout)


@dataclass(frozen=True, kw_only=True)
class LoopArguments:
    """Numbers of the training loop; whichever limit is met first ends it.

    Raises:
        ValueError: A number is out of range.
    """

    batch_tokens: int = option(
        4096,
        "Budget of an update, all processes together: at most this many source and this many "
        "target tokens, padding included. Left out: the preset's number.",
    )
    accumulate: int = option(
        1, "Parts in which each process takes its share of an update; more parts, less memory."
    )
    max_steps: int | None = option(
        None, "Stop after this many updates. With no end given, the preset sets one."
    )
    epochs: int | None = option(None, "Stop after this many passes over the training pairs.")
    max_minutes: float | None = option(
        None, "Stop after this many minutes of updates; validation comes on top."
    )
    patience: int | None = option(
        None, "Stop after this many validations in a row without a new best. Left out: never."
    )
    warmup_steps: int = option(
        4000,
        "Updates during which the learning rate rises. Left out: the preset's number. Fewer let "
        "the paper's rate rise higher: set --learning-rate too.",
    )
    warmup_share: float = option(
        1.0,
        "Share of the run after which the learning rate rises no more, by the nearest of its "
        f"limits. Left out: {WARMUP_SHARE}, or 1 (no such end) with --warmup-steps.",
    )
    learning_rate: float | None = option(
        None,
        "Highest learning rate. Left out: the preset's number, or the paper's, (d_model * "
        "warmup_steps)^-0.5.",
    )
    schedule: Shape = option(
        "inverse-sqrt",
        "How the learning rate falls after the warm-up: with the inverse square root of the "
        "update, as in the paper, or in a straight line to 0 at the end of the run. Left out: as "
        "the preset has it.",
    )
    clip_norm: float = option(1.0, "Largest norm of the gradient; 0 switches clipping off.")
    spike_ratio: float | None = option(
        None,
        "Stop if the loss is over so many times the mean of the 100 updates before it, after the "
        "warm-up. Left out: only if it is no finite number.",
    )
    precision: Literal["fp32", "bf16", "fp16"] | None = option(
        None,
        "Precision of matrix products; weights stay fp32, and fp16 needs a GPU. Left out: what "
        "accelerate was configured with, or fp32.",
    )
    compile: bool = option(False, "Compile the model with torch.compile.")
    gradient_checkpointing: bool = option(
        False, "Compute activations again in the backward pass: less memory, more time."
    )
    pack: bool = option(False, "Put several pairs in a row of a batch, apart from each other.")
    save_every: int = option(1000, "Validate and save a checkpoint every so many updates.")
    keep_checkpoints: int = option(
        5,
        "Last checkpoints to keep; their average becomes the model (the paper: 5 for base, 20 for "
        "big). The best one is kept as well.",
    )
    best_by: Literal["loss", "bleu"] | None = option(
        None,
        "Which validation score tells the best checkpoint. Left out: bleu, or the loss where "
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
        """Return "loss" or "bleu"; of few pairs BLEU learns on when the loss no longer falls."""
        return self.best_by or ("bleu" if self.valid_beams else "loss")

    @classmethod
    def with_preset(cls, preset: Preset | None, options: dict[str, object]) -> "LoopArguments":
        """Fill options that are None with the preset's numbers, or those of fine-tuning.

        What neither has keeps its default.
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
