"""Rules of the generation settings in a folder: one for each setting.

The library checks few of them. The others would end in a traceback at loading or in the middle of
a search, or in a search without end.
"""

import reprlib
from os import PathLike

from transformers import GenerationConfig, PreTrainedModel
from transformers.utils import GENERATION_CONFIG_NAME, cached_file

from .guard_rules import (
    FLAG,
    REFUSED,
    TEXT,
    Rule,
    check_names,
    check_rules,
    either,
    is_whole,
    listed,
    named,
    number,
    one_of,
    read_object,
    whole,
)

MAX_TOKENS = 100_000
MAX_BEAMS = 1000
LARGE = 1e9

ID = Rule("an id", lambda value: is_whole(value) and value >= 0)
IDS = Rule("an id or a list of ids", lambda value: ID.holds(value) or _is_filled(value, ID))
PAIR = Rule(
    "a whole number and a number",
    lambda value: isinstance(value, list) and len(value) == 2 and ID.holds(value[0])
    and number(0, LARGE).holds(value[1]),
)  # fmt: skip
PHRASES = Rule(
    "a list of lists of ids", lambda value: _is_filled(value, Rule("", lambda x: _is_filled(x, ID)))
)

# Each names rows of the target's vocabulary.
ID_RULES = {
    **dict.fromkeys(
        ("bos_token_id", "pad_token_id", "decoder_start_token_id", "forced_bos_token_id"), ID
    ),
    **dict.fromkeys(("eos_token_id", "forced_eos_token_id"), IDS),
}
WATERMARK_RULES = {
    "greenlist_ratio": number(0, 1),
    "bias": number(-LARGE, LARGE),
    "hashing_key": whole(0, 2**31),
    "seeding_scheme": one_of("lefthash", "selfhash"),
    "context_width": whole(1, MAX_TOKENS),
}
SEARCH_RULES = {
    **ID_RULES,
    **dict.fromkeys(("suppress_tokens", "begin_suppress_tokens"), listed(ID)),
    "bad_words_ids": PHRASES,
    **dict.fromkeys(("max_length", "max_new_tokens"), whole(1, MAX_TOKENS)),
    **dict.fromkeys(("min_length", "min_new_tokens"), whole(0, MAX_TOKENS)),
    "extra_decode_length": whole(0, MAX_TOKENS),
    **dict.fromkeys(("num_beams", "num_return_sequences"), whole(1, MAX_BEAMS)),
    "num_beam_groups": whole(1, MAX_BEAMS),
    **dict.fromkeys(("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"), whole(0, MAX_TOKENS)),
    "prompt_lookup_num_tokens": whole(1, MAX_TOKENS),
    "top_k": whole(0, 2**31),
    "gnmt_alpha": number(0, 100),
    "length_penalty": number(-100, 100),
    **dict.fromkeys(
        (
            *("temperature", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff"),
            *("eta_cutoff", "diversity_penalty", "guidance_scale", "max_time", "penalty_alpha"),
            *("repetition_penalty", "encoder_repetition_penalty"),
        ),
        number(-LARGE, LARGE),
    ),
    **dict.fromkeys(
        (
            *("do_sample", "use_cache", "renormalize_logits", "remove_invalid_values"),
            *("return_dict_in_generate", "output_scores", "output_logits", "output_attentions"),
            *("output_hidden_states", "disable_compile", "_from_model_config"),
        ),
        FLAG,
    ),
    "early_stopping": one_of(True, False, "never"),
    # Others need a GPU or another package, or are for models of other layers.
    "cache_implementation": one_of("dynamic", "dynamic_full", "static"),
    "exponential_decay_length_penalty": PAIR,
    "stop_strings": either(TEXT, listed(TEXT)),
    "transformers_version": TEXT,
    "watermarking_config": named(Rule("a value", lambda value: True)),
    **dict.fromkeys(("is_assistant", "assistant_early_exit", "prefill_chunk_size"), REFUSED),
}
# Arguments of `from_pretrained` that say where a file is.
PLACE = (
    *("cache_dir", "force_download", "proxies", "local_files_only", "token", "revision"),
    "subfolder",
)
# That a file cannot be had is for the library to say.
QUIET = dict.fromkeys(
    (
        "_raise_exceptions_for_missing_entries",
        "_raise_exceptions_for_connection_errors",
        "_raise_exceptions_for_gated_repo",
    ),
    False,
)


def _is_filled(value: object, rule: Rule) -> bool:
    return isinstance(value, list) and bool(value) and all(map(rule.holds, value))


def check_search_settings(settings: dict[str, object]) -> None:
    """Refuse settings of a search that would end in a traceback, or not at all.

    Raises:
        ValueError: Names the setting, its value and the rule.
    """
    check_rules(settings, SEARCH_RULES)
    watermark = settings.get("watermarking_config") or {}
    check_rules(watermark, WATERMARK_RULES)
    for name in watermark.keys() - WATERMARK_RULES:
        raise ValueError(f"watermarking_config has {name}, and that is none of its settings")


def check_generation_file(name: str | PathLike[str] | None, arguments: dict[str, object]) -> None:
    """Refuse a `generation_config.json` that the library would stumble over.

    Args:
        name: A folder, or the name of a repository on the Hub; None has no files.
        arguments: Those of `from_pretrained`.

    Raises:
        ValueError: Names the setting, its value and the rule.
    """
    if name is None or arguments.get("generation_config") is not None:
        return
    place = {key: value for key, value in arguments.items() if key in PLACE and value is not None}
    if file := cached_file(name, GENERATION_CONFIG_NAME, **place, **QUIET):
        settings = read_object(file)
        check_search_settings(settings)
        settings.pop("_from_model_config", None)
        check_names(GenerationConfig, settings, refused=("self",))


def check_ids(model: PreTrainedModel) -> None:
    """Refuse ids of a generation config that the target's vocabulary does not have.

    Raises:
        ValueError: Names the setting, its value and the size of the vocabulary.
    """
    size = model.config.decoder_vocab_size or model.config.vocab_size
    for name in ID_RULES:
        value = getattr(getattr(model, "generation_config", None), name, None)
        if any(each >= size for each in (value if isinstance(value, list) else [value or 0])):
            text = f"{name}={reprlib.repr(value)} of the generation config"
            raise ValueError(f"{text} is not below the size of the vocabulary, {size}")
