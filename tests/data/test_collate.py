import torch

from hf_vanilla_transformer.data.collate import collate_pairs, collate_sources, pad_rows


def test_rows_are_padded_on_the_right():
    assert pad_rows([[5], [6, 7, 8]], 0).tolist() == [[5, 0, 0], [6, 7, 8]]


def test_the_mask_counts_tokens_even_where_a_token_equals_the_padding_id():
    batch = collate_sources([[0, 5], [6, 0, 8]], pad_token_id=0)
    assert batch["input_ids"].tolist() == [[0, 5, 0], [6, 0, 8]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]


def test_labels_are_padded_with_what_the_loss_ignores():
    batch = collate_pairs([[5, 3], [3]], [[3], [7, 8, 3]], pad_token_id=0)
    assert batch["labels"].tolist() == [[3, -100, -100], [7, 8, 3]]
    assert batch["input_ids"].shape == (2, 2)
    assert all(tensor.dtype == torch.long for tensor in batch.values())
