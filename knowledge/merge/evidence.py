"""Weighing knowledge from a named source against what a page says: what is new, said already, weaker, or said otherwise. Pure.

Nothing of the page is lost. What is new is put where it belongs; what the page says already is not written twice but counts as
corroboration; what another lineage says otherwise is never written; only what says all that stood there, and weighs at least
as much, takes its place.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from knowledge.document import find_section, parse
from knowledge.merge.cells import Row, Table, folded_cell, key_of, rows_without_head, table_of
from knowledge.merge.confidence import Rules, confidence, independent, lineage_of, same_lineage
from knowledge.merge.contradiction import Comparison, compare, contradictions
from knowledge.merge.cut import cut, units
from knowledge.merge.dated import dated_heading, dated_item, is_log, newest_first, unwrapped
from knowledge.merge.front import name_of
from knowledge.merge.model import (
    Confidence,
    Contradiction,
    Cut,
    Evidence,
    MergePlan,
    Origin,
    Piece,
    Side,
    Unit,
    Verdict,
    VerdictWord,
    section_name,
    unit_digest,
)
from knowledge.merge.place import Placement, Placer, Section, Similarity, folded_heading, heading_level
from knowledge.merge.provenance import PageFacts, presumed
from knowledge.merge.rewording import ListForm, bare_text, folded_ends, in_form_of
from knowledge.merge.splice import Ground, Put, Replaced, Spliced
from knowledge.merge.statements import (
    Reading,
    Span,
    Statement,
    alike,
    covers,
    keys_in,
    language_of,
    lost,
    reading,
    same_subject,
    says,
    statements,
)

LONGEST_SIDE = 500
"""Characters of what a side of a contradiction says that are kept."""
CANDIDATES = 6
SAME_CODE = 0.6
PARALLEL = 2
"""Keys that two sections have in common if they say the same things of different subjects."""
GUARDED_KEYS = frozenset({"source", "untrusted", "append", "merge", "router"})
"""Keys of the front matter that say how a page is treated: evidence does not change them."""
TO_A_PERSON = 'to have it all the same, ask the person and send it as their edit (source "user", with the section)'


def weigh(
    current: Cut,
    origins: Sequence[Origin | None],
    content: Cut,
    evidence: Evidence,
    *,
    page: PageFacts,
    rules: Rules,
    now: datetime,
    section: str | None = None,
    append: bool = False,
    similarity: Similarity | None = None,
    revision: str = "",
) -> MergePlan:
    """Return what becomes of the page when `content` from `evidence` is weighed against it, unit by unit.

    `origins` are those of the units of `current`. `section` keeps to one section, `append` takes the content as an entry of a
    log. `revision` is that of `current`; new origins name none yet. Weighing the same again changes nothing.

    Raises:
        NoSuchSection, AmbiguousName: `section` does not name one section of the page.
    """
    weighing = _Weighing(
        current, origins, evidence, page=page, rules=rules, now=now, similarity=similarity, revision=revision
    )
    within = weighing.asked_for(section) if section is not None else None
    if append:
        return weighing.appended(content, within)
    return weighing.weighed(content, within)


@dataclass(slots=True)
class _Op:
    """One change of the page, and the verdicts that it carries out."""

    orders: list[int]
    put: Put | None = None
    replaced: Replaced | None = None
    touched: int | None = None
    keeps_origin: bool = False
    expected: tuple[Unit, ...] = ()


class _New(NamedTuple):
    """A unit, or what of one is new, that is to be put into the page; `order` is that of its verdict.

    `beside` is the unit of the page that it belongs next to, None when its place is still to be found.
    """

    order: int
    unit: Unit
    beside: int | None
    whole: bool


class _Near(NamedTuple):
    """A statement of the page and how it stands to a new one."""

    statement: Statement
    likeness: float


@dataclass(slots=True)
class _Found:
    """How the statements of one incoming unit stand to the page."""

    said: list[Statement] = field(default_factory=list)
    corrected: list[tuple[Statement, Statement]] = field(default_factory=list)
    outdated: list[tuple[Statement, Statement]] = field(default_factory=list)
    disputed: list[tuple[Statement, Statement, Comparison]] = field(default_factory=list)
    reworded: list[tuple[Statement, Statement]] = field(default_factory=list)
    fresh: list[Statement] = field(default_factory=list)


class _Weighing:
    """One page, one piece of evidence, and what comes of it."""

    def __init__(
        self,
        current: Cut,
        origins: Sequence[Origin | None],
        evidence: Evidence,
        *,
        page: PageFacts,
        rules: Rules,
        now: datetime,
        similarity: Similarity | None,
        revision: str,
    ) -> None:
        self.page, self.facts, self.evidence, self.rules, self.now = current, page, evidence, rules, now
        self.revision, self.similarity = revision, similarity
        self.ground = Ground(current)
        self.origins = [
            origin or replace(presumed(unit, page, rules), revision=revision)
            for unit, origin in zip(self.ground.units, origins, strict=True)
        ]
        self.known = [origin is not None for origin in origins]
        self.placer = Placer(current, similarity)
        self.weight = self._confidence_of_evidence()
        self.verified = tuple(
            lineage
            for lineage in dict.fromkeys(map(lineage_of, evidence.corroborated_by))
            if lineage != lineage_of(f"kb:{page.path}")
        )
        self.language = self.placer.language or language_of(current.text)
        self.index = _Index(self.ground.units, self.language)
        self.verdicts: list[Verdict] = []
        self.contradictions: list[Contradiction] = []
        self.ops: list[_Op] = []
        self.news: list[_New] = []
        self.stands: dict[int, _Found] = {}
        self.confirmed_by: dict[int, set[int]] = defaultdict(set)
        self.repeated: set[tuple[int, Span]] = set()
        self.supported: set[int] = set()
        self.replaced_units: set[int] = set()
        self.matched: dict[int, int] = {}
        self.note: str | None = None
        self.within: Section | None = None
        self.content = Cut("", ())
        self.incoming: tuple[Unit, ...] = ()
        self.hint = ""
        self.rows: tuple[Row, ...] = ()
        self.seen: set[tuple[str, bytes, tuple[str, ...]]] = set()
        self._keys_of: dict[tuple[str, ...], set[str]] | None = None

    # The whole

    def asked_for(self, section: str) -> Section:
        """Return the section of that name.

        Raises:
            NoSuchSection, AmbiguousName: there is none, or more than one.
        """
        document = parse(self.facts.path, self.page.text.removeprefix("\ufeff").encode("utf-8", "replace"))
        line = find_section(document, section).line
        return next(
            one
            for one in self.placer.sections
            if one.heading is not None
            and self.page.pieces[one.heading].line
            <= line
            < self.page.pieces[one.heading].line + max(1, self.page.pieces[one.heading].text.count("\n") + 1)
        )

    def weighed(self, content: Cut, within: Section | None) -> MergePlan:
        """Return the plan for content that is to be taken into the page."""
        self.within = within
        if not is_log(self.page):
            known = [folded_heading(name) for one in self.placer.sections for name in one.path[-1:]]
            bare = unwrapped(content, known=known)
            if bare.dates:
                self.note = (
                    f"the page is no log: what came under {', '.join(bare.dates)[:120]} is placed where it belongs, without "
                    "the date (a log says `append: true`)"
                )
            content, self.hint = bare.content, bare.hint
        self.content, self.incoming = content, units(content)
        self._stands_of_prose()
        for piece in sorted({unit.piece for unit in self.incoming}):
            self._weigh_piece(
                content.pieces[piece], [number for number, unit in enumerate(self.incoming) if unit.piece == piece]
            )
        self._place_news()
        return self._plan("section" if within is not None else "snippet")

    def _stands_of_prose(self) -> None:
        """Find out how all prose stands to the page before anything is decided: what it confirms, it does not correct."""
        disputes = self._disputes()
        for number, unit in enumerate(self.incoming):
            if (same := self.index.equal(unit, lambda _: True)) is not None:
                self.confirmed_by[same].add(number)
            if unit.kind in ("paragraph", "item"):
                found = _Found()
                for statement in statements([unit], self.language):
                    self._stand(statement, self._target(unit.section), disputes.get(number, ()), found)
                self.stands[number] = found
                self.repeated.update((old.unit, old.span) for old in found.said)
                for old in found.said:
                    self.confirmed_by[old.unit].add(number)

    def _weigh_piece(self, piece: Piece, numbers: Sequence[int]) -> None:
        if piece.kind == "table":
            self._weigh_table(table_of(self.content, self.incoming, self.incoming[numbers[0]].piece))
            return
        for number in numbers:
            unit = self.incoming[number]
            if unit.kind == "heading" or self._came_before(unit):
                continue
            if unit.kind == "front":
                self._weigh_key(unit)
            elif unit.kind == "paragraph" and (rows := rows_without_head(unit.text)) and self._weigh_rows(unit, rows):
                continue
            elif unit.kind in ("paragraph", "item"):
                self._weigh_prose(number, unit)
            else:
                self._weigh_block(number, unit)

    def _came_before(self, unit: Unit) -> bool:
        """Return whether the same stands above it in the content, under the same heading."""
        name = (_sort(unit), unit_digest(_bare(unit)), unit.section)
        before = name in self.seen
        self.seen.add(name)
        return before

    # What may be compared with what

    def _target(self, path: Sequence[str]) -> Section | None:
        """Return the section of the page that a unit under these headings names, or the one that was asked for."""
        named = self.placer.named(path)
        if self.within is None:
            return named
        return named if named is not None and self._lies_in(named.heading, self.within) else self.within

    @staticmethod
    def _lies_in(piece: int | None, section: Section) -> bool:
        if section.heading is None:
            return True
        return piece is not None and section.heading <= piece < section.last

    def _comparable(self, number: int, target: Section | None, *, alone: bool) -> bool:
        """Return whether unit `number` of the page may be what a new one is about.

        Where the section that a new unit names has keys in common with that of the other (`timeout: 30` for each of two
        servers), short lines mean what they say there only; `alone` says that it is plain without its heading what is meant.
        """
        if alone or target is None or self._lies_within(number, target):
            return True
        mine, other = self._keys(target.path), self._keys(self.ground.units[number].section)
        return len(mine & other) < PARALLEL

    def _keys(self, section: tuple[str, ...]) -> frozenset[str]:
        """Return the keys of the `key: value` lines that stand in a section."""
        if self._keys_of is None:
            self._keys_of = defaultdict(set)
            for unit in self.ground.units:
                if unit.kind in ("paragraph", "item"):
                    self._keys_of[unit.section].update(keys_in(bare_text(unit)))
        return frozenset(self._keys_of.get(section, ()))

    def _lies_within(self, number: int, target: Section | None) -> bool:
        return target is None or self._lies_in(self.ground.units[number].piece, target)

    def _disputes(self) -> dict[int, list[int]]:
        """Return, by incoming unit, the units of the page that it contradicts, surest first."""
        found: dict[int, list[int]] = defaultdict(list)
        for one in contradictions(self.ground.units, self.incoming):
            found[one.new].append(one.existing)
        return found

    # Prose

    def _weigh_prose(self, number: int, unit: Unit) -> None:
        target = self._target(unit.section)
        own = statements([unit], self.language)
        found = self.stands[number]
        wordless = not any(one.said.about for one in own) or unit.text.lstrip().startswith("%%")
        if (same := self.index.equal(unit, lambda at: wordless or self._lies_within(at, target))) is not None:
            self._unchanged(number, same)
            return
        if found.disputed:
            self._flag(unit, found.disputed)
            return
        self._settle_prose(number, unit, own, found)

    def _stand(self, new: Statement, target: Section | None, disputed: Sequence[int], found: _Found) -> None:
        """Find out how one new statement stands to the page: to the section that it names, then to the others."""
        near = [
            one
            for one in self.index.near(new)
            if self._comparable(one.statement.unit, target, alone=new.said.stands_alone)
            and one.statement.said.kind != "row"
        ]
        for here in (True, False):
            there = [one for one in near if self._lies_within(one.statement.unit, target) == here]
            if (said := next((one.statement for one in there if says(one.statement.said, new.said)), None)) is not None:
                found.said.append(said)
                return
            among = [at for at in disputed if self._lies_within(at, target) == here]
            if (against := self._against(new, target, [*among, *(one.statement.unit for one in there)])) is not None:
                self._stands_against(new, *against, found)
                return
        alike_most = next((one.statement for one in near if same_subject(one.statement.said, new.said)), None)
        if alike_most is not None:
            found.reworded.append((new, alike_most))
        else:
            found.fresh.append(new)

    def _stands_against(self, new: Statement, old: Statement, comparison: Comparison, found: _Found) -> None:
        if not self._same_voice(old.unit):
            found.disputed.append((new, old, comparison))
        elif self._is_later(old.unit):
            found.corrected.append((new, old))
        else:
            found.outdated.append((new, old))

    def _against(
        self, new: Statement, target: Section | None, among: Iterable[int]
    ) -> tuple[Statement, Comparison] | None:
        """Return the statement of these units that says most clearly otherwise; of a row, which has a head, nothing."""
        best: tuple[Statement, Comparison] | None = None
        for number in dict.fromkeys(among):
            if self.ground.units[number].kind not in ("paragraph", "item", "quote") or not self._comparable(
                number, target, alone=new.said.stands_alone
            ):
                continue
            for old in self.index.of_unit(number):
                held = compare(old.said.reads, new.said.reads, existing_section=old.section, new_section=new.section)
                if held.relation == "contradict" and (best is None or held.strength > best[1].strength):
                    best = (old, held)
        return best

    def _same_voice(self, number: int) -> bool:
        return same_lineage(self.evidence.source, self.origins[number].source)

    def _is_later(self, number: int) -> bool:
        return self.evidence.observed_at >= self.origins[number].observed_at

    def _settle_prose(self, number: int, unit: Unit, own: Sequence[Statement], found: _Found) -> None:
        both = self._both_ways(unit, found)
        replaced = self._replace_whole(number, unit, own, found)
        fresh = list(found.fresh)
        for new, old in found.reworded:
            if old.unit in replaced:
                continue
            if self.weight.confidence < self._confidence(old.unit).confidence and not self._same_voice(old.unit):
                self._retain(unit, old.unit, "is less than", new)
            else:
                fresh.append(new)
        for new, old in found.outdated:
            self._retain(unit, old.unit, "of an earlier time than", new)
        for new, old in found.corrected:
            if old.unit not in replaced:
                self._correct(number, new, old)
        if fresh:
            self._fresh(number, unit, own, fresh, found)
        elif not (both or replaced or found.corrected or found.outdated or found.reworded) and found.said:
            self._unchanged(number, *dict.fromkeys(old.unit for old in found.said))
        elif found.said and number not in self.matched:
            self.matched[number] = found.said[0].unit

    def _both_ways(self, unit: Unit, found: _Found) -> bool:
        """Retain what corrects a statement that the content repeats elsewhere; tell whether there was any."""
        both = [(new, old) for new, old in found.corrected if (old.unit, old.span) in self.repeated]
        found.corrected = [pair for pair in found.corrected if pair not in both]
        for new, old in both:
            self._retain(unit, old.unit, "came with text that says what stands there:", new)
        return bool(both)

    def _replace_whole(self, number: int, unit: Unit, own: Sequence[Statement], found: _Found) -> set[int]:
        """Replace the unit of the page whose every statement the new one says too, if it may; return which."""
        related = dict.fromkeys(old.unit for _, old in (*found.corrected, *found.reworded))
        others = {old.unit for old in found.said} | {old.unit for _, old in (*found.reworded, *found.outdated)}
        for old_number in related:
            if (
                others <= {old_number}
                and self._may_replace(number, old_number)
                and self._covered(old_number, own, found)
            ):
                gone = [
                    word
                    for old in self.index.of_unit(old_number)
                    for word in lost(max((one.said for one in own), key=partial(alike, old.said)), old.said)
                ]
                self._update_unit(number, unit, old_number, gone)
                found.fresh.clear()
                return {old_number}
        return set()

    def _may_replace(self, number: int, there: int) -> bool:
        """Return whether a new unit weighs enough for the place of this one, which nothing else of the content repeats."""
        old, new = self.ground.units[there], self.incoming[number]
        if old.kind not in ("paragraph", "item") or there in self.replaced_units:
            return False
        if old.kind == "paragraph" and [piece.kind for piece in cut(bare_text(new)).pieces] != ["paragraph"]:
            return False
        if self.confirmed_by.get(there, set()) - {number}:
            return False
        if self._same_voice(there):
            return self._is_later(there)
        return self.weight.confidence >= self._confidence(there).confidence

    def _covered(self, there: int, own: Sequence[Statement], found: _Found) -> bool:
        """Return whether each statement of a unit of the page is corrected, said or said and more by the new one."""
        corrected = {(old.unit, old.span) for _, old in found.corrected}
        return all(
            (old.unit, old.span) in corrected
            or any(says(new.said, old.said) or covers(new.said, old.said) for new in own)
            for old in self.index.of_unit(there)
        )

    def _update_unit(self, number: int, unit: Unit, old_number: int, gone: Sequence[str] = ()) -> None:
        old = self.ground.units[old_number]
        text = self.ground.with_ends(in_form_of(old, unit))
        start, end = self.ground.span(old_number)
        expected = unit._replace(text=text)
        order = self._verdict("update", old.section, self._update_reason(old_number, gone), old_number)
        self.ops.append(_Op([order], replaced=Replaced(start, end, text), touched=old_number, expected=(expected,)))
        self.replaced_units.add(old_number)
        self.matched[number] = old_number

    def _correct(self, number: int, new: Statement, old: Statement) -> None:
        """Replace one statement in a unit that says more, which its own source has corrected."""
        if old.unit in self.replaced_units:
            self._retain(self.incoming[number], old.unit, "would change again what this call has changed:", new)
            return
        begin = self.ground.span(old.unit)[0]
        # Without its full stop the sentence would run into the next one.
        was, said = old.said.text, new.said.text
        stop = was[-1] if was[-1:] in ".!?" and said[-1:].isalnum() else ""
        text = self.ground.with_ends((said if "\n" in was else " ".join(said.split("\n"))) + stop)
        order = self._verdict("update", old.section, self._update_reason(old.unit, lost(new.said, old.said)), old.unit)
        replaced = Replaced(begin + old.span.start, begin + old.span.end, text)
        unit = self.ground.units[old.unit]
        after = unit._replace(text=unit.text[: old.span.start] + text + unit.text[old.span.end :])
        self.ops.append(_Op([order], replaced=replaced, touched=old.unit, expected=(after,)))
        self.replaced_units.add(old.unit)
        self.matched[number] = old.unit

    def _fresh(
        self, number: int, unit: Unit, own: Sequence[Statement], fresh: Sequence[Statement], found: _Found
    ) -> None:
        """Keep what is new of a unit to be placed: all of it, or the statements that the page does not have."""
        related = [old.unit for _, old in found.reworded] + [old.unit for old in found.said]
        related += [old.unit for _, old in found.corrected]
        beside = related[0] if related else None
        whole = len(fresh) == len(own)
        if not whole:
            inner = sorted(fresh, key=lambda one: one.span.start)
            text = " ".join(one.said.text for one in inner)
            unit = unit._replace(text=text if unit.kind == "paragraph" else f"- {text}")
            for old in found.said:
                self.supported.add(old.unit)
        order = self._verdict("integrate", unit.section, "", beside)
        self.news.append(_New(order, unit, beside, whole))
        if beside is not None:
            self.matched.setdefault(number, beside)

    # Code, quotes, HTML

    def _weigh_block(self, number: int, unit: Unit) -> None:
        target = self._target(unit.section)
        if (same := self.index.equal(unit, lambda at: self._comparable(at, target, alone=True))) is not None:
            self._unchanged(number, same)
            return
        lines = _lines(unit.text)
        near = [
            (_shared(lines, _lines(old.text)), at)
            for at, old in enumerate(self.ground.units)
            if old.kind == unit.kind
            and self._comparable(at, target, alone=False)
            and at not in self.replaced_units
            and at not in self.confirmed_by
        ]
        likeness, at = max(near, default=(0.0, -1))
        if likeness < SAME_CODE:
            self.news.append(_New(self._verdict("integrate", unit.section, ""), unit, None, whole=True))
            return
        self._weigh_similar_block(number, unit, at)

    def _weigh_similar_block(self, number: int, unit: Unit, at: int) -> None:
        new, old = _lines(unit.text), _lines(self.ground.units[at].text)
        only_new, only_old = [line for line in new if line not in old], [line for line in old if line not in new]
        if not only_new:
            self._unchanged(number, at)
            return
        held = next((one for a in only_old for b in only_new if (one := compare(a, b)).relation == "contradict"), None)
        if self._same_voice(at):
            if self._is_later(at):
                self._update_unit(number, unit, at)
            else:
                self._retain(unit, at, "of an earlier time than")
        elif held is not None:
            self._flag_units(unit, at, held)
        elif self.weight.confidence < self._confidence(at).confidence:
            self._retain(unit, at, "is less than")
        elif not only_old:
            self._update_unit(number, unit, at)
        else:
            self.news.append(_New(self._verdict("integrate", unit.section, "", at), unit, at, whole=True))

    # Tables

    def _weigh_table(self, table: Table) -> None:
        unit = self.incoming[table.head]
        there = self._table_like(table.columns, self._target(unit.section))
        if there is None:
            self._new_table(table)
            return
        columns = [there.columns.index(name) for name in table.columns]
        self.rows = table.rows
        for row in table.rows:
            self._weigh_row(self.incoming[row.unit], row, columns, there)

    def _new_table(self, table: Table) -> None:
        piece = self.content.pieces[table.piece]
        unit = self.incoming[table.head]
        same = [
            number
            for number, old in enumerate(self.ground.units)
            if old.kind == "row" and unit_digest(self.page.pieces[old.piece].text) == unit_digest(piece.text)
        ]
        if same:
            self._unchanged(table.head, *same)
            return
        order = self._verdict("integrate", unit.section, "")
        self.news.append(_New(order, unit._replace(text=piece.text), None, whole=True))

    def _weigh_rows(self, unit: Unit, rows: Sequence[Row]) -> bool:
        """Weigh rows that came without a head, if a table has as many columns; tell whether one does."""
        width = len(rows[0].cells)
        target = self._target(unit.section)
        there = [
            table
            for table in self._tables(target)
            if len(table.columns) == width and all(len(row.cells) == width for row in rows)
        ]
        if len(there) != 1:
            return False
        self.rows = tuple(rows)
        for row, line in zip(rows, folded_lines(unit.text), strict=True):
            self._weigh_row(unit._replace(kind="row", text=line + "\n"), row, list(range(width)), there[0])
        return True

    def _tables(self, target: Section | None) -> list[Table]:
        return [
            table_of(self.page, self.ground.units, number)
            for number, piece in enumerate(self.page.pieces)
            if piece.kind == "table" and (target is None or self._lies_in(number, target))
        ]

    def _table_like(self, columns: Sequence[str], target: Section | None) -> Table | None:
        """Return the table of the page that has these columns, the first of its own among them; the only one."""

        def fits(table: Table) -> bool:
            return (
                len(set(columns)) == len(columns) and set(columns) <= set(table.columns) and table.columns[0] in columns
            )

        found = [table for table in self._tables(target) if fits(table)]
        if not found and target is not None and self.within is None:
            found = [table for table in self._tables(None) if fits(table)]
        exact = [table for table in found if table.columns == tuple(columns)]
        return (exact or found)[0] if len(exact or found) == 1 else None

    def _weigh_row(self, unit: Unit, row: Row, columns: Sequence[int], there: Table) -> None:
        """Meet the row with the same key, cell by cell; `columns` are those of the page, in the order of the new cells."""
        placed = {column: row.cell(at) for at, column in enumerate(columns)}
        key = tuple(placed.get(column, "") for column in self._key_columns(there))
        same = [
            one for one in there.rows if key_of(one, self._key_columns(there)) == tuple(_folded(cell) for cell in key)
        ]
        if not same:
            self._new_row(unit, placed, there)
            return
        old = max(same, key=lambda one: sum(_folded(text) == _folded(one.cell(at)) for at, text in placed.items()))
        differing = [at for at, text in placed.items() if text and _folded(text) != _folded(old.cell(at))]
        empty = [at for at in differing if not old.cell(at)]
        told = [at for at in differing if at not in empty and not self._cell_says(there, old.cell(at), placed[at], at)]
        if not empty and not told:
            self._unchanged(-1, old.unit)
            return
        if told and self._rivals(row, columns, there) > 1:
            self._retain(unit, old.unit, "came with another row of the same key:")
            return
        if told and not self._may_change_cells(unit, old, told, placed, there):
            return
        self._write_cells(unit, old, {at: placed[at] for at in (*empty, *told)}, fills=not told)

    def _key_columns(self, table: Table) -> tuple[int, ...]:
        """Return the columns that tell rows apart: the first, or the first two."""
        keys = [key_of(row, (0,)) for row in table.rows]
        return (0,) if len(set(keys)) == len(keys) or len(table.columns) < 3 else (0, 1)

    def _rivals(self, row: Row, columns: Sequence[int], there: Table) -> int:
        """Return how many of the rows that came have the key of this one: of two, neither changes what stands there."""
        keys = [columns.index(column) for column in self._key_columns(there) if column in columns]
        return sum(key_of(one, keys) == key_of(row, keys) for one in self.rows)

    def _cell_says(self, table: Table, old: str, new: str, column: int) -> bool:
        return says(self._cell(table, column, old), self._cell(table, column, new))

    def _cell(self, table: Table, column: int, text: str) -> Reading:
        return reading(f"{table.columns[column]}: {text}" if table.columns[column] else text, self.language)

    def _may_change_cells(
        self, unit: Unit, old: Row, told: Sequence[int], placed: dict[int, str], there: Table
    ) -> bool:
        """Flag or retain a row that says otherwise; return whether its cells may be written."""
        grows = all(covers(self._cell(there, at, placed[at]), self._cell(there, at, old.cell(at))) for at in told)
        if self._same_voice(old.unit):
            if self._is_later(old.unit):
                return True
            self._retain(unit, old.unit, "of an earlier time than")
        elif not grows:
            at = told[0]
            key, column = old.cell(0), there.columns[at]
            reason = f"About '{key}', {column} the existing text says '{old.cell(at)}', the new one '{placed[at]}'."
            self._flag_units(unit, old.unit, Comparison("contradict", "cell", f"{key}, {column}", reason, 1.0))
        elif self.weight.confidence < self._confidence(old.unit).confidence:
            self._retain(unit, old.unit, "is less than")
        else:
            return True
        return False

    def _write_cells(self, unit: Unit, old: Row, cells: dict[int, str], *, fills: bool) -> None:
        if old.unit in self.replaced_units:
            self._retain(unit, old.unit, "would change again what this call has changed:")
            return
        was = self.ground.units[old.unit].text
        if max(cells) >= len(old.cells):
            self._retain(unit, old.unit, "has more cells than the row that it meets:")
            return
        text = was
        for at in sorted(cells, reverse=True):
            cell = old.cells[at]
            before = "" if cell.start < cell.end or was[cell.start - 1 : cell.start].isspace() else " "
            after = "" if cell.start < cell.end else " "
            text = text[: cell.start] + before + cells[at] + after + text[cell.end :]
        begin, end = self.ground.span(old.unit)
        reason = "fills cells that were empty: " + _shown(self.weight) if fills else self._update_reason(old.unit)
        order = self._verdict("update", self.ground.units[old.unit].section, reason, old.unit)
        expected = unit._replace(text=text)
        self.ops.append(
            _Op(
                [order], replaced=Replaced(begin, end, text), touched=old.unit, keeps_origin=fills, expected=(expected,)
            )
        )
        self.replaced_units.add(old.unit)

    def _new_row(self, unit: Unit, placed: dict[int, str], there: Table) -> None:
        """Put a row into the table: where its key belongs if the table is sorted by it, else at the end."""
        section = self.page.pieces[there.piece].section
        width = len(there.columns)
        text = "| " + " | ".join(placed.get(at, "") for at in range(width)) + " |"
        if there.rows and not self.ground.units[there.rows[-1].unit].text.lstrip().startswith("|"):
            text = text[2:-2]
        keys = [_folded(row.cell(0)) for row in there.rows]
        is_sorted = len(keys) >= 3 and keys == sorted(keys) and keys[0] != keys[-1]
        at = sum(key <= _folded(placed.get(0, "")) for key in keys) if is_sorted else len(keys)
        # Before the first row stands the line of dashes, which is no unit.
        after = self.ground.last_line(there.rows[at - 1].unit) if at else self.ground.units[there.head].line + 1
        reason = f"new row of the table under {_named(section)}: {_shown(self.weight)}"
        order = self._verdict("integrate", section, reason)
        self.ops.append(_Op([order], put=Put(after, text, block=False), expected=(unit._replace(text=text),)))

    # Front matter

    def _weigh_key(self, unit: Unit) -> None:
        key = name_of(unit.text)
        text = folded_lines(unit.text)
        if not key:
            self._refuse_key(unit, "the front matter that came is not made of `key: value` lines")
        elif key.casefold() in GUARDED_KEYS:
            self._refuse_key(unit, f"`{key}` says how the page is treated, which evidence does not change")
        elif sum(one.kind == "front" and name_of(one.text) == key for one in self.incoming) > 1:
            self._refuse_key(unit, f"`{key}` came twice")
        elif (
            there := next(
                (n for n, old in enumerate(self.ground.units) if old.kind == "front" and name_of(old.text) == key), None
            )
        ) is not None:
            self._meet_key(unit, key, there)
        else:
            self._new_key(unit, key, "\n".join(line for line in text if not line.lstrip().startswith("#")))

    def _refuse_key(self, unit: Unit, why: str) -> None:
        self._verdict("retain", unit.section, f"{why}; {TO_A_PERSON}")

    def _meet_key(self, unit: Unit, key: str, there: int) -> None:
        old = self.ground.units[there]
        mine, other = _value(old.text, key), _value(unit.text, key)
        if _listed(other) <= _listed(mine) or says(*(reading(text, self.language) for text in (mine, other))):
            self._unchanged(-1, there)
            return
        if _is_list(old.text) and _is_list(unit.text):
            self._add_values(unit, there, [value for value in _entries(other) if value.casefold() not in _listed(mine)])
            return
        grows = covers(reading(other, self.language), reading(mine, self.language))
        if self._same_voice(there):
            if not self._is_later(there):
                self._retain(unit, there, "of an earlier time than")
                return
        elif not grows:
            reason = f"About '{key}' the existing text says '{mine[:60]}', the new one '{other[:60]}'."
            self._flag_units(unit, there, Comparison("contradict", "value", key, reason, 1.0))
            return
        elif self.weight.confidence < self._confidence(there).confidence:
            self._retain(unit, there, "is less than")
            return
        lines = folded_lines(old.text)
        above = [line for line in lines if line.lstrip().startswith("#")]
        wanted = [line for line in folded_lines(unit.text) if not line.lstrip().startswith("#")]
        ending = old.text[len(old.text.rstrip("\r\n")) :]
        text = self.ground.with_ends("\n".join([*above, *wanted])) + ending
        begin, end = self.ground.span(there)
        order = self._verdict("update", old.section, self._update_reason(there), there)
        expected = unit._replace(text=text)
        self.ops.append(_Op([order], replaced=Replaced(begin, end, text), touched=there, expected=(expected,)))

    def _add_values(self, unit: Unit, there: int, values: Sequence[str]) -> None:
        """Add values to a list of the front matter, in the way that it is written."""
        old = self.ground.units[there]
        text = _with_values(old.text, values)
        if text is None or there in self.replaced_units:
            self._refuse_key(unit, f"the list in line {old.line} is written in a way that cannot be added to")
            return
        text = self.ground.with_ends(text)
        begin, end = self.ground.span(there)
        order = self._verdict(
            "integrate", (), f"adds {_quoted(', '.join(values))} to a list: {_shown(self.weight)}", there
        )
        expected = (unit._replace(text=text),)
        self.ops.append(
            _Op([order], replaced=Replaced(begin, end, text), touched=there, keeps_origin=True, expected=expected)
        )
        self.replaced_units.add(there)

    def _new_key(self, unit: Unit, key: str, text: str) -> None:
        front = self.page.pieces[0] if self.page.pieces and self.page.pieces[0].kind == "front" else None
        if front is None:
            self._refuse_key(unit, "the page has no front matter")
            return
        order = self._verdict("integrate", (), f"new key `{key}` of the front matter: {_shown(self.weight)}")
        after = front.line + len(folded_lines(front.text)) - 2
        self.ops.append(_Op([order], put=Put(after, text, block=False), expected=(unit._replace(text=text),)))

    # Verdicts

    def _unchanged(self, number: int, *there: int) -> None:
        """Say that the page says this already; what the server verified counts for it."""
        self.supported.update(there)
        self.matched[number] = there[0]
        old = self.ground.units[there[0]]
        counted = independent(self.origins[there[0]].source, self.verified)
        counts = (
            f"{', '.join(counted)[:120]} corroborates it"
            if counted
            else "nothing the server has verified corroborates it"
        )
        if self._same_voice(there[0]):
            counts = "by the same source"
        weight = self._confidence(there[0], supported=True)
        where = f"line {old.line}" + (f" under {_named(old.section)}" if old.section else "")
        self._verdict("unchanged", old.section, f"{where} says this already, {counts}: now {_shown(weight)}", there[0])

    def _retain(self, unit: Unit, there: int, relation: str, new: Statement | None = None) -> None:
        existing = self._confidence(there)
        source = self.origins[there].source
        old = self.ground.units[there]
        what = f" ({_quoted(new.said.text)})" if new is not None else ""
        reason = (
            f"not written{what}: {_shown(self.weight)} {relation} {_shown(existing)} of {source} in line {old.line}; "
            f"{TO_A_PERSON}"
        )
        self._verdict("retain", old.section or unit.section, reason, there)

    def _flag(self, unit: Unit, disputed: Sequence[tuple[Statement, Statement, Comparison]]) -> None:
        for new, old, comparison in disputed:
            self._contradiction(unit, new.said.text, old.unit, old.said.text, comparison)
        _, old, comparison = disputed[0]
        self._flag_verdict(unit, old.unit, comparison)

    def _flag_units(self, unit: Unit, there: int, comparison: Comparison) -> None:
        self._contradiction(unit, unit.text, there, self.ground.units[there].text, comparison)
        self._flag_verdict(unit, there, comparison)

    def _flag_verdict(self, unit: Unit, there: int, comparison: Comparison) -> None:
        existing, source = self._confidence(there), self.origins[there].source
        said = comparison.reason.rstrip(".")
        reason = (
            f"{said}; not written, a person decides between {self.evidence.source} at {_shown(self.weight)} "
            f"and {source} at {_shown(existing)}"
        )
        self._verdict("flag", self.ground.units[there].section or unit.section, reason, there)

    def _contradiction(self, unit: Unit, said: str, there: int, says_now: str, comparison: Comparison) -> None:
        origin, old = self.origins[there], self.ground.units[there]
        existing = Side(
            self.facts.path,
            section_name(old.section),
            says_now.strip()[:LONGEST_SIDE],
            origin.source,
            origin.authority,
            origin.observed_at,
            self._confidence(there).confidence,
            origin.revision or self.revision or None,
        )
        target = self._target(unit.section)
        new = Side(
            self.facts.path,
            section_name(target.path if target is not None else old.section),
            said.strip()[:LONGEST_SIDE],
            self.evidence.source,
            self.weight.authority,
            self.evidence.observed_at,
            self.weight.confidence,
            None,
        )
        self.contradictions.append(Contradiction(comparison.kind, comparison.subject, comparison.reason, existing, new))

    def _update_reason(self, there: int, gone: Sequence[str] = ()) -> str:
        source, existing = self.origins[there].source, self._confidence(there)
        line = self.ground.units[there].line
        weights = f"{_shown(self.weight)} against {_shown(existing)} of {source}"
        if self._same_voice(there):
            without = f", without {_quoted(', '.join(gone))}" if gone else ""
            return f"{self.evidence.source} says otherwise now than in line {line}{without}: {weights}"
        if gone:
            return f"another wording of line {line}, without {_quoted(', '.join(gone))}: {weights}"
        return f"says what line {line} says and more: {weights}"

    def _verdict(self, word: VerdictWord, section: Sequence[str], reason: str, there: int | None = None) -> int:
        existing = None if there is None else self._confidence(there, supported=word == "unchanged")
        self.verdicts.append(Verdict(section_name(section), word, reason, self.weight, existing))
        return len(self.verdicts) - 1

    # Confidence

    def _confidence_of_evidence(self) -> Confidence:
        return confidence(
            self.evidence.source,
            self.evidence.observed_at,
            now=self.now,
            rules=self.rules,
            authority=self.evidence.authority,
            corroborated_by=[
                one for one in self.evidence.corroborated_by if lineage_of(one) != lineage_of(f"kb:{self.facts.path}")
            ],
        )

    def _confidence(self, number: int, *, supported: bool = False) -> Confidence:
        origin = self._supported(number) if supported else self.origins[number]
        return confidence(
            origin.source,
            origin.observed_at,
            now=self.now,
            rules=self.rules,
            authority=origin.authority,
            corroborated_by=origin.corroborated_by,
        )

    def _supported(self, number: int) -> Origin:
        """Return the origin of a unit that the evidence says too: verified lineages count, the same voice renews it."""
        origin = self.origins[number]
        lineages = independent(origin.source, (*origin.corroborated_by, *self.verified))
        seen = max(origin.observed_at, self.evidence.observed_at) if self._same_voice(number) else origin.observed_at
        if lineages == origin.corroborated_by and seen == origin.observed_at:
            return origin
        return replace(origin, corroborated_by=lineages, observed_at=seen)

    # Placing

    def _place_news(self) -> None:
        """Find the place of everything new: beside what it belongs to, else section by section, in order."""
        waiting: list[_New] = []
        for new in self.news:
            beside = new.beside if new.beside is not None else self._follows(new)
            if beside is None or not self._put_beside(new, beside):
                waiting.append(new)
        by_place: dict[object, list[_New]] = {}
        for new in waiting:
            head = self._unknown_heading(new.unit)
            target = self._target(new.unit.section)
            key: object = (
                ("new", head) if head is not None else ("in", target, new.unit.piece if target is None else -1)
            )
            by_place.setdefault(key, []).append(new)
        for news in by_place.values():
            head = self._unknown_heading(news[0].unit)
            if head is not None:
                self._put_section(head, news)
            else:
                self._put_into_section(news)

    def _follows(self, new: _New) -> int | None:
        """Return the unit of the page that the unit before this one, under the same heading, was found to be."""
        numbers = [
            n for n, unit in enumerate(self.incoming) if unit.line < new.unit.line and unit.section == new.unit.section
        ]
        before = [n for n in numbers if self.incoming[n].kind not in ("heading", "front", "row")]
        return self.matched.get(before[-1]) if before else None

    def _put_beside(self, new: _New, beside: int) -> bool:
        old = self.ground.units[beside]
        if old.kind in ("row", "front") or (self.within is not None and not self._lies_in(old.piece, self.within)):
            return False
        if (
            old.kind == "item"
            and new.unit.kind in ("item", "paragraph")
            and not (new.whole and new.unit.kind == "paragraph" and new.beside is None)
        ):
            form = ListForm(self.ground, old.piece)
            for _, put in form.puts([new.unit], after=beside):
                self._write(new, put, old.section, f"beside line {old.line}")
            return True
        piece = self.placer.after_what_it_leads_to(old.piece)
        self._write(
            new, Put(self.placer.line_after(piece), self._block(new), block=True), old.section, f"after line {old.line}"
        )
        return True

    def _write(self, new: _New, put: Put, section: Sequence[str], where: str) -> None:
        reason = f"new: {_shown(self.weight)}; placed {where}"
        if new.beside is not None and new.whole:
            old = self._confidence(new.beside)
            reason += f", whose {_shown(old)} it does not replace since it does not say all of it"
        self.verdicts[new.order] = replace(self.verdicts[new.order], section=section_name(section), reason=reason)
        self.ops.append(_Op([new.order], put=put, expected=_expected(new.unit, put)))

    def _block(self, new: _New) -> str:
        return folded_text(new.unit.text)

    def _unknown_heading(self, unit: Unit) -> int | None:
        """Return the piece of the outermost heading above the unit that the page does not have, None if it has all."""
        if self._named_or_title(unit.section):
            return None
        for length in range(1, len(unit.section) + 1):
            if not self._named_or_title(unit.section[:length]):
                return next(
                    (
                        at
                        for at in range(unit.piece, -1, -1)
                        if self.content.pieces[at].kind == "heading"
                        and self.content.pieces[at].section == unit.section[:length]
                    ),
                    None,
                )
        return None

    def _named_or_title(self, path: Sequence[str]) -> bool:
        return not path or self.placer.named(path) is not None

    def _put_section(self, head: int, news: Sequence[_New]) -> None:
        """Make a section with the heading at piece `head` of the content and everything new below it."""
        heading = self.content.pieces[head]
        said = "\n\n".join(folded_text(new.unit.text) for new in news)
        level = heading_level(heading.text)
        placement = self.placer.place(said, path=heading.section, level=level, hint=self.hint, within=self.within)
        shift = placement.level - level if placement.level else 0
        blocks = [_heading(heading, shift)]
        blocks += self._blocks_below(head, news, shift)
        put = Put(placement.after_line, "\n\n".join(blocks), block=True)
        orders = [new.order for new in news]
        section = (*placement.section, heading.section[-1])
        for order in orders:
            reason = f"new: {_shown(self.weight)}; placed {placement.reason}"
            self.verdicts[order] = replace(self.verdicts[order], section=section_name(section), reason=reason)
        self.ops.append(_Op(orders, put=put, expected=tuple(units(cut(put.text)))))

    def _blocks_below(self, head: int, news: Sequence[_New], shift: int) -> list[str]:
        """Return the blocks of a new section: what is new, under the headings between."""
        blocks: list[str] = []
        used: set[int] = {head}
        last: _New | None = None
        for new in news:
            for at in range(head + 1, new.unit.piece):
                piece = self.content.pieces[at]
                above = piece.kind == "heading" and piece.section == new.unit.section[: len(piece.section)]
                if above and at not in used:
                    used.add(at)
                    blocks.append(_heading(piece, shift))
            text = folded_text(new.unit.text)
            if last is not None and blocks and new.unit.kind == "item" and last.unit.piece == new.unit.piece:
                blocks[-1] += self._between_items(new.unit.piece) + text
            else:
                blocks.append(text)
            last = new
        return blocks

    def _between_items(self, piece: int) -> str:
        items = [unit for unit in self.incoming if unit.piece == piece]
        tight = all(second.line <= first.line + len(folded_lines(first.text)) for first, second in pairwise(items))
        return "\n" if tight else "\n\n"

    def _put_into_section(self, news: Sequence[_New]) -> None:
        """Put what is new into one section of the page, items into its list if it has one."""
        said = "\n\n".join(folded_text(new.unit.text) for new in news)
        path = news[0].unit.section
        placement = self.placer.place(said, path=path, hint=self.hint, within=self.within)
        section = self._section_at(placement)
        for run in _runs(news):
            if run[0].unit.kind == "item" and (form := self._list_in(section, run)) is not None:
                for at, put in form.puts([new.unit for new in run]):
                    self._write(run[at], put, placement.section, f"in the list {placement.reason}")
                continue
            text = self._between_items(run[0].unit.piece).join(folded_text(new.unit.text) for new in run)
            put = Put(placement.after_line, text, block=True)
            for new in run:
                reason = f"new: {_shown(self.weight)}; placed {placement.reason}"
                self.verdicts[new.order] = replace(
                    self.verdicts[new.order], section=section_name(placement.section), reason=reason
                )
            self.ops.append(_Op([new.order for new in run], put=put, expected=tuple(units(cut(text)))))

    def _section_at(self, placement: Placement) -> Section:
        """Return the section that the line of a placement lies in."""
        found = self.placer.sections[0]
        for section in self.placer.sections:
            if section.heading is not None and self.page.pieces[section.heading].line <= placement.after_line:
                found = section
        return found

    def _list_in(self, section: Section, run: Sequence[_New]) -> ListForm | None:
        lists = [at for at in range(section.first, section.end) if self.page.pieces[at].kind == "list"]
        if not lists:
            return None
        if len(lists) == 1:
            return ListForm(self.ground, lists[0])
        said = "\n".join(new.unit.text for new in run)
        return ListForm(self.ground, self.placer.most_like(said, lists))

    # Logs

    def appended(self, content: Cut, within: Section | None) -> MergePlan:
        """Return the plan for an entry of a log: written as it is at its end, or its head, unless it is there already."""
        self.within, self.content, self.incoming = within, content, units(content)
        said = [unit for unit in self.incoming if unit.kind not in ("heading", "front")]
        there = [self.index.equal(unit, lambda _: True) for unit in said]
        rows = [unit for unit in self.incoming if unit.kind == "front"]
        for unit in rows:
            self._weigh_key(unit)
        if all(found is not None for found in there) or not any(folded_text(unit.text) for unit in said):
            for number, found in enumerate(there):
                if found is not None:
                    self._unchanged(number, found)
            return self._plan("append")
        self._append(content, [unit for unit, found in zip(said, there, strict=True) if found is None])
        return self._plan("append")

    def _append(self, content: Cut, fresh: Sequence[Unit]) -> None:
        head = next((piece for piece in content.pieces if piece.kind == "heading"), None)
        named = self.placer.named(head.section) if head is not None else self.within
        placement, block = self._entry_place(named, content)
        text = folded_text(
            "".join(piece.text for piece in content.pieces if piece.kind != "front" and not (named and piece is head))
        )
        reason = f"new entry: {_shown(self.weight)}; placed {placement.reason}"
        order = self._verdict("integrate", placement.section, reason)
        if named is not None and head is not None:
            kept = [unit for unit in fresh if unit.kind != "heading"]
            text = "\n".join(folded_text(unit.text) for unit in kept) if all(u.kind == "item" for u in kept) else text
        items = [unit for unit in units(cut(text)) if unit.kind == "item"]
        if not block and items and (form := self._list_at(placement)) is not None:
            log = newest_first(self.page)
            after = form.numbers[0] if log else form.numbers[-1]
            line = self.ground.units[after].line - 1 if log else self.ground.last_line(after)
            put = Put(line, text, block=False)
        else:
            put = Put(placement.after_line, text, block=True)
        self.ops.append(_Op([order], put=put, expected=tuple(units(cut(text)))))

    def _list_at(self, placement: Placement) -> ListForm | None:
        section = self._section_at(placement)
        lists = [at for at in range(section.first, section.end) if self.page.pieces[at].kind == "list"]
        return ListForm(self.ground, lists[-1]) if lists else None

    def _entry_place(self, named: Section | None, content: Cut) -> tuple[Placement, bool]:
        """Return where the entry goes, and whether as a block: under its heading, before the newest, or at the end."""
        if named is not None and named.heading is not None:
            last = self.placer.last_written(named.end, named)
            return Placement(named.path, self.placer.line_after(last), "append"), False
        has_heading = any(piece.kind == "heading" for piece in content.pieces)
        if newest_first(self.page):
            first = next(
                (
                    at
                    for at, piece in enumerate(self.page.pieces)
                    if piece.kind == "heading" and dated_heading(piece.text)
                ),
                None,
            )
            if first is not None:
                before = first - 1
                while before >= 0 and self.page.pieces[before].kind == "blank":
                    before -= 1
                return Placement(
                    self.page.pieces[before].section if before >= 0 else (), self.placer.line_after(before), "append"
                ), True
            entry = next((unit for unit in self.ground.units if dated_item(unit.text)), None)
            if entry is not None and not has_heading:
                return Placement(entry.section, entry.line - 1, "append"), self.page.pieces[entry.piece].kind != "list"
        everything = self.placer.sections[0]
        last = self.placer.last_written(len(self.page.pieces), everything)
        section = self.page.pieces[last].section if last >= 0 else ()
        is_list = last >= 0 and self.page.pieces[last].kind == "list"
        return Placement(section, self.placer.line_after(last), "append"), has_heading or not is_list

    # The plan

    def _plan(self, form: str) -> MergePlan:
        spliced = self._carried_out()
        after = units(cut(spliced.text))
        touched = {op.touched: op for op in self.ops if op.touched is not None}
        return MergePlan(
            text=spliced.text,
            form="append" if form == "append" else "section" if form == "section" else "snippet",
            verdicts=_told(self.verdicts),
            contradictions=tuple(self.contradictions),
            origins=[self._origin_after(unit, spliced, touched) for unit in after],
            note=self.note,
        )

    def _carried_out(self) -> Spliced:
        """Write everything; what would change how the page reads around it is not written, and its verdict says so."""
        spliced = self._written(self.ops)
        if spliced is not None:
            return spliced
        kept: list[_Op] = []
        for op in self.ops:
            if self._written([*kept, op]) is not None:
                kept.append(op)
                continue
            for order in op.orders:
                was = self.verdicts[order]
                why = f"not written, since the text around it would read otherwise with it; {TO_A_PERSON}"
                self.verdicts[order] = replace(was, verdict="retain", reason=f"{_shown(self.weight)}; {why}")
        self.ops = kept
        return self._written(kept) or Spliced(
            self.page.text, {unit.line: n for n, unit in enumerate(self.ground.units)}
        )

    def _written(self, ops: Sequence[_Op]) -> Spliced | None:
        spliced = self.ground.written(
            [op.put for op in ops if op.put is not None], [op.replaced for op in ops if op.replaced is not None]
        )
        touched = frozenset(op.touched for op in ops if op.touched is not None)
        expected = [unit for op in ops for unit in op.expected]
        return spliced if self.ground.is_kept(spliced, touched, expected) else None

    def _origin_after(self, unit: Unit, spliced: Spliced, touched: dict[int, _Op]) -> Origin:
        number = spliced.unit_of.get(unit.line)
        if number is None or (number in touched and not touched[number].keeps_origin):
            origin = Origin(
                b"",
                (),
                self.evidence.source,
                self.weight.authority,
                self.evidence.observed_at,
                "",
                corroborated_by=independent(self.evidence.source, self.verified),
            )
        else:
            origin = self._supported(number) if number in self.supported else self.origins[number]
        return replace(origin, digest=unit_digest(unit.text), section=unit.section)


class _Index:
    """What the page says, found by equal text and by shared terms."""

    def __init__(self, page: Sequence[Unit], language: str) -> None:
        self.units, self.language = page, language
        self._by_digest: dict[tuple[str, bytes], list[int]] = defaultdict(list)
        self._of_unit: dict[int, list[Statement]] = {}
        self._by_term: dict[str, list[Statement]] | None = None
        self._by_fold: dict[str, list[Statement]] = defaultdict(list)
        for number, unit in enumerate(page):
            self._by_digest[_sort(unit), unit_digest(_bare(unit))].append(number)

    def equal(self, unit: Unit, allowed: _Allowed) -> int | None:
        """Return the unit of the page with the same text."""
        same = self._by_digest.get((_sort(unit), unit_digest(_bare(unit))), ())
        return next((number for number in same if allowed(number)), None)

    def of_unit(self, number: int) -> list[Statement]:
        """Return the statements of that unit."""
        if number not in self._of_unit:
            unit = self.units[number]
            self._of_unit[number] = [one._replace(unit=number) for one in statements([unit], self.language)]
        return self._of_unit[number]

    def near(self, new: Statement) -> list[_Near]:
        """Return the statements that have most in common with `new`, equal ones first."""
        by_term = self._terms()
        shared: dict[int, float] = defaultdict(float)
        met: dict[int, Statement] = {}
        for term in set(new.said.terms):
            holders = by_term.get(term, ())
            for one in holders:
                met[id(one)] = one
                shared[id(one)] += 1 / (1 + len(holders))
        best = sorted(shared, key=lambda key: -shared[key])[: CANDIDATES * 2]
        equal = self._by_fold.get(new.said.folded, [])
        found = [_Near(one, 1.0) for one in equal]
        rest = [_Near(met[key], alike(met[key].said, new.said)) for key in best if met[key] not in equal]
        return found + sorted(rest, key=lambda one: -one.likeness)[:CANDIDATES]

    def _terms(self) -> dict[str, list[Statement]]:
        if self._by_term is None:
            self._by_term = defaultdict(list)
            for number, unit in enumerate(self.units):
                if unit.kind in ("paragraph", "item", "quote"):
                    for one in self.of_unit(number):
                        self._by_fold[one.said.folded].append(one)
                        for term in set(one.said.terms):
                            self._by_term[term].append(one)
        return self._by_term


_Allowed = Callable[[int], bool]

MOST_VERDICTS = 80


def _bare(unit: Unit) -> str:
    """Return what a unit says, without the marker of a list, which says only how it is shown."""
    if unit.kind in ("item", "paragraph"):
        return bare_text(unit)
    return unit.text


def _sort(unit: Unit) -> str:
    """Return what units must have in common to be equal: a comment after a list is read as text, and is the same text."""
    return unit.kind if unit.kind in ("front", "heading") else "text"


def _lines(text: str) -> list[str]:
    return [line.strip() for line in folded_lines(text) if line.strip()]


def _shared(one: Sequence[str], other: Sequence[str]) -> float:
    """Return how many lines of both are in both, 0..1."""
    both = sum((Counter(one) & Counter(other)).values())
    return 2 * both / (len(one) + len(other)) if one or other else 0.0


def folded_lines(text: str) -> list[str]:
    """Return the lines of `text` without their ends, and without empty ones at both ends of it."""
    return folded_ends(text).split("\n")


def folded_text(text: str) -> str:
    """Return `text` as it is put in: LF line ends, none at its end."""
    return folded_ends(text).rstrip(" \t\n")


def _folded(cell: str) -> str:
    return folded_cell(cell)


def _value(entry: str, key: str) -> str:
    """Return what a key of the front matter says, on one line."""
    lines = [line for line in folded_lines(entry) if not line.lstrip().startswith("#")]
    text = " ".join(line.strip() for line in lines)
    return text.partition(":")[2].strip() if key in text.partition(":")[0] else text


def _is_list(entry: str) -> bool:
    value = _value(entry, name_of(entry))
    return value.startswith(("[", "- "))


def _entries(value: str) -> list[str]:
    """Return the values of a list of the front matter in order, of a plain one the one that it is."""
    if value.startswith("["):
        parts = value.strip("[] ").split(",")
    elif value.startswith("- "):
        parts = re.split(r"(?:^|\s)-\s+", value)
    else:
        parts = [value]
    return [part.strip().strip("\"'") for part in parts if part.strip()]


def _listed(value: str) -> frozenset[str]:
    return frozenset(entry.casefold() for entry in _entries(value))


def _with_values(entry: str, values: Sequence[str]) -> str | None:
    """Return a list of the front matter with these values at its end; None if it is written in no plain way."""
    ending = entry[len(entry.rstrip("\r\n")) :]
    lines = folded_lines(entry)
    last = lines[-1]
    if last.rstrip().endswith("]") and last.count("[") == last.count("]") == 1:
        head = last.rstrip()[:-1].rstrip()
        joined = ", ".join(values)
        lines[-1] = f"{head}{joined}]" if head.endswith(("[", ",")) else f"{head}, {joined}]"
    elif last.lstrip().startswith("- "):
        indent = last[: len(last) - len(last.lstrip())]
        lines += [f"{indent}- {value}" for value in values]
    else:
        return None
    return "\n".join(lines) + ending


def _shown(weight: Confidence) -> str:
    return (
        f"{weight.confidence:.2f} (recency {weight.recency:.2f}, authority {weight.authority:.2f}, "
        f"corroboration {weight.corroboration:.2f})"
    )


def _named(section: Sequence[str]) -> str:
    return f'"{section_name(section)}"' if section else "the beginning of the page"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f"'{line if len(line) <= 60 else line[:57] + '...'}'"


def _expected(unit: Unit, put: Put) -> tuple[Unit, ...]:
    """Return the units that what is put in is to be read as."""
    found = tuple(one for one in units(cut(put.text)) if one.kind != "heading")
    return found or (unit,)


def _heading(piece: Piece, shift: int) -> str:
    """Return a heading of the content, `shift` levels deeper."""
    if not shift:
        return folded_text(piece.text)
    level = min(6, max(1, heading_level(piece.text) + shift))
    words = folded_text(piece.text).split("\n")[0].strip().strip("#").strip()
    return f"{'#' * level} {words}"


def _runs(news: Sequence[_New]) -> Iterator[list[_New]]:
    """Yield what belongs together: items of one list, otherwise one by one."""
    run: list[_New] = []
    for new in news:
        if run and not (
            new.unit.kind == "item" and run[-1].unit.kind == "item" and run[-1].unit.piece == new.unit.piece
        ):
            yield run
            run = []
        run.append(new)
    if run:
        yield run


def _told(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts; of very many that change nothing only how many there are."""
    if len(verdicts) <= MOST_VERDICTS:
        return list(verdicts)
    telling = [verdict for verdict in verdicts if verdict.verdict != "unchanged"]
    same = len(verdicts) - len(telling)
    if not same:
        return telling
    return [*telling, Verdict("", "unchanged", f"{same} blocks say what the page says already")]


__all__ = ["PageFacts", "weigh"]
