"""What is exported for CTranslate2 scores and translates the same there."""

import json

import pytest
import torch
from transformers import AutoTokenizer

from hf_vanilla_transformer.convert.ctranslate2 import QUANTIZATIONS, export_to_ctranslate2
from hf_vanilla_transformer.translation.forced_decoding import token_log_probs

ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")

EXPRESSIBLE = {
    "the paper's": {},
    "pre-norm": {"norm_position": "pre"},
    "learned positions": {"position_type": "learned"},
    "biases": {"attention_bias": True, "output_bias": True, "activation_function": "gelu"},
    "unscaled": {"scale_embedding": False, "activation_function": "silu", "num_heads": 2},
    "gated": {"activation_function": "swiglu"},
    "other depths": {"encoder_layers": 1, "decoder_layers": 3, "d_ff": 64},
    "untied output": {"tie_word_embeddings": False},
    "own embeddings": {"share_encoder_decoder_embeddings": False},
    "other vocabulary": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 90},
}
SOURCES = [[*range(4, 13), 3], [50, 3], [99, 98, 4, 60, 3]]
TARGETS = [[7, 8, 9, 3], [*range(40, 51), 3], [89, 3]]


class Exported:
    """A folder that was written, and the engine that reads it."""

    def __init__(self, folder, tokenizer):
        self.engine = ctranslate2.Translator(str(folder), intra_threads=1)
        self.settings = json.loads((folder / "export.json").read_text("utf-8"))
        self.tokenizer = tokenizer
        self.target = tokenizer.target

    def score(self, sources, targets):
        """Return the log-probability of every token, end of sentence included."""
        sources = [self.tokenizer.convert_ids_to_tokens(row) for row in sources]
        targets = [self.target.convert_ids_to_tokens(row[:-1]) for row in targets]
        return [list(found.log_probs) for found in self.engine.score_batch(sources, targets)]

    def translate(self, sources, **options):
        """Return ids, end of sentence included where it was reached."""
        sources = [self.tokenizer.convert_ids_to_tokens(row) for row in sources]
        options = {**self.settings["translate_batch"], "return_end_token": True, **options}
        found = self.engine.translate_batch(sources, **options)
        return [self.target.convert_tokens_to_ids(result.hypotheses[0]) for result in found]


@pytest.fixture
def export(tmp_path, word_tokenizer, two_vocabularies):
    def build(model, size=None, **options):
        has_two = model.config.decoder_vocab_size is not None
        tokenizer = two_vocabularies if has_two else word_tokenizer(size or model.config.vocab_size)
        export_to_ctranslate2(model, tokenizer, tmp_path / "engine", **options)
        return Exported(tmp_path / "engine", tokenizer)

    return build


def log_probs(model, sources=SOURCES, targets=TARGETS):
    with torch.no_grad():
        return token_log_probs(model, sources, targets, pad_token_id=0)


def largest_difference(ours, theirs):
    pairs = zip(sum(ours, []), sum(theirs, []), strict=True)
    return max(abs(one - other) for one, other in pairs)


@pytest.mark.parametrize("name", EXPRESSIBLE)
def test_log_probabilities_and_greedy_ids_are_the_same(name, tiny_model, export, until_end):
    model = tiny_model(**EXPRESSIBLE[name])
    exported = export(model)
    ours = log_probs(model)
    assert torch.tensor(sum(ours, [])).std() > 0.5
    assert largest_difference(ours, exported.score(SOURCES, TARGETS)) < 1e-4
    for source in SOURCES:
        found = until_end(model.generate(torch.tensor([source]), max_new_tokens=15))
        assert exported.translate([source], max_decoding_length=15) == found


@pytest.mark.parametrize("search", [{}, {"num_beams": 4}, {"num_beams": 4, "length_penalty": 0.3}])
def test_a_trained_model_translates_alike(search, reversing_model, export, until_end):
    model = reversing_model.model
    inputs = reversing_model.encode(reversing_model.dev)
    # The engine stops at as many finished hypotheses as it has beams.
    early = {"early_stopping": True} if search else {}
    ours = until_end(model.generate(**inputs, **search, **early))
    options = {"num_beams": "beam_size", "length_penalty": "length_penalty"}
    sources = [ids[mask.bool()].tolist() for ids, mask in zip(*inputs.values(), strict=True)]
    exported = export(model)
    found = exported.translate(sources, **{options[name]: x for name, x in search.items()})
    assert found == ours
    assert len({tuple(row) for row in found}) > 40


def test_the_end_padding_and_rows_of_no_token_are_as_in_generate(tiny_model, export, until_end):
    model = tiny_model(vocab_size=104, output_bias=True)
    model.generation_config.suppress_tokens = [100, 101, 102, 103]
    model.lm_head.bias.data[3] = -1e4
    model.lm_head.bias.data[[0, 100]] = 1e4
    ours = until_end(model.generate(torch.tensor(SOURCES[:1]), max_new_tokens=20))
    assert len(ours[0]) == 20
    assert export(model, 100).translate(SOURCES[:1], max_decoding_length=20) == ours


@pytest.mark.parametrize("position_type", ["sinusoidal", "learned"])
def test_the_longest_translation_fits_the_table_of_positions(
    position_type, tiny_model, export, until_end
):
    model = tiny_model(max_position_embeddings=64, position_type=position_type, output_bias=True)
    model.lm_head.bias.data[3] = -1e4
    source = [*range(4, 67), 3]
    ours = until_end(model.generate(torch.tensor([source])))
    assert len(ours[0]) == {"sinusoidal": 64 + 50, "learned": 63}[position_type]
    assert export(model).translate([source]) == ours


@pytest.mark.parametrize("limit", [{"max_new_tokens": 7}, {"max_length": 8}])
def test_a_limit_of_the_models_own_travels(limit, tiny_model, export, until_end):
    model = tiny_model()
    model.generation_config.update(**limit)
    ours = until_end(model.generate(torch.tensor(SOURCES[:1])))
    assert len(ours[0]) == 7
    assert export(model).translate(SOURCES[:1]) == ours


def test_beam_search_of_the_model_is_that_of_the_settings(tiny_model, export, caplog):
    model = tiny_model(source_language="xx")
    model.generation_config.num_beams = 4
    model.generation_config.gnmt_alpha = 0.6
    settings = export(model).settings
    assert settings["translate_batch"]["beam_size"] == 4
    assert settings["translate_batch"]["length_penalty"] == 0.6
    assert settings["config"]["source_language"] == "xx"
    assert "n^0.6" in caplog.text


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_every_quantization_loads_and_leaves_the_model_as_it_is(quantization, tiny_model, export):
    model = tiny_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    exported = export(model, quantization=quantization)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name])
    difference = largest_difference(log_probs(model), exported.score(SOURCES, TARGETS))
    assert difference < (1e-4 if quantization == "float32" else 0.5)


def test_int8_is_less_than_half_the_size(tiny_model, word_tokenizer, tmp_path):
    sizes = []
    for quantization in ("float32", "int8"):
        folder = tmp_path / quantization
        model = tiny_model(d_model=256, vocab_size=1000)
        export_to_ctranslate2(model, word_tokenizer(1000), folder, quantization=quantization)
        sizes.append((folder / "model.bin").stat().st_size)
    assert sizes[1] < sizes[0] / 2


def test_a_model_in_bf16_is_exported_in_fp32(tiny_model, export):
    model = tiny_model().to(torch.bfloat16)
    exported = export(model)
    assert largest_difference(log_probs(model.float()), exported.score(SOURCES, TARGETS)) < 1e-4


def test_text_goes_in_and_comes_out_as_documented(reversing_model, word_tokenizer, tmp_path):
    folder = tmp_path / "engine"
    export_to_ctranslate2(reversing_model.model, word_tokenizer(14), folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    translator = ctranslate2.Translator(str(folder), intra_threads=1)
    settings = json.loads((folder / "export.json").read_text("utf-8"))["translate_batch"]
    rows = tokenizer(["w4 w5 w6", "w9 w4"], truncation=True)["input_ids"]
    results = translator.translate_batch(
        [tokenizer.convert_ids_to_tokens(row) for row in rows], **settings
    )
    ids = [tokenizer.convert_tokens_to_ids(result.hypotheses[0]) for result in results]
    assert tokenizer.batch_decode(ids) == ["w6 w5 w4", "w4 w9"]


def test_two_vocabularies_travel_too(tiny_model, two_vocabularies, tmp_path):
    model = tiny_model(share_encoder_decoder_embeddings=False, decoder_vocab_size=90)
    export_to_ctranslate2(model, two_vocabularies, tmp_path / "engine")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "engine")
    exported = Exported(tmp_path / "engine", tokenizer)
    rows = tokenizer(["w5 w6 w98"])["input_ids"]
    ours = model.generate(torch.tensor(rows), max_new_tokens=9)
    text = tokenizer.batch_decode(ours, skip_special_tokens=True)
    assert text[0].startswith("v")
    found = exported.translate(rows, max_decoding_length=9, return_end_token=False)
    assert tokenizer.batch_decode(found) == text


@pytest.mark.parametrize(("field", "value"), [("d_k", 8), ("d_v", 24)])
def test_what_the_engine_lacks_is_refused_before_anything_is_written(
    field, value, tiny_model, export, tmp_path
):
    message = f"^CTranslate2 cannot express {field}={value}, only 16$"
    with pytest.raises(ValueError, match=message):
        export(tiny_model(**{field: value}))
    assert not list(tmp_path.iterdir())


def test_an_unknown_quantization_is_refused_with_those_there_are(tiny_model, export, tmp_path):
    with pytest.raises(ValueError, match="quantization='int4' is not one of float32, .*int8"):
        export(tiny_model(), quantization="int4")
    assert not list(tmp_path.iterdir())


def test_a_tokenizer_of_another_model_is_refused_with_both_numbers(tiny_model, export, tmp_path):
    with pytest.raises(ValueError, match="101 entries and the model 100 embeddings"):
        export(tiny_model(), 101)
    assert not list(tmp_path.iterdir())
