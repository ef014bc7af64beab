"""The tables of a state database, taken from the migrations, and how PostgreSQL's columns correspond to SQLite's.

Nothing here names a table that a migration may add: a table or column without its counterpart is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache

import apsw

from knowledge.state.sqlite.database import load_schema
from knowledge.state.sqlite.dialect import in_sqlite

ONLY_IN_POSTGRES = frozenset({"meta", "counter", "sealing_key"})
"""Tables that SQLite does without: the schema's version, the number of the newest event, and a key that is a file there."""
LEFT_EMPTY = frozenset({("journey", "held")})
"""Columns that only PostgreSQL has, and that a program fills again."""
FOREVER_US = 2**62
"""SQLite's number for the time `infinity`."""
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class StateTable:
    """A table with its columns in SQLite. If it is `numbered`, its numbers are never given twice."""

    name: str
    columns: tuple[str, ...]
    numbered: bool


@dataclass(frozen=True, slots=True)
class PostgresColumn:
    """A column of PostgreSQL. `source` is the corresponding column in SQLite.

    If `key` is set, the column holds the SHA-256 of `source`.
    """

    name: str
    type: str
    source: str
    key: bool = False

    @property
    def as_sqlite(self) -> str:
        """The expression that reads the column as SQLite stores it."""
        match self.type:
            case "timestamp with time zone":
                unit = 1 if self.source.endswith("_s") else 1_000_000
                exact = f'floor(extract(epoch FROM "{self.name}") * {unit})::bigint'
                return f"CASE WHEN \"{self.name}\" = 'infinity' THEN {FOREVER_US} ELSE {exact} END"
            case "boolean":
                return f'"{self.name}"::integer'
            case _:
                return f'"{self.name}"'

    @property
    def array(self) -> str:
        """The type of the array in which values come from SQLite."""
        numbers = {"timestamp with time zone", "boolean", "integer", "bigint"}
        return "bigint[]" if self.type in numbers else f"{self.type}[]"

    def stored(self, value: str) -> str:
        """Return the expression that stores `value`, an expression of the array's type, in the column."""
        match self.type:
            case "timestamp with time zone":
                day = DAY_US // 1_000_000 if self.source.endswith("_s") else DAY_US
                rest = "second" if self.source.endswith("_s") else "microsecond"
                # A multiple of an interval is computed as a float, which has too few digits for all microseconds since 1970.
                exact = f"'epoch'::timestamptz + {value} / {day} * interval '1 day' + mod({value}, {day}) * interval '1 {rest}'"
                return f"CASE WHEN {value} = {FOREVER_US} THEN 'infinity' ELSE {exact} END"
            case "boolean":
                return f"{value} <> 0"
            case "integer":
                return f"{value}::integer"
            case _:
                return value


class UnmatchedLayout(Exception):
    """The two databases have a table or column that the other lacks: a migration was written for only one of them."""


@cache
def tables() -> tuple[StateTable, ...]:
    """Return all tables of the newest schema, in the order in which migrations make them."""
    with closing(apsw.Connection(":memory:")) as memory:
        for script in load_schema("state", 0, durable=True).migrations:
            memory.execute(script).fetchall()
        made = memory.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
        ).fetchall()
        found = []
        for name, sql in made:
            columns = memory.execute(f'PRAGMA table_info("{name}")').fetchall()
            found.append(StateTable(str(name), tuple(str(row[1]) for row in columns), "AUTOINCREMENT" in str(sql)))
        return tuple(found)


def matched(found: Mapping[str, Sequence[tuple[str, str]]]) -> Mapping[str, tuple[PostgresColumn, ...]]:
    """Return the columns of PostgreSQL's tables with their counterparts; `found` has the names and types of each table's columns.

    Raises:
        UnmatchedLayout: a table or column has no counterpart.
    """
    known = {table.name: table for table in tables()}
    if wrong := (set(found) - ONLY_IN_POSTGRES) ^ set(known):
        raise UnmatchedLayout(f"only one of SQLite and PostgreSQL has the tables {sorted(wrong)}")
    return {name: _matched(known[name], found[name]) for name in known}


def _matched(table: StateTable, found: Sequence[tuple[str, str]]) -> tuple[PostgresColumn, ...]:
    names, columns = {name for name, _ in found}, []
    for name, type_ in found:
        if (table.name, name) in LEFT_EMPTY:
            continue
        base = name.removesuffix("_key")
        if base != name and base in names:
            columns.append(PostgresColumn(name, type_, base, key=True))
            continue
        stem = name.removesuffix("_at")
        likely = (name, in_sqlite(name), f"{stem}_us", "at_us", "at_s")
        source = next((each for each in likely if each in table.columns), None)
        if source is None:
            raise UnmatchedLayout(f"SQLite has no column for {table.name}.{name} of PostgreSQL")
        columns.append(PostgresColumn(name, type_, source))
    if sorted(column.source for column in columns if not column.key) != sorted(table.columns):
        raise UnmatchedLayout(f"the columns of {table.name} differ: {table.columns}, in PostgreSQL {sorted(names)}")
    return tuple(columns)
