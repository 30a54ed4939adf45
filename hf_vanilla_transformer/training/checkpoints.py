"""Save model folders with the state of training, and keep the last ones and the best."""

import json
import logging
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from hf_vanilla_transformer.storage.files import file_digest, write_folder, write_json
from hf_vanilla_transformer.training.state import RunState

logger = logging.getLogger(__name__)

STEP_FOLDER = re.compile(r"step-(\d+)")
STATE_FOLDER = "training_state"
OPTIMIZER, STATE, FILES = "optimizer.pt", "state.json", "files.json"
# What reading JSON that is missing, damaged or of another shape raises.
MALFORMED = (OSError, ValueError, LookupError, TypeError, AttributeError)


def save_checkpoint(
    save: Callable[[Path], None], root: str | Path, *, step: int, keep: int, best: int | None = None
) -> Path:
    """Save one model folder as `root/step-<step>`; delete all but the last `keep` and the best.

    A kill at any instant, or a power failure, leaves the old checkpoints or the new one.

    Args:
        save: Writes model and tokenizer into the folder that it is given.
        root: Folder of the checkpoints.
        step: Step at which the weights are saved.
        keep: How many checkpoints remain, this one included.
        best: Step of the best checkpoint, which remains and which `root/best` points at.

    Raises:
        OSError: It cannot be written; earlier checkpoints are as they were.
    """
    root = Path(root)
    folder = root / f"step-{step:08d}"
    try:
        with write_folder(folder) as unfinished:
            save(unfinished)
            _flush_files(unfinished)
        _flush(root)
    except Exception as error:  # on a full disk torch and safetensors raise errors of their own
        raise OSError(
            f"the checkpoint of step {step} could not be written ({error}); earlier ones in {root} "
            "are whole: see to the disk, then go on with --resume"
        ) from error
    best_folder = None if best is None else root / f"step-{best:08d}"
    for old in list_checkpoints(root)[:-keep]:
        if old != best_folder:
            remove_checkpoint(old)
    if best_folder is not None and best_folder.is_dir():
        _point_at(root / "best", best_folder.name)
    return folder


def remove_checkpoint(folder: Path) -> None:
    """Delete a checkpoint so that a kill leaves none with half of its files."""
    hidden = folder.with_name(f".{folder.name}.old")
    _remove(hidden)
    folder.rename(hidden)
    _remove(hidden)


def remove_leftovers(root: str | Path) -> None:
    """Delete what a killed run was about to write or to delete."""
    for pattern in (".step-*", ".best.*"):
        for path in Path(root).glob(pattern):
            _remove(path)


def _remove(path: Path) -> None:
    """Delete a folder or a file; of a link the link alone."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def list_checkpoints(root: str | Path) -> list[Path]:
    """Return the finished checkpoints of a folder, oldest first."""
    if not Path(root).is_dir():
        return []
    found = [
        path for path in Path(root).iterdir() if STEP_FOLDER.fullmatch(path.name) and path.is_dir()
    ]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def _point_at(link: Path, name: str) -> None:
    """Make a symbolic link to a sibling, also where a copy has replaced the link by a folder.

    Logs one warning on drives without symbolic links.
    """
    unfinished, replaced = (link.with_name(f".{link.name}.{end}") for end in ("new", "old"))
    _remove(unfinished)
    try:
        unfinished.symlink_to(name)
    except OSError as error:
        logger.warning("%s: the drive has no links (%s); best checkpoint: %s", link, error, name)
        return
    if link.is_dir() and not link.is_symlink():
        _remove(replaced)
        link.rename(replaced)
    unfinished.replace(link)
    _remove(replaced)


def _flush_files(folder: Path) -> None:
    """Have the disk write down a folder and everything in it."""
    for path in (*folder.rglob("*"), folder):
        _flush(path)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class SavedState:
    """A checkpoint to resume from.

    Attributes:
        folder: The checkpoint.
        state: How far the run had come.
        facts: Options, corpus and threads of the run: `options`, `corpus`, `threads`.
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
                f"{file} is not read: it contains more than tensors and plain values, and "
                "unpickling it could run code"
            ) from error
        except (OSError, RuntimeError, EOFError) as error:
            raise ValueError(f"{file} cannot be read ({error})") from error
        if not isinstance(content, dict) or "optimizer" not in content:
            raise ValueError(f"{file} contains no optimiser state")
        return content


def write_saved_state(
    folder: Path, *, optimizer: dict[str, object], state: RunState, facts: dict[str, object]
) -> None:
    """Write the run state into the folder of a checkpoint that already contains the model."""
    inside = folder / STATE_FOLDER
    inside.mkdir()
    torch.save(optimizer, inside / OPTIMIZER)
    write_json(inside / STATE, {"state": state.as_json(), "facts": facts})
    write_json(inside / FILES, {name: _fingerprint(folder / name) for name in _names(folder)})


def newest_good_checkpoint(root: Path) -> SavedState | None:
    """Return the last undamaged checkpoint; log a warning for each damaged one."""
    for folder in reversed(list_checkpoints(root)):
        if not (folder / STATE_FOLDER).is_dir():
            continue
        try:
            return _read_saved_state(folder)
        except ValueError as error:
            logger.warning("%s is damaged (%s); resume skips it", folder, error)
    return None


def _read_saved_state(folder: Path) -> SavedState:
    """Return the run state of a checkpoint.

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
    """Return the first fault in the files of a checkpoint, None if all are unchanged."""
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
    """Delete the optimiser states, which are large, of all but the last checkpoints."""
    for folder in list_checkpoints(root)[:-keep]:
        shutil.rmtree(folder / STATE_FOLDER, ignore_errors=True)


def _names(folder: Path) -> Iterator[str]:
    """Yield the paths of all files in a folder and its subfolders."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix()


def _fingerprint(path: Path) -> dict[str, object]:
    """Return size and checksum of a file."""
    return {"bytes": path.stat().st_size, "sha256": file_digest(path)}
