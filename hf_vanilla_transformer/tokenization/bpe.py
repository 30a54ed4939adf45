"""Train a BPE that loses no character, for both sides or for each, or bring a tokenizer along."""

import copy
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from os import PathLike
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors, trainers

from hf_vanilla_transformer.model.tokenization_vanilla_transformer import (
    SEPARATE,
    VanillaTransformerTokenizer,
)
from hf_vanilla_transformer.tokenization.pretokenize import (
    ESCAPED,
    build_decoder,
    build_normalizer,
    build_pre_tokenizer,
)

logger = logging.getLogger(__name__)

ROLES = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
BYTE_TOKENS = tuple(f"<0x{byte:02X}>" for byte in range(256))
RAREST_CHARACTER = 1_000_000

# Names under which other tokenizers keep the roles, tried in this order where a file names none.
KNOWN_NAMES = {
    "pad_token": ("<pad>", "[PAD]", "<|pad|>"),
    "unk_token": ("<unk>", "[UNK]"),
    "bos_token": ("<s>", "[BOS]", "<bos>", "[CLS]"),
    "eos_token": ("</s>", "[EOS]", "<eos>", "[SEP]", "<|endoftext|>"),
}


def train_tokenizer(
    texts: Iterable[str],
    *,
    vocab_size: int,
    isolate_han: bool = False,
    max_length: int = 1024,
) -> VanillaTransformerTokenizer:
    """Learn one BPE (Sennrich et al. 2016) for source and target.

    Ids 0 to 3 are `<pad> <unk> <s> </s>`, 4 to 259 the bytes, which spell whatever the rest of
    the vocabulary cannot, so that decoding gives back every text exactly. A character gets a
    token of its own if it makes up at least a millionth of the corpus. The same texts in the
    same order always give the same tokenizer.

    Args:
        texts: Sentences of both sides, in any order; read once and held in memory.
        vocab_size: Most entries to learn; a small corpus may fill fewer.
        isolate_han: Whether each Han character stays a token of its own.
        max_length: Tokens, `</s>` included, at which `truncation=True` cuts.

    Raises:
        TypeError: `texts` is one string, or holds something that is not a string.
        ValueError: `texts` holds no visible character, `vocab_size` has no room for the
            characters of the corpus, or `max_length` leaves none for a token and `</s>`.
    """
    if max_length < 2:
        raise ValueError(f"max_length={max_length} must be at least 2: one token and </s>")
    corpus = _checked_corpus(texts)
    alphabet, foreign = _split_characters(corpus)
    # One more for SPACE.
    smallest = len(ROLES) + len(BYTE_TOKENS) + len(alphabet) + 1
    if vocab_size < smallest:
        raise ValueError(
            f"vocab_size={vocab_size} is too small: {len(ROLES)} special tokens, "
            f"{len(BYTE_TOKENS)} bytes and {len(alphabet) + 1} characters of the corpus need "
            f"{smallest}; raise vocab_size"
        )
    backend = Tokenizer(models.BPE())
    backend.normalizer = build_normalizer()
    backend.pre_tokenizer = build_pre_tokenizer(isolate_han)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(ROLES) - len(BYTE_TOKENS),
        min_frequency=2,
        show_progress=False,
    )
    backend.train_from_iterator((text.translate(foreign) for text in corpus), trainer)
    backend.model = _with_roles_and_bytes(backend)
    backend.decoder = build_decoder()
    return _wrap(backend, ROLES, settings={"model_max_length": max_length})


def join_tokenizers(
    source: VanillaTransformerTokenizer, target: VanillaTransformerTokenizer
) -> VanillaTransformerTokenizer:
    """Make one tokenizer of two: it encodes the source with one and the target with the other.

    Both are copied. The lower of their limits holds for both sides.

    Raises:
        ValueError: A special token has another name or id on the other side (a model has one id
            for each), or one of the two has two vocabularies already.
    """
    if source.target_backend is not None or target.target_backend is not None:
        raise ValueError("a tokenizer with two vocabularies cannot be joined with another")
    roles, others = _roles_with_ids(source), _roles_with_ids(target)
    for role in ROLES:
        if roles.get(role) != others.get(role):
            raise ValueError(
                f"{role} is {roles.get(role)} in the source's tokenizer and {others.get(role)} in "
                "the target's; a model has one for both: train both here, or rename and renumber"
            )
    joined = copy.deepcopy(source)
    joined.target_backend = copy.deepcopy(target.backend_tokenizer)
    joined.model_max_length = min(source.model_max_length, target.model_max_length)
    joined.clean_up_tokenization_spaces = target.clean_up_tokenization_spaces
    return joined


def vocabulary_fields(tokenizer: VanillaTransformerTokenizer) -> dict[str, int | bool]:
    """Return the config fields that a tokenizer decides: sizes of vocabularies, and ids."""
    fields = {
        f"{role}_id": getattr(tokenizer, f"{role}_id") for role in ROLES if role != "unk_token"
    }
    fields |= {"vocab_size": len(tokenizer), "decoder_start_token_id": tokenizer.bos_token_id}
    if tokenizer.target_backend is None:
        return fields
    separate = {"decoder_vocab_size": len(tokenizer.target)}
    return fields | separate | {"share_encoder_decoder_embeddings": False}


def load_tokenizer(path: str | PathLike[str]) -> VanillaTransformerTokenizer:
    """Bring a tokenizer of your own, so that it travels with the checkpoint.

    Its segmentation and ids stay as they are; what it puts around a sentence is replaced by this
    project's rule, the sentence and then the end token (one warning says so if that changes
    anything). The tokens for padding, end and start are those named in the folder's
    `tokenizer_config.json`, or known by their usual names. Without a start token, the padding
    token starts the target, as in T5 and Marian.

    Args:
        path: A `tokenizer.json`, or a folder that holds one.

    Raises:
        FileNotFoundError: There is no such file, or no `tokenizer.json` in the folder.
        ValueError: The file is not one of `tokenizers`, or the token for padding or for the end
            is missing, not in the vocabulary, or the same for both.
    """
    path = Path(path)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise FileNotFoundError(
            f"{file} does not exist: give a tokenizer.json or a folder that holds one; a tokenizer "
            "of transformers writes it with save_pretrained"
        )
    config_file = file.with_name("tokenizer_config.json")
    try:
        backend = Tokenizer.from_file(str(file))
        config = json.loads(config_file.read_text("utf-8")) if config_file.is_file() else {}
    except Exception as error:  # tokenizers raises nothing narrower
        raise ValueError(f"{file}, or its config, is not a tokenizer's: {error}") from error
    if config.get(SEPARATE):  # ours, and whole
        return VanillaTransformerTokenizer.from_pretrained(file.parent)
    roles = _find_roles(backend, config, file=file)
    _check_roles(roles, file)
    if "bos_token" not in roles:
        logger.info("%s has no bos_token: the target starts with %s", file, roles["pad_token"])
        roles["bos_token"] = roles["pad_token"]
    _keep_special_strings_text(backend, roles)
    backend.no_truncation()
    backend.no_padding()
    ids_before = backend.encode("a").ids
    settings = ("model_max_length", "clean_up_tokenization_spaces")
    tokenizer = _wrap(
        backend, roles, settings={name: config[name] for name in settings if name in config}
    )
    if tokenizer("a")["input_ids"] != ids_before:
        logger.warning("%s now encodes a sentence as itself and %s", file, tokenizer.eos_token)
    return tokenizer


def _roles_with_ids(tokenizer: VanillaTransformerTokenizer) -> dict[str, tuple[str, int]]:
    tokens = tokenizer.special_tokens_map.items()
    return {role: (token, tokenizer.convert_tokens_to_ids(token)) for role, token in tokens}


def _checked_corpus(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise TypeError(f"texts is the single string {texts[:40]!r}: give a list of sentences")
    corpus = list(texts)
    for index, text in enumerate(corpus):
        if not isinstance(text, str):
            raise TypeError(f"texts[{index}] is {text!r}: every text must be a string")
    return corpus


def _split_characters(corpus: list[str]) -> tuple[set[str], dict[int, str]]:
    """Return the characters that get a token, and a table that blanks all others for training.

    Only printable characters can be tokens: no token holds white space or a control character.
    """
    counts = Counter(chain.from_iterable(corpus))
    total = counts.total()
    alphabet = {
        character
        for character, count in counts.items()
        if count * RAREST_CHARACTER >= total and character.isprintable()
    }
    alphabet -= {" ", *ESCAPED}
    if not alphabet:
        raise ValueError(
            f"nothing to learn from: {len(corpus)} texts without a visible character; "
            "check the path and the column that they were read from"
        )
    return alphabet, {ord(character): " " for character in counts if character not in alphabet}


def _with_roles_and_bytes(backend: Tokenizer) -> models.BPE:
    """Put special tokens and bytes before what the trainer learned."""
    learned = backend.get_vocab()
    tokens = [*ROLES.values(), *BYTE_TOKENS, *sorted(learned, key=learned.__getitem__)]
    merges = json.loads(backend.to_str())["model"]["merges"]
    return models.BPE(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[tuple(pair) for pair in merges],
        unk_token=ROLES["unk_token"],
        byte_fallback=True,
    )


def _find_roles(backend: Tokenizer, config: dict[str, object], *, file: Path) -> dict[str, str]:
    """Return the token of each role that has one, named by the config or known by its name."""
    roles = {}
    for role, usual_names in KNOWN_NAMES.items():
        named = config.get(role)
        if isinstance(named, dict):
            named = named["content"]
        names = usual_names if named is None else (named,)
        present = [name for name in names if backend.token_to_id(name) is not None]
        if present:
            roles[role] = present[0]
        elif named is not None:
            raise ValueError(f"{file} has no entry {named!r}, the {role} of tokenizer_config.json")
    return roles


def _check_roles(roles: dict[str, str], file: Path) -> None:
    for role in ("pad_token", "eos_token"):
        if role not in roles:
            raise ValueError(
                f"{file} has no {role}: name one of its entries as {role!r} in a "
                f"tokenizer_config.json beside it (looked for {', '.join(KNOWN_NAMES[role])})"
            )
    if roles["pad_token"] == roles["eos_token"]:
        raise ValueError(
            f"{file} uses {roles['eos_token']!r} for padding and as the end, so a model could "
            "never learn to stop: name another pad_token in tokenizer_config.json"
        )


def _keep_special_strings_text(backend: Tokenizer, roles: dict[str, str]) -> None:
    """Split typed special tokens after their first character, where the model would find them.

    BPE builds tokens by merges, which never end in a special token; Unigram, WordPiece and
    WordLevel look whole strings up, the special ones among them.
    """
    if isinstance(backend.model, models.BPE) and not backend.model.ignore_merges:
        return
    added = backend.get_added_tokens_decoder().values()
    names = {*roles.values(), *(token.content for token in added if token.special)}
    within = (f"(?<={re.escape(name[0])})(?={re.escape(name[1:])})" for name in sorted(names))
    split = pre_tokenizers.Split(Regex("|".join(within)), "isolated")
    first = [backend.pre_tokenizer] if backend.pre_tokenizer else []
    backend.pre_tokenizer = pre_tokenizers.Sequence([*first, split])


def _wrap(
    backend: Tokenizer, roles: dict[str, str], *, settings: dict[str, object]
) -> VanillaTransformerTokenizer:
    """Give a tokenizer its roles, the end token after each sentence, and the travelling class."""
    end = roles["eos_token"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A $B {end}", special_tokens=[(end, backend.token_to_id(end))]
    )
    # split_special_tokens is written to tokenizer_config.json for whoever reads the folder with
    # a class of the library.
    return VanillaTransformerTokenizer(
        tokenizer_object=backend,
        split_special_tokens=True,
        **{"clean_up_tokenization_spaces": False, **roles, **settings},
    )
