"""Registration with transformers: nothing of it can break an import."""

import os
import subprocess
import sys

import pytest
from transformers import AutoConfig, pipelines

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.integrations.registration import register

REGISTRY = pipelines.PIPELINE_REGISTRY
IMPORT_WITHOUT = """
import sys
from transformers import pipelines
delattr(pipelines, "PIPELINE_REGISTRY")
import hf_vanilla_transformer
from transformers import AutoConfig
assert AutoConfig.for_model("vanilla_transformer").d_model == 512
assert hf_vanilla_transformer.TranslationPipeline
"""


def refuse(*arguments):
    raise RuntimeError("not as it was")


@pytest.mark.parametrize("change", ["gone", "changed"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (pipelines, "PIPELINE_REGISTRY"),
        (REGISTRY, "supported_tasks"),
        (type(REGISTRY), "check_task"),
        (pipelines, "_resolve_deprecated_task"),
    ],
)
def test_a_private_name_that_changes_costs_the_task_alone(monkeypatch, caplog, owner, name, change):
    if not hasattr(owner, name):
        pytest.skip("this version has no such name")
    if owner is type(REGISTRY) and name in vars(REGISTRY):  # the wrapper of an earlier call
        monkeypatch.delattr(REGISTRY, name)
    if change == "gone":
        monkeypatch.delattr(owner, name)
    else:
        monkeypatch.setattr(owner, name, refuse)
    register()
    is_needed = not (name == "_resolve_deprecated_task" and change == "gone")
    assert len(caplog.messages) == is_needed
    if is_needed:
        assert 'pipeline("translation") is not available' in caplog.text
        assert "build TranslationPipeline(model=..., tokenizer=...)" in caplog.text
    assert isinstance(AutoConfig.for_model("vanilla_transformer"), VanillaTransformerConfig)


def test_the_package_is_imported_where_the_registry_is_gone():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_WITHOUT], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert 'pipeline("translation") is not available' in done.stderr


def test_registering_twice_changes_nothing():
    before = dict(REGISTRY.supported_tasks), REGISTRY.check_task
    register()
    assert (dict(REGISTRY.supported_tasks), REGISTRY.check_task) == before
