import re
import subprocess

import pytest
import yaml

from hf_vanilla_transformer.publishing.card import write_card
from hf_vanilla_transformer.publishing.markup import code, plain, shell_words, without_controls

HOSTILE = "x`\n\n## Injected\n<img src=x>\n```\n---\nlicense: gpl\n---\n| a |\x1b[2J\u202e"


def test_a_text_is_one_line_without_markup():
    assert plain("# a *b* | `c`\n<img> &lt;") == ("\\# a \\*b\\* \\| \\`c\\` &lt;img&gt; &amp;lt;")
    assert plain("\x1b[2J\u202e") == "\\\\x1b\\[2J\\\\u202e"
    assert plain(5) == "5"


def test_a_span_of_code_holds_what_cannot_end_it():
    assert code("a_b|c*") == "`a_b|c*`"
    assert code("a`b") == "a\\`b"
    assert code("<img>") == "&lt;img&gt;"


def test_control_characters_leave_every_text_of_a_report():
    assert without_controls({"a\nb": ["\x1b", 5, None, {"c": "d\te"}]}) == {
        "a\\nb": ["\\x1b", 5, None, {"c": "d\te"}]
    }


@pytest.mark.parametrize("word", ["plain", "a'b`c\n## <x> \\n \x1b é \u202e", "```\n"])
def test_a_shell_reads_odd_words_as_they_were(word):
    line = shell_words(["printf", "%s", word])
    assert not set(line) & set("\n`<\x1b\u202e")
    command = ["bash", "-c", line]
    environment = {"LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    assert done.stdout.decode() == word


def reports():
    training = {
        "arguments": {"train": [HOSTILE], "valid": [HOSTILE], "output": HOSTILE},
        "left_out": {HOSTILE: 3},
        "training": {"pairs": 10, "steps": 5},
        "environment": {"device": HOSTILE, "versions": {HOSTILE: HOSTILE}},
        "translations": [{"source": HOSTILE, "translation": HOSTILE, "reference": None}],
    }
    evaluation = {
        "source": HOSTILE,
        "reference": [HOSTILE],
        "dtype": HOSTILE,
        "scores": {"bleu": 12.3, "bleu_name": HOSTILE, "bleu_signature": HOSTILE},
        "translations": [{"source": HOSTILE, "translation": HOSTILE, "reference": HOSTILE}],
    }
    yield [training, evaluation]
    yield [{"made_by": HOSTILE, "training": {"pairs": 1}}, evaluation]


def shape(card):
    """Return what gives a card its shape: headings, fences, front matter and rows of tables."""
    marks = ("#", "```", "---", "|")
    return [line.split(" ")[0] for line in card.splitlines() if line.startswith(marks)]


@pytest.mark.parametrize("which", [0, 1])
def test_nothing_of_a_report_is_markup_on_the_card(which, folder):
    hostile = list(reports())[which]
    cards = []
    for replacement in (HOSTILE, "harmless"):
        (folder / "README.md").unlink(missing_ok=True)
        text = replaced(hostile, replacement)
        write_card(folder, reports=text, repo_id="a/b")
        cards.append((folder / "README.md").read_text())
    card = cards[0]
    assert shape(card) == shape(cards[1])
    # A string of Python within a fence is no HTML.
    text = re.sub("^```python.*?^```$", "", card, flags=re.MULTILINE | re.DOTALL)
    assert "<img" not in text.partition("\n---\n")[2]
    assert not set(card) & set("\x1b\u202e")
    metadata = yaml.safe_load(card.split("---\n")[1])
    assert "license" not in metadata


def replaced(value, text):
    if isinstance(value, dict):
        return {replaced(name, text): replaced(item, text) for name, item in value.items()}
    if isinstance(value, list):
        return [replaced(item, text) for item in value]
    return text if value == HOSTILE else value
