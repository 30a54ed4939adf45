"""Files of weights in a model folder: list, hash, check and average them."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME

from hf_vanilla_transformer.model.finite import is_finite
from hf_vanilla_transformer.storage.files import file_digest, write_folder
from hf_vanilla_transformer.storage.models import naming_damage

NOT_AVERAGED = ("*.safetensors", "*.safetensors.index.json", "training_state")


def weight_files(folder: Path) -> list[Path]:
    """Return the weight files that transformers reads; a single file precedes an index.

    Raises:
        ValueError: The index names no files of the folder.
    """
    single, index = folder / SAFE_WEIGHTS_NAME, folder / SAFE_WEIGHTS_INDEX_NAME
    if single.is_file() or not index.is_file():
        return [single] if single.is_file() else []
    try:
        names = set(json.loads(index.read_bytes())["weight_map"].values())
        is_of_folder = all(Path(name).name == name for name in names)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        is_of_folder = False
    if not is_of_folder:
        raise ValueError(f"{index.name} does not list files of this folder; save the model again")
    return [folder / name for name in sorted(names)]


def weight_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of weights by its name; empty without such files.

    Raises:
        ValueError: The index names no files of the folder.
    """
    return {file.name: file_digest(file) for file in weight_files(folder)}


def faults_of_weights(folder: Path) -> Iterator[str]:
    """Return messages on missing and unused files of weights."""
    try:
        read = set(weight_files(folder))
    except ValueError as error:
        yield str(error)
        return
    found = set(folder.glob("*.safetensors"))
    index = folder / SAFE_WEIGHTS_INDEX_NAME
    if index.is_file() and folder / SAFE_WEIGHTS_NAME in read:
        found.add(index)
    for path in sorted(read - found):
        yield f"{path.name} is missing, though {index.name} lists it; save the model again"
    for path in sorted(found - read):
        yield f"{path.name} is no part of this model's weights; delete it"


def average_weights(checkpoints: Sequence[str | Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several model folders, in the dtype of the first.

    The paper averages the last 5 checkpoints of base and the last 20 of big (Vaswani et al. 2017,
    §6.1). Sums are kept in float64.

    Raises:
        ValueError: No checkpoint is given; one has no or a damaged safetensors file or numbers that
            are not finite; or their tensors differ in name or shape.
    """
    if not checkpoints:
        raise ValueError("no checkpoint to average")
    first = _load_weights(checkpoints[0])
    total = {name: tensor.double() for name, tensor in first.items()}
    for checkpoint in checkpoints[1:]:
        weights = _load_weights(checkpoint)
        _check_same_tensors(first, weights, where=f"{checkpoint} and {checkpoints[0]}")
        for name, tensor in weights.items():
            total[name] += tensor
    return {name: (total[name] / len(checkpoints)).to(first[name].dtype) for name in first}


def average_checkpoints(checkpoints: Sequence[str | Path], output: str | Path) -> None:
    """Write a model folder with averaged weights and every other file of the last checkpoint.

    Raises:
        ValueError: As `average_weights`.
        OSError: It cannot be written.
    """
    weights = average_weights(checkpoints)
    with write_folder(output) as unfinished:
        shutil.copytree(
            checkpoints[-1],
            unfinished,
            ignore=shutil.ignore_patterns(*NOT_AVERAGED),
            dirs_exist_ok=True,
        )
        try:
            save_file(weights, unfinished / "model.safetensors", metadata={"format": "pt"})
        except SafetensorError as error:
            raise OSError(f"{output} could not be written ({error}); check the disk") from error


def check_weights(checkpoint: str | Path) -> None:
    """Refuse a model folder whose weights are missing or truncated.

    Raises:
        ValueError: A file of weights is missing or truncated.
    """
    for file in _weight_files(checkpoint):
        with naming_damage(file), safe_open(file, framework="pt"):
            pass


def _load_weights(checkpoint: str | Path) -> dict[str, Tensor]:
    """Read every tensor of a model folder, in one safetensors file or several."""
    weights = {}
    for file in _weight_files(checkpoint):
        with naming_damage(file):
            weights |= load_file(file)
    for name in (name for name, tensor in weights.items() if not is_finite(tensor)):
        raise ValueError(
            f"{checkpoint}: {name} has numbers that are not finite; omit this checkpoint"
        )
    return weights


def _weight_files(checkpoint: str | Path) -> list[Path]:
    """Return the files that the library reads, all of which are there."""
    files = weight_files(Path(checkpoint))
    if not files:
        raise ValueError(f"{checkpoint} holds no .safetensors file; give a saved model folder")
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} is missing, though the index names it; save the model again")
    return files


def _check_same_tensors(first: dict[str, Tensor], second: dict[str, Tensor], *, where: str) -> None:
    """Refuse checkpoints of two different architectures."""
    for name in sorted(first.keys() | second.keys()):
        shapes = [tuple(w[name].shape) if name in w else "absent" for w in (first, second)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{where} are of different models: {name} is {shapes[0]} and {shapes[1]}"
            )
