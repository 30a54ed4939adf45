"""Text that is shown while it is generated is the text that is decoded at the end."""

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers.decoders import DecodeStream
from transformers import TextIteratorStreamer, TextStreamer

from hf_vanilla_transformer.tokenization.bpe import train_tokenizer

FRAGMENTS = (
    *(
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "▁",
        "␛",
        "␛_",
        "␛-",
        "</s>",
        "cats",
        "Zebra",
        "Q",
        "3",
    ),
    *(
        "кот",
        "猫",
        "小猫",
        "カメラ",
        "안녕",
        "ภาษา",
        "a\u0301",
        "👨\u200d👩\u200d👧",
        "(",
        ".",
        "'s",
    ),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=12).map("".join)


class Collecting(TextStreamer):
    def __init__(self, tokenizer):
        super().__init__(tokenizer, skip_special_tokens=True)
        self.text = ""

    def on_finalized_text(self, text, stream_end=False):
        self.text += text


@pytest.fixture(scope="module")
def tokenizer():
    sentences = ["I love cats and dogs.", "We saw 24 blue cars.", "我爱小猫。", "小猫没追上汽车。"]
    return train_tokenizer(sentences * 5, vocab_size=350)


def stream(streamer, ids):
    for index in ids:
        streamer.put(torch.tensor([index]))
    streamer.end()


@settings(max_examples=100, deadline=None)
@given(text=TEXTS)
@example("Zebra")
@example(" cats")
@example("a\n cats")
@example("我爱\n小 ␛")
def test_streamed_text_is_the_decoded_text(tokenizer, text):
    ids = tokenizer(text).input_ids
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    printed, iterated = (
        Collecting(tokenizer),
        TextIteratorStreamer(tokenizer, skip_special_tokens=True),
    )
    stream(printed, ids)
    stream(iterated, ids)
    assert printed.text == text
    assert "".join(iterated) == text
    if text.endswith("\ufffd"):  # DecodeStream waits for the rest of the character
        return
    decoding = DecodeStream(skip_special_tokens=True)
    pieces = (decoding.step(tokenizer.backend_tokenizer, index) for index in ids)
    assert "".join(piece or "" for piece in pieces) == text


@settings(max_examples=50, deadline=None)
@given(text=TEXTS.filter(lambda text: "\ufffd" not in text))
def test_more_tokens_only_add_text(tokenizer, text):
    ids = tokenizer(text).input_ids
    for end in range(len(ids)):
        shown = tokenizer.decode(ids[:end], skip_special_tokens=True)
        assert text.startswith(shown.rstrip("\ufffd"))


@pytest.mark.parametrize("text", ["北京大学", "Привет мир", "cats Привет", "a👍🏽b"])
def test_text_that_ends_within_a_character_keeps_the_characters_before_it(text):
    tokenizer = train_tokenizer(["I love cats and dogs."] * 5, vocab_size=330)
    ids, shown = tokenizer(text_target=text).input_ids, ""
    for end in range(len(ids) + 1):
        found = tokenizer.decode(ids[:end], skip_special_tokens=True).removesuffix("\ufffd")
        assert found.startswith(shown)
        assert text.startswith(found)
        shown = found
    assert shown == text
