"""Questions and the pages used after them, in `use.db` in the state folder.

A separate file, not tables of the state: the state may be a database that a team shares, and questions stay on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path

import apsw
from anyio import to_thread

from knowledge.history.timestamps import EARLIEST, micros, moment
from knowledge.search.use.events import AskedQuestion, PageUse, SearchedFor, UseCounts, UsingSession
from knowledge.state.ports import Filters
from knowledge.state.sqlite.database import Database, load_schema

USE_FILE = "use.db"
APPLICATION_ID = 0x4B464755  # "KFGU"
MOST_KEPT = 10_000
"""The most questions, and the most page uses, that are kept; together they take about 8 MB. The oldest are deleted
first."""

_ADD_QUESTION = """
INSERT INTO question (at_us, principal, journey, session, query, path, filters, route, continued, shown)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_ADD_USE = (
    "INSERT INTO page_use (at_us, principal, journey, session, path, how, untrusted) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_QUESTIONS = """
SELECT at_us, principal, journey, session, query, path, filters, route, continued, shown FROM question
WHERE at_us >= ? ORDER BY at_us, id
"""
_USES = """
SELECT at_us, principal, journey, session, path, how, untrusted FROM page_use WHERE at_us >= ? ORDER BY at_us, id
"""
_COUNTS = """
SELECT (SELECT count(*) FROM question WHERE at_us >= ?1), (SELECT count(*) FROM page_use WHERE at_us >= ?1),
    (SELECT min(at_us) FROM question WHERE at_us >= ?1)
"""
_FORGET = """
DELETE FROM {table} WHERE at_us < ? OR id <= (SELECT max(id) FROM {table}) - ?
"""


class UseStore:
    """The events of one knowledge base. Several processes may have it open."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, folder: Path) -> UseStore:
        """Return the store in the state folder, created with mode 0600 if it does not exist.

        Raises:
            StorageError: the file is damaged, not ours, or made by a newer version. It was not touched.
        """
        return cls(Database.open(folder / USE_FILE, load_schema("use", APPLICATION_ID, durable=False)))

    async def add(self, questions: Sequence[AskedQuestion], uses: Sequence[PageUse]) -> None:
        """Store these events. They survive a killed process, but perhaps not a power cut."""
        asked = [
            (
                micros(one.at),
                *one.session,
                one.asked.query,
                one.asked.path,
                json.dumps(asdict(one.asked.filters), ensure_ascii=False),
                one.route,
                one.asked.continued,
                json.dumps(one.shown, ensure_ascii=False),
            )
            for one in questions
        ]
        used = [(micros(one.at), *one.session, one.path, one.how, one.untrusted) for one in uses]

        def work(connection: apsw.Connection) -> None:
            connection.executemany(_ADD_QUESTION, asked)
            connection.executemany(_ADD_USE, used)

        await self._database.write(work)

    async def events(self, since: datetime) -> tuple[list[AskedQuestion], list[PageUse]]:
        """Return the questions and page uses since then, oldest first."""
        first = micros(since)

        def work(connection: apsw.Connection) -> tuple[list[AskedQuestion], list[PageUse]]:
            return (
                [_question(row) for row in connection.execute(_QUESTIONS, (first,))],
                [_use(row) for row in connection.execute(_USES, (first,))],
            )

        return await self._database.bulk(work)

    async def counts(self, since: datetime) -> UseCounts:
        """Return how many events there are since then."""
        ((questions, uses, oldest),) = self._database.query(_COUNTS, (micros(since),))
        return UseCounts(int(str(questions)), int(str(uses)), None if oldest is None else moment(int(str(oldest))))

    async def prune(self, *, before: datetime, most: int = MOST_KEPT) -> None:
        """Delete events that are older than `before`, and all but about the newest `most` of each kind."""

        def work(connection: apsw.Connection) -> None:
            for table in ("question", "page_use"):
                connection.execute(_FORGET.format(table=table), (micros(before), most))

        await self._database.write(work)

    async def forget(self) -> None:
        """Delete every event and overwrite the space that they took."""

        def work(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM question")
            connection.execute("DELETE FROM page_use")

        await self._database.write(work)
        # Deleted rows stay readable in the free pages of the file and in its log until both are rewritten.
        await to_thread.run_sync(self._database.alone, lambda connection: connection.execute("VACUUM"))
        await to_thread.run_sync(self._database.shorten_log)

    def close(self) -> None:
        """Close the file."""
        self._database.close()


async def delete_old_events(folder: Path, *, kept: timedelta | None, now: datetime) -> None:
    """Delete events in the state folder that are older than `kept`.

    If `kept` is None, recording is turned off, and all events are deleted.

    Raises:
        StorageError: the file is damaged, not ours, or made by a newer version.
    """
    if not await to_thread.run_sync((folder / USE_FILE).exists):
        return
    store = await to_thread.run_sync(UseStore.open, folder)
    try:
        if kept is not None:
            await store.prune(before=now - kept)
        elif (await store.counts(EARLIEST)).questions:
            await store.forget()
    finally:
        store.close()


def _question(row: tuple[object, ...]) -> AskedQuestion:
    at_us, principal, journey, process, query, path, filters, route, continued, shown = row
    chosen = json.loads(str(filters))
    return AskedQuestion(
        at=moment(int(str(at_us))),
        session=UsingSession(str(principal), str(journey), str(process)),
        asked=SearchedFor(
            str(query), str(path), Filters(**{**chosen, "tags": tuple(chosen["tags"])}), continued=bool(continued)
        ),
        route="navigation" if route == "navigation" else "discovery",
        shown=tuple(json.loads(str(shown))),
    )


def _use(row: tuple[object, ...]) -> PageUse:
    at_us, principal, journey, process, path, how, untrusted = row
    return PageUse(
        at=moment(int(str(at_us))),
        session=UsingSession(str(principal), str(journey), str(process)),
        path=str(path),
        how="merge" if how == "merge" else "read",
        untrusted=bool(untrusted),
    )
