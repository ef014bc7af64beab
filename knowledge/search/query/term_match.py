"""Finds out which words of a question a chunk has. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from knowledge.index.ports import QueryTerm
from knowledge.pages.markdown.language import STOP_WORDS
from knowledge.search.query.analysis import (
    around_runs,
    beginning,
    has_letters_outside_ascii,
    is_anywhere_in_a_run,
    is_part_of_a_run,
    is_stop_word,
    stem,
    toned,
    without_accents,
    words,
)
from knowledge.state.ports import ChunkRow

STEM_LETTERS = 3
"""Letters that a word and its stem are assumed to share at the beginning."""
LOOKED_CHARACTERS = 4_000
"""Characters of a chunk that are searched; only a chunk with one endless line has more."""
MOST_STEMMED = 6
"""Different words of a chunk that are stemmed for each prefix; short prefixes such as `con` are everywhere."""
MOST_PLACES = 24
"""Occurrences of one prefix in a chunk that are examined."""
KEEPS_FRONTS = frozenset(STOP_WORDS) - {"ar", "id", "nl", "tr"} | {""}
"""Languages whose stems begin with the letter with which the word begins."""
WITH_RUNS = frozenset({"ja", "ko", "zh"})
"""Languages whose texts are mostly runs that need not be cut into words."""
MOST_BETWEEN = 2
"""Stop words that may stand between two neighbours."""
_LETTERS = re.compile(r"[^\W_]*")
_GAP = re.compile(r"[\W_]*")


@dataclass(frozen=True, slots=True)
class ChunkMatch:
    """The part of a question that is in a chunk.

    `words`: the question's words that the chunk has, each with the weight of its best form. `pairs`: the share of the
    question's pairs of neighbours that are neighbours in the chunk too, 0..1.
    """

    words: Mapping[str, float]
    pairs: float


class TermMatcher:
    """Finds the words of a question in chunks. Stemming is the slow part, so only words with a matching prefix are stemmed."""

    def __init__(self, terms: Sequence[QueryTerm], pairs: Sequence[tuple[str, str]] = ()) -> None:
        self._wanted = [_wanted(term) for term in terms]
        self._pairs = pairs
        self._weights: dict[str, Sequence[_FormWeights]] = {}
        self._readings: dict[str, _Readings] = {}
        self._of_form: dict[str, list[tuple[str, float]]] = {}
        for term in self._wanted:
            for form, weight in term.weights.items():
                self._of_form.setdefault(form, []).append((term.word, weight))
        self._runs = [form for form in self._of_form if is_anywhere_in_a_run(form)]
        self._cuts_runs = any(is_part_of_a_run(form) for form in self._of_form.keys() - self._runs)
        """Whether runs of scripts without spaces must be cut into words to find all forms."""

    def match(self, row: ChunkRow) -> ChunkMatch:
        """Return the part of the question that is in the chunk, its headings or its page's title."""
        text = f"{' '.join(row.section)} {row.title} {row.text[:LOOKED_CHARACTERS]}"
        # With letters outside ASCII, accents fold and words may have no spaces between them, so the text is taken apart.
        # Taking all of it apart costs three times as much as looking for beginnings.
        if has_letters_outside_ascii(text):
            return self._in_words(text, row.language)
        return self._in_ascii(text.lower(), row.language)

    def _in_ascii(self, text: str, language: str) -> ChunkMatch:
        found: dict[str, float] = {}
        places: dict[str, list[tuple[int, int]]] = {}
        for term, weights in zip(self._wanted, self._weights_in(language), strict=True):
            best = 0.0
            for start in term.beginnings:
                for a, b in _places(text, start) if start in text else ():
                    if weight := weights[text[a:b]]:
                        best = max(best, weight)
                        places.setdefault(term.word, []).append((a, b))
            if best:
                found[term.word] = best
        having = sum(
            first in places and second in places and _adjacent(text, places[first], places[second], language)
            for first, second in self._pairs
        )
        return ChunkMatch(found, having / max(len(self._pairs), 1))

    def _weights_in(self, language: str) -> Sequence[_FormWeights]:
        """Return the weights of forms for each wanted term, in a text of that language; chunks have many forms in common."""
        if language not in self._weights:
            self._weights[language] = [_FormWeights(term.weights, language) for term in self._wanted]
        return self._weights[language]

    def _in_words(self, text: str, language: str) -> ChunkMatch:
        found: dict[str, float] = {}
        if not self._cuts_runs and (self._runs or language in WITH_RUNS):
            text, rest = around_runs(text)
            for form in self._runs:
                if form in text:
                    _add(self._of_form[form], found)
            text = rest
        if language not in self._readings:
            self._readings[language] = _Readings(self._of_form, language)
        read = [one for one in map(self._readings[language].__getitem__, words(text)) if one is not None]
        for asked in set(read):
            _add(asked, found)
        if not self._pairs:
            return ChunkMatch(found, 0.0)
        neighbours = {
            (one, other)
            for first, second in pairwise(read)
            if first and second
            for one, _ in first
            for other, _ in second
        }
        return ChunkMatch(found, sum(pair in neighbours for pair in self._pairs) / len(self._pairs))


class _WantedTerm(NamedTuple):
    """A word of a question, its terms with their weights, and the prefixes of words that may have one of its stems."""

    word: str
    weights: Mapping[str, float]
    beginnings: tuple[str, ...]


class _FormWeights(dict[str, float]):
    """The weight of each form of a word in a text, by a term's weights; 0 for a form that does not count as the term."""

    def __init__(self, of_term: Mapping[str, float], language: str) -> None:
        super().__init__()
        self._of_term, self._language = of_term, language

    def __missing__(self, form: str) -> float:
        terms = stem(form, self._language), beginning(form, self._language)
        weight = self[form] = max(self._of_term.get(term, 0.0) for term in terms)
        return weight


class _Readings(dict[str, tuple[tuple[str, float], ...] | None]):
    """What each word of a text counts as: the question's words with their weights, none of them, or None for a stop word."""

    def __init__(self, of_form: Mapping[str, Sequence[tuple[str, float]]], language: str) -> None:
        super().__init__()
        self._of_form, self._language = of_form, language
        self._stop = STOP_WORDS.get(language, frozenset())
        # By their first letter most words show that they were not asked for, and to look words up takes most of the time.
        self._first_letters = {form[:1] for form in of_form}
        self._looks_up_all = language not in KEEPS_FRONTS

    def __missing__(self, word: str) -> tuple[tuple[str, float], ...] | None:
        reading: tuple[tuple[str, float], ...] = ()
        if self._looks_up_all or first_letter(word[:1]) in self._first_letters:
            asked: dict[str, float] = {}
            for form in (stem(word, self._language), toned(word, self._language), beginning(word, self._language)):
                _add(self._of_form.get(form, ()), asked)
            reading = tuple(asked.items())
        self[word] = found = reading or (None if word in self._stop else ())
        return found


@lru_cache(maxsize=4_096)
def first_letter(letter: str) -> str:
    """Return the first letter of a word as its forms have it: without an accent, and the first one of two (`œ`)."""
    return without_accents(letter)[:1]


def _add(asked: Iterable[tuple[str, float]], found: dict[str, float]) -> None:
    """Add words with their weights; of a word that is there, the higher weight stays."""
    for word, weight in asked:
        found[word] = max(weight, found.get(word, 0.0))


def _wanted(term: QueryTerm) -> _WantedTerm:
    # Relative to its best form: the parts of a compound weigh less in a search, but are as much in a chunk as other words.
    best = max((weight for _, weight in term.alternatives), default=1.0)
    starts = {form[: max(STEM_LETTERS, len(form) - 1)] for form, _ in term.alternatives}
    shortest = tuple(one for one in starts if not any(one != other and one.startswith(other) for other in starts))
    return _WantedTerm(term.word, {form: weight / best for form, weight in term.alternatives}, shortest)


def _places(text: str, beginning: str) -> list[tuple[int, int]]:
    """Return the places of words in `text` that begin with `beginning`, of the first few different words."""
    found: list[tuple[int, int]] = []
    different: set[str] = set()
    at = text.find(beginning)
    while at >= 0 and len(found) < MOST_PLACES and len(different) < MOST_STEMMED:
        end = at + len(beginning)
        # At the beginning of a word only: `vault` is not in `avault`.
        if not at or not text[at - 1].isalnum():
            rest = _LETTERS.match(text, end)
            end = rest.end() if rest else end
            found.append((at, end))
            different.add(text[at:end])
        at = text.find(beginning, end)
    return found


def _adjacent(text: str, first: Sequence[tuple[int, int]], second: Sequence[tuple[int, int]], language: str) -> bool:
    """Return whether a word of `second` follows one of `first`, with at most `MOST_BETWEEN` stop words between them."""
    starts = {start for start, _ in second}
    for _, end in first:
        at = end
        for _ in range(MOST_BETWEEN + 1):
            at = _end(_GAP, text, at)
            if at in starts:
                return True
            end_of_word = _end(_LETTERS, text, at)
            if end_of_word == at or not is_stop_word(text[at:end_of_word], (language,)):
                break
            at = end_of_word
    return False


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
