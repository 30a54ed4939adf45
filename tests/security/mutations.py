"""Mutated settings of a model folder: values, ranges, nesting, names of files, unknown keys."""

import copy
import json
import random

# Keys that this package or the library reads, of which files are seldom or never meant to say.
KEYS = {
    "config.json": (
        *("auto_map", "custom_pipelines", "transformers_weights", "attn_implementation"),
        *("_attn_implementation_internal", "_attn_implementation", "quantization_config"),
        *("num_labels", "id2label", "label2id", "tokenizer_class", "dtype", "torch_dtype"),
        *("architectures", "model_type", "is_encoder_decoder", "tie_encoder_decoder"),
        *("task_specific_params", "prefix", "problem_type", "pruned_heads", "sub_configs"),
        *("transformers_version", "output_attentions", "return_dict", "config_class"),
        *("per_layer_config", "text_config", "encoder", "decoder", "attribute_map", "to_dict"),
        *("is_decoder", "add_cross_attention", "chunk_size_feed_forward", "rope_parameters"),
        *("layer_types", "torchscript", "experts_implementation", "gradient_checkpointing"),
        *("hidden_size", "head_dim", "num_hidden_layers", "max_length", "num_beams"),
    ),
    "generation_config.json": (
        *("forced_bos_token_id", "forced_eos_token_id", "decoder_start_token_id", "bos_token_id"),
        *("suppress_tokens", "begin_suppress_tokens", "bad_words_ids", "sequence_bias"),
        *("watermarking_config", "compile_config", "cache_implementation", "cache_config"),
        *("max_length", "max_new_tokens", "min_length", "min_new_tokens", "max_time"),
        *("num_beams", "num_return_sequences", "num_beam_groups", "diversity_penalty"),
        *("gnmt_alpha", "extra_decode_length", "length_penalty", "early_stopping"),
        *("do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "penalty_alpha"),
        *("repetition_penalty", "encoder_repetition_penalty", "no_repeat_ngram_size"),
        *("encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "stop_strings"),
        *("guidance_scale", "prompt_lookup_num_tokens", "is_assistant", "dola_layers"),
        *("assistant_early_exit", "prefill_chunk_size", "use_cache", "output_attentions"),
        *("return_dict_in_generate", "output_scores", "constraints", "force_words_ids"),
        *("generation_kwargs", "continuous_batching_config", "custom_generate", "validate"),
        *("_from_model_config", "token_healing", "low_memory", "speculation_type", "update"),
    ),
    "tokenizer_config.json": (
        *("tokenizer_file", "vocab_file", "target_tokenizer_file", "fast_tokenizer_files"),
        *("special_tokens_map_file", "gguf_file", "added_tokens_file", "chat_template_file"),
        *("tokenizer_class", "auto_map", "chat_template", "extra_special_tokens"),
        *("added_tokens_decoder", "additional_special_tokens", "is_local", "init_inputs"),
        *("backend", "separate_vocabularies", "model_max_length", "padding_side"),
        *("truncation_side", "model_input_names", "split_special_tokens", "unk_token"),
        *("pad_token", "bos_token", "eos_token", "mask_token", "cls_token", "new_token"),
        *("tokenizer_object", "slow_tokenizer", "from_slow", "clean_up_tokenization_spaces"),
        *("tokenizer_type", "processor_class", "cls", "vocab", "merges", "add_prefix_space"),
    ),
}
KEYS["special_tokens_map.json"] = KEYS["tokenizer_config.json"]
ANY_KEYS = (
    *(key for keys in KEYS.values() for key in keys),
    *("trust_remote_code", "use_safetensors", "_name_or_path", "name_or_path"),
    *("base_model_name_or_path", "__class__", "__init__", "self", "kwargs", "_commit_hash"),
)
FILES = tuple(KEYS)
NUMBERS = (
    *(
        0,
        1,
        -1,
        2,
        3,
        7,
        64,
        101,
        1000,
        10**6,
        10**9,
        10**12,
        2**31,
        2**63,
        2**64,
        10**40,
        -(10**9),
    ),
    *(0.5, 1.0, -0.0, 1e-300, 1e308, float("inf"), float("-inf"), float("nan")),
)
WORDS = (
    *(
        "",
        " ",
        "\0",
        "abc",
        "None",
        "true",
        "../..",
        "é" * 3,
        "\U0001f600",
        "\ud800",
        "x" * 100_000,
    ),
    *("load", "float32", "float99", "sdpa", "eager", "flash_attention_2", "org/kernel", "org/name"),
    *("org/name--module.Class", "module.Class", "os.system", "file:///etc/passwd", "rotary", "t5"),
    *("http://127.0.0.1:9/model", "BertTokenizerFast", "PreTrainedTokenizerFast", "{{ 1/0 }}"),
    *("AutoTokenizer", "AutoModel", "static", "offloaded", "quantized", "never", "<pad>", "</s>"),
)
SHAPES = (
    *(None, True, False, [], {}, [[]], {"": {}}, [5], [99_999], [[99_999]], [[4, 5]], ["a", None]),
    *({"content": "<pad>"}, {"content": 5}, {"__type": "AddedToken", "content": "x"}),
    *({"5": {"content": "x"}}, {"quant_method": "gptq", "bits": 4}, {"a": "b"}),
)


def mutate(contents: dict[str, dict], seed: int, paths: list[str]) -> dict[str, str]:
    """Return the text of one or two mutations of settings, by file.

    Args:
        contents: The sound settings by file.
        seed: What the mutations depend on.
        paths: Files that no load may open.
    """
    chance, words = random.Random(seed), (*WORDS, *paths)
    contents = copy.deepcopy(contents)
    for _ in range(chance.choice((1, 1, 1, 1, 2))):
        file = chance.choice(FILES)
        contents[file] = _mutated(contents[file], chance, words, KEYS[file])
    return {file: _text(content, chance) for file, content in contents.items()}


def _mutated(
    content: object, chance: random.Random, words: tuple[str, ...], new_keys: tuple[str, ...]
) -> object:
    """Return a content with one value changed, added or removed, or with another root."""
    kind = chance.random()
    if not isinstance(content, dict) or kind < 0.03:
        return _value(chance, words, 0)
    keys = list(content)
    if keys and kind < 0.15:
        del content[chance.choice(keys)]
    elif not keys or kind < 0.55:
        new_keys = new_keys if chance.random() < 0.8 else ANY_KEYS
        content[chance.choice(new_keys)] = _value(chance, words, 0)
    else:
        key = chance.choice(keys)
        nested = isinstance(content[key], dict) and chance.random() < 0.5
        value = _mutated(content[key], chance, words, ANY_KEYS) if nested else None
        content[key] = value if nested else _value(chance, words, 0)
    return content


def _value(chance: random.Random, words: tuple[str, ...], depth: int) -> object:
    kind = chance.random()
    if kind < 0.35:
        return chance.choice(NUMBERS)
    if kind < 0.7:
        return chance.choice(words)
    if kind < 0.8:
        return copy.deepcopy(chance.choice(SHAPES))
    if depth > 3:
        return None
    if kind < 0.9:
        return [_value(chance, words, depth + 1) for _ in range(chance.randrange(4))]
    key = chance.choice((*ANY_KEYS, *words[:8], "0", "10000000000000", "-1"))
    return {key: _value(chance, words, depth + 1)}


def _text(content: object, chance: random.Random) -> str:
    """Return JSON, once in a while cut short, nested beyond measure, or with a key twice."""
    text, kind = json.dumps(content), chance.random()
    if kind < 0.01:
        return text[: chance.randrange(len(text))]
    if kind < 0.02:
        return "[" * 100_000
    return text
