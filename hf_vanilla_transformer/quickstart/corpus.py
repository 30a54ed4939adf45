"""Generate the Chinese-English corpus that the package carries for its demonstration.

All sentences are made here, from the word lists and patterns of the neighbouring files: nothing
is downloaded. Whole combinations of words are held out for testing, never a word.
"""

import re
from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from hf_vanilla_transformer.data.corpus import Pair
from hf_vanilla_transformer.quickstart.everyday import KINDS
from hf_vanilla_transformer.quickstart.pronouns import SCENES, pronoun_groups

SHOWCASE = (
    Pair(
        "小猫没追上汽车，因为它跑得太快了",
        "The kitten did not catch the car because the car was too fast.",
    ),
    Pair(
        "小猫没追上汽车，因为它太累了",
        "The kitten did not catch the car because the kitten was too tired.",
    ),
)
_FIRST_WORDS = Pair("我爱猫", "I love cats.")

_TRAIN_PER_KIND = 550
_TEST_PER_KIND = 20
_TRAIN_PER_SCENE = 400
_TEST_GROUPS_PER_SCENE = 3


class DemoCorpus(NamedTuple):
    """Hold the three parts of the demo corpus.

    Attributes:
        train: About 8,500 pairs, 我爱猫 the last of them.
        test: About 490 pairs. Every word of it occurs in `train`; none of its sentences does,
            with or without the final punctuation.
        pronoun_test: The pairs of `test` whose 它 has to be understood, about 285. No actor, verb
            and thing of it occur together in `train`, whatever the reason.
    """

    train: list[Pair]
    test: list[Pair]
    pronoun_test: list[Pair]


def demo_corpus(seed: int = 0) -> DemoCorpus:
    """Return the demo corpus; equal seeds give equal corpora.

    Some sources end in 。 or ？ and some in nothing, as people type; every target ends in a period
    or a question mark. `SHOWCASE` is part of both test sets, in both forms.
    """
    rng = Random(seed)
    train, test = _everyday(rng)
    pronoun_train, pronoun_test = _pronouns(rng)
    train += pronoun_train
    rng.shuffle(train)
    return DemoCorpus(train + _both_forms([_FIRST_WORDS]), test + pronoun_test, pronoun_test)


def named_referent(sentence: str) -> str | None:
    """Return the noun after "because the", which says what 它 means, or None without one."""
    found = re.search(r"\bbecause the (\w+)", sentence, re.IGNORECASE)
    return found and found[1].lower()


def names_right_referent(hypothesis: str, reference: str) -> bool:
    """Tell whether both sentences name the same noun after "because the".

    Raises:
        ValueError: The reference names none.
    """
    expected = named_referent(reference)
    if expected is None:
        raise ValueError(f'the reference {reference!r} has no noun after "because the"')
    return named_referent(hypothesis) == expected


def _everyday(rng: Random) -> tuple[list[Pair], list[Pair]]:
    train, test = [], []
    for kind in KINDS:
        pairs = [pair for pair in kind() if pair != _FIRST_WORDS]
        rng.shuffle(pairs)
        test += _punctuate(pairs[:_TEST_PER_KIND], rng)
        train += _punctuate(pairs[_TEST_PER_KIND:][:_TRAIN_PER_KIND], rng)
    return train, test


def _pronouns(rng: Random) -> tuple[list[Pair], list[Pair]]:
    train, test = [], _both_forms(SHOWCASE)
    for scene in SCENES:
        groups = list(pronoun_groups(scene))
        rng.shuffle(groups)
        groups.sort(key=lambda group: SHOWCASE[0] not in group)
        held_out = [pair for group in groups[:_TEST_GROUPS_PER_SCENE] for pair in group]
        rest = [pair for group in groups[_TEST_GROUPS_PER_SCENE:] for pair in group]
        rng.shuffle(rest)
        test += _punctuate((pair for pair in held_out if pair not in SHOWCASE), rng)
        train += _punctuate(rest[:_TRAIN_PER_SCENE], rng)
    return train, test


def _punctuate(pairs: Iterable[Pair], rng: Random) -> list[Pair]:
    return [_end(pair) if rng.random() < 0.6 else pair for pair in pairs]


def _both_forms(pairs: Iterable[Pair]) -> list[Pair]:
    return [form for pair in pairs for form in (pair, _end(pair))]


def _end(pair: Pair) -> Pair:
    mark = "？" if pair.target.endswith("?") else "。"
    return Pair(pair.source + mark, pair.target)
