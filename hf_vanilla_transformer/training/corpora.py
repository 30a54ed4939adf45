"""Open the corpora of a run, and turn them into what the loop reads."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.cleaning import Cleaner, Cleaning
from hf_vanilla_transformer.data.corpus import Corpus, open_corpora, sample_texts
from hf_vanilla_transformer.data.encoding import Dropped, EncodedPairs, find_dropped
from hf_vanilla_transformer.data.epochs import TrainingData, check_corpus_weights, warn_of_overlap
from hf_vanilla_transformer.data.token_cache import prepare_pairs
from hf_vanilla_transformer.tokenization.byte_share import warn_of_bytes_in_pairs
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.setup import (
    CorpusPlan,
    new_tokenizer,
    plan_corpora,
    plan_model,
)

PASSES = "passes"


def open_training_corpora(plan: CorpusPlan) -> tuple[list[Corpus], list[Corpus]]:
    """Return the corpora for training and for validation, unread.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A name is none of a corpus, a validation corpus is empty, or there are more or
            fewer weights than corpora.
    """
    training = open_corpora(plan.train, **plan.languages)
    check_corpus_weights(plan.epochs.weights, training)
    return training, open_corpora(plan.valid, **plan.languages)


def training_texts(corpora: Sequence[Corpus], *, names: Sequence[str]) -> list[str]:
    """Return texts to train a tokenizer on, source and target in turn.

    Raises:
        ValueError: The corpora contain no pairs.
    """
    texts = sample_texts(corpora)
    if not texts:
        raise ValueError(f"{' '.join(names)} holds no pairs")
    return texts


def prepare_training(
    plan: CorpusPlan,
    corpora: tuple[list[Corpus], list[Corpus]],
    *,
    tokenizer: PreTrainedTokenizerBase,
    output: Path,
    limit: int,
) -> tuple[TrainingData, EncodedPairs]:
    """Clean and tokenise training and validation pairs, or read them from the cache.

    Args:
        plan: Cleaning rules for training pairs; of validation pairs only those too long for
            the model are left out.
        corpora: What `open_training_corpora` returned.
        tokenizer: The tokenizer of the model.
        output: Folder of the run.
        limit: Longest side in tokens that the model supports.
    """
    warn_of_bytes_in_pairs(tokenizer, corpora[0])
    cleaning = _within(plan.cleaning, limit)
    training = TrainingData.prepare(
        corpora[0], tokenizer, cleaning=cleaning, options=plan.epochs, passes=output / PASSES
    )
    name = f"validation ({' '.join(plan.valid)})"
    plain = Cleaning(max_length=cleaning.max_length)
    valid = prepare_pairs(corpora[1], tokenizer, cleaning=plain, name=name)
    warn_of_overlap(training.pairs, valid)
    return training, valid


def _within(cleaning: Cleaning, limit: int) -> Cleaning:
    """Return the rules for a model with at most `limit` tokens a side."""
    return replace(cleaning, max_length=min(cleaning.max_length, limit))


def preview_cleaning(run: RunArguments, data: DataArguments) -> Iterator[Dropped | str]:
    """Yield the training pairs that a run would leave out, then the counts; write nothing."""
    plan, model = plan_corpora(run, data), plan_model(run)
    corpora, _ = open_training_corpora(plan)
    tokenizer = new_tokenizer(model, lambda: training_texts(corpora, names=plan.train))
    cleaner = Cleaner(_within(plan.cleaning, model.max_length()))
    yield from find_dropped(corpora, tokenizer, cleaner=cleaner)
    yield cleaner.describe()
