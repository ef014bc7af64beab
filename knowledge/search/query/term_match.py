"""Matches the words of a question with a chunk. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from knowledge.index.ports import QueryTerm
from knowledge.search.query.analysis import stem, words
from knowledge.state.ports import ChunkRow

STEM_LETTERS = 3
"""A stem keeps at least this much of the beginning of its word."""
LOOKED_CHARACTERS = 4_000
"""Characters of a chunk that are searched; only an uncut table or fence has more."""
MOST_STEMMED = 6
"""Words of a chunk that are stemmed for each beginning; ordinary ones such as `con` are everywhere."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LETTERS = re.compile(r"[^\W_]*")


class TermMatcher:
    """Finds the words of a question in chunks. Stemming is what costs, so only words with the right beginning are stemmed."""

    def __init__(self, terms: Sequence[QueryTerm]) -> None:
        self._wanted = [_wanted(term) for term in terms]
        self._beginnings = tuple(start for term in self._wanted for start in term.beginnings)

    def matches(self, row: ChunkRow) -> Mapping[str, float]:
        """Return the question's words in the chunk, its headings or its page's title, with the weight of the best form."""
        return dict(self._found(f"{' '.join(row.section)} {row.title} {row.text[:LOOKED_CHARACTERS]}", row.language))

    def named(self, row: ChunkRow) -> Mapping[str, float]:
        """Return the question's words in the chunk's headings, its page's title or its path, with the weight of the best form."""
        return dict(self._found(f"{' '.join(row.section)} {row.title} {row.path}", row.language))

    def _found(self, text: str, language: str) -> Iterator[tuple[str, float]]:
        # With letters outside ASCII, accents fold and words may have no spaces between them, so the text is taken apart.
        # Taking all of it apart costs ten times as much as looking for beginnings.
        ascii_letters = not any(map(str.isalpha, _NOT_ASCII.findall(text)))
        if ascii_letters:
            lower = text.lower()
        else:
            near = (word for word in set(words(text)) if not word.isascii() or word.startswith(self._beginnings))
            stems = frozenset(stem(word, language) for word in near)
        for term in self._wanted:
            if ascii_letters:
                near = (word for start in term.beginnings for word in _words_with(lower, start))
                stems = frozenset(stem(word, language) for word in near)
            weight = max((term.weights[form] for form in stems & term.weights.keys()), default=0.0)
            if weight:
                yield term.word, weight


class _WantedTerm(NamedTuple):
    """A word of a question, its terms with their weights, and the beginnings of words that may have one of its stems."""

    word: str
    weights: Mapping[str, float]
    beginnings: tuple[str, ...]


def _wanted(term: QueryTerm) -> _WantedTerm:
    starts = {form[: max(STEM_LETTERS, len(form) - 1)] for form, _ in term.alternatives}
    shortest = tuple(one for one in starts if not any(one != other and one.startswith(other) for other in starts))
    return _WantedTerm(term.word, dict(term.alternatives), shortest)


def _words_with(text: str, beginning: str) -> set[str]:
    """Return the first words of `text` that begin with `beginning`."""
    found: set[str] = set()
    at = text.find(beginning)
    while at >= 0 and len(found) < MOST_STEMMED:
        end = at + len(beginning)
        # At the beginning of a word only: `vault` is not in `avault`.
        if not at or not text[at - 1].isalnum():
            rest = _LETTERS.match(text, end)
            end = rest.end() if rest else end
            found.add(text[at:end])
        at = text.find(beginning, end)
    return found
