"""Evaluate pairs in every way that a trainer may be given them, as each of several processes."""

import json
import sys
from pathlib import Path

import torch
from datasets import Dataset, IterableDataset
from reversing import reverse
from stock_trainer import build_trainer
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from hf_vanilla_transformer.trainer import TranslationTrainer

SOURCES = ["c a f", "b", "j i h g f e d c", "a a b", "d e", "f f f g", "h"]


class Stream(torch.utils.data.IterableDataset):
    """Rows without a length, an index or shards."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)


def shards_of(rows, shards):
    """Return a stream of so many shards."""
    return Dataset.from_list(rows).to_iterable_dataset(num_shards=shards)


def stream_with_an_empty_shard(rows):
    return IterableDataset.from_generator(
        lambda parts: (row for part in parts for row in part),
        gen_kwargs={"parts": [[], rows[:4], rows[4:]]},
    )


# Name: number of pairs, what makes data of their rows, and options of accelerate.
WAYS = {
    "default": (5, lambda rows: shards_of(rows, 1), {}),
    "own": (5, lambda rows: shards_of(rows, 1), {"dispatch_batches": False}),
    "shards": (7, lambda rows: shards_of(rows, 3), {"dispatch_batches": False}),
    "dispatched shards": (7, lambda rows: shards_of(rows, 2), {"dispatch_batches": True}),
    "empty shard": (6, stream_with_an_empty_shard, {"dispatch_batches": False}),
    "one pair": (1, Stream, {}),
    "full batches": (4, Stream, {"dispatch_batches": False}),
    "no labels": (5, lambda rows: Stream([{"input_ids": row["input_ids"]} for row in rows]), {}),
    "split": (5, Stream, {"split_batches": True}),
    "uneven": (5, list, {"even_batches": False}),
    "dispatched list": (5, list, {"dispatch_batches": True}),
}


def main():
    """Write what each way gives, of which all processes must give the same."""
    model = AutoModelForSeq2SeqLM.from_pretrained(sys.argv[1])
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    found = {}
    for way, (number, load, options) in WAYS.items():
        run = build_trainer(
            *(model, tokenizer, sys.argv[1]),
            **{"train": [], "kind": TranslationTrainer, "per_device_eval_batch_size": 2},
            **{"predict_with_generate": True, "accelerator_config": options},
        )
        pairs = [tokenizer(text, text_target=reverse(text)) for text in SOURCES[:number]]
        output = run.predict(load([dict(pair) for pair in pairs]))
        found[way] = {
            "predictions": [row[row > 0].tolist() for row in output.predictions],
            "labels": output.label_ids is None or [r[r > 0].tolist() for r in output.label_ids],
            "loss": output.metrics.get("test_loss"),
        }
    Path(sys.argv[2], f"{run.args.process_index}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
