"""Words: how text becomes the terms that are indexed and asked for. Pure; the same in every engine.

`words(text)` -> the words as written, normalised (NFKC, case-folded), in order, CJK cut to single characters and pairs.
`Analyzer(language).terms(text)` -> the words without stop words, stemmed: what a keyword index stores.

Accents stay in words, so that the vocabulary reads as people write, and go from terms after stemming (stemmers need
them): `cafe` finds `café`. An apostrophe parts words; what it leaves (`s`, `l`) are stop words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import chain

from knowledge.language import STOP_WORDS

RECIPE: int = 1
"""Goes up whenever the same text would give other terms: an index made by another recipe is rebuilt."""
LONGEST_WORD = 64
"""Longer words are dropped: they are keys, hashes and data, and nobody asks for them."""
CACHED_STEMS = 50_000

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
# Vowel signs and points are letters to a reader but not to `\w`.
_MARKS = "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0df3\u0f00-\u0fff"
_ASCII_TOKEN = re.compile(r"\w+(?:[.-]\w+)*(?:\+\+|#(?!\w))?", re.ASCII)
_TOKEN = re.compile(
    rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_MARKS}])+(?:[.-](?:(?![{_UNSPACED}])[\w{_MARKS}])+)*(?:\+\+|\#(?!\w))?"
)
_SPACED_TOKEN = re.compile(_ASCII_TOKEN.pattern)
_RARE = re.compile(f"[{_UNSPACED}{_MARKS}]")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_JOINERS = re.compile(r"[._+#-]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "\u0131": "i", "þ": "th", "ß": "ss"}
)
_ALL_STOP_WORDS = frozenset().union(*STOP_WORDS.values())

_ALGORITHMS = {
    "ar": "arabic",
    "ca": "catalan",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "ne": "nepali",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
    "yi": "yiddish",
}


def words(text: str) -> list[str]:
    """Return the words of `text` in order, case-folded; `foo_bar`, `v1.2` and `camelCase` are followed by their parts."""
    pattern = _ASCII_TOKEN
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        if _RARE.search(text):
            return _words_of_rare_scripts(text)
        pattern = _SPACED_TOKEN
    found = pattern.findall(text)
    # A token as long as a file would stay in the cache.
    if found and max(map(len, found)) > _LONGEST_TOKEN:
        return list(chain.from_iterable(map(_expanded, found)))
    return list(chain.from_iterable(map(_expand, found)))


def _words_of_rare_scripts(text: str) -> list[str]:
    out: list[str] = []
    for token in _TOKEN.findall(text):
        if _IS_UNSPACED.match(token):
            out += _characters_and_pairs(token)
        else:
            out += _expanded(token) if len(token) > _LONGEST_TOKEN else _expand(token)
    return out


class Analyzer:
    """Makes the terms of one language; an unknown language ("") has no stop words and no stems."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._stop = STOP_WORDS.get(language, frozenset())
        self._term = _stemmer(language)

    def terms(self, text: str) -> list[str]:
        """Return the stems of the words of `text`, in order, without stop words."""
        stop, term = self._stop, self._term
        return [term(word) for word in words(text) if word not in stop]


@cache
def analyzer(language: str) -> Analyzer:
    """Return the one analyzer of that language."""
    return Analyzer(language)


def stem(word: str, language: str) -> str:
    """Return the term that `word` (case-folded, as from `words`) is indexed as in a text of `language`."""
    return _stemmer(language)(word)


def is_stop_word(word: str, languages: Iterable[str] = ()) -> bool:
    """Return whether `word` says nothing in one of `languages`, or in any language we know if none is given."""
    asked = tuple(languages)
    if not asked:
        return word in _ALL_STOP_WORDS
    return any(word in STOP_WORDS.get(language, ()) for language in asked)


_LONGEST_TOKEN = 4 * LONGEST_WORD


def _expanded(token: str) -> tuple[str, ...]:
    """Return the word itself, then the parts of an identifier, none of them longer than `LONGEST_WORD`."""
    if token.isalpha() and token.islower() and token.isascii():
        return (token,) if len(token) <= LONGEST_WORD else ()
    token = token.strip("_")
    found = [_fold(token)] if token else []
    parts = [hump for part in _JOINERS.split(token) for hump in _HUMP.split(part) if hump]
    if len(parts) > 1 or (parts and parts[0] != token):
        found += [folded for part in parts if (folded := _fold(part)) != found[0]]
    return tuple(word for word in found if word and len(word) <= LONGEST_WORD)


_expand = lru_cache(maxsize=65_536)(_expanded)


def _fold(word: str) -> str:
    folded = word.casefold()
    if folded.isascii():
        return folded
    # Case-folding takes letters apart (dotted capital I) that NFKC had put together.
    return unicodedata.normalize("NFKC", folded).replace("i\u0307", "i")


def _characters_and_pairs(run: str) -> list[str]:
    """Return each character of an unspaced script, each but the last followed by the pair that it begins."""
    found: list[str] = []
    for index, character in enumerate(run[:-1]):
        found += (character, run[index : index + 2])
    return [*found, run[-1]]


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    """Return the function from word to term; each language has its own cache, which does not grow without end."""
    algorithm = _ALGORITHMS.get(language)
    if algorithm is None:
        return _without_accents
    import snowballstemmer  # type: ignore[import-untyped]  # it ships no types

    if algorithm not in snowballstemmer.algorithms():
        return _without_accents
    # The stemmer object keeps the word it works on; a thread of its own would mix words up.
    make = snowballstemmer.stemmer

    @lru_cache(maxsize=CACHED_STEMS)
    def term(word: str) -> str:
        if not word.isalpha():
            return _without_accents(word)
        return _without_accents(str(make(algorithm).stemWord(word)))

    return term


def _without_accents(word: str) -> str:
    """Return `word` with Latin and Greek letters bare; other scripts keep their marks, which tell letters apart."""
    if word.isascii():
        return word
    bare: list[str] = []
    base = ""
    for character in unicodedata.normalize("NFD", word.translate(_PLAIN_LETTERS)):
        if "\u0300" <= character <= "\u036f" and base < "\u0400":
            continue
        if not unicodedata.combining(character):
            base = character
        bare.append(character)
    return unicodedata.normalize("NFC", "".join(bare)) or word
