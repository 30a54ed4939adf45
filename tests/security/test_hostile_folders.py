"""A folder that somebody else made: what it says is read, and never run or followed."""

import ast
import contextlib
import json
import pickle
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline

import hf_vanilla_transformer
from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
    VanillaTransformerTokenizer,
)
from hf_vanilla_transformer.model.pretrained import count_parameters

MODELS = (VanillaTransformerForConditionalGeneration, AutoModelForSeq2SeqLM)
TOKENIZERS = (VanillaTransformerTokenizer, AutoTokenizer)


class Creates:
    """Unpickled, it creates a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def change(folder, file, **settings):
    content = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps({**content, **settings}))


# https://github.com/huggingface/transformers/issues/48068
@pytest.mark.parametrize("loader", MODELS)
def test_a_pickle_of_weights_is_refused_and_not_run(loader, folder, tmp_path):
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save({**state, "x": Creates(tmp_path / "pwned")}, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="has no model.safetensors; .* pickles, which may run code"):
        loader.from_pretrained(folder)
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(OSError, match="pickles"):
        loader.from_pretrained(folder)
    with pytest.raises(ValueError, match="use_safetensors=False: .* pickles"):
        loader.from_pretrained(folder, use_safetensors=False)
    assert not (tmp_path / "pwned").exists()
    assert pickle.loads(pickle.dumps(Creates(tmp_path / "pwned"))) is None
    assert (tmp_path / "pwned").exists()  # it would have worked


def test_beside_a_pickle_the_safetensors_are_read(folder, tmp_path):
    torch.save(Creates(tmp_path / "pwned"), folder / "pytorch_model.bin")
    for loader in MODELS:
        loader.from_pretrained(folder)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize("is_absolute", [True, False])
def test_an_index_of_weights_leads_nowhere_else(is_absolute, folder, outside):
    (folder / "model.safetensors").unlink()
    name = "model.safetensors"
    place = str(outside.folder / name) if is_absolute else f"../{outside.folder.name}/{name}"
    names = load_file(outside.folder / name)
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, place)}
    (folder / f"{name}.index.json").write_text(json.dumps(index))
    change(folder, "config.json", _name_or_path="/", name_or_path="/")
    for loader in MODELS:
        with pytest.raises(ValueError, match=r"index names .*outside.*, which is not in"):
            loader.from_pretrained(folder)


def test_an_index_of_weights_names_no_pickle(folder, tmp_path):
    names = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(Creates(tmp_path / "pwned"), folder / "part.bin")
    index = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, "part.bin")}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(Exception, match=r"pickles|[Hh]eader"):  # whoever sees it first
        VanillaTransformerForConditionalGeneration.from_pretrained(folder)
    assert not (tmp_path / "pwned").exists()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("tokenizer_file", "tokenizer.json"),
        ("target_tokenizer_file", "tokenizer.json"),
        ("vocab_file", "tokenizer.json"),
        ("added_tokens_file", "config.json"),
        ("special_tokens_map_file", "config.json"),
        ("chat_template_file", "config.json"),
        ("gguf_file", "model.safetensors"),
        ("fast_tokenizer_files", "tokenizer.4.0.json"),
    ],
)
@pytest.mark.parametrize("loader", TOKENIZERS)
def test_a_tokenizer_names_no_files(name, file, loader, folder, outside):
    for place in (str(outside.folder / file), f"../outside/{file}", "https://127.0.0.1:9/x"):
        value = [place] if name.endswith("s") else place
        change(folder, "tokenizer_config.json", **{name: value})
        outside.was_opened()
        with pytest.raises(ValueError, match=f"{name}=.* is no setting that a file may have"):
            loader.from_pretrained(folder)
        assert not outside.was_opened()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transformers_weights", "../outside/model.safetensors"),
        ("_attn_implementation", "org/kernel"),
        ("_attn_implementation_internal", "org/kernel"),
        ("to_dict", "x"),
        ("__class__", "x"),
        ("dtype", "load"),
        ("num_labels", 10**6),
        ("source_language", 5),
        ("task_specific_params", ["x"]),
    ],
)
@pytest.mark.parametrize("loader", MODELS)
def test_a_config_says_nothing_that_the_library_would_follow(name, value, loader, folder, outside):
    change(folder, "config.json", **{name: value})
    outside.was_opened()
    with pytest.raises(ValueError, match=f"^{name}="):
        loader.from_pretrained(folder)
    assert not outside.was_opened()


@pytest.mark.parametrize("loader", MODELS)
def test_a_config_has_no_kernel_of_the_hub_run(loader, folder):
    change(folder, "config.json", attn_implementation="org/kernel")
    with pytest.raises(ValueError, match="attn_implementation='org/kernel' is not eager or sdpa"):
        VanillaTransformerConfig(attn_implementation="org/kernel")
    # Some versions of the library pass over what the file says.
    with contextlib.suppress(ValueError):
        assert loader.from_pretrained(folder).config._attn_implementation == "sdpa"


def make_hostile(folder, mark):
    """Name code of the folder and of elsewhere wherever the library looks for it."""
    source = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    for file in (folder / "hostile.py", folder / "custom_generate" / "generate.py"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(source)
    names = ("AutoConfig", "AutoModel", "AutoModelForSeq2SeqLM")
    task = {"impl": "hostile.X", "pt": ["AutoModelForSeq2SeqLM"], "type": "text"}
    common = {"trust_remote_code": True, "custom_generate": str(folder)}
    change(
        folder,
        "config.json",
        auto_map=dict.fromkeys(names, "hostile.X"),
        custom_pipelines={"translation": task},
        **common,
    )
    change(folder, "generation_config.json", penalty_alpha=0.6, top_k=4, **common)
    change(folder, "tokenizer_config.json", auto_map={"AutoTokenizer": ["hostile.X"] * 2}, **common)


def test_code_of_a_folder_is_not_run_where_nobody_says_so(folder, tmp_path):
    make_hostile(folder, tmp_path / "ran")
    for loader in (*MODELS, *TOKENIZERS):
        assert type(loader.from_pretrained(folder)).__module__.startswith("hf_vanilla_transformer.")
    translator = pipeline("translation", model=str(folder))
    assert type(translator) is hf_vanilla_transformer.TranslationPipeline
    # That search is code of the Hub.
    with pytest.raises(ValueError, match="trust_remote_code"):
        translator("a b", max_new_tokens=2)
    assert not (tmp_path / "ran").exists()


WITHOUT_PACKAGE = """
import sys
sys.modules["hf_vanilla_transformer"] = None
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, pipeline
def translate(folder):
    return pipeline("translation", model=folder)
for load in (AutoModelForSeq2SeqLM.from_pretrained, AutoTokenizer.from_pretrained, translate):
    try:
        load(sys.argv[1])
    except ValueError as error:
        assert "trust_remote_code=True" in str(error), error
"""


def test_without_the_package_code_of_a_folder_is_not_run_either(folder, tmp_path):
    make_hostile(folder, tmp_path / "ran")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGE, folder],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "sizes",
    [
        {"d_model": 10**9},
        {"vocab_size": 10**12},
        {"d_ff": 10**15},
        {"num_heads": 10**12, "d_k": 4, "d_v": 4},
        {"d_k": 2**63},
        {"d_v": 10**30},
        {"encoder_layers": 10**6},
        {"decoder_layers": 10**9},
        {"position_type": "learned", "max_position_embeddings": 10**12},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 10**12},
    ],
)
def test_absurd_sizes_end_in_an_error_before_memory_is_taken(sizes, folder):
    change(folder, "config.json", **sizes)
    fields = json.loads((folder / "config.json").read_text())
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    for loader in MODELS:
        with pytest.raises(ValueError, match=r"machine has .* GB of memory|layers=.* at most 1000"):
            loader.from_pretrained(folder)
    with pytest.raises(ValueError, match=r"machine has .* GB of memory|layers=.* at most 1000"):
        VanillaTransformerModel(VanillaTransformerConfig(**fields))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("name", "value", "size"), [("vocab_size", 10**6, 10**6), ("d_ff", 17, 17), ("d_k", 5, 20)]
)
def test_weights_of_another_shape_are_named_before_memory_is_taken(name, value, size, folder):
    change(folder, "config.json", **{name: value})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for loader in MODELS:
        with pytest.raises(ValueError, match=rf" is \[.*safetensors, and \[.*{size}.*by"):
            loader.from_pretrained(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kB
    model = MODELS[0].from_pretrained(folder, ignore_mismatched_sizes=True)
    assert getattr(model.config, name) == value


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"d_k": 3, "d_v": 5, "activation_function": "swiglu", "position_type": "learned"},
        {"tie_word_embeddings": False, "encoder_layers": 3},
        {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 70},
    ],
)
def test_parameters_are_counted_as_they_are_built(fields, tiny_model):
    model = tiny_model(**fields)
    matrices = (parameter for parameter in model.parameters() if parameter.dim() > 1)
    assert count_parameters(model.config) == sum(matrix.numel() for matrix in matrices)


def test_no_call_of_the_package_trusts_code_or_unpickles():
    unsafe = []
    calls = 0
    for file in Path(hf_vanilla_transformer.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if not isinstance(node, ast.Call):
                continue
            calls += 1
            keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
            trusts = "True" in (keywords.get("trust_remote_code"), keywords.get("allow_pickle"))
            called = ast.unparse(node.func)
            if trusts or called in ("pickle.load", "pickle.loads", "yaml.load", "eval", "exec"):
                unsafe.append((file.name, node.lineno))
            if called == "torch.load" and keywords.get("weights_only") != "True":
                unsafe.append((file.name, node.lineno))
    assert calls > 1000
    assert not unsafe
