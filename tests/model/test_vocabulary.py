"""Rows of the output matrix without a token are never generated, wherever a model came from."""

import pytest
import torch
from accelerate import Accelerator
from tokenizers import Tokenizer
from transformers import Seq2SeqTrainingArguments

from hf_vanilla_transformer import TranslationPipeline
from hf_vanilla_transformer.convert.exporting import suppressed_ids
from hf_vanilla_transformer.data.encoding import encode_pairs
from hf_vanilla_transformer.model.vocabulary import suppress_rows_without_token
from hf_vanilla_transformer.trainer import TranslationTrainer
from hf_vanilla_transformer.training.validation import validation_bleu
from hf_vanilla_transformer.translation.translate import translate, translate_n_best

TOKENS, ROWS, TARGET_TOKENS = 100, 128, 60
TEXTS = ["w5 w6 w7", "w9"]
SEARCH = {"num_beams": 2, "max_new_tokens": 5}


def built(tiny_model):
    return tiny_model(vocab_size=ROWS, output_bias=True)


def resized(tiny_model):
    model = tiny_model(vocab_size=TOKENS, output_bias=True)
    model.resize_token_embeddings(ROWS, mean_resizing=False)
    return model


def two_sided(tiny_model):
    sides = {"decoder_vocab_size": ROWS, "share_encoder_decoder_embeddings": False}
    return tiny_model(vocab_size=TOKENS, output_bias=True, **sides)


@pytest.fixture(params=[built, resized, two_sided], ids=lambda build: build.__name__)
def pair(request, tiny_model, word_tokenizer):
    """Return a model that prefers rows without a token, its tokenizer, and its target's tokens."""
    model, tokenizer, tokens = request.param(tiny_model), word_tokenizer(), TOKENS
    if request.param is two_sided:
        text, tokens = tokenizer.backend_tokenizer.to_str(), TARGET_TOKENS
        for number in range(TARGET_TOKENS, TOKENS):
            text = text.replace(f',"w{number}":{number}', "")
        tokenizer.target_backend = Tokenizer.from_str(text)
    model.lm_head.bias.data[tokens:] = 20.0
    model.lm_head.bias.data[40:50] = 10.0
    assert model.generate(torch.tensor([[5, 6, 3]]), **SEARCH).max() >= tokens
    return model, tokenizer, tokens


def by_pipeline(model, tokenizer, texts):
    pipe = TranslationPipeline(model=model, tokenizer=tokenizer)
    results = pipe(texts, return_tensors=True, **SEARCH)
    return [result["translation_token_ids"] for result in results]


def by_streaming_pipeline(model, tokenizer, texts):
    pipe = TranslationPipeline(model=model, tokenizer=tokenizer)
    results = pipe(iter(texts), return_tensors=True, **SEARCH)
    return [result[0]["translation_token_ids"] for result in results]


def spied(model, work):
    """Return the ids that `generate` makes for some work."""
    found, generate = [], model.generate
    model.generate = lambda *args, **kwargs: found.append(generate(*args, **kwargs)) or found[-1]
    work()
    return [getattr(each, "sequences", each).flatten() for each in found]


def by_translate(model, tokenizer, texts):
    return spied(model, lambda: translate(model, tokenizer, texts, **SEARCH))


def by_n_best(model, tokenizer, texts):
    return spied(model, lambda: translate_n_best(model, tokenizer, texts, count=2, **SEARCH))


def by_trainer(model, tokenizer, texts):
    arguments = Seq2SeqTrainingArguments(
        "unused", predict_with_generate=True, report_to=[], use_cpu=True, generation_max_length=6
    )
    rows = [
        {"input_ids": tokenizer(t)["input_ids"], "labels": [5, 6, 3]} for t in ("w5 w6", "w7 w8")
    ]
    trainer = TranslationTrainer(model, arguments, processing_class=tokenizer)
    return [torch.tensor(trainer.predict(rows, num_beams=2).predictions)]


def by_validation(model, tokenizer, texts):
    pairs = encode_pairs([(text, text) for text in texts], tokenizer, max_length=64, name="valid")
    accelerator = Accelerator(cpu=True)
    return spied(
        model,
        lambda: validation_bleu(model, tokenizer, pairs=pairs, accelerator=accelerator, beams=2),
    )


USES = (
    *(by_pipeline, by_streaming_pipeline, by_translate),
    *(by_n_best, by_trainer, by_validation),
)


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_no_use_of_a_model_generates_ids_past_its_tokenizer(pair, use):
    model, tokenizer, tokens = pair
    found = torch.cat([ids.flatten() for ids in use(model, tokenizer, TEXTS)])
    assert found.max() < tokens
    assert found.max() > 3


def test_exports_suppress_what_no_token_stands_for_and_leave_the_model_as_it_is(pair):
    model, tokenizer, tokens = pair
    before = model.generation_config.to_dict()
    assert suppressed_ids(model, tokenizer) == [0, *range(tokens, ROWS)]
    assert model.generation_config.to_dict() == before


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}, {"do_sample": True}], ids=str)
def test_a_call_that_suppresses_other_ids_does_not_bring_them_back(pair, search):
    model, tokenizer, tokens = pair
    suppress_rows_without_token(model, tokenizer)
    source = torch.tensor([[5, 6, 3]])
    for fast in (True, False):
        model.fast = fast
        for chosen in ([5], None):
            ids = model.generate(source, suppress_tokens=chosen, max_new_tokens=5, **search)
            assert ids.max() < tokens


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("row", [0, 127], ids=["padding", "a row without a token"])
def test_what_is_never_generated_has_no_share_of_the_probability(
    tiny_model, word_tokenizer, ragged, fast, row
):
    """Masked after the log-softmax, it would cost a hypothesis as much at every token."""
    model = tiny_model(vocab_size=ROWS, output_bias=True)
    suppress_rows_without_token(model, word_tokenizer())
    model.fast = fast
    source = ragged((7, 4, 2))[0]
    search = {"num_beams": 4, "max_new_tokens": 8, "length_penalty": 0.0}
    search |= {"return_dict_in_generate": True, "output_scores": not fast}
    model.lm_head.bias.data[[0, 127]] = -1e4
    expected = model.generate(source, **search)
    model.lm_head.bias.data[row] = 6.0
    found = model.generate(source, **search)
    assert torch.equal(found.sequences, expected.sequences)
    torch.testing.assert_close(found.sequences_scores, expected.sequences_scores)
    assert {len(set(ids)) for ids in expected.sequences.tolist()} != {1}
