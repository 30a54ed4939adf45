"""A font for Latin and Chinese text."""

import pytest
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font

from hf_vanilla_transformer.explain import fonts
from hf_vanilla_transformer.explain.fonts import FAMILIES, text_font


def test_the_font_has_a_glyph_for_latin_and_chinese_text():
    font = text_font(12)
    assert font.get_size() == 12
    assert font.get_family() == list(FAMILIES)
    glyphs = FT2Font(findfont(font)).get_charmap()
    assert {ord(character) for character in "Az09.，。我爱猫它因为汽车"} <= glyphs.keys()


def test_what_it_lacks_is_in_the_one_behind_it():
    first, second = (FT2Font(findfont(family)).get_charmap() for family in FAMILIES)
    assert ord("▁") in second
    assert ord("م") in second.keys() - first.keys()


def test_a_missing_font_names_the_package(monkeypatch):
    monkeypatch.setattr(fonts, "PACKAGE", "no-such-font-package")
    fonts._register_font.cache_clear()
    with pytest.raises(FileNotFoundError, match="pip install no-such-font-package"):
        text_font(12)
    fonts._register_font.cache_clear()
