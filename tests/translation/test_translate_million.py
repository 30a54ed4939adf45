"""`translate` on a file of 1,000,000 lines: memory, order, and a kill in the middle."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny import build_model

from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

LINES = 1_000_000
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("million")
    draw = random.Random(0)
    lines = ["".join(draw.choices("abcdefgh", k=draw.randint(0, 6))) for _ in range(LINES)]
    (folder / "in").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    tokenizer = train_tokenizer(lines[:2000], vocab_size=280, max_length=64)
    sizes = {"d_model": 16, "d_ff": 16, "num_heads": 1, "encoder_layers": 1, "decoder_layers": 1}
    model = build_model(vocab_size=len(tokenizer), **sizes)
    model.generation_config.extra_decode_length = 0
    for part in (model, tokenizer):
        part.save_pretrained(folder / "model")
    return folder


def start(files, output, *options):
    words = ["translate", files / "model", files / "in", "--output", files / output]
    words += ["--batch-tokens", "32768", *options]
    command = [sys.executable, "-m", "hf_vanilla_transformer.cli", *map(str, words)]
    return subprocess.Popen(command)


def watch(process, partial, *, until_bytes=None):
    """Return resident bytes as the output grows; kill the process where it has grown enough."""
    seen = []
    while process.poll() is None:
        time.sleep(0.2)
        size = partial.stat().st_size if partial.exists() else 0
        if size:
            status = Path(f"/proc/{process.pid}/statm").read_text().split()
            seen.append((size, int(status[1]) * 4096 if len(status) > 1 else 0))
        if until_bytes and size > until_bytes:
            process.send_signal(signal.SIGKILL)
            process.wait()
    return seen


@pytest.mark.slow
def test_a_million_lines_take_flat_memory_and_survive_a_kill(files):
    process = start(files, "whole")
    seen = watch(process, files / "whole.partial")
    assert process.returncode == 0
    whole = (files / "whole").read_bytes()
    assert whole.count(b"\n") == LINES
    sources = (files / "in").read_bytes().split(b"\n")
    outputs = whole.split(b"\n")
    assert all(bool(a) or not b for a, b in zip(sources, outputs, strict=True)), "order is lost"
    early = max(memory for size, memory in seen if size < len(whole) / 10)
    growth = max(memory for _, memory in seen) - early
    print(f"\n{early / MEGABYTE:.0f} MB, later {growth / MEGABYTE:.0f} MB more")  # noqa: T201
    assert growth < 200 * MEGABYTE

    process = start(files, "killed")
    watch(process, files / "killed.partial", until_bytes=len(whole) / 2)
    assert process.returncode == -signal.SIGKILL
    assert not (files / "killed").exists()
    process = start(files, "killed", "--resume")
    seen = watch(process, files / "killed.partial")
    assert process.returncode == 0
    assert min(size for size, _ in seen) > len(whole) / 3, "it did not begin anew"
    assert (files / "killed").read_bytes() == whole
