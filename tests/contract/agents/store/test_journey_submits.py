"""Submits through the runner on every engine: they return what is recorded, however many arrive at once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection

from agents.engine.agent import Citation
from agents.engine.events import Thinking, WorkRecorded
from agents.engine.fold import fold
from agents.engine.progress.position import JourneyPosition
from agents.engine.runner import JourneyDecision, Runner, Submission
from agents.engine.state import get_state
from agents.errors import StaleJourney
from agents.store.ports import JourneyStore
from knowledge.state.ports import StateStore
from tests.support.agents.agent_harness import WINTER, Pages
from tests.support.agents.small_agents import Only, noting
from tests.support.journeys.graphs import ADA
from tests.support.state.engines import journeys_in
from tests.support.state.ledgers import MINUTE, NOW, open_shared
from tests.support.state.memory.state import MemoryStateStore

SENDERS = 8


@dataclass
class Place:
    """Runners of two processes on one database; in memory there is only one."""

    runners: Sequence[Runner]

    @property
    def runner(self) -> Runner:
        return self.runners[0]

    async def start(self) -> str:
        return (await self.runner.start("noting", "bees", {}, by=ADA)).journey


@dataclass
class Busy(Pages):
    """A read so slow that something is recorded meanwhile."""

    store: JourneyStore = field(kw_only=True)
    journey: str = field(kw_only=True)

    async def cited(self, citation: Citation) -> str:
        await self.store.note(self.journey, [Thinking(f"looking for {citation.quote}")], by="another", at=NOW)
        return await super().cited(citation)


def _runner(store: JourneyStore) -> Runner:
    ticks, names = count(), count(1)
    return Runner(
        store,
        Only(noting()),
        lambda journey, _state: Busy(store=store, journey=journey),
        now=lambda: NOW + next(ticks) * MINUTE,
        chance=lambda: f"{next(names):04}",
    )


@asynccontextmanager
async def opened(engine: str, where: str, name: str) -> AsyncIterator[Place]:
    async with AsyncExitStack() as stack:
        states: list[StateStore] = []
        for _ in range(2):
            states.append(MemoryStateStore() if engine == "memory" else await open_shared(where, name))
            stack.push_async_callback(states[-1].close)
        stores = [journeys_in(states[0])] * 2 if engine == "memory" else [journeys_in(state) for state in states]
        yield Place([_runner(store) for store in stores])


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[Place]:
    where = request.getfixturevalue("postgres").url() if request.param == "postgres" else str(tmp_path)
    async with opened(request.param, where, schema) as there:
        yield there


def _notes(*texts: str) -> Submission:
    work: dict[str, Any] = {"notes": [{"id": str(n), "text": text} for n, text in enumerate(texts, 1)]}
    return Submission(work)


async def _at_once(
    place: Place, journey: str, submissions: Sequence[Submission]
) -> list[JourneyPosition | BaseException]:
    runners = [place.runners[n % 2] for n in range(len(submissions))]
    asked = [runner.submit(journey, 1, one, by=ADA) for runner, one in zip(runners, submissions, strict=True)]
    return list(await asyncio.gather(*asked, return_exceptions=True))


async def test_a_start_asked_for_again_within_five_minutes_is_the_first_one_in_any_process(place: Place) -> None:
    """The host lost the reply, and sends the same to another server."""
    time, names = [NOW], count(1)

    def asked(runner: Runner) -> Runner:
        return Runner(
            runner.store,
            Only(noting()),
            lambda _journey, _state: Pages(),
            now=lambda: time[0],
            chance=lambda: f"{next(names):04}",
        )

    one, two = (asked(runner) for runner in place.runners)
    first = await one.start("noting", "bees", {}, by=ADA)
    time[0] += 5 * MINUTE
    again = await two.start("noting", "bees", {}, by=ADA)
    assert (first.repeated, again.repeated) == (False, True)
    assert (again.journey, again.state) == (first.journey, first.state)
    assert (await two.start("noting", "wasps", {}, by=ADA)).journey != first.journey
    time[0] += timedelta(microseconds=1)
    later = await two.start("noting", "bees", {}, by=ADA)
    assert not later.repeated
    assert later.journey != first.journey
    await one.submit(later.journey, 1, _notes("so far"), by=ADA)
    assert (await two.start("noting", "bees", {}, by=ADA)).journey not in (first.journey, later.journey)


async def test_concurrent_equal_submits_are_recorded_once_and_answered_to_all(place: Place) -> None:
    """Design 7: a repeated submit with the same content returns the first answer, even while that is in progress."""
    for _ in range(5):
        journey = await place.start()
        answers = await _at_once(place, journey, [_notes("the same")] * SENDERS)
        told = [get_state(answer.state) for answer in answers if isinstance(answer, JourneyPosition)]
        assert len(told) == SENDERS, [answer for answer in answers if isinstance(answer, BaseException)]
        assert told == [told[0]] * SENDERS
        assert told[0]["version"] == 2


async def test_of_several_concurrent_submits_one_counts_and_the_others_learn_what_changed(place: Place) -> None:
    journey = await place.start()
    answers = await _at_once(place, journey, [_notes(f"note of {n}") for n in range(SENDERS)])
    lost = [answer for answer in answers if isinstance(answer, StaleJourney)]
    (won,) = [answer for answer in answers if isinstance(answer, JourneyPosition)]
    assert len(lost) == SENDERS - 1
    assert {(error.expected, error.actual) for error in lost} == {(1, 2)}
    assert {error.changed for error in lost} == {
        (f"version 2: work on COLLECT was recorded by {ADA}", f"version 2: COLLECT was found incomplete by {ADA}")
    }
    assert await place.runners[1].store.journey(journey) == won.state


async def test_an_acts_answer_is_the_recorded_state(place: Place) -> None:
    """Asking again through another process gets the same answer, and never more than the record contains."""
    journey = await place.start()
    here, there = place.runners
    acts: Sequence[Submission | JourneyDecision] = [
        Submission({"notes": [{"id": "\x00 \u2028", "text": "odd \u2028 \x00"}], "quotes": [WINTER]}, ("hint",)),
        _notes("one", "two"),
        JourneyDecision(
            "modify", "page", "other words", {"notes": [{"id": "1", "text": "1"}, {"id": "2", "text": "2"}]}
        ),
        Submission({"text": "thin", "lacks": "three"}, reasoning="it is thin", confidence=0.5, conversation="c-2"),
        _notes("one", "two", "three"),
        JourneyDecision("approve", "relayed"),
        Submission({"text": "whole"}),
    ]
    for version, act in enumerate(acts, 1):
        if isinstance(act, Submission):
            told = await here.submit(journey, version, act, by=ADA)
            again = await there.submit(journey, version, act, by="another")
        else:
            told = await here.decide(journey, version, act, by=ADA)
            again = await there.decide(journey, version, act, by=ADA)
            with pytest.raises(StaleJourney):
                await there.decide(journey, version, act, by="another")
        log = await there.store.events(journey)
        assert told.state == again.state == fold(log) == await there.store.journey(journey)
        assert get_state(told.state) == get_state(again.state)
    assert told.state.status == "complete"


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
async def test_changing_an_answer_changes_neither_the_record_nor_the_next_answer(
    place: Place,
) -> None:
    """A store may cache what it has just written, exactly as it was written."""
    journey = await place.start()
    told = await place.runner.submit(journey, 1, _notes("one"), by=ADA)
    told.state.work["COLLECT"].content["notes"][0]["text"] = "changed by whoever was told"
    told.state.work["COLLECT"].content["more"] = "and added"
    after = await place.runner.submit(journey, 2, Submission({"quotes": []}), by=ADA)
    assert after.state.work["COLLECT"].content == {"notes": [{"id": "1", "text": "one"}], "quotes": []}
    assert after.state == await place.runners[1].store.journey(journey)


async def test_alternating_processes_each_continue_from_the_others_work(place: Place) -> None:
    journey = await place.start()
    for version in range(1, 9):
        runner = place.runners[
            version // 2 % 2
        ]  # two steps each, so that a remembered state is out of date when it is looked up
        await runner.store.note(journey, [Thinking(f"at {version}")], by=ADA, at=NOW)
        told = await runner.submit(journey, version, _notes(f"at {version}"), by=ADA)
        log = await place.runners[0].store.events(journey)
        assert told.state == fold(log)
    assert [logged.event.work["notes"][0]["text"] for logged in log if isinstance(logged.event, WorkRecorded)] == [
        f"at {version}" for version in range(1, 9)
    ]


async def test_a_process_whose_memory_is_outdated_gives_the_answer_of_the_record(place: Place) -> None:
    """Our promise: remembering the last state saves a read and changes no answer, whatever another process did since."""
    one, other = place.runners
    journey = await place.start()
    await one.submit(journey, 1, _notes("at 1"), by=ADA)
    moved = await other.submit(journey, 2, _notes("at 2"), by=ADA)
    again = await one.submit(journey, 2, _notes("at 2"), by=ADA)
    assert again.state == moved.state
    await one.submit(journey, 3, _notes("at 3"), by=ADA)
    await other.submit(journey, 4, _notes("at 4"), by=ADA)
    with pytest.raises(StaleJourney):
        await one.submit(journey, 4, Submission({"no such field": 1}), by=ADA)
    with pytest.raises(StaleJourney):
        await one.submit(journey, 4, _notes("too late"), by=ADA)
    assert fold(await other.store.events(journey)).version == 5


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_a_submit_takes_one_round_trip_where_the_last_one_was_made_and_two_elsewhere(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 31: one call is the whole transaction; a process that has not just moved the journey reads first."""
    asked: list[str] = []
    execute = AsyncConnection.execute

    async def counted(connection: Any, statement: bytes, *more: Any, **options: Any) -> Any:
        asked.append(statement.decode())
        return await execute(connection, statement, *more, **options)

    journey = await place.start()
    for runner in place.runners:
        await runner.position(journey)  # a connection is opened when it is first needed
    monkeypatch.setattr(AsyncConnection, "execute", counted)
    for version, runner in enumerate([place.runners[0], *place.runners], 1):
        asked.clear()
        await runner.submit(journey, version, _notes(f"at {version}"), by=ADA)
        expected = ["journey_step"] if version == 2 else ["journey_standing", "journey_step"]
        assert [name for one in asked for name in re.findall(r"journey_(?:standing|step)(?=\()", one)] == expected
        assert len(asked) == len(expected), asked
