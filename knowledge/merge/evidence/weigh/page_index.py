"""A page's statements, found by equal text and by shared terms. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from textwrap import dedent

from knowledge.merge.claims.statements import Statement, likeness, statements_of
from knowledge.merge.document.entry_keys import entry_key
from knowledge.merge.evidence.place.list_form import bare_text, folded_lines, is_done
from knowledge.merge.model import Unit, unit_digest

CANDIDATES = 6
"""The most statements of the page that a new one is compared with, in addition to equal ones."""
MOST_EQUAL = 50
"""Equal statements of the page that a new one is compared with."""
MOST_HOLDERS = 500
"""The most statements compared with a new one; a statement that shares only frequent terms with it has another subject."""
MOST_BLOCKS = 64
"""Blocks of code, quotes, HTML that a new one is compared with."""

_CODE = frozenset({"fence", "code"})
MOST_DIGITS = 9
_FIGURES = re.compile(r"\d+(?:[.,]\d+)*")
_TOKEN = re.compile(r"\w+|[^\w\s]")
_INDENT = re.compile(r"^[ \t]+")
_VISIBLE = str.maketrans({" ": "\1", "\t": "\2"})
_BLOCKS = frozenset({"fence", "code", "html", "quote", "comment"})

Allowed = Callable[[int], bool]


class PageIndex:
    """The units and statements of a page."""

    def __init__(self, page: Sequence[Unit], language: str) -> None:
        self.units, self.language = page, language
        self._by_identity: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        self._statements: dict[int, list[Statement]] = {}
        self._tokens: dict[int, Counter[str]] = {}
        self._near: dict[str, list[Statement]] = {}
        for number, unit in enumerate(page):
            self._by_identity[identity(unit)].append(number)

    def equal(self, unit: Unit, allowed: Allowed = lambda _: True) -> int | None:
        """Return the first allowed unit of the page with the same text."""
        return next(filter(allowed, self._by_identity.get(identity(unit), ())), None)

    def statements(self, number: int) -> list[Statement]:
        """Return the statements of a unit of the page."""
        if number not in self._statements:
            found = statements_of([self.units[number]], self.language)
            self._statements[number] = [one._replace(unit=number) for one in found]
        return self._statements[number]

    def blocks_like(self, unit: Unit, section: Sequence[str]) -> list[int]:
        """Return, in order, the blocks of the kind of `unit` right below these headings or with one of its lines.

        Of more than `MOST_BLOCKS` blocks of each sort, those that share the most lines are returned.
        """
        shared: Counter[int] = Counter()
        for holders in sorted(
            (self._by_line.get((unit.kind, line), []) for line in dict.fromkeys(block_lines(unit.text))), key=len
        ):
            shared.update(holders[:MOST_BLOCKS])
        there = [number for number in self._by_section.get(tuple(section), ()) if self.units[number].kind == unit.kind]
        there.sort(key=lambda number: -shared[number])
        return sorted({*there[:MOST_BLOCKS], *(number for number, _ in shared.most_common(MOST_BLOCKS))})

    def tokens(self, number: int) -> Counter[str]:
        """Return the words and signs of a block of the page."""
        if number not in self._tokens:
            self._tokens[number] = tokens_of(self.units[number])
        return self._tokens[number]

    def near(self, new: Statement) -> list[Statement]:
        """Return the statements that have most in common with `new`, equal ones first."""
        if new.reading.text not in self._near:
            self._near[new.reading.text] = self._nearest(new)
        return self._near[new.reading.text]

    def _nearest(self, new: Statement) -> list[Statement]:
        by_term, by_fold = self._by_words
        shared: dict[int, float] = defaultdict(float)
        met: dict[int, Statement] = {}
        room = MOST_HOLDERS
        # Rare terms first: a term that hundreds of statements have says little about the subject of one. In the order of the
        # text, not of a set, which differs in every process: a plan made again in another must be the same.
        for holders in sorted((by_term.get(term, []) for term in dict.fromkeys(new.reading.terms)), key=len):
            room -= len(holders)
            if room < 0 and shared:
                break
            for one in holders[:MOST_HOLDERS]:
                met[id(one)] = one
                # A term counts for less the more statements have it.
                shared[id(one)] += 1 / (1 + len(holders))
        best = sorted(shared, key=lambda key: -shared[key])[: CANDIDATES * 2]
        rest = [met[key] for key in best if met[key].reading.folded != new.reading.folded]
        rest.sort(key=lambda one: -likeness(one.reading, new.reading))
        return [*by_fold.get(new.reading.folded, [])[:MOST_EQUAL], *rest[:CANDIDATES]]

    def in_section(self, path: Sequence[str]) -> list[Statement]:
        """Return the statements of the prose right below these headings."""
        numbers = self._by_section.get(tuple(path), ())
        return [
            one
            for number in numbers
            if self.units[number].kind in ("paragraph", "item")
            for one in self.statements(number)
        ]

    @cached_property
    def _by_section(self) -> Mapping[tuple[str, ...], list[int]]:
        found: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for number, unit in enumerate(self.units):
            found[unit.section].append(number)
        return found

    def of_entry(self, unit: Unit) -> list[Statement]:
        """Return the statements of the page's entries of the same name as `unit`, such as an option; none if it has no name."""
        key = entry_key(unit.text)
        return [one for number in self._by_key.get(key, ()) for one in self.statements(number)] if key else []

    @cached_property
    def _by_key(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = defaultdict(list)
        for number, unit in enumerate(self.units):
            if unit.kind in ("paragraph", "item") and (key := entry_key(unit.text)):
                found[key].append(number)
        return found

    @cached_property
    def _by_line(self) -> Mapping[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = defaultdict(list)
        for number, unit in enumerate(self.units):
            if unit.kind in _BLOCKS:
                for line in dict.fromkeys(block_lines(unit.text)):
                    found[unit.kind, line].append(number)
        return found

    def is_next_of(self, new: Statement, old: Statement) -> bool:
        """Return whether the section of `old` counts up to `new`, by figures alone: "Entry 1" and "Entry 2" to "Entry 3"."""
        counted, form = _counted(new)
        there = self._counts.get((old.section, form), ())
        return form == _counted(old)[1] and {counted - 2, counted - 1} <= {*there} and max(there) < counted

    @cached_property
    def _counts(self) -> Mapping[tuple[Sequence[str], str], set[int]]:
        """The first figures of the statements of prose, by their section and what they are without their figures."""
        found: dict[tuple[Sequence[str], str], set[int]] = defaultdict(set)
        for number, unit in enumerate(self.units):
            if unit.kind in ("paragraph", "item"):
                for one in self.statements(number):
                    counted, form = _counted(one)
                    if counted >= 0:
                        found[one.section, form].add(counted)
        return found

    @cached_property
    def _by_words(self) -> tuple[Mapping[str, list[Statement]], Mapping[str, list[Statement]]]:
        """The statements of prose and quotes by their terms, and by their folded text."""
        by_term: dict[str, list[Statement]] = defaultdict(list)
        by_fold: dict[str, list[Statement]] = defaultdict(list)
        for number, unit in enumerate(self.units):
            if unit.kind in ("paragraph", "item", "quote"):
                for one in self.statements(number):
                    by_fold[one.reading.folded].append(one)
                    for term in set(one.reading.terms):
                        by_term[term].append(one)
        return by_term, by_fold


def _counted(one: Statement) -> tuple[int, str]:
    """Return the first figure of a statement if it is whole, else -1, and the statement without its figures."""
    first, form = _FIGURES.search(one.reading.folded), _FIGURES.sub("0", one.reading.folded)
    return int(first[0]) if first is not None and first[0].isdecimal() and len(first[0]) <= MOST_DIGITS else -1, form


def block_lines(text: str) -> list[str]:
    """Return the lines of a block that are not blank, without their indents."""
    return [line.strip() for line in folded_lines(text) if line.strip()]


def ordered_lines(unit: Unit) -> list[str]:
    """Return the lines of a block that are not blank; of code with their indents, as far as these differ, and without its fences."""
    if unit.kind not in _CODE:
        return block_lines(unit.text)
    lines = _code_lines(unit.text)
    if unit.kind == "code":
        return lines
    is_closed = len(lines) > 1 and set(lines[-1].strip()) == set(lines[0].lstrip()[:3])
    return lines[1:-1] if is_closed else lines[1:]


def tokens_of(block: Unit) -> Counter[str]:
    """Return the words and signs of a block, of code without its fences."""
    return Counter(_TOKEN.findall("\n".join(ordered_lines(block))))


def _code_lines(text: str) -> list[str]:
    return dedent("\n".join(line.rstrip() for line in folded_lines(text) if line.strip())).split("\n")


def identity(unit: Unit) -> tuple[str, bytes]:
    """Return the key by which units are equal: their text without a list marker, which is only formatting.

    A finished task is another text than an open one. The kind of a unit is part of the key only for headings and front
    matter. Any other kind depends on the text around the unit: a comment right after a list is read as a paragraph, and is
    still the same text.
    """
    text = bare_text(unit) if unit.kind in ("item", "paragraph") else unit.text
    if unit.kind == "item" and is_done(unit.text):
        text = f"[x] {text}"
    if unit.kind in _CODE and len(lines := _code_lines(unit.text)) > 1:
        # In code, an indent or a line end decides; the digest folds white space.
        text = "\0".join(_INDENT.sub(lambda found: found[0].translate(_VISIBLE), line) for line in lines)
    return unit.kind if unit.kind in ("front", "heading") else "text", unit_digest(text)
