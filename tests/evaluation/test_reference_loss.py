"""Evaluation on several processes, and after a break."""

import json
import os
import random
import signal
import subprocess
import sys

import pytest
import torch
from sacrebleu.metrics import BLEU
from tiny import build_model
from training.command_processes import start

from hf_vanilla_transformer.data.collate import collate_pairs
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer
from hf_vanilla_transformer.translation import translate
from hf_vanilla_transformer.translation.journal import PATTERN, Journal

COUNT = 1003
DIE_AFTER = 5


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model that has begun to learn copying, and a test set with every kind of line."""
    folder = tmp_path_factory.mktemp("evaluation")
    draw = random.Random(0)
    lines = [" ".join(draw.choices("abcdefgh", k=draw.randint(1, 9))) for _ in range(COUNT)]
    lines[10] = lines[500] = ""
    tokenizer = train_tokenizer(lines, vocab_size=290, max_length=64)
    model = build_model(vocab_size=len(tokenizer), source_language="de", target_language="en")
    model.generation_config.extra_decode_length = 3
    learn_copying(model, tokenizer, lines)
    for part in (model, tokenizer):
        part.save_pretrained(folder / "model")
    for name in ("source", "reference"):
        (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return folder


def learn_copying(model, tokenizer, lines):
    """Make the translations unlike each other, and some of them right."""
    ids = tokenizer([line for line in lines if line]).input_ids
    optimizer = torch.optim.Adam(model.train().parameters(), lr=3e-3)
    for step in range(40):
        rows = ids[step * 20 : (step + 1) * 20]
        model(**collate_pairs(rows, rows, tokenizer.pad_token_id)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def evaluate(files, folder, output, *, status=0, beams=2, **where):
    """Run the command on some processes; return what they printed, process by process."""
    source, reference = (str(files / name) for name in ("source", "reference"))
    words = ["evaluate", files / "model", "--source", source, "--reference", reference]
    options = ["--output", folder / output, "--beams", beams, "--batch-tokens", 400]
    started = start([*words, *options], folder, **where)
    assert set(started.wait()) == {status}, started.text
    return [log.read_text("utf-8") for log in started.logs]


def results(folder):
    """Return the bytes of the translations, and the report without its figures of the run."""
    report = json.loads((folder / "report.json").read_text("utf-8"))
    report.pop("environment")
    return (folder / "translations.txt").read_bytes(), report


def note_batches():
    """Print how many sentences each process translates."""
    original = translate.Sentences.translate

    def noted(self, batch):
        print(f"translated {len(batch)}", flush=True)  # noqa: T201
        return original(self, batch)

    translate.Sentences.translate = noted


def die_in_the_middle():
    """Be killed after some batches, and leave half a line in the notes, as a full disk might."""
    add = Journal.add
    notes = []

    def killed(self, translations):
        add(self, translations)
        notes.append(translations)
        if len(notes) == DIE_AFTER:
            with self._file.open("a") as stream:
                stream.write('{"task": "cut off')
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.add = killed


def be_interrupted():
    """Meet Ctrl-C at the second batch."""
    original = translate.Sentences.translate
    batches = []

    def interrupted(self, batch):
        batches.append(batch)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return original(self, batch)

    translate.Sentences.translate = interrupted


def translated(log):
    return [int(line.split()[1]) for line in log.splitlines() if line.startswith("translated")]


@pytest.fixture(scope="module")
def one_process(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    (log,) = evaluate(files, folder, "out", before=note_batches)
    return results(folder / "out"), log


def test_two_processes_share_the_sentences_and_write_the_same_bytes(files, one_process, tmp_path):
    (translations, report), log = one_process
    assert sum(translated(log)) == COUNT - 2
    assert translations.count(b"\n") == COUNT
    assert 1 < report["bleu"] < 99
    logs = evaluate(files, tmp_path, "out", processes=2, before=note_batches)
    assert results(tmp_path / "out") == (translations, report)
    shares = [translated(text) for text in logs]
    assert sorted(shares[0] + shares[1]) == sorted(translated(log))
    assert min(map(sum, shares)) > COUNT / 3
    assert "BLEU" in logs[0]
    assert "BLEU" not in logs[1]


@pytest.mark.slow
def test_a_launcher_ends_in_the_same_bytes(files, one_process, tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    words = ["evaluate", files / "model", "--source", files / "source", "--beams", "2"]
    words += ["--reference", files / "reference", "--output", tmp_path, "--batch-tokens", "400"]
    command = [*torchrun, "-m", "hf_vanilla_transformer.cli", *map(str, words)]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    (translations, report), _ = one_process
    assert (tmp_path / "translations.txt").read_bytes() == translations
    assert results(tmp_path)[1]["bleu"] == report["bleu"]
    assert done.stdout.count("BLEU") == 1


def test_the_scores_are_of_the_translations_that_are_written(files, one_process):
    (translations, report), log = one_process
    hypotheses = translations.decode().split("\n")[:-1]
    references = (files / "reference").read_text("utf-8").split("\n")[:-1]
    bleu = BLEU()
    assert report["bleu"] == round(bleu.corpus_score(hypotheses, [references]).score, 2)
    assert report["bleu_signature"] == str(bleu.get_signature())
    assert f"BLEU {report['bleu']:.2f}  {report['bleu_signature']}\n" in log


@pytest.mark.parametrize("processes", [1, 2])
def test_after_a_kill_the_same_command_goes_on(files, one_process, tmp_path, processes):
    evaluate(files, tmp_path, "out", status=-signal.SIGKILL, before=die_in_the_middle)
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {PATTERN.replace("*", "0"), ".lock"}
    logs = evaluate(files, tmp_path, "out", processes=processes, before=note_batches)
    assert results(tmp_path / "out") == one_process[0]
    redone = sum(len(translated(text)) for text in logs)
    assert redone == len(translated(one_process[1])) - DIE_AFTER
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"report.json", "translations.txt"}


def test_an_interrupt_says_what_is_kept_and_another_task_does_not_take_it(files, tmp_path):
    (log,) = evaluate(files, tmp_path, "out", status=130, before=be_interrupted)
    assert log.endswith(
        f"interrupted; {tmp_path}/out keeps the finished translations; the same command continues\n"
    )
    (log,) = evaluate(files, tmp_path, "out", beams=1, before=note_batches)
    assert sum(translated(log)) == COUNT - 2
