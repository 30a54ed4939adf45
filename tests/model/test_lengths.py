"""Long sources are taken or refused in words, and long translations are not cut.

Reported of others: https://github.com/huggingface/transformers/issues/11958
"""

import copy

import pytest
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
)

LEARNED = {"position_type": "learned", "max_position_embeddings": 64}
SHORT, LONG = (62, 63, 64), (65, 500)
SEARCHES = [{}, {"num_beams": 4}]
LENGTH = 30


def draw(length, high=100):
    ids = torch.randint(4, high, (1, length))
    ids[0, -1] = 3
    return ids


@pytest.mark.parametrize("length", SHORT)
def test_a_source_that_fits_the_learned_table_is_translated(tiny_model, length):
    model = tiny_model(**LEARNED)
    sequences = model.generate(draw(length))
    assert 1 < sequences.shape[1] <= 64


@pytest.mark.parametrize("length", LONG)
def test_a_source_past_the_learned_table_is_refused_with_length_and_limit(tiny_model, length):
    model = tiny_model(**LEARNED)
    message = f"{length} tokens.*max_position_embeddings=64"
    with pytest.raises(ValueError, match=message):
        model.generate(draw(length))
    with pytest.raises(ValueError, match=message):
        model(input_ids=draw(length), decoder_input_ids=draw(3))


def test_a_target_past_the_learned_table_is_refused_with_length_and_limit(tiny_model):
    model = tiny_model(**LEARNED)
    model(input_ids=draw(5), labels=draw(64))
    with pytest.raises(ValueError, match=r"65 tokens.*max_position_embeddings=64"):
        model(input_ids=draw(5), labels=draw(65))


@pytest.mark.parametrize("extra", [1, 100])
def test_padding_and_packing_need_no_positions_of_the_learned_table(tiny_model, ragged, extra):
    model = tiny_model(**LEARNED)
    ids, mask = ragged((64, 7), extra=extra)
    target, target_mask = ragged((64, 7), extra=extra, seed=2)
    padded = model(
        input_ids=ids,
        attention_mask=mask,
        decoder_input_ids=target,
        decoder_attention_mask=target_mask,
    ).logits
    trimmed = model(
        input_ids=ids[:, :64],
        attention_mask=mask[:, :64],
        decoder_input_ids=target[:, :64],
        decoder_attention_mask=target_mask[:, :64],
    ).logits
    is_real = target_mask[:, :64].bool()
    torch.testing.assert_close(padded[:, :64][is_real], trimmed[is_real], atol=1e-5, rtol=0)


def test_decoding_by_hand_past_the_learned_table_is_refused(tiny_model):
    model = tiny_model(**LEARNED)
    source = draw(5)
    output = model(input_ids=source, decoder_input_ids=draw(64), use_cache=True)
    with pytest.raises(ValueError, match=r"65 tokens.*max_position_embeddings=64"):
        model(input_ids=source, decoder_input_ids=draw(1), past_key_values=output.past_key_values)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_more_new_tokens_than_learned_positions_are_refused(tiny_model, search):
    model = tiny_model(**LEARNED)
    with pytest.raises(ValueError, match=r"201 tokens.*max_position_embeddings=64.*max_new_tokens"):
        model.generate(draw(5), max_new_tokens=200, **search)
    with pytest.raises(ValueError, match="200 tokens.*max_position_embeddings=64"):
        model.generate(draw(5), max_length=200, **search)
    assert model.generate(draw(5), max_new_tokens=63, **search).shape[1] <= 64


@pytest.mark.parametrize("length", [*SHORT, *LONG])
def test_sinusoids_take_a_source_of_any_length(tiny_model, length):
    sequences = tiny_model().generate(draw(length), max_new_tokens=80)
    assert sequences.shape[1] > 1


def test_a_longer_sequence_keeps_what_a_shorter_one_gave(tiny_model):
    model = tiny_model()
    source, target = draw(70), draw(70)
    longer, shorter = (
        model(input_ids=source, decoder_input_ids=target[:, :n]).logits for n in (65, 64)
    )
    torch.testing.assert_close(longer[:, :64], shorter, atol=1e-5, rtol=0)


SOURCES = torch.tensor([[4, 5, 3], [6, 7, 3], [8, 3, 0]])


@pytest.fixture(scope="module")
def trained():
    """Return a model that learned three targets of 30 tokens and EOS, and these targets."""
    torch.manual_seed(0)
    config = VanillaTransformerConfig(
        vocab_size=40,
        d_model=64,
        d_ff=128,
        num_heads=4,
        encoder_layers=1,
        decoder_layers=1,
        dropout=0.0,
        **LEARNED,
    )
    model = VanillaTransformerForConditionalGeneration(config).train()
    generator = torch.Generator().manual_seed(3)
    targets = torch.randint(4, 40, (3, LENGTH), generator=generator)
    labels = torch.cat((targets, torch.full((3, 1), 3)), dim=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(120):
        loss = model(input_ids=SOURCES, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), labels


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_translation_of_thirty_tokens_is_not_cut(trained, search):
    model, labels = trained
    assert model.generate(SOURCES, **search)[:, 1:].equal(labels)


def pairs(labels):
    return [
        {"input_ids": source[source.ne(0)].tolist(), "labels": label.tolist()}
        for source, label in zip(SOURCES, labels, strict=True)
    ]


def collate(features):
    ids = torch.zeros(len(features), 3, dtype=torch.long)
    for row, feature in zip(ids, features, strict=True):
        row[: len(feature["input_ids"])] = torch.tensor(feature["input_ids"])
    return {
        "input_ids": ids,
        "attention_mask": ids.ne(0).long(),
        "labels": torch.tensor([feature["labels"] for feature in features]),
    }


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_evaluation_in_a_trainer_does_not_leave_a_limit_behind(trained, search, tmp_path):
    model, labels = trained
    model = copy.deepcopy(model)
    seen = []
    trainer = Seq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(
            output_dir=tmp_path / "run",
            predict_with_generate=True,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
        ),
        data_collator=collate,
        eval_dataset=pairs(labels),
        compute_metrics=lambda prediction: seen.append(prediction.predictions) or {},
    )
    for _ in range(2):  # the first evaluation is what changes the settings of the second
        trainer.evaluate()
    for predictions in seen:
        assert torch.from_numpy(predictions)[:, 1 : LENGTH + 2].equal(labels)
    assert model.generate(SOURCES, **search)[:, 1:].equal(labels)
    trainer.save_model(tmp_path / "saved")
    loaded = VanillaTransformerForConditionalGeneration.from_pretrained(tmp_path / "saved")
    assert loaded.generate(SOURCES, **search)[:, 1:].equal(labels)
