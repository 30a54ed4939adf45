"""Text in, translation out: the `translation` task for every encoder-decoder model."""

import inspect
import logging
import re
import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from operator import or_
from os import PathLike

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset
from transformers import BatchEncoding, GenerationConfig, Pipeline

from .batches import BATCH_TOKENS, batch_settings, in_batches, without_padding
from .vocabulary import suppress_rows_without_token

logger = logging.getLogger(__name__)

# What the base class takes at creation; all other arguments are ours or the model's.
_BASE_ARGUMENTS = {
    *inspect.signature(Pipeline.__init__).parameters,
    *("args_parser", "batch_size", "dtype", "num_workers", "torch_dtype"),
}

# A fast tokenizer is told to cut, or not, by a setting that all threads share.
_ENCODING = threading.Lock()

Translation = dict[str, str | Tensor]


class TranslationPipeline(Pipeline):
    """Translate text with an encoder-decoder model.

    Serves the tasks `translation` and `translation_xx_to_yy`. A string gives a list of one result
    (of n with `num_return_sequences=n`). A list gives one result per text, in order, or n results
    per text as nested lists. A generator or a dataset gives an iterator over lists of results. A
    result is `{"translation_text": str}`, or `{"translation_token_ids": Tensor}` with
    `return_tensors=True`. Blank text gives a blank translation without a call of the model. Without
    a `batch_size`, a list goes through our models in batches of texts of similar length.

    Beyond the arguments of `Pipeline` (`batch_size`, `device`...), creation and call take

    - truncation: True (default) cuts text that is longer than the model's limit, with one warning
      for each pipeline; False refuses it.
    - return_tensors: whether token ids are returned instead of text. `return_text` is taken, and
      changes nothing, as in transformers 4.
    - clean_up_tokenization_spaces: whether spaces before punctuation are removed.
    - src_lang, tgt_lang: the languages, in the tokenizer's codes; multilingual models need them.
    - every generation argument of the model: `num_beams`, `max_new_tokens`, a whole
      `generation_config`... Omitted ones have the values of the model's `generation_config`.

    Raises:
        TypeError: An argument is unknown, or an input is not text.
        ValueError: The model has no encoder and decoder, there is no tokenizer, the languages asked
            for are not the model's, or (`truncation=False`) a text is too long.
    """

    _load_tokenizer = True
    _load_processor = False
    _load_image_processor = False
    _load_video_processor = False
    _load_feature_extractor = False

    def __init__(self, *args: object, task: str = "translation", **kwargs: object) -> None:
        kwargs.pop("local_files_only", None)  # `pipeline()` has obeyed it and passes it on.
        own = {name: kwargs.pop(name) for name in kwargs.keys() - _BASE_ARGUMENTS}
        # Generation is settled here alone: the base class does it differently in each version.
        super().__init__(*args, **kwargs)
        self.task = task
        self.model.eval()  # One that comes from a training loop would drop out.
        self._has_reported_truncation = False
        if not self.model.config.is_encoder_decoder:
            raise ValueError(f"{type(self.model).__name__} has no encoder to read a source with")
        if self.tokenizer is None:
            raise ValueError("translation needs a tokenizer: pass tokenizer=...")
        suppress_rows_without_token(self.model, self.tokenizer)
        parameters = self._sanitize_parameters(**{**self._task_settings(own), **own})
        self._preprocess_params, self._forward_params, self._postprocess_params = parameters

    def __call__(
        self, inputs: str | Iterable[str], **kwargs: object
    ) -> list[Translation] | list[list[Translation]] | Iterator[list[Translation]]:
        """Translate one text, a list of texts, or a stream of texts; see the class."""
        if isinstance(inputs, str):
            return super().__call__(checked(inputs, 0), **kwargs)
        if isinstance(inputs, (Iterator, IterableDataset)):
            return super().__call__(TextStream(inputs), **kwargs)
        if isinstance(inputs, Dataset):
            return super().__call__(TextDataset(inputs), **kwargs)
        if not isinstance(inputs, Sequence) or isinstance(inputs, (bytes, bytearray)):
            kind = type(inputs).__name__
            raise TypeError(f"input is {inputs!r} ({kind}), not text nor a list or stream of it")
        results = self._translate_list(list(each_checked(inputs)), **kwargs)
        is_flat = all(len(result) == 1 for result in results)
        return [result[0] for result in results] if is_flat else results

    def _translate_list(
        self, texts: list[str], batch_size: int | None = None, **kwargs: object
    ) -> list[list[Translation]]:
        """Return n results of each text, from batches of similar length where these are safe."""
        by_library = partial(super().__call__, texts, batch_size=batch_size, **kwargs)
        if not texts or batch_size is not None or self._batch_size is not None:
            return by_library() if texts else []
        kwargs.pop("num_workers", None)
        own = (self._preprocess_params, self._forward_params, self._postprocess_params)
        preprocess, generation, postprocess = map(or_, own, self._sanitize_parameters(**kwargs))
        settings = batch_settings(self.model, generation)
        if settings is None:
            return by_library()

        def translate(rows: dict[str, Tensor]) -> list[list[Translation]]:
            found = self.forward(rows, **generation)["sequences"]
            bare = (without_padding(sequences, settings.pad_token_id) for sequences in found)
            return [self.postprocess({"sequences": [rows]}, **postprocess) for rows in bare]

        return in_batches(
            texts,
            partial(self.preprocess, **preprocess),
            translate=translate,
            batch_tokens=BATCH_TOKENS // (settings.num_beams or 1),
            pad_token_id=settings.pad_token_id,
            device=self.model.device,
        )

    def save_pretrained(self, save_directory: str | PathLike[str], **kwargs: object) -> None:
        """Save model and tokenizer; what a folder needs as a pipeline is the model's to write."""
        self.model.save_pretrained(save_directory, **kwargs)
        self.tokenizer.save_pretrained(save_directory)

    def _task_settings(self, own: dict[str, object]) -> dict[str, object]:
        """Return languages from the task's name and settings from the model's entry for the task.

        Models that know a task by its prefix (T5) have an entry in `task_specific_params` for each.
        """
        languages = {**_languages(self.task), **_only(own, ("src_lang", "tgt_lang"))}
        if not languages:
            task = next((name for name in self._task_entries() if _languages(name)), "")
            languages = _languages(task)
            if task:
                logger.warning("no languages given: using %s, the model's first task", task)
        entry = self._task_entry(languages.get("src_lang"), languages.get("tgt_lang"))
        return {**languages, **_only(entry, self._generation_arguments())}

    def _task_entries(self) -> dict[str, dict[str, object]]:
        return getattr(self.model.config, "task_specific_params", None) or {}

    def _task_entry(self, src_lang: object, tgt_lang: object) -> dict[str, object]:
        return self._task_entries().get(f"translation_{src_lang}_to_{tgt_lang}", {})

    def _generation_arguments(self) -> set[str]:
        """Return the names that the model's `generate` takes, among them settings of its own."""
        settings = vars(GenerationConfig()).keys() | vars(self.model.generation_config).keys()
        signature = inspect.signature(self.model.generate).parameters.keys() - {"inputs", "kwargs"}
        names = settings | signature | {"decoder_input_ids", "decoder_attention_mask"}
        return {name for name in names if not name.startswith("_")}

    def _sanitize_parameters(
        self,
        truncation: bool | str | None = None,
        return_tensors: bool | None = None,
        return_text: bool | None = None,
        clean_up_tokenization_spaces: bool | None = None,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
        **generation: object,
    ) -> tuple[dict[str, object], dict[str, object], dict[str, object]]:
        """Sort arguments by step: `preprocess`, `_forward` and `postprocess`."""
        if generation:
            self._check_names(generation)
        preprocess: dict[str, object] = {}
        if truncation is not None:
            preprocess["truncation"] = cuts_long_text(truncation)
        if src_lang is not None or tgt_lang is not None:
            src_lang = src_lang or self._preprocess_params.get("src_lang")
            tgt_lang = tgt_lang or self._preprocess_params.get("tgt_lang")
            self._check_languages(src_lang, tgt_lang)
            preprocess |= {"src_lang": src_lang, "tgt_lang": tgt_lang}
            generation = {**self._first_token(src_lang, tgt_lang), **generation}
        given = {
            "return_tensors": return_tensors,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        postprocess = {name: value for name, value in given.items() if value is not None}
        return preprocess, generation, postprocess

    def _check_names(self, generation: dict[str, object]) -> None:
        # Those of `generate` itself are looked up where they matter: that takes a while.
        unknown = generation.keys() - vars(self.model.generation_config).keys()
        unknown = sorted(unknown and unknown - self._generation_arguments())
        if unknown:
            raise TypeError(
                f"unknown argument {unknown[0]!r}: neither TranslationPipeline nor "
                f"{type(self.model).__name__}.generate takes it"
            )

    def _check_languages(self, src_lang: str | None, tgt_lang: str | None) -> None:
        """Refuse languages that a model which names its own does not translate."""
        source = getattr(self.model.config, "source_language", None)
        target = getattr(self.model.config, "target_language", None)
        asked = (src_lang or source, tgt_lang or target)
        has = (source or asked[0], target or asked[1])
        if asked != has:
            raise ValueError(
                f"asked for {asked[0]} to {asked[1]}, but the model translates "
                f"{has[0]} to {has[1]} (source_language and target_language of its config)"
            )

    def _first_token(self, src_lang: str | None, tgt_lang: str | None) -> dict[str, int]:
        """Return the first target token that tells a multilingual model its target language."""
        if not hasattr(self.tokenizer, "_build_translation_inputs"):
            return {}
        unknown = self.tokenizer.unk_token_id
        try:
            first = self._encode("", src_lang, tgt_lang)["forced_bos_token_id"]
        except KeyError:
            first = unknown
        if first == unknown:
            raise ValueError(f"{src_lang!r} or {tgt_lang!r} is no language code of the tokenizer")
        return {"forced_bos_token_id": first}

    def _encode(
        self, text: str, src_lang: str | None, tgt_lang: str | None, **options: int
    ) -> BatchEncoding:
        """Tokenize one text: `input_ids` and `attention_mask` are [1, S]."""
        # Not verbose: the length is checked here, with a message of our own.
        options |= {"return_tensors": "pt", "return_attention_mask": True, "verbose": False}
        if build := getattr(self.tokenizer, "_build_translation_inputs", None):
            return build(text, src_lang=src_lang, tgt_lang=tgt_lang, **options)
        return self.tokenizer(text, **options)

    def preprocess(
        self,
        text: str,
        truncation: bool = True,
        src_lang: str | None = None,
        tgt_lang: str | None = None,
    ) -> dict[str, Tensor]:
        """Tokenize one text to `input_ids` and `attention_mask` [1, S]; blank text has mask 0."""
        if not text.strip():
            padding = self.tokenizer.pad_token_id or 0
            return {"input_ids": torch.tensor([[padding]]), "attention_mask": torch.tensor([[0]])}
        prefix = self._task_entry(src_lang, tgt_lang).get("prefix")
        text = (prefix or getattr(self.model.config, "prefix", None) or "") + text
        with _ENCODING:
            encoding = self._encode(text, src_lang, tgt_lang)
            length, limit = encoding["input_ids"].shape[1], self._length_limit()
            if length > limit:
                self._report_too_long(text, length, limit=limit, truncation=truncation)
                cut = {"truncation": True, "max_length": limit}
                encoding = self._encode(text, src_lang, tgt_lang, **cut)
        return {name: encoding[name] for name in ("input_ids", "attention_mask")}

    def _length_limit(self) -> int:
        """Return the most source tokens that tokenizer and model allow."""
        positions = getattr(self.model.config, "max_position_embeddings", None)
        return min(self.tokenizer.model_max_length, positions or self.tokenizer.model_max_length)

    def _report_too_long(self, text: str, length: int, *, limit: int, truncation: bool) -> None:
        if not truncation:
            raise ValueError(
                f"input of {length} tokens is over the limit of {limit}: {text[:40]!r}...; "
                "split it, or let truncation=True cut it"
            )
        if not self._has_reported_truncation:
            self._has_reported_truncation = True
            logger.warning(
                f"input of {length} tokens is cut to the limit of {limit}, and so will be all that "
                "follow; truncation=False refuses them"
            )

    def _forward(
        self, model_inputs: dict[str, Tensor], **generation: object
    ) -> dict[str, list[Tensor]]:
        """Generate n sequences [n, T] for each row; blank rows have n of length 0."""
        has_text = model_inputs["attention_mask"].any(dim=1)  # [B]
        settings = generation.get("generation_config") or self.model.generation_config
        count = generation.get("num_return_sequences") or settings.num_return_sequences or 1
        generated = model_inputs["input_ids"].new_empty(0, count, 0)
        if has_text.any():
            rows = {name: tensor[has_text] for name, tensor in model_inputs.items()}
            output = self.model.generate(**rows, **generation)
            sequences = getattr(output, "sequences", output)  # [B * n, T]
            generated = sequences.unflatten(0, (int(has_text.sum()), -1))  # [B, n, T]
        remaining, blank = iter(generated), generated.new_empty(generated.shape[1], 0)
        return {"sequences": [next(remaining) if has else blank for has in has_text]}

    def postprocess(
        self,
        model_outputs: dict[str, Sequence[Tensor]],
        return_tensors: bool = False,
        *,
        clean_up_tokenization_spaces: bool = False,
    ) -> list[Translation]:
        """Turn the sequences [n, T] of one input into n results."""
        sequences = model_outputs["sequences"][0]
        if return_tensors:
            return [{"translation_token_ids": ids} for ids in sequences]
        options = {
            "skip_special_tokens": True,
            "clean_up_tokenization_spaces": clean_up_tokenization_spaces,
        }
        return [{"translation_text": self.tokenizer.decode(ids, **options)} for ids in sequences]


def _languages(task: str) -> dict[str, str]:
    """Return the languages that a task's name gives: none, or both."""
    match = re.fullmatch("translation_(?P<src_lang>[^_]+)_to_(?P<tgt_lang>[^_]+)", task)
    return match.groupdict() if match else {}


def _only(values: dict[str, object], names: Container[str]) -> dict[str, object]:
    return {name: value for name, value in values.items() if name in names}


# The library's names for both values of `truncation` are taken too.
_CUT, _REFUSE = (True, "longest_first", "only_first"), (False, "do_not_truncate")


class TextDataset(Dataset):
    """A dataset whose items are checked when read: each must be text."""

    def __init__(self, texts: Dataset) -> None:
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> str:
        return checked(self.texts[index], index)


class TextStream(IterableDataset):
    """Texts, read and checked one by one; early transformers 5 would make a list of a generator."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = texts

    def __iter__(self) -> Iterator[str]:
        return each_checked(self.texts)


def each_checked(texts: Iterable[str]) -> Iterator[str]:
    """Yield texts, each checked.

    Raises:
        TypeError: As `checked`.
        ValueError: As `checked`.
    """
    for index, text in enumerate(texts):
        yield checked(text, index)


def checked(text: object, index: int) -> str:
    """Return a text, checked.

    Raises:
        TypeError: The input is not text; the message names its index.
        ValueError: The text cannot be encoded; the message names its index.
    """
    if not isinstance(text, str):
        raise TypeError(f"input {index} is {text!r} ({type(text).__name__}), not text")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"input {index} is {text!r}: half of a surrogate pair is not text")
    return text


def cuts_long_text(truncation: bool | str) -> bool:
    """Return whether a text that is too long is cut; otherwise it is refused.

    Raises:
        ValueError: The value is unknown.
    """
    if truncation not in _CUT + _REFUSE:
        raise ValueError(f"truncation={truncation!r} is not one of {_CUT + _REFUSE}")
    return truncation in _CUT
