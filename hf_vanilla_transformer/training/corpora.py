"""Open the corpora of a run, and turn them into what the loop reads."""

from collections.abc import Iterator
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from hf_vanilla_transformer.data.cleaning import Cleaner
from hf_vanilla_transformer.data.corpus import Corpus, open_corpora, sample_texts
from hf_vanilla_transformer.data.encoding import Dropped, EncodedPairs, find_dropped
from hf_vanilla_transformer.data.epochs import TrainingData, check_corpus_weights, warn_of_overlap
from hf_vanilla_transformer.data.token_cache import prepare_pairs
from hf_vanilla_transformer.tokenization.byte_share import warn_of_bytes_in_pairs
from hf_vanilla_transformer.training.arguments import DataArguments, RunArguments
from hf_vanilla_transformer.training.setup import find_limit, new_tokenizer

PASSES = "passes"


def open_training_corpora(
    run: RunArguments, data: DataArguments
) -> tuple[list[Corpus], list[Corpus]]:
    """Return the corpora for training and for validation, unread.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A name is none of a corpus, a validation corpus is empty, or there are more or
            fewer weights than corpora.
    """
    languages = {"source_language": run.source_lang, "target_language": run.target_lang}
    training = open_corpora(run.train, **languages)
    check_corpus_weights(data.weights, training)
    return training, open_corpora(run.valid, **languages)


def training_texts(run: RunArguments, corpora: list[Corpus]) -> list[str]:
    """Return texts to train a tokenizer on, by turns of the source and the target.

    Raises:
        ValueError: There are none.
    """
    texts = sample_texts(corpora)
    if not texts:
        raise ValueError(f"{' '.join(run.train)} holds no pairs")
    return texts


def prepare_training(
    corpora: tuple[list[Corpus], list[Corpus]],
    tokenizer: PreTrainedTokenizerBase,
    run: RunArguments,
    data: DataArguments,
    *,
    limit: int,
    seed: int,
) -> tuple[TrainingData, EncodedPairs]:
    """Clean and tokenise, or take from the cache: training pairs by pass, and validation pairs.

    Args:
        corpora: What `open_training_corpora` returned.
        tokenizer: The tokenizer of the model.
        run: Names of the validation corpora, and the folder of the run.
        data: Rules for training pairs; validation pairs only lose what the model cannot take.
        limit: Longest side in tokens that the model takes.
        seed: Seed of the run.
    """
    warn_of_bytes_in_pairs(tokenizer, corpora[0])
    training = TrainingData.prepare(
        corpora[0],
        tokenizer,
        data.cleaning(limit),
        data.passes(seed),
        passes=Path(run.output) / PASSES,
    )
    plain = DataArguments(max_length=data.max_length).cleaning(limit)
    name = f"validation ({' '.join(run.valid)})"
    valid = prepare_pairs(corpora[1], tokenizer, plain, name=name)
    warn_of_overlap(training.pairs, valid)
    return training, valid


def preview_cleaning(run: RunArguments, data: DataArguments) -> Iterator[Dropped | str]:
    """Yield the training pairs that a run would leave out, then the counts; write nothing."""
    corpora, _ = open_training_corpora(run, data)
    tokenizer = new_tokenizer(run, lambda: training_texts(run, corpora))
    cleaner = Cleaner(data.cleaning(find_limit(run)))
    yield from find_dropped(corpora, tokenizer, cleaner)
    yield cleaner.describe()
