"""A cache of its own for each test: none reads what another one has left."""

import datasets
import pytest
from hypothesis import settings

# The same examples each time, however busy the machine is, and no folder for those that failed.
settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(folder))
    return folder / "hf_vanilla_transformer"
