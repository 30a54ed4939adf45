"""Models whose translations differ, and a tokenizer whose ids are known without running it."""

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from hf_vanilla_transformer import VanillaTransformerTokenizer

SPECIAL_TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": "</s>",
}


@pytest.fixture
def word_tokenizer():
    """Return a factory of tokenizers: words w4 to w99 with ids 4 to 99, </s> (3) at the end."""

    def build(tokenizer_class=VanillaTransformerTokenizer, **options):
        words = [*SPECIAL_TOKENS.values(), *(f"w{i}" for i in range(4, 100))]
        vocabulary = {word: i for i, word in enumerate(words)}
        backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        backend.post_processor = processors.TemplateProcessing(
            single="$A </s>", special_tokens=[("</s>", 3)]
        )
        options = {"model_max_length": 64, **SPECIAL_TOKENS, **options}
        return tokenizer_class(tokenizer_object=backend, **options)

    return build


@pytest.fixture
def make_talkative():
    """Return a function that gives a model weights with which its translations differ."""

    def randomize(model, std):
        generator = torch.Generator().manual_seed(3)
        for name, parameter in sorted(model.named_parameters()):
            if "layer_norm" not in name and "embed_positions" not in name:
                parameter.data = std * torch.randn(parameter.shape, generator=generator)
        return model

    return randomize
