"""Map lines in the state database."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from knowledge.history.acts import storable
from knowledge.history.timestamps import micros
from knowledge.search.summaries.ports import ModelLine, SummariesSpent
from knowledge.state.sqlite.database import Database

_LINES = "SELECT key, text FROM map_line WHERE key IN (SELECT value FROM json_each(?))"
_KEEP = "INSERT INTO map_line (key, text, model, tokens, made_us) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING"
_SPENT = "SELECT count(*), ifnull(sum(tokens), 0) FROM map_line WHERE made_us >= ?"
_COUNT = "SELECT count(*) FROM map_line WHERE text != ''"
_TRIM = "DELETE FROM map_line WHERE number <= (SELECT number FROM map_line ORDER BY number DESC LIMIT 1 OFFSET ?)"


class SqliteSummaries:
    """Map lines in one file that several processes share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def lines(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the existing lines of these keys."""
        return {str(key): str(text) for key, text in self._read(_LINES, json.dumps(list(keys)))}

    async def keep(self, made: ModelLine) -> None:
        """Store the line, unless its key has one."""
        row = (made.key, storable(made.text), storable(made.model), made.tokens, micros(made.at))
        await self._database.write(lambda c: c.execute(_KEEP, row).fetchall())

    async def spent(self, since: datetime) -> SummariesSpent:
        """Return what was made since then."""
        return SummariesSpent(*self._read(_SPENT, micros(since))[0])

    async def count(self) -> int:
        """Return the number of lines with a text."""
        return int(self._read(_COUNT)[0][0])

    async def trim(self, most: int) -> None:
        """Delete all but the `most` newest lines."""
        await self._database.write(lambda c: c.execute(_TRIM, (most,)).fetchall())

    def _read(self, statement: str, *asked: str | int) -> list[Any]:
        return self._database.read(lambda c: c.execute(statement, asked).fetchall())
