"""Languages: codes, names, and spaces between words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from itertools import chain

# ISO 639-1.
LANGUAGES = """
aa Afar, ab Abkhazian, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic,
as Assamese, av Avaric, ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian,
bi Bislama, bm Bambara, bn Bengali, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen,
ch Chamorro, co Corsican, cr Cree, cs Czech, cu Church Slavonic, cv Chuvash, cy Welsh, da Danish,
de German, dv Dhivehi, dz Dzongkha, ee Ewe, el Greek, en English, eo Esperanto, es Spanish,
et Estonian, eu Basque, fa Persian, ff Fulah, fi Finnish, fj Fijian, fo Faroese, fr French,
fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician, gn Guarani, gu Gujarati, gv Manx,
ha Hausa, he Hebrew, hi Hindi, ho Hiri Motu, hr Croatian, ht Haitian Creole, hu Hungarian,
hy Armenian, hz Herero, ia Interlingua, id Indonesian, ie Interlingue, ig Igbo, ii Sichuan Yi,
ik Inupiaq, io Ido, is Icelandic, it Italian, iu Inuktitut, ja Japanese, jv Javanese, ka Georgian,
kg Kongo, ki Kikuyu, kj Kuanyama, kk Kazakh, kl Greenlandic, km Khmer, kn Kannada, ko Korean,
kr Kanuri, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish,
lg Ganda, li Limburgish, ln Lingala, lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian,
mg Malagasy, mh Marshallese, mi Maori, mk Macedonian, ml Malayalam, mn Mongolian, mr Marathi,
ms Malay, mt Maltese, my Burmese, na Nauruan, nb Norwegian Bokmål, nd Northern Ndebele, ne Nepali,
ng Ndonga, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr Southern Ndebele, nv Navajo,
ny Chichewa, oc Occitan, oj Ojibwa, om Oromo, or Odia, os Ossetian, pa Punjabi, pi Pali, pl Polish,
ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi, ro Romanian, ru Russian,
rw Kinyarwanda, sa Sanskrit, sc Sardinian, sd Sindhi, se Northern Sami, sg Sango, si Sinhala,
sk Slovak, sl Slovenian, sm Samoan, sn Shona, so Somali, sq Albanian, sr Serbian, ss Swati,
st Southern Sotho, su Sundanese, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg Tajik, th Thai,
ti Tigrinya, tk Turkmen, tl Tagalog, tn Tswana, to Tongan, tr Turkish, ts Tsonga, tt Tatar, tw Twi,
ty Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vi Vietnamese, vo Volapük,
wa Walloon, wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, za Zhuang, zh Chinese, zu Zulu
"""
NAMES = dict(one.split(maxsplit=1) for one in LANGUAGES.strip().split(","))
# What is often written instead: codes of countries.
MEANT = {"jp": "ja", "cn": "zh", "kr": "ko", "ua": "uk", "cz": "cs", "gr": "el", "dk": "da"}
CHINESE = frozenset(("zh", "zho", "chi", "cmn", "yue", "wuu", "nan", "hak", "gan", "lzh"))
JAPANESE = frozenset(("ja", "jpn"))
KOREAN = frozenset(("ko", "kor"))
# Thai, Khmer, Lao, Burmese, Tibetan, Dzongkha, Shan, Mon, Lü, Northern Thai.
OTHER_UNSPACED = frozenset(
    [
        *("th", "tha", "km", "khm", "lo", "lao", "my", "mya", "bur", "bo", "bod", "tib"),
        *("dz", "dzo", "shn", "mnw", "khb", "nod"),
    ]
)
UNSPACED_SCRIPTS = frozenset(
    [
        *("hani", "hans", "hant", "jpan", "hira", "kana", "thai", "laoo", "khmr", "mymr"),
        *("tibt", "java", "bali", "lana", "talu", "tale"),
    ]
)
# How Unicode's names of their characters begin.
UNSPACED_NAMES = (
    *("CJK ", "IDEOGRAPHIC", "HIRAGANA", "KATAKANA", "THAI ", "LAO ", "KHMER", "MYANMAR"),
    *("TIBETAN", "JAVANESE", "BALINESE", "TAI THAM", "NEW TAI LUE", "TAI LE "),
)
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


def named_language(code: str) -> str:
    """Return a code in Markdown, behind the name of its language where that is known.

    Args:
        code: A language code, perhaps with a script and a region.
    """
    name = NAMES.get(main_language(code))
    return f"{name} (`{code}`)" if name else f"`{code}`"


def are_different(code: str | None, other: str | None) -> bool:
    """Tell whether two codes surely name two languages; three letters may say what two letters do.

    Args:
        code: A language code, perhaps with a script and a region; None if it is not known.
        other: Another one.
    """
    languages = {main_language(one) for one in (code, other) if one}
    return len(languages) == 2 and languages <= NAMES.keys()


def is_chinese_or_japanese(code: str | None) -> bool:
    """Return whether a language has no spaces even between sentences; Thai has them."""
    return main_language(code) in CHINESE | JAPANESE


def puts_spaces(code: str | None) -> bool:
    """Return whether a language has spaces between words; True if it is unknown.

    Args:
        code: A language code, perhaps with a script, which then decides: jv-Java, zh-Latn.
    """
    parts = re.split("[-_]", (code or "").lower())
    for script in parts[1:]:
        if len(script) == 4 and script.isalpha():
            return script not in UNSPACED_SCRIPTS
    return parts[0] not in CHINESE | JAPANESE | OTHER_UNSPACED


def reads_unspaced(texts: Iterable[str]) -> bool:
    """Return whether most letters belong to scripts without spaces between words."""
    counts = Counter(chain.from_iterable(texts))
    letters = {one: count for one, count in counts.items() if unicodedata.category(one)[0] in "LM"}
    names = {one: unicodedata.name(one, "") for one in letters}
    unspaced = sum(letters[one] for one in letters if names[one].startswith(UNSPACED_NAMES))
    return 2 * unspaced > sum(letters.values())


def main_language(code: str | None) -> str:
    """Return the language of a code in lower case, without script and region."""
    return re.split("[-_]", code or "")[0].lower()


def _language(tag: str) -> str:
    """Return the language of a tag."""
    found = TAG.fullmatch(tag)
    language = found[1].lower() if found else ""
    if len(language) == 3 or language in NAMES:
        return language
    hint = f" (did you mean {MEANT[language]}?)" if language in MEANT else ""
    raise ValueError(
        f"{tag} is not a language code that the Hub knows{hint}; set source_language and "
        "target_language in config.json to codes of ISO 639, as zh, pt-BR or zh-Hans"
    )
