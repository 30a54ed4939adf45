"""`vanilla-transformer benchmark`: how fast this machine decodes, beside other engines."""

import argparse
import os
import re
import sys
from functools import partial
from pathlib import Path

from hf_vanilla_transformer.benchmark.comparison import Plan, compare
from hf_vanilla_transformer.benchmark.contenders import CONTENDERS, Model, load_model, random_model
from hf_vanilla_transformer.benchmark.measuring import Case
from hf_vanilla_transformer.benchmark.memory import MEMORY_CASE
from hf_vanilla_transformer.benchmark.plot import draw_report
from hf_vanilla_transformer.benchmark.report import as_text
from hf_vanilla_transformer.commands.options import Commands, whole_number
from hf_vanilla_transformer.presets import PRESETS
from hf_vanilla_transformer.storage.files import write_json
from hf_vanilla_transformer.training.cpu import fixed_threads

CASES = ["1x1", "1x4", "32x1", "32x4"]
LENGTHS = [16, 32, 64, 128, 256, 512, 1024]
LENGTH_SEARCH = (1, 4)  # batch and beams: copies of a cache would show
PRESET, VOCAB_SIZE = "base", 32_000


def add_benchmark(commands: Commands) -> None:
    """Add the command."""
    command = commands.add_parser(
        "benchmark",
        help="measure how fast this machine decodes",
        description="Let our model, HF Marian and CTranslate2 (where installed) decode the same "
        "random sentences by turns, on the CPU and with the same weights, and compare them.",
    )
    command.add_argument(
        "model", nargs="?", metavar="MODEL", help="model folder, or its name on the Hub"
    )
    command.add_argument(
        "--preset",
        choices=PRESETS,
        help=f"size of a model of random weights, without MODEL; left out: {PRESET}",
    )
    command.add_argument(
        "--vocab-size",
        type=whole_number,
        metavar="N",
        help=f"its entries; left out: the preset's own, or {VOCAB_SIZE}",
    )
    _add_work(command)
    command.add_argument(
        "--contenders",
        nargs="+",
        choices=CONTENDERS,
        metavar="NAME",
        help=f"contenders: {', '.join(CONTENDERS)}; left out: all that are available",
    )
    command.add_argument(
        "--rounds", type=whole_number, default=9, metavar="N", help="turns of each"
    )
    command.add_argument(
        "--threads", type=whole_number, default=1, metavar="N", help="CPU threads of each contender"
    )
    command.add_argument("--json", metavar="F", help="file to write the figures to")
    command.add_argument("--plot", metavar="F.png", help="picture of them to write")
    command.set_defaults(run=run_benchmark)


def _add_work(command: argparse.ArgumentParser) -> None:
    """Add what is decoded."""
    command.add_argument(
        "--cases",
        nargs="+",
        type=_batch_and_beams,
        metavar="BxN",
        help=f"sentences in a batch x beams; left out: {' '.join(CASES)}",
    )
    command.add_argument(
        "--source-tokens", type=whole_number, default=25, metavar="N", help="of every sentence"
    )
    command.add_argument(
        "--new-tokens", type=whole_number, default=25, metavar="N", help="of every translation"
    )
    command.add_argument(
        "--lengths",
        nargs="*",
        type=whole_number,
        metavar="N",
        help="measure the cost of a token over numbers of new tokens too; without numbers: "
        f"{' '.join(map(str, LENGTHS))}",
    )
    command.add_argument(
        "--memory",
        action="store_true",
        help=f"measure memory at batch {MEMORY_CASE.batch}, beams {MEMORY_CASE.beams}, "
        f"{MEMORY_CASE.source_tokens} source tokens too",
    )


def _batch_and_beams(text: str) -> tuple[int, int]:
    """Read a case such as 32x4."""
    if not re.fullmatch(r"[1-9][0-9]{0,5}x[1-9][0-9]{0,5}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text} is no case; give sentences x beams, as 32x4")
    batch, beams = map(int, text.split("x"))
    return batch, beams


def run_benchmark(options: argparse.Namespace) -> str:
    """Run the command; return the tables to print.

    Raises:
        KeyboardInterrupt: Says how far it came; what was measured is printed and written.
    """
    _check_options(options)
    with fixed_threads(options.threads):
        report = compare(_plan(options))
    if options.json:
        write_json(options.json, report)
    if options.plot and (report["cases"] or report["lengths"]):
        draw_report(report, options.plot)
    if report["interrupted"]:
        sys.stdout.write(f"{as_text(report)}\n\n")
        raise KeyboardInterrupt(f"interrupted after {report['rounds']} of {options.rounds} rounds")
    return as_text(report)


def _check_options(options: argparse.Namespace) -> None:
    """Refuse, before anything is measured, what cannot be done."""
    for name in ("preset", "vocab_size"):
        if options.model and (value := getattr(options, name)):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} {value} is for random weights; leave it out, or MODEL")
    cores = os.cpu_count() or 1
    if options.threads > cores:
        raise ValueError(f"--threads {options.threads}: this machine has {cores} cores")
    for file in (options.json, options.plot):
        if file and (Path(file).is_dir() or not Path(file).absolute().parent.is_dir()):
            raise ValueError(f"{file} cannot be written: it is a folder, or its folder is missing")


def _plan(options: argparse.Namespace) -> Plan:
    tokens = options.source_tokens, options.new_tokens
    lengths = [] if options.lengths is None else sorted(options.lengths or LENGTHS)
    preset = options.preset or PRESET
    return Plan(
        title=options.model or f"{preset} of random weights",
        load=_model_loader(options.model, preset, vocab_size=options.vocab_size),
        cases=[Case(*case, *tokens) for case in options.cases or map(_batch_and_beams, CASES)],
        lengths=[Case(*LENGTH_SEARCH, options.source_tokens, length) for length in lengths],
        memory=MEMORY_CASE if options.memory else None,
        names=options.contenders,
        rounds=options.rounds,
        threads=options.threads,
    )


def _model_loader(name: str | None, preset: str, *, vocab_size: int | None) -> partial[Model]:
    """Return what makes model and tokenizer, in another process too."""
    if name:
        return partial(load_model, name)
    size = vocab_size or PRESETS[preset].architecture.get("vocab_size", VOCAB_SIZE)
    # Where norms stand costs no time, and Marian knows one place only.
    return partial(random_model, PRESETS[preset].config(vocab_size=size, norm_position="post"))
