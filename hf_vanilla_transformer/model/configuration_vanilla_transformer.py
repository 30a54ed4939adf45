"""Configuration of the original Transformer: every hyper-parameter, in the paper's symbols."""

import copy
import reprlib

from transformers import PretrainedConfig

from .guard_config import CONFIG_RULES, check_config_settings
from .guard_fields import check_field_names, notes
from .guard_generation import check_search_settings  # noqa: F401
from .guard_rules import check_rules, refusals
from .positions import POSITIONS

CHOICES = {
    "activation_function": ("relu", "gelu", "silu", "swiglu"),
    "norm_position": ("post", "pre"),
    "position_type": tuple(POSITIONS),
}
PLANNED_POSITION_TYPES = ("rotary", "alibi")
SIZES = (
    *("vocab_size", "decoder_vocab_size", "d_model", "d_ff", "num_heads", "d_k", "d_v"),
    *("encoder_layers", "decoder_layers", "max_position_embeddings"),
)
LAYERS = ("encoder_layers", "decoder_layers")
MAX_LAYERS = 1000  # a module takes memory and time whatever its width
OPTIONAL = ("decoder_vocab_size", "d_k", "d_v", "source_language", "target_language")
PASSED_ON = {"_commit_hash", "_name_or_path"}  # by the library itself
OTHER_ARCHITECTURES = ("is_encoder_decoder", "is_decoder", "add_cross_attention")
PROBABILITIES = ("dropout", "attention_dropout", "activation_dropout", "label_smoothing")
FLAGS = (
    *("attention_bias", "scale_embedding", "share_encoder_decoder_embeddings"),
    *("tie_word_embeddings", "output_bias", "use_cache"),
)
SOURCE_IDS = ("pad_token_id", "eos_token_id")
TARGET_IDS = (*SOURCE_IDS, "decoder_start_token_id")
# Where a saved folder keeps its classes, for a reader without this package.
MODELING = "modeling_vanilla_transformer.VanillaTransformer"
AUTO_MAP = {
    "AutoConfig": "configuration_vanilla_transformer.VanillaTransformerConfig",
    "AutoModel": f"{MODELING}Model",
    "AutoModelForSeq2SeqLM": f"{MODELING}ForConditionalGeneration",
}
TRANSLATION = {
    "impl": "pipeline_translation.TranslationPipeline",
    "pt": ["AutoModelForSeq2SeqLM"],
    "type": "text",
}


class CustomPipelines(dict):
    """The tasks of a saved folder, `custom_pipelines` in its `config.json`.

    `pipeline()` takes its task from here when none is given. Then it asks whether the task is `in`
    here, that is, whether code of the folder must run, which the user has to trust: no, where the
    installed package serves the task itself.
    """

    def __contains__(self, task: object) -> bool:
        is_installed = not __name__.startswith("transformers_modules.")
        return not is_installed and super().__contains__(task)

    def __getitem__(self, task: str) -> dict[str, object]:
        # A copy, since `pipeline()` writes classes into it, and classes cannot be saved.
        return dict(super().__getitem__(task))


class VanillaTransformerConfig(PretrainedConfig):
    """Hyper-parameters of an encoder-decoder Transformer (Vaswani et al. 2017, §3 and table 3).

    The defaults are the paper's base model. A value out of range is refused at construction with
    the field, the value and the rule.

    Args:
        vocab_size: Entries of the source vocabulary (of both vocabularies when they are shared).
        decoder_vocab_size: Entries of the target vocabulary; None means `vocab_size`.
        d_model: Width of embeddings and of every sub-layer's output.
        d_ff: Inner width of the position-wise feed-forward network.
        num_heads: Attention heads h of every attention sub-layer.
        d_k: Width of queries and keys per head; None means `d_model // num_heads`.
        d_v: Width of values per head; None means `d_model // num_heads`.
        encoder_layers: Layers N of the encoder.
        decoder_layers: Layers N of the decoder.
        dropout: P_drop on sub-layer outputs and on embeddings plus positions (§5.4).
        attention_dropout: Dropout on attention weights.
        activation_dropout: Dropout on the inner activation of the feed-forward network.
        activation_function: One of "relu" (the paper), "gelu", "silu", "swiglu" (a gated network,
            Shazeer 2020, with a third matrix `ffn.gate`).
        norm_position: "post", LayerNorm(x + Sublayer(x)), or "pre", x + Sublayer(LayerNorm(x))
            with one more norm after the last layer.
        position_type: "sinusoidal" (§3.5, computed, no table) or "learned" (a table).
        max_position_embeddings: Rows of the learned table; for sinusoids only the length at which
            tokenizer and pipeline truncate, since the formula has no limit.
        attention_bias: Whether the attention projections carry biases (the paper's have none).
        scale_embedding: Whether embeddings are multiplied by sqrt(d_model) (§3.4).
        share_encoder_decoder_embeddings: Whether source and target share one embedding matrix.
        tie_word_embeddings: Whether the output projection is the target embedding matrix (§3.4).
        output_bias: Whether the output projection carries a bias.
        label_smoothing: eps_ls of §5.4, applied to the training loss alone, in [0, 1).
        use_cache: Whether decoding keeps keys and values of past positions.
        source_language: Language code of the source, read by pipeline, scorer and model card.
        target_language: Language code of the target.
        pad_token_id: Id of padding.
        bos_token_id: Id that begins a sentence.
        eos_token_id: Id that ends a sentence.
        decoder_start_token_id: First id of the decoder's input; None means `bos_token_id`.
        **kwargs: Arguments of `PretrainedConfig`.

    Raises:
        ValueError: A value is out of range or not supported ("rotary", "alibi"), or a name is
            unknown.
    """

    model_type = "vanilla_transformer"
    keys_to_ignore_at_inference = ["cache", "past_key_values"]
    attribute_map = {
        "hidden_size": "d_model",
        "num_hidden_layers": "encoder_layers",
        "num_attention_heads": "num_heads",
        "encoder_attention_heads": "num_heads",
        "decoder_attention_heads": "num_heads",
        "head_dim": "d_k",
        "encoder_ffn_dim": "d_ff",
        "decoder_ffn_dim": "d_ff",
    }

    def __init__(
        self,
        vocab_size: int = 37_000,
        decoder_vocab_size: int | None = None,
        d_model: int = 512,
        d_ff: int = 2048,
        num_heads: int = 8,
        d_k: int | None = None,
        d_v: int | None = None,
        encoder_layers: int = 6,
        decoder_layers: int = 6,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        activation_function: str = "relu",
        norm_position: str = "post",
        position_type: str = "sinusoidal",
        max_position_embeddings: int = 1024,
        attention_bias: bool = False,
        scale_embedding: bool = True,
        share_encoder_decoder_embeddings: bool = True,
        tie_word_embeddings: bool = True,
        output_bias: bool = False,
        label_smoothing: float = 0.0,
        use_cache: bool = True,
        source_language: str | None = None,
        target_language: str | None = None,
        pad_token_id: int = 0,
        bos_token_id: int | None = 2,
        eos_token_id: int = 3,
        decoder_start_token_id: int | None = None,
        **kwargs: object,
    ) -> None:
        self.vocab_size = vocab_size
        self.decoder_vocab_size = decoder_vocab_size
        self.d_model = d_model
        self.d_ff = d_ff
        self.num_heads = num_heads
        self.d_k = d_k
        self.d_v = d_v
        self.encoder_layers = encoder_layers
        self.decoder_layers = decoder_layers
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.activation_function = activation_function
        self.norm_position = norm_position
        self.position_type = position_type
        self.max_position_embeddings = max_position_embeddings
        self.attention_bias = attention_bias
        self.scale_embedding = scale_embedding
        self.share_encoder_decoder_embeddings = share_encoder_decoder_embeddings
        self.tie_word_embeddings = tie_word_embeddings
        self.output_bias = output_bias
        self.label_smoothing = label_smoothing
        self.use_cache = use_cache
        self.source_language = source_language
        self.target_language = target_language
        self.pad_token_id = pad_token_id
        self.bos_token_id = bos_token_id
        self.eos_token_id = eos_token_id
        self.decoder_start_token_id = (
            bos_token_id if decoder_start_token_id is None else decoder_start_token_id
        )
        check_fields(self)
        foreign = {name: kwargs[name] for name in kwargs.keys() - PASSED_ON}
        check_config_settings(type(self), foreign)
        check_field_names(type(self), foreign)
        self.d_k = d_model // num_heads if d_k is None else d_k
        self.d_v = d_model // num_heads if d_v is None else d_v
        with refusals("config.json"):
            super().__init__(
                tie_word_embeddings=tie_word_embeddings,
                pad_token_id=pad_token_id,
                bos_token_id=bos_token_id,
                eos_token_id=eos_token_id,
                decoder_start_token_id=self.decoder_start_token_id,
                **{**kwargs, "is_encoder_decoder": True},
            )
        check_fields(self)  # again: `kwargs` may name fields by their aliases
        # Set last, over what a file says: that names the place which the file came from.
        self.auto_map = dict(AUTO_MAP)
        self.custom_pipelines = CustomPipelines(translation=TRANSLATION)

    @classmethod
    def from_dict(
        cls, config_dict: dict[str, object], **kwargs: object
    ) -> "VanillaTransformerConfig | tuple[VanillaTransformerConfig, dict[str, object]]":
        """Build a configuration from the content of a file; keep fields of other tools.

        Raises:
            ValueError: As at construction; a name that resembles a field is refused too.
        """
        check_rules(kwargs, {name: CONFIG_RULES[name] for name in OTHER_ARCHITECTURES})
        if not kwargs.get("return_unused_kwargs"):  # or the model refuses what is left over
            meant = kwargs.keys() - notes(cls, kwargs) - {"return_unused_kwargs"}
            check_field_names(cls, {name: kwargs[name] for name in meant})
        kept = {name: config_dict[name] for name in notes(cls, config_dict)}
        check_config_settings(cls, kept)
        fields = {name: value for name, value in config_dict.items() if name not in kept}
        built = super().from_dict(fields, **kwargs)
        vars(built[0] if isinstance(built, tuple) else built).update(kept)
        return built

    def get_text_config(
        self, decoder: bool | None = None, encoder: bool | None = None
    ) -> "VanillaTransformerConfig":
        """Return the configuration as caches and candidate generators read it.

        They ask for the decoder's side and read its depth under a name that is the encoder's here.
        Beam search asks for no side, and wants the size of the vocabulary that it generates.
        """
        size = self.decoder_vocab_size or self.vocab_size
        if encoder or (not decoder and size == self.vocab_size):
            return self
        config = copy.deepcopy(self)
        config.encoder_layers = self.decoder_layers
        config.vocab_size = size
        return config


def check_fields(config: VanillaTransformerConfig) -> None:
    """Refuse values that break a rule.

    Raises:
        ValueError: Names the field, the value and the rule.
    """
    if config.position_type in PLANNED_POSITION_TYPES:
        raise ValueError(f"position_type={config.position_type!r} comes with a later version")
    rules = [(name, _is_size, "a whole number of at least 1") for name in SIZES]
    rules += [(name, _is_probability, "a number in [0, 1)") for name in PROBABILITIES]
    rules += [(name, _is_flag, "True or False") for name in FLAGS]
    rules += [(name, _is_text, "text") for name in ("source_language", "target_language")]
    rules += [(name, lambda n: n <= MAX_LAYERS, f"at most {MAX_LAYERS}") for name in LAYERS]
    rules += [
        (name, lambda x, c=c: x in c, f"one of {', '.join(c)}") for name, c in CHOICES.items()
    ]
    for name, is_valid, rule in rules:
        value = getattr(config, name)
        if not is_valid(value) and not (value is None and name in OPTIONAL):
            raise ValueError(f"{name}={reprlib.repr(value)} is not {rule}")
    _check_widths(config)
    _check_vocabulary(config)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not _is_flag(value) and value >= 0


def _is_size(value: object) -> bool:
    return _is_id(value) and value > 0


def _is_probability(value: object) -> bool:
    return isinstance(value, int | float) and not _is_flag(value) and 0 <= value < 1


def _check_widths(config: VanillaTransformerConfig) -> None:
    d_model, num_heads = config.d_model, config.num_heads
    if (config.d_k is None or config.d_v is None) and d_model % num_heads:
        raise ValueError(
            f"d_model={d_model} is not divisible by num_heads={num_heads}; give d_k and d_v"
        )
    if config.position_type == "sinusoidal" and d_model % 2:
        raise ValueError(f"d_model={d_model} is odd; sinusoidal positions come in pairs")


def _check_vocabulary(config: VanillaTransformerConfig) -> None:
    target_size = config.decoder_vocab_size or config.vocab_size
    if config.share_encoder_decoder_embeddings and target_size != config.vocab_size:
        raise ValueError(
            f"vocab_size={config.vocab_size} and decoder_vocab_size={target_size} differ; set "
            "share_encoder_decoder_embeddings=False"
        )
    for names, size in ((SOURCE_IDS, config.vocab_size), (TARGET_IDS, target_size)):
        for name in names:
            value = getattr(config, name)
            if not _is_id(value) or value >= size:
                raise ValueError(f"{name}={value!r} is not an id below the vocabulary size {size}")
    if config.pad_token_id == config.eos_token_id:
        raise ValueError(
            f"pad_token_id and eos_token_id are both {config.pad_token_id}; padding would hide the "
            "end of every sentence"
        )


VanillaTransformerConfig.register_for_auto_class()
