"""Stored pages in the tables of the state database.

Lock order in PostgreSQL: as in `history/sql.py`, the rows of files after the counter of events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import apsw

from knowledge.errors import CorruptDatabase, StoredFileChanged
from knowledge.history.audit.chain_end import HOLD_THE_END
from knowledge.history.codec import content_digest, unpacked_content
from knowledge.history.ports import AuditRecord, HistoryEntry
from knowledge.history.sql import APPENDED, SqlLedger, committing, outside_parts, path_key, state_part
from knowledge.history.timestamps import aware, micros
from knowledge.state.change_events import PUBLISH
from knowledge.state.tables import Part, Row, SqlPair, StateTables
from knowledge.stored_pages.ports import ChangePlace, FileExchange, StoredFile

FILE_TOPIC = "file"
"""The topic of change events of files that are not pages."""


def _exchange_in_sqlite(
    c: apsw.Connection, path: str, was: bytes | None, becomes: bytes | None, at: datetime, **_: object
) -> list[Row]:
    found = c.execute("SELECT digest FROM stored_file WHERE path = ?", (path,)).fetchall()
    if (found[0][0] if found else None) != was:
        raise StoredFileChanged(path)
    # A transaction that writes has the whole file, so the event that follows has the next number.
    c.execute(
        "INSERT OR REPLACE INTO stored_file (path, digest, at_us, seq) "
        "SELECT ?, ?, ?, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0) + 1",
        (path, becomes, micros(at)),
    )
    return []


_EXCHANGE = SqlPair(
    _exchange_in_sqlite,
    "SELECT forge.exchange_file(%(path_key)s, %(path)s, %(was)s::bytea, %(becomes)s::bytea, %(at)s)",
)
_FIND = SqlPair(
    "SELECT path, digest, seq FROM stored_file WHERE path IN (SELECT value FROM json_each(:paths))",
    "SELECT path, digest, seq FROM forge.stored_file WHERE path_key = ANY(%(keys)s::bytea[])",
)
_CONTENTS = "SELECT digest, packed FROM forge.content WHERE digest = ANY(%s::bytea[])"
_LAST = "SELECT coalesce(max(seq), 0) FROM forge.stored_file"
_AFTER = """
SELECT path, digest, seq FROM forge.stored_file WHERE (seq, path_key) > (%(seq)s, %(path_key)s)
ORDER BY seq, path_key LIMIT %(limit)s
"""


class SqlStoredPages:
    """Stored pages in one state database, shared by all processes that use it."""

    def __init__(self, tables: StateTables) -> None:
        self._tables, self._ledger = tables, SqlLedger(tables)

    async def find(self, paths: Collection[str]) -> Mapping[str, StoredFile]:
        """Return those of the paths that have or had a file."""
        values = {"paths": list(paths), "keys": [path_key(path) for path in paths]}
        return {row[0]: StoredFile(*row) for row in await self._tables.read(_FIND, values)}

    async def contents(self, digests: Collection[bytes]) -> Mapping[bytes, bytes]:
        """Return the bytes by their SHA-256."""
        if not digests:
            return {}
        rows = await self._tables.read(_CONTENTS, (list(digests),))
        try:
            return {digest: unpacked_content(digest, packed) for digest, packed in rows}
        except ValueError as error:
            raise CorruptDatabase(self._tables.place, str(error)) from error

    async def last(self) -> int:
        """Return the number of the newest change of a file."""
        return int((await self._tables.read(_LAST))[0][0])

    async def after(self, place: ChangePlace, *, limit: int) -> Sequence[StoredFile]:
        """Return files that changed after that place, in the order of their changes."""
        key = path_key(place.path) if place.path else b""
        values = {"seq": place.seq, "path": place.path, "path_key": key, "limit": limit}
        return [StoredFile(*row) for row in await self._tables.read(_AFTER, values, long=True)]

    async def commit(self, entry: HistoryEntry, exchanges: Sequence[FileExchange]) -> AuditRecord:
        """Exchange the files and record the act."""
        contents = {one.path: one.raw for one in exchanges if one.raw is not None}
        storing = await self._ledger.storing({content_digest(raw): raw for raw in contents.values()})
        states = [
            state_part(path, content_digest(contents[path]), entry.at, in_history=True)
            for path in sorted(contents, key=path_key)
        ]
        parts = committing(entry, kept=[*storing, *states], files=_exchanging(exchanges, entry.at))
        rows = await self._tables.write(*parts, (APPENDED, ()))
        return AuditRecord(*rows[0])

    async def keep_outside(self, exchange: FileExchange, *, at: datetime) -> None:
        """Exchange a page that somebody edited in a copy."""
        await self._put(exchange, at, outside_parts(exchange.path, exchange.raw, aware(at)), "doc")

    async def put(self, exchange: FileExchange, *, at: datetime) -> None:
        """Exchange a file that is not a page."""
        await self._put(exchange, at, (), FILE_TOPIC)

    async def _put(self, exchange: FileExchange, at: datetime, recording: Sequence[Part], topic: str) -> None:
        raw = exchange.raw
        storing = [] if raw is None else await self._ledger.storing({content_digest(raw): raw})
        await self._tables.write(
            (HOLD_THE_END, ()),
            *storing,
            *recording,
            *_exchanging([exchange], at),
            (PUBLISH, (topic, [exchange.path])),
        )


def _exchanging(exchanges: Iterable[FileExchange], at: datetime) -> list[Part]:
    return [
        (
            _EXCHANGE,
            {
                "path": one.path,
                "path_key": path_key(one.path),
                "was": one.before,
                "becomes": None if one.raw is None else content_digest(one.raw),
                "at": aware(at),
            },
        )
        for one in sorted(exchanges, key=lambda one: path_key(one.path))
    ]
