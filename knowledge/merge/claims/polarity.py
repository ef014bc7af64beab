"""Relations between words that decide a comparison: antonyms, synonyms, and words of one sort (`linux`, `windows`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache

from knowledge.merge.claims.lexicon import GENERIC, OPPOSITES, QUALIFYING, SORTS, SYNONYMS
from knowledge.search.query.analysis import stem

REMEMBERED = 65_536
"""Words whose place in the tables is cached; a page has a few thousand."""

CLOSE_ONLY = frozenset({"when", "compare", "mandate", "same", "truth", "inclusive", "grow", "positive", "success"})
"""Axes whose words also occur side by side in ordinary text ("before the first and after the last"): they are opposites only
where the rest of the statements is nearly the same."""

_DENYING_PREFIXES = ("un", "in", "im", "ir", "il", "non", "non-", "dis", "nicht")


@cache
def _axes(language: str) -> Mapping[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for axis, ends in OPPOSITES.items():
        for sign, words in zip((1, -1), ends, strict=True):
            for word in words.split():
                if language != "en":
                    # English words are listed in all their forms, and "option" has the stem of "optional".
                    found.setdefault(stem(word, language), (axis, sign))
                found[word] = axis, sign
    return found


@lru_cache(REMEMBERED)
def axis_of(word: str, language: str) -> tuple[str, int] | None:
    """Return the axis of opposites that `word` (case-folded) lies on, and its end (1 or -1); None if it has no opposite."""
    known = _axes(language)
    return known.get(word) or (known.get(stem(word, language)) if language != "en" else None)


@lru_cache(REMEMBERED)
def canonical(word: str, language: str) -> str:
    """Return the term that represents `word` and its synonyms."""
    return stem(SYNONYMS.get(word, word), language)


@cache
def _generic(language: str) -> frozenset[str]:
    return GENERIC | {canonical(word, language) for word in GENERIC}


def weight(term: str, names: frozenset[str], language: str) -> float:
    """Return how much a term says about the subject: names most, words like `set` and `value` little.

    "PHP 8.1 oder neuer ist erforderlich" and "erforderlich ist mindestens PHP 8.1" differ in such words only. "FY22 plans are due
    November 9" and "FY23 plans are due November 10" differ in a name.
    """
    if term in _generic(language):
        return 0.25
    return 1.6 if term in names else 1.0


@cache
def _sorts(language: str) -> Mapping[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, words in enumerate(SORTS):
        for word in words.split():
            for term in (word, canonical(word, language)):
                found.setdefault(term, set()).add(number)
    return {term: frozenset(numbers) for term, numbers in found.items()}


def have_contrast(ours: Iterable[str], theirs: Iterable[str], language: str) -> bool:
    """Return whether a term of each side names a different subject of one sort: `linux`, `windows`."""
    known = _sorts(language)
    numbers = {number for term in ours for number in known.get(term, ())}
    return any(not numbers.isdisjoint(known.get(term, ())) for term in theirs)


def names_case(terms: Iterable[str], language: str) -> bool:
    """Return whether one of the terms names the platform, environment, architecture or plan to which a statement applies."""
    known = _sorts(language)
    return any(number < QUALIFYING for term in terms for number in known.get(term, ()))


def opposite_by_prefix(ours: str, theirs: str) -> bool:
    """Return whether one term is the other with a negating prefix: `stable`, `unstable`."""
    short, long = sorted((ours, theirs), key=len)
    return len(short) >= 4 and long.endswith(short) and long[: -len(short)] in _DENYING_PREFIXES
