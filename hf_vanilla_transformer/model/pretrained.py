"""What both models share: initialisation, tied embeddings, resizing, argument checks."""

from typing import TypeVar

from torch import nn
from transformers import GenerationConfig, PreTrainedModel

from .attention import MultiHeadAttention
from .compat import TIES_BY_TABLE
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_dropout import FastDropout
from .stacks import Decoder, Encoder, ScaledEmbedding

T = TypeVar("T")

# What versions of the library hand to every `forward`, and this one has no use for.
IGNORED_ARGUMENTS = {"cache_position"}


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

    @property
    def fast(self) -> bool:
        """Whether fast paths may stand in for their plain twins; False shows that both agree."""
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
                _replace_parameter(self, source, self.get_parameter(target))
        for target, source in ties.items():
            _replace_parameter(self, target, self.get_parameter(source))

    def _resize_token_embeddings(
        self,
        new_num_tokens: int | None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> ScaledEmbedding:
        config = self.config
        if config.decoder_vocab_size not in (None, config.vocab_size):
            raise ValueError(
                f"vocab_size={config.vocab_size} and decoder_vocab_size="
                f"{config.decoder_vocab_size} differ: one number cannot resize both vocabularies"
            )
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
        if config.decoder_vocab_size is not None:
            config.decoder_vocab_size = embeddings.num_embeddings
        return self.get_input_embeddings()


def _replace_parameter(model: nn.Module, name: str, parameter: nn.Parameter) -> None:
    parent, _, name = name.rpartition(".")
    setattr(model.get_submodule(parent), name, parameter)


def embedding_ties(config: VanillaTransformerConfig) -> dict[str, str]:
    """Name the embeddings of the base model that are another's, as {tied: source}."""
    if not config.share_encoder_decoder_embeddings:
        return {}
    stacks = ("encoder", "decoder")
    return {f"{stack}.embed_tokens.weight": "shared.weight" for stack in stacks}


def output_ties(config: VanillaTransformerConfig) -> dict[str, str]:
    """Name the tensors of the full model that are another's, as {tied: source}."""
    ties = {f"model.{tied}": f"model.{source}" for tied, source in embedding_ties(config).items()}
    if config.tie_word_embeddings:
        is_shared = config.share_encoder_decoder_embeddings
        source = "shared" if is_shared else "decoder.embed_tokens"
        ties["lm_head.weight"] = f"model.{source}.weight"
    return ties


def suppress_padding_rows(
    generation_config: GenerationConfig, old_rows: int, tokens: int, rows: int
) -> None:
    """Never generate ids of rows that only pad the output matrix.

    Args:
        generation_config: Its `suppress_tokens` is changed; what pads `old_rows` leaves it.
        old_rows: Rows before a resize.
        tokens: Rows that stand for tokens.
        rows: All rows.
    """
    suppressed = set(generation_config.suppress_tokens or ())
    while old_rows - 1 in suppressed:
        old_rows -= 1
        suppressed.remove(old_rows)
    generation_config.suppress_tokens = sorted(suppressed | set(range(tokens, rows))) or None


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
