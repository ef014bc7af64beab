"""Several processes on the same journeys: of concurrent submits at one version one wins, and all processes see each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agents.engine.events import Thinking, WorkRecorded
from agents.engine.fold import fold
from agents.errors import StaleJourney
from agents.store.codec import first_event
from agents.store.ports import Begun
from mcp_server.app.factories.journey_store import journeys_in
from tests.support.journeys.graphs import ADA, begun
from tests.support.processes.forked import forked
from tests.support.state.ledgers import NOW, open_shared
from tests.support.state.stores import Older

PROCESSES = 4
VERSIONS = 25


def _work(where: str, name: str, me: int, barrier: Any, answers: Any) -> None:
    async def run() -> list[int]:
        state = await open_shared(where, name)
        journeys = journeys_in(state)
        won = []
        barrier.wait(60)
        for version in range(1, VERSIONS + 1):
            work = WorkRecorded("DECOMPOSE", 1, {"by": me})
            with suppress(StaleJourney):
                key = f"{me}-{version}"
                done = await journeys.append("j-1", [work], expected=version, key=key, by=f"c{me}", at=NOW)
                won.append(done.version)
            await journeys.note("j-1", [Thinking(f"{me} at {version}")], by=f"c{me}", at=NOW)
        await state.close()
        return won

    answers.put((me, asyncio.run(run())))


async def _at_work(work: Callable[..., None], where: str, name: str) -> dict[int, Any]:
    """Return the answers of several processes that do the work at once."""
    processes = forked()
    barrier, answers = processes.Barrier(PROCESSES), processes.Queue()
    workers = [processes.Process(target=work, args=(where, name, me, barrier, answers)) for me in range(PROCESSES)]
    for worker in workers:
        worker.start()
    told = dict([await asyncio.to_thread(answers.get, timeout=120) for _ in workers])
    for worker in workers:
        await asyncio.to_thread(worker.join, 30)
    assert [worker.exitcode for worker in workers] == [0] * PROCESSES
    return told


async def test_of_several_processes_exactly_one_wins_each_version_and_nothing_is_lost(where: str, schema: str) -> None:
    """8 clients submitting to one journey."""
    state = await open_shared(where, schema)
    journeys = journeys_in(state)
    await journeys.start("j-1", begun(), by=ADA, at=NOW)
    won = await _at_work(_work, where, schema)
    assert sorted(version for some in won.values() for version in some) == list(range(2, VERSIONS + 2))
    log = await journeys.events("j-1")
    assert fold(log) == await journeys.journey("j-1")
    kept = {e.version: e.by for e in log if isinstance(e.event, WorkRecorded)}
    assert kept == {version: f"c{me}" for me, some in won.items() for version in some}
    assert sum(isinstance(e.event, Thinking) for e in log) == PROCESSES * VERSIONS
    await state.close()


def _start(where: str, name: str, me: int, barrier: Any, answers: Any) -> None:
    async def run() -> list[Begun]:
        state = await open_shared(where, name)
        journeys = journeys_in(state)
        barrier.wait(60)
        logs = [[first_event(begun(f"Question {n}", conversation=f"c{me}"), ADA, NOW)] for n in range(VERSIONS)]
        done = [await journeys.begin(f"j-{me}-{n}", log, since=NOW) for n, log in enumerate(logs)]
        await state.close()
        return done

    answers.put((me, asyncio.run(run())))


async def test_equal_starts_of_several_processes_begin_one_journey(where: str, schema: str) -> None:
    state = await open_shared(where, schema)
    begun_by = await _at_work(_start, where, schema)
    for alike in zip(*begun_by.values(), strict=True):
        assert sorted(answer.repeated for answer in alike) == [False] + [True] * (PROCESSES - 1)
        assert len({answer.journey for answer in alike}) == 1
    assert len(await journeys_in(state).journeys(limit=1_000)) == VERSIONS
    await state.close()


async def test_one_processs_append_wakes_another_which_continues_from_there(where: str, schema: str) -> None:
    one, two = await open_shared(where, schema), await open_shared(where, schema)
    await journeys_in(one).start("j-1", begun(), by=ADA, at=NOW)
    woken = asyncio.create_task(two.changed(await two.last_event()))
    work = WorkRecorded("DECOMPOSE", 1, "w")
    await journeys_in(one).append("j-1", [work], expected=1, key="k", by=ADA, at=NOW)
    await asyncio.wait_for(woken, 60)
    assert (await journeys_in(two).journey("j-1")).work["DECOMPOSE"].content == "w"
    done = await journeys_in(two).append("j-1", [work], expected=2, key="l", by=ADA, at=NOW)
    assert done.version == (await journeys_in(one).journey("j-1")).version == 3
    await one.close()
    await two.close()


async def test_a_state_from_before_there_were_journeys_is_taken_over(where: str, schema: str) -> None:
    older = Older(postgres=3, sqlite=4)
    await older.make(where, schema)
    state = await open_shared(where, schema)
    await journeys_in(state).start("j-1", begun(), by=ADA, at=NOW)
    assert (await journeys_in(state).journey("j-1")).version == 1
    assert list(await state.check()) == []
    await state.close()
