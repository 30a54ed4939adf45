"""Tokenizers whose ids are known without running them, and generated ids without their filling."""

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from hf_vanilla_transformer import VanillaTransformerTokenizer
from hf_vanilla_transformer.tokenization.bpe import join_tokenizers

ROLES = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
EOS = 3


@pytest.fixture(scope="session")
def word_tokenizer():
    """Return a factory of tokenizers: words w4, w5... with ids 4, 5..., </s> (3) at the end."""

    def build(size=100, prefix="w"):
        words = [*ROLES.values(), *(f"{prefix}{index}" for index in range(4, size))]
        vocabulary = {word: index for index, word in enumerate(words)}
        backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        backend.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", EOS)]
        )
        return VanillaTransformerTokenizer(
            tokenizer_object=backend,
            model_max_length=64,
            clean_up_tokenization_spaces=False,
            **ROLES,
        )

    return build


@pytest.fixture
def two_vocabularies(word_tokenizer):
    """Return a tokenizer with 100 source words w4... and 90 target words v4..."""
    return join_tokenizers(word_tokenizer(100), word_tokenizer(90, prefix="v"))


@pytest.fixture
def until_end():
    """Return a function that cuts rows of generated ids behind the start and after the first end.

    Beam search of the library fills up with the end token where the padding id is 0.
    """

    def cut(sequences):
        rows = [row[1:] for row in sequences.tolist()]
        return [row[: row.index(EOS) + 1] if EOS in row else row for row in rows]

    return cut
