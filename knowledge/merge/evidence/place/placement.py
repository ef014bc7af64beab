"""Finds where a snippet that came without a place belongs on a page. Pure.

It looks first by heading, then by likeness: each section gets a share of all sections' likelihood, and the text is put
into the likeliest only if its share is large enough; otherwise the caller is asked. Nothing is put into the middle of a
block.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from heapq import nlargest
from itertools import takewhile
from typing import Literal, NamedTuple

from knowledge.merge.claims.statements import LEADS_IN, stemming_language
from knowledge.merge.document.dated_log import dated_heading
from knowledge.merge.document.heading_series import place_in_series
from knowledge.merge.document.units import cut, heading_level, split_lines, units
from knowledge.merge.evidence.place.section_signs import LEAST_LIKE, NEAREST, SectionSigns, shares_of
from knowledge.merge.evidence.place.text_form import form_fits
from knowledge.merge.evidence.place.vectors import TermVectors, count_terms, times
from knowledge.merge.model import (
    ADDS_TO,
    CutDocument,
    DocumentPiece,
    OfferedPlace,
    Unit,
    UnitKind,
    quoted_section,
    section_name,
)
from knowledge.pages.document import Heading, find_heading, name_of
from knowledge.pages.markdown.inline import plain
from knowledge.search.query.analysis import stem, words

Similarity = Callable[[Sequence[str], Sequence[str]], Sequence[Sequence[float]]]
"""Returns how alike texts are in meaning: for each text of the first argument, its likeness (up to 1) to each of the
second."""

How = Literal["heading", "similarity", "series", "new section", "append", "unsure"]

SURE = 0.88
"""Share of all sections' likelihood from which a text is put into the likeliest; below, the caller is asked.

Of the texts with this share, 94 in 100 were cut out of that section, in sixteen public documentation repositories
(kb/decisions/0117).
"""
LIKELY = 0.72
"""Share of all sections' likelihood from which a text is compared with the text of the likeliest section. Of the
texts with this share, 85 in 100 were cut out of that section."""
TWIN = 0.8
"""Cosine of a text and a block from which the two say nearly the same. Then the text is a change of that block, or
it belongs to another section that is like the block's."""
SURE_OF_PARENT = 0.8
"""Share of the parent's likelihood that its likeliest section must have for a new subsection to be made in it
without asking."""
MOST_OFFERED = 3
NEIGHBOUR = 0.5
"""Share of all sections' likelihood from which a new section goes right after its most similar sibling; below this
share, it goes to the end."""
FITS_IN_MEANING = 0.45
"""The likeness in meaning that counts as 0: the embeddings of unrelated texts are never fully dissimilar."""
BLOCK_FITS = 0.12
OWN_HEADING = 3
"""How often each word of a heading counts; each word below the heading counts once."""
MOST_MEANT = 64
"""Sections compared in meaning; on a page with more, those that share the most words with the text."""
LONGEST_COMPARED = 8000
REMEMBERED = 2048

_REFERENCE = frozenset(
    name
    for names in (
        "see also, references, reference, further reading, links, external links, footnotes, notes and references",
        "bibliography, sources, related, related pages, related links, appendix, license, changelog",
        "siehe auch, quellen, verweise, weiterführende links, literatur, einzelnachweise, weblinks, voir aussi, véase también",
    )
    for name in names.split(", ")
)
_LINK = re.compile(r"\s*(?:(?:[-*+]|\d{1,9}[.)])\s+)?[*_]{0,2}(?:\[[^\]\n]+\]\(|\[[^\]\n]+\]\[|<?https?://)")
_DEFINITION = re.compile(r" {0,3}\[[^\]\n]+\]:[ \t]*\S")
_SEE_ALSO = re.compile(r"[ *_]{0,3}(?:see (?:also|further)|further reading|siehe auch|voir aussi)\b", re.IGNORECASE)
_NUMBERING = re.compile(r"^\d+(?:\.\d+)*[.)]?\s+(?=\D)")


class PageSection(NamedTuple):
    """A heading and what is below it, as indexes of pieces; the first section of a page has no heading and level 0.

    Its own pieces are those from `first` up to, but not including, `end`. With the sections inside it, they go up to,
    but not including, `last`.
    """

    path: tuple[str, ...]
    level: int
    heading: int | None
    first: int
    end: int
    last: int


class _Among(NamedTuple):
    """The sections to choose from: all of them, or only those inside the section `within`.

    `with_references` includes sections that only close a page, such as "See also".
    """

    within: PageSection | None
    with_references: bool


class SectionChoice(NamedTuple):
    """A section that a text may go into, and its share of all sections' likelihood, 0..1."""

    section: PageSection
    share: float
    nearest: float = 0.0
    """The cosine of the text with the most similar block there, where blocks were compared."""
    signs: SectionSigns | None = None
    """What the share was computed from, where there was a choice."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where something new goes: after line `after_line` (from 1; 0 is the very beginning), into `section`.

    `choices` are the sections that were compared, likeliest first; empty where likeness did not decide. With `how` "unsure" nothing
    may be written: the caller chooses. `level` is that of the heading where a section is to be made, else 0.
    """

    section: tuple[str, ...]
    after_line: int
    how: How
    choices: tuple[SectionChoice, ...] = ()
    level: int = 0

    @property
    def reason(self) -> str:
        """The reason for the place, as the end of a sentence."""
        name = quoted_section(self.section)
        if self.how == "heading":
            return f"under {name}, as named"
        if self.how == "series":
            return f"as a new section of level {self.level} in {name}, in the order of the others"
        if self.how == "append":
            return f"in the log, under {name}" if self.section else "in the log"
        if self.how == "similarity":
            return f"under {name}, the most likely section ({self.compared})" if self.choices[1:] else f"under {name}"
        near = f", after the most similar section ({self.compared})" if self.choices else ""
        return f"as a new section of level {self.level} in {name}{near}, because no heading there fits"

    @property
    def compared(self) -> str:
        """The shares of the two likeliest sections, worded for a sentence."""
        best, *others = self.choices
        runner_up = f", next {quoted_section(others[0].section.path)} {others[0].share:.2f}" if others else ""
        return f"{best.share:.2f}{runner_up}"


def sections_of(page: CutDocument) -> tuple[PageSection, ...]:
    """Return the sections of `page` in order, including the one before the first heading."""
    pieces = page.pieces
    body = 1 if pieces and pieces[0].kind == "front" else 0
    heads = [index for index, piece in enumerate(pieces) if piece.kind == "heading"]
    levels = [heading_level(pieces[index]) for index in heads]
    found = [PageSection((), 0, None, body, heads[0] if heads else len(pieces), len(pieces))]
    for number, (index, level) in enumerate(zip(heads, levels, strict=True)):
        following = range(number + 1, len(heads))
        own_end = heads[number + 1] if following else len(pieces)
        last = next((heads[at] for at in following if levels[at] <= level), len(pieces))
        found.append(PageSection(pieces[index].section, level, index, index + 1, own_end, last))
    return tuple(found)


def is_reference(section: PageSection, page: CutDocument) -> bool:
    """Return whether the section closes a page: further reading, sources, or only link definitions."""
    if section.path and section.path[-1].strip(" :").casefold() in _REFERENCE:
        return True
    own = [piece for piece in page.pieces[section.first : section.end] if piece.kind != "blank"]
    return section.heading is None and bool(own) and all(map(_closes_text, own))


def begins_with_link(text: str) -> bool:
    """Return whether `text` may belong to "See also", "References" or the like."""
    return _LINK.match(text) is not None


def _closes_text(piece: DocumentPiece) -> bool:
    """Return whether a piece only closes a text: link definitions, footnotes, a pointer to further reading."""
    if piece.kind != "paragraph":
        return False
    lines = [line for line in piece.text.splitlines() if line.strip() and not line.startswith(("    ", "\t"))]
    return _SEE_ALSO.match(piece.text) is not None or all(_DEFINITION.match(line) for line in lines)


def _swallows(piece: DocumentPiece) -> bool:
    """Return whether text inserted below the piece would become part of it: a fence or comment that is never closed."""
    if piece.kind not in ("fence", "html", "comment"):
        return False
    return cut(piece.text.rstrip("\r\n") + "\n\nx\n").pieces[-1].text != "x\n"


def is_inside(section: PageSection, holder: PageSection | None) -> bool:
    """Return whether a section is `holder` or inside it; without a holder, or with the whole page as one, every section is."""
    if holder is None or holder.heading is None:
        return True
    return section.heading is not None and holder.heading <= section.heading < holder.last


@lru_cache(REMEMBERED)
def folded_heading(text: str) -> str:
    """Return a heading in the form for comparison: without markup, case, numbering and closing colon."""
    name = plain(text).casefold().strip(" :.")
    # The day of `28 Nov` is no number of a section.
    return name if dated_heading(text) else _NUMBERING.sub("", name)


def from_meaning(likeness: float) -> float:
    """Return a likeness in meaning on the scale of likeness in words, where two unrelated texts have 0."""
    return max(0.0, (likeness - FITS_IN_MEANING) / (1 - FITS_IN_MEANING))


def offered_place(path: str, section: Sequence[str], fit: float, name: str) -> OfferedPlace:
    """Return a place that the caller may choose; without `section` it is the page as a whole. `name` is what finds the section."""
    shown = section_name(section)
    call = f"path={json.dumps(path, ensure_ascii=False)}"
    if name:
        # Without the mark, a person's text would replace that section.
        call += f", section={json.dumps(ADDS_TO + name, ensure_ascii=False)}"
    of = f'section "{shown}" of {path}' if shown else path
    return OfferedPlace(path, shown, round(fit, 4), f"its words resemble those of {of} ({fit:.2f} of 1)", call)


class Placer:
    """Decides where things belong in one page."""

    def __init__(self, page: CutDocument, similarity: Similarity | None = None) -> None:
        self.page, self.similarity = page, similarity
        self.sections = sections_of(page)
        self.language = stemming_language(page.text)
        # The section that holds the whole page: that of its only heading of level 1, else the page itself.
        tops = [section for section in self.sections if section.level == 1]
        self.title = tops[0] if len(tops) == 1 and tops[0] is self.sections[1] else self.sections[0]
        self._named: dict[tuple[str, ...], Sequence[PageSection]] = {}
        self._choices: dict[_Among, tuple[Sequence[PageSection], TermVectors, TermVectors]] = {}
        self._blocks: dict[PageSection, tuple[Sequence[int], TermVectors]] = {}
        self._bodies: dict[PageSection, str] = {}
        self._lists: dict[PageSection, Sequence[int]] = {}
        self._all_blocks: dict[_Among, tuple[Sequence[PageSection], TermVectors]] = {}
        # What was compared last, because a text's place and the other sections that could hold it are asked for in turn.
        self._compared: tuple[tuple[str, str, bool, PageSection | None], tuple[SectionChoice, ...]] | None = None

    @cached_property
    def _headings(self) -> Sequence[Heading]:
        """The headings of all sections but the first, which has none."""
        pieces = [self.page.pieces[one.heading] for one in self.sections if one.heading is not None]
        return [Heading(heading_level(piece), piece.section[-1], piece.line, piece.section) for piece in pieces]

    def find(self, path: str, name: str) -> PageSection:
        """Return the section that `name` means on this page, which is at `path`.

        Raises:
            NoSuchSection, AmbiguousName: no section fits, or several do.
        """
        return self.sections[1 + self._headings.index(find_heading(path, self._headings, name))]

    def name_of(self, section: PageSection) -> str:
        """Return the name that finds this section, also where several have its headings; "" for the text before the first heading."""
        return (
            "" if section.heading is None else name_of(self._headings, self._headings[self.sections.index(section) - 1])
        )

    # The decision

    def place(
        self,
        text: str,
        *,
        path: Sequence[str] = (),
        level: int = 0,
        hint: str = "",
        within: PageSection | None = None,
        is_item: bool = False,
    ) -> Placement:
        """Return where `text` goes.

        `path` are the headings it came under, `level` that of the last; `hint` are words that say what it is about; `within`
        is the section that was asked for. Tried in this order: the section that `path` names; a new section, if the page lacks
        that heading; the likeliest section. If likeness has to decide and is not sure, `how` is "unsure".
        """
        if within is not None and not path:
            return self._in(within, text, "heading")
        if (named := self.named(path, within)) is not None and is_inside(named, within):
            return self._in(named, text, "heading")
        choices = self._for(text, hint=" ".join((hint, *path[-1:])), within=within, is_item=is_item)
        if namesakes := [choice for choice in choices if choice.section in self.sections_named(path)]:
            # The page has several sections of that name: the caller means one of them, not another new one.
            return self._in(namesakes[0].section, text, "unsure", namesakes)
        if path:
            # A heading that the page does not have is a new subject: it gets its own section.
            parent = self.named(path[:-1])
            if parent is None or not is_inside(parent, within):
                parent = within or self.title
            return self._new_section(choices, parent, level, path[-1])
        best = choices[0]
        sure = best.share >= SURE and best.nearest <= TWIN
        return self._in(best.section, text, "similarity" if sure else "unsure", choices)

    def likely_section(self, text: str, *, hint: str = "", is_item: bool = False) -> PageSection | None:
        """Return the section that text without a heading most likely belongs to; None if that would be a guess."""
        best = self._for(text, hint=hint, is_item=is_item)[0]
        return best.section if best.share >= LIKELY else None

    def holders(self, text: str, heading: str, level: int) -> Sequence[SectionChoice]:
        """Return the sections that a subsection of this heading and level could be added to: those of the level above.

        The share of each includes those of the sections inside it. A section that has such a subsection is left out.
        """
        shares = {one.section: one.share for one in self._for(text, hint=f" {heading}", is_item=False)}
        having = {one.path[:-1] for one in self.sections_named((heading,))}
        return [
            SectionChoice(one, math.fsum(share for other, share in shares.items() if is_inside(other, one)))
            for one in self.sections
            if one.level == level - 1 and one.path and one.path not in having
        ]

    def _for(
        self, text: str, *, hint: str, is_item: bool, within: PageSection | None = None
    ) -> tuple[SectionChoice, ...]:
        asked = (text, hint, is_item, within)
        if self._compared is None or self._compared[0] != asked:
            links = begins_with_link(text)
            found = self.choices(text, hint=hint, within=within, is_item=is_item, with_references=links)
            self._compared = asked, found
        return self._compared[1]

    def _in(self, section: PageSection, text: str, how: How, choices: Sequence[SectionChoice] = ()) -> Placement:
        return Placement(section.path, self.line_after(self.spot(section, text)), how, tuple(choices))

    def _new_section(
        self, choices: Sequence[SectionChoice], parent: PageSection, level: int, heading: str
    ) -> Placement:
        """Return where a new section goes: under its parent, in the series that it continues or after the sibling most like it."""
        inside = [one for one in self.sections if one != parent and one.level and is_inside(one, parent)]
        # The level of sections that exist there; under a parent without any, one level deeper.
        usual = min((one.level for one in inside), default=min(6, parent.level + 1 if parent.level else 2))
        there = [one for one in inside if one.level == usual]
        if (at := place_in_series(heading, [one.path[-1] for one in there])) is not None:
            end = there[at].first - 1 if at < len(there) else there[-1].last
            after = self.line_after(self.last_written(end, parent))
            return Placement(parent.path, after, "series", (), usual)
        shares = {choice.section: choice.share for choice in choices}

        def under(section: PageSection) -> float:
            """Return the share of a section and of those inside it."""
            return sum(share for one, share in shares.items() if is_inside(one, section))

        holder = parent
        above = [one.level for one in inside if one.level < level]
        if level > usual and above:
            # The heading came as a subsection: the likeliest section of the level above holds it.
            holders = [one for one in inside if one.level == max(above)]
            # Shares of the whole parent, not of these sections only: the only section of that level need not be the
            # right one.
            total = under(parent) or 1.0
            found = [SectionChoice(one, round(under(one) / total, 4)) for one in holders]
            likely = tuple(sorted(found, key=lambda one: -one.share))
            holder = likely[0].section
            usual = holder.level + 1
            if likely[0].share < SURE_OF_PARENT:
                return Placement(holder.path, self.line_after(holder.last - 1), "unsure", likely, usual)
        siblings = [one for one in self.sections if one.level == usual and is_inside(one, holder) and one != holder]
        near = max(siblings, key=under, default=None)
        compared: tuple[SectionChoice, ...] = ()
        end = self._before_closing(holder)
        if near is not None and under(near) >= NEIGHBOUR:
            compared, end = (SectionChoice(near, round(under(near), 4)),), near.last
        after = self.line_after(self.last_written(end, holder))
        return Placement(holder.path, after, "new section", compared, usual)

    def _before_closing(self, parent: PageSection) -> int:
        """Return the index of the piece that closes `parent`: its reference-like sections at the end, or its own end."""
        end = parent.last
        for section in reversed(self.sections):
            if section.heading is None or section == parent or not is_inside(section, parent):
                continue
            if section.last == end and is_reference(section, self.page):
                end = section.heading
        return end

    # Sections by their headings

    def named(self, path: Sequence[str], within: PageSection | None = None) -> PageSection | None:
        """Return the only section that this heading path leads to, from the root or from anywhere; None if several do.

        If `within` is among several, it is the one meant.
        """
        found = self.sections_named(path)
        return within if within in found else found[0] if len(found) == 1 else None

    def sections_named(self, path: Sequence[str]) -> Sequence[PageSection]:
        """Return the sections that this heading path may mean: those that match the most of it."""
        key = tuple(path)
        if key not in self._named:
            self._named[key] = self._find_named(tuple(map(folded_heading, key)))
        return self._named[key]

    def _find_named(self, wanted: tuple[str, ...]) -> Sequence[PageSection]:
        if not wanted:
            return ()
        last = self._by_last_heading.get(wanted[-1], ())
        # A snippet's path may start with its own title, so for a section right below the page's title only the last heading counts.
        # Deeper ones (`Parameters` of another method) are not meant by a path that the page lacks.
        below_title = len(self.title.path) + 1
        for found in (
            [section for section, path in last if path == wanted],
            [section for section, path in last if path[-len(wanted) :] == wanted],
            [section for section, path in last if len(path) <= below_title],
        ):
            if found:
                return found
        alike = self._by_heading_words.get(self._heading_words(wanted[-1]), ())
        return alike if len(wanted) == 1 else [section for section in alike if len(section.path) <= below_title]

    @cached_property
    def _by_last_heading(self) -> Mapping[str, Sequence[tuple[PageSection, tuple[str, ...]]]]:
        found: dict[str, list[tuple[PageSection, tuple[str, ...]]]] = {}
        for section in self.sections:
            if section.path:
                path = tuple(map(folded_heading, section.path))
                found.setdefault(path[-1], []).append((section, path))
        return found

    @cached_property
    def _by_heading_words(self) -> Mapping[tuple[frozenset[str], tuple[str, ...]], Sequence[PageSection]]:
        found: dict[tuple[frozenset[str], tuple[str, ...]], list[PageSection]] = {}
        for heading, sections in self._by_last_heading.items():
            if (key := self._heading_words(heading))[0]:
                found.setdefault(key, []).extend(section for section, _ in sections)
        return found

    def _heading_words(self, heading: str) -> tuple[frozenset[str], tuple[str, ...]]:
        found = words(heading)
        # With stop words: "First day" is not "Before first day". In order, figures: "11/12/2026" is not "12/11/2026".
        return frozenset(stem(word, self.language) for word in found), tuple(filter(str.isdigit, found))

    # Sections and blocks by likeness

    def choices(
        self,
        text: str,
        *,
        hint: str = "",
        within: PageSection | None = None,
        is_item: bool = False,
        with_references: bool = False,
        with_form: bool = True,
    ) -> tuple[SectionChoice, ...]:
        """Return the sections that `text` may go into, likeliest first; their shares add up to 1.

        The words of `hint` count as much as those of a heading. `within` limits the choice to a section and those
        inside it. `with_references` admits sections such as "See also", which only links belong to. If `with_form` is
        false, the way in which an item is written is ignored.
        """
        limits = _Among(within, with_references)
        among, vectors, headings = self._choice(limits)
        if len(among) == 1:
            return (SectionChoice(among[0], 1.0),)
        asked = self._counted(text) + times(self._counted(hint), OWN_HEADING)
        by_words, by_heading = vectors.cosines(asked), headings.cosines(asked)
        # Words first: comparing meaning costs an embedding for each section.
        order = sorted(range(len(among)), key=lambda index: (-by_words.get(index, 0.0), index))[:MOST_MEANT]
        meant: Sequence[float] = [0.0] * len(order)
        if self.similarity is not None:
            texts = [f"{' '.join(among[i].path)}\n{self.text_of(among[i])}"[:LONGEST_COMPARED] for i in order]
            meant = [from_meaning(one) for one in self.similarity([f"{hint}\n{text}"[:LONGEST_COMPARED]], texts)[0]]
        blocks = self._alike_blocks(limits, asked)
        forms = self._forms(text, [among[index] for index in order]) if is_item and with_form else [0.0] * len(order)
        most = max([LEAST_LIKE, *by_words.values()])
        signs = [
            SectionSigns(
                words=by_words.get(index, 0.0) / most,
                heading=by_heading.get(index, 0.0),
                meaning=mean,
                blocks=math.fsum(nlargest(NEAREST, blocks.get(among[index], ()))) / NEAREST,
                length=math.log1p(len(self.text_of(among[index]))),
                list_fits=(1.0 if self.lists_in(among[index]) else -1.0) if is_item else 0.0,
                form=form,
                before_headings=float(among[index].level == 0),
            )
            for index, mean, form in zip(order, meant, forms, strict=True)
        ]
        ranked = sorted(zip(order, shares_of(signs), signs, strict=True), key=lambda one: (-one[1], one[0]))
        return tuple(
            SectionChoice(one := among[index], share, max(blocks.get(one, [0.0])), of_it)
            for index, share, of_it in ranked
        )

    def _alike_blocks(self, limits: _Among, asked: Counter[str]) -> Mapping[PageSection, Sequence[float]]:
        """Return, for each section with blocks like the text, their likeness."""
        if limits not in self._all_blocks:
            among = self._choice(limits)[0]
            pairs = [
                (section, self._counted(piece.text))
                for section in among
                for piece in self.page.pieces[section.first : section.end]
                if piece.kind not in ("blank", "front", "break")
            ]
            self._all_blocks[limits] = [section for section, _ in pairs], TermVectors([terms for _, terms in pairs])
        holders, vectors = self._all_blocks[limits]
        alike: dict[PageSection, list[float]] = {}
        for number, likeness in vectors.cosines(asked).items():
            alike.setdefault(holders[number], []).append(likeness)
        return alike

    def _forms(self, text: str, sections: Sequence[PageSection]) -> Sequence[float]:
        item = next((unit.text for unit in units(cut(text)) if unit.kind == "item"), text)
        return form_fits(item, [self.texts_in(section, "item") for section in sections])

    def texts_in(self, section: PageSection, kind: UnitKind | None) -> Sequence[str]:
        """Return the section's own paragraphs, items or other texts of that kind."""
        return [unit.text for unit in self.units_in(section) if unit.kind == kind]

    def units_in(self, section: PageSection) -> Sequence[Unit]:
        """Return the section's own units."""
        numbers, found = self._units
        return found[bisect_left(numbers, section.first) : bisect_left(numbers, section.end)]

    def words_in(self, section: PageSection) -> Counter[str]:
        """Return how often each term occurs in the section, with those of its headings; don't modify it."""
        return self._vocabulary[section]

    @cached_property
    def _units(self) -> tuple[Sequence[int], Sequence[Unit]]:
        found = units(self.page)
        return [unit.piece for unit in found], found

    def lists_in(self, section: PageSection) -> Sequence[int]:
        """Return the piece indexes of the lists directly in the section."""
        if section not in self._lists:
            pieces = self.page.pieces
            self._lists[section] = [at for at in range(section.first, section.end) if pieces[at].kind == "list"]
        return self._lists[section]

    def _choice(self, limits: _Among) -> tuple[Sequence[PageSection], TermVectors, TermVectors]:
        """Return the sections that a text may go into, with the vectors of their words and of their headings."""
        if limits not in self._choices:
            choice = [
                section
                for section in self.sections
                if is_inside(section, limits.within)
                and (limits.with_references or not is_reference(section, self.page))
            ]
            choice = choice or [limits.within or self.sections[-1]]
            headings = TermVectors([self._counted(" ".join(section.path[-1:])) for section in choice])
            self._choices[limits] = choice, TermVectors([self._vocabulary[one] for one in choice]), headings
        return self._choices[limits]

    @cached_property
    def _vocabulary(self) -> Mapping[PageSection, Counter[str]]:
        found: dict[PageSection, Counter[str]] = {}
        for section in self.sections:
            own, above = self._counted(self.text_of(section)), self._counted(" ".join(section.path[:-1]))
            # The title describes the whole page, not the text right below it.
            factor = 1 if section is self.title else OWN_HEADING
            found[section] = own + above + times(self._counted(" ".join(section.path[-1:])), factor)
        return found

    def text_of(self, section: PageSection) -> str:
        """Return the section's own text, at most as much as is compared."""
        if section not in self._bodies:
            pieces = self.page.pieces[section.first : section.end]
            self._bodies[section] = "".join(piece.text for piece in pieces)[:LONGEST_COMPARED]
        return self._bodies[section]

    def _counted(self, text: str) -> Counter[str]:
        return count_terms(text[:LONGEST_COMPARED], self.language)

    def spot(self, section: PageSection, text: str) -> int:
        """Return the section's own piece after which `text` belongs: the most similar block, else the last one."""
        own, vectors = self._blocks_of(section)
        if not own:
            return section.heading if section.heading is not None else section.first - 1
        scores = vectors.cosines(self._counted(text))
        best = max(scores, key=lambda at: (scores[at], at), default=-1)
        # A weak likeness would tear a sequence of paragraphs apart: the end of the section is always safe.
        if best < 0 or scores[best] < BLOCK_FITS:
            return own[-1]
        return self.after_what_it_leads_to(own[best])

    def _blocks_of(self, section: PageSection) -> tuple[Sequence[int], TermVectors]:
        """Return the section's own pieces after which text may be inserted, and their term vectors."""
        if section not in self._blocks:
            pieces = self.page.pieces
            own = [
                index
                for index in range(section.first, section.end)
                if pieces[index].kind not in ("blank", "front") and not _closes_text(pieces[index])
            ]
            # Text below an unclosed fence would become code.
            while own and (pieces[own[-1]].kind == "break" or _swallows(pieces[own[-1]])):
                own.pop()
            self._blocks[section] = own, TermVectors([self._counted(pieces[index].text) for index in own])
        return self._blocks[section]

    def most_like(self, text: str, pieces: Sequence[int]) -> int:
        """Return the piece that `text` is most similar to, or the last one if it is similar to none."""
        vectors = TermVectors([self._counted(self.page.pieces[index].text) for index in pieces])
        scores = vectors.cosines(self._counted(text))
        return pieces[max(scores, key=lambda at: (scores[at], at), default=-1)]

    # Lines

    def after_what_it_leads_to(self, piece: int) -> int:
        """Return the piece after which text may go without separating `these are:` from the list that it introduces."""
        pieces = self.page.pieces
        while pieces[piece].kind == "paragraph" and LEADS_IN.search(pieces[piece].text):
            following = piece + 1
            while following < len(pieces) and pieces[following].kind == "blank":
                following += 1
            if following == len(pieces) or pieces[following].kind in ("paragraph", "heading", "break"):
                break
            piece = following
        return piece

    def line_after(self, piece: int) -> int:
        """Return the number of the last line of that piece; 0 for an index below 0, the beginning of the page."""
        if piece < 0:
            return 0
        found = self.page.pieces[piece]
        return found.line + len(split_lines(found.text)) - 1

    def last_written(self, end: int, parent: PageSection) -> int:
        """Return the last visible piece before `end`, skipping link definitions and rules at the end.

        A fence that is never closed is skipped with the heading of its subsection, so that it stays below that heading.
        """
        at = end - 1
        pieces = self.page.pieces
        while at >= parent.first and (
            pieces[at].kind in ("blank", "break") or _closes_text(pieces[at]) or _swallows(pieces[at])
        ):
            if _swallows(pieces[at]):
                heading = next(one.heading for one in self.sections if one.first <= at < one.end)
                at = heading if heading is not None and heading >= parent.first else at
            at -= 1
        return at

    def open_fence_after(self, line: int) -> DocumentPiece | None:
        """Return the fence or comment after a line that is never closed, if no heading is between the two."""
        following = (piece for piece in self.page.pieces if piece.line > line)
        return next(
            (piece for piece in takewhile(lambda one: one.kind != "heading", following) if _swallows(piece)), None
        )

    def section_at(self, placement: Placement) -> PageSection:
        """Return the section of the line that a placement names."""
        found = self.sections[0]
        for section in self.sections:
            if section.heading is not None and self.page.pieces[section.heading].line <= placement.after_line:
                found = section
        return found
