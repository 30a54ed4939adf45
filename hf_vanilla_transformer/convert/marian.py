"""HF Marian: a folder that `MarianMTModel` of the library loads, without any code of ours."""

import copy
from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, MarianConfig, PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.convert.exporting import (
    check_is_new,
    check_model,
    check_tokenizer,
    float_weights,
    length_exponent,
    longest_translation,
    position_rows,
    save_tokenizer,
    suppressed_ids,
)
from hf_vanilla_transformer.model.configuration_vanilla_transformer import (
    VanillaTransformerConfig,
)
from hf_vanilla_transformer.model.generation import OWN_SETTINGS
from hf_vanilla_transformer.model.pretrained import output_ties
from hf_vanilla_transformer.model.vocabulary import ids_past_tokenizer, removed_ids
from hf_vanilla_transformer.storage.files import write_folder

MARIAN_SUPPORTS = {
    "norm_position": ("post",),
    "position_type": ("sinusoidal",),
    "activation_function": ("relu", "gelu", "silu"),
}
UNLIKELY = -1e4
"""Bias of what must never be written; its probability is 0, in half precision too."""

RENAMED = {
    "cross_attn": "encoder_attn",
    "ffn_layer_norm": "final_layer_norm",
    "ffn.": "",
}
SAME_FIELDS = (
    *("d_model", "encoder_layers", "decoder_layers", "activation_function", "scale_embedding"),
    *("dropout", "attention_dropout", "activation_dropout", "tie_word_embeddings", "use_cache"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"),
)


def export_to_marian(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: str | Path
) -> None:
    """Write a folder from which `MarianMTModel` computes and generates the same.

    The tokenizer goes along as it is: Marian's own class reads SentencePiece models only.

    Args:
        model: In any mode, precision and place; it is left as it is.
        tokenizer: Its tokenizer.
        folder: New or empty.

    Raises:
        ValueError: It is no model of this package, has adapters or is in int8; Marian cannot
            express a field of the configuration; the folder holds something; the tokenizer is
            another model's.
    """
    check_model(model, "Marian", expressible=MARIAN_SUPPORTS)
    check_is_new(folder)
    target = getattr(tokenizer, "target", tokenizer)
    check_tokenizer(len(tokenizer), model.config.vocab_size, side="source")
    check_tokenizer(len(target), model.lm_head.out_features, side="target")
    with write_folder(folder) as unfinished:
        _marian_config(model).save_pretrained(unfinished)
        _marian_generation_config(model, tokenizer).save_pretrained(unfinished)
        save_file(
            _marian_weights(model, tokenizer), unfinished / "model.safetensors", {"format": "pt"}
        )
        save_tokenizer(tokenizer, unfinished)


def _marian_config(model: PreTrainedModel) -> MarianConfig:
    config = model.config
    return MarianConfig(
        architectures=["MarianMTModel"],
        vocab_size=_embedding_rows(model),
        encoder_attention_heads=config.num_heads,
        decoder_attention_heads=config.num_heads,
        encoder_ffn_dim=config.d_ff,
        decoder_ffn_dim=config.d_ff,
        max_position_embeddings=position_rows(model),
        forced_eos_token_id=None,
        share_encoder_decoder_embeddings=_is_shared(config),
        **{name: getattr(config, name) for name in SAME_FIELDS},
    )


def _embedding_rows(model: PreTrainedModel) -> int:
    """Return the entries of both vocabularies: of two sizes transformers 4 loads none."""
    return max(model.config.vocab_size, model.lm_head.out_features)


def _is_shared(config: VanillaTransformerConfig) -> bool:
    """Tell whether Marian's stacks share embeddings: only where it ties the output to them too."""
    return config.share_encoder_decoder_embeddings and config.tie_word_embeddings


def _tensors_left_out(config: VanillaTransformerConfig) -> Iterable[str]:
    """Name the embeddings that Marian takes from another, or has no place for."""
    if config.share_encoder_decoder_embeddings and not config.tie_word_embeddings:
        return ("model.shared.weight",)
    return output_ties(config)


def _marian_generation_config(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> GenerationConfig:
    settings = copy.deepcopy(model.generation_config)
    settings.length_penalty = length_exponent(settings)
    settings.suppress_tokens = suppressed_ids(model, tokenizer)
    if settings.max_new_tokens is None:
        settings.max_length = longest_translation(model) + 1
    for name in OWN_SETTINGS:
        vars(settings).pop(name, None)
    return settings


def _marian_weights(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> dict[str, Tensor]:
    """Return Marian's tensors, but for its positions, which it computes itself."""
    weights = float_weights(model)
    for name in _tensors_left_out(model.config):
        del weights[name]
    targets, rows = model.lm_head.out_features, _embedding_rows(model)
    bias = weights.pop("lm_head.bias", torch.zeros(targets)).clone()
    # Marian's search masks what is suppressed after the log-softmax: no probability is left there.
    bias[[*removed_ids(model), *ids_past_tokenizer(model, tokenizer)]] = UNLIKELY
    found = {"final_logits_bias": functional.pad(bias, (0, rows - targets), value=UNLIKELY)[None]}
    # Our positions have sine and cosine in turn, Marian's all sines and then all cosines.
    order = torch.arange(model.config.d_model).view(-1, 2).t().flatten()
    for name, tensor in weights.items():
        if "embed_tokens" in name or name == "lm_head.weight":
            tensor = functional.pad(tensor, (0, 0, 0, rows - len(tensor)))
        found[_rename(name)] = _reorder_features(name, tensor, order=order)
        if name.endswith("_proj.weight"):
            bias_name = name.removesuffix("weight") + "bias"
            if bias_name not in weights:
                found[_rename(bias_name)] = torch.zeros(len(tensor))
    return found


def _rename(name: str) -> str:
    for ours, theirs in RENAMED.items():
        name = name.replace(ours, theirs)
    return name


def _reorder_features(name: str, tensor: Tensor, *, order: Tensor) -> Tensor:
    """Permute the axis of a tensor that runs over d_model; sums over it do not mind."""
    if "layer_norm" in name or ".out_proj." in name or ".fc2." in name:
        return tensor[order]
    return tensor[:, order].contiguous() if tensor.dim() == 2 else tensor
