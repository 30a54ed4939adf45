"""Ids that are never generated: padding, and rows of the output matrix without a token."""

from torch import Tensor
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.generation import SuppressTokensLogitsProcessor


class RemovedTokens(SuppressTokensLogitsProcessor):
    """Remove ids from the vocabulary of a beam search.

    The loop of transformers masks after the log-softmax, so masked ids keep their share of the
    probability, which would lower the log_prob of a hypothesis at every token.
    """

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return log-probabilities [R, V] of the other ids, which sum to 1."""
        return super().__call__(input_ids, scores).log_softmax(-1)


def suppress_rows_without_token(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Suppress ids beyond the target's tokenizer; called where model and tokenizer are combined.

    Args:
        model: Its `generation_config.suppress_tokens` is extended; other models are unchanged.
        tokenizer: Its tokenizer.
    """
    if model.config.model_type == "vanilla_transformer":
        settings, past = model.generation_config, ids_past_tokenizer(model, tokenizer)
        settings.suppress_tokens = sorted({*(settings.suppress_tokens or ()), *past}) or None


def ids_past_tokenizer(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> range:
    """Return the rows of a model's output matrix after the last token of the target."""
    vocabulary = getattr(tokenizer, "target", tokenizer).get_vocab()
    return range(max(vocabulary.values(), default=-1) + 1, target_rows(model))


def change_rows(settings: GenerationConfig, old_rows: int, *, tokens: int, rows: int) -> None:
    """Suppress ids of rows that only pad a resized output matrix.

    Args:
        settings: Its `suppress_tokens` is changed; the padding of `old_rows` is removed from it.
        old_rows: Rows before the resize.
        tokens: Number of rows with a token.
        rows: Number of all rows.
    """
    suppressed = set(settings.suppress_tokens or ()) - set(rows_without_token(settings, old_rows))
    settings.suppress_tokens = sorted(suppressed | set(range(tokens, rows))) or None


def removed_ids(model: PreTrainedModel) -> list[int]:
    """Return the ids that are removed from a model's target vocabulary in generation."""
    removed = rows_without_token(model.generation_config, target_rows(model))
    pad, eos = model.config.pad_token_id, model.config.eos_token_id
    return removed if pad is None or pad == eos else [*removed, pad]


def rows_without_token(settings: GenerationConfig, rows: int) -> list[int]:
    """Return the suppressed ids at the end of an output matrix."""
    suppressed, first = set(settings.suppress_tokens or ()), rows
    while first - 1 in suppressed:
        first -= 1
    return list(range(first, rows))


def target_rows(model: PreTrainedModel) -> int:
    """Return the rows of the output matrix."""
    return model.config.decoder_vocab_size or model.config.vocab_size
