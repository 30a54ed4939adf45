"""Languages are named on the card where their code is known."""

import json

import pytest
from transformers.models.whisper.tokenization_whisper import LANGUAGES

from hf_vanilla_transformer.languages import named_language
from hf_vanilla_transformer.publishing.card import write_card

OTHER_NAMES = {"nn": "Norwegian Nynorsk", "my": "Burmese"}
UNNAMED = {"jw", "haw", "yue"}


def test_names_are_those_of_whisper():
    codes = LANGUAGES.keys() - UNNAMED
    assert len(codes) == 97
    for code in codes:
        expected = OTHER_NAMES.get(code, LANGUAGES[code].title())
        assert named_language(code) == f"{expected} (`{code}`)"


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("en", "de", "English (`en`) into German (`de`)"),
        ("zh-Hans", "pt_BR", "Chinese (`zh-Hans`) into Portuguese (`pt_BR`)"),
        ("yue", "DE", "`yue` into German (`DE`)"),
        (None, "zu", "the source language of its training data into Zulu (`zu`)"),
    ],
)
def test_the_card_names_languages_by_name_and_code(folder, source, target, said):
    config = json.loads((folder / "config.json").read_text())
    languages = {"source_language": source, "target_language": target}
    (folder / "config.json").write_text(json.dumps(config | languages))
    write_card(folder)
    assert f"\nThis model translates {said}.\n" in (folder / "README.md").read_text()
