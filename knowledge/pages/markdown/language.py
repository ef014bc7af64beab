"""Detects the language of a text: by its script, then by stop words, of which every text is full. Pure.

`languages.json` has for each language its names, its stop words (including single letters left over at an apostrophe),
its question words (those that are not stop words), and the letters that few other languages use.
"""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

_LANGUAGES: dict[str, dict[str, Any]] = json.loads(pkgutil.get_data(__name__, "languages.json") or b"")

STOP_WORDS: Mapping[str, frozenset[str]] = {
    code: frozenset(language["stop_words"].casefold().split())
    for code, language in _LANGUAGES.items()
    if "stop_words" in language
}
"""Stop words by language, case-folded."""
QUESTION_WORDS: Mapping[str, frozenset[str]] = {
    code: frozenset(language["question_words"].casefold().split())
    for code, language in _LANGUAGES.items()
    if "question_words" in language
}
"""Further words that only ask (`combien`, `welche`), by language, case-folded. Pages are indexed with them."""
_TELLING_WORDS = {code: words | QUESTION_WORDS.get(code, frozenset()) for code, words in STOP_WORDS.items()}
_INVERTED = re.compile("[\u00bf\u00a1]")
_CODES = {name: code for code, language in _LANGUAGES.items() for name in language["names"]}
_TELLING_LETTERS = {
    code: re.compile(f"[{language['letters']}]") for code, language in _LANGUAGES.items() if "letters" in language
}
"""Letters that distinguish related languages, which share most of their stop words."""
_SCRIPTS = {
    code: re.compile(f"[{letters}]")
    for code, letters in {
        "ja": "\u3040-\u30ff",  # kana: before Chinese, whose characters Japanese uses too
        "ko": "\uac00-\ud7af",
        "zh": "\u3400-\u9fff",
        "th": "\u0e00-\u0e7f",
        "lo": "\u0e80-\u0eff",
        "km": "\u1780-\u17ff",
        "my": "\u1000-\u109f",
        "el": "\u0370-\u03ff",
        "he": "\u0590-\u05ff",
        "ar": "\u0600-\u06ff",
        "hy": "\u0530-\u058f",
        "hi": "\u0900-\u097f",
        "bn": "\u0980-\u09ff",
        "pa": "\u0a00-\u0a7f",
        "gu": "\u0a80-\u0aff",
        "ta": "\u0b80-\u0bff",
        "te": "\u0c00-\u0c7f",
        "kn": "\u0c80-\u0cff",
        "ml": "\u0d00-\u0d7f",
        "ka": "\u10a0-\u10ff",
    }.items()
}
_CYRILLIC = re.compile("[\u0400-\u04ff]")
"""Many languages use this script, so the words must decide."""
IN_CYRILLIC = frozenset({"ru", "uk", "bg"})
_PERSIAN = re.compile("[\u067e\u0686\u0698\u06a9\u06af\u06cc]")
"""Letters of Persian that Arabic does not have."""
_VIETNAMESE = re.compile(
    "[\u01a0\u01a1\u01af\u01b0\u1ea2-\u1eb7\u1eba\u1ebb\u1ebe-\u1ec9\u1ece-\u1ee3\u1ee6-\u1ef3\u1ef6\u1ef7]"
)
"""Letters that no other language has. Letters with only a dot below are left out, because Yoruba and Igbo have them
too."""
VIETNAMESE_SHARE = 0.05
"""The share of letters in `_VIETNAMESE` from which a text counts as Vietnamese. Vietnamese texts have about 15 of
them in 100 letters; a text in another language with a Vietnamese name has far fewer."""
_TURKISH, _AZERBAIJANI = re.compile("[\u0131\u011f\u011e\u0130]"), re.compile("[\u0259\u018f]")
"""Letters that among the known languages only Turkish has, and one by which Azerbaijani, which has them too, differs."""
TURKISH_SHARE = 0.02
"""The share of letters in `_TURKISH` from which a text without enough stop words of any language counts as Turkish. Turkish texts
have about six of them in 100 letters, but few stop words, because much of what other languages say with words is in their endings."""
FEWEST_TURKISH = 2
_NOT_FINNISH = "\u00f5"
"""A letter of Estonian, which shares stop words with Finnish."""
TELLING_WEIGHT = 0.5
MOST_TELLING = 6
_LETTERS = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
LEAD = 0.3
"""The lead that a language's words must have over the next language's when there are few words to judge by."""
SAMPLE = 600
"""Characters that are examined: enough for a hundred stop words, few enough to do it for every document."""
FEWEST_HITS = 3
LEAST_SHARE = 0.12
SCRIPT_SHARE = 0.2
KANA_SHARE = 0.05
PERSIAN_SHARE = 0.03


def _weights() -> dict[str, tuple[tuple[str, float], ...]]:
    owners: dict[str, list[str]] = {}
    for language, listed in STOP_WORDS.items():
        for word in listed:
            owners.setdefault(word, []).append(language)
    return {word: tuple((language, 1 / len(found)) for language in found) for word, found in owners.items()}


_WEIGHTS = _weights()
"""The languages that use each word; a word counts less the more languages share it."""


def normal_language(name: str) -> str:
    """Return the two- or three-letter code for a name of a language (`en-US`, `English`, `nb`), "" for anything else."""
    head = re.split(r"[-_. ]", name.strip().casefold(), maxsplit=1)[0]
    code = _CODES.get(head, head)
    return code if 2 <= len(code) <= 3 and code.isalpha() else ""


def english_name(code: str) -> str:
    """Return the English name of a language, its code if there is none here."""
    return _LANGUAGES[code]["names"][0].title() if code in _LANGUAGES else code


def has_own_script(code: str) -> bool:
    """Return whether the letters of a text show that it is in that language."""
    return code in _SCRIPTS or code == "fa"


def is_cyrillic(text: str) -> bool:
    """Return whether most letters of the beginning of `text` are Cyrillic."""
    sample = text[:SAMPLE]
    return 2 * len(_CYRILLIC.findall(sample)) > len(_LETTERS.findall(sample))


def telling_words_in(text: str, language: str) -> int:
    """Return how many different words of the beginning of `text` are stop words or words that only ask in a language.

    An inverted question or exclamation mark counts as one of Spanish.
    """
    sample = text[:SAMPLE]
    telling = _TELLING_WORDS.get(language, frozenset())
    return sum(map(telling.__contains__, _words_of(sample))) + (
        language == "es" and _INVERTED.search(sample) is not None
    )


@lru_cache(maxsize=16)
def _words_of(sample: str) -> Sequence[str]:
    """Return the different words of a question, for which each language is asked."""
    return tuple(dict.fromkeys(_WORD.findall(sample.casefold())))


def without_repetition(text: str) -> str:
    """Return `text` with each word once: *one-to-one* has one Polish stop word (`one`) and one of Polish and English (`to`)."""
    had: set[str] = set()

    def first(found: re.Match[str]) -> str:
        word = found[0].casefold()
        repeated = word in had
        had.add(word)
        return "" if repeated else found[0]

    return _WORD.sub(first, text[:SAMPLE])


def detect(text: str, *, fewest: int = FEWEST_HITS, lead: float = 0.0) -> str:
    """Return the language code of the beginning of `text`, "" if that is not clear.

    The text must have at least `fewest` stop words of the language, and these must outweigh those of any other language
    by `lead`; or it is in a script or has letters that only one language uses.
    """
    sample = text[:SAMPLE]
    if not sample.isascii() and (script := _by_script(sample)):
        return script
    return _by_words(sample, fewest, lead) or ("tr" if _is_turkish(sample) else "")


def _by_words(sample: str, fewest: int, lead: float) -> str:
    found = _WORD.findall(sample.casefold())
    known = [word for word in found if word in _WEIGHTS]
    if len(known) < fewest or len(known) < LEAST_SHARE * len(found):
        return ""
    hits: dict[str, float] = {}
    for word in known:
        for language, share in _WEIGHTS[word]:
            hits[language] = hits.get(language, 0.0) + share
    for language, letters in _TELLING_LETTERS.items():
        if language in hits:
            hits[language] += TELLING_WEIGHT * min(len(letters.findall(sample)), MOST_TELLING)
    best = max(hits, key=lambda language: (hits[language], language))
    if best == "fi" and _NOT_FINNISH in sample.casefold():
        return ""
    if lead and any(hits[best] - weight < lead for language, weight in hits.items() if language != best):
        return ""
    # That it is this language at all is judged by all its stop words, including those that it shares with other languages.
    own = sum(map(STOP_WORDS[best].__contains__, known))
    return best if own >= fewest and own >= LEAST_SHARE * len(found) else ""


def _by_script(sample: str) -> str:
    letters = len(_LETTERS.findall(sample))
    for language, script in _SCRIPTS.items():
        # Only its kana tell Japanese from Chinese, and they are fewer than its other characters.
        share = KANA_SHARE if language == "ja" else SCRIPT_SHARE
        if len(script.findall(sample)) > share * letters:
            return "fa" if language == "ar" and len(_PERSIAN.findall(sample)) > PERSIAN_SHARE * letters else language
    return "vi" if len(_VIETNAMESE.findall(sample)) > VIETNAMESE_SHARE * letters else ""


def _is_turkish(sample: str) -> bool:
    own = 0 if sample.isascii() or _AZERBAIJANI.search(sample) else len(_TURKISH.findall(sample))
    return own >= max(FEWEST_TURKISH, TURKISH_SHARE * len(_LETTERS.findall(sample)))
