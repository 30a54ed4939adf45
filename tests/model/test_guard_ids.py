"""Ids that no vocabulary has, and batches without rows, end in one line with value and rule."""

import pytest
import torch

GOOD = [[5, 6, 3], [7, 3, 0]]
NO_ROWS = [[]]
UNKNOWN = "holds id {}, and the model's vocabulary has 100 entries, from 0 on"


def ids(rows):
    return torch.empty(0, 3, dtype=torch.long) if rows is NO_ROWS else torch.tensor(rows)


def with_id(value):
    return [[5, 6, value], [7, 3, 0]]


CALLS = {
    "source": lambda model, rows: model(input_ids=ids(rows), labels=ids(GOOD)),
    "target": lambda model, rows: model(input_ids=ids(GOOD), decoder_input_ids=ids(rows)),
    "labels": lambda model, rows: model(input_ids=ids(GOOD), labels=ids(rows)),
    "greedy": lambda model, rows: model.generate(ids(rows), max_new_tokens=2),
    "beams": lambda model, rows: model.generate(ids(rows), max_new_tokens=2, num_beams=2),
    "prompt": lambda model, rows: model.generate(
        ids(GOOD), decoder_input_ids=ids(rows), max_new_tokens=5
    ),
}


@pytest.fixture(params=["fast", "reference"])
def model(request, tiny_model):
    model = tiny_model()
    model.fast = request.param == "fast"
    return model


@pytest.mark.parametrize("value", [-1, -101, 100, 99_999])
@pytest.mark.parametrize("call", CALLS)
def test_an_id_outside_the_vocabulary_is_refused(model, call, value):
    for is_training in (False, True):
        model.train(is_training)
        with pytest.raises(ValueError, match=UNKNOWN.format(value)):
            CALLS[call](model, with_id(value))


@pytest.mark.parametrize("call", ["source", "labels", "greedy", "beams"])
def test_a_batch_without_a_row_is_refused(model, call):
    for is_training in (False, True):
        model.train(is_training)
        with pytest.raises(ValueError, match="at least one row|0 for 2|2 decoder rows for 0"):
            CALLS[call](model, NO_ROWS)


@pytest.mark.parametrize("name", ["labels", "decoder_input_ids"])
def test_a_target_without_a_token_is_refused(model, name):
    with pytest.raises(ValueError, match="have no token; give at least one a row"):
        model(input_ids=ids(GOOD), **{name: torch.empty(2, 0, dtype=torch.long)})


def test_the_highest_id_and_padding_are_taken(model):
    for is_training in (False, True):
        model.train(is_training)
        labels = torch.tensor([[99, 0, -100]])
        assert model(input_ids=torch.tensor([[99, 0, 3]]), labels=labels).loss.isfinite()


def test_outputs_of_the_encoder_stand_for_the_source(model):
    mask = ids(GOOD).ne(0).long()
    memory = model.get_encoder()(ids(GOOD), mask)
    found = model.generate(encoder_outputs=memory, attention_mask=mask, max_new_tokens=4)
    assert found.equal(model.generate(ids(GOOD), max_new_tokens=4))
