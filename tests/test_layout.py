"""Files of the core travel with checkpoints: what they import, and how, is fixed by the library."""

import ast
import importlib
import re
import sys
from pathlib import Path

import pytest

import hf_vanilla_transformer

PACKAGE = Path(hf_vanilla_transformer.__file__).parent
CORE = sorted(file for file in PACKAGE.joinpath("model").glob("*.py") if file.stem != "__init__")
SIBLINGS = {file.stem: file for file in CORE}
ENTRIES = sorted(
    name
    for name in SIBLINGS
    if name.split("_")[0] in ("configuration", "modeling", "tokenization", "pipeline")
)
THIRD_PARTY = {"torch", "transformers", "huggingface_hub"}
VERSION_WORDS = re.compile(r"__version__|importlib.metadata|packaging|is_\w+_version")


def imports(file):
    """Yield (level, module) for every import, wherever it stands."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""


def imported_siblings(name):
    return {module for level, module in imports(SIBLINGS[name]) if level}


def closure(name):
    found, queue = set(), [name]
    while queue:
        new = imported_siblings(queue.pop()) - found
        found |= new
        queue += new
    return found - {name}


def test_four_entry_files_are_found():
    assert len(ENTRIES) == 4


@pytest.mark.parametrize("name", SIBLINGS)
def test_core_imports_only_siblings_and_what_every_user_has(name):
    for level, module in imports(SIBLINGS[name]):
        if level:
            assert level == 1, f"{name} imports {'.' * level}{module}"
            assert module in SIBLINGS, f"{name} imports .{module}, which is not a file beside it"
        else:
            top = module.split(".")[0]
            assert top in THIRD_PARTY | sys.stdlib_module_names, f"{name} imports {module}"


@pytest.mark.parametrize("name", ENTRIES)
def test_entry_file_directly_imports_its_whole_closure(name):
    """Versions of the library to 5.8 copy from a local folder no file beyond those."""
    assert closure(name) == imported_siblings(name) - {name}


def test_the_modeling_file_brings_configuration_and_pipeline_along():
    """A model that is loaded and saved again writes what its own file imports, nothing else."""
    brought = imported_siblings("modeling_vanilla_transformer")
    assert {"configuration_vanilla_transformer", "pipeline_translation"} <= brought


@pytest.mark.parametrize("name", SIBLINGS)
def test_every_relative_import_is_seen_by_the_librarys_scanner(name):
    """The library finds imports by an expression over lines: code and text alike."""
    source = SIBLINGS[name].read_text(encoding="utf-8")
    scanned = re.findall(r"^\s*from\s+\.(\S*)\s+import", source, flags=re.MULTILINE)
    scanned += re.findall(r"^\s*import\s+\.(\S*)\s*$", source, flags=re.MULTILINE)
    assert set(scanned) == imported_siblings(name)
    assert not re.search(r"^\s*from\s+\.\S*\s+import\s+\\$", source, flags=re.MULTILINE)


@pytest.mark.parametrize("name", sorted(set(SIBLINGS) - {"compat"}))
def test_only_compat_knows_versions(name):
    assert not VERSION_WORDS.search(SIBLINGS[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda file: file.name)
def test_no_file_is_longer_than_400_lines(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400


# The paper's files, and what they may take of the fast ones: each use is behind `model.fast`.
PAPER = {
    "attention": {"fast_attention"},
    **dict.fromkeys(("layers", "stacks"), {"fast_dropout"}),
    **dict.fromkeys(("masks", "positions", "cache", "loss", "lengths", "generation"), set()),
}
GUARDED = {"compat", "generation", "pretrained", "stacks"}


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_files_take_of_the_fast_ones_only_what_a_switch_replaces(name):
    fast = {one for one in imported_siblings(name) if one.startswith("fast_")}
    assert fast == PAPER[name]


@pytest.mark.parametrize("name", sorted(set(SIBLINGS) - set(ENTRIES)))
def test_guards_stand_at_the_doors(name):
    guards = {one for one in imported_siblings(name) if one.startswith("guard_")}
    assert not guards or name.startswith("guard_") or name in GUARDED


def import_structure():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).parents[1] / "scripts")
        return importlib.import_module("structure")


def test_no_import_runs_in_a_circle_or_up():
    structure = import_structure()
    graph = structure.imports()
    assert len(graph) > 100
    assert structure.circles(graph) == []
    assert structure.arrows_up(structure.rooms(graph)) == 0
    assert structure.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]


def test_the_picture_in_the_docs_is_that_of_the_code():
    structure = import_structure()
    page = structure.PAGE.read_text("utf-8")
    assert structure.picture(structure.rooms(structure.imports())) in page, (
        "run python scripts/structure.py --write"
    )


def test_few_names_have_more_than_one_home():
    assert import_structure().figures()["names defined in more than one module"] < 12
