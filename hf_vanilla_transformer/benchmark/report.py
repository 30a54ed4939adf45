"""What was measured: as numbers for JSON, and those as tables to read."""

import os
import platform
import statistics
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hf_vanilla_transformer.benchmark.contenders import CONTENDERS, PRECISIONS
from hf_vanilla_transformer.benchmark.measuring import (
    Case,
    Race,
    equal_share,
    median_ratio,
    percentiles,
    speeds,
)
from hf_vanilla_transformer.evaluation.report import describe_environment

YARDSTICK = "marian-fp32"
MIB = 2**20
CACHE_COLUMNS = ("cross formula", "cross measured", "self formula", "self measured", "growth")

Record = dict[str, object]


def describe_machine() -> Record:
    """Return processor, cores, threads and versions."""
    environment = describe_environment()
    try:
        engine = {"ctranslate2": version("ctranslate2")}
    except PackageNotFoundError:
        engine = {}
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "threads": environment.threads,
        "versions": environment.versions | engine,
    }


def _processor() -> str:
    """Return the name of the processor; Linux has it in a file, others where Python looks."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def baselines(name: str, present: Iterable[str]) -> list[str]:
    """Return whom a contender is compared with: Marian in fp32, and for ours all of its precision.

    Args:
        name: The contender.
        present: Everyone who takes part.
    """
    wanted = {YARDSTICK}
    if _is_ours(name):
        wanted |= {f"{engine}-{name.split('-')[1]}" for engine in PRECISIONS}
    return [other for other in CONTENDERS if other in wanted and other in present and other != name]


def describe_case(race: Race, case: Case) -> Record | None:
    """Return the figures of a case, from its whole rounds; None if there is none."""
    rounds = race.whole_rounds(case)
    number = len(next(iter(rounds.values())))
    if not number:
        return None
    by_round = {name: speeds(case, runs) for name, runs in rounds.items()}
    reference, found = next(iter(race.contenders)), race.found[case]
    contenders = {}
    for name, runs in rounds.items():
        of_batch = {rank: 1000 * seconds for rank, seconds in percentiles(runs).items()}
        contenders[name] = {
            "tokens_per_second": statistics.median(by_round[name]),
            "ratios": {
                other: median_ratio(by_round[name], by_round[other])
                for other in baselines(name, rounds)
            },
            "batch_ms": of_batch,
            "token_ms": {rank: each / case.new_tokens for rank, each in of_batch.items()},
            "same_ids": equal_share(found[name], found[reference]),
        }
    return {**asdict(case), "rounds": number, "runs": number * case.runs, "contenders": contenders}


def as_text(report: Record) -> str:
    """Return the tables of a report."""
    parts = [_head(report)]
    parts += [_case_table(one) for one in report["cases"]]
    if report["lengths"]:
        parts.append(_length_table(report["lengths"]))
    if report["memory"]:
        parts.append(_memory_table(report["memory"]))
    parts += [f"{name} did not take part: {why}" for name, why in report["missing"].items()]
    return "\n\n".join(parts)


def _head(report: Record) -> str:
    machine = report["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    return (
        f"{report['model']}, {report['parameters'] / 1e6:.1f} million parameters\n"
        f"{machine['cpu']}, {machine['cores']} cores, threads used: {machine['threads']}\n"
        f"{versions}"
    )


def _case_table(case: Record) -> str:
    title = (
        f"batch {case['batch']}, beams {case['beams']}: {case['source_tokens']} source and "
        f"{case['new_tokens']} new tokens, rounds {case['rounds']}, runs {case['runs']}"
    )
    header = ["", "tokens/s", "x marian-fp32", "x marian", "x ctranslate2"]
    header += ["ms/batch p50", "p90", "p99", "ms/token p50", "p90", "p99", "same ids"]
    rows = [header]
    for name, figures in case["contenders"].items():
        ratios, precision = figures["ratios"], name.split("-")[1]
        same = (f"marian-{precision}", f"ctranslate2-{precision}") if _is_ours(name) else ("", "")
        rows.append(
            [
                name,
                f"{figures['tokens_per_second']:,.0f}",
                *(_ratio(ratios.get(other)) for other in (YARDSTICK, *same)),
                *(f"{each:,.1f}" for each in figures["batch_ms"].values()),
                *(f"{each:,.2f}" for each in figures["token_ms"].values()),
                f"{figures['same_ids']:.1%}",
            ]
        )
    return f"{title}\n{_aligned(rows)}"


def _is_ours(name: str) -> bool:
    return name.startswith("ours-")


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def _length_table(lengths: list[Record]) -> str:
    """Return milliseconds per token of every contender over target lengths."""
    first = lengths[0]
    rows = [["", *(f"{one['new_tokens']:,}" for one in lengths), "last / first"]]
    for name in first["contenders"]:
        each = [one["contenders"][name]["token_ms"]["p50"] for one in lengths]
        rows.append([name, *(f"{ms:.2f}" for ms in each), f"{each[-1] / each[0]:.2f}"])
    title = (
        f"ms/token by new tokens: batch {first['batch']}, beams {first['beams']}, "
        f"{first['source_tokens']} source tokens, rounds {first['rounds']}"
    )
    return f"{title}\n{_aligned(rows)}"


def _memory_table(memory: Record) -> str:
    """Return the MiB of keys and values, and by how much a process grows."""
    rows = [["", *CACHE_COLUMNS]]
    for name, figures in memory["contenders"].items():
        cells = [figures.get(column) for column in CACHE_COLUMNS]
        rows.append([name, *map(_mib, cells)])
    title = (
        f"memory in MiB: batch {memory['batch']}, beams {memory['beams']}, "
        f"{memory['source_tokens']} source and {memory['new_tokens']} new tokens"
    )
    return f"{title}\n{_aligned(rows)}"


def _mib(size: int | None) -> str:
    return "-" if size is None else f"{size / MIB:,.1f}"


def _aligned(rows: list[list[str]]) -> str:
    """Return rows as lines: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
