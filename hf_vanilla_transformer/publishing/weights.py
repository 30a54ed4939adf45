"""Which files of a folder hold the model's weights, and which only look as if they did."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from transformers.utils import SAFE_WEIGHTS_INDEX_NAME, SAFE_WEIGHTS_NAME


def weight_files(folder: Path) -> list[Path]:
    """Return the files that the library reads weights from; the one file goes before an index.

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
        raise ValueError(f"{index.name} does not name files of this folder; save the model again")
    return [folder / name for name in sorted(names)]


def weight_digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file of weights by its name; none where there is no such file.

    Raises:
        ValueError: The index names no files of the folder.
    """
    digests = {}
    for file in weight_files(folder):
        with file.open("rb") as stream:
            digests[file.name] = hashlib.file_digest(stream, "sha256").hexdigest()
    return digests


def faults_of_weights(folder: Path) -> Iterator[str]:
    """Name files of weights that are missing, and those that nobody reads."""
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
        yield f"{path.name} is missing, though {index.name} names it; save the model again"
    for path in sorted(found - read):
        yield f"{path.name} is no part of this model's weights; delete it"
