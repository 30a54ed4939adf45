"""Whether a model folder is fit to be shared: whole, of one piece, safe, and of use to others."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import torch
from transformers import PreTrainedModel

from hf_vanilla_transformer.model import modeling_vanilla_transformer
from hf_vanilla_transformer.model.configuration_vanilla_transformer import AUTO_MAP, TRANSLATION
from hf_vanilla_transformer.model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
)
from hf_vanilla_transformer.model.tokenization_vanilla_transformer import (
    TARGET_FILE,
    VanillaTransformerTokenizer,
)

# What a shared folder may hold beside the package's code.
SHARED = (
    *("config.json", "generation_config.json", "model.safetensors", "model-*-of-*.safetensors"),
    *("model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json", TARGET_FILE),
    *("special_tokens_map.json", "added_tokens.json", "README.md", "LICENSE*", "*.png"),
    ".gitattributes",
)
PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt", "*.joblib")
CODE = Path(modeling_vanilla_transformer.__file__).parent
TOKENIZER = "tokenization_vanilla_transformer.VanillaTransformerTokenizer"
# Where the library finds the classes of a folder; a name before `--` would be another repository.
REFERENCES = {
    "config.json": {"auto_map": AUTO_MAP, "custom_pipelines": {"translation": TRANSLATION}},
    "tokenizer_config.json": {"auto_map": {"AutoTokenizer": [TOKENIZER, None]}},
}
IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
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
    """Return what stands against sharing a model folder, one line each.

    Code of the folder runs, in a process of its own, only where it is the package's, byte for byte.

    Raises:
        ValueError: This is no folder of one of our models.
    """
    folder = Path(folder)
    problems = [*stray_files(folder), *_other_code(folder), *_other_references(folder)]
    is_ours = not problems
    try:
        problems += _broken_parts(folder)
    except Exception as error:  # tokenizers raises nothing more precise
        problems.append(f"does not load: {_in_one_line(error)}")
    if is_ours and not problems:
        problems += _failure_without_package(folder)
    return problems


def stray_files(folder: str | Path) -> list[str]:
    """Name what no reader of a model needs, one line each; no file but `config.json` is read.

    Raises:
        ValueError: This is no folder of one of our models.
    """
    folder = Path(folder)
    _check_kind(folder)
    return [problem for path in sorted(folder.iterdir()) if (problem := _fault_of_name(path))]


def _fault_of_name(path: Path) -> str | None:
    """Say what is wrong with a file of this name, if anything is."""
    if path.is_symlink():
        return f"{path.name} is a link, whose target would be sent; put the file in its place"
    if path.is_dir():
        return f"{path.name}/ is no part of a model; move it away"
    if any(fnmatch(path.name, pattern) for pattern in PICKLES):
        return f"{path.name} may run code where it is read (a pickle); delete it"
    if path.suffix != ".py" and not any(fnmatch(path.name, name) for name in SHARED):
        return f"{path.name} is no part of a model; move it away"
    return None


def code_files() -> dict[str, bytes]:
    """Return the package's files that travel with a model, by name."""
    return {file.name: file.read_bytes() for file in CODE.glob("*.py") if file.stem != "__init__"}


def _check_kind(folder: Path) -> None:
    """Refuse what is no folder of one of our models."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; give a saved model folder")
    config = folder / "config.json"
    if not config.is_file():
        raise ValueError(f"{folder} holds no config.json; give a saved model folder")
    try:
        content = json.loads(config.read_bytes())
        kind = content.get("model_type")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{config} is no JSON object: {error}") from error
    if kind != "vanilla_transformer":
        raise ValueError(f"{config} has model_type={kind!r}; vanilla_transformer is shared here")


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
        except (OSError, ValueError) as error:
            yield f"{file} cannot be read: {_in_one_line(error)}"
            continue
        for name, expected in references.items():
            if content.get(name) != expected:
                yield (
                    f"{file} has {name}={content.get(name)!r}, so nothing is run; load the model "
                    "with this package and save it again"
                )


def _broken_parts(folder: Path) -> Iterator[str]:
    """Name weights and ids that are wrong, as the installed package loads them."""
    model, loading = VanillaTransformerForConditionalGeneration.from_pretrained(
        folder, output_loading_info=True, use_safetensors=True
    )
    for kind, names in (
        ("missing from", loading["missing_keys"]),
        ("unknown in", loading["unexpected_keys"]),
    ):
        if names:
            yield f"tensors {kind} the weights: {', '.join(sorted(names))}"
    for name, parameter in model.named_parameters():
        wrong = parameter.numel() - int(torch.isfinite(parameter).sum())
        if wrong:
            yield f"{name}: {wrong} of {parameter.numel()} numbers are not finite"
    yield from _other_ids(model, VanillaTransformerTokenizer.from_pretrained(folder))


def _other_ids(model: PreTrainedModel, tokenizer: VanillaTransformerTokenizer) -> Iterator[str]:
    """Name special tokens and sizes on which config, generation config and tokenizer disagree."""
    config, generation = model.config, model.generation_config
    sides = {"tokenizer": tokenizer, "target tokenizer": tokenizer.target}
    for name in IDS:
        expected = getattr(config, name)
        held = {"generation_config.json": getattr(generation, name)}
        if name != "decoder_start_token_id":
            held |= {side: getattr(part, name) for side, part in sides.items()}
        for place, found in held.items():
            if found != expected:
                yield f"{name} is {expected} in config.json and {found} in {place}"
    sizes = (config.vocab_size, config.decoder_vocab_size or config.vocab_size)
    for (side, part), size in zip(sides.items(), sizes, strict=True):
        if len(part) > size:
            yield f"the {side} has {len(part)} entries, the model {size}"


def _failure_without_package(folder: Path) -> Iterator[str]:
    """Say why a new process without the package cannot translate with the folder, if it cannot."""
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


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())
