"""The tokenizer class that travels with a checkpoint."""

import copy
from itertools import groupby
from os import PathLike
from pathlib import Path

from transformers import AddedToken, BatchEncoding, PreTrainedTokenizerFast

from .guard_config import check_tokenizer_settings
from .guard_generation import check_search_settings  # noqa: F401
from .guard_rules import read_object, refusals

TARGET_FILE = "target_tokenizer.json"
# In tokenizer_config.json: without the target's file, such a folder is not whole.
SEPARATE = "separate_vocabularies"

ROLES = ("pad_token", "unk_token", "bos_token", "eos_token")

Text = str | list[str] | list[list[str]]


class VanillaTransformerTokenizer(PreTrainedTokenizerFast):
    """A fast tokenizer that never reads typed text as padding, a start or an end.

    The segmentation is in `tokenizer.json`; this class adds features that the file cannot express:
    the strings of its own special tokens ("</s>", "<pad>") are ordinary text, added special
    tokens (language tags) are recognised in text, no token types are
    returned, and a saved folder carries this file, so that every supported version of
    transformers can load it, with `hf_vanilla_transformer` installed or with
    `trust_remote_code=True`.

    The target may have a vocabulary of its own, saved as `target_tokenizer.json`. Then
    `text_target=` is encoded with it, `decode` and `batch_decode` read ids of the target, unless
    `use_source_tokenizer=True`, and all other methods (`len`, `encode`, `tokenize`, `get_vocab`,
    `convert_ids_to_tokens`...) belong to the source; `target` is the tokenizer of the target. There
    is no mode: every call names its side.

    The class must not define `__init__`: transformers 5 would then rebuild the tokenizer from
    vocabulary and merges, without its normalizer and decoder, instead of reading the file.

    Attributes:
        target_backend: The target's `tokenizers.Tokenizer`; None where both sides share one.
    """

    vocab_files_names = {
        **PreTrainedTokenizerFast.vocab_files_names,
        "target_tokenizer_file": TARGET_FILE,
    }
    model_input_names = ["input_ids", "attention_mask"]
    padding_side = "right"
    target_backend = None
    _auto_class = "AutoTokenizer"

    @property
    def target(self) -> "VanillaTransformerTokenizer":
        """The target's side as a tokenizer of one vocabulary; itself where both share one.

        It has the settings that this one has at that moment; change them here, not there.
        """
        if self.target_backend is None:
            return self
        side = copy.copy(self)
        side._tokenizer, side.target_backend = self.target_backend, None
        return side

    @property
    def split_special_tokens(self) -> bool:
        """Always true: text that looks like a special token is split like any other text."""
        return True

    @split_special_tokens.setter
    def split_special_tokens(self, value: bool) -> None:
        """Accept the library's assignment, which has no effect."""

    def __call__(
        self,
        text: Text | None = None,
        text_pair: Text | None = None,
        text_target: Text | None = None,
        text_pair_target: Text | None = None,
        *args: object,
        **kwargs: object,
    ) -> BatchEncoding:
        """Encode `text` as source and `text_target` as target, then called `labels`."""
        if text_target is None or self.target_backend is None:
            return super().__call__(text, text_pair, text_target, text_pair_target, *args, **kwargs)
        target = self.target(None, None, text_target, text_pair_target, *args, **kwargs)
        if text is None:
            return target
        source = super().__call__(text, text_pair, None, None, *args, **kwargs)
        source["labels"] = target["input_ids"]
        return source

    def _switch_to_target_mode(self) -> None:
        """Refuse the mode of transformers 4 in which every text would be the target's."""
        if self.target_backend is not None:
            raise ValueError(
                "as_target_tokenizer() would encode with the source's vocabulary; "
                "pass text_target=... instead"
            )

    def _batch_encode_plus(self, *args: object, **kwargs: object) -> BatchEncoding:
        """Encode as `__call__` does in transformers 4's `batch_encode_plus`, too."""
        kwargs["split_special_tokens"] = True
        return super()._batch_encode_plus(*args, **kwargs)

    def _decode(
        self,
        token_ids: int | list[int],
        skip_special_tokens: bool = False,
        *args: object,
        use_source_tokenizer: bool = False,
        **kwargs: object,
    ) -> str:
        if not use_source_tokenizer and self.target_backend is not None:
            return self.target._decode(token_ids, skip_special_tokens, *args, **kwargs)
        ids = [token_ids] if isinstance(token_ids, int) else token_ids
        if skip_special_tokens:  # tokens that were added are special here, not to the backend
            skipped = set(self.all_special_ids)
            ids = [index for index in ids if index not in skipped]
        ids = self._with_whole_characters(ids)
        return super()._decode(ids, skip_special_tokens, *args, **kwargs)

    def _with_whole_characters(self, ids: list[int]) -> list[int]:
        """Return ids whose bytes are valid UTF-8, with U+FFFD for incomplete characters.

        The backend replaces every byte of a run by U+FFFD if one byte is wrong: text that ends
        within a character would lose the characters before it.
        """
        first, last = map(self._tokenizer.token_to_id, ("<0x00>", "<0xFF>"))
        if first is None or last != first + 255:
            return ids
        whole: list[int] = []
        for is_byte, run in groupby(ids, lambda index: first <= index <= last):
            if is_byte:
                text = bytes(index - first for index in run).decode("utf-8", "replace")
                whole += [first + byte for byte in text.encode()]
            else:
                whole += run
        return whole

    def _add_tokens(self, new_tokens: list[str | AddedToken], special_tokens: bool = False) -> int:
        """Add tokens; those without a role are recognised in text, special or not."""
        roles = {getattr(self, role) for role in ROLES}
        known = {token.content for token in self.added_tokens_decoder.values() if token.special}
        new_tokens = [token for token in new_tokens if str(token) not in known]
        others = [token for token in new_tokens if str(token) not in roles]
        size = len(self)
        super()._add_tokens([token for token in new_tokens if str(token) in roles], True)
        super()._add_tokens([self._found_in_text(token) for token in others])
        special = [token for token in others if special_tokens or getattr(token, "special", False)]
        listed = self.all_special_tokens
        if unlisted := [str(token) for token in special if str(token) not in listed]:
            self.add_special_tokens({"additional_special_tokens": unlisted}, False)
        return len(self) - size

    def _found_in_text(self, token: str | AddedToken) -> AddedToken:
        """Return a token that the backend recognises in text; it ignores special ones.

        The token is matched in normalised text if normalisation does not change it: if text is
        split before it is normalised, the text after the token counts as the start of a line.
        """
        normalizer, content = self.backend_tokenizer.normalizer, str(token)
        normalized = normalizer is not None and normalizer.normalize_str(content) == content
        flags = {} if isinstance(token, str) else token.__getstate__()
        return AddedToken(
            **{**flags, "content": content, "special": False, "normalized": normalized}
        )

    def _set_model_specific_special_tokens(
        self, special_tokens: dict[str, str | AddedToken] | list[str | AddedToken]
    ) -> None:
        """Accept the list of transformers 5 as well as the dictionary of version 4."""
        if isinstance(special_tokens, dict):
            super()._set_model_specific_special_tokens(special_tokens)
            return
        self.extra_special_tokens = {}
        self.additional_special_tokens = list(special_tokens)

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: str | PathLike[str], *args: object, **kwargs: object
    ) -> "VanillaTransformerTokenizer":
        """Load a tokenizer as the library does.

        Raises:
            ValueError: A file does not hold what it should.
            OSError: There is no such folder or repository, or a file is missing.
        """
        name = pretrained_model_name_or_path
        with refusals(f"the tokenizer of {name}"):
            return super().from_pretrained(name, *args, **kwargs)

    @classmethod
    def _from_pretrained(
        cls,
        files: dict[str, str | None],
        name: str | PathLike[str],
        *args: object,
        **kwargs: object,
    ) -> "VanillaTransformerTokenizer":
        for key in ("tokenizer_config_file", "special_tokens_map_file"):
            if settings := files.get(key):
                check_tokenizer_settings(cls, read_object(settings))
        for file in files.values():  # only now: settings may have named any file
            if str(file).endswith(".json"):
                read_object(file)
        target_file = files.pop("target_tokenizer_file", None)
        tokenizer = super()._from_pretrained(files, name, *args, **kwargs)
        if tokenizer.init_kwargs.get(SEPARATE):
            if target_file is None:
                raise ValueError(
                    f"{name} lacks {TARGET_FILE}, the target's vocabulary; copy it too"
                )
            tokenizer.target_backend = type(tokenizer.backend_tokenizer).from_file(target_file)
        return tokenizer

    def save_pretrained(
        self, save_directory: str | PathLike[str], *args: object, **kwargs: object
    ) -> tuple[str, ...]:
        """Save the tokenizer and this file, free of the last call's truncation and padding."""
        self.init_kwargs.pop(SEPARATE, None)
        if self.target_backend is not None:
            self.init_kwargs[SEPARATE] = True
        for backend in {self.backend_tokenizer, self.target.backend_tokenizer}:
            backend.no_truncation()
            backend.no_padding()
        return super().save_pretrained(save_directory, *args, **kwargs)

    def _save_pretrained(
        self,
        save_directory: str | PathLike[str],
        file_names: tuple[str, ...],
        legacy_format: bool | None = None,
        filename_prefix: str | None = None,
    ) -> tuple[str, ...]:
        prefix = f"{filename_prefix}-" if filename_prefix else ""
        saved = super()._save_pretrained(save_directory, file_names, legacy_format, filename_prefix)
        if self.target_backend is None:
            return saved
        target_file = str(Path(save_directory) / (prefix + TARGET_FILE))
        self.target_backend.save(target_file)
        return (*saved, target_file)
