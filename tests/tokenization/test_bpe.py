"""The trained tokenizer loses nothing, splits where it says, and refuses what it cannot do."""

import random
import unicodedata

import pytest

from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

CORPUS = [
    "我爱猫。",
    "我不爱狗，我爱小猫！",
    "小猫没追上汽车。",
    "小猫今天吃了三条鱼。",
    "カメラを持っています。",
    "I love cats.",
    "I don't love dogs; I love kittens!",
    "The kitten's car was (too) fast...",
    "In 2019 the cats ate 365 fish, didn't they?",
    "Ein Kätzchen läuft über die Straße.",
] * 4


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(CORPUS, vocab_size=600, max_length=16)


@pytest.fixture(scope="module")
def isolating():
    return train_tokenizer(CORPUS, vocab_size=600, isolate_han=True)


def round_trip(tokenizer, text):
    return tokenizer.decode(tokenizer(text)["input_ids"], skip_special_tokens=True)


def test_special_tokens_and_bytes_come_first(tokenizer):
    assert tokenizer.convert_ids_to_tokens([0, 1, 2, 3]) == ["<pad>", "<unk>", "<s>", "</s>"]
    assert tokenizer.convert_ids_to_tokens([4, 259]) == ["<0x00>", "<0xFF>"]
    roles = ("pad", "unk", "bos", "eos")
    assert [getattr(tokenizer, f"{role}_token_id") for role in roles] == [0, 1, 2, 3]
    assert 260 < len(tokenizer) == tokenizer.vocab_size <= 600


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "   ",
        " one leading",
        "  two leading",
        "trailing  ",
        "inner   spaces",
        "\ttab and\nnew line\r\n",
        "\u3000全角\u00a0no-break",
        "我 爱 猫",
        " 我爱猫",
        "▁",
        "▁ ▁▁word▁ ▁",
        "␛_ ␛- ␛ ␛▁ ␛␛_",
        "<0xE5> <0x0A><0xGG>",
        "</s>",
        "a</s>b <pad> <unk><s>",
        "\x00\x01\x1b[0m\x7f\u200b\ufeff",
        "👨\u200d👩\u200d👧 ❤\ufe0f 🇨🇳",
        "e\u0301 é ﬁ Å Å",
        "𠮷野家 𝔘𝔫𝔦 \U0010ffff \ufffe",
        "don't Don’t 'tis rock'n'roll",
        "ภาษาไทย 日本語ー kana 한국어",
    ],
)
def test_decoding_gives_back_the_text(tokenizer, isolating, text):
    assert round_trip(tokenizer, text) == text
    assert round_trip(isolating, text) == text


def test_random_unicode_survives(tokenizer, isolating):
    draw = random.Random(7)
    fragments = [
        "▁",
        "␛",
        "␛_",
        "␛-",
        " ",
        "  ",
        "<0x41>",
        "</s>",
        "<pad>",
        "\u200d",
        "'s",
        "1",
        "猫",
    ]
    fragments += ["cat", "\n", "Ä", "ー", "\u0301", "-", "_", "..."]
    blocks = ((0, 0x250), (0x300, 0x370), (0xE00, 0xE80), (0x3000, 0x3100), (0x4E00, 0x9FFF))
    blocks += ((0xE000, 0x10000), (0x1F300, 0x1FAFF), (0x10000, 0x110000))
    for _ in range(1500):
        parts = [
            draw.choice(fragments)
            if draw.random() < 0.6
            else chr(draw.randrange(*draw.choice(blocks)))
            for _ in range(draw.randrange(1, 12))
        ]
        text = "".join(parts)
        ids = tokenizer(text)["input_ids"]
        assert all(index > 3 for index in ids[:-1]), repr(text)
        assert tokenizer.decode(ids, skip_special_tokens=True) == text
        assert round_trip(isolating, text) == text


def test_invalid_bytes_from_a_model_decode_to_replacement_characters(tokenizer):
    half_a_character = tokenizer.convert_tokens_to_ids(["<0xE5>", "<0x91>"])
    assert set(tokenizer.decode(half_a_character)) == {"\ufffd"}


def test_a_word_is_one_token_wherever_it_stands(tokenizer):
    first, later = tokenizer.tokenize("love cats"), tokenizer.tokenize("I love cats")
    assert first == ["▁love", "▁cats"]
    assert later[-2:] == first


def test_chinese_gets_no_mark_and_stays_legible(tokenizer, isolating):
    assert "".join(tokenizer.tokenize("我爱小猫。")) == "我爱小猫。"
    assert isolating.tokenize("我爱小猫。") == list("我爱小猫。")
    assert len(tokenizer.tokenize("我爱小猫。")) < 5


def kind(character):
    script = unicodedata.name(character).split()[0]
    if script in ("CJK", "HIRAGANA", "KATAKANA"):
        return script
    return {"L": "letter", "M": "letter", "N": "digit"}.get(
        unicodedata.category(character)[0], "sign"
    )


@pytest.mark.parametrize("isolate_han", [False, True])
def test_no_learned_token_mixes_words_signs_and_digits(isolate_han):
    tokenizer = train_tokenizer(CORPUS, vocab_size=5000, isolate_han=isolate_han)
    learned = tokenizer.convert_ids_to_tokens(range(260, len(tokenizer)))
    longest_han = 0
    for token in learned:
        assert not any(character.isspace() for character in token)
        body = token.removeprefix("▁")
        if body.startswith("'"):
            continue
        kinds = {kind(character) for character in body}
        assert len(kinds) <= 1 or kinds <= {"CJK", "HIRAGANA", "KATAKANA"}, token
        assert kinds != {"digit"} or len(body) == 1
        longest_han = max(longest_han, len(body) if "CJK" in kinds else 0)
    assert longest_han == 1 if isolate_han else longest_han > 1


def test_characters_rarer_than_one_in_a_million_are_spelt_in_bytes():
    common, rare = "鱼", "鱻"
    tokenizer = train_tokenizer([common * 1_000_001, rare], vocab_size=400)
    assert tokenizer.tokenize(rare) == ["<0xE9>", "<0xB1>", "<0xBB>"]
    assert tokenizer.tokenize(common) == [common]
    assert "鱻" in train_tokenizer([common * 1_000, rare], vocab_size=400).get_vocab()


def test_training_twice_gives_the_same_file():
    first, second = (
        train_tokenizer(iter(CORPUS), vocab_size=500).backend_tokenizer.to_str() for _ in range(2)
    )
    assert first == second


def test_end_token_closes_source_and_target_and_survives_truncation(tokenizer):
    long = "I love cats and dogs and fish and cars and kittens, don't I?"
    whole = tokenizer(long, verbose=False)["input_ids"]
    assert len(whole) > 16
    cut = tokenizer(long, text_target="我爱猫。", truncation=True)
    assert cut["input_ids"] == [*whole[:15], 3]
    assert cut["labels"] == tokenizer("我爱猫。")["input_ids"]
    assert cut["labels"].count(3) == 1
    assert cut["labels"][-1] == 3
    assert set(cut) == {"input_ids", "attention_mask", "labels"}


def test_vocabulary_too_small_for_its_characters_is_refused_with_the_numbers():
    with pytest.raises(ValueError, match=r"vocab_size=262.*4 special.*256 bytes.*4 char.*need 264"):
        train_tokenizer(["ab c"], vocab_size=262)
    assert len(train_tokenizer(["ab c"], vocab_size=264)) == 264
    assert len(train_tokenizer(["ab c"], vocab_size=8000)) == 264


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ([], ValueError, "0 texts"),
        (["", " \n"], ValueError, "2 texts without a visible character"),
        ("corpus.tsv", TypeError, "single string 'corpus.tsv'"),
        (["a", None], TypeError, r"texts\[1\] is None"),
    ],
)
def test_a_corpus_that_holds_no_text_is_refused(texts, error, message):
    with pytest.raises(error, match=message):
        train_tokenizer(texts, vocab_size=500)


def test_a_limit_without_room_for_a_token_is_refused():
    with pytest.raises(ValueError, match="max_length=1 "):
        train_tokenizer(CORPUS, vocab_size=500, max_length=1)
