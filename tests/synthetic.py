"""Corpora of made-up words, as large as a test wants."""

import random

WORDS = [f"{first}{second}" for first in "bdfgklmn" for second in ("a", "e", "io", "u", "ai")]


def write_corpus(path, count):
    """Write pairs of 10 to 30 words, the target in reverse, and return the path."""
    draw = random.Random(0)
    with path.open("w") as file:
        for _ in range(count):
            words = draw.choices(WORDS, k=draw.randint(10, 30))
            file.write(f"{' '.join(words)}\t{' '.join(reversed(words))}\n")
    return path
