"""What a report says is on the card, and what cannot be true is refused."""

import json
import re

import pytest
from huggingface_hub import ModelCard

from hf_vanilla_transformer.evaluation.report_file import faults_of_report, read_report
from hf_vanilla_transformer.publishing.card import write_card

VALIDATION = {"step": 600, "loss": 3.5, "bleu": 12.5}
REPORT = {
    "bleu": 38.74,
    "bleu_signature": "nrefs:1",
    "confidence": {"bleu": {"mean": 38.71, "margin": 0.83}},
    "loss": 1.2345678901234567,
    "perplexity": 3.4369,
    "tokens": 4321,
    "source": "dev.tsv",
    "reference": [],
    "model": "run/model",
    "weights": {"model.safetensors": "e3b0"},
    "training": {"steps": 1200, "validation_loss": 2.5, "validations": [VALIDATION]},
    "environment": {"device": "cpu", "versions": {"torch": "2.13.0"}},
    "arguments": {
        **{"train": ["a.tsv"], "valid": ["b.tsv"], "output": "run", "from": None},
        "max_length": 60,
        "seed": 7,
    },
    "left_out": {"blank": 2},
    "translations": [{"source": "a", "translation": "b"}],
}


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a report from a file."""

    def read(content):
        file = tmp_path / "report.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        return read_report(file)

    return read


def replaced(value, *path):
    """Return the report with a value in a place."""
    report = json.loads(json.dumps(REPORT))
    inner = report
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return report


def results_of(folder):
    return ModelCard.load(folder / "README.md").data.eval_results


def test_the_report_of_these_tests_is_one(read, folder):
    assert read(REPORT) == REPORT
    write_card(folder, reports=[REPORT])


NUMBERS = [
    ("bleu",),
    ("loss",),
    ("perplexity",),
    ("confidence", "bleu", "margin"),
    ("training", "steps"),
    ("training", "validation_loss"),
    ("training", "validations", 0, "loss"),
    ("training", "validations", 0, "step"),
    ("left_out", "blank"),
    ("arguments", "max_length"),
    ("arguments", "seed"),
    ("training", "pairs"),
]


@pytest.mark.parametrize("path", NUMBERS)
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), True, "38.7", [1], 10**99]
)
def test_what_is_no_number_is_named_with_its_file_and_field(read, path, value):
    place = re.sub(r"\.(\d+)", r"[\1]", ".".join(map(str, path)))
    with pytest.raises(ValueError, match="not a finite number") as raised:
        read(replaced(value, *path))
    line = str(raised.value)
    assert "\n" not in line
    assert re.search(rf"report.json: {re.escape(place)} is ", line)


@pytest.mark.parametrize(
    "path",
    [
        *[(name,) for name in REPORT],
        *[("training", name) for name in REPORT["training"]],
        *[("arguments", name) for name in REPORT["arguments"]],
        *[("environment", name) for name in REPORT["environment"]],
        ("scores",),
        ("confidence", "bleu"),
        ("training", "validations", 0),
        ("training", "validations", 0, "bleu"),
        ("environment", "versions", "torch"),
        ("translations", 0),
        ("translations", 0, "source"),
    ],
)
def test_a_report_of_any_shape_makes_a_card_or_one_line_of_error(read, folder, path):
    faults = []
    for value in (None, 5, "text", [], [None], [[]], {"x": []}, True):
        report = replaced(value, *path)
        fault = next(faults_of_report(report), None)
        if fault is None:
            write_card(folder, reports=[read(report)])
            continue
        faults.append(fault)
        with pytest.raises(ValueError, match=r"^\S+report.json: ") as raised:
            read(report)
        assert f": {fault};" in str(raised.value)
        assert "\n" not in fault
    assert len(faults) >= 5


def test_a_validation_without_bleu_is_one(read):
    validations = [{"step": 600, "loss": 3.5}]
    report = read(replaced(validations, "training", "validations"))
    assert report["training"]["validations"] == validations


@pytest.mark.parametrize("field", ["step", "loss"])
def test_a_field_that_a_validation_lacks_is_named(read, field):
    validation = {name: value for name, value in VALIDATION.items() if name != field}
    with pytest.raises(ValueError, match=rf"training.validations\[0\] has no {field}"):
        read(replaced(validation, "training", "validations", 0))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", r"it is \[\], not an object"),
        ("null", "it is None, not an object"),
        ("5", "it is 5, not an object"),
        ("{}", "neither"),
        ("[" * 100_000, "is no JSON"),
        ("", "is no JSON"),
        ('{"scores": {}}', "neither"),
    ],
)
def test_a_file_that_is_no_report_ends_in_one_line(read, content, said):
    with pytest.raises(ValueError, match=said) as raised:
        read(content)
    assert "report.json" in str(raised.value)


def test_intervals_and_the_loss_of_the_references_are_on_the_card(folder, read):
    write_card(folder, reports=[read(REPORT)])
    text = (folder / "README.md").read_text()
    lines = [line for line in text.splitlines() if "on dev.tsv" in line]
    assert lines == [
        "- BLEU **38.74** (95 % confidence: 38.71 ± 0.83) on dev.tsv (`nrefs:1`)",
        "- loss of the references per token **1.2346** on dev.tsv, 4,321 tokens",
        "- perplexity of the references **3.44** on dev.tsv, 4,321 tokens",
    ]
    found = {one.metric_type: one.metric_value for one in results_of(folder)}
    assert found == {"bleu": 38.74, "loss": 1.2346, "perplexity": 3.44}
    write_card(folder)  # they are kept in the metadata
    assert [
        line for line in (folder / "README.md").read_text().splitlines() if line in lines
    ] == lines


@pytest.mark.parametrize(
    ("dtype", "shown"), [("int8", ", int8"), ("bf16", ", bf16"), ("fp32", ""), (None, "")]
)
def test_numbers_of_another_kind_than_fp32_are_named(folder, read, dtype, shown):
    write_card(folder, reports=[read(REPORT | {"dtype": dtype})])
    text = (folder / "README.md").read_text()
    assert f" on dev.tsv{shown} (`nrefs:1`)" in text
    assert {(one.metric_args or {}).get("dtype") for one in results_of(folder)} == {
        shown.strip(", ") or None
    }


@pytest.mark.parametrize(
    ("source", "target", "is_refused"),
    [
        ("de", "en", False),
        ("DE-AT", "en_GB", False),
        ("deu", None, False),
        ("en", "de", True),
        ("de", "fr", True),
        ("zh-Hans", "en", True),
    ],
)
def test_the_report_of_a_model_of_other_languages_is_refused(
    folder, read, source, target, is_refused
):
    config = json.loads((folder / "config.json").read_text())
    languages = {"source_language": "de", "target_language": "en"}
    (folder / "config.json").write_text(json.dumps(config | languages))
    report = read(REPORT | {"source_language": source, "target_language": target})
    if not is_refused:
        write_card(folder, reports=[report])
        return
    with pytest.raises(ValueError, match="the report on dev.tsv has (source|target)_language") as e:
        write_card(folder, reports=[report])
    assert "\n" not in str(e.value)
    assert not (folder / "README.md").exists()


def test_test_sets_of_one_name_in_two_places_are_kept_apart(folder):
    reports = [{"source": f"/corpora/{name}/test.tsv", "bleu": 1.5} for name in ("news", "talks")]
    for report in reports:  # in one go, and one after the other
        write_card(folder, reports=[report])
    write_card(folder, reports=[reports[0] | {"bleu": 2.5}, reports[1]])
    results = results_of(folder)
    assert [one.metric_value for one in results] == [2.5, 1.5]
    assert {one.dataset_name for one in results} == {"test.tsv"}
    marked = [one.dataset_type for one in results]
    assert len(set(marked)) == 2
    assert all(name.startswith("test.tsv (") for name in marked)
    text = (folder / "README.md").read_text()
    assert re.findall(r"- BLEU (.*)", text) == [
        f"**{value}** on {name}" for value, name in zip(("2.50", "1.50"), marked, strict=True)
    ]
    assert "corpora" not in text


def test_a_test_set_without_a_namesake_is_named_by_its_files_alone(folder):
    write_card(folder, reports=[{"source": "/corpora/test.en", "reference": ["r.de"], "bleu": 1.5}])
    assert "- BLEU **1.50** on test.en + r.de\n" in (folder / "README.md").read_text()


def test_another_measure_of_one_test_set_stands_beside_the_first_by_its_name(folder, read):
    papers = {"bleu": 41.13, "bleu_name": "BLEU of lower-cased tokens", "bleu_signature": "lc"}
    reports = [
        read(REPORT | {"bleu": 40.5, "confidence": {}}),
        read(papers | {"source": "dev.tsv"}),
    ]
    for _ in range(2):
        write_card(folder, reports=reports)
    text = (folder / "README.md").read_text()
    assert re.findall(r"- BLEU.*", text) == [
        "- BLEU **40.50** on dev.tsv (`nrefs:1`)",
        "- BLEU of lower-cased tokens **41.13** on dev.tsv (`lc`)",
    ]
    found = [(one.metric_name, one.metric_value) for one in results_of(folder)]
    assert [one for one in found if "BLEU" in one[0]] == [
        ("BLEU", 40.5),
        ("BLEU of lower-cased tokens", 41.13),
    ]
    with pytest.raises(ValueError, match="bleu_name is 5, not text"):
        read(papers | {"bleu_name": 5})


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "A text of more than 1,024 tokens is cut there."),
        ({"max_length": None}, "1,024 tokens is cut there."),
        ({"max_length": 2000}, "1,024 tokens is cut there."),
        (
            {"max_length": 256},
            "1,024 tokens is cut there, and one of more than 256, the most that a sentence of its "
            "training could have, comes out badly.",
        ),
    ],
)
def test_limits_are_what_the_model_takes_and_what_it_was_trained_on(folder, read, arguments, said):
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 1024}))
    write_card(folder, reports=[read({"training": {"steps": 1}, "arguments": arguments})])
    assert said in " ".join((folder / "README.md").read_text().split())


def test_corpora_that_a_person_names_are_among_the_data(folder):
    write_card(folder, reports=[REPORT])
    card = folder / "README.md"
    assert "corpus:" not in card.read_text()
    card.write_text(card.read_text().replace("---\n", "---\ndatasets: [multi30k, wmt14]\n", 1))
    for _ in range(2):
        write_card(folder, reports=[REPORT])
    assert "## Data\n\n- corpus: multi30k, wmt14\n- training: `a.tsv`" in card.read_text()
    write_card(folder)
    assert "## Data\n\n- corpus: multi30k, wmt14\n\n<!--" in card.read_text()
    assert ModelCard.load(card).data.datasets == ["multi30k", "wmt14"]


def test_one_source_with_other_references_is_another_test_set(folder):
    report = {"source": "news.de", "bleu": 1.5}
    for reference in (["a.en"], ["b.en"], ["a.en", "b.en"]):
        write_card(folder, reports=[report | {"reference": reference}])
    names = [one.dataset_name for one in results_of(folder)]
    assert names == ["news.de + a.en", "news.de + b.en", "news.de + a.en + b.en"]


@pytest.mark.parametrize("name", ["metrics", "tags", "datasets"])
def test_metadata_of_one_word_are_a_list_of_it(folder, name):
    (folder / "README.md").write_text(f"---\n{name}: comet\nlanguage: en\n---\n")
    write_card(folder, reports=[{"bleu": 1.5}])
    data = ModelCard.load(folder / "README.md").data
    expected = {"metrics": ["bleu"], "tags": ["translation", "vanilla_transformer"]}
    expected[name] = ["comet", *expected.get(name, [])]
    assert {one: getattr(data, one) for one in expected} == expected
    assert data.language == "en"


@pytest.mark.parametrize("value", ["5", "{a: b}", "[5]", "[[a]]"])
@pytest.mark.parametrize("name", ["metrics", "tags", "datasets"])
def test_metadata_that_are_no_words_are_named(folder, name, value):
    (folder / "README.md").write_text(f"---\n{name}: {value}\n---\n")
    with pytest.raises(ValueError, match=r"README.md: broken metadata: ") as raised:
        write_card(folder)
    assert "\n" not in str(raised.value)
