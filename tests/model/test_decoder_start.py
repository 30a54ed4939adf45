"""The decoder starts in training as it does in translation.

Reported of other models: https://github.com/huggingface/transformers/issues/7719
"""

import pytest
import torch
from transformers import DataCollatorForSeq2Seq

from hf_vanilla_transformer import VanillaTransformerConfig
from hf_vanilla_transformer.data.collate import collate_pairs

IDS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
LABELS = torch.tensor([[7, 8, 2, -100], [9, 2, -100, -100]])
SOURCES = torch.tensor([[11, 12, 13, 2], [14, 15, 2, 1]])


@pytest.fixture(params=[0, 1, 2], ids="start={}".format)
def start(request):
    return request.param


@pytest.fixture
def model(tiny_model, start):
    return tiny_model(**IDS, decoder_start_token_id=start)


def test_the_decoder_reads_the_labels_behind_the_start_token(model, start):
    inputs = model.prepare_decoder_input_ids_from_labels(LABELS)
    assert inputs.tolist() == [[start, 7, 8, 2], [start, 9, 2, 1]]
    assert LABELS.tolist() == [[7, 8, 2, -100], [9, 2, -100, -100]]


def test_the_ignored_label_never_reaches_the_embedding(model, start):
    seen = []
    embedding = model.get_decoder().embed_tokens
    embedding.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    model(input_ids=SOURCES, labels=LABELS)
    target = seen[-1]
    assert target.tolist() == [[start, 7, 8, 2], [start, 9, 2, 1]]


@pytest.mark.parametrize("is_training", [False, True])
def test_labels_alone_cost_what_they_cost_with_the_decoder_input_spelled_out(
    model, start, is_training
):
    model.train(is_training)
    inputs = torch.tensor([[start, 7, 8, 2], [start, 9, 2, 1]])
    alone = model(input_ids=SOURCES, labels=LABELS).loss
    spelled_out = model(input_ids=SOURCES, labels=LABELS, decoder_input_ids=inputs).loss
    wrong = model(input_ids=SOURCES, labels=LABELS, decoder_input_ids=inputs.roll(1, -1)).loss
    torch.testing.assert_close(alone, spelled_out, atol=1e-6, rtol=0)
    assert abs(alone - wrong) > 1e-3


@pytest.mark.parametrize("search", [{}, {"num_beams": 3}, {"do_sample": True}])
def test_every_translation_begins_with_the_start_token(model, start, search):
    sequences = model.generate(SOURCES, max_new_tokens=4, **search)
    assert sequences[:, 0].tolist() == [start, start]
    assert sequences.shape[1] > 1


def test_a_configuration_without_a_start_token_is_refused():
    with pytest.raises(ValueError, match="decoder_start_token_id=None is not an id"):
        VanillaTransformerConfig(vocab_size=100, pad_token_id=1, bos_token_id=None, eos_token_id=2)


def test_training_and_translation_start_alike(model, start):
    # The first step of a search scores what the first position of the decoder's input scores.
    output = model.generate(
        SOURCES, max_new_tokens=1, output_logits=True, return_dict_in_generate=True
    )
    logits = model(input_ids=SOURCES, labels=LABELS).logits
    torch.testing.assert_close(output.logits[0], logits[:, 0], atol=1e-5, rtol=0)


def test_our_collator_leaves_padding_out_of_the_loss(model):
    pairs = [[11, 12, 13, 2], [14, 15, 2]], [[7, 8, 2], [9, 2]]
    batch = collate_pairs(*pairs, pad_token_id=1)
    assert batch["labels"].tolist() == [[7, 8, 2], [9, 2, -100]]
    expected = [
        model(input_ids=torch.tensor([source]), labels=torch.tensor([target])).loss * len(target)
        for source, target in zip(*pairs, strict=True)
    ]
    loss = model(**batch).loss
    torch.testing.assert_close(loss, sum(expected) / 5, atol=1e-5, rtol=0)


class Tokenizer:
    """What the library's collator needs of a tokenizer, padding with id 1."""

    padding_side = "right"
    pad_token_id = 1

    def pad(self, features, **kwargs):
        width = max(len(feature["input_ids"]) for feature in features)
        padded = [f["input_ids"] + [1] * (width - len(f["input_ids"])) for f in features]
        labels = [feature["labels"] for feature in features if "labels" in feature]
        return {"input_ids": torch.tensor(padded)} | (
            {"labels": torch.tensor(labels)} if labels else {}
        )


def test_the_collator_of_the_library_feeds_the_decoder_the_same(model, start):
    collator = DataCollatorForSeq2Seq(Tokenizer(), model=model)
    features = [
        {"input_ids": [11, 12, 13, 2], "labels": [7, 8, 2]},
        {"input_ids": [14, 15, 2], "labels": [9, 2]},
    ]
    batch = collator(features)
    assert batch["decoder_input_ids"].tolist() == [[start, 7, 8], [start, 9, 2]]
    ours = collate_pairs([[11, 12, 13, 2], [14, 15, 2]], [[7, 8, 2], [9, 2]], pad_token_id=1)
    torch.testing.assert_close(model(**batch).loss, model(**ours).loss, atol=1e-6, rtol=0)
