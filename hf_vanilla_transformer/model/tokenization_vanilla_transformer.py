"""The tokenizer class that travels with a checkpoint."""

from os import PathLike

from transformers import BatchEncoding, PreTrainedTokenizerFast


class VanillaTransformerTokenizer(PreTrainedTokenizerFast):
    """A fast tokenizer in which nothing that a user types is control.

    All of the segmentation is in `tokenizer.json`; this class adds what that file cannot say:
    the strings of special tokens ("</s>", "<pad>") are ordinary text, no token types are
    returned, and a saved folder carries this file, so that every supported version of
    transformers can load it, with `hf_vanilla_transformer` installed or with
    `trust_remote_code=True`.

    Source and target share one vocabulary, so `text_target=` needs no mode of its own. A second
    vocabulary would be chosen in `_switch_to_input_mode` and `_switch_to_target_mode`, which the
    library calls around `text_target=`.

    The class must not define `__init__`: transformers 5 would then rebuild the tokenizer from
    vocabulary and merges, without its normalizer and decoder, instead of reading the file.
    """

    model_input_names = ["input_ids", "attention_mask"]
    padding_side = "right"
    _auto_class = "AutoTokenizer"

    @property
    def split_special_tokens(self) -> bool:
        """Always true: text that looks like a special token is split like any other text."""
        return True

    @split_special_tokens.setter
    def split_special_tokens(self, value: bool) -> None:
        """Accept the library's assignment, which has no effect."""

    def _batch_encode_plus(self, *args: object, **kwargs: object) -> BatchEncoding:
        """Encode as `__call__` does in transformers 4's `batch_encode_plus`, too."""
        kwargs["split_special_tokens"] = True
        return super()._batch_encode_plus(*args, **kwargs)

    def save_pretrained(
        self, save_directory: str | PathLike[str], *args: object, **kwargs: object
    ) -> tuple[str, ...]:
        """Save the tokenizer and this file, free of the last call's truncation and padding."""
        self.backend_tokenizer.no_truncation()
        self.backend_tokenizer.no_padding()
        return super().save_pretrained(save_directory, *args, **kwargs)
