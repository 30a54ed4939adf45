"""Find a model by its name, and load it with its tokenizer.

Every command reads models with `load_model`, `load_tokenizer_of` and `load_config`, which turn
every fault in a folder into a `ValueError`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import torch
from huggingface_hub import HfApi, snapshot_download
from safetensors import SafetensorError, safe_open
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import cached_file

from hf_vanilla_transformer.model.finite import is_finite
from hf_vanilla_transformer.model.guard_rules import refusals

HUB_SECONDS = 10
# Left out, the library asks on standard input, which may be the text to translate.
UNTRUSTED = {"trust_remote_code": False}

# int8 is made of float32.
DTYPES = {
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.float32,
}


def load_for_translation(
    name: str, *, dtype: Literal["fp32", "bf16", "fp16", "int8"] = "fp32", device: str | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model and its tokenizer.

    Args:
        name: A folder, or the name of a repository on the Hub.
        dtype: Type of the weights. Other types than "fp32" may make a translation depend on the
            other sentences of its batch.
        device: Name of a torch device; None means the accelerator, else the CPU.

    Raises:
        ValueError: The folder or repository is not found, the device does not exist, the model does
            not support the type, or it is damaged.
        OSError: The folder contains no model.
    """
    place = find_device(device)
    found = find_model(name)
    if dtype == "int8" and place.type != "cpu":
        raise ValueError(f"--dtype int8 runs on CPUs, not on {place}: add --device cpu")
    model = load_model(found, dtype=DTYPES[dtype])
    tokenizer = load_tokenizer_of(found)
    if dtype == "int8":
        if not hasattr(model, "quantize_int8"):
            raise ValueError(
                f"{name} is a {type(model).__name__}, which has no int8; use fp32 or bf16"
            )
        model = model.quantize_int8()
    return model.to(place), tokenizer


def load_model(name: str | Path, *, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """Load a model; refuse one with missing weights, which would be initialised at random.

    Args:
        name: What `find_model` returned.
        dtype: Type of the weights.

    Raises:
        ValueError: A file is damaged, or a tensor is missing, unknown or not finite; the message
            names it.
        OSError: There is no such model.
    """
    with refusals(str(name)):
        for file in Path(name).glob("*.safetensors"):
            with naming_damage(file), safe_open(file, framework="pt"):
                pass
        model, found = AutoModelForSeq2SeqLM.from_pretrained(
            name, dtype=dtype, output_loading_info=True, **UNTRUSTED
        )
    if faults := list(faults_of_model(model, found)):
        raise ValueError(
            f"{name} is damaged: {'; '.join(faults[:3])}; copy or download it again, or take "
            "another checkpoint"
        )
    return model


def load_tokenizer_of(name: str | Path) -> PreTrainedTokenizerBase:
    """Load the tokenizer of a model, as `load_model`."""
    with refusals(str(name)):
        return AutoTokenizer.from_pretrained(name, **UNTRUSTED)


def load_config(name: str | Path) -> PretrainedConfig:
    """Load the config of a model, as `load_model`."""
    with refusals(str(name)):
        return AutoConfig.from_pretrained(name, **UNTRUSTED)


def faults_of_model(model: PreTrainedModel, found: dict[str, object]) -> Iterator[str]:
    """Return messages on tensors that are missing, unknown or not finite.

    Args:
        model: As loaded.
        found: The loading info of `from_pretrained`.
    """
    for kind, names in (
        ("missing from", found["missing_keys"]),
        ("unknown in", found["unexpected_keys"]),
    ):
        if names:
            yield f"tensors {kind} the weights: {', '.join(sorted(names))}"
    for name, parameter in model.named_parameters():
        if not is_finite(parameter):
            wrong = parameter.numel() - int(torch.isfinite(parameter).sum())
            yield f"{name}: {wrong} of {parameter.numel()} numbers are not finite"


@contextmanager
def naming_damage(place: str | Path) -> Iterator[None]:
    """Turn errors of safetensors on damaged weights into a ValueError with their place."""
    try:
        yield
    except SafetensorError as error:
        raise ValueError(
            f"{place}: the weights are damaged ({error}); copy or download them again, or take "
            "another checkpoint"
        ) from error


def find_device(name: str | None) -> torch.device:
    """Return a device by its name; None is the accelerator if the machine has one.

    Raises:
        ValueError: The machine has no such device.
    """
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        number = torch.ones(1, device=name)
        number.item()  # of "meta" there are shapes, and no numbers
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"there is no device {name} here ({reason}); cpu always is") from error
    return number.device


def find_model(name: str) -> str:
    """Return what `from_pretrained` takes for a model: its name, or where the Hub's cache has it.

    The Hub is asked once, where `from_pretrained` would try again for a minute.

    Args:
        name: A folder, or the name of a repository on the Hub.

    Raises:
        ValueError: There is no such folder, and no such repository on the Hub or in its cache; or
            the folder holds no model.
    """
    if Path(name).is_dir():
        check_holds_model(Path(name))
        return name
    if name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise ValueError(f"there is no folder {name}; give a saved model folder or a Hub name")
    try:
        HfApi().model_info(name, timeout=HUB_SECONDS)
    except Exception:  # every version of huggingface_hub has network errors of other types
        return _find_in_cache(name)
    return name


def check_holds_model(folder: Path) -> None:
    """Refuse a folder without a model, such as that of a whole training run."""
    if (folder / "config.json").is_file():
        return
    inside = folder / "model"
    hint = f"; did you mean {inside}?" if (inside / "config.json").is_file() else ""
    raise ValueError(f"{folder} holds no model, as it has no config.json{hint}")


def model_stamp(found: str, tokenizer: PreTrainedTokenizerBase) -> dict[str, list[int]]:
    """Return what changes when a model does: size and time of change of each file it is read from.

    These are its weights, its settings and those of the search, and the files of its tokenizer.
    Weights are not read for it.

    Args:
        found: What `find_model` returned; of a Hub name, the files in the cache count.
        tokenizer: As loaded from there, when every file is in the cache.
    """
    folder = folder_of(found).resolve()
    names = ["*.safetensors", "*.bin", "*.index.json", "*config.json", "*token*.json"]
    names += tokenizer.vocab_files_names.values()
    files = sorted({file for name in names for file in folder.glob(name)})
    stats = [(file, file.stat()) for file in files]
    return {str(file): [found.st_size, found.st_mtime_ns] for file, found in stats}


def folder_of(found: str) -> Path:
    """Return the folder of a loaded model, for a Hub name the one in the cache.

    Args:
        found: Return value of `find_model`.
    """
    return Path(cached_file(found, "config.json", local_files_only=True)).parent


def _find_in_cache(name: str) -> str:
    """Return the folder of a repository that was downloaded before."""
    try:
        return snapshot_download(name, local_files_only=True)
    except (ValueError, OSError) as error:
        raise ValueError(
            f"there is no folder {name}, and no such repository could be reached on the Hub"
        ) from error
