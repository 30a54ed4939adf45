"""Language codes as the Hub's metadata takes them."""

import re

ISO_639_1 = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da
    de dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz
ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln
lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi
pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti
tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
TWO_LETTERS = frozenset(ISO_639_1.split())
# What is often written instead: codes of countries.
MEANT = {"jp": "ja", "cn": "zh", "kr": "ko", "ua": "uk", "cz": "cs", "gr": "el", "dk": "da"}
# A language, perhaps with its script and its region: zh, zh-Hans, pt-BR, sr-Latn-RS, deu.
TAG = re.compile(r"([a-z]{2,3})(-[a-z]{4})?(-([a-z]{2}|[0-9]{3}))?", flags=re.IGNORECASE)


def language_metadata(*codes: str | None) -> dict[str, list[str]]:
    """Return the metadata for languages: `language`, and `language_bcp47` where codes say more.

    Args:
        *codes: Language codes, None where a language is not known.

    Raises:
        ValueError: The Hub knows no such language.
    """
    tags = [code.replace("_", "-") for code in codes if code]
    languages = [_language(tag) for tag in tags]
    metadata = {"language": list(dict.fromkeys(languages))} if tags else {}
    if languages != tags:
        metadata["language_bcp47"] = tags
    return metadata


def are_different(code: str | None, other: str | None) -> bool:
    """Tell whether two codes surely name two languages; three letters may say what two letters do.

    Args:
        code: A language code, perhaps with a script and a region; None if it is not known.
        other: Another one.
    """
    languages = {re.split("[-_]", one)[0].lower() for one in (code, other) if one}
    return len(languages) == 2 and languages <= TWO_LETTERS


def _language(tag: str) -> str:
    """Return the language of a tag."""
    found = TAG.fullmatch(tag)
    language = found[1].lower() if found else ""
    if len(language) == 3 or language in TWO_LETTERS:
        return language
    hint = f" (did you mean {MEANT[language]}?)" if language in MEANT else ""
    raise ValueError(
        f"{tag} is not a language code that the Hub knows{hint}; set source_language and "
        "target_language in config.json to codes of ISO 639, as zh, pt-BR or zh-Hans"
    )
