"""Mutated settings of a model folder: values, ranges, nesting, names of files, unknown keys."""

import copy
import json
import random

FILES = ("config.json", "generation_config.json", "tokenizer_config.json")

# Keys that this package or the library reads, of which files are seldom or never meant to say.
KEYS = (
    *("auto_map", "custom_pipelines", "trust_remote_code", "tokenizer_file", "vocab_file"),
    *("target_tokenizer_file", "fast_tokenizer_files", "special_tokens_map_file", "gguf_file"),
    *("added_tokens_file", "chat_template_file", "transformers_weights", "use_safetensors"),
    *("attn_implementation", "_attn_implementation_internal", "_attn_implementation"),
    *("quantization_config", "num_labels", "id2label", "label2id", "tokenizer_class"),
    *("chat_template", "extra_special_tokens", "added_tokens_decoder", "custom_generate"),
    *("dtype", "torch_dtype", "_name_or_path", "name_or_path", "base_model_name_or_path"),
    *("architectures", "is_local", "init_inputs", "backend", "model_type", "is_encoder_decoder"),
    *("separate_vocabularies", "model_max_length", "padding_side", "truncation_side"),
    *("model_input_names", "split_special_tokens", "clean_up_tokenization_spaces"),
    *("task_specific_params", "prefix", "problem_type", "pruned_heads", "tie_encoder_decoder"),
    *("watermarking_config", "compile_config", "cache_implementation", "num_beams"),
    *("max_length", "max_new_tokens", "suppress_tokens", "forced_eos_token_id", "gnmt_alpha"),
    *("extra_decode_length", "transformers_version", "output_attentions", "return_dict"),
    *("unk_token", "pad_token", "additional_special_tokens", "config_class", "attribute_map"),
    *("__class__", "__init__", "to_dict", "tokenizer_object", "slow_tokenizer", "from_slow"),
    *("per_layer_config", "sub_configs", "text_config", "encoder", "decoder", "tokenizer_type"),
)
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
)


def mutate(contents: dict[str, dict], seed: int, paths: list[str]) -> dict[str, str]:
    """Return the text of one to three mutations of settings, by file.

    Args:
        contents: The sound settings by file.
        seed: What the mutations depend on.
        paths: Files that no load may open.
    """
    chance, words = random.Random(seed), (*WORDS, *paths)
    contents = copy.deepcopy(contents)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        file = chance.choice(FILES)
        contents[file] = _mutated(contents[file], chance, words)
    return {file: _text(content, chance) for file, content in contents.items()}


def _mutated(content: object, chance: random.Random, words: tuple[str, ...]) -> object:
    """Return a content with one value changed, added or removed, or with another root."""
    kind = chance.random()
    if not isinstance(content, dict) or kind < 0.03:
        return _value(chance, words, 0)
    keys = list(content)
    if keys and kind < 0.15:
        del content[chance.choice(keys)]
    elif not keys or kind < 0.55:
        content[chance.choice(KEYS)] = _value(chance, words, 0)
    else:
        key = chance.choice(keys)
        nested = isinstance(content[key], dict) and chance.random() < 0.5
        content[key] = _mutated(content[key], chance, words) if nested else _value(chance, words, 0)
    return content


def _value(chance: random.Random, words: tuple[str, ...], depth: int) -> object:
    kind = chance.random()
    if kind < 0.35:
        return chance.choice(NUMBERS)
    if kind < 0.7:
        return chance.choice(words)
    if kind < 0.8:
        return chance.choice((None, True, False, [], {}, [[]], {"": {}}))
    if depth > 3:
        return None
    if kind < 0.9:
        return [_value(chance, words, depth + 1) for _ in range(chance.randrange(4))]
    key = chance.choice((*KEYS, *words[:8], "0", "10000000000000", "-1"))
    return {key: _value(chance, words, depth + 1)}


def _text(content: object, chance: random.Random) -> str:
    """Return JSON, once in a while cut short, nested beyond measure, or with a key twice."""
    text, kind = json.dumps(content), chance.random()
    if kind < 0.01:
        return text[: chance.randrange(len(text))]
    if kind < 0.02:
        return "[" * 100_000
    return text
