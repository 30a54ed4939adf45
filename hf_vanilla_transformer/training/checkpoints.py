"""Save model folders atomically, keep the last ones and the best, and average their weights."""

import logging
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from hf_vanilla_transformer.loading import naming_damage
from hf_vanilla_transformer.model.finite import is_finite
from hf_vanilla_transformer.writing import write_folder

logger = logging.getLogger(__name__)

NOT_AVERAGED = ("*.safetensors", "*.safetensors.index.json", "training_state")
STEP_FOLDER = re.compile(r"step-(\d+)")


def save_checkpoint(
    save: Callable[[Path], None], root: str | Path, *, step: int, keep: int, best: int | None = None
) -> Path:
    """Save one model folder as `root/step-<step>`; delete all but the last `keep` and the best.

    A kill at any instant, or a power failure, leaves the old checkpoints or the new one.

    Args:
        save: Writes model and tokenizer into the folder that it is given.
        root: Folder of the checkpoints.
        step: Number of the update after which the weights were taken.
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


def average_weights(checkpoints: Sequence[str | Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several model folders, in the dtype of the first.

    The paper averages the last 5 checkpoints of base and the last 20 of big (Vaswani et al. 2017,
    §6.1). Sums are kept in float64.

    Raises:
        ValueError: No checkpoint is given, one holds no safetensors file, a damaged one or numbers
            that are not finite, or their tensors differ in name or shape.
    """
    if not checkpoints:
        raise ValueError("no checkpoint to average")
    first = _load_weights(checkpoints[0])
    total = {name: tensor.double() for name, tensor in first.items()}
    for checkpoint in checkpoints[1:]:
        weights = _load_weights(checkpoint)
        _check_same_tensors(first, weights, f"{checkpoint} and {checkpoints[0]}")
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
            raise OSError(f"{output} could not be written ({error}); see to the disk") from error


def check_weights(checkpoint: str | Path) -> None:
    """Refuse a model folder whose weights are missing or not as long as they should be.

    Raises:
        ValueError: They are.
    """
    for file in _weight_files(checkpoint):
        with naming_damage(file), safe_open(file, framework="pt"):
            pass


def _point_at(link: Path, name: str) -> None:
    """Let a symbolic link point at a sibling, also where a copy has made a folder of the link.

    Some network drives have no links; a line says so.
    """
    unfinished, replaced = (link.with_name(f".{link.name}.{end}") for end in ("new", "old"))
    _remove(unfinished)
    try:
        unfinished.symlink_to(name)
    except OSError as error:
        logger.warning("%s: the drive has no links (%s); the best is %s", link, error, name)
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


def _load_weights(checkpoint: str | Path) -> dict[str, Tensor]:
    """Read every tensor of a model folder, in one safetensors file or several."""
    weights = {}
    for file in _weight_files(checkpoint):
        with naming_damage(file):
            weights |= load_file(file)
    for name in (name for name, tensor in weights.items() if not is_finite(tensor)):
        raise ValueError(f"{checkpoint}: {name} has numbers that are not finite; leave it out")
    return weights


def _weight_files(checkpoint: str | Path) -> list[Path]:
    files = sorted(Path(checkpoint).glob("*.safetensors"))
    if not files:
        raise ValueError(f"{checkpoint} holds no .safetensors file; give a saved model folder")
    return files


def _check_same_tensors(first: dict[str, Tensor], second: dict[str, Tensor], where: str) -> None:
    """Refuse checkpoints of two different architectures."""
    for name in sorted(first.keys() | second.keys()):
        shapes = [tuple(w[name].shape) if name in w else "absent" for w in (first, second)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{where} are of different models: {name} is {shapes[0]} and {shapes[1]}"
            )
