"""The options of a training run, with the check and the help text of each."""

import difflib
import inspect
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hf_vanilla_transformer.data.cleaning import Cleaning
from hf_vanilla_transformer.data.epochs import PassOptions
from hf_vanilla_transformer.model.configuration_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.presets import FINE_TUNING, PRESETS
from hf_vanilla_transformer.training.options import option, required, spelt

MOST_ENTRIES = 10_000_000
"""Upper limit of `--vocab-size`."""


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
        metavar="CODE",
    )
    target_lang: str | None = option(
        None,
        "Language code of the target; it also chooses the tokenisation of BLEU.",
        metavar="CODE",
    )
    preset: str | None = option(
        None,
        "Architecture and training numbers: tiny suits small corpora, the others are the rows of "
        f"the paper's table 3. One of: {', '.join(PRESETS)}. Left out: tiny, small or base, by the "
        "number of pairs.",
        metavar="NAME",
    )
    architecture: list[str] | None = option(
        None,
        "Fields of the model's configuration in place of the preset's: d_ff=512 dropout=0.2 "
        "norm_position=post ...",
        metavar="NAME=VALUE",
    )
    from_model: str | None = option(
        None,
        "Fine-tune this model with its tokenizer, a saved folder or a name on the Hub, with a "
        "fresh optimiser. In place of a preset's numbers, unless given: "
        + ", ".join(f"{spelt(name)} {value}" for name, value in FINE_TUNING.items())
        + ".",
        metavar="MODEL",
        aliases=("--from",),
    )
    tokenizer: str | None = option(
        None, "Use this tokenizer.json, or the one in this folder; train none.", metavar="PATH"
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
        metavar="NAME",
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
        "Weight of each training corpus in an epoch: 3 repeats each pair three times, 0.5 takes "
        "a random half, drawn anew each epoch. Left out: 1 for each.",
        metavar="N",
    )
    bpe_dropout: float = option(
        0.0, "Share of BPE merges left out at random, anew each epoch; 0 switches it off."
    )

    def __post_init__(self) -> None:
        self.cleaning()  # refuses what is out of range
        self.passes(seed=0)
        if self.max_ratio == math.inf:
            raise ValueError("max_ratio=inf must be finite; 0 switches the rule off")

    def cleaning(self) -> Cleaning:
        """Return the cleaning rules, without the length limit of the model."""
        return Cleaning(
            max_length=self.max_length,
            max_ratio=self.max_ratio,
            drop_identical=self.drop_identical,
            drop_duplicates=self.drop_duplicates,
        )

    def passes(self, seed: int) -> PassOptions:
        """Return how epochs are composed, for a seed."""
        return PassOptions(seed=seed, weights=self.weights, bpe_dropout=self.bpe_dropout)


# Others follow from the tokenizer, or have an option of their own.
FIELDS = (
    *("d_model", "d_ff", "num_heads", "d_k", "d_v", "encoder_layers", "decoder_layers"),
    *("dropout", "attention_dropout", "activation_dropout", "activation_function"),
    *("norm_position", "position_type", "max_position_embeddings"),
    *("attention_bias", "scale_embedding", "tie_word_embeddings", "output_bias"),
)


_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(VanillaTransformerConfig.__init__).parameters.items()
}


_TRUTH = {"true": True, "false": False}


def read_architecture(words: Sequence[str]) -> dict[str, object]:
    """Return fields of the configuration; the configuration itself checks their range.

    Args:
        words: `NAME=VALUE` each.

    Raises:
        ValueError: A word is not `NAME=VALUE`, its name is not in `FIELDS` or is repeated, or its
            value has the wrong type.
    """
    fields: dict[str, object] = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {near[0]}" if near else f"give NAME=VALUE of {', '.join(FIELDS)}"
            raise ValueError(f"architecture {word!r} is no field of the model; {hint}")
        if name in fields:
            raise ValueError(f"architecture {name} is given twice; leave one out")
        fields[name] = _value(name, text)
    return fields


def _value(name: str, text: str) -> object:
    default = _DEFAULTS[name]
    kind = int if default is None else type(default)
    try:
        return _TRUTH[text] if kind is bool else kind(text)
    except (ValueError, KeyError):
        expected = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
        raise ValueError(f"architecture {name}={text} is not {expected}") from None
