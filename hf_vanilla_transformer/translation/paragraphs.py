"""Cut paragraphs into sentences, translate these, and put them together again."""

import re
from collections.abc import Sequence
from itertools import islice, zip_longest

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hf_vanilla_transformer.languages import is_chinese_or_japanese
from hf_vanilla_transformer.translation.inference import check_texts
from hf_vanilla_transformer.translation.translate import translate

CLOSING = "\"'”’»«“)\\]}"
# A mark of its own ends a sentence in Chinese and Japanese; elsewhere a space must follow. A run of
# marks is looked at once, from its beginning: a line of dots takes time as others do.
_END = re.compile(
    r"(?P<wide>[。！？｡]+[”’」』）》]*\s*)"
    rf"|(?<![.!?…])(?P<mark>[.!?…]++)[{CLOSING}]*+\s+"
)
_WORD_BEFORE = re.compile(r"[^\s(\[„“\"']*$")
# Words that a full stop follows within a sentence, without it.
ABBREVIATIONS = {
    *("mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "e.g", "i.e", "cf", "fig", "vol"),
    *("pp", "approx", "z.b", "d.h", "u.a", "bzw", "ca", "evtl", "ggf", "inkl", "nr", "vgl", "mme"),
}
LONGEST = max(map(len, ABBREVIATIONS))


def translate_paragraphs(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    paragraphs: Sequence[str],
    *,
    lines: Sequence[int] | None = None,
    **settings: object,
) -> list[str]:
    """Translate texts of several sentences sentence by sentence, and join the translations.

    Args:
        model: Any sequence-to-sequence model; its target language tells how sentences are joined.
        tokenizer: Its tokenizer.
        paragraphs: Source text.
        lines: Number of each paragraph in the user's text, for a warning; None counts from 1.
        **settings: As `translate` takes them.

    Raises:
        TypeError: A paragraph is not text; the message names its index.
    """
    check_texts("paragraph", paragraphs)
    parts = [split_sentences(text) for text in paragraphs]
    sentences = [sentence for found, _ in parts for sentence in found]
    numbers = lines or range(1, len(paragraphs) + 1)
    of_sentence = [number for number, (found, _) in zip(numbers, parts, strict=True) for _ in found]
    translations = iter(translate(model, tokenizer, sentences, lines=of_sentence, **settings))
    language = getattr(model.config, "target_language", None)
    return [
        join_sentences(list(islice(translations, len(found))), gaps, target_language=language)
        for found, gaps in parts
    ]


def split_sentences(text: str) -> tuple[list[str], list[str]]:
    """Return the sentences of a text, and the spaces behind each of them but the last.

    A full stop ends none behind an abbreviation, an initial or a number of one or two digits
    ("3. Mai"), nor before a small letter. In doubt sentences stay together.
    """
    sentences: list[str] = []
    gaps: list[str] = []
    start = 0
    for found in _END.finditer(text):
        if found.end() == len(text) or not _ends_sentence(text, found):
            continue
        sentence = text[start : found.end()]
        sentences.append(sentence.rstrip())
        gaps.append(sentence[len(sentence.rstrip()) :])
        start = found.end()
    return [*sentences, text[start:]], gaps


def join_sentences(
    translations: Sequence[str], gaps: Sequence[str], *, target_language: str | None
) -> str:
    """Put the translations of sentences together.

    Args:
        translations: One for each sentence.
        gaps: The spaces behind each source sentence but the last.
        target_language: Chinese and Japanese have no spaces there; others have at least one.
    """
    gaps = ["" if is_chinese_or_japanese(target_language) else (gap or " ") for gap in gaps]
    return "".join(part for pair in zip_longest(translations, gaps, fillvalue="") for part in pair)


def _ends_sentence(text: str, found: re.Match[str]) -> bool:
    if found["wide"]:
        return True
    following = text[found.end()]
    if following.islower():
        return False
    if found["mark"] != ".":
        return True
    # Longer words are cut, which makes none of them an abbreviation.
    word = _WORD_BEFORE.search(text[max(0, found.start() - LONGEST - 1) : found.start()])[0]
    is_initial = len(word) == 1 and word.isalpha()
    is_ordinal = len(word) <= 2 and word.isdigit()
    return not (is_initial or is_ordinal or word.lower() in ABBREVIATIONS)
