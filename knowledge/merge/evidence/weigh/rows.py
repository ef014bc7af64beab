"""Weighs table rows: each is compared cell by cell with the page's row that has the same key. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from knowledge.merge.claims.comparison import StatementRelation
from knowledge.merge.claims.statements import covers, implies, read_statement
from knowledge.merge.evidence.place.list_form import SORTED_FROM, folded_lines
from knowledge.merge.evidence.place.placement import PageSection
from knowledge.merge.evidence.weigh.table import Table, TableRow, folded_cell, key_of
from knowledge.merge.evidence.weighing_state import Dispute, NewText, PageChange, Weighing, quoted
from knowledge.merge.model import Unit, quoted_section, unit_digest
from knowledge.merge.splice import Insertion

MOST_OF_ONE_KEY = 50
"""The most rows of one key that a new row is compared with: with more rows, these columns are not a key."""


def weigh_table(w: Weighing, table: Table) -> None:
    """Decide on each row of a table, or on the whole table if the page has none like it."""
    unit = w.incoming[table.head]
    alike = [_TableMeeting(there, table) for there in _tables_like(w, table.columns, w.target(unit.section))]
    # Of several tables with these columns, a row belongs to the only one that has its key.
    homes = {
        row.unit: alike if len(alike) == 1 else [one for one in alike if one.nearest(row) is not None]
        for row in table.rows
    }
    if not any(homes.values()):
        _new_table(w, table)
        return
    for row in table.rows:
        if len(homes[row.unit]) == 1:
            _weigh_row(w, w.incoming[row.unit], row, homes[row.unit][0])
        else:
            why = f"not written: several tables have these columns; send the row of {quoted(row.cell(0))} to the section of its table"
            w.verdict("retain", unit.section, why)


def weigh_rows(w: Weighing, unit: Unit, rows: Sequence[TableRow]) -> bool:
    """Weigh rows that came without a head, if only one table has as many columns; return whether one does."""
    width = len(rows[0].cells)
    there = [table for table in _tables(w, w.target(unit.section)) if len(table.columns) == width]
    if len(there) != 1 or any(len(row.cells) != width for row in rows):
        return False
    meeting = _TableMeeting(there[0], there[0]._replace(rows=tuple(rows)))
    for row, line in zip(rows, folded_lines(unit.text), strict=True):
        _weigh_row(w, unit._replace(kind="row", text=line + "\n"), row, meeting)
    return True


def _new_table(w: Weighing, table: Table) -> None:
    piece = w.content.pieces[table.piece]
    unit = w.incoming[table.head]
    digest = unit_digest(piece.text)
    equal = [one for one in w.tables if unit_digest(w.page.pieces[one.piece].text) == digest]
    same = [number for one in equal for number in (one.head, *(row.unit for row in one.rows))]
    if same:
        w.unchanged(table.head, *same)
        return
    verdict = w.verdict("integrate", unit.section, "")
    w.new_texts.append(NewText(verdict, unit._replace(text=piece.text), None, whole=True))


def _tables(w: Weighing, target: PageSection | None) -> list[Table]:
    return [table for table in w.tables if target is None or w.lies_in(table.piece, target)]


def _tables_like(w: Weighing, columns: Sequence[str], target: PageSection | None) -> list[Table]:
    """Return the page's tables with these columns, including their own first column."""

    def fits(table: Table) -> bool:
        # Only their order tells columns apart that share a name, or have none.
        if len(set(columns)) != len(columns):
            return table.columns == tuple(columns)
        return set(columns) <= set(table.columns) and table.columns[0] in columns

    found = [table for table in _tables(w, target) if fits(table)]
    # If the section has no such table, look elsewhere on the page, unless the caller named the section.
    if not found and target is not None and w.within is None:
        found = [table for table in _tables(w, None) if fits(table)]
    return [table for table in found if table.columns == tuple(columns)] or found


class _TableMeeting:
    """A table of the page and a new one for it; `columns` gives the page's column of each new cell, in order."""

    def __init__(self, there: Table, new: Table) -> None:
        self.there = there
        is_same = there.columns == new.columns
        self.columns = columns = [at if is_same else there.columns.index(name) for at, name in enumerate(new.columns)]
        self.firsts = [folded_cell(row.cell(0)) for row in there.rows]
        # Where the first column does not tell rows apart, the first two do.
        self._keys = (0,) if len(set(self.firsts)) == len(self.firsts) or len(there.columns) < 3 else (0, 1)
        self._by_key: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
        self._by_cells: dict[tuple[str, ...], TableRow] = {}
        for row in there.rows:
            self._by_key[key_of(row, self._keys)].append(row)
            self._by_cells.setdefault(key_of(row, columns), row)
        self.coming = Counter(map(self.key, new.rows))
        self.is_sorted = (
            len(self.firsts) >= SORTED_FROM and self.firsts == sorted(self.firsts) and self.firsts[0] != self.firsts[-1]
        )

    def placed(self, row: TableRow) -> dict[int, str]:
        """Return the cells of a new row by the column of the page that they belong to."""
        return {column: row.cell(at) for at, column in enumerate(self.columns)}

    def key(self, row: TableRow) -> tuple[str, ...]:
        """Return the cells that name a new row."""
        placed = self.placed(row)
        return tuple(folded_cell(placed.get(column, "")) for column in self._keys)

    def nearest(self, row: TableRow) -> TableRow | None:
        """Return the page's row that has the key of a new row and shares the most cells with it; None without one."""
        same = self._same(row)
        if not same:
            return None
        cells = tuple(folded_cell(row.cell(at)) for at in range(len(self.columns)))
        if (equal := self._by_cells.get(cells)) is not None:
            return equal
        mine = dict(zip(self.columns, cells, strict=True))
        return max(
            same[:MOST_OF_ONE_KEY],
            # `free` and `Free` may be two keys.
            key=lambda one: (
                one.cell(0) == self.placed(row).get(0),
                sum(text == folded_cell(one.cell(at)) for at, text in mine.items()),
            ),
        )

    def missing(self, row: TableRow) -> str:
        """Return the column that would tell which of several rows of the page a new row is a version of; "" if none is missing."""
        lacking = [at for at in self._keys if not self.placed(row).get(at)]
        return self.there.columns[lacking[0]] if lacking and len(self._same(row)) > 1 else ""

    def _same(self, row: TableRow) -> Sequence[TableRow]:
        """Return the page's rows that have the key of a new row, as far as it has one."""
        placed = self.placed(row)
        given = [at for at in self._keys if placed.get(at)]
        if len(given) == len(self._keys) or 0 not in given:
            return self._by_key.get(self.key(row), ())
        known = tuple(folded_cell(placed[at]) for at in given)
        return [one for one in self.there.rows if key_of(one, given) == known]


def _weigh_row(w: Weighing, unit: Unit, row: TableRow, meeting: _TableMeeting) -> None:
    placed, old = meeting.placed(row), meeting.nearest(row)
    if old is None:
        _new_row(w, unit, placed, meeting)
        return
    if (column := meeting.missing(row)) and not all(text == old.cell(at) for at, text in placed.items() if text):
        why = f"the page has several rows for {quoted(placed[0])}; send yours with its {quoted(column)}"
        w.retain(unit, old.unit, why)
        return
    differing = [at for at, text in placed.items() if text and text != old.cell(at)]
    empty = [at for at in differing if not old.cell(at)]
    names = meeting.there.columns
    changed: list[int] = []
    is_covered = True
    for at in differing:
        if at not in empty:
            # Read with its column: "30" says nothing, "timeout: 30" does.
            name = f"{names[at]}: " if names[at] else ""
            was, now = (read_statement(name + text, w.language) for text in (old.cell(at), placed[at]))
            if not implies(was, now):
                changed.append(at)
                is_covered &= covers(now, was)
    if not empty and not changed:
        w.confirmed_by[old.unit].add(-1)
        w.unchanged(-1, old.unit)
    # If two new rows have the same key, neither changes the page.
    elif changed and (meeting.coming[meeting.key(row)] > 1 or old.unit in w.confirmed_by):
        w.retain(unit, old.unit, "this call has another row with the same key")
    elif not changed or (decision := w.replacing(unit, old.unit, covers=is_covered)) == "allowed":
        _write_cells(w, unit, old, {at: placed[at] for at in (*empty, *changed)}, fills=not changed)
    elif decision == "differs":
        _flag_cell(w, unit, old, names[changed[0]], (old.cell(changed[0]), placed[changed[0]]))
    else:
        w.retain(unit, old.unit, decision)


def _flag_cell(w: Weighing, unit: Unit, old: TableRow, column: str, texts: tuple[str, str]) -> None:
    subject = ", ".join(filter(None, (old.cell(0), column)))
    reason = f"About '{subject}', the existing text says '{texts[0]}', the new text '{texts[1]}'."
    comparison = StatementRelation("contradict", "cell", subject, reason, 1.0)
    w.flag(unit, [Dispute(unit.text, old.unit, w.units[old.unit].text, comparison)])


def _write_cells(w: Weighing, unit: Unit, old: TableRow, cells: Mapping[int, str], *, fills: bool) -> None:
    if old.unit in w.replaced_units:
        w.retain(unit, old.unit, "this call has changed the same text already")
        return
    if max(cells) >= len(old.cells):
        w.retain(unit, old.unit, "it has more cells than the row with its key")
        return
    was = text = w.units[old.unit].text
    # From the right, so that the offsets of the cells to the left stay valid.
    for at in sorted(cells, reverse=True):
        cell = old.cells[at]
        before = "" if cell.start < cell.end or was[cell.start - 1 : cell.start].isspace() else " "
        after = "" if cell.start < cell.end else " "
        text = text[: cell.start] + before + cells[at] + after + text[cell.end :]
    if fills:
        # The row still says what it said, so it keeps its source.
        reason = f"fills empty cells: {w.weight}"
        verdict = w.verdict("update", w.units[old.unit].section, reason, old.unit)
    else:
        verdict = w.update_verdict(old.unit)
    w.replace_text(old.unit, text, verdict, keeps_origin=fills)


def _new_row(w: Weighing, unit: Unit, placed: Mapping[int, str], meeting: _TableMeeting) -> None:
    """Put a row into the table: where its key belongs if the table is sorted by it, else at the end."""
    there, keys = meeting.there, meeting.firsts
    section = w.page.pieces[there.piece].section
    text = "| " + " | ".join(placed.get(at, "") for at in range(len(there.columns))) + " |"
    if there.rows and not w.units[there.rows[-1].unit].text.lstrip().startswith("|"):
        text = text[2:-2]
    at = bisect_right(keys, folded_cell(placed.get(0, ""))) if meeting.is_sorted else len(keys)
    # Before the first row there is the line of dashes, which is not a unit.
    after = w.splicer.last_line(there.rows[at - 1].unit) if at else w.units[there.head].line + 1
    verdict = w.verdict("integrate", section, f"new row of the table under {quoted_section(section)}: {w.weight}")
    expected = (unit._replace(text=text),)
    w.changes.append(PageChange([verdict], Insertion(after, text, block=False), expected=expected))
