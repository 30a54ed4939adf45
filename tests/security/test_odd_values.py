"""A folder with odd values works, or is refused in a line that names the value."""

import contextlib
import json
import os
import subprocess
import sys

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerTokenizer,
)

ALL = (
    VanillaTransformerConfig.from_pretrained,
    VanillaTransformerForConditionalGeneration.from_pretrained,
    VanillaTransformerTokenizer.from_pretrained,
    AutoConfig.from_pretrained,
    AutoModelForSeq2SeqLM.from_pretrained,
    AutoTokenizer.from_pretrained,
    lambda folder: pipeline("translation", model=str(folder)),
)
MODELS, TOKENIZERS = (ALL[1], ALL[4]), (ALL[2], ALL[5])


def change(folder, file, **settings):
    path = folder / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **settings}))


def refusals(folder):
    """Return what each way to load a folder says against it; no other error is expected."""
    messages = []
    for load in ALL:
        try:
            load(folder)
        except (ValueError, OSError) as error:
            messages.append(str(error))
    return messages


def table(**values):
    return [(name, value) for name, each in values.items() for value in each]


@pytest.mark.parametrize("text", ["[]", "null", '"x"', "{", "[" * 100_000, b"\xff\xfe{"])
@pytest.mark.parametrize(
    "file",
    [
        *("config.json", "generation_config.json", "tokenizer_config.json", "tokenizer.json"),
        *("special_tokens_map.json", "added_tokens.json"),
    ],
)
def test_a_file_that_holds_no_object_is_refused(file, text, folder):
    (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    messages = refusals(folder)
    assert messages
    assert all(messages)


@pytest.mark.parametrize("content", [{}, {"added_tokens": 5}, {"added_tokens": [], "model": {}}])
def test_a_tokenizer_without_its_parts_is_refused(content, folder):
    (folder / "tokenizer.json").write_text(json.dumps(content))
    for load in TOKENIZERS:
        with pytest.raises(ValueError, match=f"the tokenizer of {folder} holds what"):
            load(folder)


SEARCH = table(
    forced_bos_token_id=[99_999, -1, "x", [5], 1.5, True],
    forced_eos_token_id=[99_999, [99_999], "x", []],
    decoder_start_token_id=[99_999, -5, "x", [1, 2]],
    pad_token_id=[99_999, "x", [0]],
    eos_token_id=[99_999, [3, 99_999], "x", [[3]]],
    bos_token_id=["x"],
    suppress_tokens=[5, [[1]], [True]],
    begin_suppress_tokens=[5, "x"],
    bad_words_ids=[5, [5], [[]], []],
    watermarking_config=[5, {"greenlist_ratio": "x"}, {"zz": 1}, {"hashing_key": 2**70}],
    max_length=[10**12, -1, 2.5, True, "x"],
    max_new_tokens=[10**12, -1, "x"],
    min_length=[10**12, "x"],
    extra_decode_length=[10**12, True],
    cache_implementation=["offloaded", "offloaded_static", "quantized", "sliding_window", 5],
    num_beams=[0, -1, 2.5, "x", 10**9, True],
    num_return_sequences=[0, -1, "x"],
    temperature=[float("nan"), float("inf"), [], "x"],
    gnmt_alpha=[float("nan"), 1e308, -1, "x", [], True],
    length_penalty=[1e308, "x"],
    early_stopping=[[], 5, "x"],
    top_k=["x", -1],
    no_repeat_ngram_size=["x", 2.5],
    exponential_decay_length_penalty=["x", 5, [1]],
    max_time=["x"],
    penalty_alpha=["x"],
    is_assistant=[True, "x"],
    assistant_early_exit=[1],
    prefill_chunk_size=[2],
    do_sample=["x", 5],
    validate=[5],
    _limit_is_given=[5],
    to_dict=["x"],
    __class__=["x"],
    self=[5],
)


@pytest.mark.parametrize(("name", "value"), SEARCH)
def test_an_odd_setting_of_the_search_is_refused_at_loading(name, value, folder):
    change(folder, "generation_config.json", **{name: value})
    for load in MODELS:
        with pytest.raises(
            ValueError, match=f"^{name}=|^watermarking_config has zz|^greenlist|^hash"
        ):
            load(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    table(
        max_length=[10**12],
        num_beams=["x"],
        task_specific_params=[{"translation_a_to_b": 5}, {"translation_a_to_b": {"num_beams": 0}}],
        quantization_config=[
            *(5, False, [], {}, {"quant_method": "gptq", "bits": 4}, {"quant_method": "torchao"}),
            {"quant_method": "torchao", "quant_type": {"default": "x"}},
        ],
        dtype=["x", 5, [], "int8", "float8_e4m3fn", "complex64", "auto", {"a": "float16"}],
        torch_dtype=["load"],
        architectures=["x", {}, [5], [None]],
        pruned_heads=[{"0": 5}],
        tokenizer_class=["AutoTokenizer", "AutoModel", "NoSuch", "PreTrainedTokenizerBase", 5, []],
        auto_map=[5, [], None, {"AutoConfig": 5}],
        attribute_map=[{"d_model": "d_ff"}],
        sub_configs=[5],
        base_model_tp_plan=[5],
        hidden_size=["x"],
        use_return_dict=[5],
    ),
)
def test_an_odd_setting_of_the_config_is_refused(name, value, folder):
    change(folder, "config.json", **{name: value})
    for load in MODELS:
        with pytest.raises(ValueError, match=rf"{name}|d_model='x'|num_beams"):
            load(folder)
    with contextlib.suppress(ValueError):  # transformers 5 reads the config for it
        AutoTokenizer.from_pretrained(folder)


@pytest.mark.parametrize("name", ["layer_types", "rope_parameters", "per_layer_config"])
def test_what_some_versions_check_of_other_models_ends_in_no_other_error(name, folder):
    for value in (5, ["x"], {"a": 5}):
        change(folder, "config.json", **{name: value})
        assert all(refusals(folder))


@pytest.mark.parametrize(
    ("name", "value"),
    table(
        pad_token=[5, [], {}, True, {"content": 5}, {"content": "<pad>", "lstrip": "x"}],
        unk_token=[["x"], "x" * 100_000],
        additional_special_tokens=[5, "x", [5], {"a": 5}],
        extra_special_tokens=[5, "x", [5], {"a": 5}],
        added_tokens_decoder=[[], {"5": "x"}, {"5": {}}, {"0": {"content": 5}}],
        model_max_length=[0.5, 0, True],
        padding_side=["x", 5],
        model_input_names=[[5]],
        self=[5],
        cls=["x"],
    ),
)
@pytest.mark.parametrize("file", ["tokenizer_config.json", "special_tokens_map.json"])
def test_an_odd_setting_of_the_tokenizer_is_refused(file, name, value, folder):
    change(folder, file, **{name: value})
    for load in TOKENIZERS:
        with pytest.raises(ValueError, match=f"^{name}="):
            load(folder)


@pytest.mark.parametrize(
    "name", ["AutoTokenizer", "AutoTokenizerFast", "AutoProcessor", "BertModel", "__class__", 5, []]
)
def test_no_other_class_of_the_library_is_taken_for_a_tokenizers(name, folder):
    change(folder, "tokenizer_config.json", tokenizer_class=name)
    for load in (AutoTokenizer.from_pretrained, ALL[-1]):
        with pytest.raises(ValueError, match="tokenizer_class=.* is not the name of a tokenizer's"):
            load(folder)


@pytest.mark.parametrize("value", [5, None, ["x"], [None, None], {"AutoTokenizer": 5}])
def test_a_map_of_a_tokenizers_code_is_a_pair(value, folder):
    change(folder, "tokenizer_config.json", auto_map=value)
    with pytest.raises(ValueError, match="^auto_map="):
        AutoTokenizer.from_pretrained(folder)


def test_a_map_of_special_tokens_names_no_files(folder, outside):
    change(folder, "special_tokens_map.json", tokenizer_file=str(outside.folder / "tokenizer.json"))
    for load in TOKENIZERS:
        with pytest.raises(ValueError, match="tokenizer_file=.* is no setting that a file may"):
            load(folder)
    assert not outside.was_opened()


@pytest.mark.parametrize(
    ("name", "value"),
    table(
        forced_bos_token_id=[5],
        eos_token_id=[[3, 7]],
        suppress_tokens=[[5, 6], []],
        bad_words_ids=[[[5], [6, 7]]],
        watermarking_config=[{"seeding_scheme": "selfhash", "bias": 1.5}],
        max_length=[7, None],
        cache_implementation=["dynamic", "static"],
        num_beams=[3],
        num_return_sequences=[1],
        gnmt_alpha=[0.6, 0, 1],
        length_penalty=[0.8, -1],
        early_stopping=[True, "never"],
        exponential_decay_length_penalty=[[2, 1.1]],
        repetition_penalty=[1.2],
        no_repeat_ngram_size=[2],
        return_dict_in_generate=[True],
        unheard_of=[{"a": [5]}],
    ),
)
def test_a_sound_setting_of_the_search_is_followed(name, value, folder):
    change(folder, "generation_config.json", **{name: value})
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    output = model.generate(torch.tensor([[5, 6, 3]]), max_new_tokens=3)
    assert getattr(output, "sequences", output).shape[0] == 1


def test_an_id_that_the_model_does_not_have_is_named_before_it_is_looked_up(folder):
    model = MODELS[0](folder)
    with pytest.raises(ValueError, match="the source holds id 999, and the model's vocabulary has"):
        model.generate(torch.tensor([[5, 999, 3]]))


WITHOUT_PACKAGE = """
import json, sys
from pathlib import Path
sys.modules["hf_vanilla_transformer"] = None
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
folder = sys.argv[1]
for file, name, value, load in (
    ("generation_config.json", "num_beams", 0, AutoModelForSeq2SeqLM.from_pretrained),
    ("generation_config.json", "forced_bos_token_id", 99999, AutoModelForSeq2SeqLM.from_pretrained),
    ("config.json", "dtype", "x", AutoModelForSeq2SeqLM.from_pretrained),
    ("tokenizer_config.json", "pad_token", 5, AutoTokenizer.from_pretrained),
    ("special_tokens_map.json", "pad_token", [], AutoTokenizer.from_pretrained),
):
    path = Path(folder, file)
    sound = path.read_text() if path.exists() else "{}"
    path.write_text(json.dumps({**json.loads(sound), name: value}))
    try:
        load(folder, trust_remote_code=True)
        raise SystemExit(f"{name} was taken")
    except ValueError as error:
        assert str(error).startswith(f"{name}="), error
    path.write_text(sound)
load(folder, trust_remote_code=True)
"""


def test_the_code_that_travels_with_a_folder_refuses_the_same(folder, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE, folder],
        env={**os.environ, "HF_MODULES_CACHE": str(tmp_path / "modules")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
