"""Sections of a card begin where a reader sees a heading."""

import pytest

from hf_vanilla_transformer.publishing.card import write_card


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_a_heading_in_a_block_of_code_begins_no_section(folder, fence):
    block = f"{fence}markdown\n## Licence\n\n``\n## Limits\n{fence}"
    (folder / "README.md").write_text(
        f"## Mine\n\n```x``` is said\n\n{block}\n\n## Other\n\nWords.\n"
    )
    for _ in range(2):
        write_card(folder)
    text = (folder / "README.md").read_text()
    assert f"{block}\n\n## Other\n\nWords." in text
    assert text.count("\n## How to use it\n") == 1
    assert text.count("\n## Licence\n") == text.count("\n## Limits\n") == 2


def test_an_open_block_of_code_ends_no_later_section(folder):
    write_card(folder)
    once = (folder / "README.md").read_text()
    (folder / "README.md").write_text(once.replace("- Numbers, names", "```\n- Numbers, names"))
    for _ in range(2):
        write_card(folder)
    assert (folder / "README.md").read_text().replace("```\n- Numbers", "- Numbers") == once
