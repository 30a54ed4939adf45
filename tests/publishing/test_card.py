"""The card of a model: metadata that the Hub takes, figures of the reports.

Report: https://github.com/huggingface/transformers/issues/13528 (related: #25931, #7208).
"""

import html
import json
import re

import pytest
import yaml
from hub_metadata import metadata_errors
from huggingface_hub import ModelCard
from transformers.models.whisper.tokenization_whisper import LANGUAGES

from hf_vanilla_transformer.evaluation.report_file import read_report
from hf_vanilla_transformer.languages import language_metadata
from hf_vanilla_transformer.publishing.card import write_card

SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
TRAINING = {
    "arguments": {
        "train": ["/home/someone/private/news.tsv.gz", "talks:de-en:train"],
        "valid": ["dev.tsv"],
        "output": "run",
        "preset": "tiny",
        "seed": 7,
        "clip_norm": 1.0,
        "max_minutes": 84.0,
        "learning_rate": 0.003,
        "valid_beams": 0,
        "isolate_han": True,
        "compile": False,
        "from": None,
    },
    "left_out": {"blank": 2, "too_long": 0},
    "training": {
        "pairs": 28950,
        "steps": 1200,
        "passes": 2.98765,
        "seconds": 5040.09619140625,
        "validation_loss": 2.4323710503979266,
        "validations": [
            {"step": 600, "loss": 3.1, "bleu": 12.5},
            {"step": 1200, "loss": 2.4323710503979266, "bleu": None},
        ],
    },
    "environment": {"device": "cpu", "versions": {"torch": "2.13.0"}},
}
SCORES = {"source": "dev.tsv", "bleu": 38.74317298112345, "bleu_signature": SIGNATURE}


@pytest.fixture
def reports(tmp_path):
    """Return a function that writes reports to files and reads them."""

    def read(*contents):
        files = [tmp_path / f"report {i}.json" for i in range(len(contents))]
        for file, content in zip(files, contents, strict=True):
            file.write_text(json.dumps(content))
        return [read_report(file) for file in files]

    return read


@pytest.fixture
def speaking(folder):
    """Return a function that names the languages of the model."""

    def name(source, target):
        config = json.loads((folder / "config.json").read_text())
        languages = {"source_language": source, "target_language": target}
        (folder / "config.json").write_text(json.dumps(config | languages))
        return folder

    return name


def metadata_of(folder):
    return yaml.safe_load((folder / "README.md").read_text("utf-8").split("---\n")[1])


def text_of(folder):
    return (folder / "README.md").read_text("utf-8")


def test_metadata_without_any_report_are_valid_and_name_no_data_and_no_licence(speaking):
    folder = speaking("de", "en")
    write_card(folder)
    assert metadata_of(folder) == {
        "language": ["de", "en"],
        "library_name": "transformers",
        "pipeline_tag": "translation",
        "tags": ["translation", "vanilla_transformer"],
    }
    assert metadata_errors(text_of(folder)) == []


def test_a_score_is_a_result_with_the_digits_that_evaluate_prints(speaking, reports):
    folder = speaking("de", "en")
    write_card(folder, reports=reports(SCORES), repo_id="someone/letters")
    (model,) = metadata_of(folder)["model-index"]
    assert model == {
        "name": "letters",
        "results": [
            {
                "task": {"type": "translation", "name": "Translation de-en"},
                "dataset": {"name": "dev.tsv", "type": "dev.tsv"},
                "metrics": [
                    {
                        "type": "bleu",
                        "value": 38.74,
                        "name": "BLEU",
                        "args": {"signature": SIGNATURE},
                    }
                ],
            }
        ],
    }
    header, text = text_of(folder).split("---\n")[1:]
    for part in (header, text):
        assert "38.74" in part
        assert "38.743" not in part
        assert SIGNATURE in part
    assert metadata_errors(text_of(folder)) == []


def test_the_metadata_check_of_these_tests_finds_what_the_hub_refuses():
    refused = {
        "datasets: ['']": "datasets",
        "license: null": "license",
        "language: english": "language",
        "language: [no]": "language",
        "model-index: [{name: x, results: [{task: {type: t}, metrics: []}]}]": "dataset.type",
        "a: [": "YAML",
    }
    for text, said in refused.items():
        assert said in str(metadata_errors(f"---\n{text}\n---\n"))


def test_norwegian_is_a_language_and_no_truth_value(speaking):
    folder = speaking("no", "en")
    write_card(folder)
    assert metadata_of(folder)["language"] == ["no", "en"]


def test_the_split_of_a_dataset_is_the_split_of_its_score(folder, reports):
    write_card(folder, reports=reports(SCORES | {"source": "wmt14:de-en:validation"}))
    (result,) = ModelCard.load(folder / "README.md").data.eval_results
    found = (result.dataset_type, result.dataset_config, result.dataset_split)
    assert found == ("wmt14", "de-en", "validation")


def test_a_new_score_replaces_the_old_one_of_its_test_set_and_no_other(folder, reports):
    other = SCORES | {"source": "test.tsv"}
    write_card(folder, reports=reports(SCORES | {"chrf": 55.5}, other))
    write_card(folder, reports=reports(SCORES | {"bleu": 40.25}))
    results = ModelCard.load(folder / "README.md").data.eval_results
    found = sorted((one.dataset_name, one.metric_type, one.metric_value) for one in results)
    assert found == [
        ("dev.tsv", "bleu", 40.25),
        ("dev.tsv", "chrf", 55.5),
        ("test.tsv", "bleu", 38.74),
    ]
    assert text_of(folder).count("**40.25**") == 1
    assert text_of(folder).count("on dev.tsv") == 2


def test_figures_of_training_are_on_the_card_and_private_paths_are_not(folder, reports):
    write_card(folder, reports=reports(TRAINING))
    text = text_of(folder)
    for figure in (
        "training pairs | 28,950",
        "seed | 7",
        "1,200",
        "1 h 24 min",
        "2.99",
        "2.4324",
        "cpu",
        "torch 2.13.0",
    ):
        assert f" {figure} |" in text
    assert "private" not in text
    assert "blank: 2" in text
    assert "too long" not in text
    (command,) = [line for line in text.splitlines() if line.startswith("vanilla-transformer")]
    assert command == (
        "vanilla-transformer train --train news.tsv.gz talks:de-en:train --valid dev.tsv "
        "--output run --preset tiny --seed 7 --max-minutes 84 --learning-rate 0.003 "
        "--valid-beams 0 --isolate-han"
    )


@pytest.mark.parametrize(
    ("processes", "said"),
    [
        ({}, "Made by"),
        ({"processes": 1}, "Made by"),
        ({"processes": 2}, "Made, on 2 processes, by"),
    ],
)
def test_a_command_that_several_processes_ran_says_so(folder, reports, processes, said):
    training = TRAINING | {"training": TRAINING["training"] | processes}
    write_card(folder, reports=reports(training))
    assert f"\n{said}\n\n```bash\nvanilla-transformer train" in text_of(folder)


def test_the_learning_curve_is_drawn_and_shown(folder, reports):
    write_card(folder, reports=reports(TRAINING))
    assert (folder / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    assert "](learning_curve.png)" in text_of(folder)


def test_without_validations_there_is_no_curve(folder, reports):
    write_card(folder, reports=reports({"training": {"steps": 3}}))
    assert not (folder / "learning_curve.png").exists()
    assert "learning_curve" not in text_of(folder)


def test_examples_of_a_test_set_stand_in_a_table_as_they_are(folder, reports):
    rows = [
        {"source": "a | b", "translation": "*a* <b> `c`", "reference": "a_b_c [x](y)"},
        {"source": "我爱猫", "translation": "", "reference": ""},
    ]
    write_card(folder, reports=reports(SCORES | {"translations": rows}))
    table = [line for line in text_of(folder).split("\n") if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in table]
    assert [cell.strip() for cell in cells[0]] == ["source", "translation", "reference"]
    for row, found in zip(rows, cells[1:], strict=True):
        shown = [html.unescape(re.sub(r"\\(.)", r"\1", cell.strip())) for cell in found]
        assert shown == list(row.values())
    assert "<b>" not in text_of(folder)
    assert '"a | b"' in text_of(folder), "the example of the code"


def test_what_a_person_wrote_survives_and_the_rest_is_renewed(folder, reports):
    write_card(folder, reports=reports(TRAINING))
    card = folder / "README.md"
    text = card.read_text().replace("---\nlibrary_name", "---\nlicense: mit\nlibrary_name")
    text = text.replace("- Numbers, names", "- Poems come out flat. Numbers, names")
    card.write_text(text + "\n## Thanks\n\nTo all.\n\n## Thanks\n\nTwice.\n")
    again = TRAINING | {"training": TRAINING["training"] | {"steps": 2400}}
    for _ in range(2):
        write_card(folder, reports=reports(again, SCORES))
    assert metadata_of(folder)["license"] == "mit"
    text = text_of(folder)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        *("## How to use it", "## Data", "## Training", "## Limits", "## Licence"),
        *("## Thanks", "## Thanks", "## Evaluation"),
    ]
    for part in ("Poems come out flat", "To all.", "Twice.", " 2,400 |", "**38.74**"):
        assert text.count(part) >= 1
    assert " 1,200 |" not in text
    assert "None was chosen" not in text


def test_a_card_of_someone_elses_making_is_kept_below_our_metadata(folder, reports):
    (folder / "README.md").write_text("# Mine\n\nWords.\n\n## How I made it\n\nSlowly.\n")
    write_card(folder, reports=reports(SCORES))
    text = text_of(folder)
    assert "# Mine\n\nWords." in text
    assert "Slowly." in text
    assert "pipeline(" in text
    assert metadata_of(folder)["pipeline_tag"] == "translation"


def test_the_code_on_the_card_is_python(folder, reports):
    write_card(folder, repo_id="someone/letters", reports=reports(SCORES))
    blocks = text_of(folder).split("```python\n")[1:]
    assert len(blocks) == 3
    for block in blocks:
        code = block.split("```")[0]
        compile(code, "card", "exec")
        assert '"someone/letters"' in code


@pytest.mark.parametrize(
    ("codes", "language", "tags"),
    [
        (("en", "zh-Hans"), ["en", "zh"], ["en", "zh-Hans"]),
        (("pt_BR", "yue"), ["pt", "yue"], ["pt-BR", "yue"]),
        (("zh-Hans", "zh-Hant"), ["zh"], ["zh-Hans", "zh-Hant"]),
        ((None, "de"), ["de"], None),
        ((None, None), None, None),
    ],
)
def test_language_tags_become_languages_of_the_hub(speaking, codes, language, tags):
    folder = speaking(*codes)
    write_card(folder)
    found = metadata_of(folder)
    assert found.get("language") == language
    assert found.get("language_bcp47") == tags


@pytest.mark.parametrize(
    ("code", "said"),
    [("xx-bogus", "xx-bogus"), ("jp", "did you mean ja"), ("english", "english"), ("qq", "qq")],
)
def test_a_code_of_no_language_is_refused_before_a_card_is_written(speaking, code, said):
    folder = speaking("en", code)
    with pytest.raises(ValueError, match=said):
        write_card(folder)
    assert not (folder / "README.md").exists()


def test_the_languages_of_a_multilingual_model_are_known():
    """Whisper's, all but one that ISO 639 does not have."""
    codes = [code for code in LANGUAGES if code != "jw"]
    assert len(codes) == 99
    assert language_metadata(*codes)["language"] == codes
    with pytest.raises(ValueError, match="jw"):
        language_metadata("jw")


def test_metadata_after_a_mark_of_the_encoding_stay(folder):
    text = "---\nlicense: mit\ntags: [x]\nmetrics: [comet]\n---\n# Mine\n"
    (folder / "README.md").write_text(text, "utf-8-sig")
    write_card(folder, reports=[SCORES])
    found = metadata_of(folder)
    assert found["license"] == "mit"
    assert found["tags"] == ["x", "translation", "vanilla_transformer"]
    assert found["metrics"] == ["comet", "bleu"]
    assert text_of(folder).count("license: mit") == 1


def test_broken_metadata_of_an_old_card_are_named(folder):
    (folder / "README.md").write_text("---\na: [\n---\n")
    with pytest.raises(ValueError, match=r"README.md: broken metadata"):
        write_card(folder)


@pytest.mark.parametrize(("content", "said"), [("{", "is no JSON"), ('{"a": 1}', "neither")])
def test_a_file_that_is_no_report_is_refused(tmp_path, content, said):
    file = tmp_path / "report.json"
    file.write_text(content)
    with pytest.raises(ValueError, match=said):
        read_report(file)
