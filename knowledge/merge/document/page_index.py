"""What a page says, found by equal text and by shared terms. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from knowledge.merge.claims.statements import (
    Statement,
    likeness,
    statements_of,
)
from knowledge.merge.evidence.rephrase import bare_text, folded_lines
from knowledge.merge.model import (
    Unit,
    unit_digest,
)

CANDIDATES = 6
MOST_EQUAL = 50
"""Equal statements of the page that a new one is held against."""
MOST_HOLDERS = 500
"""Statements that are looked at for one new one; what shares only frequent terms with it is not about the same."""


MOST_BLOCKS = 64
"""Blocks of code, quotes, HTML that a new one is held against."""
_BLOCKS = frozenset({"fence", "code", "html", "quote", "comment"})

Allowed = Callable[[int], bool]


class NearStatement(NamedTuple):
    """A statement of the page and how it stands to a new one."""

    statement: Statement
    likeness: float


class PageIndex:
    """What the page says, found by equal text and by shared terms."""

    def __init__(self, page: Sequence[Unit], language: str) -> None:
        self.units, self.language = page, language
        self._by_digest: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        self._of_unit: dict[int, list[Statement]] = {}
        self._by_term: dict[str, list[Statement]] | None = None
        self._by_fold: dict[str, list[Statement]] = defaultdict(list)
        self._near: dict[str, list[NearStatement]] = {}
        self._by_line: dict[tuple[str, str], list[int]] | None = None
        for number, unit in enumerate(page):
            self._by_digest[sort_of(unit), unit_digest(said_in(unit))].append(number)

    def equal(self, unit: Unit, allowed: Allowed) -> int | None:
        """Return the unit of the page with the same text."""
        same = self._by_digest.get((sort_of(unit), unit_digest(said_in(unit))), ())
        return next((number for number in same if allowed(number)), None)

    def of_unit(self, number: int) -> list[Statement]:
        """Return the statements of that unit."""
        if number not in self._of_unit:
            unit = self.units[number]
            self._of_unit[number] = [one._replace(unit=number) for one in statements_of([unit], self.language)]
        return self._of_unit[number]

    def with_lines(self, kind: str, lines: Sequence[str]) -> list[int]:
        """Return the units of that kind that have a line of these, in order; of very many those with most of the rarer ones."""
        if self._by_line is None:
            self._by_line = defaultdict(list)
            for number, unit in enumerate(self.units):
                if unit.kind in _BLOCKS:
                    for line in dict.fromkeys(block_lines(unit.text)):
                        self._by_line[unit.kind, line].append(number)
        shared: Counter[int] = Counter()
        for holders in sorted((self._by_line.get((kind, line), []) for line in dict.fromkeys(lines)), key=len):
            shared.update(holders[:MOST_BLOCKS])
        return sorted(number for number, _ in shared.most_common(MOST_BLOCKS))

    def near(self, new: Statement) -> list[NearStatement]:
        """Return the statements that have most in common with `new`, equal ones first."""
        if new.reading.text not in self._near:
            self._near[new.reading.text] = self._nearest(new)
        return self._near[new.reading.text]

    def _nearest(self, new: Statement) -> list[NearStatement]:
        by_term = self._terms()
        shared: dict[int, float] = defaultdict(float)
        met: dict[int, Statement] = {}
        room = MOST_HOLDERS
        for holders in sorted((by_term.get(term, []) for term in set(new.reading.terms)), key=len):
            room -= len(holders)
            if room < 0 and shared:
                break
            for one in holders[:MOST_HOLDERS]:
                met[id(one)] = one
                shared[id(one)] += 1 / (1 + len(holders))
        best = sorted(shared, key=lambda key: -shared[key])[: CANDIDATES * 2]
        equal = self._by_fold.get(new.reading.folded, [])[:MOST_EQUAL]
        found = [NearStatement(one, 1.0) for one in equal]
        rest = [
            NearStatement(met[key], likeness(met[key].reading, new.reading))
            for key in best
            if met[key].reading.folded != new.reading.folded
        ]
        return found + sorted(rest, key=lambda one: -one.likeness)[:CANDIDATES]

    def _terms(self) -> dict[str, list[Statement]]:
        if self._by_term is None:
            self._by_term = defaultdict(list)
            for number, unit in enumerate(self.units):
                if unit.kind in ("paragraph", "item", "quote"):
                    for one in self.of_unit(number):
                        self._by_fold[one.reading.folded].append(one)
                        for term in set(one.reading.terms):
                            self._by_term[term].append(one)
        return self._by_term


def block_lines(text: str) -> list[str]:
    """Return the lines of a block that say something, without their indents."""
    return [line.strip() for line in folded_lines(text) if line.strip()]


def said_in(unit: Unit) -> str:
    """Return what a unit says, without the marker of a list, which says only how it is shown."""
    if unit.kind in ("item", "paragraph"):
        return bare_text(unit)
    return unit.text


def sort_of(unit: Unit) -> str:
    """Return what units must have in common to be equal: a comment after a list is read as text, and is the same text."""
    return unit.kind if unit.kind in ("front", "heading") else "text"
