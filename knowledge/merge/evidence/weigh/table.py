"""The rows of a Markdown table, their cells, and where each cell is in its row. Pure.

Source: GitHub Flavored Markdown 0.29, "Tables (extension)".
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from knowledge.merge.document.units import bare, split_lines
from knowledge.merge.model import CutDocument, Unit
from knowledge.pages.markdown.inline import plain

REMEMBERED = 4_096
LONGEST_REMEMBERED = 200
"""The most characters of a cell whose folded text is cached: tables repeat short ones."""

_PIPE = re.compile(r"(?<!\\)\|")
_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")


class Cell(NamedTuple):
    """A cell without the blanks around it, and its place in its row."""

    text: str
    start: int
    end: int


class TableRow(NamedTuple):
    """A row and its index among the units of its text; -1 for one outside of a table."""

    unit: int
    cells: tuple[Cell, ...]

    def cell(self, column: int) -> str:
        """Return the text in that column, "" past the end."""
        return self.cells[column].text if 0 <= column < len(self.cells) else ""


class Table(NamedTuple):
    """A table: its piece, the unit of its head, its columns as they read, and its rows."""

    piece: int
    head: int
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def table_of(page: CutDocument, units: Sequence[Unit], piece: int) -> Table:
    """Return the table at `piece`, the index of a table among the pieces of `page`."""
    # The units of a page are in the order of its pieces.
    first, end = (bisect(units, piece, key=lambda unit: unit.piece) for bisect in (bisect_left, bisect_right))
    rows = [TableRow(number, _cells_in(units[number].text)) for number in range(first, end)]
    head, *body = rows
    assert page.pieces[piece].kind == "table"  # noqa: S101 - the caller looked; a wrong row here would be written
    return Table(piece, head.unit, tuple(folded_cell(cell.text) for cell in head.cells), tuple(body))


def rows_without_head(text: str) -> tuple[TableRow, ...]:
    """Return the table rows that a paragraph consists of; none if it is text."""
    lines = split_lines(text)
    if not lines or not all(_ROW.match(bare(line)) for line in lines):
        return ()
    return tuple(TableRow(-1, _cells_in(line)) for line in lines)


def _cells_in(line: str) -> tuple[Cell, ...]:
    text = bare(line)
    marks = [found.start() for found in _PIPE.finditer(text)]
    found = []
    for left, right in pairwise([-1, *marks, len(text)]):
        inner = text[left + 1 : right]
        start = left + 1 + len(inner) - len(inner.lstrip(" \t"))
        cell = inner.strip(" \t")
        found.append(Cell(cell, start, start + len(cell)))
    if marks and not text[: marks[0]].strip():
        found = found[1:]
    if marks and found and not text[marks[-1] + 1 :].strip():
        found = found[:-1]
    return tuple(found)


def folded_cell(text: str) -> str:
    """Return a cell in the form for comparison: without markup, case and surrounding white space."""
    return _folded_once(text) if len(text) <= LONGEST_REMEMBERED else _folded(text)


def _folded(text: str) -> str:
    return plain(text).casefold().strip()


_folded_once = lru_cache(REMEMBERED)(_folded)


def key_of(row: TableRow, columns: Sequence[int]) -> tuple[str, ...]:
    """Return the cells of a row in these columns, in the form for comparison."""
    return tuple(folded_cell(row.cell(column)) for column in columns)
