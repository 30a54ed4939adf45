"""CTranslate2: a folder for `ctranslate2.Translator`, an engine in C++ for CPUs and GPUs."""

import math
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

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
from hf_vanilla_transformer.storage.files import write_folder, write_json

if TYPE_CHECKING:
    from ctranslate2.specs import LayerSpec, TransformerSpec

Quantization = Literal[
    "float32",
    "float16",
    "bfloat16",
    "int16",
    "int8",
    "int8_float32",
    "int8_float16",
    "int8_bfloat16",
]
QUANTIZATIONS: tuple[str, ...] = get_args(Quantization)
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "swiglu": "SWISH"}
CTRANSLATE2_SUPPORTS = {
    "position_type": ("sinusoidal", "learned"),
    "activation_function": (*ACTIVATIONS,),
}
SETTINGS_FILE = "export.json"


def export_to_ctranslate2(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    *,
    quantization: Quantization = "float32",
) -> None:
    """Write a folder for `ctranslate2.Translator`, with the tokenizer and an `export.json`.

    That holds the model's configuration and, as `translate_batch`, the arguments with which
    CTranslate2 searches as `generate` does.

    Args:
        model: In any mode, precision and place; it is left as it is.
        tokenizer: Its tokenizer.
        folder: New or empty.
        quantization: Type of the weights in the file.

    Raises:
        ValueError: It is no model of this package, has adapters or is in int8; CTranslate2 is not
            installed, or cannot express a field of the configuration; the folder holds something;
            the tokenizer is another model's.
    """
    if quantization not in QUANTIZATIONS:
        raise ValueError(f"quantization={quantization!r} is not one of {', '.join(QUANTIZATIONS)}")
    check_model(model, "CTranslate2", expressible=CTRANSLATE2_SUPPORTS)
    check_is_new(folder)
    spec = _new_spec(_import_specs(), model.config)
    target_tokens = _register_vocabularies(spec, model.config, tokenizer=tokenizer)
    _set_weights(spec, float_weights(model), model=model)
    spec.validate()
    spec.optimize(quantization=quantization)
    suppressed = [[target_tokens[index]] for index in suppressed_ids(model, tokenizer)]
    with write_folder(folder) as unfinished:
        spec.save(str(unfinished))
        save_tokenizer(tokenizer, unfinished)
        write_json(unfinished / SETTINGS_FILE, _settings(model, suppressed))


def _import_specs() -> ModuleType:
    try:
        from ctranslate2 import specs
    except ImportError as error:
        raise ValueError(
            f"CTranslate2 cannot be used ({error}); pip install ctranslate2"
        ) from error
    return specs


def _new_spec(specs: ModuleType, config: VanillaTransformerConfig) -> "TransformerSpec":
    activation = ACTIVATIONS[config.activation_function]
    return specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=config.norm_position == "pre",
        activation=specs.Activation[activation],
        ffn_glu=config.activation_function == "swiglu",
    )


def _register_vocabularies(
    spec: "TransformerSpec", config: VanillaTransformerConfig, *, tokenizer: PreTrainedTokenizerBase
) -> list[str]:
    """Set the tokens of both sides, and return the target's."""
    source = _tokens(tokenizer, config.vocab_size, side="source")
    target_size = config.decoder_vocab_size or config.vocab_size
    target = _tokens(getattr(tokenizer, "target", tokenizer), target_size, side="target")
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    start = target[config.decoder_start_token_id]
    spec.config.decoder_start_token = spec.config.bos_token = start
    spec.config.eos_token = target[config.eos_token_id]
    # Any entry does: the tokenizer gives no text that the vocabulary lacks.
    spec.config.unk_token = tokenizer.unk_token or target[config.pad_token_id]
    return target


def _tokens(tokenizer: PreTrainedTokenizerBase, rows: int, *, side: str) -> list[str]:
    """Return the token of every id; a row of no token gets a name that is no token."""
    by_id = {index: token for token, index in tokenizer.get_vocab().items()}
    check_tokenizer(max(by_id) + 1, rows, side=side)
    return [by_id.get(index, f"<no token {index}>") for index in range(rows)]


def _set_weights(
    spec: "TransformerSpec", weights: dict[str, Tensor], *, model: PreTrainedModel
) -> None:
    config = model.config
    for name in ("encoder", "decoder"):
        stack, prefix = getattr(spec, name), f"model.{name}"
        stack.scale_embeddings = math.sqrt(config.d_model) if config.scale_embedding else 1.0
        positions = getattr(model.model, name).embed_positions
        table = positions.table(position_rows(model), torch.empty(0))
        stack.position_encodings.encodings = table.detach().float()
        if config.norm_position == "pre":
            _set_norm(stack.layer_norm, weights, name=f"{prefix}.layer_norm")
        for index, layer in enumerate(stack.layer):
            _set_layer(layer, weights, name=f"{prefix}.layers.{index}")
    spec.encoder.embeddings[0].weight = weights["model.encoder.embed_tokens.weight"]
    spec.decoder.embeddings.weight = weights["model.decoder.embed_tokens.weight"]
    _set_linear(spec.decoder.projection, weights, "lm_head")


def _set_layer(layer: "LayerSpec", weights: dict[str, Tensor], *, name: str) -> None:
    attention, prefix = layer.self_attention, f"{name}.self_attn"
    _set_linear(attention.linear[0], weights, *(f"{prefix}.{x}_proj" for x in "qkv"))
    _set_linear(attention.linear[1], weights, f"{prefix}.out_proj")
    _set_norm(attention.layer_norm, weights, name=f"{prefix}_layer_norm")
    if hasattr(layer, "attention"):
        attention, prefix = layer.attention, f"{name}.cross_attn"
        _set_linear(attention.linear[0], weights, f"{prefix}.q_proj")
        _set_linear(attention.linear[1], weights, f"{prefix}.k_proj", f"{prefix}.v_proj")
        _set_linear(attention.linear[2], weights, f"{prefix}.out_proj")
        _set_norm(attention.layer_norm, weights, name=f"{prefix}_layer_norm")
    _set_linear(layer.ffn.linear_0, weights, f"{name}.ffn.fc1")
    _set_linear(layer.ffn.linear_1, weights, f"{name}.ffn.fc2")
    if hasattr(layer.ffn, "linear_0_noact"):
        _set_linear(layer.ffn.linear_0_noact, weights, f"{name}.ffn.gate")
    _set_norm(layer.ffn.layer_norm, weights, name=f"{name}.ffn_layer_norm")


def _set_linear(linear: "LayerSpec", weights: dict[str, Tensor], *names: str) -> None:
    """Set one linear map that computes those of `names` side by side."""
    linear.weight = torch.cat([weights[f"{name}.weight"] for name in names])
    if f"{names[0]}.bias" in weights:
        linear.bias = torch.cat([weights[f"{name}.bias"] for name in names])


def _set_norm(norm: "LayerSpec", weights: dict[str, Tensor], *, name: str) -> None:
    norm.gamma, norm.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _settings(model: PreTrainedModel, suppressed: list[list[str]]) -> dict[str, object]:
    config, settings = model.config.to_diff_dict(), model.generation_config
    search = {
        "beam_size": settings.num_beams or 1,
        "length_penalty": length_exponent(settings),
        "max_input_length": 0,  # none: it would cut the end token off, where the tokenizer does not
        "max_decoding_length": longest_translation(model),
        "suppress_sequences": suppressed,
    }
    for name in ("auto_map", "custom_pipelines"):
        config.pop(name, None)
    return {"translate_batch": search, "config": config}
