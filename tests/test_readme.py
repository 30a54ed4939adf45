"""What the README tells a newcomer to type does what it says."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from hf_vanilla_transformer.cli import build_parser

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
TRY, TEST = "/vanilla-transformer quickstart", "/pytest"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def command(ending):
    lines = [line for block in blocks("bash") for line in block.splitlines()]
    (found,) = (line for line in lines if line.endswith(ending))
    return found


def own_commands():
    """Return what follows the program's name in each of its commands, without redirections."""
    found = []
    for block in blocks("bash"):
        for line in block.splitlines():
            if match := re.search(r"(?:^|/)vanilla-transformer (.*)", line):
                found.append(re.split(r" [<>] ", match[1])[0])
    return found


@pytest.mark.parametrize("line", own_commands())
def test_every_command_is_one_that_the_program_takes(line):
    assert build_parser().parse_args(shlex.split(line)).command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page):
    targets = re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    for target in targets:
        file, _, anchor = target.partition("#")
        assert target.startswith("https://") or (page.parent / file).exists(), target
        if file.endswith(".md") and anchor:
            headings = re.findall(
                r"^#+ (.+)$", (page.parent / file).read_text("utf-8"), re.MULTILINE
            )
            assert anchor in [heading.lower().replace(" ", "-") for heading in headings], target


def test_every_python_block_is_python():
    assert len(blocks("python")) == 3
    for block in blocks("python"):
        compile(block, "README.md", "exec")


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """Copy the repository as a newcomer gets it and run the README's first command there."""
    clone = tmp_path_factory.mktemp("newcomer") / "clone"
    ignored = shutil.ignore_patterns(".git", ".venv", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, clone, ignore=ignored)
    done = run(["bash", "-euc", command(TRY)], clone)
    return clone, done.stdout


def run(arguments, folder):
    done = subprocess.run(arguments, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


@pytest.mark.network
def test_the_first_command_ends_in_translations(clone):
    _, output = clone
    (promised,) = re.findall(r"```text\n(.*?)```", README, flags=re.DOTALL)
    for promise in promised.strip().splitlines():
        source, translation = promise.split(maxsplit=1)
        shown = [line.split(maxsplit=1) for line in output.splitlines() if line.strip()]
        assert [source, translation] in shown


@pytest.mark.network
def test_the_python_blocks_translate_with_the_model_of_the_first_command(clone):
    folder, _ = clone
    for block in blocks("python"):
        done = run([folder / ".venv/bin/python", "-c", block], folder)
        assert "I love cats" in done.stdout
        assert "Traceback" not in done.stderr
