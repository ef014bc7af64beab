"""State databases for tests: each engine in turn, and what they say of themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from knowledge.storage.memory import MemoryStateStore
from knowledge.storage.ports import StateStore
from tests.ledgers import open_shared

Act = TypeVar("Act")

SHARED = ("sqlite", "postgres")
"""The engines whose databases several processes may open."""


def _place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres").url()) if request.param == "postgres" else str(tmp_path)


@pytest.fixture(params=SHARED)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return where several processes may open the same database."""
    return _place(request, tmp_path)


@pytest.fixture(params=["memory", *SHARED])
async def store(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[StateStore]:
    """Yield a state database of every engine."""
    place = _place(request, tmp_path)
    opened: StateStore = MemoryStateStore() if request.param == "memory" else await open_shared(place, schema)
    yield opened
    await opened.close()


Done = Callable[[Act, StateStore, int], Awaitable[object]]
Everything = Callable[[StateStore, int], Awaitable[object]]


async def alike(acts: Sequence[Act], other: StateStore, done: Done[Act], everything: Everything) -> None:
    """Do the acts in memory and in `other`, a minute each, and close that: whatever either says or tells is the same."""
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
    """Return what the audit chain says, oldest first."""
    return [json.loads(record.body) for record in await store.ledger.records()]
