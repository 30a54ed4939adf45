"""Translate with one checkpoint under every supported version of transformers.

The newest version makes a checkpoint. Each version loads it with this package on the path and, from
the folder alone, without; translates by `from_pretrained` and by pipeline; and saves it again for
the oldest and the newest to load from the folder alone. All must give the same token ids and
texts, or the exit status is 1.

    python scripts/version_matrix.py --work /tmp/matrix
    python scripts/version_matrix.py --work /tmp/matrix --env 5.24.0=env/bin/python 4.57.6 5.24.0
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

VERSIONS = ("4.57.6", "5.0.0", "5.14.1", "5.24.0")
ROOT = Path(__file__).resolve().parents[1]
WORKER = ROOT / "scripts" / "version_matrix_worker.py"
CONSTRAINTS = ROOT / "constraints.txt"
# How a user may come by the code: options of the worker, and the packages that it may run from.
# With both package and trust, versions differ in which code they take.
MODES = {
    "installed": ([], {"hf_vanilla_transformer"}),
    "installed, trusted": (["--trust"], {"hf_vanilla_transformer", "transformers_modules"}),
    "absent": (["--package", "absent", "--trust"], {"transformers_modules"}),
}
TIMEOUT_SECONDS = 900


@dataclass(frozen=True)
class Run:
    """A folder translated by a version in a mode, and saved again if `save_to` is given."""

    saved_by: str
    folder: Path
    version: str
    mode: str
    save_to: Path | None = None


def main() -> int:
    """Run the matrix, write a table, and return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="*", default=VERSIONS, metavar="VERSION")
    parser.add_argument("--work", type=Path, required=True, help="folder for environments")
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        type=lambda pair: pair.split("=", 1),
        metavar="VERSION=PYTHON",
        help="an interpreter that has this version already",
    )
    options = parser.parse_args()
    work = options.work.absolute()
    work.mkdir(parents=True, exist_ok=True)
    given = {version: os.path.abspath(python) for version, python in options.env}
    versions = sorted(options.versions, key=lambda version: [*map(int, version.split("."))])
    pythons = {version: given.get(version) or environment(version, work) for version in versions}
    with (
        tempfile.TemporaryDirectory(dir=work) as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        reference, results = run_matrix(Path(folder), versions, pythons, pool)
    sys.stdout.write(table(reference, results))
    return int(any(differences(reference, run, result) for run, result in results))


def environment(version: str, work: Path) -> str:
    """Return the interpreter of an environment that has this version, made if it is missing."""
    folder = work / f"env-{version}"
    python = str(folder / "bin" / "python")
    if not folder.exists():
        venv.create(folder, with_pip=True)
    torch = next(line for line in CONSTRAINTS.read_text().split() if line.startswith("torch="))
    command = [python, "-m", "pip", "install", "--quiet", torch, f"transformers=={version}"]
    subprocess.run(command, check=True)
    check_install(python, version)
    return python


def check_install(python: str, version: str) -> None:
    """Resolve the requirements of this package with a version of transformers; install nothing.

    Users pin a version by naming it. Otherwise pip chooses the newest datasets, whose Hub library
    transformers 4 does not support, and then the newest transformers.

    Raises:
        subprocess.CalledProcessError: pip finds no compatible versions.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    command = [python, "-m", "pip", "install", "--quiet", "--dry-run", *project["dependencies"]]
    subprocess.run([*command, f"transformers=={version}"], check=True)


def run_matrix(
    folder: Path, versions: list[str], pythons: dict[str, str], pool: ThreadPoolExecutor
) -> tuple[dict[str, object], list[tuple[Run, dict[str, object]]]]:
    """Return what the newest version's model gave before it was saved, and what each run gave."""
    newest = versions[-1]
    built = folder / "built"
    reference = call_worker(pythons[newest], folder, ["build", built], "installed")
    first = [
        Run(newest, built, version, mode, folder / f"{version} {mode}")
        for version in versions
        for mode in MODES
    ]
    again = [
        Run(f"{run.version}, {run.mode}", run.save_to, version, "absent")
        for run in first
        for version in dict.fromkeys((versions[0], newest))
    ]

    def translate(run: Run) -> tuple[Run, dict[str, object]]:
        arguments = ["translate", run.folder, *MODES[run.mode][0]]
        if run.save_to:
            arguments += ["--save-to", run.save_to]
        return run, call_worker(pythons[run.version], folder, arguments, run.mode)

    return reference, [*pool.map(translate, first), *pool.map(translate, again)]


def call_worker(
    python: str, folder: Path, arguments: Iterable[object], mode: str
) -> dict[str, object]:
    """Run the worker with empty caches, and with the package on its path unless it is absent."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        variables = {"HF_HOME": cache, "HF_MODULES_CACHE": cache, "HF_HUB_OFFLINE": "1"}
        variables["PYTHONPATH"] = "" if mode == "absent" else str(ROOT)
        variables["OMP_NUM_THREADS"] = "1"  # threads of several processes wait for each other
        done = subprocess.run(
            [python, str(WORKER), *map(str, arguments)],
            env={**os.environ, **variables},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
    if done.returncode:
        return {"error": f"status {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}"}
    return json.loads(done.stdout.splitlines()[-1])


def differences(reference: dict[str, object], run: Run, result: dict[str, object]) -> list[str]:
    """Say in which ways a run did not do what it should have done."""
    failed = [outcome["error"] for outcome in (reference, result) if "error" in outcome]
    if failed:
        return failed
    found = []
    if result["transformers"] != run.version:
        found.append(f"ran with transformers {result['transformers']}")
    if not MODES[run.mode][1].issuperset(result["code"]):
        found.append(f"ran code of {', '.join(result['code'])}")
    if result["texts"] != reference["texts"]:
        found.append(f"translated to {result['texts']} instead of {reference['texts']}")
    expected = reference["translations"]["built"]
    for way, translations in result["translations"].items():
        found += [
            f"{way}, {setting}: {translations[setting]} instead of {ids}"
            for setting, ids in expected.items()
            if translations[setting] != ids
        ]
    return found


def table(reference: dict[str, object], results: list[tuple[Run, dict[str, object]]]) -> str:
    """Return a line for each run, and below it what differed."""
    row = "{:28} {:10} {:20} {}\n"
    lines = [row.format("saved by", "loaded by", "package", "translations")]
    for run, result in results:
        found = differences(reference, run, result)
        lines.append(
            row.format(run.saved_by, run.version, run.mode, "DIFFERENT" if found else "same")
        )
        lines += [f"    {text}\n" for text in found]
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
