"""What the tests of the comparison with Marian share: the script, a corpus, a command line."""

import importlib
from pathlib import Path

import pytest
import torch
from reversing import draw_source, reverse

SCRIPTS = Path(__file__).parents[1] / "benchmarks"
MINUTES = 0.05
LANGUAGES = ("--source-lang", "xx", "--target-lang", "yy")
RECIPE = (
    "preset: tiny\nvocab-size: 280\nbatch-tokens: 256\nlearning-rate: 0.002\n"
    "warmup-steps: 20\nsave-every: 8\ntrack: [none]\nseed: 3\n"
)


def import_script(name):
    """Import a script, and what lies beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPTS)
        return importlib.import_module(name)


def write_reversals(folder):
    """Write pairs of letters and their reversal, and a recipe, and return the folder."""
    generator = torch.Generator().manual_seed(0)
    sources = list(dict.fromkeys(draw_source(generator) for _ in range(1500)))
    for name, part in (
        ("train", sources[40:]), ("valid", sources[:20]), ("test", sources[20:40])
    ):  # fmt: skip
        lines = [f"{source}\t{reverse(source)}\n" for source in part]
        (folder / f"{name}.tsv").write_text("".join(lines))
    (folder / "recipe.yaml").write_text(RECIPE)
    return folder


def comparison_words(corpus, output, *more, languages=LANGUAGES):
    """Return what starts a comparison in a folder."""
    files = []
    for name in ("train", "valid", "test"):
        files += [f"--{name}", f"{corpus / name}.tsv"]
    numbers = ["--minutes", str(MINUTES), "--every", "0.02", "--marian-warmup-steps", "20"]
    config = ["--config", str(corpus / "recipe.yaml"), "--marian-batch-tokens", "128"]
    return [*files, *languages, *numbers, *config, "--output", str(output), *more]
