"""Text is cut where a reader would cut it, in pieces of bounded length, and restored exactly."""

import pytest

from hf_vanilla_transformer.tokenization.pretokenize import (
    build_decoder,
    build_normalizer,
    build_pre_tokenizer,
)


def cut(text, *, isolate_han=False):
    normalized = build_normalizer().normalize_str(text)
    pieces = build_pre_tokenizer(isolate_han).pre_tokenize_str(normalized)
    return [piece for piece, _ in pieces]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("I love cats.", "▁I|▁love|▁cats|."),
        ("(Really?!)", "(|Really|?|!|)"),
        ("wait...", "▁wait|..."),
        ("in 2019,", "▁in|▁2|0|1|9|,"),
        ("I don't, Tom’s 'til", "▁I|▁don|'t|,|▁Tom|’s|▁'|til"),
        ("a  b", "▁a|▁|▁b"),
        ("我爱猫，很爱。", "我爱猫|，|很爱|。"),
        ("用GPU跑3次", "用|GPU|跑|3|次"),
        ("コーヒーを飲む。", "コーヒーを飲む|。"),
        ("cafe\u0301 ❤\ufe0fyes", "▁cafe\u0301|▁❤\ufe0f|yes"),
        ("x_y▁", "▁x|_|y|␛|_"),
    ],
)
def test_pieces_end_where_words_signs_and_digits_do(text, pieces):
    assert cut(text) == pieces.split("|")


def test_isolated_han_stand_alone_among_other_scripts():
    assert cut("我爱猫、カメラを持つcat", isolate_han=True) == list("我爱猫、") + [
        "カメラを",
        "持",
        "つ",
        "cat",
    ]


@pytest.mark.parametrize("unit", ["猫", "a", "!", "カ", "\u0301", "7", " ", "a\u0301", "\n"])
@pytest.mark.parametrize("isolate_han", [False, True])
def test_a_line_without_breaks_is_cut_into_bounded_pieces(unit, isolate_han):
    text = unit * 20_000
    pieces = cut(text, isolate_han=isolate_han)
    assert max(len(piece) for piece in pieces) <= 130
    assert build_decoder().decode(pieces) == text
