"""Whether a model folder is fit to be shared: whole, of one piece, safe, and of use to others."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from transformers import GenerationConfig, PreTrainedModel

from hf_vanilla_transformer.model import modeling_vanilla_transformer
from hf_vanilla_transformer.model.configuration_vanilla_transformer import AUTO_MAP, TRANSLATION
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.model.tokenization_vanilla_transformer import (
    VanillaTransformerTokenizer,
)
from hf_vanilla_transformer.publishing.files import faults_of_content, stray_files
from hf_vanilla_transformer.storage.models import faults_of_model
from hf_vanilla_transformer.storage.weights import faults_of_weights

CODE = Path(modeling_vanilla_transformer.__file__).parent
TOKENIZER_CLASS = "tokenization_vanilla_transformer.VanillaTransformerTokenizer"
# Where the library finds the classes of a folder; a name before `--` would be another repository.
REFERENCES = {
    "config.json": {"auto_map": AUTO_MAP, "custom_pipelines": {"translation": TRANSLATION}},
    "tokenizer_config.json": {"auto_map": {"AutoTokenizer": [TOKENIZER_CLASS, None]}},
}
TOKEN_IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
# What the generation config alone has: ids of the target.
GENERATED = ("forced_bos_token_id", "forced_eos_token_id", "suppress_tokens")
TIMEOUT_SECONDS = 600

# Every import of the package fails, even where it is installed.
WITHOUT_PACKAGE = """
import sys
sys.modules["hf_vanilla_transformer"] = None
from transformers import pipeline
translator = pipeline("translation", model=sys.argv[1], trust_remote_code=True)
for part in (translator, translator.model, translator.tokenizer):
    assert type(part).__module__.startswith("transformers_modules."), type(part)
assert isinstance(translator("1 2 3", max_new_tokens=8)[0]["translation_text"], str)
"""


def check_folder(folder: str | Path) -> list[str]:
    """Return the faults that forbid sharing a model folder, one line each.

    Code of the folder runs, in a process of its own, only where it is the package's, byte for byte.

    Raises:
        ValueError: This is no folder of one of our models.
    """
    folder = Path(folder)
    if strays := stray_files(folder):
        return strays
    problems = [*faults_of_content(folder), *faults_of_weights(folder)]
    problems += [*_other_code(folder), *_other_references(folder)]
    try:
        problems += _broken_parts(folder)
    except Exception as error:  # tokenizers raises nothing more precise
        problems.append(f"does not load: {_reason(error)}")
    if not problems:
        problems += _failure_without_package(folder)
    return problems


def code_files() -> dict[str, bytes]:
    """Return the package's files that travel with a model, by name."""
    return {file.name: file.read_bytes() for file in CODE.glob("*.py") if file.stem != "__init__"}


def _other_code(folder: Path) -> Iterator[str]:
    """Name the code files that are not this package's, or are missing."""
    found = {path.name: path.read_bytes() for path in folder.glob("*.py")}
    for name, source in code_files().items():
        if name not in found:
            yield f"{name} is missing; load the model with this package and save it again"
        elif found[name] != source:
            yield (
                f"{name} is not the file of this package, so it is not run; load the model with "
                "this package and save it again"
            )
    yield from (
        f"{name} is not of this package, so it is not run; move it away"
        for name in sorted(found.keys() - code_files().keys())
    )


def _other_references(folder: Path) -> Iterator[str]:
    """Name references to code that lead elsewhere than to the package's files beside them."""
    for file, references in REFERENCES.items():
        try:
            content = json.loads((folder / file).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            yield f"{file} cannot be read: {_reason(error)}"
            continue
        for name, expected in references.items():
            found = content.get(name) if isinstance(content, dict) else None
            if found != expected:
                yield (
                    f"{file} has {name}={found!r}, so nothing is run; load the model "
                    "with this package and save it again"
                )


def _broken_parts(folder: Path) -> Iterator[str]:
    """Name weights and ids that are wrong, as the installed package loads them."""
    model, loading = VanillaTransformerForConditionalGeneration.from_pretrained(
        folder, output_loading_info=True, use_safetensors=True
    )
    yield from faults_of_model(model, loading)
    yield from _other_ids(model, VanillaTransformerTokenizer.from_pretrained(folder))


def _other_ids(model: PreTrainedModel, tokenizer: VanillaTransformerTokenizer) -> Iterator[str]:
    """Name special tokens and sizes on which config, generation config and tokenizer disagree."""
    config, generation = model.config, model.generation_config
    sides = {"tokenizer": tokenizer}
    sizes = [config.vocab_size, config.decoder_vocab_size or config.vocab_size]
    if tokenizer.target_backend is None:
        sizes = [min(sizes)]
    else:
        sides["target tokenizer"] = tokenizer.target
    for name in TOKEN_IDS:
        expected = getattr(config, name)
        held = {"generation_config.json": getattr(generation, name)}
        if name != "decoder_start_token_id":
            held |= {side: getattr(part, name) for side, part in sides.items()}
        for place, found in held.items():
            if found != expected:
                yield f"{name} is {expected} in config.json and {found} in {place}"
    for (side, part), size in zip(sides.items(), sizes, strict=True):
        # Those of the vocabulary, and those that the tokenizer adds to every text.
        highest = max([*part.get_vocab().values(), *part("a")["input_ids"]])
        if highest >= size:
            yield f"the {side} gives ids up to {highest}, the model knows ids up to {size - 1}"
    yield from _unknown_ids(generation, sizes[-1])


def _unknown_ids(generation: GenerationConfig, size: int) -> Iterator[str]:
    """Name ids that decoding is told to write or to avoid, and the target does not have."""
    for name in GENERATED:
        given = getattr(generation, name)
        ids = given if isinstance(given, list) else [] if given is None else [given]
        for wrong in (one for one in ids if not 0 <= one < size):
            yield (
                f"{name} in generation_config.json holds {wrong}, the model knows ids up to "
                f"{size - 1}"
            )


def _failure_without_package(folder: Path) -> Iterator[str]:
    """Return the fault if a new process without the package cannot translate with the folder."""
    with tempfile.TemporaryDirectory() as empty:
        offline = {"HF_HUB_OFFLINE": "1", "HF_MODULES_CACHE": empty}
        try:
            done = subprocess.run(
                [sys.executable, "-c", WITHOUT_PACKAGE, str(folder.resolve())],
                env={**os.environ, **offline},
                cwd=empty,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            yield f"without the package, no translation within {TIMEOUT_SECONDS} seconds"
            return
    if done.returncode:
        last_line = done.stderr.strip().rpartition("\n")[2]
        yield f"does not work without the package: {last_line or f'status {done.returncode}'}"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())
