import json
import logging
import subprocess
import sys

import pytest
import sacrebleu

from hf_vanilla_transformer import scoring
from hf_vanilla_transformer.scoring import Scorer, score_translations

# https://github.com/mjpost/sacrebleu/issues/220
HYPOTHESES = [
    "the cat sat on the mat today",
    "a dog ran across the wide street",
    "birds sing loudly every single morning",
]
REFERENCES = [
    "the cat sat on the mat today",
    "one dog was running over a big road",
    "every morning the birds are singing",
]
SIGNATURE = "|case:mixed|eff:no|tok:13a|smooth:exp|version:" + sacrebleu.__version__


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_bleu_is_of_all_sentences_in_any_order(order):
    scores = score_translations(
        [HYPOTHESES[index] for index in order], [REFERENCES[index] for index in order]
    )
    assert round(scores.bleu, 2) == 38.74
    assert scores.bleu_signature == "nrefs:1" + SIGNATURE
    assert scores.chrf == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf_signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no")


@pytest.mark.parametrize(
    ("language", "tokenization"),
    [
        *[(code, "zh") for code in ("zh", "zh-Hans", "ZH_tw", "zho_Hant", "cmn")],
        *[(code, "13a") for code in ("en", "de", "zha", None)],
    ],
)
def test_the_target_language_chooses_the_tokenization(language, tokenization):
    scores = score_translations(["我爱猫。"], ["我爱小猫。"], target_language=language)
    assert f"|tok:{tokenization}|" in scores.bleu_signature


def test_an_unknown_target_language_is_told_once_with_the_tokenization(caplog):
    caplog.set_level(logging.INFO)
    score_translations(["a"], ["a"])
    assert caplog.messages == [
        "BLEU: tokenisation 13a, as the model does not name its target language"
    ]


THAI, CHINESE, KOREAN = "ฉันรักแมวตัวน้อยของฉัน", "他们明天去北京。", "나는 고양이를 사랑한다."
JAVANESE, ENGLISH = "ꦱꦏ꧀ꦥꦿꦪꦺꦴꦒꦤꦺ", "They go to 北京 tomorrow."


@pytest.mark.parametrize(
    ("text", "language", "tokenize", "named"),
    [
        (THAI, "th", None, "char, flores200"),
        (THAI, "tha_Thai", "intl", "char, flores200"),
        ("Microsoft Windows แมว", "th", None, "char, flores200"),
        (THAI, None, None, "text without spaces"),
        (THAI, "th", "zh", "zh does not"),
        (THAI, "km", None, "13a does not find words in km"),
        (JAVANESE, "jv", None, "13a does not find words in jv"),
        (CHINESE, "zh", "13a", "zh, char, flores200"),
        (CHINESE, None, None, "text without spaces"),
        (CHINESE, "ja", "zh", "ja-mecab, char"),
        (KOREAN, "ko", "13a", "ko-mecab, char"),
        (THAI, "th", "char", None),
        (THAI, "th", "none", None),
        (CHINESE, "zh", None, None),
        (CHINESE, "yue-Hant", "zh", None),
        (CHINESE, None, "zh", None),
        (KOREAN, "ko", "char", None),
        ("Aku seneng kucing.", "jv", None, None),
        ("Tāmen míngtiān qù.", "zh-Latn", "intl", None),
        (ENGLISH, "en", None, None),
        ("123 !", "en", None, None),
    ],
)
def test_a_tokenization_that_does_not_suit_the_language_is_told(
    caplog, text, language, tokenize, named
):
    score_translations([text], [text], target_language=language, tokenize=tokenize)
    warnings = [one for one in caplog.records if one.levelno == logging.WARNING]
    assert len(warnings) == (named is not None)
    assert (named or "") in caplog.text


def test_without_mecab_japanese_is_scored_by_characters_and_says_so(monkeypatch, caplog):
    monkeypatch.setattr(scoring.importlib.util, "find_spec", lambda name: None)
    scores = score_translations(["猫が好きです"], ["猫が大好きです"], target_language="ja")
    assert "|tok:char|" in scores.bleu_signature
    assert 'install "sacrebleu[ja]"' in caplog.text


def test_a_blank_translation_counts_as_empty_and_is_not_dropped():
    with_blank = score_translations([*HYPOTHESES, ""], [*REFERENCES, "a missing line"])
    assert with_blank.bleu < score_translations(HYPOTHESES, REFERENCES).bleu


@pytest.mark.parametrize(
    ("hypotheses", "references", "counts"),
    [
        (HYPOTHESES, REFERENCES[:2], "3 translations and 2 references"),
        ([], REFERENCES, "0 translations and 3 references"),
        ([], [], "0 translations and 0 references"),
    ],
)
def test_differing_and_empty_sets_are_refused_with_both_numbers(hypotheses, references, counts):
    with pytest.raises(ValueError, match=counts):
        score_translations(hypotheses, references)


@pytest.mark.parametrize(
    "references",
    [
        [[reference] for reference in REFERENCES],
        [REFERENCES],
        [REFERENCES, REFERENCES],
        REFERENCES[0],
        [*REFERENCES[:2], None],
    ],
)
def test_nested_flattened_and_missing_references_are_refused_instead_of_misread(references):
    with pytest.raises(TypeError, match=r"reference( \d is (\['the cat|None)|: a sequence)"):
        score_translations(HYPOTHESES, references)


def test_a_second_set_of_references_is_another_argument():
    scores = score_translations(HYPOTHESES, REFERENCES, list(REFERENCES))
    assert round(scores.bleu, 2) == 38.74
    assert scores.bleu_signature == "nrefs:2" + SIGNATURE
    with pytest.raises(ValueError, match="3 translations and 2 references in set 2"):
        score_translations(HYPOTHESES, REFERENCES, REFERENCES[:2])


def test_spaces_at_the_end_of_a_line_do_not_change_a_score():
    spaced = [f"{text} \n" for text in HYPOTHESES]
    plain, other = (
        Scorer([REFERENCES], target_language="en").measure(texts, resamples=20)
        for texts in (HYPOTHESES, spaced)
    )
    assert plain == other


# Of each language: sentence by sentence a translation and two references.
ROWS = {
    "en": [
        ("The cat isn't on the mat.", "The cat is not on the mat.", "The cat wasn't on a mat."),
        ("It costs $3.50 (or 2,000 yen).", "That costs $3.50, or 2,000 yen.", "It costs $3.50."),
        ("A dog ran.", "The dog ran!", "One dog was running."),
        ("", "No.", ""),
        ("Yes, of course, my friend!", "Yes, of course, my friend!", "Of course!"),
    ],
    "de": [
        ("Der Hund läuft über die Straße.", "Ein Hund läuft über die Straße.", "Der Hund rennt."),
        ("Schöne Grüße aus Köln", "Schöne Grüße aus Köln!", "Grüße aus Köln"),
        ("„Ja“, sagte er.", "„Ja“, sagte sie.", "„Nein“, sagte er."),
        ("10 % der Äpfel", "10 % aller Äpfel", "zehn Prozent der Äpfel"),
    ],
    "zh": [
        ("我爱小猫。", "我爱猫。", "我喜欢小猫。"),
        ("他在2020年去了北京", "他2020年去了北京。", "在2020年他去过北京"),
        ("这本书很有意思!", "这本书非常有意思！", "这书有意思！"),
        ("你好，世界", "你好，世界", "世界，你好"),
    ],
}
CORPORA = {language: list(map(list, zip(*rows, strict=True))) for language, rows in ROWS.items()}


def by_sacrebleu(folder, hypotheses, references, *options):
    """Return what sacreBLEU's own command line prints about files with these lines."""
    files = []
    for index, lines in enumerate([*references, *hypotheses]):
        files.append(folder / str(index))
        files[-1].write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    files.insert(len(references), "-i")
    command = [sys.executable, "-m", "sacrebleu", *map(str, files), "-m", "bleu", "chrf", "ter"]
    done = subprocess.run([*command, *options], capture_output=True, encoding="utf-8", check=True)
    return done.stdout


@pytest.mark.parametrize("language", CORPORA)
@pytest.mark.parametrize("count", [1, 2])
def test_scores_equal_those_of_the_sacrebleu_command_line(tmp_path, language, count):
    hypotheses, *references = CORPORA[language]
    references = references[:count]
    asian = ["--ter-normalized", "--ter-asian-support"] if language == "zh" else []
    options = ["-l", f"xx-{language}", "--format", "json", "-w", "6", *asian]
    expected = json.loads(by_sacrebleu(tmp_path, [hypotheses], references, *options))
    found = Scorer(references, target_language=language).measure(hypotheses)
    assert [(one.name, round(one.score, 6), one.signature) for one in found] == [
        (one["name"], one["score"], one["signature"]) for one in expected
    ]
    assert all(0 < one.score < 100 for one in found)
    scores = score_translations(hypotheses, *references, target_language=language)
    assert [scores.bleu, scores.chrf] == [one.score for one in found[:2]]


def test_case_tokenisation_and_confidence_are_those_of_the_command_line(tmp_path):
    hypotheses, *references = CORPORA["en"]
    hypotheses = [text.upper() for text in hypotheses]
    options = ["-lc", "--chrf-lowercase", "-tok", "intl", "--confidence", "--confidence-n", "50"]
    options += ["--format", "json", "-w", "2"]
    expected = json.loads(by_sacrebleu(tmp_path, [hypotheses], references, *options))
    found = Scorer(references, tokenize="intl", lowercase=True).measure(hypotheses, resamples=50)
    assert [one.signature for one in found] == [one["signature"] for one in expected]
    for mine, other in zip(found, expected, strict=True):
        figures = [round(figure, 2) for figure in (mine.score, mine.mean, mine.margin)]
        assert figures == [other[key] for key in ("score", "confidence_mean", "confidence_var")]
        assert "case:lc" in mine.signature
    cased = Scorer(references, tokenize="intl").measure(hypotheses)
    assert cased[0].score < found[0].score
    assert cased[1].score < found[1].score


def test_the_paired_test_is_that_of_the_command_line(tmp_path):
    better, reference, worse = CORPORA["en"]
    options = ["--format", "text", "--paired-bs", "--paired-bs-n", "50", "-w", "4"]
    table = by_sacrebleu(tmp_path, [worse, better], [reference], *options)
    scorer = Scorer([reference], target_language="en")
    found = scorer.measure(better, resamples=50, baseline=worse)
    assert len(found) == 3
    assert len({one.p_value for one in found}) > 1
    assert [one.baseline for one in found] == [one.score for one in scorer.measure(worse)]
    for one in found:
        assert f"{one.baseline:.4f} (" in table
        assert f"{one.score:.4f} ({one.mean:.4f} ± {one.margin:.4f})" in table
        assert f"(p = {one.p_value:.4f})" in table
        assert one.signature in table
    with pytest.raises(ValueError, match="3 baseline translations and 5 references"):
        scorer.measure(better, baseline=worse[:3])


@pytest.mark.parametrize(
    ("tokenize", "message"),
    [
        ("moses", "tokenize='moses' is not one of none, zh, 13a"),
        ("ko-mecab", "tokenisation ko-mecab cannot be used here: .*\\[ko"),
    ],
)
def test_a_tokenisation_that_cannot_be_had_is_refused(monkeypatch, tokenize, message):
    monkeypatch.setitem(sys.modules, "mecab_ko", None)
    with pytest.raises(ValueError, match=message):
        score_translations(HYPOTHESES, REFERENCES, tokenize=tokenize)
