"""The cards in the repository are what the Hub would take, and as they were generated."""

from pathlib import Path

import pytest
from hub_metadata import metadata, metadata_errors
from huggingface_hub import ModelCard

from hf_vanilla_transformer.publishing.sections import renew_sections

FOLDER = Path(__file__).parents[2] / "model_cards"
CARDS = sorted(FOLDER.glob("*/README.md"))


def test_there_are_cards():
    assert CARDS


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.parent.name)
def test_a_card_of_the_repository_is_valid_and_nobody_edited_it(card):
    text = card.read_text("utf-8")
    assert metadata_errors(text) == []
    assert metadata(text)["model-index"]
    loaded = ModelCard.load(card)
    assert loaded.data.eval_results
    sections = [line for line in loaded.text.splitlines() if line.startswith(("# ", "## "))]
    renewed = renew_sections(loaded.text, "\n".join(f"{line}\n\nRenewed.\n" for line in sections))
    assert renewed.count("Renewed.") == len(sections) > 5
    for picture in card.parent.glob("*.png"):
        assert f"]({picture.name})" in text
