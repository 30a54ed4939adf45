"""The tokenizer class travels: saved, loaded, saved again, with and without the package."""

import json
import os
import subprocess
import sys

import pytest
from transformers import AutoTokenizer

from hf_vanilla_transformer import VanillaTransformerConfig, VanillaTransformerTokenizer
from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

SENTENCES = ["我爱猫。", "I love cats, don't you?", " two  spaces\tand ▁", "x</s> <pad><s>y<unk>"]
SPECIAL_STRINGS = ["</s>", "<pad>", "<s>", "<unk>", "end</s>", "a <pad> b<s>c<unk> d"]
WITHOUT_PACKAGE = """
import json, sys
sys.modules["hf_vanilla_transformer"] = None
from transformers import AutoTokenizer
source, target, sentences = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=True)
assert type(tokenizer).__module__.startswith("transformers_modules")
tokenizer.save_pretrained(target)
print(json.dumps(tokenizer(sentences)["input_ids"]))
"""


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(SENTENCES * 3, vocab_size=400, max_length=32)


@pytest.fixture
def checkpoint(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path / "first")
    VanillaTransformerConfig(vocab_size=400).save_pretrained(tmp_path / "first")
    return tmp_path / "first"


def ways_to_encode(tokenizer, text):
    yield tokenizer(text)["input_ids"]
    yield tokenizer.encode(text)
    yield tokenizer([text, "I"])["input_ids"][0]
    yield tokenizer("I", text_target=text)["labels"]
    yield tokenizer(text_target=[text])["input_ids"][0]
    yield tokenizer.convert_tokens_to_ids(tokenizer.tokenize(text)) + [tokenizer.eos_token_id]
    if hasattr(tokenizer, "batch_encode_plus"):
        yield tokenizer.batch_encode_plus([text])["input_ids"][0]


def assert_special_strings_are_text(tokenizer):
    for text in SPECIAL_STRINGS:
        for ids in ways_to_encode(tokenizer, text):
            assert ids[-1] == 3
            assert all(index > 3 for index in ids[:-1])
            assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_special_strings_typed_by_a_user_are_text(tokenizer):
    assert_special_strings_are_text(tokenizer)


def test_special_strings_stay_text_after_saving_and_loading(checkpoint, tmp_path):
    once = AutoTokenizer.from_pretrained(checkpoint)
    assert_special_strings_are_text(once)
    once.save_pretrained(tmp_path / "second")
    assert_special_strings_are_text(
        VanillaTransformerTokenizer.from_pretrained(tmp_path / "second")
    )


def test_special_strings_are_text_for_a_bare_tokenizer_file(checkpoint):
    file = str(checkpoint / "tokenizer.json")
    bare = VanillaTransformerTokenizer(tokenizer_file=file, eos_token="</s>", pad_token="<pad>")
    ids = bare("a</s>")["input_ids"]
    assert ids.count(3) == 1


def test_the_installed_class_loads_without_trust(tokenizer, checkpoint):
    loaded = AutoTokenizer.from_pretrained(checkpoint)
    assert type(loaded) is VanillaTransformerTokenizer
    assert loaded(SENTENCES).data == tokenizer(SENTENCES).data
    assert loaded.model_max_length == 32


def test_a_folder_loads_and_saves_without_the_package(tokenizer, checkpoint, tmp_path):
    arguments = [str(checkpoint), str(tmp_path / "second"), json.dumps(SENTENCES)]
    (checkpoint / "config.json").unlink()
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE, *arguments],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == tokenizer(SENTENCES)["input_ids"]
    assert_travels(tmp_path / "second")
    assert_special_strings_are_text(
        VanillaTransformerTokenizer.from_pretrained(tmp_path / "second")
    )


def assert_travels(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    reference = "tokenization_vanilla_transformer.VanillaTransformerTokenizer"
    assert config["auto_map"] == {"AutoTokenizer": [reference, None]}
    assert config["tokenizer_class"] == "VanillaTransformerTokenizer"
    assert (folder / "tokenization_vanilla_transformer.py").is_file()


def test_saved_files_carry_the_class_and_no_path_of_the_machine(checkpoint, tmp_path):
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(tmp_path / "second")
    for folder in (checkpoint, tmp_path / "second"):
        assert_travels(folder)
        for file in folder.iterdir():
            assert str(tmp_path) not in file.read_text(), file
            assert file.suffix == ".py" or "name_or_path" not in file.read_text(), file


def test_saving_does_not_depend_on_the_last_call(tokenizer, checkpoint, tmp_path):
    tokenizer(SENTENCES, padding=True, truncation=True, max_length=4)
    tokenizer.save_pretrained(tmp_path / "second")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "second" / name).read_text() == (checkpoint / name).read_text()


def test_padding_follows_the_text_and_no_token_types_are_returned(tokenizer):
    batch = tokenizer(["I", "I love cats"], padding=True, return_tensors="pt")
    assert set(batch) == {"input_ids", "attention_mask"}
    assert batch["input_ids"].eq(0).equal(batch["attention_mask"].eq(0))
    assert batch["attention_mask"][0, 0] == 1
    assert batch["attention_mask"][0, -1] == 0
