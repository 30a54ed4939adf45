"""What both models share: initialisation, tied embeddings, resizing, argument checks."""

import copy
import json
import os
from os import PathLike
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from .attention import MultiHeadAttention
from .compat import TIES_BY_TABLE
from .configuration_vanilla_transformer import VanillaTransformerConfig, check_fields
from .fast_dropout import FastDropout
from .guard_generation import check_generation_file, check_ids
from .positions import POSITIONS
from .stacks import Decoder, Encoder, ScaledEmbedding

T = TypeVar("T")

# What versions of the library hand to every `forward`, and this one has no use for; tokenizers are
# handed to `generate` for `stop_strings`.
IGNORED_ARGUMENTS = {"cache_position", "tokenizer", "assistant_tokenizer"}

NO_PICKLES = (
    "other weights (pytorch_model.bin, *.pt) are pickles, which may run code where they are read, "
    "so they are not read: have the model saved as safetensors"
)


class VanillaTransformerPreTrainedModel(PreTrainedModel):
    """What both models share: configuration, capabilities and the initialisation of weights."""

    config_class = VanillaTransformerConfig
    base_model_prefix = "model"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = True
    _supports_sdpa = True
    _supports_attention_backend = False
    _no_split_modules = ["EncoderLayer", "DecoderLayer"]
    _skip_keys_device_placement = ["cache", "past_key_values"]
    _fast = True

    def __init__(self, config: VanillaTransformerConfig, *args: object, **kwargs: object) -> None:
        check_memory(config)
        super().__init__(config, *args, **kwargs)

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | PathLike[str] | None,
        *args: object,
        **kwargs: object,
    ) -> "VanillaTransformerPreTrainedModel":
        """Load a model as the library does, but never from a pickle.

        Raises:
            ValueError: `use_safetensors=False` asks for a pickle, the weights lie outside the
                folder or are of other shapes than the config says, the config asks for more
                memory than there is, or the generation config would fail in a search.
            OSError: There is no such model, or it has no weights as safetensors.
        """
        if kwargs.pop("use_safetensors", None) is False:
            raise ValueError(f"use_safetensors=False: {NO_PICKLES}")
        name = pretrained_model_name_or_path
        check_generation_file(name, kwargs)
        try:
            loaded = super().from_pretrained(name, *args, use_safetensors=True, **kwargs)
        except OSError as error:
            if "safetensors" not in str(error):
                raise
            raise OSError(f"{name} has no model.safetensors; {NO_PICKLES}") from error
        check_ids(loaded[0] if isinstance(loaded, tuple) else loaded)
        return loaded

    @classmethod
    def _load_pretrained_model(
        cls,
        model: "VanillaTransformerPreTrainedModel",
        state_dict: dict[str, Tensor] | None,
        checkpoint_files: list[str] | None,
        *args: object,
        **kwargs: object,
    ) -> object:
        # From 5.0 on the option is in an object.
        options = next((x for x in args if hasattr(x, "ignore_mismatched_sizes")), None)
        is_lax = kwargs.get(
            "ignore_mismatched_sizes", getattr(options, "ignore_mismatched_sizes", False)
        )
        check_weight_files(model, checkpoint_files or [], check_shapes=not is_lax)
        return super()._load_pretrained_model(model, state_dict, checkpoint_files, *args, **kwargs)

    @property
    def fast(self) -> bool:
        """Whether fast versions may replace the reference; False computes the reference."""
        return self._fast

    @fast.setter
    def fast(self, value: bool) -> None:
        self._fast = value
        for part in self.modules():
            if isinstance(part, FastDropout | MultiHeadAttention):
                part.fast = value

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise a module so that post-norm layers train from the first step.

        Matrices are Glorot-uniform (Glorot & Bengio 2010), which keeps the variance of activations
        and gradients across layers; embeddings are normal with deviation d_model^-0.5, so that
        after scaling by sqrt(d_model) they are of the size of the positions added to them, and as
        output projection give logits of unit variance. Biases are 0, norms the identity.
        """
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
        elif isinstance(module, nn.LayerNorm):
            nn.init.ones_(module.weight)
            nn.init.zeros_(module.bias)

    def get_encoder(self, *args: object, **kwargs: object) -> Encoder:
        """Return the encoder."""
        return self.base_model.encoder

    def get_decoder(self, *args: object, **kwargs: object) -> Decoder:
        """Return the decoder."""
        return self.base_model.decoder

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:
        """Return the tie table of this instance; the library's is all or nothing."""
        return dict(self._tied_weights_keys or {})

    def tie_weights(self, *args: object, **kwargs: object) -> None:
        """Tie what the table names, also under transformers 4, which knows only one way to tie."""
        if TIES_BY_TABLE:
            super().tie_weights(*args, **kwargs)
            return
        ties = self.get_expanded_tied_weights_keys()
        for target, source in ties.items():
            if self.get_parameter(source).is_meta:  # not in the file that is being loaded
                _replace_parameter(self, source, parameter=self.get_parameter(target))
        for target, source in ties.items():
            _replace_parameter(self, target, parameter=self.get_parameter(source))

    def _resize_token_embeddings(
        self,
        new_num_tokens: int | None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> ScaledEmbedding:
        config = self.config
        self._check_resize(new_num_tokens)
        is_shared = config.share_encoder_decoder_embeddings
        for stack in (self.get_encoder(), self.get_decoder())[: 1 if is_shared else 2]:
            is_trained = stack.embed_tokens.weight.requires_grad
            embeddings = self._get_resized_embeddings(
                stack.embed_tokens, new_num_tokens, pad_to_multiple_of, mean_resizing
            )
            embeddings.requires_grad_(is_trained)
            stack.embed_tokens = embeddings
        if is_shared:
            self.base_model.set_input_embeddings(embeddings)
        # Both at once: the library sets one, on a copy if they differ.
        config.vocab_size = embeddings.num_embeddings
        if config.decoder_vocab_size is not None:
            config.decoder_vocab_size = config.vocab_size
        return self.get_input_embeddings()

    def _check_resize(self, new_num_tokens: int | None) -> None:
        config = copy.copy(self.config)
        if config.decoder_vocab_size not in (None, config.vocab_size):
            raise ValueError(
                f"vocab_size={config.vocab_size} and decoder_vocab_size="
                f"{config.decoder_vocab_size} differ: one number cannot resize both vocabularies"
            )
        config.vocab_size, config.decoder_vocab_size = new_num_tokens or config.vocab_size, None
        if config.vocab_size < self.config.vocab_size:  # ids may be past the new size
            check_fields(config)


def _replace_parameter(model: nn.Module, name: str, *, parameter: nn.Parameter) -> None:
    parent, _, name = name.rpartition(".")
    setattr(model.get_submodule(parent), name, parameter)


def check_memory(config: VanillaTransformerConfig) -> None:
    """Refuse a model that the memory of this machine cannot hold, before any is taken.

    Raises:
        ValueError: Names the size of the model and of the memory.
    """
    if not hasattr(os, "sysconf"):  # on Windows the allocator refuses by itself
        return
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    count = count_parameters(config)
    size = count * torch.get_default_dtype().itemsize
    if size > memory:
        raise ValueError(
            f"the config asks for {count:,} parameters, {size / 1e9:,.0f} GB, and this machine "
            f"has {memory / 1e9:,.0f} GB of memory: vocab_size={config.vocab_size}, "
            f"d_model={config.d_model}, d_ff={config.d_ff}, num_heads={config.num_heads}"
        )


def count_parameters(config: VanillaTransformerConfig) -> int:
    """Return the weights of a model's matrices and embeddings, without building it."""
    width, target_size = config.d_model, config.decoder_vocab_size or config.vocab_size
    is_shared, is_gated = config.share_encoder_decoder_embeddings, config.activation_function
    rows = config.vocab_size + (0 if is_shared else target_size)
    rows += 0 if config.tie_word_embeddings else target_size
    rows += 2 * POSITIONS[config.position_type].count_rows(config.max_position_embeddings)
    attention = 2 * width * config.num_heads * (config.d_k + config.d_v)
    feed_forward = (3 if is_gated == "swiglu" else 2) * width * config.d_ff
    layers = config.encoder_layers * (attention + feed_forward)
    layers += config.decoder_layers * (2 * attention + feed_forward)
    return rows * width + layers


def check_weight_files(model: PreTrainedModel, files: list[str], *, check_shapes: bool) -> None:
    """Refuse weights that lie outside the model's folder, are pickles, or fit another config.

    Args:
        model: Built from its config, on the meta device; nothing is read into it.
        files: What the library is about to read; an index may name any file.
        check_shapes: False where the library has been told to pass over other shapes.

    Raises:
        ValueError: Names the file, and the tensor with both shapes.
    """
    place = str(model.name_or_path)
    folder = os.path.abspath(place if os.path.isdir(place) else os.path.dirname([*files, ""][0]))
    # The library reads an adapter's file by its own name, wherever it lies.
    is_adapter = getattr(model, "_hf_peft_config_loaded", False)
    expected = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    for file in files:
        if not is_adapter and not Path(os.path.abspath(file)).is_relative_to(folder):
            raise ValueError(f"the weights' index names {file}, which is not in {folder}")
        if not file.endswith(".safetensors"):
            raise ValueError(f"{file} is not read: {NO_PICKLES}")
        for name, shape in tensor_shapes(file).items() if check_shapes else ():
            if expected.get(name, shape) != shape:
                raise ValueError(
                    f"{name} is {shape} in {file}, and {expected[name]} by config.json"
                )


def tensor_shapes(file: str) -> dict[str, list[int]]:
    """Return the shapes of the tensors in a safetensors file, without reading any."""
    with open(file, "rb") as content:
        size = int.from_bytes(content.read(8), "little")
        header = json.loads(content.read(min(size, 100_000_000)))
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}


def embedding_ties(config: VanillaTransformerConfig) -> dict[str, str]:
    """Name the tied embeddings of the base model, as {tied: source}."""
    if not config.share_encoder_decoder_embeddings:
        return {}
    stacks = ("encoder", "decoder")
    return {f"{stack}.embed_tokens.weight": "shared.weight" for stack in stacks}


def output_ties(config: VanillaTransformerConfig) -> dict[str, str]:
    """Name the tied tensors of the full model, as {tied: source}."""
    ties = {f"model.{tied}": f"model.{source}" for tied, source in embedding_ties(config).items()}
    if config.tie_word_embeddings:
        is_shared = config.share_encoder_decoder_embeddings
        source = "shared" if is_shared else "decoder.embed_tokens"
        ties["lm_head.weight"] = f"model.{source}.weight"
    return ties


def given_or(value: T | None, fallback: T) -> T:
    """Return an argument, or what stands for it where it was left out."""
    return fallback if value is None else value


def check_known(kwargs: dict[str, object]) -> None:
    """Refuse arguments that would be ignored.

    Raises:
        TypeError: An argument is neither of this model nor of a known version of the library.
    """
    for name in kwargs.keys() - IGNORED_ARGUMENTS:
        raise TypeError(f"forward() got an unexpected argument {name}={kwargs[name]!r}")
