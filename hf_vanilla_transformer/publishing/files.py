"""What a shared folder may hold: files of these names and sizes, with content of their kind."""

import json
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

from transformers.utils import GENERATION_CONFIG_NAME

from hf_vanilla_transformer.model.tokenization_vanilla_transformer import TARGET_FILE
from hf_vanilla_transformer.storage.models import check_holds_model

PICKLES = ("*.bin", "*.pt", "*.pth", "*.pkl", "*.pickle", "*.ckpt", "*.joblib")
OBJECTS = (
    *("config.json", GENERATION_CONFIG_NAME, "model.safetensors.index.json", "tokenizer.json"),
    *("tokenizer_config.json", TARGET_FILE, "special_tokens_map.json", "added_tokens.json"),
)
LICENCES = tuple(f"LICEN{letter}E{end}" for letter in "SC" for end in ("", ".txt", ".md"))
TEXT_FILES = ("README.md", *LICENCES, ".gitattributes", "*.py")
PICTURES = ("*.png",)
WEIGHT_FILES = ("model.safetensors", "model-*-of-*.safetensors")
MAX_MEGABYTES = {OBJECTS: 200, TEXT_FILES: 1, PICTURES: 10, WEIGHT_FILES: float("inf")}
PNG_BEGIN, PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


def stray_files(folder: str | Path) -> list[str]:
    """Name what no reader of a model needs, one line each; no file but `config.json` is read.

    Raises:
        ValueError: This is no folder of one of our models.
    """
    folder = Path(folder)
    _check_kind(folder)
    return [problem for path in sorted(folder.iterdir()) if (problem := _fault_of_name(path))]


def faults_of_content(folder: Path) -> Iterator[str]:
    """Name files that are not what their names say, and the one that loading would not miss."""
    if not (folder / GENERATION_CONFIG_NAME).is_file():
        yield f"{GENERATION_CONFIG_NAME} is missing; save the model again"
    for path in sorted(folder.iterdir()):
        if _is_one_of(path, PICTURES) and not _is_png(path.read_bytes()):
            yield f"{path.name} is no whole PNG picture; move it away"
        elif _is_one_of(path, OBJECTS) and not _is_object(path.read_bytes()):
            yield f"{path.name} is no JSON object; save the model again"
        elif _is_one_of(path, TEXT_FILES) and not _is_text_content(path.read_bytes()):
            yield f"{path.name} is no text in UTF-8; move it away"


def _check_kind(folder: Path) -> None:
    """Refuse what is no folder of one of our models."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}; give a saved model folder")
    check_holds_model(folder)
    config = folder / "config.json"
    content = config.read_bytes()
    if not _is_object(content):
        raise ValueError(f"{config} is no JSON object; give a saved model folder")
    kind = json.loads(content).get("model_type")
    if kind != "vanilla_transformer":
        raise ValueError(f"{config} has model_type={kind!r}; vanilla_transformer is shared here")


def _fault_of_name(path: Path) -> str | None:
    """Return the fault in a file of this name and size, if any."""
    if path.is_symlink():
        return f"{path.name} is a link, whose target would be sent; put the file in its place"
    if not path.is_file():
        return f"{path.name}/ is no part of a model; move it away"
    if _is_one_of(path, PICKLES):
        return f"{path.name} may run code where it is read (a pickle); delete it"
    limits = [limit for names, limit in MAX_MEGABYTES.items() if _is_one_of(path, names)]
    if not limits:
        return f"{path.name} is no part of a model; move it away"
    megabytes = path.stat().st_size / 1e6
    if megabytes > limits[0]:
        return f"{path.name} has {megabytes:.1f} MB; such a file has at most {limits[0]} MB"
    return None


def _is_one_of(path: Path, names: tuple[str, ...]) -> bool:
    return any(fnmatch(path.name, name) for name in names)


def _is_png(content: bytes) -> bool:
    return content.startswith(PNG_BEGIN) and content.endswith(PNG_END)


def _is_object(content: bytes) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def _is_text_content(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False
