"""What is exported as HF Marian computes and generates the same there."""

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, MarianMTModel

from hf_vanilla_transformer import VanillaTransformerTokenizer
from hf_vanilla_transformer.convert.marian import export_to_marian

SEPARATE = {"share_encoder_decoder_embeddings": False}
EXPRESSIBLE = {
    "the paper's": {},
    "biases": {"attention_bias": True, "output_bias": True, "activation_function": "gelu"},
    "unscaled": {"scale_embedding": False, "activation_function": "silu", "num_heads": 2},
    "other depths": {"encoder_layers": 1, "decoder_layers": 3, "d_ff": 64},
    "other ids": {"pad_token_id": 99, "bos_token_id": None, "decoder_start_token_id": 99},
    "untied output": {"tie_word_embeddings": False},
    "own embeddings": SEPARATE,
    "nothing tied": {**SEPARATE, "tie_word_embeddings": False},
    "smaller target": {**SEPARATE, "decoder_vocab_size": 90},
    "larger target": {**SEPARATE, "vocab_size": 90, "decoder_vocab_size": 100},
}
INEXPRESSIBLE = {
    "norm_position": "pre",
    "position_type": "learned",
    "activation_function": "swiglu",
    "d_k": 8,
    "d_v": 24,
}


@pytest.fixture
def as_marian(tmp_path, word_tokenizer, two_vocabularies):
    """Return a function that exports a model and loads it with the library's own class."""

    def export(model):
        has_two = model.config.decoder_vocab_size == 90
        tokenizer = two_vocabularies if has_two else word_tokenizer(model.config.vocab_size)
        export_to_marian(model, tokenizer, tmp_path / "marian")
        marian, loading = AutoModelForSeq2SeqLM.from_pretrained(
            tmp_path / "marian", output_loading_info=True
        )
        assert type(marian) is MarianMTModel
        assert not any(loading.values())
        return marian.eval()

    return export


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_logits_and_generated_ids_are_the_same(name, tiny_model, as_marian, ragged, until_end):
    model = tiny_model(**EXPRESSIBLE[name])
    marian = as_marian(model)
    ids, mask = ragged((9, 5, 3), high=90)
    targets, _ = ragged((6, 6, 6), high=90, seed=2)
    inputs = {"input_ids": ids.masked_fill(mask.eq(0), model.config.pad_token_id)}
    inputs["attention_mask"] = mask
    ours = model(**inputs, decoder_input_ids=targets).logits
    assert ours.std() > 0.5
    theirs = marian(**inputs, decoder_input_ids=targets).logits
    removed = marian.generation_config.suppress_tokens
    assert model.config.pad_token_id in removed
    tokens = [index for index in range(ours.shape[-1]) if index not in removed]
    assert len(tokens) >= 89
    torch.testing.assert_close(theirs[..., tokens], ours[..., tokens], atol=1e-5, rtol=1e-5)
    others = [index for index in range(theirs.shape[-1]) if index not in tokens]
    assert not theirs.softmax(-1)[..., others].any()
    model.generation_config.suppress_tokens = removed
    for search in ({}, {"num_beams": 4, "length_penalty": 0.6}):
        settings = {"max_new_tokens": 15, **search}
        found = model.generate(**inputs, **settings)
        assert until_end(marian.generate(**inputs, **settings)) == until_end(found)


def test_a_trained_model_translates_alike_unasked(reversing_model, word_tokenizer, tmp_path):
    model = reversing_model.model
    export_to_marian(model, word_tokenizer(14), tmp_path / "marian")
    marian = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "marian")
    inputs = reversing_model.encode(reversing_model.dev)
    found = reversing_model.decode(marian.generate(**inputs))
    assert found == reversing_model.translate(reversing_model.dev)
    assert len(set(found)) > 40


def test_the_longest_translation_is_not_cut_and_padding_never_written(
    tiny_model, as_marian, until_end
):
    """https://github.com/huggingface/transformers/issues/11958"""
    model = tiny_model(max_position_embeddings=30, output_bias=True)
    model.lm_head.bias.data[model.config.eos_token_id] = -1e4
    model.lm_head.bias.data[model.config.pad_token_id] = 1e4
    source = torch.arange(30)[None] + 4
    ours = model.generate(source)
    assert ours.shape[1] == 1 + 30 + 50
    assert until_end(as_marian(model).generate(source)) == until_end(ours)


def test_a_limit_and_suppressed_tokens_of_the_models_own_travel(tiny_model, as_marian, until_end):
    model = tiny_model()
    model.generation_config.max_new_tokens = 7
    source = torch.arange(6)[None] + 4
    model.generation_config.suppress_tokens = model.generate(source)[0, 1:3].tolist()
    ours = model.generate(source)
    assert ours.shape[1] == 1 + 7
    assert until_end(as_marian(model).generate(source)) == until_end(ours)


@pytest.mark.parametrize(("own", "longest"), [(None, 1000 + 50), (1500, 1500)])
def test_positions_reach_as_far_as_the_limit_and_no_end_is_forced(
    own, longest, tiny_model, as_marian
):
    model = tiny_model(max_position_embeddings=1000)
    if own is not None:
        model.generation_config.max_length = own + 1
    marian = as_marian(model)
    assert marian.generation_config.max_length == 1 + longest
    assert marian.config.max_position_embeddings >= 1 + longest
    assert marian.config.forced_eos_token_id is None


def test_the_papers_length_penalty_becomes_the_librarys_with_a_word(tiny_model, as_marian, caplog):
    model = tiny_model()
    model.generation_config.num_beams = 4
    model.generation_config.gnmt_alpha = 0.6
    settings = as_marian(model).generation_config
    assert (settings.num_beams, settings.length_penalty) == (4, 0.6)
    assert not hasattr(settings, "gnmt_alpha")
    assert "length_penalty" in caplog.text


def test_the_model_is_left_as_it_is_and_fp32_is_written(tiny_model, as_marian, tmp_path):
    model = tiny_model().to(torch.bfloat16).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    settings = model.generation_config.to_dict()
    as_marian(model)
    weights = load_file(tmp_path / "marian/model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert model.generation_config.to_dict() == settings
    assert model.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_the_tokenizer_needs_no_code_of_ours(tiny_model, word_tokenizer, tmp_path):
    tokenizer = word_tokenizer(100)
    export_to_marian(tiny_model(), tokenizer, tmp_path / "marian")
    assert not list(tmp_path.glob("*/*.py"))
    assert "auto_map" not in (tmp_path / "marian/tokenizer_config.json").read_text("utf-8")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "marian")
    assert not isinstance(theirs, VanillaTransformerTokenizer)
    texts = ["w7 w8  w9", "", "w5 </s> unheard"]
    ours = tokenizer(texts, padding=True, return_tensors="pt")
    found = theirs(texts, padding=True, return_tensors="pt")
    assert list(found) == list(ours)
    assert found["input_ids"].tolist() == ours["input_ids"].tolist()
    assert theirs.batch_decode(found["input_ids"]) == tokenizer.batch_decode(ours["input_ids"])


def test_two_vocabularies_travel_in_our_class(tiny_model, two_vocabularies, tmp_path):
    export_to_marian(
        tiny_model(**SEPARATE, decoder_vocab_size=90), two_vocabularies, tmp_path / "marian"
    )
    theirs = AutoTokenizer.from_pretrained(tmp_path / "marian")
    assert theirs(text_target="v7 v8")["input_ids"] == [7, 8, 3]
    assert theirs.batch_decode([[7, 8, 3]], skip_special_tokens=True) == ["v7 v8"]


@pytest.mark.parametrize(("field", "value"), INEXPRESSIBLE.items())
def test_what_marian_lacks_is_refused_before_anything_is_written(
    field, value, tiny_model, word_tokenizer, tmp_path
):
    model = tiny_model(**{field: value})
    with pytest.raises(ValueError, match=f"^Marian cannot express {field}={value!r}, only .+$"):
        export_to_marian(model, word_tokenizer(100), tmp_path / "marian")
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_of_another_model_is_refused_with_both_numbers(
    tiny_model, word_tokenizer, tmp_path
):
    model = tiny_model(**SEPARATE, decoder_vocab_size=99)
    with pytest.raises(ValueError, match="source's tokenizer has 101 entries and .* 100 embedd"):
        export_to_marian(model, word_tokenizer(101), tmp_path / "marian")
    with pytest.raises(ValueError, match="target's tokenizer has 100 entries and .* 99 embedd"):
        export_to_marian(model, word_tokenizer(100), tmp_path / "marian")
    assert not list(tmp_path.iterdir())


def test_other_models_and_adapters_are_refused(tiny_model, as_marian, word_tokenizer, tmp_path):
    model = tiny_model()
    with pytest.raises(ValueError, match="a VanillaTransformerModel cannot be exported"):
        export_to_marian(model.model, word_tokenizer(100), tmp_path / "marian")
    with pytest.raises(ValueError, match="a MarianMTModel cannot be exported"):
        export_to_marian(as_marian(model), word_tokenizer(100), tmp_path / "other")
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(target_modules=["q_proj"])
    with_adapters = peft.inject_adapter_in_model(config, model)
    with pytest.raises(ValueError, match="merge_and_unload"):
        export_to_marian(with_adapters, word_tokenizer(100), tmp_path / "other")
    assert [folder.name for folder in tmp_path.iterdir()] == ["marian"]


def test_a_model_whose_weights_are_in_no_tensor_of_it_is_refused(
    tiny_model, word_tokenizer, tmp_path
):
    model = tiny_model()
    model.lm_head = torch.nn.Identity()  # as the linear maps of an int8 copy: no parameters
    with pytest.raises(ValueError, match="int8; export the one that it was made of"):
        export_to_marian(model, word_tokenizer(100), tmp_path / "marian")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_left_alone(tiny_model, word_tokenizer, tmp_path):
    notes = tmp_path / "marian/notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    with pytest.raises(ValueError, match="marian is not empty"):
        export_to_marian(tiny_model(), word_tokenizer(100), notes.parent)
    assert [file.name for file in notes.parent.iterdir()] == ["notes.txt"]
    notes.unlink()
    export_to_marian(tiny_model(), word_tokenizer(100), notes.parent)
    assert (notes.parent / "model.safetensors").is_file()


def test_a_failure_leaves_nothing_behind(tiny_model, word_tokenizer, tmp_path, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError("no space left")

    tokenizer = word_tokenizer(100)
    monkeypatch.setattr(type(tokenizer), "save_pretrained", fail)
    with pytest.raises(OSError, match="no space left"):
        export_to_marian(tiny_model(), tokenizer, tmp_path / "marian")
    assert not list(tmp_path.iterdir())
