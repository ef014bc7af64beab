"""Which words of a question a chunk says. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from knowledge.index.ports import QueryTerm
from knowledge.search.query.analysis import stem, words
from knowledge.state.ports import ChunkRow

ALIKE_LETTERS = 3
"""A stem keeps at least so much of the beginning of its word."""
LOOKED_CHARACTERS = 4_000
"""Of one chunk; only an uncut table or fence has more."""
MOST_ALIKE = 6
"""Words of a chunk that are stemmed for one asked word; ordinary beginnings such as `con` are everywhere."""
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LETTERS = re.compile(r"[^\W_]*")


class AskedWords:
    """The words of a question, ready to be looked for in chunks."""

    def __init__(self, terms: Sequence[QueryTerm]) -> None:
        self._looked_for = [_looked_for(term) for term in terms]

    def said_in(self, row: ChunkRow) -> Mapping[str, float]:
        """Return which of the words stand in the chunk, its headings or its page's title, with the weight of the form found."""
        text = f"{' '.join(row.section)} {row.title} {row.text[:LOOKED_CHARACTERS]}"
        return dict(_had(self._looked_for, text, row.language))


class _LookedFor(NamedTuple):
    """An asked word, the terms that count as it with their weights, and how words begin that may become such a term."""

    word: str
    weights: Mapping[str, float]
    beginnings: tuple[str, ...]


def _looked_for(term: QueryTerm) -> _LookedFor:
    beginnings = {form[: max(ALIKE_LETTERS, len(form) - 1)] for form, _ in term.alternatives}
    shortest = tuple(
        one for one in beginnings if not any(one != other and one.startswith(other) for other in beginnings)
    )
    return _LookedFor(term.word, dict(term.alternatives), shortest)


def _had(terms: Sequence[_LookedFor], text: str, language: str) -> Iterator[tuple[str, float]]:
    """Yield which of `terms` are in `text`. Only words that begin like one of them are stemmed: that is what costs."""
    lower = text.lower()
    # Accents fold, and not every script has blanks; dashes and quotes change nothing.
    plain = not any(map(str.isalpha, _NOT_ASCII.findall(text)))
    stems = frozenset[str]() if plain else _stems_like(terms, text, language)
    for term in terms:
        if plain:
            stems = frozenset(stem(word, language) for start in term.beginnings for word in _alike(lower, start))
        weight = max((term.weights[form] for form in stems & term.weights.keys()), default=0.0)
        if weight:
            yield term.word, weight


def _stems_like(terms: Sequence[_LookedFor], text: str, language: str) -> frozenset[str]:
    beginnings = tuple(start for term in terms for start in term.beginnings)
    near = (word for word in set(words(text)) if not word.isascii() or word.startswith(beginnings))
    return frozenset(stem(word, language) for word in near)


def _alike(text: str, beginning: str) -> set[str]:
    """Return the words of `text` that begin with `beginning`; taking all of it apart costs ten times this."""
    found: set[str] = set()
    at = text.find(beginning)
    while at >= 0 and len(found) < MOST_ALIKE:
        end = at + len(beginning)
        if not at or not text[at - 1].isalnum():
            rest = _LETTERS.match(text, end)
            end = rest.end() if rest else end
            found.add(text[at:end])
        at = text.find(beginning, end)
    return found
