"""A small model that learned to reverse letters: `c a f` becomes `f a c`."""

from dataclasses import dataclass

import torch

LETTERS = "abcdefghij"
FIRST_ID, PAD, EOS, LONGEST = 4, 0, 3, 8
STEPS, WARMUP, BATCH = 250, 40, 48


@dataclass(frozen=True)
class ReversingModel:
    """The trained model and the way between text and ids.

    Attributes:
        model: In evaluation mode; copy it before changing it.
        dev: 50 distinct sources that it was not trained on.
    """

    model: torch.nn.Module
    dev: list[str]

    def encode(self, sources, *, width=0, side="right"):
        """Turn texts into ids and mask, padded to the longest or to `width`, on a side."""
        rows = [[*letter_ids(source), EOS] for source in sources]
        width = max(width, *map(len, rows))
        padding = [[PAD] * (width - len(row)) for row in rows]
        padded = [
            p + row if side == "left" else row + p for row, p in zip(rows, padding, strict=True)
        ]
        ids = torch.tensor(padded)
        return {"input_ids": ids, "attention_mask": ids.ne(PAD).long()}

    def decode(self, sequences):
        """Turn generated ids into texts."""
        return [
            " ".join(LETTERS[i - FIRST_ID] for i in row if i >= FIRST_ID)
            for row in sequences.tolist()
        ]

    def translate(self, sources, **generation):
        return self.decode(self.model.generate(**self.encode(sources), **generation))


def letter_ids(source):
    return [FIRST_ID + LETTERS.index(letter) for letter in source.split()]


def reverse(source):
    return " ".join(reversed(source.split()))


def draw_source(generator):
    length = int(torch.randint(1, LONGEST + 1, (), generator=generator))
    indices = torch.randint(0, len(LETTERS), (length,), generator=generator).tolist()
    return " ".join(LETTERS[i] for i in indices)


def pair_batch(sources):
    """Return ids and labels [B, LONGEST + 1] of sources and their reversal."""
    ids = torch.full((len(sources), LONGEST + 1), PAD)
    labels = torch.full_like(ids, -100)
    for i, source in enumerate(sources):
        letters = letter_ids(source)
        ids[i, : len(letters) + 1] = torch.tensor([*letters, EOS])
        labels[i, : len(letters) + 1] = torch.tensor([*reversed(letters), EOS])
    return {"input_ids": ids, "labels": labels}


def train_reversing_model(model):
    """Train on fresh pairs and return the model with what it did not see."""
    generator = torch.Generator().manual_seed(0)
    dev = list(dict.fromkeys(draw_source(generator) for _ in range(200)))
    dev = [source for source in dev if len(source.split()) > 2][:50]
    optimizer = torch.optim.Adam(model.train().parameters(), lr=5e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP, (STEPS - step) / (STEPS - WARMUP))
    )
    for _ in range(STEPS):
        drawn = [draw_source(generator) for _ in range(BATCH)]
        model(**pair_batch([source for source in drawn if source not in dev])).loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return ReversingModel(model.eval(), dev)
