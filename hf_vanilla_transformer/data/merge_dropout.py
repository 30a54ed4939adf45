"""Merge the symbols of words by BPE, leaving out merges at random (Provilkov et al. 2020, §3).

All words of a block traverse one graph, whose nodes are created on demand: a few array operations
split thousands of words.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np
from tokenizers import Tokenizer

Word = tuple[int, ...]
Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Merges: pairs of ids, with the rank of the merge (0 is first) and the resulting id."""

MOST_SYMBOLS = 5_000_000
FIRST_NODES = 1024


def merges_of(backend: Tokenizer) -> Merges:
    """Return the merges of a BPE tokenizer."""
    model = json.loads(backend.to_str())["model"]
    ids, prefix = model["vocab"], model["continuing_subword_prefix"] or ""
    return {
        (ids[left], ids[right]): (rank, ids[left + right.removeprefix(prefix)])
        for rank, (left, right) in enumerate(model["merges"])
    }


class MergeDropout:
    """Split words at random.

    At each round, every possible merge of a word is left out with the same probability, and the
    first remaining merge by rank is applied, until none remains.

    Args:
        merges: Result of `merges_of`.
        probability: Probability to leave out a merge, from 0 to 1.
    """

    def __init__(self, merges: Merges, probability: float) -> None:
        self._merges, self._probability = merges, probability
        self._parts = {merged: pair for pair, (_, merged) in merges.items() if merged not in pair}
        self._forget()

    def sample(self, words: Sequence[Word], generator: np.random.Generator) -> list[Word]:
        """Return random splits of words, given as ids of their full BPE split."""
        if self._symbols > MOST_SYMBOLS:
            self._forget()
        for word in set(words) - self._starts.keys():
            self._starts[word] = self._node(self._spell(word), 0)
        nodes = np.array([self._starts[word] for word in words], dtype=np.int64)
        walking = np.flatnonzero(self._is_open[nodes])
        while len(walking):
            left_out = generator.random(len(walking)) < self._probability
            nodes[walking] = self._follow(nodes[walking], left_out.astype(np.int64))
            walking = walking[self._is_open[nodes[walking]]]
        return [self._words[node] for node in nodes.tolist()]

    def _forget(self) -> None:
        """Start with an empty graph.

        A node is a partly merged word and the number of merges just left out. A node is open if
        another merge is possible; it then has two successors, created on demand: [0] with the
        merge applied, [1] with it left out.
        """
        self._starts: dict[Word, int] = {}
        self._numbers: dict[tuple[Word, int], int] = {}
        self._words: list[Word] = []
        self._skipped: list[int] = []
        self._places: dict[Word, list[int]] = {}
        self._symbols = 0
        self._is_open = np.zeros(FIRST_NODES, dtype=bool)
        self._after = np.full((FIRST_NODES, 2), -1, dtype=np.int64)

    def _spell(self, word: Word) -> Word:
        """Return the smallest symbols of a word."""
        symbols, rest = [], list(reversed(word))
        while rest:
            symbol = rest.pop()
            if symbol in self._parts:
                rest += reversed(self._parts[symbol])
            else:
                symbols.append(symbol)
        return tuple(symbols)

    def _node(self, word: Word, skipped: int) -> int:
        """Return the number of a node; create it if it is missing."""
        number = self._numbers.get((word, skipped))
        if number is not None:
            return number
        if word not in self._places:
            self._places[word] = self._places_of_merges(word)
            self._symbols += len(word)
        number = self._numbers[word, skipped] = len(self._words)
        self._words.append(word)
        self._skipped.append(skipped)
        if number == len(self._is_open):
            self._is_open = np.concatenate([self._is_open, np.zeros(number, dtype=bool)])
            self._after = np.concatenate([self._after, np.full((number, 2), -1, dtype=np.int64)])
        self._is_open[number] = skipped < len(self._places[word])
        return number

    def _places_of_merges(self, word: Word) -> list[int]:
        """Return the possible merges of a word, by rank."""
        found = [
            (self._merges[pair][0], place)
            for place, pair in enumerate(zip(word, word[1:], strict=False))
            if pair in self._merges
        ]
        return [place for _, place in sorted(found)]

    def _follow(self, nodes: np.ndarray, choices: np.ndarray) -> np.ndarray:
        """Return the successors of nodes."""
        found = self._after[nodes, choices]
        unknown = np.flatnonzero(found < 0)
        if len(unknown):
            wanted = np.unique(2 * nodes[unknown] + choices[unknown])
            for node, choice in zip((wanted // 2).tolist(), (wanted % 2).tolist(), strict=True):
                following = self._following(node, choice)
                self._after[node, choice] = following  # `_following` may have replaced the array
            found = self._after[nodes, choices]
        return found

    def _following(self, node: int, choice: int) -> int:
        word, skipped = self._words[node], self._skipped[node]
        if choice:
            return self._node(word, skipped + 1)
        place = self._places[word][skipped]
        _, merged = self._merges[word[place], word[place + 1]]
        return self._node((*word[:place], merged, *word[place + 2 :]), 0)
