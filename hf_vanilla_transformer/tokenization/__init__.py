"""Tokenizers: train them on parallel text, join two, or load an existing one."""

from hf_vanilla_transformer.tokenization.bpe import (
    join_tokenizers,
    load_tokenizer,
    train_tokenizer,
    vocabulary_fields,
)

__all__ = ["join_tokenizers", "load_tokenizer", "train_tokenizer", "vocabulary_fields"]
