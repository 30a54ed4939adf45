import time
from types import SimpleNamespace

import pytest

from hf_vanilla_transformer.translation import paragraphs
from hf_vanilla_transformer.translation.paragraphs import (
    join_sentences,
    split_sentences,
    translate_paragraphs,
)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two!  Three?\tFour", ["One.", "Two!", "Three?", "Four"]),
        ('He said: "Go." She went.', ['He said: "Go."', "She went."]),
        ("Dr. Smith met J. R. Jones, e.g. in St. Ives. They left.", [..., "They left."]),
        ("Am 3. Mai war Schluss. Es war 2020. Gut.", [..., "Es war 2020.", "Gut."]),
        ("It cost 3.50 dollars... or so. See www.a.com. Bye", [..., "See www.a.com.", "Bye"]),
        ("我来了。你好吗？“好！”他说。", ["我来了。", "你好吗？", "“好！”", "他说。"]),
        ("Wait...!?) Now. ...And so on.... On", ["Wait...!?)", "Now.", "...And so on....", "On"]),
        ("He came approx. Then (bzw. Da) or unapprox. Then", [..., "Then"]),
        ("one sentence", ["one sentence"]),
        ("", [""]),
        ("The end. ", ["The end. "]),
    ],
)
def test_sentences_end_where_readers_end_them(text, sentences):
    found, gaps = split_sentences(text)
    assert len(found) == len(sentences)
    for one, expected in zip(found, sentences, strict=True):
        assert expected in (one, ...)
    assert len(gaps) == len(found) - 1
    assert "".join(part for pair in zip(found, [*gaps, ""], strict=True) for part in pair) == text


@pytest.mark.parametrize("unit", ["3. ", "A.A. ", ".", "?!", "... ", '."', "。", "End. ", "x"])
def test_a_line_of_eightfold_length_takes_about_eightfold_time(unit):
    def seconds(length):
        text = unit * (length // len(unit))
        trials = []
        for _ in range(3):
            start = time.process_time()
            split_sentences(text)
            trials.append(time.process_time() - start)
        return min(trials)

    # By the square of the length it would be 64.
    assert seconds(24_000) < 24 * (seconds(3_000) + 1e-5)


@pytest.mark.parametrize(
    ("language", "joined"),
    [("en", "A.  B. C"), (None, "A.  B. C"), ("zh-Hans", "A.B.C"), ("ja", "A.B.C")],
)
def test_translations_are_put_together_as_their_language_does(language, joined):
    assert join_sentences(["A.", "B.", "C"], ["  ", ""], target_language=language) == joined


def test_paragraphs_are_translated_sentence_by_sentence(monkeypatch):
    seen = []

    def upper(model, tokenizer, sentences, *, lines, **settings):
        seen.append((list(lines), settings))
        return [sentence.upper() for sentence in sentences]

    monkeypatch.setattr(paragraphs, "translate", upper)
    model = SimpleNamespace(config=SimpleNamespace(target_language="en"))
    texts = ["Oh. No!", "", "我来了。你好", " Yes.  Well "]
    found = translate_paragraphs(model, None, texts, lines=range(5, 9), num_beams=2)
    assert found == ["OH. NO!", "", "我来了。 你好", " YES.  WELL "]
    assert seen == [([5, 5, 6, 7, 7, 8, 8], {"num_beams": 2})]
    with pytest.raises(TypeError, match="paragraph 1 is None"):
        translate_paragraphs(model, None, ["a", None])
