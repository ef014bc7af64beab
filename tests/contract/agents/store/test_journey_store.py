"""The promises of every store of journeys: one suite for all engines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.sql import SQL, Identifier

from agents.engine.decide import decision_steps, submit_steps
from agents.engine.events import (
    NOTES,
    Completed,
    FeedbackAdded,
    Forked,
    Json,
    Logged,
    PhaseChanged,
    Step,
    Thinking,
    ToolStart,
    ToolSuccess,
    WorkRecorded,
    canonical,
)
from agents.engine.fold import FOLDING, fold
from agents.engine.progress.fork import fork
from agents.engine.state import JourneyState
from agents.errors import BadJourneyFile, BadLog, JourneyExists, NoSuchJourney, StaleJourney
from agents.store.codec import first_event
from agents.store.export_file import exported, imported
from agents.store.ports import NEWEST_COMPARED, Appended, Begun, JourneyStore
from knowledge.errors import CorruptDatabase
from knowledge.state.ports import StateStore
from tests.support.journeys.graphs import ADA, CONDITIONS, ODD, RESEARCH, Walk, begun, word, work
from tests.support.state.engines import journeys_in
from tests.support.state.ledgers import MINUTE, NOW, open_shared
from tests.support.state.memory.state import MemoryStateStore

SHARED = ("sqlite", "postgres")
BOB = "bob@cursor"


@dataclass
class Place:
    """A state store, its journeys, and their location."""

    state: StateStore
    journeys: JourneyStore
    where: str
    name: str

    async def start(self, journey: str = "j-1", **more: Any) -> None:
        await self.journeys.start(journey, begun(**more), by=ADA, at=NOW)

    async def add(self, events: Sequence[Step], journey: str = "j-1", *, key: str = "", by: str = ADA) -> int:
        """Append at the newest version, a minute after the one before."""
        now = await self.journeys.journey(journey)
        done = await self.journeys.append(
            journey, events, expected=now.version, key=key or f"k-{now.version}", by=by, at=NOW + now.version * MINUTE
        )
        return done.version

    async def submit(self, *met: str, journey: str = "j-1", content: Any = "done", key: str = "") -> int:
        state = await self.journeys.journey(journey)
        return await self.add(submit_steps(RESEARCH, journey, state, work(content), met), journey, key=key)

    async def approve(self, journey: str = "j-1") -> int:
        state = await self.journeys.journey(journey)
        return await self.add(decision_steps(RESEARCH, journey, state, word("approve")), journey)

    async def told(self) -> list[str]:
        """Return which journeys had change notices, oldest first."""
        return [event.key for event in await self.state.events_after(0) if event.topic == "journey"]

    async def sound(self, journey: str = "j-1") -> JourneyState:
        """Return the stored state; check that it is the fold of the log, without gaps."""
        log = await self.journeys.events(journey)
        state = await self.journeys.journey(journey)
        assert fold(log) == state
        assert [logged.seq for logged in log] == list(range(1, state.seq + 1))
        steps = [logged.version for logged in log if not isinstance(logged.event, NOTES)]
        assert sorted(set(steps)) == list(range(1, state.version + 1))
        assert sorted(steps) == steps
        return state


async def open_place(engine: str, where: str, name: str) -> Place:
    state: StateStore = MemoryStateStore() if engine == "memory" else await open_shared(where, name)
    return Place(state, journeys_in(state), where, name)


@pytest.fixture(params=["memory", *SHARED])
async def place(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[Place]:
    where = request.getfixturevalue("postgres").url() if request.param == "postgres" else str(tmp_path)
    opened = await open_place(request.param, where, schema)
    yield opened
    await opened.state.close()


# --- beginning --------------------------------------------------------------------------------------------------------


async def test_a_journey_begins_at_version_one_and_is_returned_to_the_last_character(place: Place) -> None:
    inputs = {ODD: [1, 2.5, None, {"a": ODD}]}
    first = await place.journeys.start("j-1", begun(ODD, inputs=inputs), by=ADA, at=NOW)
    assert (first.version, first.repeated) == (1, False)
    state = await place.sound()
    assert (state.brief, state.inputs, state.principal, state.version) == (ODD, inputs, ADA, 1)
    assert state.started_at == NOW
    assert await place.told() == ["j-1"]


async def test_beginning_the_same_again_is_a_repetition_and_another_under_its_id_is_refused(place: Place) -> None:
    await place.start()
    await place.submit()
    again = await place.journeys.start("j-1", begun(), by=ADA, at=NOW + MINUTE)
    assert (again.version, again.repeated) == (1, True)
    with pytest.raises(JourneyExists, match="j-1"):
        await place.journeys.start("j-1", begun("Another question?"), by=ADA, at=NOW)
    assert (await place.sound()).version == 2
    assert await place.told() == ["j-1", "j-1"]


async def test_of_eight_concurrent_starts_of_one_journey_one_succeeds(place: Place) -> None:
    begin = [place.journeys.start("j-1", begun(), by=ADA, at=NOW + n * MINUTE) for n in range(8)]
    answers = await asyncio.gather(*begin)
    assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7
    assert {answer.version for answer in answers} == {1}
    assert (await place.sound()).version == 1
    others = [place.journeys.start("j-2", begun(f"Question {n}"), by=ADA, at=NOW) for n in range(8)]
    done = await asyncio.gather(*others, return_exceptions=True)
    assert sum(isinstance(one, JourneyExists) for one in done) == 7
    assert await place.told() == ["j-1", "j-2"]


@pytest.mark.parametrize("id_", ["", "a b", "ä", "a\x00", "-a", "x" * 101])
async def test_invalid_ids_find_nothing(place: Place, id_: str) -> None:
    with pytest.raises(ValueError, match="id"):
        await place.journeys.start(id_, begun(), by=ADA, at=NOW)
    with pytest.raises(NoSuchJourney):
        await place.journeys.journey(id_)


async def test_unknown_journeys_have_no_data(place: Place) -> None:
    journeys = place.journeys
    with pytest.raises(NoSuchJourney, match="journey_list"):
        await journeys.journey("j-9")
    with pytest.raises(NoSuchJourney):
        await journeys.events("j-9")
    with pytest.raises(NoSuchJourney):
        await journeys.append("j-9", [Completed("X")], expected=1, key="k", by=ADA, at=NOW)
    with pytest.raises(NoSuchJourney):
        await journeys.note("j-9", [Thinking("hm")], by=ADA, at=NOW)
    with pytest.raises(NoSuchJourney):
        await fork(journeys, "j-9", 1, journey="j-1", by=ADA, at=NOW)
    assert await place.told() == []


# --- beginning alike --------------------------------------------------------------------------------------------------


def first(brief: str = "Why is the sky blue?", at: datetime = NOW, **more: Any) -> list[Logged]:
    """Return the log of a journey that has just begun."""
    return [first_event(begun(brief, **more), ADA, at)]


async def test_an_equal_start_a_moment_later_returns_the_first_journey(place: Place) -> None:
    inputs = {ODD: [1, 2.5, None, {"a": ODD}]}
    one = await place.journeys.begin("j-1", first(ODD, inputs=inputs, conversation="c-1"), since=NOW)
    again = first(ODD, NOW + MINUTE, inputs=inputs, conversation="c-2")
    two = await place.journeys.begin("j-2", again, since=NOW)
    assert (one, two) == (Begun("j-1"), Begun("j-1", repeated=True))
    assert (await place.sound()).conversation == "c-1"
    assert [line.id for line in await place.journeys.journeys()] == ["j-1"]
    assert await place.told() == ["j-1"]


async def test_starts_with_different_inputs_are_not_equal(place: Place) -> None:
    await place.journeys.begin("j-1", first(inputs={"depth": 1}), since=NOW)
    others: list[dict[str, Any]] = [
        {},
        {"inputs": {"depth": 1.5}},
        {"inputs": {"depth": 1}, "brief": "Why is the sky blue ?"},
        {"inputs": {"depth": 1}, "agent": "build"},
        {"inputs": {"depth": 1}, "principal": BOB},
        {"inputs": {"depth": 1}, "phase": "ANSWER"},
    ]
    for n, other in enumerate(others, 2):
        assert await place.journeys.begin(f"j-{n}", first(**other), since=NOW) == Begun(f"j-{n}")
    assert len(await place.journeys.journeys()) == 7


async def test_a_journey_that_is_older_was_moved_or_is_a_fork_is_not_begun_again(place: Place) -> None:
    await place.journeys.begin("j-1", first(), since=NOW)
    later = NOW + timedelta(minutes=5)
    older = later - timedelta(microseconds=1)
    assert await place.journeys.begin("j-2", first(at=later), since=older) == Begun("j-2")
    await place.submit(journey="j-2", content="so far")
    assert await place.journeys.begin("j-3", first(at=later), since=older) == Begun("j-3")
    await place.journeys.note("j-3", [Thinking("hm")], by=ADA, at=later)
    assert await place.journeys.begin("j-4", first(at=later), since=older) == Begun("j-3", repeated=True)
    await place.add([word("cancel")], "j-3")
    await fork(place.journeys, "j-3", 1, journey="j-5", by=ADA, at=later)
    assert await place.journeys.begin("j-6", first(at=later), since=older) == Begun("j-6")


async def test_a_journey_with_automatic_phases_is_recognised_as_an_equal_start_too(place: Place) -> None:
    log = [*first(), Logged(2, 1, NOW, ADA, WorkRecorded("DECOMPOSE", 1, {"n": 1}, automatic=True))]
    assert await place.journeys.begin("j-1", log, since=NOW) == Begun("j-1")
    other = [*first(), Logged(2, 1, NOW, ADA, WorkRecorded("DECOMPOSE", 1, {"n": 2}, automatic=True))]
    assert await place.journeys.begin("j-2", other, since=NOW) == Begun("j-1", repeated=True)
    assert (await place.sound()).work["DECOMPOSE"].content == {"n": 1}


async def test_of_eight_concurrent_equal_starts_one_begins_and_all_get_its_journey(place: Place) -> None:
    begin = [place.journeys.begin(f"j-{n}", first(conversation=f"c-{n}"), since=NOW) for n in range(8)]
    answers = await asyncio.gather(*begin)
    assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7
    (line,) = await place.journeys.journeys()
    assert {answer.journey for answer in answers} == {line.id}
    assert await place.told() == [line.id]


async def test_an_equal_start_continues_the_newest_of_several(place: Place) -> None:
    for n in range(3):
        await place.journeys.adopt(f"j-{n}", first())
    assert await place.journeys.begin("j-9", first(), since=NOW) == Begun("j-2", repeated=True)
    for n in range(NEWEST_COMPARED):
        await place.journeys.adopt(f"k-{n}", first(f"Question {n}"))
    assert await place.journeys.begin("j-9", first(), since=NOW) == Begun("j-9")


async def test_a_journey_cannot_begin_under_anothers_id_or_with_an_invalid_log(place: Place) -> None:
    await place.journeys.begin("j-1", first(), since=NOW)
    with pytest.raises(JourneyExists):
        await place.journeys.begin("j-1", first("Another question?"), since=NOW)
    for log in ([], [replace(first()[0], seq=2)]):
        with pytest.raises(BadLog):
            await place.journeys.begin("j-2", log, since=NOW)
    with pytest.raises(ValueError, match="id"):
        await place.journeys.begin("a b", first("Third question?"), since=NOW)
    assert await place.told() == ["j-1"]


# --- steps ------------------------------------------------------------------------------------------------------------


async def test_a_stored_journey_equals_its_fold(place: Place) -> None:
    """Every engine reaches the state that folding the events gives."""
    await place.start()
    walk = Walk()
    assert await place.submit("tree_ready", content={"questions": ["a", ODD]}) == 2
    assert await place.approve() == 3
    await place.submit("new_category", content={"answers": {}})
    await place.submit("tree_ready", content={"questions": ["a", "b"]})
    await place.approve()
    await place.submit("all_answered", content={"answers": {"a": 1.5}})
    assert await place.submit(content="synthesis") == 8
    state = await place.sound()
    walk.submit("tree_ready", content={"questions": ["a", ODD]})
    walk.say("approve")
    walk.submit("new_category", content={"answers": {}})
    walk.submit("tree_ready", content={"questions": ["a", "b"]})
    walk.say("approve")
    walk.submit("all_answered", content={"answers": {"a": 1.5}})
    walk.submit(content="synthesis")
    assert [logged.event for logged in await place.journeys.events("j-1")] == [logged.event for logged in walk.log]
    assert (state.status, state.phase_visits, state.work) == ("complete", walk.state.phase_visits, walk.state.work)
    assert len(await place.told()) == 8


async def test_at_one_version_one_append_counts_and_the_other_learns_what_changed(place: Place) -> None:
    """The others get a conflict that says what changed."""
    await place.start()
    await place.submit("tree_ready", content="SECRET")
    await place.approve()
    with pytest.raises(StaleJourney) as caught:
        await place.journeys.append("j-1", [Completed("X")], expected=1, key="other", by=BOB, at=NOW)
    stale = caught.value
    assert (stale.expected, stale.actual) == (1, 3)
    assert stale.changed == (
        f"version 2: work on DECOMPOSE was recorded by {ADA}",
        f"version 2: a person was asked about DECOMPOSE by {ADA}",
        f"version 3: a person said approve at DECOMPOSE (page) by {ADA}",
        f"version 3: went from DECOMPOSE to ANSWER (tree_ready) by {ADA}",
    )
    assert "at version 3, not 1" in str(stale)
    assert "SECRET" not in str(stale)
    with pytest.raises(StaleJourney, match="at version 3, not 4"):
        await place.journeys.append("j-1", [Completed("X")], expected=4, key="other", by=BOB, at=NOW)
    assert (await place.sound()).version == 3


async def test_an_append_that_is_sent_again_is_answered_as_the_first_time_whatever_came_since(place: Place) -> None:
    await place.start()
    await place.start("j-2")
    assert await place.submit("tree_ready", key="same") == 2
    await place.approve()
    for expected in (1, 3, 77):
        again = await place.journeys.append("j-1", [Completed("X")], expected=expected, key="same", by=BOB, at=NOW)
        assert (again.version, again.repeated) == (2, True)
    assert await place.submit("tree_ready", key="same", journey="j-2") == 2
    assert (await place.sound()).version == 3
    assert len(await place.told()) == 5


async def test_an_append_with_a_known_position_gets_the_same_answer_as_without(place: Place) -> None:
    """Hints save reads and are checked: first whether the step is recorded, then the version, then the step."""
    await place.start()
    said = await place.journeys.journey("j-1")
    fitting: list[Step] = [WorkRecorded("DECOMPOSE", 1, "w")]
    wrong: list[Step] = [*fitting, PhaseChanged("ANSWER", "RISE_ABOVE", "x", is_backward=False)]

    async def append(events: Sequence[Step], key: str, journey: str = "j-1") -> Appended:
        return await place.journeys.append(journey, events, expected=1, key=key, by=ADA, at=NOW, before=said)

    with pytest.raises(BadLog, match="leaves ANSWER"):
        await append(wrong, "k")
    with pytest.raises(ValueError, match="at least one event, and a key"):
        await append(fitting, "")
    with pytest.raises(NoSuchJourney):
        await append(fitting, "k", "j-2")
    with pytest.raises(NoSuchJourney):
        await append(fitting, "k", "j\x00")
    assert await place.told() == ["j-1"]
    await place.journeys.note("j-1", [Thinking("meanwhile")], by=BOB, at=NOW)
    done = await append(fitting, "k")
    assert (done.version, done.repeated, done.state) == (2, False, await place.sound())
    for events in (fitting, wrong):
        assert await append(events, "k") == Appended(2, repeated=True)
        with pytest.raises(StaleJourney) as caught:
            await append(events, "l")
        assert (caught.value.expected, caught.value.actual) == (1, 2)
        assert caught.value.changed == (f"version 2: work on DECOMPOSE was recorded by {ADA}",)
    assert await place.told() == ["j-1"] * 3
    assert (await place.sound()).version == 2


async def test_an_invalid_step_is_refused_and_none_of_it_is_stored(place: Place) -> None:
    await place.start()
    fitting = WorkRecorded("DECOMPOSE", 1, "w")
    wrong: list[Step] = [fitting, PhaseChanged("ANSWER", "RISE_ABOVE", "x", is_backward=False)]
    with pytest.raises(BadLog, match="leaves ANSWER"):
        await place.journeys.append("j-1", wrong, expected=1, key="k", by=ADA, at=NOW)
    for events, key in (([], "k"), ([fitting], ""), ([fitting], "ä"), ([fitting], "k" * 201)):
        with pytest.raises(ValueError, match="at least one event, and a key"):
            await place.journeys.append("j-1", events, expected=1, key=key, by=ADA, at=NOW)
    with pytest.raises(ValueError, match="without its zone"):
        await place.journeys.append("j-1", [fitting], expected=1, key="k", by=ADA, at=NOW.replace(tzinfo=None))
    with pytest.raises(ValueError, match="JSON"):
        await place.journeys.append("j-1", [replace(fitting, work=float("nan"))], expected=1, key="k", by=ADA, at=NOW)
    assert (await place.sound()).version == 1
    assert await place.told() == ["j-1"]


async def test_of_eight_concurrent_submits_exactly_one_wins_each_version(place: Place) -> None:
    """8 clients submitting to one journey."""
    await place.start()

    async def client(me: int) -> list[int]:
        won = []
        for version in range(1, 13):
            work = WorkRecorded("DECOMPOSE", 1, me)
            with suppress(StaleJourney):
                done = await place.journeys.append(
                    "j-1", [work], expected=version, key=f"{me}-{version}", by=f"c{me}", at=NOW
                )
                won.append(done.version)
        return won

    won = [version for some in await asyncio.gather(*map(client, range(8))) for version in some]
    assert sorted(won) == list(range(2, 14))
    assert (await place.sound()).version == 13


async def test_one_submit_sent_eight_times_concurrently_is_recorded_once_and_all_get_its_answer(place: Place) -> None:
    await place.start()
    sent = [
        place.journeys.append("j-1", [WorkRecorded("DECOMPOSE", 1, "w")], expected=1, key="same", by=ADA, at=NOW)
        for _ in range(8)
    ]
    answers = await asyncio.gather(*sent)
    assert {answer.version for answer in answers} == {2}
    assert sorted(answer.repeated for answer in answers) == [False] + [True] * 7
    assert len(await place.journeys.events("j-1")) == 2


async def test_notes_go_with_any_version_and_conflict_with_nobody(place: Place) -> None:
    await place.start()
    before = await place.journeys.journey("j-1")
    await place.journeys.note("j-1", [ToolStart("c-1", "kb_search", "ab"), Thinking(ODD)], by=BOB, at=NOW)
    done = await place.journeys.append("j-1", [WorkRecorded("DECOMPOSE", 1, "w")], expected=1, key="k", by=ADA, at=NOW)
    await place.journeys.note("j-1", [ToolSuccess("c-1", "kb_search", 1.5)], by=BOB, at=NOW)
    log = await place.journeys.events("j-1")
    assert [(logged.seq, logged.version, logged.by) for logged in log[1:]] == [
        (2, 1, BOB),
        (3, 1, BOB),
        (4, 2, ADA),
        (5, 2, BOB),
    ]
    assert log[2].event == Thinking(ODD)
    assert done.version == 2
    assert await place.sound() != before
    assert await place.told() == ["j-1"] * 4


async def test_notes_and_steps_of_many_tasks_leave_no_gap(place: Place) -> None:
    await place.start()

    async def noting(me: int) -> None:
        for n in range(5):
            await place.journeys.note("j-1", [Thinking(f"{me} {n}"), Thinking("hm")], by=ADA, at=NOW)

    async def stepping() -> None:
        for _ in range(5):
            await place.submit()

    await asyncio.gather(*map(noting, range(3)), stepping())
    state = await place.sound()
    assert (state.version, state.seq) == (6, 36)


# --- looking ----------------------------------------------------------------------------------------------------------


async def test_a_journeys_state_at_a_version_is_the_fold_up_to_there(place: Place) -> None:
    await place.start()
    states = {1: await place.journeys.journey("j-1")}
    for met in (["gap"], ["tree_ready"]):
        version = await place.submit(*met, content=met)
        states[version] = await place.journeys.journey("j-1")
    version = await place.approve()
    states[version] = await place.journeys.journey("j-1")
    for version, state in states.items():
        assert await place.journeys.journey("j-1", version=version) == state
    for version in (0, -1, 5, 999):
        with pytest.raises(NoSuchJourney, match=f"no version {version}; it has 1 to 4"):
            await place.journeys.journey("j-1", version=version)


async def test_events_come_oldest_first_page_by_page(place: Place) -> None:
    await place.start()
    await place.submit("tree_ready", content="a" * 30_000)
    await place.approve()
    journeys = place.journeys
    log = await journeys.events("j-1")
    assert [logged.seq for logged in log] == [1, 2, 3, 4, 5]
    assert [logged.key for logged in log] == ["", "k-1", "", "k-2", ""]
    assert log[0] == Logged(1, 1, NOW, ADA, begun())
    assert list(await journeys.events("j-1", after=1, limit=2)) == list(log[1:3])
    assert list(await journeys.events("j-1", after=4)) == list(log[4:])
    assert list(await journeys.events("j-1", after=5)) == list(await journeys.events("j-1", limit=0)) == []
    assert list(await journeys.events("j-1", after=-3)) == list(log)


async def test_journeys_are_listed_newest_first_by_filter_and_page(place: Place) -> None:
    for n in range(5):
        whose = BOB if n == 3 else ADA
        await place.start(
            f"j-{n}", brief=f"  Question {n}\n" + "x" * 200, principal=whose, agent="build" if n == 1 else "research"
        )
    await place.submit("tree_ready", journey="j-2")
    await place.add([Completed("DECOMPOSE")], "j-0")

    async def ids(**asked: Any) -> list[str]:
        return [line.id for line in await place.journeys.journeys(**asked)]

    assert await ids() == ["j-4", "j-3", "j-2", "j-1", "j-0"]
    assert await ids(principal=ADA) == ["j-4", "j-2", "j-1", "j-0"]
    assert await ids(status="waiting") == ["j-2"]
    assert await ids(status="complete", principal=ADA) == ["j-0"]
    assert await ids(agent="build") == ["j-1"]
    assert await ids(limit=2) == ["j-4", "j-3"]
    assert await ids(limit=2, before="j-3") == ["j-2", "j-1"]
    assert await ids(before="j-0") == await ids(before="unknown") == await ids(principal=ODD) == []
    (line,) = await place.journeys.journeys(status="waiting")
    assert (line.agent, line.phase, line.version, line.status) == ("research", "DECOMPOSE", 2, "waiting")
    assert (line.started_at, line.moved_at) == (NOW, NOW + MINUTE)
    assert line.title.startswith("Question 2 xxx")
    assert len(line.title) == 120


# --- forks and files --------------------------------------------------------------------------------------------------


async def test_a_fork_goes_its_own_way_from_a_version_on_with_all_that_led_there(place: Place) -> None:
    await place.start()
    await place.submit("tree_ready", content=["a"], key="first")
    await place.journeys.note("j-1", [Thinking("hm")], by=ADA, at=NOW)
    await place.approve()
    done = await fork(place.journeys, "j-1", 2, journey="j-2", by=BOB, at=NOW + 9 * MINUTE)
    assert done.version == 3
    assert [line.principal for line in await place.journeys.journeys()] == [BOB, ADA]
    mine = await place.sound("j-2")
    assert (mine.forked_from, mine.forked_at, mine.principal, mine.status) == ("j-1", 2, BOB, "waiting")
    log = await place.journeys.events("j-2")
    assert list(log[:-1]) == list(await place.journeys.events("j-1", limit=4))
    assert log[-1].event == Forked("j-1", 2, BOB)
    # The fork knows what the journey was told before.
    again = await place.journeys.append("j-2", [Completed("X")], expected=9, key="first", by=ADA, at=NOW)
    assert (again.version, again.repeated) == (2, True)
    await place.approve("j-2")
    await place.submit("all_answered", journey="j-2")
    assert ((await place.sound("j-2")).phase, (await place.sound()).phase) == ("RISE_ABOVE", "ANSWER")
    with pytest.raises(NoSuchJourney, match="no version 4"):
        await fork(place.journeys, "j-1", 4, journey="j-3", by=BOB, at=NOW)
    with pytest.raises(JourneyExists):
        await fork(place.journeys, "j-1", 1, journey="j-2", by=BOB, at=NOW)


async def test_a_journey_is_exported_and_imported_unchanged(place: Place) -> None:
    await place.start(brief=ODD)
    await place.submit("tree_ready", content={"odd": ODD})
    await place.journeys.note("j-1", [Thinking(ODD)], by=BOB, at=NOW)
    await place.approve()
    text = "".join(exported("j-1", await place.journeys.events("j-1")))
    assert text.isascii()
    id_, log = imported(text)
    elsewhere = await open_place("memory", "", "")
    assert (await elsewhere.journeys.adopt(id_, log)).version == 3
    assert await elsewhere.sound() == await place.sound()
    back = await place.journeys.adopt(id_, log)
    assert (back.version, back.repeated) == (3, True)
    assert (await place.journeys.adopt("copy", log)).repeated is False
    assert replace(await place.sound("copy")) == await place.sound()
    await place.submit("all_answered")
    with pytest.raises(JourneyExists):
        await place.journeys.adopt(id_, log)
    # It continues there as it would have here.
    await elsewhere.submit("all_answered")
    assert (await elsewhere.sound()).phase == "RISE_ABOVE"


async def test_a_log_that_cannot_have_happened_is_not_taken_over(place: Place) -> None:
    log = [*Walk().log, Logged(2, 2, NOW, ADA, FeedbackAdded("validation", "DECOMPOSE", "x"), key="k")]
    for wrong in (
        log[1:],
        [log[0], replace(log[1], seq=3)],
        [*log, replace(log[1], seq=3, version=3)],
        [*log, Logged(3, 3, NOW, ADA, begun())],
    ):
        with pytest.raises(BadLog):
            await place.journeys.adopt("j-1", wrong)
    assert await place.journeys.journeys() == []
    assert await place.told() == []


def test_an_edited_cut_or_stretched_file_is_not_imported() -> None:
    walk = Walk()
    walk.submit("tree_ready", content="original")
    lines = list(exported("j-1", walk.log))
    told = json.loads(lines[2])
    edited = json.dumps({**told, "event": {**told["event"], "work": "changed"}}) + "\n"
    unknown = "".join(lines).replace("work.recorded", "work.sung")
    for number, text, reason in [
        (1, "", "not JSON"),
        (1, "[]\n", "not a JSON object"),
        (1, lines[0].replace('"form":1', '"form":9'), "not the first line"),
        (3, "".join([*lines[:2], edited, *lines[3:]]), "was changed after the export"),
        (3, "".join([*lines[:2], *lines[3:]]), "was changed after the export"),
        (3, "".join([*lines[:2], lines[3], lines[2]]), "was changed after the export"),
        (3, "".join(lines[:-1]), "it has 2 events, but 3 were exported"),
        (2, "".join(lines).replace('"journey":"j-1"', '"journey":"j-2"'), "was changed after the export"),
        (4, "".join(lines)[:-9], "not JSON"),
        (3, unknown, "was changed after the export"),
        (5, "".join([*lines, lines[-1]]), "was changed after the export"),
    ]:
        with pytest.raises(BadJourneyFile, match=reason) as caught:
            imported(text)
        assert caught.value.line == number, reason
    assert imported("".join(lines)) == ("j-1", walk.log)


def chained(lines: Sequence[str], **changes: Json) -> str:
    """Return the file with fields of its first event changed and its digests recomputed."""
    forms = [json.loads(line) for line in lines]
    chain = sha256(canonical(forms[0]).encode()).hexdigest()
    told = [canonical(forms[0])]
    for number, form in enumerate(forms[1:]):
        whole = {**form, **(changes if number == 0 else {})}
        del whole["chain"]
        chain = sha256(f"{chain}{canonical(whole)}".encode()).hexdigest()
        told.append(canonical({**whole, "chain": chain}))
    return "\n".join(told) + "\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"at": "2026-03-01T00:00:00"},
        {"at": "0001-01-01T00:00:00+14:00"},
        {"at": "9999-12-31T23:59:59-14:00"},
        {"at": 5},
        {"seq": None},
        {"version": [1]},
        {"event": []},
    ],
)
def test_a_forged_file_is_refused_with_its_line(changes: dict[str, Json]) -> None:
    """Anyone who can edit the file can replace it: its digests only detect accidental changes."""
    walk = Walk()
    walk.submit("tree_ready", content="original")
    lines = list(exported("j-1", walk.log))
    assert imported(chained(lines)) == ("j-1", walk.log)
    with pytest.raises(BadJourneyFile) as caught:
        imported(chained(lines, **changes))
    assert caught.value.line == 2
    with pytest.raises(BadJourneyFile, match="not JSON"):
        imported(lines[0] + '{"a":' * 100_000 + "1" + "}" * 100_000 + "\n")


# --- the state stored beside the log ----------------------------------------------------------------------------------


async def _spoil(place: Place, folding: int, before: str, after: str) -> None:
    """Change the state that is kept beside the log of every journey."""
    told = (folding, before, after)
    if place.where.startswith("postgresql://"):
        change = SQL("UPDATE {s}.journey SET folding = %s, folded = replace(folded, %s, %s)")
        with psycopg.connect(place.where, autocommit=True) as database:
            database.execute(change.format(s=Identifier(place.name)), told)
        return
    with closing(apsw.Connection(str(Path(place.where) / place.name / "state.db"))) as connection:
        connection.set_busy_timeout(5_000)
        connection.execute("UPDATE journey SET folding = ?, folded = replace(folded, ?, ?)", told).fetchall()


@pytest.mark.parametrize("place", SHARED, indirect=True)
async def test_a_state_stored_by_other_rules_is_rebuilt_from_the_log(place: Place) -> None:
    """The snapshot is only a cache of the log."""
    await place.start()
    await place.submit("tree_ready", content=["a"])
    before = await place.sound()
    await _spoil(place, FOLDING - 1, '"phase"', "rubbish")
    assert await place.journeys.journey("j-1") == before
    await place.approve()
    assert (await place.sound()).phase == "ANSWER"
    await _spoil(place, FOLDING, '"phase":"ANSWER"', '"phase":"COMPLETE"')
    assert (await place.journeys.journey("j-1")).phase == "COMPLETE"  # the state beside the log was read, not folded


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_a_state_kept_by_a_program_that_did_not_say_which_events_hold_the_rest_is_whole(place: Place) -> None:
    """A journey without these fields is read like any other, and can continue."""
    await place.start()
    await place.submit("tree_ready", content=["a"])
    before = await place.sound()
    change = SQL("UPDATE {s}.journey SET held = NULL").format(s=Identifier(place.name))
    with psycopg.connect(place.where, autocommit=True) as database:
        database.execute(change)
    assert await place.journeys.journey("j-1") == before
    assert (await place.journeys.head("j-1", "k-1")).state == before
    await place.approve()
    assert (await place.sound()).work == before.work


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
async def test_nothing_is_appended_to_a_journey_whose_stored_state_has_another_version(place: Place) -> None:
    await place.start()
    await place.submit("tree_ready", content=["a"])
    await _spoil(place, FOLDING, '"version":2,', '"version":1,')
    with pytest.raises(CorruptDatabase, match="journey j-1"):
        await place.journeys.append("j-1", [Completed("X")], expected=1, key="k", by=ADA, at=NOW)
    assert len(await place.told()) == 2


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_step_after_hundreds_of_others_takes_no_more_of_the_database(place: Place) -> None:
    """Bytes stored per step do not grow with the length of the journey."""
    await place.start()
    sizes = []
    for n in range(601):
        if n % 200 == 0:
            with closing(apsw.Connection(str(Path(place.where) / place.name / "state.db"))) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            sizes.append((Path(place.where) / place.name / "state.db").stat().st_size)
        there, other = ("DECOMPOSE", "ANSWER")[:: 1 if n % 2 == 0 else -1]
        work = WorkRecorded(there, n // 2 + 1, f"{n} " + "x" * 200)
        move = PhaseChanged(there, other, "always", is_backward=bool(n % 2), detail="y" * 50)
        await place.journeys.append("j-1", [work, move], expected=n + 1, key=f"k-{n}", by=ADA, at=NOW)
    second, third = sizes[2] - sizes[1], sizes[3] - sizes[2]
    assert third <= 1.1 * second
    assert third / 200 < 1_200


@given(st.lists(st.tuples(st.booleans(), st.sets(st.sampled_from(CONDITIONS))), max_size=12))
@settings(max_examples=15)
def test_whatever_is_appended_memory_and_sqlite_agree(
    tmp_path_factory: pytest.TempPathFactory, todo: list[Any]
) -> None:
    async def led(engine: str) -> tuple[JourneyState, list[Logged]]:
        place = await open_place(engine, str(tmp_path_factory.mktemp("journeys")), "s")
        await place.start()
        for noted, met in todo:
            state = await place.journeys.journey("j-1")
            if noted:
                await place.journeys.note("j-1", [Thinking(str(met))], by=BOB, at=NOW + timedelta(days=1))
            elif state.status == "waiting":
                await place.approve()
            elif not state.over:
                await place.submit(*met, content=sorted(met))
        found = await place.sound(), list(await place.journeys.events("j-1"))
        await place.state.close()
        return found

    assert asyncio.run(led("memory")) == asyncio.run(led("sqlite"))
