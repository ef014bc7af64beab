"""Text analysis: how text becomes the terms that are indexed and searched. Pure; the same for every engine.

`words(text)` returns the words as written, normalised (NFKC, case-folded), in order. Scripts without spaces are cut into
short runs, in the way that found most in each script (kb/decisions/0015): CJK and Hangul into characters and pairs, Khmer
and Burmese into syllables and pairs, Thai and Lao into pairs and triples of letters with their marks.
`Analyzer(language).terms(text)` returns the words without stop words, stemmed: what a keyword index stores.

Words keep their accents, so that the vocabulary reads as people write. Terms lose them after stemming (stemmers need
them), so `cafe` finds `café`. Vietnamese, where a tone makes another word, has the word with its tone as a second
term (kb/decisions/0118); languages that change the ends of words have the beginning of each (kb/decisions/0133).
Vowel points of Hebrew and Arabic, which few people type, are removed before stemming. An apostrophe separates words;
what remains of it (`s`, `l`) are stop words.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain, filterfalse
from typing import TypeVar

import Stemmer  # type: ignore[import-not-found]  # a compiled module without types

from knowledge.pages.markdown.language import STOP_WORDS
from knowledge.search.query.spellings import american, one_stem

T = TypeVar("T")

LONGEST_WORD = 64
"""Longer words are dropped: they are keys, hashes and data, which nobody searches for."""
CACHED_STEMS = 100_000
"""Stems cached per language; computing one takes several times as long as looking it up."""
CACHED_RUNS = 98_304
LONGEST_CACHED_RUN = 40
CACHED_TOKENS = 16_384
BEGINNING_LETTERS = 5
MOST_REMEMBERED = 16_000_000
"""Characters of text whose words are cached during a long run: those of a portion for the keyword index, and what is
prepared meanwhile."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003ffff"
)
# Vowel signs, points and tone marks belong to words, but `\w` does not match them. The signs between Tibetan syllables are not
# among them.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06ed\u0730-\u074a"
    "\u07a6-\u07b0\u07eb-\u07f3\u0859-\u085b\u08ca-\u08e1\u08e3-\u0963\u0966-\u0df3\u0f18\u0f19\u0f35\u0f37\u0f39\u0f3e\u0f3f\u0f71-\u0f84"
    "\u0f86-\u0fbc\u0fc6\u1712-\u1715\u180b-\u180f\u1885\u1886\u1920-\u193b\u1a17-\u1a1b\u1a55-\u1a7f\u1b00-\u1b04\u1b34-\u1b44\u1b80-\u1bad"
    "\u1be6-\u1bf3\u1c24-\u1c37\ua802\ua806\ua80b\ua823-\ua827\ua880\ua881\ua8b4-\ua8c5\ua926-\ua92d\ua947-\ua953\ua980-\ua983\ua9b3-\ua9c0"
    "\uaa29-\uaa36\uaa43\uaa4c\uaa4d\uaab0-\uaac1\uaaeb-\uaaef\uaaf5\uaaf6\uabe3-\uabea\uabec\uabed\U00010d24-\U00010d27"
    "\U00011100-\U00011134\U0001e944-\U0001e94a"
)
# A word may contain single dots and hyphens (`v1.2`, `e-mail`), and end in `++` or `#` (`C++`, `C#`).
_ASCII_TOKEN = re.compile(r"\w+(?:[.-]\w+)*(?:\+\+|#(?!\w))?", re.ASCII)
_TOKEN = re.compile(
    rf"[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[\w{_MARKS}])+(?:[.-](?:(?![{_UNSPACED}])[\w{_MARKS}])+)*(?:\+\+|\#(?!\w))?"
)
# Most texts outside ASCII (French, Russian) have none of those scripts and marks, and need no lookaheads.
_SPACED_TOKEN = re.compile(_ASCII_TOKEN.pattern)
_RARE = re.compile(f"[{_UNSPACED}{_MARKS}]")
_STACKED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Scripts that write marks around a letter; a mark must stay with its letter."""
_CLUSTER = re.compile(
    "\u17d2?[\u1780-\u17b3][\u17b4-\u17d1\u17d3\u17dd]*(?:\u17d2[\u1780-\u17b3][\u17b4-\u17d1\u17d3\u17dd]*)*"
    "|[\u1000-\u102a\u103f](?:[\u102b-\u103e\u1056-\u1059\u105e-\u1060\u1071-\u1074\u1082-\u108d]|(?<=\u1039)[\u1000-\u102a])*"
    "|.[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece]*",
    re.DOTALL,
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_RUN = re.compile(f"[{_UNSPACED}]+")
_LETTER_OUTSIDE_ASCII = re.compile(r"(?![\x00-\x7f])[^\W\d_]")
_PUNCTUATION = ".,;:!?()[]{}\"'*`"
"""Characters around words, without those that can be part of a word (`_`, `+`, `#`)."""
_JOINERS = re.compile(r"[._+#-]+")
_PLURAL = "s(?![a-z0-9])"
# Between `camel` and `Case`, between `HTML` and `Parser`, and before the `s` of `CSVs` and `getIDsOf`, which English stems keep.
_HUMP = re.compile(
    rf"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?!(?<=[A-Z])[A-Z]{_PLURAL})|(?<=[A-Z]{{2}})(?={_PLURAL})"
)
_PLAIN_LETTERS = str.maketrans(
    {"ø": "o", "æ": "ae", "œ": "oe", "ł": "l", "đ": "d", "ð": "d", "\u0131": "i", "þ": "th", "ß": "ss"}
)
_POINTS = dict.fromkeys(chain(range(0x0591, 0x05BE), range(0x0610, 0x061B), range(0x064B, 0x0660))) | dict.fromkeys(
    (0x05BF, 0x05C1, 0x05C2, 0x05C4, 0x05C5, 0x05C7, 0x0640, 0x0670, 0x093C)
)
"""Hebrew and Arabic vowel points and cantillation marks, the Arabic tatweel, and the Hindi nukta."""
_POINTED = re.compile("[\u0590-\u06ff\u093c]")
_ONE_LETTER = str.maketrans("\u06cc\u0649\u06a9\u0622\u0623\u0625", "\u064a\u064a\u0643\u0627\u0627\u0627")
"""Letters of Arabic and Persian that people and keyboards use interchangeably."""
_COMPOSED = {
    # Soft hyphen and zero-width joiner, which only affect how a word is drawn.
    "\u00ad": "",
    "\u200d": "",
    # What NFKC makes of the signs that are most frequent in French, Japanese and Chinese.
    "\u00a0": " ",
    "\u2026": "...",
    "\uff08": "(",
    "\uff09": ")",
    "\uff1a": ":",
    "\uff01": "!",
    "\uff1f": "?",
    "\uff0c": ",",
}
_TONAL = frozenset({"vi"})
"""Languages with a second term for each word that has marks."""
_TONES = frozenset("\u0300\u0301\u0303\u0309\u0323")
"""The marks of the Vietnamese tones; the other marks (`ê`, `ơ`, `ă`) and `đ` tell letters apart and stay in place."""
_ALL_STOP_WORDS = frozenset().union(*STOP_WORDS.values())

_ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "st": "sesotho", "sv": "swedish",
    "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_WITH_BEGINNINGS = frozenset(_ALGORITHMS) - {"en", "id", "st"}
"""Languages whose words change at their ends: all with a stemmer, without English, which changes little, and without those that
change words at the front."""
UNDETERMINED = "und"
"""The language, for the index, of pages whose language is unknown. Most are short and in English, or full of English names, so their
words of ASCII letters have English stems. Source: ISO 639-2."""
_BEGINNING_MARK = "\u02ba"
"""Ends a beginning, so that it is no word. It is a letter to every engine."""
_LETTERS_ONLY = re.compile(rf"(?:[^\W\d_]|[{_MARKS}])+")


def words(text: str) -> list[str]:
    """Return the words of `text` in order, case-folded; after `foo_bar`, `v1.2` and `camelCase` come their parts."""
    # No word contains a space, and the runs between spaces repeat: so runs are cached.
    return list(chain.from_iterable(map(_words_of_runs.__getitem__, composed(text).split())))


def tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of `text` where they are, each whole; a run of a script without spaces counts as one."""
    return _TOKEN.finditer(text)


def word_groups(text: str) -> list[tuple[str, ...]]:
    """Return the words of `text` in order, each with the parts that `words` returns after it."""
    return [group for _, groups in token_groups(text) for group in groups]


def token_groups(text: str) -> list[tuple[str, list[tuple[str, ...]]]]:
    """Return the words of `text` as they are written, in order, each with its groups: one, or those of all pieces of a run."""
    return [(token, [group for group in _groups_of_token(token) if group]) for token in _TOKEN.findall(composed(text))]


def composed(text: str) -> str:
    """Return `text` in NFKC, without invisible characters."""
    if text.isascii():
        return text
    for sign, its_form in _COMPOSED.items():
        text = text.replace(sign, its_form)
    # Most texts are composed now, and to look takes a twentieth of the time.
    return text if unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def folded_in_place(text: str) -> str | None:
    """Return `text` case-folded if all its `words` stand in it letter by letter, each at its own place; None if some may not."""
    if text.isascii():
        return text.lower()
    folded = text.casefold()
    return folded if len(folded) == len(text) and all(map(_stays_as_it_is, set(folded))) else None


@lru_cache(maxsize=16_384)
def _stays_as_it_is(sign: str) -> bool:
    if unicodedata.combining(sign) or "\u1100" <= sign <= "\u11ff":
        return False  # it is composed with the letter before it
    # Punctuation may change: it is in no word.
    return bool(_COMPOSED[sign]) if sign in _COMPOSED else unicodedata.is_normalized("NFKC", sign)


def remember_words(text: str) -> Sequence[str]:
    """Return `words(text)` and cache them for `remembered_words`: indexing needs them three times."""
    found = _recent.words.get(text)
    return _recent.keep(text, words(text)) if found is None else found


def keep_words(text: str, found: Sequence[str]) -> None:
    """Cache words of `text` that another process computed."""
    _recent.keep(text, found)


def remembered_words(text: str) -> Sequence[str]:
    """Return `words(text)`, from the cache if they are in it."""
    found = _recent.words.get(text)
    return words(text) if found is None else found


def forget_words() -> None:
    """Empty the cache of texts."""
    _recent.clear()


class _Recent:
    """The newest texts and their words, up to `MOST_REMEMBERED` characters."""

    def __init__(self) -> None:
        self.words: dict[str, Sequence[str]] = {}
        self._size = 0
        self._changing = threading.Lock()

    def keep(self, text: str, found: Sequence[str]) -> Sequence[str]:
        with self._changing:
            if text not in self.words and len(text) <= MOST_REMEMBERED:
                self.words[text] = found
                self._size += len(text)
                while self._size > MOST_REMEMBERED:
                    oldest = next(iter(self.words))
                    self._size -= len(oldest)
                    del self.words[oldest]
        return found

    def clear(self) -> None:
        with self._changing:
            self.words.clear()
            self._size = 0


_recent = _Recent()


class _Memory(dict[str, T]):
    """A cache of `find`. When full, the newest quarter is dropped: words met early are usually the frequent ones."""

    def __init__(self, find: Callable[[str], T], most: int, longest: int) -> None:
        super().__init__()
        self._find, self._most, self._longest = find, most, longest

    def __missing__(self, text: str) -> T:
        found = self._find(text)
        if len(text) > self._longest:
            return found
        if len(self) >= self._most:
            for _ in range(self._most // 4):
                self.popitem()
        self[text] = found
        return found


def _words_of_run(run: str) -> tuple[str, ...]:
    """Return the words of a text without spaces."""
    if run.isascii():
        bare = run.strip(_PUNCTUATION)
        if bare.isalpha():
            return _expanded(bare)
        found = _ASCII_TOKEN.findall(run)
    elif not _RARE.search(run):
        found = _SPACED_TOKEN.findall(run)
    else:
        return tuple(chain.from_iterable(map(_of_rare_script, _TOKEN.findall(run))))
    return _expanded(found[0]) if len(found) == 1 else tuple(chain.from_iterable(map(_of_tokens.__getitem__, found)))


def _groups_of_token(token: str) -> Sequence[tuple[str, ...]]:
    # Neighbouring letters of an unspaced script are separate words, not parts of one.
    return [(word,) for word in _of_rare_script(token)] if _IS_UNSPACED.match(token) else [_expanded(token)]


def _of_rare_script(token: str) -> tuple[str, ...]:
    if not _IS_UNSPACED.match(token):
        return _expanded(token)
    return _clusters_together(token) if _STACKED.search(token) else _characters_and_pairs(token)


class Analyzer:
    """Returns the terms of texts in one language; an unknown language ("") has no stop words and no stems."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._stop = STOP_WORDS.get(language, frozenset())
        self._stems = _stems(language)
        self._second = _toned_words if language in _TONAL else _beginnings if language in _WITH_BEGINNINGS else None

    def terms(self, text: str) -> list[str]:
        """Return the stems of the words of `text`, in order, without stop words."""
        return list(map(self._stems.__getitem__, filterfalse(self._stop.__contains__, remembered_words(text))))

    def indexed_terms(self, text: str) -> list[str]:
        """Return what an index stores: the terms, then the words with their tones or their beginnings, if the language has either."""
        found = self.terms(text)
        if self._second is not None:
            kept = filterfalse(self._stop.__contains__, remembered_words(text))
            found += filter(None, map(self._second.__getitem__, kept))
        return found


@cache
def analyzer(language: str) -> Analyzer:
    """Return the analyzer of a language."""
    return Analyzer(language)


def stem(word: str, language: str) -> str:
    """Return the term for `word` (case-folded, as from `words`) in a text of `language`."""
    return _stems(language)[word]


def index_language(language: str) -> str:
    """Return the language by which an index analyses a text in `language`.

    Merges don't use it: they compare texts of an unknown language as they are written.
    """
    return language or UNDETERMINED


def toned(word: str, language: str) -> str:
    """Return the second term for `word`, which keeps its tone; "" in a language without tones or for a plain word."""
    return "" if language not in _TONAL or word.isascii() else _toned_words[word]


def beginning(word: str, language: str) -> str:
    """Return the term for all words that begin like `word`; "" for a short word, and in a language that changes no endings."""
    return _beginnings[word] if language in _WITH_BEGINNINGS else ""


def terms_in_name(name: str, language: str) -> frozenset[str]:
    """Return the terms of all words of a title or path, as pages in that language are indexed."""
    read_as = index_language(language)
    return frozenset(form for word in words(name) for form in (stem(word, read_as), beginning(word, language)) if form)


USUAL_LANGUAGES = ("en", "de", "fr", "es")
"""Languages whose stop words say little in any text. Those of all languages have too many words that mean something in another one."""


def is_stop_word(word: str, languages: Iterable[str] = ()) -> bool:
    """Return whether `word` is a stop word in one of `languages`, or in any known language if none is given."""
    asked = tuple(languages)
    if not asked:
        return word in _ALL_STOP_WORDS
    return any(word in STOP_WORDS.get(language, ()) for language in asked)


def is_part_of_a_run(word: str) -> bool:
    """Return whether `word` (from `words`) was cut out of an unspaced script; such a word has no typing errors or prefixes."""
    return _IS_UNSPACED.match(word) is not None


def is_anywhere_in_a_run(word: str) -> bool:
    """Return whether each text that has the letters of `word` in a row has it as a word.

    That is so in Chinese, Japanese and Korean, and not in Thai, Lao, Khmer and Burmese, where a sign may belong to the letter before.
    """
    return is_part_of_a_run(word) and not _STACKED.match(word)


def name_parts(token: str) -> list[str]:
    """Return the parts of an identifier as they are written: `dumpCsv` and `dump_csv` have two, and `CSVs` has `CSV`."""
    parts = [hump for part in _JOINERS.split(token) for hump in _HUMP.split(part) if hump]
    return [part for at, part in enumerate(parts) if part != "s" or not at or not parts[at - 1].isupper()]


def begins_part(text: str, at: int) -> bool:
    """Return whether a part of a `camelCase` word begins at that place of an ASCII text."""
    return _HUMP.match(text, at) is not None


def end_of_part(text: str, start: int, end: int) -> int:
    """Return where the part of a `camelCase` word ends that begins at `start`; `end` is the end of the word."""
    hump = _HUMP.search(text, start + 1, end)
    return hump.start() if hump else end


def has_letters_outside_ascii(text: str) -> bool:
    """Return whether `text` has a letter outside ASCII."""
    return not text.isascii() and _LETTER_OUTSIDE_ASCII.search(text) is not None


def around_runs(text: str) -> tuple[str, str]:
    """Return `text` as `words` reads it, and the same with one word that nobody asks for in place of each run without spaces."""
    as_composed = composed(text)
    return as_composed, _RUN.sub(f" {_BEGINNING_MARK} ", as_composed)


def _expanded(token: str) -> tuple[str, ...]:
    """Return the word, then the parts if it is an identifier, without those longer than `LONGEST_WORD`."""
    if token.isalpha() and (token.islower() or token.istitle()) and token.isascii():
        return (token.lower(),) if len(token) <= LONGEST_WORD else ()
    token = token.strip("_")
    found = [_fold(token)] if token else []
    parts = name_parts(token)
    if len(parts) > 1 or (parts and parts[0] != token):
        found += [folded for part in parts if (folded := _fold(part)) != found[0]]
    return tuple(word for word in found if word and len(word) <= LONGEST_WORD)


def _fold(word: str) -> str:
    folded = word.casefold()
    if folded.isascii():
        return folded
    # Case-folding decomposes letters (dotted capital I) that NFKC had composed.
    return unicodedata.normalize("NFKC", folded).replace("i\u0307", "i")


def _characters_and_pairs(run: str) -> tuple[str, ...]:
    """Return the characters of an unspaced run, each followed by the pair that it begins; the last one begins no pair."""
    found: list[str] = []
    for index, character in enumerate(run[:-1]):
        found += (character, run[index : index + 2])
    return (*found, run[-1])


def _clusters_together(run: str) -> tuple[str, ...]:
    """Return all runs of two and three adjacent letters with their marks; in Khmer and Burmese of one and two.

    A single letter of Thai means as little as a Latin one. In Khmer and Burmese a letter with its marks is a syllable.
    """
    found = _CLUSTER.findall(run)
    lengths = (2, 3) if run[0] < "\u1000" else (1, 2)
    if len(found) < lengths[0]:
        return tuple(found)
    return tuple(
        together
        for at in range(len(found))
        for length in lengths
        if at + length <= len(found) and len(together := "".join(found[at : at + length])) <= LONGEST_WORD
    )


_words_of_runs = _Memory(_words_of_run, CACHED_RUNS, LONGEST_CACHED_RUN)
_of_tokens = _Memory(_expanded, CACHED_TOKENS, LONGEST_CACHED_RUN)
"""The words of the parts of addresses and other runs: they repeat, even where the whole run is too long to be cached."""


def _with_tone(word: str) -> str:
    """Return `word` with the mark of its tone at the end; "" if it has only plain letters.

    The mark is written above one letter or another of the same word: `hòa` and `hoà`.
    """
    if word.isascii():
        return ""
    letters = unicodedata.normalize("NFD", word)
    marks = "".join(letter for letter in letters if letter in _TONES)
    return unicodedata.normalize("NFC", "".join(letter for letter in letters if letter not in _TONES) + marks)


_toned_words = _Memory(_with_tone, CACHED_STEMS, LONGEST_WORD)


def _beginning(word: str) -> str:
    if len(word) < BEGINNING_LETTERS or _IS_UNSPACED.match(word) or not _LETTERS_ONLY.fullmatch(word):
        return ""
    return without_accents(word)[:BEGINNING_LETTERS] + _BEGINNING_MARK


_beginnings = _Memory(_beginning, CACHED_STEMS, LONGEST_WORD)


@cache
def _stems(language: str) -> _Memory[str]:
    """Return the cached terms of a language, by word."""
    return _Memory(_stemmer(language), CACHED_STEMS, LONGEST_WORD)


def _stemmer(language: str) -> Callable[[str], str]:
    if language == UNDETERMINED:
        english = _stemmer("en")
        return lambda word: english(word) if word.isascii() else without_accents(word)
    algorithm = _ALGORITHMS.get(language)
    if algorithm is None:
        return without_accents
    if algorithm not in Stemmer.algorithms():
        return without_accents
    # A stemmer object stores its current word, so threads must not share one.
    of_thread = threading.local()

    def term(word: str) -> str:
        if not word.isascii():
            word = word.translate(_POINTS) or word
        if not word.isalpha():
            return without_accents(word)
        if not hasattr(of_thread, "stemmer"):
            of_thread.stemmer = Stemmer.Stemmer(algorithm, 0)  # without its own cache: `_stems` is one
        # The Turkish stemmer takes all of `leri` away, which is a word of its own behind an apostrophe (`API'leri`).
        return without_accents(str(of_thread.stemmer.stemWord(word)) or word)

    if language == "en":
        return lambda word: one_stem(term(american(word)))
    return term


def without_accents(word: str) -> str:
    """Return `word` with bare Latin and Greek letters; in other scripts marks distinguish letters and stay."""
    if word.isascii():
        return word
    if _POINTED.search(word):
        # As people type it: without vowel points, and with one letter for interchangeable ones.
        word = word.translate(_POINTS).translate(_ONE_LETTER) or word
    bare: list[str] = []
    base = ""
    for character in unicodedata.normalize("NFD", word.translate(_PLAIN_LETTERS)):
        if "\u0300" <= character <= "\u036f" and base < "\u0400":
            continue
        if not unicodedata.combining(character):
            base = character
        bare.append(character)
    return unicodedata.normalize("NFC", "".join(bare)) or word
