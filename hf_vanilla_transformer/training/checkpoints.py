"""Save model folders atomically, keep the last ones, and average their weights."""

import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from hf_vanilla_transformer.writing import write_folder

STEP_FOLDER = re.compile(r"step-(\d+)")


def save_checkpoint(
    save: Callable[[Path], None], root: str | Path, *, step: int, keep: int
) -> Path:
    """Save one model folder as `root/step-<step>` and delete all but the last `keep`.

    Args:
        save: Writes model and tokenizer into the folder that it is given.
        root: Folder of the checkpoints.
        step: Number of the update after which the weights were taken.
        keep: How many checkpoints remain, this one included.
    """
    folder = Path(root) / f"step-{step:08d}"
    with write_folder(folder) as unfinished:
        save(unfinished)
    for old in list_checkpoints(root)[:-keep]:
        shutil.rmtree(old)
    return folder


def list_checkpoints(root: str | Path) -> list[Path]:
    """Return the finished checkpoints of a folder, oldest first."""
    if not Path(root).is_dir():
        return []
    found = [path for path in Path(root).iterdir() if STEP_FOLDER.fullmatch(path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def average_weights(checkpoints: Sequence[str | Path]) -> dict[str, Tensor]:
    """Return the mean of the weights of several model folders, in the dtype of the first.

    The paper averages the last 5 checkpoints of base and the last 20 of big (Vaswani et al. 2017,
    §6.1). Sums are kept in float64.

    Raises:
        ValueError: No checkpoint is given, one holds no safetensors file, or their tensors differ
            in name or shape.
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
    """
    weights = average_weights(checkpoints)
    with write_folder(output) as unfinished:
        shutil.copytree(
            checkpoints[-1],
            unfinished,
            ignore=shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json"),
            dirs_exist_ok=True,
        )
        save_file(weights, unfinished / "model.safetensors", metadata={"format": "pt"})


def _load_weights(checkpoint: str | Path) -> dict[str, Tensor]:
    """Read every tensor of a model folder, in one safetensors file or several."""
    files = sorted(Path(checkpoint).glob("*.safetensors"))
    if not files:
        raise ValueError(f"{checkpoint} holds no .safetensors file; give a saved model folder")
    return {name: tensor for file in files for name, tensor in load_file(file).items()}


def _check_same_tensors(first: dict[str, Tensor], second: dict[str, Tensor], where: str) -> None:
    """Refuse checkpoints of two different architectures."""
    for name in sorted(first.keys() | second.keys()):
        shapes = [tuple(w[name].shape) if name in w else "absent" for w in (first, second)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"{where} are of different models: {name} is {shapes[0]} and {shapes[1]}"
            )
