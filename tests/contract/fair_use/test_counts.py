"""Counts of calls that the processes of one service share."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from knowledge.errors import DatabaseUnavailable, OverQuota
from knowledge.state.tables import StateTables
from mcp_server.fair_use.counts import CallCounts
from mcp_server.fair_use.limits import CallLimits
from tests.support.state.ledgers import NOW, open_shared

LIMITS = CallLimits(calls=6, heavy=4)
ANN, BOB = "ann@token:http", "bob@token:http"


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def call(counts: CallCounts, who: str = ANN, *, times: int = 1) -> None:
    for _ in range(times):
        counts.count(who, ("called",))


async def test_several_processes_hold_one_limit_together(where: str, schema: str) -> None:
    """Decision 116."""
    clock, stores = Clock(), [await open_shared(where, schema) for _ in range(2)]
    one, other = (CallCounts(LIMITS.bounds, store.tables, clock) for store in stores)
    call(one, times=4)
    call(other, times=1)
    await one.share()
    await other.share()
    call(other)
    with pytest.raises(
        OverQuota,
        match=r"^ann@token:http has made 6 calls in the last minute, of 6 a minute allowed\. Nothing was done\. ",
    ):
        call(other)
    call(other, BOB, times=6)
    clock.now += timedelta(seconds=30)
    await other.share()
    await one.share()
    with pytest.raises(
        OverQuota, match=r"Try again at \S+ \S+ UTC \(in 3[0-4] s\), or a person can raise FORGE_LIMIT_CALLS$"
    ):
        call(one)
    clock.now += timedelta(seconds=40)
    call(one, times=6)
    await one.share()
    await one.share()  # nothing is counted twice
    with pytest.raises(OverQuota, match="has made 6 calls"):
        call(one)
    for store in stores:
        await store.close()


async def test_searches_and_changes_have_a_lower_limit_and_a_refused_call_is_not_counted(
    where: str, schema: str
) -> None:
    store = await open_shared(where, schema)
    counts = CallCounts(LIMITS.bounds, store.tables, Clock())
    for _ in range(4):
        counts.count(ANN, ("called", "worked"))
    for _ in range(5):
        with pytest.raises(
            OverQuota, match=r"has searched or changed pages 4 times in the last minute.* FORGE_LIMIT_HEAVY$"
        ):
            counts.count(ANN, ("called", "worked"))
    call(counts, times=2)
    await store.close()


async def test_while_the_database_is_away_a_process_counts_its_own_calls(
    where: str, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_shared(where, schema)
    counts = CallCounts(LIMITS.bounds, store.tables, Clock())
    call(counts, times=3)

    async def away(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("state", "away")

    with monkeypatch.context() as now:
        now.setattr(type(store.tables), "write", away)
        with pytest.raises(DatabaseUnavailable):
            await counts.share()
    call(counts, times=3)
    with pytest.raises(OverQuota, match="has made 6 calls"):
        call(counts)
    await counts.share()
    with pytest.raises(OverQuota, match="has made 6 calls"):
        call(counts)
    await store.close()


async def test_old_counts_are_deleted(where: str, schema: str) -> None:
    store, clock = await open_shared(where, schema), Clock()
    counts = CallCounts(LIMITS.bounds, store.tables, clock)
    call(counts)
    await counts.share()
    clock.now += timedelta(hours=1)
    call(counts, BOB)
    await counts.share()
    assert await _rows(store.tables) == 2
    again = CallCounts(LIMITS.bounds, store.tables, clock)
    call(again, BOB)
    await again.share()
    assert await _rows(store.tables) == 1
    await store.close()


async def _rows(tables: StateTables) -> int:
    return int((await tables.read("SELECT count(*) FROM forge.quota"))[0][0])
