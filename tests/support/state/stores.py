"""State databases for tests: each engine in turn, and comparisons between them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from knowledge.state.ports import StateStore
from knowledge.state.postgres.schema import APPLICATION, PostgresSchema, migrations
from knowledge.state.sqlite.database import Database, load_schema
from knowledge.state.sqlite.store import APPLICATION_ID
from tests.support.state.ledgers import open_shared
from tests.support.state.memory.state import MemoryStateStore

Act = TypeVar("Act")

SHARED = ("sqlite", "postgres")
"""The engines whose databases several processes may open."""


def _place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres").url()) if request.param == "postgres" else str(tmp_path)


@pytest.fixture(params=SHARED)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a place where several processes may open the same database."""
    return _place(request, tmp_path)


@pytest.fixture(params=["memory", *SHARED])
async def store(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[StateStore]:
    """Yield a state database of every engine."""
    place = _place(request, tmp_path)
    opened: StateStore = MemoryStateStore() if request.param == "memory" else await open_shared(place, schema)
    yield opened
    await opened.close()


@dataclass(frozen=True)
class Older:
    """An older program: how many migrations of each engine it had, and a statement that inserts one of its rows."""

    postgres: int
    sqlite: int
    postgres_row: str = ""
    sqlite_row: str = ""

    async def make(self, where: str, name: str) -> None:
        """Make the database at that place as the program did."""
        if where.startswith("postgresql://"):
            self._in_postgres(where, PostgresSchema(name), name)
            return
        whole = load_schema("state", APPLICATION_ID, durable=True)
        known = replace(whole, migrations=whole.migrations[: self.sqlite])
        database = Database.open(Path(where) / name / "state.db", known)
        if self.sqlite_row:
            await database.write(lambda c: c.execute(self.sqlite_row).fetchall())
        database.close()

    def _in_postgres(self, where: str, ours: PostgresSchema, name: str) -> None:
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(SQL("CREATE SCHEMA {s}").format(s=Identifier(name)))
            for script in migrations()[: self.postgres]:
                connection.execute(ours.sql(script))
            told = "INSERT INTO forge.meta (application, version) VALUES (%s, %s)"
            connection.execute(ours.sql(told), (APPLICATION, self.postgres))
            if self.postgres_row:
                connection.execute(ours.sql(self.postgres_row))


Done = Callable[[Act, StateStore, int], Awaitable[object]]
Everything = Callable[[StateStore, int], Awaitable[object]]


async def alike(acts: Sequence[Act], other: StateStore, done: Done[Act], everything: Everything) -> None:
    """Do the acts in memory and in `other`, a minute each, and close that: both return and publish the same."""
    memory = MemoryStateStore()
    try:
        for minute, act in enumerate(acts):
            said = await done(act, memory, minute), await done(act, other, minute)
            assert said[0] == said[1]
            assert await everything(memory, minute) == await everything(other, minute)
        told = [[(e.topic, e.key) for e in await store.events_after(0)] for store in (memory, other)]
        assert told[0] == told[1]
    finally:
        await other.close()


async def bodies(store: StateStore) -> list[dict[str, Any]]:
    """Return the audit chain's records, oldest first."""
    return [json.loads(record.body) for record in await store.ledger.records()]
