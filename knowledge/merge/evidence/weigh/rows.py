"""Weighing rows of a table: each meets the row with the same key, cell by cell. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.statements import (
    StatementReading,
    covers,
    implies,
    read_statement,
)
from knowledge.merge.evidence.context import New, Op, Weighing, named_section, shown
from knowledge.merge.evidence.placement import PageSection
from knowledge.merge.evidence.rephrase import SORTED_FROM, folded_lines
from knowledge.merge.evidence.weigh.table import JoinedTable, TableRow, folded_cell, key_of, table_of
from knowledge.merge.model import (
    Unit,
    unit_digest,
)
from knowledge.merge.splice import Insertion, Replacement

MOST_OF_ONE_KEY = 50
"""Rows of one key that a new row is held against: a table with more of them has no key."""


def weigh_table(w: Weighing, table: JoinedTable) -> None:
    """Decide what becomes of the rows of a table, or of a table that the page does not have."""
    unit = w.incoming[table.head]
    there = _table_like(w, table.columns, w.target(unit.section))
    if there is None:
        _new_table(w, table)
        return
    columns = [there.columns.index(name) for name in table.columns]
    meeting = _Meeting(there, table.rows, columns)
    for row in table.rows:
        _weigh_row(w, w.incoming[row.unit], row, meeting)


def weigh_rows(w: Weighing, unit: Unit, rows: Sequence[TableRow]) -> bool:
    """Weigh rows that came without a head, if a table has as many columns; tell whether one does."""
    width = len(rows[0].cells)
    target = w.target(unit.section)
    there = [
        table
        for table in _tables(w, target)
        if len(table.columns) == width and all(len(row.cells) == width for row in rows)
    ]
    if len(there) != 1:
        return False
    meeting = _Meeting(there[0], rows, list(range(width)))
    for row, line in zip(rows, folded_lines(unit.text), strict=True):
        _weigh_row(w, unit._replace(kind="row", text=line + "\n"), row, meeting)
    return True


def _new_table(w: Weighing, table: JoinedTable) -> None:
    piece = w.content.pieces[table.piece]
    unit = w.incoming[table.head]
    digest = unit_digest(piece.text)
    equal = {at for at, one in enumerate(w.page.pieces) if one.kind == "table" and unit_digest(one.text) == digest}
    same = [number for number, old in enumerate(w.ground.units) if old.piece in equal]
    if same:
        w.unchanged(table.head, *same)
        return
    order = w.verdict("integrate", unit.section, "")
    w.news.append(New(order, unit._replace(text=piece.text), None, whole=True))


def _tables(w: Weighing, target: PageSection | None) -> list[JoinedTable]:
    return [
        table_of(w.page, w.ground.units, number)
        for number, piece in enumerate(w.page.pieces)
        if piece.kind == "table" and (target is None or w.lies_in(number, target))
    ]


def _table_like(w: Weighing, columns: Sequence[str], target: PageSection | None) -> JoinedTable | None:
    """Return the table of the page that has these columns, the first of its own among them; the only one."""

    def fits(table: JoinedTable) -> bool:
        return len(set(columns)) == len(columns) and set(columns) <= set(table.columns) and table.columns[0] in columns

    found = [table for table in _tables(w, target) if fits(table)]
    if not found and target is not None and w.within is None:
        found = [table for table in _tables(w, None) if fits(table)]
    exact = [table for table in found if table.columns == tuple(columns)]
    return (exact or found)[0] if len(exact or found) == 1 else None


class _Meeting:
    """A table of the page and the rows that came for it; `columns` are those of the page, in the order of the new cells."""

    def __init__(self, there: JoinedTable, rows: Sequence[TableRow], columns: Sequence[int]) -> None:
        self.there, self.columns = there, columns
        self.firsts = [folded_cell(row.cell(0)) for row in there.rows]
        # Where the first column does not tell rows apart, the first two do.
        self._keys = (0,) if len(set(self.firsts)) == len(self.firsts) or len(there.columns) < 3 else (0, 1)
        self._by_key: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
        for row in there.rows:
            self._by_key[key_of(row, self._keys)].append(row)
        self._by_cells: dict[tuple[str, ...], TableRow] = {}
        for row in there.rows:
            self._by_cells.setdefault(key_of(row, columns), row)
        self._coming = Counter(self.key(row) for row in rows)
        self.is_sorted = (
            len(self.firsts) >= SORTED_FROM and self.firsts == sorted(self.firsts) and self.firsts[0] != self.firsts[-1]
        )

    def placed(self, row: TableRow) -> dict[int, str]:
        """Return the cells of a new row by the column of the page that they belong to."""
        return {column: row.cell(at) for at, column in enumerate(self.columns)}

    def key(self, row: TableRow) -> tuple[str, ...]:
        """Return what a new row is about."""
        placed = self.placed(row)
        return tuple(folded_cell(placed.get(column, "")) for column in self._keys)

    def same(self, row: TableRow) -> list[TableRow]:
        """Return the rows of the page with the key of a new one."""
        return self._by_key.get(self.key(row), [])

    def nearest(self, row: TableRow, same: Sequence[TableRow]) -> TableRow:
        """Return of the rows of the same key the one with most cells in common, the first of several."""
        cells = tuple(folded_cell(row.cell(at)) for at in range(len(self.columns)))
        if (equal := self._by_cells.get(cells)) is not None:
            return equal
        mine = dict(zip(self.columns, cells, strict=True))
        return max(
            same[:MOST_OF_ONE_KEY],
            key=lambda one: sum(text == folded_cell(one.cell(at)) for at, text in mine.items()),
        )

    def has_rival(self, row: TableRow) -> bool:
        """Return whether another new row has the same key: of two, neither changes what stands there."""
        return self._coming[self.key(row)] > 1


def _weigh_row(w: Weighing, unit: Unit, row: TableRow, meeting: _Meeting) -> None:
    """Meet the row with the same key, cell by cell."""
    there, placed, same = meeting.there, meeting.placed(row), meeting.same(row)
    if not same:
        _new_row(w, unit, placed, meeting)
        return
    old = meeting.nearest(row, same)
    differing = [at for at, text in placed.items() if text and folded_cell(text) != folded_cell(old.cell(at))]
    empty = [at for at in differing if not old.cell(at)]
    told = [at for at in differing if at not in empty and not _cell_says(w, there, old.cell(at), placed[at], at)]
    if not empty and not told:
        w.confirmed_by[old.unit].add(-1)
        w.unchanged(-1, old.unit)
        return
    if told and (meeting.has_rival(row) or old.unit in w.confirmed_by):
        w.retain(unit, old.unit, "came with another row of the same key:")
        return
    if told and not _may_change_cells(w, unit, old, told, placed=placed, there=there):
        return
    _write_cells(w, unit, old, {at: placed[at] for at in (*empty, *told)}, fills=not told)


def _cell_says(w: Weighing, table: JoinedTable, old: str, new: str, column: int) -> bool:
    return implies(_cell(w, table, column, old), _cell(w, table, column, new))


def _cell(w: Weighing, table: JoinedTable, column: int, text: str) -> StatementReading:
    return read_statement(f"{table.columns[column]}: {text}" if table.columns[column] else text, w.language)


def _may_change_cells(
    w: Weighing, unit: Unit, old: TableRow, told: Sequence[int], *, placed: dict[int, str], there: JoinedTable
) -> bool:
    """Flag or retain a row that says otherwise; return whether its cells may be written."""
    grows = all(covers(_cell(w, there, at, placed[at]), _cell(w, there, at, old.cell(at))) for at in told)
    if w.same_voice(old.unit):
        if w.is_later(old.unit):
            return True
        w.retain(unit, old.unit, "of an earlier time than")
    elif not grows:
        at = told[0]
        subject = ", ".join(filter(None, (old.cell(0), there.columns[at])))
        reason = f"About '{subject}' the existing text says '{old.cell(at)}', the new one '{placed[at]}'."
        w.flag_units(unit, old.unit, StatementRelation("contradict", "cell", subject, reason, 1.0))
    elif w.weight.confidence < w.confidence(old.unit).confidence:
        w.retain(unit, old.unit, "is less than")
    else:
        return True
    return False


def _write_cells(w: Weighing, unit: Unit, old: TableRow, cells: dict[int, str], *, fills: bool) -> None:
    if old.unit in w.replaced_units:
        w.retain(unit, old.unit, "would change again what this call has changed:")
        return
    was = w.ground.units[old.unit].text
    if max(cells) >= len(old.cells):
        w.retain(unit, old.unit, "has more cells than the row that it meets:")
        return
    text = was
    for at in sorted(cells, reverse=True):
        cell = old.cells[at]
        before = "" if cell.start < cell.end or was[cell.start - 1 : cell.start].isspace() else " "
        after = "" if cell.start < cell.end else " "
        text = text[: cell.start] + before + cells[at] + after + text[cell.end :]
    begin, end = w.ground.span(old.unit)
    reason = "fills cells that were empty: " + shown(w.weight) if fills else w.update_reason(old.unit)
    order = w.verdict("update", w.ground.units[old.unit].section, reason, old.unit)
    expected = unit._replace(text=text)
    w.ops.append(
        Op([order], replaced=Replacement(begin, end, text), touched=old.unit, keeps_origin=fills, expected=(expected,))
    )
    w.replaced_units.add(old.unit)


def _new_row(w: Weighing, unit: Unit, placed: dict[int, str], meeting: _Meeting) -> None:
    """Put a row into the table: where its key belongs if the table is sorted by it, else at the end."""
    there, keys = meeting.there, meeting.firsts
    section = w.page.pieces[there.piece].section
    width = len(there.columns)
    text = "| " + " | ".join(placed.get(at, "") for at in range(width)) + " |"
    if there.rows and not w.ground.units[there.rows[-1].unit].text.lstrip().startswith("|"):
        text = text[2:-2]
    at = bisect_right(keys, folded_cell(placed.get(0, ""))) if meeting.is_sorted else len(keys)
    # Before the first row stands the line of dashes, which is no unit.
    after = w.ground.last_line(there.rows[at - 1].unit) if at else w.ground.units[there.head].line + 1
    reason = f"new row of the table under {named_section(section)}: {shown(w.weight)}"
    order = w.verdict("integrate", section, reason)
    w.ops.append(Op([order], put=Insertion(after, text, block=False), expected=(unit._replace(text=text),)))
