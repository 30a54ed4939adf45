"""Rules of settings: what they take, what they refuse, and how they say so."""

import pytest

from hf_vanilla_transformer.model.guard_rules import (
    FLAG,
    TEXT,
    check_names,
    check_rules,
    either,
    listed,
    named,
    number,
    one_of,
    read_object,
    refusals,
    whole,
)


@pytest.mark.parametrize(
    ("rule", "taken", "refused"),
    [
        (whole(1, 9), (1, 9), (0, 10, 1.0, True, "1", [1])),
        (number(0, 1), (0, 1, 0.5), (-0.1, 1.1, float("nan"), float("inf"), True, "0", 10**400)),
        (one_of("a", True), ("a", True), ("b", False, 1, [], {})),
        (listed(TEXT), ([], ["a"]), ("a", ["a", 5], {"a": "b"})),
        (named(FLAG), ({}, {"a": True}), ([], {"a": 1})),
        (either(FLAG, TEXT), (True, "a"), (1, [])),
    ],
)
def test_a_rule_takes_and_refuses(rule, taken, refused):
    for value in taken:
        check_rules({"x": value}, {"x": rule})
    for value in refused:
        with pytest.raises(ValueError, match="^x=.* is not " + rule.text.split(",")[0]):
            check_rules({"x": value}, {"x": rule})


def test_null_stands_for_a_value_left_out_unless_the_rule_says_otherwise():
    check_rules({"x": None}, {"x": FLAG})
    strict = FLAG._replace(takes_null=False)
    check_rules({}, {"x": strict})
    with pytest.raises(ValueError, match="x=None is not true or false"):
        check_rules({"x": None}, {"x": strict})


def test_a_long_value_is_cut_in_the_message():
    with pytest.raises(ValueError, match="^x=") as caught:
        check_rules({"x": "y" * 10_000}, {"x": FLAG})
    assert len(str(caught.value)) < 100


@pytest.mark.parametrize("name", ["_private", "keys", "extra"])
def test_private_names_methods_and_named_names_are_refused(name):
    check_names(dict, {"other": 1}, refused=("extra",))
    with pytest.raises(ValueError, match=f"{name}=1 is no setting"):
        check_names(dict, {name: 1}, refused=("extra",))


def test_an_error_within_the_library_becomes_a_refusal_with_its_cause():
    with (
        pytest.raises(ValueError, match=r"^the place holds .*KeyError: 'a'"),
        refusals("the place"),
    ):
        {}["a"]
    with pytest.raises(FileNotFoundError), refusals("the place"):
        raise FileNotFoundError("x")
    with pytest.raises(ValueError, match="^as it was$"), refusals("the place"):
        raise ValueError("as it was")
    for text in ("DefaultCPUAllocator: can't allocate memory", "can't start new thread"):
        with pytest.raises(RuntimeError, match=text), refusals("the place"):
            raise RuntimeError(text)


@pytest.mark.parametrize("text", ["[]", "null", "{", "[" * 100_000])
def test_a_file_without_an_object_is_named(text, tmp_path):
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"a\.json (holds|is no JSON)"):
        read_object(file)
    file.write_text('{"a": 1}')
    assert read_object(file) == {"a": 1}
