"""Every rule of the configuration, its defaults, and its way through files."""

import json
import re

import pytest
from transformers import AutoConfig, PretrainedConfig

from hf_vanilla_transformer import VanillaTransformerConfig

# Table 3 of Vaswani et al. 2017, row "base", and sections 3 and 5 for what is not in the table.
BASE = {
    "d_model": 512,
    "d_ff": 2048,
    "num_heads": 8,
    "d_k": 64,
    "d_v": 64,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "dropout": 0.1,
    "attention_dropout": 0.0,
    "activation_dropout": 0.0,
    "activation_function": "relu",
    "norm_position": "post",
    "position_type": "sinusoidal",
    "attention_bias": False,
    "scale_embedding": True,
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "output_bias": False,
    "vocab_size": 37_000,
}
SIZES = (
    "vocab_size",
    "d_model",
    "d_ff",
    "num_heads",
    "encoder_layers",
    "decoder_layers",
    "max_position_embeddings",
)
PROBABILITIES = ("dropout", "attention_dropout", "activation_dropout", "label_smoothing")
FLAGS = (
    "attention_bias",
    "scale_embedding",
    "share_encoder_decoder_embeddings",
    "tie_word_embeddings",
    "output_bias",
    "use_cache",
)
CHOICES = {
    "activation_function": ("relu", "gelu", "silu", "swiglu"),
    "norm_position": ("post", "pre"),
    "position_type": ("sinusoidal", "learned"),
}
IDS = ("pad_token_id", "eos_token_id", "decoder_start_token_id")


def refusal(**fields):
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        VanillaTransformerConfig(**fields)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_defaults_are_the_base_model_of_the_paper():
    config = VanillaTransformerConfig()
    assert {name: getattr(config, name) for name in BASE} == BASE
    assert config.is_encoder_decoder is True
    assert config.label_smoothing == 0.0


@pytest.mark.parametrize("name", [*SIZES, "decoder_vocab_size", "d_k", "d_v"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "8", True])
def test_a_size_that_is_no_positive_whole_number_is_refused(name, value):
    message = refusal(**{name: value})
    assert message == f"{name}={value!r} is not a whole number of at least 1"


@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_must_be_given_is_not_left_open(name):
    assert refusal(**{name: None}).startswith(f"{name}=None is not ")


@pytest.mark.parametrize("name", PROBABILITIES)
@pytest.mark.parametrize("value", [-0.1, 1, 1.5, None, "0.1", True, float("nan")])
def test_a_probability_out_of_range_is_refused(name, value):
    assert refusal(**{name: value}) == f"{name}={value!r} is not a number in [0, 1)"


@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("value", [None, 1, "yes"])
def test_a_flag_that_is_no_truth_value_is_refused(name, value):
    assert refusal(**{name: value}) == f"{name}={value!r} is not True or False"


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.parametrize("value", ["tanh", None, 3])
def test_a_choice_that_is_not_offered_is_refused_with_those_that_are(name, value):
    expected = f"{name}={value!r} is not one of {', '.join(CHOICES[name])}"
    assert refusal(**{name: value}) == expected


@pytest.mark.parametrize("value", ["rotary", "alibi"])
def test_positions_of_a_later_version_are_refused_by_name(value):
    message = refusal(position_type=value)
    assert message == f"position_type={value!r} comes with a later version"


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("value", [-1, 100, 2.0, True])
def test_an_id_outside_the_vocabulary_is_refused(name, value):
    message = refusal(vocab_size=100, **{name: value})
    assert message == f"{name}={value!r} is not an id below the vocabulary size 100"


def test_the_start_token_belongs_to_the_target_vocabulary():
    sizes = {"vocab_size": 50, "share_encoder_decoder_embeddings": False}
    config = VanillaTransformerConfig(**sizes, decoder_vocab_size=90, decoder_start_token_id=80)
    assert config.decoder_start_token_id == 80
    message = refusal(**sizes, decoder_vocab_size=20, decoder_start_token_id=30)
    assert message == "decoder_start_token_id=30 is not an id below the vocabulary size 20"
    message = refusal(**sizes, decoder_vocab_size=90, eos_token_id=60)
    assert message == "eos_token_id=60 is not an id below the vocabulary size 50"


def test_a_missing_start_token_is_refused_and_bos_stands_in_for_it():
    assert VanillaTransformerConfig(bos_token_id=7).decoder_start_token_id == 7
    assert (
        VanillaTransformerConfig(bos_token_id=None, decoder_start_token_id=5).bos_token_id is None
    )
    assert refusal(bos_token_id=None).startswith("decoder_start_token_id=None is not an id")


def test_padding_and_end_of_sentence_must_differ():
    message = refusal(pad_token_id=3)
    assert "pad_token_id" in message
    assert "eos_token_id" in message
    assert "3" in message


def test_widths_that_do_not_divide_are_refused_unless_given():
    message = refusal(d_model=100)
    assert message == "d_model=100 is not divisible by num_heads=8; give d_k and d_v"
    assert refusal(d_model=100, d_k=16) == message
    config = VanillaTransformerConfig(d_model=100, d_k=16, d_v=7)
    assert (config.d_k, config.d_v) == (16, 7)


@pytest.mark.parametrize(
    ("fields", "expected"), [({}, (32, 32)), ({"d_k": 5}, (5, 32)), ({"d_v": 9}, (32, 9))]
)
def test_widths_of_a_head_default_to_a_share_of_the_model(fields, expected):
    config = VanillaTransformerConfig(d_model=128, num_heads=4, **fields)
    assert (config.d_k, config.d_v) == expected


def test_sinusoids_need_an_even_width():
    assert refusal(d_model=15, num_heads=3).startswith("d_model=15 is odd")
    VanillaTransformerConfig(d_model=15, num_heads=3, position_type="learned")


def test_one_embedding_matrix_cannot_serve_two_vocabularies():
    message = refusal(vocab_size=100, decoder_vocab_size=90)
    for part in ("vocab_size=100", "decoder_vocab_size=90", "share_encoder_decoder_embeddings"):
        assert part in message
    VanillaTransformerConfig(vocab_size=100, decoder_vocab_size=100)


UNUSUAL = {
    "vocab_size": 50,
    "decoder_vocab_size": 60,
    "d_model": 12,
    "d_ff": 20,
    "num_heads": 5,
    "d_k": 3,
    "d_v": 4,
    "encoder_layers": 1,
    "decoder_layers": 3,
    "dropout": 0.3,
    "attention_dropout": 0.2,
    "activation_dropout": 0.15,
    "activation_function": "swiglu",
    "norm_position": "pre",
    "position_type": "learned",
    "max_position_embeddings": 77,
    "attention_bias": True,
    "scale_embedding": False,
    "share_encoder_decoder_embeddings": False,
    "tie_word_embeddings": False,
    "output_bias": True,
    "label_smoothing": 0.1,
    "use_cache": False,
    "source_language": "zh",
    "target_language": "en",
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 55,
}


@pytest.mark.parametrize("fields", [{}, UNUSUAL], ids=["defaults", "unusual"])
def test_a_configuration_survives_every_way_through_a_file(fields, tmp_path):
    config = VanillaTransformerConfig(**fields)
    expected = {**BASE, **fields}
    config.to_json_file(tmp_path / "copy.json")
    config.save_pretrained(tmp_path)
    copies = [
        VanillaTransformerConfig.from_json_file(tmp_path / "copy.json"),
        VanillaTransformerConfig.from_pretrained(tmp_path),
        VanillaTransformerConfig.from_dict(config.to_dict()),
        VanillaTransformerConfig(**json.loads(config.to_json_string())),
    ]
    for copy in copies:
        assert {name: getattr(copy, name) for name in expected} == expected
        assert copy.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}


def test_every_field_is_written_to_the_file(tmp_path):
    VanillaTransformerConfig(**UNUSUAL).save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert {name: written.get(name) for name in UNUSUAL} == UNUSUAL
    assert written["model_type"] == "vanilla_transformer"
    assert written["is_encoder_decoder"] is True


def test_a_file_with_a_broken_value_is_refused(tmp_path):
    VanillaTransformerConfig().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"norm_position": "post"', '"norm_position": "mid"'))
    with pytest.raises(ValueError, match="norm_position='mid' is not one of post, pre"):
        VanillaTransformerConfig.from_pretrained(tmp_path)


def test_names_that_the_library_looks_for_are_served():
    config = VanillaTransformerConfig(**UNUSUAL)
    assert config.hidden_size == 12
    assert config.num_attention_heads == 5
    assert config.num_hidden_layers == 1
    assert config.get_text_config(decoder=True).num_hidden_layers == 3
    assert config.encoder_ffn_dim == config.decoder_ffn_dim == 20


NEAR = {"d_modle": "d_model", "droput": "dropout", "source_lang": "source_language", "dff": "d_ff"}
FOREIGN = ("num_key_value_heads", "num_layers", "rope_theta", "layer_norm_eps", "pre_norm")


@pytest.mark.parametrize("read", [VanillaTransformerConfig.from_dict, AutoConfig.from_pretrained])
@pytest.mark.parametrize("name", [*NEAR, *FOREIGN])
def test_a_name_that_would_change_the_architecture_is_not_swallowed(name, read, tmp_path):
    remedy = f"did you mean {NEAR[name]}?" if name in NEAR else "leave it out"
    expected = f"{name}=2 is no field of VanillaTransformerConfig; {remedy}"
    assert refusal(**{name: 2}) == expected
    settings = VanillaTransformerConfig().to_dict() | {name: 2}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=re.escape(expected)):
        read(settings if read == VanillaTransformerConfig.from_dict else tmp_path)


def test_a_call_takes_no_unknown_name_at_all():
    assert refusal(h=8) == "h=8 is no field of VanillaTransformerConfig; leave it out"


@pytest.mark.parametrize(
    "name", ["is_decoder", "add_cross_attention", "tie_encoder_decoder", "is_encoder_decoder"]
)
def test_another_architecture_by_a_field_of_the_library_is_refused(name):
    wrong = name != "is_encoder_decoder"
    assert refusal(**{name: wrong}).startswith(f"{name}={wrong} is not ")
    VanillaTransformerConfig(**{name: not wrong})


# What transformers 4.57.6 and 5.24.0 write beside a model's own fields.
WRITTEN = {
    "_name_or_path": "",
    "add_cross_attention": False,
    "architectures": ["VanillaTransformerForConditionalGeneration"],
    "auto_map": {"AutoConfig": "configuration_vanilla_transformer.VanillaTransformerConfig"},
    "bad_words_ids": None,
    "chunk_size_feed_forward": 0,
    "cross_attention_hidden_size": None,
    "custom_pipelines": {"translation": {"impl": "x.Y", "pt": ["AutoModel"], "type": "text"}},
    "dtype": "float32",
    "exponential_decay_length_penalty": None,
    "finetuning_task": None,
    "id2label": {"0": "LABEL_0", "1": "LABEL_1"},
    "is_decoder": False,
    "is_encoder_decoder": True,
    "label2id": {"LABEL_0": 0, "LABEL_1": 1},
    "model_type": "vanilla_transformer",
    "num_beam_groups": 1,
    "output_attentions": False,
    "output_scores": False,
    "pruned_heads": {},
    "sep_token_id": None,
    "task_specific_params": None,
    "tf_legacy_loss": False,
    "tie_encoder_decoder": False,
    "torchscript": False,
    "transformers_version": "4.57.6",
    "use_bfloat16": False,
}


def test_files_of_old_and_new_versions_and_notes_of_other_tools_are_read(tmp_path):
    tools = {"transformers.js_config": {"dtype": "q8"}, "unsloth_version": "2026.1", "license": "x"}
    settings = {**PretrainedConfig().to_dict(), **WRITTEN, **UNUSUAL}
    VanillaTransformerConfig(**settings)
    settings |= tools
    (tmp_path / "config.json").write_text(json.dumps(settings))
    config = AutoConfig.from_pretrained(tmp_path)
    assert {name: getattr(config, name) for name in UNUSUAL} == UNUSUAL
    config.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert {name: written.get(name) for name in tools} == tools


@pytest.mark.parametrize(
    "read", [AutoConfig.from_pretrained, VanillaTransformerConfig.from_pretrained]
)
def test_what_is_given_at_loading_is_a_field_or_refused(tmp_path, read):
    VanillaTransformerConfig().save_pretrained(tmp_path)
    known = {"trust_remote_code": False, "local_files_only": True, "revision": "main"}
    assert read(tmp_path, dropout=0.2, num_labels=3, **known).dropout == 0.2
    for name, value in {"d_modle": 64, "num_key_value_heads": 2}.items():
        with pytest.raises(ValueError, match=f"{name}={value} is no field"):
            read(tmp_path, **{name: value})
    with pytest.raises(ValueError, match="is_encoder_decoder=False"):
        read(tmp_path, is_encoder_decoder=False)
