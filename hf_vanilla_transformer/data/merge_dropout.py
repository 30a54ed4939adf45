"""Merge the symbols of words by BPE, each merge left out at random (Provilkov et al. 2020, §3).

The words of a block walk together through one graph, whose nodes are made when they are first
reached: a few array operations split thousands of words.
"""

import json
from collections.abc import Mapping, Sequence

import numpy as np
from tokenizers import Tokenizer

Word = tuple[int, ...]
Merges = Mapping[tuple[int, int], tuple[int, int]]
"""Pairs of ids that are merged, with the rank of the merge (0 comes first) and the id it gives."""

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
    """Split words at random, as the numbers of a generator say.

    Of the merges that a word allows, each is left out with the same probability, the first of the
    others in the order of the BPE is made, and so on until none is left over.

    Args:
        merges: What `merges_of` returned.
        probability: How likely a merge is left out, from 0 to 1.
    """

    def __init__(self, merges: Merges, probability: float) -> None:
        self._merges, self._probability = merges, probability
        self._parts = {merged: pair for pair, (_, merged) in merges.items() if merged not in pair}
        self._forget()

    def sample(self, words: Sequence[Word], generator: np.random.Generator) -> list[Word]:
        """Return the ids of words that are given as the BPE splits them."""
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
        """Begin with an empty graph.

        A node is a word, partly merged, and how many of its merges were just left out. A node is
        open where another merge follows; then two nodes come after it, once these are made: [0]
        where the merge is made, [1] where it is left out.
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
        """Return the number of a node, made if there is none."""
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
        """Return where a word can be merged, the first merge of the BPE first."""
        found = [
            (self._merges[pair][0], place)
            for place, pair in enumerate(zip(word, word[1:], strict=False))
            if pair in self._merges
        ]
        return [place for _, place in sorted(found)]

    def _follow(self, nodes: np.ndarray, choices: np.ndarray) -> np.ndarray:
        """Return the nodes that come after some."""
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
