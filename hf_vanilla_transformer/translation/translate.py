"""Translate many sentences, in batches of similar length."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from accelerate import Accelerator
from accelerate.utils import gather_object
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import ModelOutput

from hf_vanilla_transformer.data.collate import collate_sources, pad_rows
from hf_vanilla_transformer.model.batches import BATCH_TOKENS, longest_first, on_all_cores
from hf_vanilla_transformer.model.lengths import GnmtLengthPenalty
from hf_vanilla_transformer.model.vocabulary import suppress_rows_without_token
from hf_vanilla_transformer.translation.forced_decoding import token_log_probs
from hf_vanilla_transformer.translation.inference import check_texts, encode_within_limit, inference
from hf_vanilla_transformer.translation.journal import Journal

Found = TypeVar("Found")
# What `generate` returns is settled here, whatever the model's own settings say.
RESULT_SETTINGS = {"num_return_sequences", "return_dict_in_generate"}


@dataclass(frozen=True)
class Hypothesis:
    """A translation, and the score that ranks it.

    The score is the log-probability divided by the length penalty, higher is better.
    """

    text: str
    score: float


class Sentences:
    """Sentences to translate, cut into batches that depend on the sentences alone.

    Args:
        model: Any sequence-to-sequence model.
        tokenizer: Its tokenizer.
        sentences: Source text; blank sentences are in no batch.
        prefixes: What each translation begins with, if that is given, spaces at its end aside; a
            blank one leaves it free.
        lines: Number of each sentence in the user's text; None counts from 1.
        batch_tokens: Budget of a batch, in source tokens times beams, padding included.
        generation: Arguments of `model.generate`.

    Raises:
        TypeError: A sentence or a prefix is not text.
        ValueError: The counts of sentences and prefixes differ, or the search cannot be as asked.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        sentences: Sequence[str],
        prefixes: Sequence[str] | None = None,
        lines: Sequence[int] | None = None,
        batch_tokens: int = BATCH_TOKENS,
        generation: dict[str, object],
    ) -> None:
        check_texts("sentence", sentences)
        if unusable := RESULT_SETTINGS & generation.keys():
            raise ValueError(
                f"{min(unusable)} does not go here: each sentence has one translation, a text; "
                "translate_n_best finds several"
            )
        given = (generation.get("num_beams"), model.generation_config.num_beams, 1)
        beams = next(number for number in given if number is not None)
        if not isinstance(beams, int) or beams < 1:
            raise ValueError(f"num_beams={beams!r} is not a whole number of at least 1")
        suppress_rows_without_token(model, tokenizer)
        self.model, self._tokenizer, self._generation = model, tokenizer, generation
        self._count = len(sentences)
        filled = [index for index, sentence in enumerate(sentences) if sentence.strip()]
        numbers = [lines[index] if lines else index + 1 for index in filled]
        ids = encode_within_limit(
            [sentences[i] for i in filled], model, tokenizer=tokenizer, lines=numbers
        )
        self._sources = dict(zip(filled, ids, strict=True))
        prefix_ids = self._prefix_ids(prefixes, filled, lines=numbers)
        self._prefixes = dict(zip(filled, prefix_ids, strict=True))
        self.batches = self._cut(max(1, batch_tokens // beams))
        """Indices of sentences, longest first, whose prefixes have equally many tokens."""

    def __len__(self) -> int:
        """Return how many sentences there are, blank ones included."""
        return self._count

    def translate(self, batch: np.ndarray) -> list[str]:
        """Return the best translation of every sentence of a batch."""
        return self._texts(self._search(batch, return_dict_in_generate=False))

    def translate_n_best(self, batch: np.ndarray, count: int) -> list[list[Hypothesis]]:
        """Return the `count` best translations of every sentence of a batch."""
        wanted = {"return_dict_in_generate": True, "output_scores": False}
        output = self._search(batch, num_return_sequences=count, **wanted)
        ranks = getattr(output, "sequences_scores", None)
        if ranks is None:
            scores = self._scores(np.repeat(batch, count), output.sequences)
        else:
            scores = ranks.tolist()
        found = list(map(Hypothesis, self._texts(output.sequences), scores))
        return [found[start : start + count] for start in range(0, len(found), count)]

    def results(
        self, batches: Sequence[np.ndarray], search: Callable[[np.ndarray], Sequence[Found]]
    ) -> Iterator[dict[int, Found]]:
        """Yield the results of each batch with the indices of their sentences."""
        found = on_all_cores(search, batches, device=self.model.device)
        for batch, results in zip(batches, found, strict=True):
            yield dict(zip(batch.tolist(), results, strict=True))

    def _search(self, batch: np.ndarray, **result: object) -> Tensor | ModelOutput:
        """Return ids of translations [B * n, T], the start token first, or an output with them."""
        inputs = collate_sources([self._sources[i] for i in batch], self.model.config.pad_token_id)
        if self._prefixes[batch[0]]:
            start = self.model.config.decoder_start_token_id
            inputs["decoder_input_ids"] = pad_rows([[start, *self._prefixes[i]] for i in batch], 0)
        inputs = {name: tensor.to(self.model.device) for name, tensor in inputs.items()}
        result = {"num_return_sequences": 1, **result}
        return self.model.generate(**inputs, **self._generation, **result)

    def _prefix_ids(
        self, prefixes: Sequence[str] | None, filled: list[int], *, lines: list[int]
    ) -> list[list[int]]:
        """Return the ids of the prefix of every sentence that is not blank."""
        if prefixes is None:
            return [[] for _ in filled]
        check_texts("prefix", prefixes)
        if len(prefixes) != len(self):
            raise ValueError(
                f"{len(self)} sentences and {len(prefixes)} prefixes; give one for each"
            )
        # The space before the next word is that word's.
        texts = [prefixes[index].rstrip() for index in filled]
        ids = encode_within_limit(
            texts, self.model, tokenizer=self._tokenizer, is_target=True, lines=lines
        )
        end = self._tokenizer.eos_token_id
        rows = [row[:-1] if row[-1:] == [end] else row for row in ids]
        return [row if text.strip() else [] for text, row in zip(texts, rows, strict=True)]

    def _cut(self, budget: int) -> list[np.ndarray]:
        by_prefix: dict[int, list[int]] = {}
        for index in self._sources:
            by_prefix.setdefault(len(self._prefixes[index]), []).append(index)
        return [
            np.array(group)[rows]
            for _, group in sorted(by_prefix.items(), reverse=True)
            for rows in longest_first([len(self._sources[index]) for index in group], budget)
        ]

    def _texts(self, sequences: Tensor) -> list[str]:
        return self._tokenizer.batch_decode(sequences, skip_special_tokens=True)

    def _scores(self, indices: np.ndarray, sequences: Tensor) -> list[float]:
        """Return what ranked the hypotheses in the search.

        The library's loop gives it only to those who hold the logits of every step.
        """
        sources = [self._sources[index] for index in indices]
        targets = [self._generated(row) for row in sequences.tolist()]
        pad = self.model.config.pad_token_id
        scores = []
        rows = token_log_probs(self.model, sources, targets, pad_token_id=pad)
        for index, log_probs in zip(indices, rows, strict=True):
            chosen = log_probs[len(self._prefixes[index]) :]
            scores.append(sum(chosen) / self._length_penalty(len(chosen)))
        return scores

    def _generated(self, row: list[int]) -> list[int]:
        """Return the ids between the start token and the padding."""
        ids = row[1:]
        end, pad = self._tokenizer.eos_token_id, self.model.config.pad_token_id
        if end in ids:
            return ids[: ids.index(end) + 1]
        while ids and ids[-1] == pad:
            ids.pop()
        return ids

    def _length_penalty(self, tokens: int) -> float:
        """Return what the search divides the log-probability of a translation by."""
        settings = {**vars(self.model.generation_config), **self._generation}
        alpha, exponent = settings.get("gnmt_alpha"), settings.get("length_penalty")
        if alpha is not None and "length_penalty" not in self._generation:
            return tokens ** GnmtLengthPenalty(alpha)
        return tokens ** (1.0 if exponent is None else exponent)


def translate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    *,
    prefixes: Sequence[str] | None = None,
    batch_tokens: int = BATCH_TOKENS,
    lines: Sequence[int] | None = None,
    **generation: object,
) -> list[str]:
    """Translate sentences in batches of similar length; return them in the order given.

    Blank sentences have blank translations and do not reach the model. A sentence that is longer
    than the model's limit is cut there; one warning counts these sentences.

    Args:
        model: Any sequence-to-sequence model.
        tokenizer: Its tokenizer.
        sentences: Source text, one sentence each.
        prefixes: What each translation begins with, if that is given, spaces at its end aside; a
            blank one leaves it free.
        batch_tokens: Budget of a batch, in source tokens times beams, padding included.
        lines: Number of each sentence in the user's text, for the warning; None counts from 1.
        **generation: Arguments of `model.generate`; left out: the model's generation settings.

    Raises:
        TypeError: A sentence or a prefix is not text; the message names its index.
        ValueError: The counts of sentences and prefixes differ, or the search cannot be as asked.
    """
    work = Sentences(
        model,
        tokenizer,
        sentences=sentences,
        prefixes=prefixes,
        batch_tokens=batch_tokens,
        lines=lines,
        generation=generation,
    )
    with inference(model):
        return in_order(work.results(work.batches, work.translate), len(sentences), blank="")


def translate_n_best(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[str],
    *,
    count: int,
    prefixes: Sequence[str] | None = None,
    batch_tokens: int = BATCH_TOKENS,
    lines: Sequence[int] | None = None,
    **generation: object,
) -> list[list[Hypothesis]]:
    """Return the `count` best translations of every sentence, the best first.

    Arguments are those of `translate`. A blank sentence has blank ones, of score 0.

    Raises:
        TypeError: As `translate`.
        ValueError: As `translate`; or the beam is too narrow.
    """
    beams = generation.get("num_beams")
    if beams is not None and beams < count:
        raise ValueError(f"{count} translations of each sentence need as many beams, not {beams}")
    generation["num_beams"] = beams or max(count, model.generation_config.num_beams or 1)
    work = Sentences(
        model,
        tokenizer,
        sentences=sentences,
        prefixes=prefixes,
        batch_tokens=batch_tokens,
        lines=lines,
        generation=generation,
    )
    search = partial(work.translate_n_best, count=count)
    blank = [Hypothesis("", 0.0)] * count
    with inference(model):
        return in_order(work.results(work.batches, search), len(sentences), blank=blank)


def translate_shared(
    sentences: Sentences, accelerator: Accelerator, *, journal: Journal | None = None
) -> list[str]:
    """Translate each sentence once, batches split among the processes; all return all results.

    Args:
        sentences: Sentences to translate.
        accelerator: Its processes share the work.
        journal: Saves finished translations, to continue after an interrupt.
    """
    done = dict(journal.found) if journal else {}
    mine = sentences.batches[accelerator.process_index :: accelerator.num_processes]
    left = [batch for batch in mine if not done.keys() >= set(batch.tolist())]
    with inference(sentences.model):
        for new in sentences.results(left, sentences.translate):
            if journal:
                journal.add(new)
            done |= new
    return in_order([dict(gather_object(list(done.items())))], len(sentences), blank="")


def in_order(results: Iterable[dict[int, Found]], count: int, *, blank: Found) -> list[Found]:
    """Return the results in the order of the sentences, `blank` for blank sentences."""
    found: dict[int, Found] = {}
    for one in results:
        found |= one
    return [found.get(index, blank) for index in range(count)]
