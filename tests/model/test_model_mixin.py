"""The library's own model tests (`ModelTesterMixin`) pass on our models.

They are in its source distribution alone, so they are downloaded, and no copy is kept. That leaves
out the folders they import from, for which there are empty stand-ins here.
"""

import os
import re
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import transformers

VERSION = "5.24.0"
CASES = Path(__file__).parents[1].joinpath("model_mixin_cases.py")
STAND_INS = {
    "exporters/test_export.py": "class ExportTesterMixin:\n    pass\n",
    "generation/test_utils.py": "class GenerationTesterMixin:\n    pass\n",
    "utils/test_configuration_utils.py": "config_common_kwargs = {}\n",
}
# Why the mixin may skip a case: hardware or packages that are not here, or something that
# our models are not or do not have.
ALLOWED_SKIPS = (
    r"test requires (multiple )?accelerators?|test requires (Flash Attention|MPS|deepspeed|the k)",
    r"test is slow",  # torch.compile on an accelerator
    r"not (a )?composite|No subconfigs|does not support SDPA$",  # the latter: of sub-models
    r"RoPE|sliding window|position embeddings|decoder-only|sparse experts|output_router_logits",
    r"grouped_mm|TP plan|_keep_in_fp32_modules|No conversion found|non standard Cache",
    r"capture_outputs|Cannot capture hidden states",
    r"these differ here",  # ours: see model_mixin_cases.py
)

pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(
        transformers.__version__ != VERSION, reason=f"the tests are those of transformers {VERSION}"
    ),
]


@pytest.fixture(scope="module")
def library_tests(tmp_path_factory):
    """Return a folder from which `transformers_tests` can be imported."""
    folder = tmp_path_factory.mktemp("mixin")
    command = ["download", "--quiet", "--no-deps", "--no-binary", "transformers", "--dest", folder]
    subprocess.run(
        [sys.executable, "-m", "pip", *command, f"transformers=={VERSION}"], check=True, timeout=300
    )
    with tarfile.open(folder / f"transformers-{VERSION}.tar.gz") as archive:
        prefix = f"transformers-{VERSION}/tests/"
        members = [member for member in archive if member.name.startswith(prefix)]
        archive.extractall(folder, members, filter="data")
    package = folder / "transformers_tests"
    (folder / prefix).rename(package)
    package.joinpath("__init__.py").touch()
    for name, text in STAND_INS.items():
        file = package / name
        assert not file.exists(), f"{name} is in the distribution now: use it"
        file.parent.mkdir()
        file.with_name("__init__.py").touch()
        file.write_text(text, encoding="utf-8")
    return folder


def test_the_librarys_model_tests_pass(library_tests):
    report = library_tests / "report.xml"
    root = CASES.parents[1]
    options = ["-q", "--disable-warnings", "-o", "addopts=", "-o", "filterwarnings=default"]
    options += ["-p", "no:cacheprovider", f"--junit-xml={report}", f"--rootdir={root}"]
    paths = [str(root), str(library_tests), os.environ.get("PYTHONPATH", "")]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", CASES, *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        cwd=library_tests,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-5_000:]
    cases = ET.parse(report).getroot().findall(".//testcase")
    reasons = {skip.get("message") for case in cases for skip in case.findall("skipped")}
    passed = [case for case in cases if len(case) == 0]
    assert len(passed) > 200
    unexpected = [text for text in reasons if not re.search("|".join(ALLOWED_SKIPS), text)]
    assert not unexpected
