"""The original Transformer as a Hugging Face plugin.

Importing the package registers its classes with `AutoConfig`, `AutoModel`, `AutoModelForSeq2SeqLM`
and `AutoTokenizer`, and gives `pipeline("translation")` back to transformers 5.
"""

from .integrations.registration import register
from .model.compat import check_what_auto_classes_read
from .model.configuration_vanilla_transformer import VanillaTransformerConfig
from .model.generation import PAPER_DECODING
from .model.modeling_vanilla_transformer import (
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
)
from .model.pipeline_translation import TranslationPipeline
from .model.tokenization_vanilla_transformer import VanillaTransformerTokenizer

__version__ = "0.1.0"

register()
check_what_auto_classes_read()

__all__ = [
    "PAPER_DECODING",
    "TranslationPipeline",
    "VanillaTransformerConfig",
    "VanillaTransformerForConditionalGeneration",
    "VanillaTransformerModel",
    "VanillaTransformerTokenizer",
]
