"""The task against the pipeline that transformers 4 has for it, argument by argument."""

from collections.abc import Iterator

import datasets
import pytest
import torch
import transformers
from test_pipeline_translation import build_marian
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import GenerationConfig, PreTrainedTokenizerFast
from transformers.pipelines.pt_utils import KeyDataset
from transformers.tokenization_utils_base import TruncationStrategy

from hf_vanilla_transformer import TranslationPipeline, VanillaTransformerTokenizer

MARKS = [".", ",", "?", "!", "n't", "'m", "'s", "'ve", "'re"]
TEXTS = ["w20 w21", "w30 . w31 w32 w33 w34", "w40 'm n't"]


@pytest.fixture
def parts(make_talkative):
    """A model that writes punctuation among words, and its tokenizer."""
    words = ["<pad>", "<unk>", "<s>", "</s>", *MARKS, *(f"w{i}" for i in range(13, 100))]
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 3)]
    )
    special = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=64, **special)
    model = make_talkative(build_marian(), 0.8)
    model.final_logits_bias[:, 4:13] += 10
    return {"model": model, "tokenizer": tokenizer}


def as_lists(results):
    """Return results with lists in place of tensors and iterators."""
    if isinstance(results, torch.Tensor):
        return results.tolist()
    if isinstance(results, dict):
        return {name: as_lists(value) for name, value in results.items()}
    if isinstance(results, (list, Iterator)):
        return [as_lists(result) for result in results]
    return results


ARGUMENTS = [
    {},
    {"return_text": True},
    {"return_text": False},
    {"return_tensors": True},
    {"return_tensors": True, "return_text": False},
    {"return_tensors": True, "return_text": True},
    {"return_tensors": False},
    {"clean_up_tokenization_spaces": True},
    {"clean_up_tokenization_spaces": False},
    {"truncation": True},
    {"truncation": TruncationStrategy.DO_NOT_TRUNCATE},
    {"truncation": "only_first"},
    {"src_lang": "en", "tgt_lang": "fr"},
    {"tgt_lang": "fr"},
    {"max_length": 5, "max_new_tokens": None},
    {"max_new_tokens": 3},
    {"min_length": 7},
    {"num_beams": 3, "num_return_sequences": 3},
    {"num_beams": 1},
    {"do_sample": True, "num_beams": 1, "top_k": 1},
    {"generation_config": GenerationConfig(num_beams=3, bad_words_ids=[[0]]), "num_beams": 2},
    {"batch_size": 2},
    {"num_workers": 0},
    {"no_repeat_ngram_size": 1, "length_penalty": 2.0},
]
INPUTS = {
    "text": lambda: TEXTS[0],
    "list of one": lambda: TEXTS[:1],
    "generator": lambda: (text for text in TEXTS),
    "dataset": lambda: KeyDataset([{"en": text} for text in TEXTS], "en"),
    "column": lambda: datasets.Dataset.from_dict({"en": TEXTS})["en"][:],
}
DEFAULTS = {"num_beams": 2, "max_new_tokens": 8}  # Version 4 has its own where none is given.
in_version_4 = pytest.mark.skipif(
    not hasattr(transformers, "TranslationPipeline"), reason="transformers 5 has no such pipeline"
)


@in_version_4
@pytest.mark.parametrize("arguments", ARGUMENTS, ids=str)
def test_arguments_mean_what_they_meant_in_version_4(parts, arguments):
    arguments = {**DEFAULTS, **arguments}
    own, library = TranslationPipeline(**parts), transformers.TranslationPipeline(**parts)
    assert as_lists(own(TEXTS, **arguments)) == as_lists(library(TEXTS, **arguments))
    if "generation_config" not in arguments:  # with which version 4 cannot create it
        own, library = (type(task)(**parts, **arguments) for task in (own, library))
        assert as_lists(own(TEXTS[0])) == as_lists(library(TEXTS[0]))


@in_version_4
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("arguments", [{}, {"num_return_sequences": 2}, {"batch_size": 2}], ids=str)
def test_inputs_give_the_lists_of_version_4(parts, kind, arguments):
    own, library = TranslationPipeline(**parts), transformers.TranslationPipeline(**parts)
    found, expected = (
        as_lists(task(INPUTS[kind](), **DEFAULTS, **arguments)) for task in (own, library)
    )
    assert found == expected


@pytest.mark.parametrize("kind", ["library's tokenizer", "ours"])
def test_spaces_before_punctuation_are_cleaned_up_on_request(parts, kind):
    tokenizer = parts["tokenizer"]
    if kind == "ours":
        backend = tokenizer.backend_tokenizer
        tokenizer = VanillaTransformerTokenizer(tokenizer_object=backend, model_max_length=64)
    translator = TranslationPipeline(model=parts["model"], tokenizer=tokenizer)
    settings = {"num_beams": 1, "max_new_tokens": 12}
    plain, clean = (
        [
            result["translation_text"]
            for result in translator(TEXTS, clean_up_tokenization_spaces=cleans, **settings)
        ]
        for cleans in (False, True)
    )
    assert sum(f" {mark}" in " ".join(plain) for mark in MARKS) > 2
    for mark in MARKS:
        plain = [text.replace(f" {mark}", mark) for text in plain]
    assert clean == plain


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("value", [True, False])
def test_return_text_is_taken_and_changes_nothing(parts, value, tensors):
    translator = TranslationPipeline(**parts)
    settings = {"return_tensors": tensors, "max_new_tokens": 3}
    found = translator(TEXTS, return_text=value, **settings)
    assert as_lists(found) == as_lists(translator(TEXTS, **settings))
