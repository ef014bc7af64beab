"""The mark that indexing has stopped, which every process of a knowledge base sees."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from knowledge.errors import DatabaseUnavailable
from knowledge.index.outage_mark import NOTE, OutageMark
from tests.support.state.memory.state import MemoryStateStore


class Time:
    """Both clocks of the processes."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def __call__(self) -> float:
        return self.seconds


async def test_every_process_says_that_indexing_has_stopped_until_it_goes_on() -> None:
    state, time = MemoryStateStore(), Time()
    indexing, other = (OutageMark(state, "indexer", time.now, clock=time) for _ in range(2))
    assert await other.note() == ""
    await indexing.mark("a")
    assert await other.note() == ""  # it asked a moment ago
    time.seconds += 3
    assert await other.note() == NOTE
    await other.clear("b")  # only the one that has marked it
    await indexing.clear("a")
    time.seconds += 3
    assert await other.note() == ""


async def test_the_mark_of_a_process_that_died_ends_by_itself() -> None:
    state, time = MemoryStateStore(), Time()
    await OutageMark(state, "indexer", time.now, clock=time).mark("a")
    other = OutageMark(state, "indexer", time.now, clock=time)
    assert await other.note() == NOTE
    time.seconds += 200
    assert await other.note() == ""


async def test_while_the_state_database_is_away_nothing_is_said_and_nothing_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, time = MemoryStateStore(), Time()
    stopped = OutageMark(state, "indexer", time.now, clock=time)

    async def away(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("state", "away")

    with monkeypatch.context() as now:
        for name in ("lease", "acquire_lease", "release_lease"):
            now.setattr(state, name, away)
        await stopped.mark("a")
        await stopped.clear("a")
        assert await stopped.note() == ""
    await stopped.mark("a")
    time.seconds += 3
    assert await stopped.note() == NOTE
