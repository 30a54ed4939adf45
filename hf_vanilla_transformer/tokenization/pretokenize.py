"""How text is cut before BPE sees it, and how tokens become that very text again."""

from tokenizers import Regex, decoders, normalizers, pre_tokenizers

SPACE = "▁"
ESCAPE = "␛"
# A literal ESCAPE and a literal SPACE, as the model sees them. ESCAPE is escaped first and
# restored last: then every ESCAPE in the model's text begins a pair, and the way back is unique.
ESCAPED = {ESCAPE: ESCAPE + "-", SPACE: ESCAPE + "_"}
# What decoders show for bytes that are no whole character.
HALF_CHARACTER = "\ufffd"
# Streamers of the library forget what they have shown at the end of a line.
LINE_START = r"(?<![^\n])"
LONGEST_RUN = 64

# Scripts written without spaces between words; the long-vowel mark belongs to no single script.
SPACELESS = r"\p{Hiragana}\p{Katakana}ー\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
SPACED = rf"[^\p{{Han}}{SPACELESS}]"
LETTER = rf"[\p{{L}}&&{SPACED}]"
LETTER_OR_MARK = rf"[[\p{{L}}\p{{M}}]&&{SPACED}]"
LETTER_OR_DIGIT = rf"[[\p{{L}}\p{{N}}]&&{SPACED}]"


def build_normalizer() -> normalizers.Normalizer:
    """Write spaces as visible marks, and one more where a line begins with a word or a space.

    A word is then the same token at the start of a line and within it. A first mark is always the
    added one, so that `build_decoder` can remove it without the following tokens.
    """
    escapes = [normalizers.Replace(literal, pair) for literal, pair in ESCAPED.items()]
    first = Regex(rf"{LINE_START}(?={SPACE}|{LETTER_OR_DIGIT})")
    return normalizers.Sequence(
        [*escapes, normalizers.Replace(" ", SPACE), normalizers.Replace(first, SPACE)]
    )


def build_decoder() -> decoders.Decoder:
    """Undo `build_normalizer`, after bytes have become characters.

    Further tokens only append text, so that text can be shown while it is generated. Half a pair
    is shown like half a character.
    """
    literals = [decoders.Replace(pair, literal) for literal, pair in reversed(ESCAPED.items())]
    return decoders.Sequence(
        [
            decoders.Replace(SPACE, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(Regex(rf"{LINE_START} "), ""),
            decoders.Replace(Regex(rf"{ESCAPE}\z"), HALF_CHARACTER),
            *literals,
        ]
    )


def build_pre_tokenizer(isolate_han: bool) -> pre_tokenizers.PreTokenizer:
    """Cut text into pieces, whose borders no token crosses.

    Runs are bounded, so that a line without spaces costs no more than many short ones.
    """
    run = rf"{{1,{LONGEST_RUN}}}"
    unspaced = rf"\p{{Han}}|[{SPACELESS}]" if isolate_han else rf"[\p{{Han}}{SPACELESS}]"
    pieces = (
        unspaced + run,
        rf"{SPACE}?{LETTER}{LETTER_OR_MARK}{{0,{LONGEST_RUN}}}",
        rf"{SPACE}?\p{{N}}",
        # English contractions: the only punctuation that shares a token with letters.
        r"['’](?i:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])",
        # One sign, or one repeated, with its marks (variation selectors).
        rf"{SPACE}?([^{SPACE}\p{{L}}\p{{N}}])\1{{0,{LONGEST_RUN}}}\p{{M}}{{0,{LONGEST_RUN}}}",
        SPACE,
    )
    return pre_tokenizers.Split(Regex("|".join(pieces)), "isolated")
