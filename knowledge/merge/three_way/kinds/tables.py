"""Joining two versions of a table: columns by name, rows by what names them, and a row's cells one by one. Pure.

Source: GitHub Flavored Markdown, section 4.10.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from knowledge.merge.document.units import bare, split_lines
from knowledge.merge.three_way.alignment import AlignedNode, Likeness, likeness
from knowledge.merge.three_way.kinds.prose import joined_line
from knowledge.merge.three_way.moves import followed
from knowledge.merge.three_way.sequence import Inner, Sequences, in_sequence

_PIPE = re.compile(r"(?<!\\)\|")
_EMPTY = "  "
_DASHES = " --- "

Column = tuple[str, int]
"""A column's name, and which of that name it is."""


class RowParts(NamedTuple):
    """A line of a table: its cells as written, what stands before the first and after the last, its line end."""

    before: str
    cells: tuple[str, ...]
    after: str
    end: str

    @property
    def text(self) -> str:
        """The line as it is written."""
        return self.before + "|".join(self.cells) + self.after + self.end

    @property
    def values(self) -> tuple[str, ...]:
        """What its cells say."""
        return tuple(cell.strip(" \t") for cell in self.cells)


class TableParts(NamedTuple):
    """A table taken apart: the head, the dashes under it, the rows, and the columns that the head names."""

    head: RowParts
    marks: RowParts
    rows: tuple[RowParts, ...]
    columns: tuple[Column, ...]


def joined_table(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> Inner:
    """Return what both sides made of a table; None for a text where columns went that the other side still filled."""
    b, o, t = _taken_apart(base.text), _taken_apart(ours.text), _taken_apart(theirs.text)
    columns = _columns(b, o, t)
    if columns is None:
        return Inner(None)
    b, o, t = _arranged(b, columns), _arranged(o, columns), _arranged(t, columns)
    head, marks = _joined_row(b.head, o.head, t.head), _joined_row(b.marks, o.marks, t.marks)
    if head is None or marks is None:
        return Inner(None)
    rows, mine, other = _nodes(b, base), _nodes(o, ours), _nodes(t, theirs)
    alike = _by_key(_keys(rows, mine, other))
    merged = in_sequence(followed(rows, mine, other, alike), _join_rows, gap="").merged()
    return Inner(head.text + marks.text + "".join(node.text for node in merged.parts), merged.clashes)


def _taken_apart(text: str) -> TableParts:
    rows = tuple(_row(line) for line in split_lines(text))
    seen: Counter[str] = Counter()
    columns: list[Column] = []
    for name in rows[0].values:
        columns.append((name, seen[name]))
        seen[name] += 1
    return TableParts(rows[0], rows[1], rows[2:], tuple(columns))


def _row(line: str) -> RowParts:
    text = bare(line)
    end = line[len(text) :]
    inner = text.lstrip(" \t")
    before = text[: len(text) - len(inner)]
    if inner.startswith("|"):
        before, inner = before + "|", inner[1:]
    shown = inner.rstrip(" \t")
    after = ""
    if shown.endswith("|") and not shown.endswith("\\|"):
        inner, after = shown[:-1], inner[len(shown) - 1 :]
    return RowParts(before, tuple(_PIPE.split(inner)), after, end)


def _columns(base: TableParts, ours: TableParts, theirs: TableParts) -> tuple[Column, ...] | None:
    """Return the columns of the joined table, None where one went that the other side changed or gave to new rows."""
    if base.columns == ours.columns == theirs.columns:
        return base.columns
    # A new name over the same number of columns is a new name; the rows are compared as they are.
    if len(base.columns) == len(ours.columns) == len(theirs.columns) and not _reordered(base, ours, theirs):
        return base.columns
    nodes = [[AlignedNode("column", f"{c}", "", f"{c}") for c in table.columns] for table in (base, ours, theirs)]
    merged = Sequences(nodes[0], nodes[1], nodes[2], join=_no_join, gap="", alike=_never).merged()
    if merged.clashes:
        return None
    names = {f"{c}": c for table in (base, ours, theirs) for c in table.columns}
    columns = tuple(dict.fromkeys(names[node.text] for node in merged.parts))
    stay = set(columns)
    for column in base.columns:
        if column not in stay:
            before = Counter(_values(base, column))
            if any(Counter(_values(table, column)) - before for table in (ours, theirs)):
                return None
    return columns


def _reordered(base: TableParts, ours: TableParts, theirs: TableParts) -> bool:
    """Return whether a side put a column elsewhere, or both named one anew."""
    was = {column: at for at, column in enumerate(base.columns)}
    return any(was.get(column, at) != at for table in (ours, theirs) for at, column in enumerate(table.columns))


def _values(table: TableParts, column: Column) -> list[str]:
    if column not in table.columns:
        return []
    at = table.columns.index(column)
    return [row.values[at] for row in table.rows if at < len(row.cells) and row.values[at]]


def _arranged(table: TableParts, columns: tuple[Column, ...]) -> TableParts:
    """Return the table with these columns; what it has not is empty."""
    if table.columns == columns or (len(table.columns) == len(columns) and set(table.columns).isdisjoint(columns)):
        return table
    if len(table.columns) == len(columns) and not set(columns) <= set(table.columns):
        return table
    own = {column: at for at, column in enumerate(table.columns)}
    where = [own.get(column, -1) for column in columns]

    def arranged(row: RowParts, empty: str) -> RowParts:
        cells = tuple(row.cells[at] if 0 <= at < len(row.cells) else empty for at in where)
        return row._replace(cells=cells)

    return TableParts(
        arranged(table.head, _EMPTY),
        arranged(table.marks, _DASHES),
        tuple(arranged(row, _EMPTY) for row in table.rows),
        columns,
    )


def _nodes(table: TableParts, node: AlignedNode) -> list[AlignedNode]:
    # How cells are filled up with blanks is no change.
    return [
        AlignedNode("row", row.text, "", "|".join(row.values), node.line + at, node.section)
        for at, row in enumerate(table.rows, 2)
    ]


def _values_of(node: AlignedNode) -> list[str]:
    return _PIPE.split(node.key)


def _keys(*tables: Sequence[AlignedNode]) -> dict[str, tuple[str, ...]]:
    """Return what names each row: as few of the first cells as tell the rows of each version apart; nothing if none do."""
    values = {node.key: tuple(v.casefold() for v in _values_of(node)) for table in tables for node in table}
    for width in range(1, max((len(value) for value in values.values()), default=0) + 1):
        if all(len({values[node.key][:width] for node in table}) == len(table) for table in tables):
            return {key: value[:width] for key, value in values.items()}
    return {}


def _by_key(keys: dict[str, tuple[str, ...]]) -> Likeness:
    def alike(one: AlignedNode, other: AlignedNode) -> float:
        if keys and keys[one.key] == keys[other.key]:
            return 1.0
        mine, yours = _values_of(one), _values_of(other)
        same = sum(a == b for a, b in zip(mine, yours, strict=False))
        # Named anew, it is the same row only if all else is.
        if keys:
            return 0.9 if same and same >= len(mine) - 1 else 0.0
        return max(likeness(one, other), same / max(len(mine), len(yours)))

    return alike


def _join_rows(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> Inner:
    row = _joined_row(_row(base.text), _row(ours.text), _row(theirs.text))
    return Inner(None if row is None else row.text)


def _joined_row(base: RowParts, ours: RowParts, theirs: RowParts) -> RowParts | None:
    if ours.values == theirs.values or theirs.text == base.text:
        return ours
    if ours.text == base.text:
        return theirs
    if not len(base.cells) == len(ours.cells) == len(theirs.cells):
        return None
    cells: list[str] = []
    for one, mine, other in zip(base.cells, ours.cells, theirs.cells, strict=True):
        cell = _joined_cell(one, mine, other)
        if cell is None:
            return None
        cells.append(cell)
    return ours._replace(cells=tuple(cells))


def _joined_cell(base: str, ours: str, theirs: str) -> str | None:
    """Return what a cell says afterwards; how it is filled up with blanks counts for nothing."""
    was, mine, other = base.strip(), ours.strip(), theirs.strip()
    if other in (mine, was):
        return theirs if ours == base else ours
    return theirs if mine == was else joined_line(base, ours, theirs)


def _no_join(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> Inner:  # noqa: ARG001  (the shape of every join)
    return Inner(None)


def _never(one: AlignedNode, other: AlignedNode) -> float:  # noqa: ARG001  (columns are the same or not)
    return 0.0
