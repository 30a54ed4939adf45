"""A sound model folder, and files outside it that no load may open."""

import ctypes
import os
import shutil

import pytest
from tiny import build_model

from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

IN_OPEN = 0x20


class Outside:
    """A folder of sound files, watched: its values are what hostile settings name."""

    def __init__(self, folder):
        self.folder = folder
        self.names = sorted(path.name for path in folder.iterdir())
        libc = ctypes.CDLL(None, use_errno=True)
        self.events = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self.events, os.fsencode(folder), IN_OPEN) > 0

    def was_opened(self):
        """Tell whether any file was opened since the last question, by whatever process."""
        try:
            return bool(os.read(self.events, 1 << 16))
        except BlockingIOError:
            return False


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("security") / "saved"
    tokenizer = train_tokenizer(["a b c"] * 3, vocab_size=290)
    sizes = {"d_model": 16, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    for part in (build_model(vocab_size=len(tokenizer), **sizes), tokenizer):
        part.save_pretrained(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


@pytest.fixture
def outside(saved, tmp_path):
    folder = shutil.copytree(saved, tmp_path / "outside")
    (folder / "tokenizer.4.0.json").write_bytes((folder / "tokenizer.json").read_bytes())
    watched = Outside(folder)
    yield watched
    os.close(watched.events)
