"""The library's own model tests on our two models: run by test_model_mixin.py, not collected.

`transformers_tests` is the `tests` folder of the library's source distribution, which
test_model_mixin.py downloads and puts on the path.
"""

import unittest

import torch
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_MAPPING_NAMES,
)
from transformers_tests import test_modeling_common
from transformers_tests.generation.test_utils import GenerationTesterMixin
from transformers_tests.test_configuration_common import ConfigTester
from transformers_tests.test_modeling_common import ModelTesterMixin

from hf_vanilla_transformer import (
    VanillaTransformerConfig,
    VanillaTransformerForConditionalGeneration,
    VanillaTransformerModel,
)

# It writes epsilons of other models into the configuration, which a saved one of ours refuses.
test_modeling_common.set_config_for_less_flaky_test = lambda config: None
# The mixin looks up by class name which labels and which losses a model takes.
NAMES = {
    VanillaTransformerModel: MODEL_MAPPING_NAMES,
    VanillaTransformerForConditionalGeneration: MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
}
for _model_class, _names in NAMES.items():
    _names[VanillaTransformerConfig.model_type] = _model_class.__name__


class ModelTester:
    """Sizes, and inputs of several lengths; the mixin reads its attributes."""

    batch_size = 13
    seq_length = encoder_seq_length = 7
    decoder_seq_length = 7
    hidden_size = 16
    num_hidden_layers = 2
    num_attention_heads = 4
    is_training = True

    def __init__(self, **fields):
        self.fields = fields

    def get_config(self):
        sizes = {
            "vocab_size": 99,
            "d_model": self.hidden_size,
            "d_ff": 4,
            "num_heads": self.num_attention_heads,
            "d_k": 6,
            "d_v": 5,
            "encoder_layers": self.num_hidden_layers,
            "decoder_layers": self.num_hidden_layers,
            "dropout": 0.1,
            "attention_dropout": 0.1,
            "max_position_embeddings": 50,
        }
        return VanillaTransformerConfig(**{**sizes, **self.fields})

    def prepare_config_and_inputs_for_common(self):
        config = self.get_config()
        source = torch.randint(4, config.vocab_size, (self.batch_size, self.encoder_seq_length))
        target = torch.randint(4, config.vocab_size, (self.batch_size, self.decoder_seq_length))
        source[:, -1] = config.eos_token_id
        target[:, 0] = config.decoder_start_token_id
        return config, {
            "input_ids": source,
            "attention_mask": torch.ones_like(source),
            "decoder_input_ids": target,
            "decoder_attention_mask": torch.ones_like(target),
        }


class PaperModelTest(ModelTesterMixin, GenerationTesterMixin, unittest.TestCase):
    """The paper's form: post-norm, sinusoids, one embedding matrix for everything."""

    all_model_classes = tuple(NAMES)
    is_encoder_decoder = True
    # Without it the mixin skips the check for want of a copyright line in the configuration file.
    test_can_init_all_missing_weights_before_2023 = True
    fields = {}

    def setUp(self):
        self.model_tester = ModelTester(**self.fields)
        self.config_tester = ConfigTester(
            self, config_class=VanillaTransformerConfig, d_model=16, num_heads=4
        )

    def test_config(self):
        self.config_tester.run_common_tests()


class UntiedPreNormModelTest(PaperModelTest):
    """Everything that the paper's form has not: pre-norm, learned positions, biases, no ties."""

    fields = {
        "norm_position": "pre",
        "position_type": "learned",
        "activation_function": "swiglu",
        "attention_bias": True,
        "output_bias": True,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
    }

    @unittest.skip("the mixin embeds the target with the source's embeddings: these differ here")
    def test_inputs_embeds_matches_input_ids(self):
        pass
