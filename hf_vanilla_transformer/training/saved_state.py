"""What a checkpoint holds beside the model so that training can go on from it exactly.

`training_state/` in a checkpoint's folder: the optimiser's tensors, `state.json` with everything
else, and `files.json` with size and SHA-256 of every file of the checkpoint, by which a damaged
one is known. Random numbers need not be saved: every update seeds its own.
"""

import hashlib
import json
import logging
import pickle
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from hf_vanilla_transformer.training.checkpoints import list_checkpoints
from hf_vanilla_transformer.training.run_state import RunState
from hf_vanilla_transformer.writing import write_json

logger = logging.getLogger(__name__)

# What reading JSON that is missing, damaged or of another shape raises.
MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError)
STATE_FOLDER = "training_state"
OPTIMIZER, STATE, FILES = "optimizer.pt", "state.json", "files.json"


@dataclass(frozen=True)
class SavedState:
    """A checkpoint to go on from.

    Attributes:
        folder: The checkpoint.
        state: How far the run had come.
        facts: What the run was told and what it ran on: `options`, `corpus`, `threads`.
    """

    folder: Path
    state: RunState
    facts: dict[str, object]

    def optimizer(self, *, is_mapped: bool = False) -> dict[str, object]:
        """Read the tensors of the optimiser, or map them without reading.

        Raises:
            ValueError: The file is damaged, or holds more than tensors and plain values.
        """
        file = self.folder / STATE_FOLDER / OPTIMIZER
        try:
            content = torch.load(file, map_location="cpu", weights_only=True, mmap=is_mapped)
        except pickle.UnpicklingError as error:
            raise ValueError(
                f"{file} is not read: it holds more than tensors and plain values, and unpickling "
                "that could run code"
            ) from error
        except (OSError, RuntimeError, EOFError) as error:
            raise ValueError(f"{file} cannot be read ({error})") from error
        if not isinstance(content, dict) or "optimizer" not in content:
            raise ValueError(f"{file} holds no optimiser")
        return content


def write_saved_state(
    folder: Path, *, optimizer: dict[str, object], state: RunState, facts: dict[str, object]
) -> None:
    """Complete the folder of a checkpoint whose model is written."""
    inside = folder / STATE_FOLDER
    inside.mkdir()
    torch.save(optimizer, inside / OPTIMIZER)
    write_json(inside / STATE, {"state": state.as_json(), "facts": facts})
    write_json(inside / FILES, {name: _fingerprint(folder / name) for name in _names(folder)})


def newest_good_checkpoint(root: Path) -> SavedState | None:
    """Return the last checkpoint that is whole; one warning for each that is damaged."""
    for folder in reversed(list_checkpoints(root)):
        if not (folder / STATE_FOLDER).is_dir():
            continue
        try:
            return _read_saved_state(folder)
        except ValueError as error:
            logger.warning("%s is damaged (%s); it is not resumed from", folder, error)
    return None


def _read_saved_state(folder: Path) -> SavedState:
    """Return what a checkpoint holds to go on from.

    Raises:
        ValueError: It is damaged.
    """
    if damage := find_damage(folder):
        raise ValueError(damage)
    try:
        content = json.loads((folder / STATE_FOLDER / STATE).read_text("utf-8"))
        saved = SavedState(folder, RunState.from_json(content["state"]), dict(content["facts"]))
    except MALFORMED as error:
        raise ValueError(f"{STATE_FOLDER}/{STATE} cannot be read") from error
    saved.optimizer(is_mapped=True)  # refuses what `torch.load` will not read
    return saved


def find_damage(folder: Path) -> str | None:
    """Return what is wrong with the files of a checkpoint, None if all are as they were written."""
    try:
        expected = json.loads((folder / STATE_FOLDER / FILES).read_text("utf-8"))
        sizes = {name: int(fingerprint["bytes"]) for name, fingerprint in expected.items()}
    except MALFORMED:
        return f"{STATE_FOLDER}/{FILES} cannot be read"
    for name in (OPTIMIZER, STATE):
        if f"{STATE_FOLDER}/{name}" not in sizes:
            return f"{STATE_FOLDER}/{FILES} does not list {name}"
    for name, size in sizes.items():
        if not (folder / name).is_file():
            return f"{name} is missing"
        if (found := (folder / name).stat().st_size) != size:
            return f"{name} has {found:,} of {size:,} bytes"
        if _fingerprint(folder / name) != expected[name]:
            return f"the content of {name} has changed"
    return None


def drop_old_states(root: Path, *, keep: int = 2) -> None:
    """Delete the optimisers of all checkpoints but the last ones, which are the larger part."""
    for folder in list_checkpoints(root)[:-keep]:
        shutil.rmtree(folder / STATE_FOLDER, ignore_errors=True)


def _names(folder: Path) -> Iterator[str]:
    """Yield the files of a folder and of those in it, by their path."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _fingerprint(path: Path) -> dict[str, object]:
    """Return size and checksum of a file."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
