"""The original Transformer (Vaswani et al. 2017) as models of the Hugging Face library."""

from os import PathLike

from torch import Tensor, nn
from torch.nn import functional
from transformers import GenerationConfig
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput, Seq2SeqModelOutput

# The library copies only what an entry file itself imports: every file of the core stands here.
from .attention import ATTENTION_FUNCTIONS  # noqa: F401
from .batches import in_batches  # noqa: F401
from .cache import VanillaTransformerCache
from .compat import CACHE_KEY, chosen_cache
from .configuration_vanilla_transformer import VanillaTransformerConfig
from .fast_attention import fast_attention  # noqa: F401
from .fast_dropout import FastDropout  # noqa: F401
from .fast_generation import FastGenerationMixin
from .fast_hypotheses import Hypotheses  # noqa: F401
from .fast_int8 import QuantizationMixin
from .fast_layers import FastDecoder  # noqa: F401
from .fast_linear import pack  # noqa: F401
from .fast_loss import can_fuse, fused_translation_loss
from .fast_model import fast_model  # noqa: F401
from .fast_rules import SearchRules  # noqa: F401
from .fast_search import BeamSearch  # noqa: F401
from .fast_state import DecodingState  # noqa: F401
from .fast_topk import highest  # noqa: F401
from .finite import FiniteScores  # noqa: F401
from .generation import OWN_SETTINGS
from .guard_config import check_config_settings  # noqa: F401
from .guard_fields import check_field_names  # noqa: F401
from .guard_generation import check_search_settings  # noqa: F401
from .guard_ids import check_labels
from .guard_rules import check_rules  # noqa: F401
from .layers import EncoderLayer  # noqa: F401
from .lengths import given_ranking
from .loss import decoder_inputs_from_labels, translation_loss
from .masks import segment_mask  # noqa: F401
from .pipeline_translation import (
    TranslationPipeline,  # noqa: F401
    checked,  # noqa: F401
)
from .positions import sinusoidal_encoding  # noqa: F401
from .pretrained import (
    VanillaTransformerPreTrainedModel,
    check_known,
    embedding_ties,
    given_or,
    output_ties,
)
from .stacks import Decoder, Encoder, ScaledEmbedding
from .vocabulary import change_rows


class VanillaTransformerModel(VanillaTransformerPreTrainedModel):
    """Encoder and decoder, without a projection to the vocabulary (§3.1, figure 1)."""

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__(config)
        # One module in three places would go unnoticed where a checkpoint lacks its tensor: the
        # library ties parameters, by the table below.
        if config.share_encoder_decoder_embeddings:
            self.shared = ScaledEmbedding(config, config.vocab_size)
        source = ScaledEmbedding(config, config.vocab_size)
        target = ScaledEmbedding(config, config.decoder_vocab_size or config.vocab_size)
        self.encoder = Encoder(config, source)
        self.decoder = Decoder(config, target)
        self._tied_weights_keys = embedding_ties(config)
        self.post_init()

    def get_input_embeddings(self) -> ScaledEmbedding:
        """Return the embeddings of the source."""
        return self.encoder.embed_tokens

    def set_input_embeddings(self, embeddings: nn.Embedding) -> None:
        """Replace the embeddings of the source, and those of the target if they are shared."""
        self.encoder.embed_tokens = embeddings
        if self.config.share_encoder_decoder_embeddings:
            self.shared = self.decoder.embed_tokens = embeddings

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        cache: VanillaTransformerCache | None = None,
        past_key_values: VanillaTransformerCache | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        **kwargs: object,
    ) -> Seq2SeqModelOutput | tuple[Tensor, ...]:
        """Encode the source and decode the target with it.

        Args:
            input_ids: Source ids [B, S].
            attention_mask: Segment ids [B, S] of the source, 0 for padding, 1..n for the pairs
                packed in a row; None means that the padding id marks what is padding.
            decoder_input_ids: Target ids [B, T], one step behind what they predict; [B*n, T] where
                n targets share a source.
            decoder_attention_mask: Segment ids [B, past + T] of the target.
            encoder_outputs: What the encoder returned for the source, in place of `input_ids`.
            inputs_embeds: Source embeddings [B, S, D] in place of ids, already scaled.
            decoder_inputs_embeds: Target embeddings [B, T, D] in place of ids, already scaled.
            cache: Keys and values of past target positions, extended in place.
            past_key_values: The name of `cache` before transformers 5.24.
            use_cache: Whether to return a cache; None means the config's value.
            output_attentions: Whether to return the weights of every attention.
            output_hidden_states: Whether to return the states of every layer.
            return_dict: False for a tuple; None means the config's value.
            **kwargs: What versions of the library pass beyond that and is of no use here.

        Returns:
            Decoder states [B, T, D] as `last_hidden_state`, the memory [B, S, D] as
            `encoder_last_hidden_state`, the cache, and what was asked for.

        Raises:
            ValueError: Source or target is missing or given twice, or a mask is not 2D.
            TypeError: An argument is unknown.
        """
        check_known(kwargs)
        config = self.config
        shows = {
            "output_attentions": given_or(output_attentions, config.output_attentions),
            "output_hidden_states": given_or(output_hidden_states, config.output_hidden_states),
        }
        if attention_mask is None and input_ids is not None and config.pad_token_id is not None:
            attention_mask = input_ids.ne(config.pad_token_id)
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, inputs_embeds, **shows)
        elif not isinstance(encoder_outputs, BaseModelOutput):
            encoder_outputs = BaseModelOutput(*encoder_outputs)
        cache = chosen_cache(cache, past_key_values)
        if self.decoder.is_recomputed():
            cache, use_cache = None, False  # a second pass would write every position again
        if cache is None and given_or(use_cache, config.use_cache and not self.training):
            cache = VanillaTransformerCache(config.decoder_layers)
        decoded = self.decoder(
            decoder_input_ids,
            encoder_outputs.last_hidden_state,
            decoder_attention_mask,
            attention_mask,
            decoder_inputs_embeds,
            cache,
            **shows,
        )
        output = Seq2SeqModelOutput(
            last_hidden_state=decoded.last_hidden_state,
            decoder_hidden_states=decoded.hidden_states,
            decoder_attentions=decoded.attentions,
            cross_attentions=decoded.cross_attentions,
            encoder_last_hidden_state=encoder_outputs.last_hidden_state,
            encoder_hidden_states=encoder_outputs.hidden_states,
            encoder_attentions=encoder_outputs.attentions,
            **{CACHE_KEY: cache},
        )
        return output if given_or(return_dict, config.return_dict) else output.to_tuple()


class VanillaTransformerForConditionalGeneration(
    QuantizationMixin, VanillaTransformerPreTrainedModel, FastGenerationMixin
):
    """The Transformer with its projection to the target vocabulary: trains and translates."""

    def __init__(self, config: VanillaTransformerConfig) -> None:
        super().__init__(config)
        # By the class's name the library takes the loss for one that shifts labels, and its trainer
        # (5.14) would count a token less in every row.
        self.loss_type = None
        self.model = VanillaTransformerModel(config)
        vocab_size = config.decoder_vocab_size or config.vocab_size
        self.lm_head = nn.Linear(config.d_model, vocab_size, bias=config.output_bias)
        self._tied_weights_keys = output_ties(config)
        self.post_init()
        self.generation_config = GenerationConfig(
            pad_token_id=config.pad_token_id,
            bos_token_id=config.bos_token_id,
            eos_token_id=config.eos_token_id,
            decoder_start_token_id=config.decoder_start_token_id,
            **OWN_SETTINGS,
        )

    def save_pretrained(
        self, save_directory: str | PathLike[str], *args: object, **kwargs: object
    ) -> None:
        """Save like transformers, after a check of the generation config.

        Raises:
            ValueError: The config sets two length penalties; nothing is written.
        """
        given_ranking(vars(self.generation_config))
        super().save_pretrained(save_directory, *args, **kwargs)

    def get_output_embeddings(self) -> nn.Linear:
        """Return the projection to the vocabulary."""
        return self.lm_head

    def set_output_embeddings(self, projection: nn.Linear) -> None:
        """Replace the projection to the vocabulary."""
        self.lm_head = projection

    def _resize_token_embeddings(
        self,
        new_num_tokens: int | None,
        pad_to_multiple_of: int | None = None,
        mean_resizing: bool = True,
    ) -> ScaledEmbedding:
        if not isinstance(pad_to_multiple_of, int | None):  # the library refuses it in words
            return super()._resize_token_embeddings(new_num_tokens, pad_to_multiple_of)
        self._check_resize(new_num_tokens)
        old_rows, is_trained = self.lm_head.out_features, self.lm_head.weight.requires_grad
        tokens = rows = new_num_tokens or old_rows
        if pad_to_multiple_of is not None:
            rows = -(-tokens // pad_to_multiple_of) * pad_to_multiple_of
        # Before the embeddings: once their tied matrix has grown, the projection looks grown too.
        self.lm_head = self._get_resized_lm_head(self.lm_head, rows, mean_resizing=mean_resizing)
        self.lm_head.requires_grad_(is_trained)
        embeddings = super()._resize_token_embeddings(rows, None, mean_resizing)
        change_rows(self.generation_config, old_rows, tokens=tokens, rows=rows)
        return embeddings

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """Shift labels [B, T] one step to the right, behind the start token."""
        return self._decoder_inputs(labels)[0]

    def _decoder_inputs(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        start, pad = self.config.decoder_start_token_id, self.config.pad_token_id
        return decoder_inputs_from_labels(labels, start_token_id=start, pad_token_id=pad)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        inputs_embeds: Tensor | None = None,
        decoder_inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        cache: VanillaTransformerCache | None = None,
        past_key_values: VanillaTransformerCache | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        return_dict: bool | None = None,
        return_logits: bool | None = None,
        num_items_in_batch: Tensor | int | None = None,
        **kwargs: object,
    ) -> Seq2SeqLMOutput | tuple[Tensor, ...]:
        """Predict the next target token at each position and, with labels, the loss.

        Takes what `VanillaTransformerModel.forward` takes (without `decoder_input_ids`, they are
        the labels one step behind), and `labels`, target ids [B, T] with -100 for padding;
        `return_logits`, None for always but in training with labels, where logits are large and
        nobody reads them; `num_items_in_batch`, the target tokens of all processes and accumulation
        steps by which the summed loss is divided, None for those of `labels`.

        Returns:
            Logits [B, T, V], the loss in nats per target token (smoothed in training mode only),
            and the rest of what the base model returns.

        Raises:
            ValueError: As there.
            TypeError: As there.
        """
        if labels is not None:
            check_labels(labels, self.lm_head.out_features)
            use_cache = False if use_cache is None else use_cache
            if decoder_input_ids is None and decoder_inputs_embeds is None:
                decoder_input_ids, mask = self._decoder_inputs(labels)
                if past := chosen_cache(cache, past_key_values):  # a trained prefix
                    mask = functional.pad(mask, (past.get_seq_length(), 0), value=1)
                decoder_attention_mask = given_or(decoder_attention_mask, mask)
        output = self.model(
            input_ids,
            attention_mask,
            decoder_input_ids,
            decoder_attention_mask,
            encoder_outputs,
            inputs_embeds,
            decoder_inputs_embeds,
            cache,
            past_key_values,
            use_cache,
            output_attentions,
            output_hidden_states,
            True,
            **kwargs,
        )
        wants_logits = given_or(return_logits, labels is None or not self.training)
        loss, logits = self._loss_and_logits(
            output.last_hidden_state,
            labels,
            num_items_in_batch=num_items_in_batch,
            wants_logits=wants_logits,
        )
        states = {name: value for name, value in output.items() if name != "last_hidden_state"}
        result = Seq2SeqLMOutput(loss=loss, logits=logits, **states)
        return result if given_or(return_dict, self.config.return_dict) else result.to_tuple()

    def _loss_and_logits(
        self,
        states: Tensor,
        labels: Tensor | None,
        *,
        num_items_in_batch: Tensor | int | None,
        wants_logits: bool,
    ) -> tuple[Tensor | None, Tensor | None]:
        if labels is None:
            return None, self.lm_head(states)
        smoothing = self.config.label_smoothing if self.training else 0.0
        if self.fast and not wants_logits and can_fuse(self.lm_head):
            arguments = (labels, smoothing, num_items_in_batch)
            return fused_translation_loss(states, self.lm_head, *arguments), None
        logits = self.lm_head(states)
        loss = translation_loss(logits, labels, smoothing, num_items_in_batch)
        return loss, logits if wants_logits else None


VanillaTransformerModel.register_for_auto_class("AutoModel")
VanillaTransformerForConditionalGeneration.register_for_auto_class("AutoModelForSeq2SeqLM")
