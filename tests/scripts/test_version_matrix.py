"""What scripts/version_matrix.py runs in each environment, here in this one."""

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import transformers

SCRIPTS = Path(__file__).parents[2] / "scripts"


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix, worker = load_script("version_matrix"), load_script("version_matrix_worker")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("matrix")


@pytest.fixture(scope="module")
def reference(folder):
    return worker.build(folder / "built")


@pytest.fixture(scope="module")
def result(folder, reference):
    return worker.translate(folder / "built", trust=False, save_to=folder / "again")


@pytest.fixture
def run(folder):
    return matrix.Run("test", folder / "built", transformers.__version__, "installed")


def test_every_way_of_this_version_gives_the_same_ids(reference, result, run):
    assert len(result["translations"]) == 5
    assert matrix.differences(reference, run, result) == []


def test_what_was_saved_again_gives_the_same_ids(folder, reference, result, run):
    again = worker.translate(folder / "again", trust=False)
    assert matrix.differences(reference, run, again) == []


def test_a_single_other_id_is_a_difference(reference, result, run):
    ids = [list(row) for row in result["translations"]["generate"]["beam 4"]]
    ids[-1][0] += 1
    changed = {**result["translations"]["generate"], "beam 4": ids}
    other = {**result, "translations": {**result["translations"], "generate": changed}}
    (difference,) = matrix.differences(reference, run, other)
    assert difference.startswith("generate, beam 4: ")
    text = matrix.table(reference, [(run, result), (run, other)])
    assert [line.split()[-1] for line in text.splitlines()[:3]] == [
        "translations",
        "same",
        "DIFFERENT",
    ]


@pytest.mark.network
@pytest.mark.parametrize("version", matrix.VERSIONS)
def test_the_package_installs_beside_a_version_that_is_named(version):
    matrix.check_install(sys.executable, version)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"transformers": "4.0.0"}, "transformers 4.0.0"),
        ({"code": ["transformers_modules"]}, "transformers_modules"),
        ({"texts": ["I love cats ."]}, "I love cats ."),
        ({"error": "OSError: no such file"}, "no such file"),
    ],
)
def test_another_version_or_code_or_a_failure_is_a_difference(reference, result, run, change, said):
    (difference,) = matrix.differences(reference, run, {**result, **change})
    assert said in difference


def test_code_of_the_folder_is_expected_without_the_package(reference, result, run):
    absent = replace(run, mode="absent")
    assert matrix.differences(reference, absent, {**result, "code": ["transformers_modules"]}) == []
    assert len(matrix.differences(reference, absent, result)) == 1
