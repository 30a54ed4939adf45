"""What is trained where options say nothing: a model and a vocabulary that suit the corpus."""

import dataclasses
import logging
import math
import unicodedata
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import yaml

from hf_vanilla_transformer.data.corpus import Corpus
from hf_vanilla_transformer.data.lines import ignore
from hf_vanilla_transformer.presets import PRESETS
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.checkpoints import list_checkpoints
from hf_vanilla_transformer.training.corpora import open_training_corpora
from hf_vanilla_transformer.training.fit import CHECKPOINTS
from hf_vanilla_transformer.training.loop_arguments import LIMITS
from hf_vanilla_transformer.training.options import spelt
from hf_vanilla_transformer.training.run_folder import OPTIONS
from hf_vanilla_transformer.training.setup import plan_corpora

logger = logging.getLogger(__name__)

# The first preset whose number is above that of the pairs.
PRESET_BELOW = (("tiny", 100_000), ("small", 1_000_000), ("base", math.inf))
MOST_COUNTED = 1_000_000
MANY_CHINESE = 300
LARGEST_VOCABULARY = 37_000  # of the paper, for 4.5 million pairs (§5.1)
BYTES_AND_ROLES = 260
KINDS = {"preset": str, "vocab_size": int, "epochs": int}
PAIRS_SEEN, MOST_EPOCHS = 320_000, 1000  # a few thousand steps, however small the corpus is
WHY = {
    "preset": "few pairs teach a small model more than a large one",
    "vocab_size": "grows with the root of the number of pairs",
    "epochs": "more epochs for fewer pairs",
}


class Amount(NamedTuple):
    """How much there is to learn from.

    Attributes:
        pairs: Number of pairs, counted up to `MOST_COUNTED`.
        characters: Number of different characters in them.
        chinese: Number of those that are Chinese.
    """

    pairs: int
    characters: int
    chinese: int = 0


def choose_by_amount(
    run: RunArguments, data: DataArguments, *, loop: dict[str, object]
) -> tuple[RunArguments, dict[str, object]]:
    """Set preset, vocabulary size and epochs where they are left out, and log the reason.

    With few pairs a small model with a small vocabulary scores better than a large one: it
    overfits less, and every entry of the vocabulary is more frequent (Sennrich and Zhang 2019;
    Araabi and Monz 2020; docs/experiments.md).

    Args:
        run: Options of the run.
        data: Options of its data.
        loop: Options of the training loop by name, None where they are left out.

    Returns:
        Options of the run and of the loop.

    Raises:
        FileNotFoundError: A corpus is missing.
        ValueError: A corpus cannot be read.
    """
    wanted = _unset(run, loop)
    if run.from_model or not wanted:
        return run, loop
    chosen = _chosen_before(Path(run.output), wanted) if run.resume else {}
    if not chosen:
        amount = count(open_training_corpora(plan_corpora(run, data))[0])
        suitable = _suitable(amount, run.preset or preset_for(amount))
        chosen = {name: suitable[name] for name in wanted if suitable[name]}
        if amount.pairs:  # the tokenizer's error says it of an empty corpus
            _tell_choice(amount, chosen, loop=loop)
        if "vocab_size" in chosen and amount.chinese >= MANY_CHINESE and not run.isolate_han:
            logger.info(
                "%s of the characters are Chinese: --isolate-han makes each a token of its own, "
                "which suits small corpora",
                f"{amount.chinese:,}",
            )
    of_loop = {name: chosen.pop(name) for name in ("epochs",) if name in chosen}
    return dataclasses.replace(run, **chosen), loop | of_loop


def _suitable(amount: Amount, preset: str) -> dict[str, object]:
    """Return preset, vocabulary size and epochs for a corpus; no epochs if the preset has none."""
    usual = PRESETS[preset].training.get("epochs")
    return {
        "preset": preset,
        "vocab_size": vocabulary_for(amount),
        "epochs": usual and epochs_for(amount, usual),
    }


def _unset(run: RunArguments, loop: dict[str, object]) -> list[str]:
    """Return the names of what is to choose."""
    is_wanted = {
        "preset": run.preset is None,
        "vocab_size": run.vocab_size is None and run.tokenizer is None,
        "epochs": all(loop.get(limit) is None for limit in LIMITS),
    }
    return [name for name, left_out in is_wanted.items() if left_out]


def _chosen_before(output: Path, wanted: Sequence[str]) -> dict[str, object]:
    """Return what a run had that is to be resumed: its corpus may have grown since.

    Raises:
        ValueError: Its options cannot be read.
    """
    file = output / OPTIONS
    if not (list_checkpoints(output / CHECKPOINTS) and file.is_file()):
        return {}
    try:
        before = yaml.safe_load(file.read_text("utf-8"))
        found = {name: before.get(name.replace("_", "-")) for name in wanted}
        is_sound = all(isinstance(value, KINDS[name] | None) for name, value in found.items())
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError):
        is_sound = False
    if not is_sound:
        options = ", ".join(map(spelt, wanted))
        raise ValueError(f"{file} is damaged; say what the run had: {options}")
    return {name: value for name, value in found.items() if value is not None}


def count(corpora: Sequence[Corpus]) -> Amount:
    """Read up to `MOST_COUNTED` pairs and say how much is in them."""
    rows = (texts for corpus in corpora for _, *texts in corpus.rows(ignore))
    pairs, characters = 0, set()
    for texts in islice(rows, MOST_COUNTED):
        pairs += 1
        characters.update(*texts)
    return Amount(pairs, len(characters), sum(map(_is_chinese, characters)))


def _is_chinese(character: str) -> bool:
    return unicodedata.name(character, "").startswith("CJK UNIFIED")


def preset_for(amount: Amount) -> str:
    """Return the name of the preset that suits the number of pairs."""
    return next(name for name, limit in PRESET_BELOW if amount.pairs < limit)


def vocabulary_for(amount: Amount) -> int:
    """Return how many entries a vocabulary should have.

    Every character and byte has an entry; merges grow with the square root of the pairs: 1,000 for
    1,000 of them, 5,400 for 29,000. Where not all pairs are counted, it is the paper's size.
    """
    if amount.pairs == MOST_COUNTED:
        return LARGEST_VOCABULARY
    merges = 1000 * math.sqrt(amount.pairs / 1000)
    entries = BYTES_AND_ROLES + amount.characters + merges
    return min(math.ceil(entries / 100) * 100, LARGEST_VOCABULARY)


def epochs_for(amount: Amount, usual: int) -> int:
    """Return the number of epochs, larger for very few pairs."""
    enough = math.ceil(PAIRS_SEEN / max(amount.pairs, 1))
    return max(usual, min(enough, MOST_EPOCHS))


def _tell_choice(amount: Amount, chosen: dict[str, object], *, loop: dict[str, object]) -> None:
    """Say what was chosen, why, and how to choose something else."""
    more = " or more" if amount.pairs == MOST_COUNTED else ""
    options = [f"{spelt(name)} {value} ({WHY[name]})" for name, value in chosen.items()]
    logger.info(
        "%s%s pairs, %s different characters; taken unless you set it: %s",
        f"{amount.pairs:,}", more, f"{amount.characters:,}", ", ".join(options),
    )  # fmt: skip
    if "preset" in chosen:
        numbers = ", ".join(
            f"{spelt(name)} {value}"
            for name, value in PRESETS[chosen["preset"]].training.items()
            if name not in LIMITS and loop.get(name) is None
        )
        logger.info("preset %s trains with, unless you set it: %s", chosen["preset"], numbers)
