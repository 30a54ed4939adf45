"""Tokens that a user adds, special or not, are found in text and survive saving."""

import json

import pytest
from transformers import AddedToken, AutoTokenizer

from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

TAG = "<2fr>"
WAYS = {
    "add_tokens": lambda t, _: t.add_tokens([TAG]),
    "special_tokens": lambda t, _: t.add_tokens([TAG], special_tokens=True),
    "AddedToken": lambda t, _: t.add_tokens(AddedToken(TAG, special=True, normalized=False)),
    "additional": lambda t, _: t.add_special_tokens({"additional_special_tokens": [TAG]}),
    "mask": lambda t, _: t.add_special_tokens({"mask_token": TAG}),
    "loading, additional": lambda _, folder: AutoTokenizer.from_pretrained(
        folder, additional_special_tokens=[TAG]
    ),
    "loading, extra": lambda _, folder: AutoTokenizer.from_pretrained(
        folder, extra_special_tokens=[TAG]
    ),
    "loading, named": lambda _, folder: AutoTokenizer.from_pretrained(
        folder, extra_special_tokens={"french_token": TAG}
    ),
}
TEXTS = (f"{TAG} I love cats", f"{TAG}I love cats", f"я{TAG}  {TAG} 猫 </s> <pad>{TAG}", f" {TAG} ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tokenizer")
    train_tokenizer(["I love cats.", "We saw cars."] * 5, vocab_size=300).save_pretrained(folder)
    return folder


def check(tokenizer, *, is_special):
    tag = tokenizer.convert_tokens_to_ids(TAG)
    assert tag == len(tokenizer) - 1
    for text in TEXTS:
        ids = tokenizer(text).input_ids
        assert ids.count(tag) == text.count(TAG)
        assert set(ids[:-1]).isdisjoint(range(4))
        assert tokenizer.decode(ids[:-1]) == text
        shown = tokenizer.decode(ids, skip_special_tokens=True)
        # The space after a tag at the start goes with it.
        plain = text.removeprefix(f"{TAG} ").replace(TAG, "")
        assert shown == (plain if is_special else text)
    assert tokenizer.tokenize(TEXTS[0]) == [TAG, "▁I", "▁love", "▁cats"]


@pytest.mark.parametrize("way", WAYS)
def test_an_added_token_is_found_in_text_and_survives_saving(folder, tmp_path, way):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    added = WAYS[way](tokenizer, folder)
    tokenizer = tokenizer if isinstance(added, int) else added
    for place in (tmp_path / "once", tmp_path / "twice"):
        tokenizer.split_special_tokens = False
        check(tokenizer, is_special=way != "add_tokens")
        tokenizer.save_pretrained(place)
        tokenizer = AutoTokenizer.from_pretrained(place)
    check(tokenizer, is_special=way != "add_tokens")


@pytest.mark.parametrize("name", ["additional_special_tokens", "extra_special_tokens"])
def test_either_name_of_the_list_in_a_saved_folder_is_read(folder, tmp_path, name):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([TAG], special_tokens=True)
    tokenizer.save_pretrained(tmp_path)
    file = tmp_path / "tokenizer_config.json"
    settings = json.loads(file.read_text("utf-8"))
    lists = [
        settings.pop(key, None) for key in ("additional_special_tokens", "extra_special_tokens")
    ]
    assert [TAG] in lists
    settings[name] = [TAG]
    settings.pop("added_tokens_decoder", None)
    file.write_text(json.dumps(settings), "utf-8")
    (tmp_path / "special_tokens_map.json").unlink(missing_ok=True)
    check(AutoTokenizer.from_pretrained(tmp_path), is_special=True)


def test_adding_an_own_special_token_again_leaves_it_text(folder, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.add_tokens(["</s>"]) == 0
    assert tokenizer.add_special_tokens({"additional_special_tokens": ["<pad>"]}) == 0
    for _ in range(2):
        ids = tokenizer("</s> <pad>").input_ids
        assert set(ids[:-1]).isdisjoint(range(4))
        tokenizer.save_pretrained(tmp_path)
        tokenizer = AutoTokenizer.from_pretrained(tmp_path)


def test_a_placeholder_made_of_letters_is_found_wherever_it_stands(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(["XPERSONX"])
    for text in ("XPERSONX", "I love XPERSONX", "(XPERSONX) cats", "猫XPERSONX"):
        assert "XPERSONX" in tokenizer.tokenize(text)
        assert tokenizer.decode(tokenizer(text).input_ids, skip_special_tokens=True) == text
