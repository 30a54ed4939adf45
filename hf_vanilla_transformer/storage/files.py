"""Write files and folders so that a reader never meets half of one."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

LOCK = ".lock"


def real_place(path: str | Path) -> Path:
    """Return what a symbolic link points at, so that it is replaced and not the link."""
    path = Path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextmanager
def locked(path: str | Path, message: str) -> Iterator[None]:
    """Hold a lock file, which the system sets free if its holder is killed.

    Raises:
        ValueError: Another run holds it; the text is `message`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise ValueError(message) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def waiting_for(path: str | Path) -> Iterator[None]:
    """Wait for a lock file, and lock it for the block; the file is not deleted."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


def only_run_in(folder: str | Path) -> AbstractContextManager[None]:
    """Lock a folder against other runs; create it if it is missing.

    Raises:
        ValueError: Another run has locked it.
    """
    busy = f"another run is writing to {folder}; wait for its end, or name another --output"
    return locked(Path(folder) / LOCK, busy)


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def write_folder(path: str | Path) -> Iterator[Path]:
    """Yield a temporary sibling that takes the place of `path` when the block ends well.

    A reader, or a kill at any instant, meets the old folder, no folder, or the whole new one.

    Raises:
        ValueError: It is the current folder, which cannot be replaced under its user's feet.
    """
    path = real_place(path)
    if path.exists() and path.samefile("."):
        raise ValueError(f"{path} is the current folder; name a new one")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, replaced = path.with_name(f".{path.name}.new"), path.with_name(f".{path.name}.old")
    for leftover in (unfinished, replaced):
        shutil.rmtree(leftover, ignore_errors=True)
    unfinished.mkdir()
    try:
        yield unfinished
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    if path.exists():
        path.rename(replaced)
    unfinished.rename(path)
    shutil.rmtree(replaced, ignore_errors=True)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text under a temporary name, then rename it to `path`; devices are written to."""
    path = real_place(path)
    if path.exists() and not path.is_file():
        path.write_bytes(text.encode())
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.new")
    try:
        unfinished.write_bytes(text.encode())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: str | Path, content: object) -> None:
    """Write indented JSON that keeps every character readable.

    Raises:
        ValueError: The value contains NaN or infinity, which JSON cannot represent.
    """
    try:
        text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
    except ValueError as error:
        raise ValueError(f"{path} is not written: {error}") from error
    write_text(path, text + "\n")
