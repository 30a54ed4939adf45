"""A tokenizer that someone brings keeps its ids, gains the end token, or is refused in words."""

import json
import logging

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer, UnigramTrainer, WordLevelTrainer

from hf_vanilla_transformer.tokenization.bpe import load_tokenizer, train_tokenizer

CORPUS = ["I love cats.", "I do not love dogs!", "我爱猫。", "小猫没追上汽车。"] * 8


def foreign_tokenizer(special_tokens, path):
    """Write a byte-level BPE that no code of ours has touched."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(
        vocab_size=320,
        initial_alphabet=alphabet,
        special_tokens=special_tokens,
        show_progress=False,
    )
    backend.train_from_iterator(CORPUS, trainer)
    backend.save(str(path))
    return backend


def test_a_foreign_file_keeps_its_ids_and_gains_the_end_token(tmp_path, caplog):
    specials = ["<extra>", "[PAD]", "<s>", "</s>"]
    backend = foreign_tokenizer(specials, tmp_path / "mine.json")
    tokenizer = load_tokenizer(tmp_path / "mine.json")
    plain = backend.encode("I love 猫").ids
    assert tokenizer("I love 猫")["input_ids"] == [*plain, 3]
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2, 3)
    assert "itself and </s>" in caplog.text
    for text in ("</s> <extra>[PAD]", " 我爱  cats\n"):
        ids = tokenizer(text)["input_ids"]
        assert not set(ids[:-1]) & {0, 1, 2, 3}
        assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_a_foreign_folder_names_its_own_roles(tmp_path, caplog):
    specials = ["<|end|>", "<|fill|>"]
    backend = foreign_tokenizer(specials, tmp_path / "tokenizer.json")
    ends_itself = processors.TemplateProcessing(
        single="$A <|end|>", special_tokens=[("<|end|>", 0)]
    )
    backend.post_processor = ends_itself
    backend.enable_truncation(8)
    backend.save(str(tmp_path / "tokenizer.json"))
    config = {"pad_token": {"content": "<|fill|>"}, "eos_token": "<|end|>", "model_max_length": 40}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with caplog.at_level(logging.INFO):
        tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (1, 0)
    assert tokenizer.bos_token_id == 1
    assert "the target starts with <|fill|>" in caplog.text
    assert "now encodes" not in caplog.text
    assert tokenizer.model_max_length == 40
    assert len(tokenizer("I love cats and dogs and fish")["input_ids"]) > 8
    assert "max_length" not in tokenizer.init_kwargs


@pytest.mark.parametrize(
    ("model", "pre_tokenizer", "trainer", "settings"),
    [
        (models.Unigram(), pre_tokenizers.Metaspace(), UnigramTrainer, {"unk_token": "<unk>"}),
        (
            models.WordLevel(unk_token="<unk>"),
            pre_tokenizers.WhitespaceSplit(),
            WordLevelTrainer,
            {},
        ),
    ],
)
def test_special_strings_are_text_for_models_that_look_words_up(
    tmp_path, model, pre_tokenizer, trainer, settings
):
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    names = ["<pad>", "</s>", "<unk>", "<x>"]
    backend.train_from_iterator(
        CORPUS, trainer(special_tokens=names, show_progress=False, vocab_size=90, **settings)
    )
    backend.save(str(tmp_path / "tokenizer.json"))
    tokenizer = load_tokenizer(tmp_path)
    ids = tokenizer("I love </s> cats. <x> <pad></s>")["input_ids"]
    assert set(ids[:-1]).isdisjoint({0, 1, 3})
    assert tokenizer("I love cats.")["input_ids"] == [*backend.encode("I love cats.").ids, 1]


def test_our_own_folder_comes_back_unchanged(tmp_path, caplog):
    tokenizer = train_tokenizer(CORPUS, vocab_size=400, max_length=16)
    tokenizer.save_pretrained(tmp_path)
    again = load_tokenizer(tmp_path)
    assert again.backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    assert again.special_tokens_map == tokenizer.special_tokens_map
    assert again.model_max_length == 16
    assert not caplog.text


@pytest.mark.parametrize(
    ("specials", "config", "message"),
    [
        (["</s>"], {}, "has no pad_token.*tokenizer_config.json"),
        (["<pad>"], {}, "has no eos_token.*tokenizer_config.json"),
        (["</s>"], {"pad_token": "</s>"}, "'</s>' for padding and as the end"),
        (["<pad>", "</s>"], {"bos_token": "<go>"}, "no entry '<go>', the bos_token"),
    ],
)
def test_a_foreign_tokenizer_without_its_roles_is_refused(tmp_path, specials, config, message):
    foreign_tokenizer(specials, tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        load_tokenizer(tmp_path)


def test_a_path_without_a_tokenizer_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json does not exist"):
        load_tokenizer(tmp_path)
    (tmp_path / "spm.model").write_bytes(b"\x0a\x00")
    with pytest.raises(ValueError, match=r"spm\.model.* is not a tokenizer's"):
        load_tokenizer(tmp_path / "spm.model")
