"""Finds out which words of a question a chunk has. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from knowledge.index.ports import QueryTerm
from knowledge.search.query.analysis import beginning, is_stop_word, stem, toned, words
from knowledge.state.ports import ChunkRow

STEM_LETTERS = 3
"""Letters that a word and its stem are assumed to share at the beginning."""
LOOKED_CHARACTERS = 4_000
"""Characters of a chunk that are searched; only a chunk with one endless line has more."""
MOST_STEMMED = 6
"""Different words of a chunk that are stemmed for each prefix; short prefixes such as `con` are everywhere."""
MOST_PLACES = 24
"""Occurrences of one prefix in a chunk that are examined."""
MOST_BETWEEN = 2
"""Stop words that may stand between two neighbours."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
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
        self._beginnings = tuple(start for term in self._wanted for start in term.beginnings)
        self._pairs = pairs

    def match(self, row: ChunkRow) -> ChunkMatch:
        """Return the part of the question that is in the chunk, its headings or its page's title."""
        text = f"{' '.join(row.section)} {row.title} {row.text[:LOOKED_CHARACTERS]}"
        # With letters outside ASCII, accents fold and words may have no spaces between them, so the text is taken apart.
        # Taking all of it apart costs ten times as much as looking for beginnings.
        if not text.isascii() and any(map(str.isalpha, _NOT_ASCII.findall(text))):
            return self._in_words(text, row.language)
        return self._in_ascii(text.lower(), row.language)

    def _in_ascii(self, text: str, language: str) -> ChunkMatch:
        found: dict[str, float] = {}
        places: dict[str, list[tuple[int, int]]] = {}
        for term in self._wanted:
            spans = [span for start in term.beginnings if start in text for span in _places(text, start)]
            if not spans:
                continue
            forms = {text[a:b] for a, b in spans[:MOST_PLACES]}
            weights = {form: max(map(term.weight, (stem(form, language), beginning(form, language)))) for form in forms}
            if weight := max(weights.values(), default=0.0):
                found[term.word] = weight
                places[term.word] = [(a, b) for a, b in spans if weights.get(text[a:b])]
        having = sum(
            first in places and second in places and _adjacent(text, places[first], places[second], language)
            for first, second in self._pairs
        )
        return ChunkMatch(found, having / max(len(self._pairs), 1))

    def _in_words(self, text: str, language: str) -> ChunkMatch:
        of_term: dict[str, list[tuple[str, float]]] = {}
        stems: list[str] = []
        others: set[str] = set()
        for word in words(text):
            if word.isascii() and not word.startswith(self._beginnings):
                # A content word that was not asked for: words on either side of it are no neighbours.
                if not is_stop_word(word, (language,)):
                    stems.append("")
            else:
                stems.append(stem(word, language))
                others.update((toned(word, language), beginning(word, language)))
        for term in self._wanted:
            for form, weight in term.weights.items():
                of_term.setdefault(form, []).append((term.word, weight))
        found: dict[str, float] = {}
        for form in others.union(stems) & of_term.keys():
            for word, weight in of_term[form]:
                found[word] = max(weight, found.get(word, 0.0))
        if not self._pairs:
            return ChunkMatch(found, 0.0)
        neighbours = {
            (one, other)
            for first, second in pairwise(stems)
            if first in of_term and second in of_term
            for one, _ in of_term[first]
            for other, _ in of_term[second]
        }
        return ChunkMatch(found, sum(pair in neighbours for pair in self._pairs) / len(self._pairs))


class _WantedTerm(NamedTuple):
    """A word of a question, its terms with their weights, and the prefixes of words that may have one of its stems."""

    word: str
    weights: Mapping[str, float]
    beginnings: tuple[str, ...]

    def weight(self, form: str) -> float:
        """Return the weight of an indexed term, 0 if it does not count as this word."""
        return self.weights.get(form, 0.0)


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
