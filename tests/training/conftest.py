"""A small corpus of reversed letters and a tiny model to start from, for whole runs."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import command_processes
import pytest
from safetensors.torch import load_file
from tiny import build_model
from transformers import AutoTokenizer

from hf_vanilla_transformer.data.batching import epoch_batches
from hf_vanilla_transformer.data.corpus import read_pairs
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer


@dataclass(frozen=True)
class Runs:
    """Starts runs on the reversing corpus.

    Attributes:
        files: Folder with `train.tsv`, `valid.tsv` and `start`, a model.
        folder: Folder of one test, for outputs.
    """

    files: Path
    folder: Path

    def words(self, output, **options):
        """Return the command line of a run; an option that is True is a flag, a list several."""
        defaults = {
            "train": self.files / "train.tsv",
            "valid": self.files / "valid.tsv",
            "from": self.files / "start",
            "output": self.folder / output,
            "batch_tokens": 30,
            "max_steps": 20,
            "warmup_steps": 5,
            "learning_rate": 1e-3,
            "save_every": 10,
            "keep_checkpoints": 2,
            "valid_beams": 0,
        }
        words = ["train"]
        for name, value in (defaults | options).items():
            if value is not None:
                given = value if isinstance(value, list) else [] if value is True else [value]
                words += [f"--{name.replace('_', '-')}", *map(str, given)]
        return words

    def start(self, output, *, processes=1, before=None, **options):
        words = self.words(output, **options)
        return command_processes.start(words, self.folder, processes=processes, before=before)

    def run(self, output, *, status=0, **options):
        """Run to the end; return what was printed."""
        started = self.start(output, **options)
        codes = started.wait()
        assert set(codes) == {status}, started.text
        return started.text

    def updates_of_a_pass(self, batch_tokens):
        pairs = read_pairs(self.files / "train.tsv")
        tokenizer = AutoTokenizer.from_pretrained(self.files / "start")
        lengths = encode_pairs(pairs, tokenizer, max_length=64, name="training").lengths
        return len(epoch_batches(lengths, batch_tokens=batch_tokens, seed=1, epoch=0))

    def report(self, output):
        return json.loads((self.folder / output / "report.json").read_text("utf-8"))

    def steps(self, output):
        folders = (self.folder / output / "checkpoints").glob("step-*")
        return sorted(int(folder.name.removeprefix("step-")) for folder in folders)

    def weights(self, output, step):
        return load_file(
            self.folder / output / "checkpoints" / f"step-{step:08d}" / "model.safetensors"
        )


@pytest.fixture(scope="session")
def _reversing_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reversing")
    choose = random.Random(0)
    rows = []
    for _ in range(80):
        letters = choose.choices("abcdefghij", k=choose.randint(1, 8))
        rows.append("\t".join([" ".join(letters), " ".join(reversed(letters))]))
    for name, part in (("train", rows[:70]), ("valid", rows[70:])):
        (folder / f"{name}.tsv").write_text("\n".join(part) + "\n", "utf-8")
    tokenizer = train_tokenizer(rows, vocab_size=290, max_length=64)
    sizes = {"d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1}
    for name, dropout in (("start", 0.1), ("plain", 0.0)):
        model = build_model(
            vocab_size=len(tokenizer), dropout=dropout, label_smoothing=0.1, **sizes
        )
        for part in (model, tokenizer):
            part.save_pretrained(folder / name)
    return folder


@pytest.fixture
def runs(_reversing_files, tmp_path):
    """Return what starts runs in a folder of this test."""
    return Runs(_reversing_files, tmp_path)
