"""Map lines in the state database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from knowledge.history.acts import storable
from knowledge.history.timestamps import aware
from knowledge.search.summaries.ports import ModelLine, SummariesSpent
from knowledge.state.tables import SqlPair, StateTables

_LINES = "SELECT key, text FROM forge.map_line WHERE key = ANY(%s::text[])"
_KEEP = SqlPair(
    "INSERT INTO map_line (key, text, model, tokens, made_us) VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
    """
INSERT INTO forge.map_line (key, text, model, tokens, made_at) VALUES (%s, %s, %s, %s, %s) ON CONFLICT (key) DO NOTHING
""",
)
_SPENT = SqlPair(
    "SELECT count(*), coalesce(sum(tokens), 0) FROM map_line WHERE made_us >= ?",
    "SELECT count(*), coalesce(sum(tokens), 0)::bigint FROM forge.map_line WHERE made_at >= %s",
)
_COUNT = "SELECT count(*) FROM forge.map_line WHERE text != ''"
_TRIM = "DELETE FROM forge.map_line WHERE number <= (SELECT number FROM forge.map_line ORDER BY number DESC LIMIT 1 OFFSET %s)"


class SqlSummaries:
    """Map lines, shared by all processes that use the state database."""

    def __init__(self, tables: StateTables) -> None:
        self._tables = tables

    async def lines(self, keys: Collection[str]) -> Mapping[str, str]:
        """Return the existing lines of these keys."""
        return dict(await self._tables.read(_LINES, (list(keys),)))

    async def keep(self, made: ModelLine) -> None:
        """Store the line, unless its key has one."""
        row = (made.key, storable(made.text), storable(made.model), made.tokens, aware(made.at))
        await self._tables.write((_KEEP, row))

    async def spent(self, since: datetime) -> SummariesSpent:
        """Return the lines made since then."""
        return SummariesSpent(*(await self._tables.read(_SPENT, (aware(since),)))[0])

    async def count(self) -> int:
        """Return the number of lines with a text."""
        return int((await self._tables.read(_COUNT))[0][0])

    async def trim(self, most: int) -> None:
        """Delete all but the `most` newest lines."""
        await self._tables.write((_TRIM, (most,)))
