"""Finds out which words of a question a chunk has. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType

from knowledge.index.ports import QueryTerm
from knowledge.pages.markdown.language import STOP_WORDS
from knowledge.search.query.analysis import (
    around_runs,
    beginning,
    begins_part,
    end_of_part,
    has_letters_outside_ascii,
    index_language,
    is_anywhere_in_a_run,
    is_part_of_a_run,
    is_stop_word,
    stem,
    toned,
    without_accents,
    words,
)
from knowledge.search.query.spellings import letters_in_both
from knowledge.state.ports import ChunkRow

STEM_LETTERS = 3
"""Letters that a word and its stem are assumed to share at the beginning."""
LOOKED_CHARACTERS = 20_000
"""Characters of a chunk that are searched; only a chunk with one endless line has more."""
MOST_STEMMED = 6
"""Different words of a chunk that are stemmed for each prefix; short prefixes such as `con` are everywhere."""
MOST_PLACES = 24
"""Occurrences of one prefix in a chunk that are examined."""
KEEPS_FRONTS = frozenset(STOP_WORDS) - {"ar", "id", "nl", "tr"} | {""}
"""Languages whose stems begin with the letter with which the word begins."""
WITH_RUNS = frozenset({"ja", "ko", "zh"})
"""Languages whose texts are mostly runs that need not be cut into words."""
FEW_OF_A_TIME, WEIGHT_OF_COMMON_TIME = 8, 0.5
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
    """Finds the words of a question in chunks. Stemming is the slow part, so only words with a matching prefix are stemmed.

    `times` are those of the question, as it writes them, each with the documents of that time.
    """

    def __init__(
        self,
        terms: Sequence[QueryTerm],
        pairs: Sequence[tuple[str, str]] = (),
        times: Mapping[str, Collection[int]] = MappingProxyType({}),
    ) -> None:
        self._pairs, self._times = pairs, times
        self._of_form: dict[str, list[tuple[str, float]]] = {}
        for term in terms:
            # Relative to its best form: the parts of a compound weigh less in a search, but are as much in a chunk as other words.
            best = max((weight for _, weight in term.alternatives), default=1.0)
            for form, weight in term.alternatives:
                self._of_form.setdefault(form, []).append((term.word, weight / best))
        # Looking for an empty one would never end.
        self._beginnings = tuple(dict.fromkeys(start for term in terms for start in _beginnings_of(term) if start))
        self._runs = [form for form in self._of_form if is_anywhere_in_a_run(form)]
        self._cuts_runs = any(is_part_of_a_run(form) for form in self._of_form.keys() - self._runs)
        """Whether runs of scripts without spaces must be cut into words to find all forms."""
        self._readings: dict[str, _Readings] = {}

    def match(self, row: ChunkRow) -> ChunkMatch:
        """Return the part of the question that is in the chunk, its headings, its page's title, and the time that the page is of."""
        found = self._in_text(row)
        return ChunkMatch({**found.words, **self._dated(row)}, found.pairs) if self._times else found

    def _dated(self, row: ChunkRow) -> dict[str, float]:
        """Return the times that the page is of, and their words; those of a time that many pages are of count half."""
        dated = {written: docs for written, docs in self._times.items() if row.doc in docs}
        return {
            word: WEIGHT_OF_COMMON_TIME if len(docs) > FEW_OF_A_TIME else 1.0
            for written, docs in dated.items()
            for word in (written, *words(written))
        }

    def _in_text(self, row: ChunkRow) -> ChunkMatch:
        text = searched_text(row)
        readings = self._readings.get(row.language)
        if readings is None:
            readings = self._readings[row.language] = _Readings(self._of_form, row.language)
        # With letters outside ASCII, accents fold and words may have no spaces between them, so the text is taken apart.
        # Taking all of it apart costs three times as much as looking for beginnings.
        if has_letters_outside_ascii(text):
            return self._in_words(text, readings)
        return self._in_ascii(text, readings)

    def _in_ascii(self, written: str, readings: _Readings) -> ChunkMatch:
        text = written.lower()
        found: dict[str, float] = {}
        places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        for start in self._beginnings:
            if start not in text:
                continue
            whole, parts = _places(text, start, written)
            for place in whole:
                if asked := readings[text[place[0] : place[1]]]:
                    _add(asked, found)
                    for word, _ in asked:
                        places[word].append(place)
            # Parts count as words and not as neighbours: that put pages of examples before those that explain.
            for begin, end in parts:
                _add(readings[text[begin:end]] or (), found)
        having = sum(
            first in places and second in places and _adjacent(text, places[first], places[second], readings.language)
            for first, second in self._pairs
        )
        return ChunkMatch(found, having / max(len(self._pairs), 1))

    def _in_words(self, text: str, readings: _Readings) -> ChunkMatch:
        found: dict[str, float] = {}
        if not self._cuts_runs and (self._runs or readings.language in WITH_RUNS):
            text, rest = around_runs(text)
            for form in self._runs:
                if form in text:
                    _add(self._of_form[form], found)
            text = rest
        read = [one for one in map(readings.__getitem__, words(text)) if one is not None]
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


class _Readings(dict[str, tuple[tuple[str, float], ...] | None]):
    """What each word of a text counts as: the question's words with their weights, none of them, or None for a stop word."""

    def __init__(self, of_form: Mapping[str, Sequence[tuple[str, float]]], language: str) -> None:
        super().__init__()
        self._of_form, self.language = of_form, language
        self._stop = STOP_WORDS.get(language, frozenset())
        # By their first letter most words show that they were not asked for, and to look words up takes most of the time.
        self._first_letters = {form[:1] for form in of_form}
        self._looks_up_all = language not in KEEPS_FRONTS

    def __missing__(self, word: str) -> tuple[tuple[str, float], ...] | None:
        reading: tuple[tuple[str, float], ...] = ()
        if self._looks_up_all or first_letter(word[:1]) in self._first_letters:
            asked: dict[str, float] = {}
            for form in (
                stem(word, index_language(self.language)),
                toned(word, self.language),
                beginning(word, self.language),
            ):
                _add(self._of_form.get(form, ()), asked)
            reading = tuple(asked.items())
        self[word] = found = reading or (None if word in self._stop else ())
        return found


def searched_text(row: ChunkRow) -> str:
    """Return the headings, the title and the text of a chunk, as far as words are looked for in them."""
    return f"{' '.join(row.section)} {row.title} {row.text[:LOOKED_CHARACTERS]}"


@lru_cache(maxsize=4_096)
def first_letter(letter: str) -> str:
    """Return the first letter of a word as its forms have it: without an accent, and the first one of two (`œ`)."""
    return without_accents(letter)[:1]


def _add(asked: Iterable[tuple[str, float]], found: dict[str, float]) -> None:
    """Add words with their weights; of a word that is there, the higher weight stays."""
    for word, weight in asked:
        found[word] = max(weight, found.get(word, 0.0))


def _beginnings_of(term: QueryTerm) -> list[str]:
    """Return the prefixes of all words that may have one of the term's forms."""
    starts = {form[: max(STEM_LETTERS, min(len(form) - 1, letters_in_both(form)))] for form, _ in term.alternatives}
    return sorted(one for one in starts if not any(one != other and one.startswith(other) for other in starts))


def _places(text: str, beginning: str, written: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the places of words, and of parts of `camelCase` words, that begin with `beginning`: of the first few different ones.

    `text` is `written` in lower case.
    """
    whole: list[tuple[int, int]] = []
    parts: list[tuple[int, int]] = []
    different: set[str] = set()
    at = text.find(beginning)
    while at >= 0 and len(whole) < MOST_PLACES and len(different) < MOST_STEMMED:
        end = at + len(beginning)
        # At the beginning of a word or a part only: `vault` is not in `avault`.
        is_whole = not at or not text[at - 1].isalnum()
        if is_whole or (written[at].isupper() and begins_part(written, at)):
            rest = _LETTERS.match(text, end)
            end = rest.end() if rest else end
            part_end = end if written[at + 1 : end].islower() else end_of_part(written, at, end)
            if is_whole:
                whole.append((at, end))
                different.add(text[at:end])
            if not is_whole or part_end < end:
                parts.append((at, part_end))
                different.add(text[at:part_end])
            end = max(part_end, at + len(beginning))
        at = text.find(beginning, end)
    return whole, parts


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
