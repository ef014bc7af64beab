"""Joins two versions of a table: columns by name, rows by the cells that name them, and a row's cells one by one. Pure.

Source: GitHub Flavored Markdown, section 4.10.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from knowledge.merge.document.units import bare, split_lines
from knowledge.merge.three_way.alignment import AlignedNode, Likeness, align_versions, likeness
from knowledge.merge.three_way.kinds.prose import join_line
from knowledge.merge.three_way.moves import follow_moves
from knowledge.merge.three_way.sequence import PartJoin, SequenceMerge

_PIPE = re.compile(r"(?<!\\)\|")
_EMPTY = "  "
_DASHES = " --- "

Column = tuple[str, int]
"""A column's name, and its number among the columns of the same name."""


class RowParts(NamedTuple):
    """A line of a table: its cells as written, the text before the first and after the last, its line end."""

    before: str
    cells: tuple[str, ...]
    after: str
    end: str

    @property
    def text(self) -> str:
        """The whole line, as written in the page."""
        return self.before + "|".join(self.cells) + self.after + self.end

    @property
    def values(self) -> tuple[str, ...]:
        """The cells without the blanks around them."""
        return tuple(cell.strip(" \t") for cell in self.cells)


class TableParts(NamedTuple):
    """A table taken apart: the head, the dashes under it, the rows, and the columns that the head names."""

    head: RowParts
    dashes: RowParts
    rows: tuple[RowParts, ...]
    columns: tuple[Column, ...]


def join_table(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> PartJoin:
    """Return the merge of a table; its text is None where one side removed a column that the other still filled."""
    b, o, t = _taken_apart(base.text), _taken_apart(ours.text), _taken_apart(theirs.text)
    columns = _join_columns(b, o, t)
    if columns is None:
        return PartJoin(None)
    b, o, t = _arranged(b, columns), _arranged(o, columns), _arranged(t, columns)
    head, dashes = _join_row(b.head, o.head, t.head), _join_row(b.dashes, o.dashes, t.dashes)
    if head is None or dashes is None:
        return PartJoin(None)

    def join(one: AlignedNode, mine: AlignedNode, other: AlignedNode) -> PartJoin:
        row = _join_row(_row(one.text), _row(mine.text), _row(other.text))
        return PartJoin(None if row is None else row.text)

    rows = [_nodes(table, node) for table, node in ((b, base), (o, ours), (t, theirs))]
    versions = follow_moves(rows[0], rows[1], rows[2], _by_key(_keys(*rows)))
    merged = SequenceMerge(versions, join).merged()
    return PartJoin(head.text + dashes.text + "".join(node.text for node in merged.parts), merged.clashes)


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


# Columns


def _join_columns(base: TableParts, ours: TableParts, theirs: TableParts) -> tuple[Column, ...] | None:
    """Return the columns of the joined table, None where one was removed that the other side changed or gave to new rows."""
    versions = (base, ours, theirs)
    if base.columns == ours.columns == theirs.columns:
        return base.columns
    # A new name over the same number of columns renames one; the rows are compared as they are.
    was = {column: at for at, column in enumerate(base.columns)}
    reordered = any(was.get(column, at) != at for side in (ours, theirs) for at, column in enumerate(side.columns))
    if len(base.columns) == len(ours.columns) == len(theirs.columns) and not reordered:
        return base.columns
    b, o, t = ([AlignedNode("column", f"{c}", "", f"{c}") for c in table.columns] for table in versions)
    # Columns are equal or not: no column is a version of another.
    merged = SequenceMerge(align_versions(b, o, t, lambda *_: 0.0), lambda *_: PartJoin(None)).merged()
    if merged.clashes:
        return None
    names = {f"{c}": c for table in versions for c in table.columns}
    columns = tuple(dict.fromkeys(names[node.text] for node in merged.parts))
    for column in set(base.columns) - set(columns):
        before = Counter(_values(base, column))
        if any(Counter(_values(table, column)) - before for table in (ours, theirs)):
            return None
    return columns


def _values(table: TableParts, column: Column) -> list[str]:
    if column not in table.columns:
        return []
    at = table.columns.index(column)
    return [row.values[at] for row in table.rows if at < len(row.cells) and row.values[at]]


def _arranged(table: TableParts, columns: tuple[Column, ...]) -> TableParts:
    """Return the table with these columns; those that it does not have are empty."""
    renamed = len(table.columns) == len(columns) and not set(columns) <= set(table.columns)
    if table.columns == columns or renamed:
        return table
    own = {column: at for at, column in enumerate(table.columns)}
    where = [own.get(column, -1) for column in columns]

    def arranged(row: RowParts, empty: str) -> RowParts:
        cells = tuple(row.cells[at] if 0 <= at < len(row.cells) else empty for at in where)
        return row._replace(cells=cells)

    rows = tuple(arranged(row, _EMPTY) for row in table.rows)
    return TableParts(arranged(table.head, _EMPTY), arranged(table.dashes, _DASHES), rows, columns)


# Rows


def _nodes(table: TableParts, node: AlignedNode) -> list[AlignedNode]:
    # The key leaves out the blanks that fill up cells: aligning a table changes no row.
    return [
        AlignedNode("row", row.text, "", "|".join(row.values), node.line + at, node.section)
        for at, row in enumerate(table.rows, 2)
    ]


def _keys(*tables: Sequence[AlignedNode]) -> Mapping[str, tuple[str, ...]]:
    """Return the cells that name each row: the fewest first cells that tell the rows of each version apart.

    Returns nothing if no number of cells does.
    """
    values = {node.key: tuple(_PIPE.split(node.key.casefold())) for table in tables for node in table}
    for width in range(1, max((len(value) for value in values.values()), default=0) + 1):
        if all(len({values[node.key][:width] for node in table}) == len(table) for table in tables):
            return {key: value[:width] for key, value in values.items()}
    return {}


def _by_key(keys: Mapping[str, tuple[str, ...]]) -> Likeness:
    def alike(one: AlignedNode, other: AlignedNode) -> float:
        if keys and keys[one.key] == keys[other.key]:
            return 1.0
        mine, yours = _PIPE.split(one.key), _PIPE.split(other.key)
        same = [a == b for a, b in zip(mine, yours, strict=False)].count(True)
        # A row with another name is the same row only if all its other cells are the same.
        if keys:
            return 0.9 if same and same >= len(mine) - 1 else 0.0
        return max(likeness(one, other), same / max(len(mine), len(yours)))

    return alike


def _join_row(base: RowParts, ours: RowParts, theirs: RowParts) -> RowParts | None:
    if ours.values == theirs.values or theirs.text == base.text:
        return ours
    if ours.text == base.text:
        return theirs
    if not len(base.cells) == len(ours.cells) == len(theirs.cells):
        return None
    cells: list[str] = []
    for one, mine, other in zip(base.cells, ours.cells, theirs.cells, strict=True):
        cell = _join_cell(one, mine, other)
        if cell is None:
            return None
        cells.append(cell)
    return ours._replace(cells=tuple(cells))


def _join_cell(base: str, ours: str, theirs: str) -> str | None:
    """Return the joined cell; the blanks that fill it up count for nothing."""
    was, mine, other = base.strip(), ours.strip(), theirs.strip()
    if other in (mine, was):
        return theirs if ours == base else ours
    return theirs if mine == was else join_line(base, ours, theirs)
