"""A folder is shared only if it is whole, of one piece, and holds no code but the package's."""

import json

import pytest
import torch
from matplotlib.figure import Figure
from safetensors.torch import load_file, save_file

from hf_vanilla_transformer.publishing import check
from hf_vanilla_transformer.publishing.check import check_folder, code_files

WEIGHTS = "model.safetensors"


@pytest.fixture(autouse=True)
def _no_process(monkeypatch):
    """Let no test but one start a process; a real one is part of every push in the other tests."""
    monkeypatch.setattr(check, "_failure_without_package", lambda folder: iter(()))


def edit_json(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def edit_tensors(folder, edit):
    tensors = load_file(folder / WEIGHTS)
    edit(tensors)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def one_problem(folder):
    (problem,) = check_folder(folder)
    return problem


def test_a_saved_model_with_card_and_pictures_is_fit(folder):
    for name in ("README.md", "LICENSE"):
        (folder / name).write_text("x")
    Figure().savefig(folder / "learning_curve.png")
    assert check_folder(folder) == []


@pytest.mark.parametrize("name", ["training_args.bin", "optimizer.pt", "vectors.pkl"])
def test_a_pickle_is_named(folder, name):
    (folder / name).write_bytes(b"x")
    assert name in one_problem(folder)
    assert "pickle" in one_problem(folder)


@pytest.mark.parametrize("name", ["notes.txt", ".env", "events.out.tfevents.1"])
def test_a_stray_file_is_named(folder, name):
    (folder / name).write_text("x")
    assert one_problem(folder).startswith(f"{name} is no part of a model")


def test_a_link_that_leads_out_of_the_folder_is_named(folder, tmp_path):
    (tmp_path / "secret").write_text("x")
    (folder / "LICENSE").symlink_to(tmp_path / "secret")
    assert one_problem(folder).startswith("LICENSE is a link")


def test_a_stray_folder_is_named(folder):
    (folder / "training_state").mkdir()
    assert one_problem(folder).startswith("training_state/ is no part of a model")


@pytest.mark.parametrize("name", ["modeling_vanilla_transformer.py", "layers.py", "new.py"])
def test_code_that_is_not_the_packages_is_named_and_never_run(folder, name, tmp_path, monkeypatch):
    monkeypatch.undo()
    trace = tmp_path / "it was run"
    with (folder / name).open("a") as file:
        file.write(f"\nopen({str(trace)!r}, 'w')\n")
    assert one_problem(folder).startswith(f"{name} is not")
    assert not trace.exists()


def test_missing_code_is_named(folder):
    (folder / "masks.py").unlink()
    assert one_problem(folder).startswith("masks.py is missing")


def test_every_file_that_a_model_is_saved_with_is_the_packages(saved_model):
    assert {file.name for file in saved_model.glob("*.py")} == set(code_files())


@pytest.mark.parametrize(
    ("file", "reference"),
    [
        ("config.json", {"auto_map": {"AutoModel": "someone/else--modeling.Model"}}),
        ("config.json", {"custom_pipelines": {"translation": {"impl": "else.Pipeline"}}}),
        ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["someone/else--x.Y", None]}}),
    ],
)
def test_a_reference_to_other_code_is_named_and_nothing_run(folder, file, reference, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(check, "WITHOUT_PACKAGE", "raise SystemExit('it was run')")
    edit_json(folder / file, **reference)
    problem = one_problem(folder)
    assert file in problem
    assert next(iter(reference)) in problem


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_named_with_its_tensor(folder, value):
    name = "model.encoder.layers.1.ffn.fc1.bias"
    edit_tensors(folder, lambda tensors: tensors[name][3:5].fill_(value))
    assert one_problem(folder) == f"{name}: 2 of 128 numbers are not finite"


def test_a_missing_tensor_is_named(folder):
    name = "model.decoder.layers.0.ffn.fc2.weight"
    edit_tensors(folder, lambda tensors: tensors.pop(name))
    assert one_problem(folder) == f"tensors missing from the weights: {name}"


def test_an_unknown_tensor_is_named(folder):
    edit_tensors(folder, lambda tensors: tensors.update(left_over=torch.zeros(2)))
    assert one_problem(folder) == "tensors unknown in the weights: left_over"


def test_missing_settings_of_decoding_are_named(folder):
    (folder / "generation_config.json").unlink()
    assert one_problem(folder) == "generation_config.json is missing; save the model again"


def test_half_a_file_of_weights_does_not_load(folder):
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])
    assert one_problem(folder).startswith("does not load: ")


def test_missing_weights_do_not_load(folder):
    (folder / WEIGHTS).unlink()
    assert one_problem(folder).startswith("does not load: ")


@pytest.mark.parametrize("file", ["tokenizer.json", "tokenizer_config.json"])
def test_half_a_tokenizer_is_named(folder, file):
    content = (folder / file).read_text()
    (folder / file).write_text(content[: len(content) // 2])
    assert any(
        problem.startswith(("does not load: ", f"{file} cannot be read: "))
        for problem in check_folder(folder)
    )


def test_a_missing_tokenizer_is_named(folder):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    assert check_folder(folder)[0].startswith("tokenizer_config.json cannot be read: ")


def test_a_special_token_that_differs_in_the_generation_config_is_named(folder):
    edit_json(folder / "generation_config.json", eos_token_id=2)
    assert one_problem(folder) == (
        "eos_token_id is 3 in config.json and 2 in generation_config.json"
    )


def test_a_special_token_that_differs_in_the_tokenizer_is_named(folder):
    edit_json(folder / "tokenizer_config.json", pad_token="<unk>")
    problems = check_folder(folder)
    assert "pad_token_id is 0 in config.json and 1 in tokenizer" in problems


def test_a_tokenizer_larger_than_the_model_is_named(folder):
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"]["vocab"]["z"] = 14
    (folder / "tokenizer.json").write_text(json.dumps(content))
    assert one_problem(folder) == "the tokenizer gives ids up to 14, the model knows ids up to 13"


def edit_vocabulary(file, edit):
    content = json.loads(file.read_text())
    edit(content)
    file.write_text(json.dumps(content))


def move_a_token(content):
    content["model"]["vocab"]["j"] = 9999


def move_what_ends_a_text(content):
    content["post_processor"]["special_tokens"]["</s>"]["ids"] = [9999]


@pytest.mark.parametrize("edit", [move_a_token, move_what_ends_a_text])
def test_an_id_past_the_models_vocabulary_is_named(folder, edit):
    edit_vocabulary(folder / "tokenizer.json", edit)
    problem = "the tokenizer gives ids up to 9999, the model knows ids up to 13"
    assert one_problem(folder) == problem


@pytest.mark.parametrize("edit", [move_a_token, move_what_ends_a_text])
def test_an_id_past_the_targets_own_vocabulary_is_named(folder, edit):
    (folder / "target_tokenizer.json").write_text((folder / "tokenizer.json").read_text())
    edit_json(folder / "tokenizer_config.json", separate_vocabularies=True)
    assert check_folder(folder) == []
    edit_vocabulary(folder / "target_tokenizer.json", edit)
    problem = "the target tokenizer gives ids up to 9999, the model knows ids up to 13"
    assert one_problem(folder) == problem


def test_one_tokenizer_fits_the_smaller_of_two_vocabularies(folder, tiny_model):
    ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2}
    sizes = {"vocab_size": 14, "decoder_vocab_size": 12}
    tiny_model(**ids, **sizes, share_encoder_decoder_embeddings=False).save_pretrained(folder)
    problem = "the tokenizer gives ids up to 13, the model knows ids up to 11"
    assert one_problem(folder) == problem


@pytest.mark.parametrize(
    ("name", "ids"),
    [("forced_bos_token_id", 14), ("forced_eos_token_id", [3, 14]), ("suppress_tokens", [2, 14])],
)
def test_an_id_that_the_generation_config_makes_up_is_named(folder, name, ids):
    edit_json(folder / "generation_config.json", **{name: ids})
    problem = one_problem(folder)  # of the check, or of loading
    assert name in problem
    assert "14" in problem


def test_what_fails_without_the_package_is_told_by_its_last_line(folder, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(check, "WITHOUT_PACKAGE", "print('x')\nraise KeyError('no such task')")
    assert one_problem(folder) == "does not work without the package: KeyError: 'no such task'"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "holds no model, as it has no config.json$"),
        ("{", "is no JSON object"),
        ("[]", "is no JSON object"),
        ("[" * 100_000, "is no JSON object"),
        ('{"model_type": "marian"}', "model_type='marian'"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path, content, said):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=said):
        check_folder(tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        check_folder(tmp_path / "model")
