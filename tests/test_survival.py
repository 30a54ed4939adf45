import pytest

from hf_vanilla_transformer.survival import Survival, must_survive


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("In 2020 it cost 3.50, not 1,234.5.", {"2020", "3.50", "1234.5"}),
        ("3,50 von 2.000", {"3.50", "2000"}),
        ("see https://a.org/b?c=1, (www.d.com) or", {"https://a.org/b?c=1", "www.d.com"}),
        ("看https://a.org/b。好", {"https://a.org/b"}),
        ("<b>no</b> &amp; {name} %s 5 % <", {"<b>", "</b>", "&amp;", "{name}", "%s", "5"}),
        ("good 👍🏽 ☀", {"👍", "🏽", "☀"}),
        ("a < b, nothing", set()),
    ],
)
def test_what_must_come_through_is_found(text, items):
    assert {item for _, item in must_survive(text)} == items


@pytest.mark.parametrize(
    ("source", "translation", "is_kept"),
    [
        ("１２３", "123", True),
        ("١٢٣", "123", True),
        ("３．５", "3.5", True),
        ("１２，０００円", "12,000 yen", True),
        ("3.5", "3,5", True),
        ("3.5", "35", False),
        ("3.5", "5.3", False),
        ("2,000", "2.000", True),
        ("2,000", "2000", True),
        ("2,000", "2\u202f000", True),
        ("2,000.5", "2.000,5", True),
        ("1,234,567.5", "1\u00a0234\u00a0567,5", True),
        ("2,000.5", "20005", False),
        ("0.500", "0,500", True),
        ("0.500", "0500", False),
        ("12,34,567", "1,234,567", True),
        ("3.5.2020", "3.5.2020", True),
        ("3.5.2020", "352020", False),
        ("1，2，3", "1, 2, 3", True),
        ("12，3456", "12, 3456", True),
    ],
)
def test_a_number_is_kept_in_the_spelling_of_another_language(source, translation, is_kept):
    survival = Survival()
    survival.add([source], [translation])
    assert (survival.describe() == "") is is_kept


def test_losses_are_counted_by_kind_and_the_first_is_named():
    survival = Survival()
    survival.add(["a", "1 and 1 and 2", "<i>www.a.org</i>"], ["7", "1 und 2", "www.a.org"], 11)
    assert survival.as_dict() == {
        "URLs": {"found": 1, "kept": 1},
        "tags": {"found": 2, "kept": 0},
        "numbers": {"found": 3, "kept": 2},
    }
    assert survival.describe() == (
        "came through the translation: 1 of 1 URLs, 0 of 2 tags, 2 of 3 numbers; "
        "lost first: 1 in line 12"
    )


def test_nothing_is_said_where_nothing_is_lost():
    survival = Survival()
    survival.add(["1,000 👍", ""], ["👍 1.000", ""])
    assert survival.describe() == ""
    assert survival.as_dict()["numbers"] == {"found": 1, "kept": 1}
