"""The promises of every store of runs: one suite for all engines."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agents.loop.errors import BadFrames, NoSuchRun, RunExists, RunTaken, StaleRun
from agents.loop.record.frames import Control, RunLimits, frame_text
from agents.loop.record.run import Run, fold
from agents.loop.store.ports import RunStore, Total
from agents.loop.store.rules import with_earlier
from knowledge.history.audit.chain import fields_of, verify
from knowledge.history.timestamps import utc_text
from knowledge.state.ports import StateStore
from tests.support.runs.records import ADA, ODD, SECOND, Walk, header, hold
from tests.support.state.engines import runs_in
from tests.support.state.ledgers import DAY, MINUTE, NOW, open_shared
from tests.support.state.memory.state import MemoryStateStore

SHARED = ("sqlite", "postgres")


@dataclass
class Place:
    """A state store, its runs, and their location."""

    state: StateStore
    runs: RunStore
    where: str
    name: str

    async def begin(self, run: str = "run-1", **more: Any) -> Run:
        return await self.runs.begin(header(run, **more), hold())

    async def keep(self, walk: Walk, *, by: str | None = "one") -> Run:
        """Append the part of the walk that is not recorded yet."""
        there = await self.runs.run(walk.run.id)
        return await self.runs.append(there, walk.run.frames[there.count :], hold(by) if by else None)

    async def told(self) -> list[str]:
        return [event.key for event in await self.state.events_after(0) if event.topic == "run"]

    async def sound(self, run: str = "run-1") -> Run:
        """Return the stored run; check that it is the fold of its frames, without gaps."""
        stored, frames = await self.runs.run(run), await self.runs.frames(run)
        assert fold(stored.header, frames) == stored
        assert [frame.number for frame in frames] == list(range(stored.count))
        line = next(one for one in await self.runs.runs(limit=100) if one.id == run)
        assert (line.state, line.count, line.moved_at) == (stored.state, stored.count, stored.moved_at)
        return stored


@pytest.fixture(params=["memory", *SHARED])
async def place(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[Place]:
    where = request.getfixturevalue("postgres").url() if request.param == "postgres" else str(tmp_path)
    state: StateStore = MemoryStateStore() if request.param == "memory" else await open_shared(where, schema)
    yield Place(state, runs_in(state), where, schema)
    await state.close()


async def test_a_run_begins_without_frames_and_is_returned_to_the_last_character(place: Place) -> None:
    limits = RunLimits(iterations=3, seconds=2.5, tokens=None, cost_micros=7)
    head = header(goal=ODD, context=ODD, toolsets=("knowledge", "trust"), limits=limits, principal=ODD)
    begun = await place.runs.begin(head, hold())
    assert begun == await place.sound()
    assert (begun.header, begun.count, begun.state) == (head, 0, "running")
    assert await place.told() == ["run-1"]


async def test_beginning_the_same_run_again_returns_it_and_another_under_its_id_is_refused(
    place: Place,
) -> None:
    walk = Walk(await place.begin())
    walk.call("kb_search", query="cap")
    await place.keep(walk)
    assert await place.begin() == walk.run
    with pytest.raises(RunExists, match="run-1"):
        await place.begin(goal="Another one.")
    assert await place.sound() == walk.run


async def test_invalid_ids_find_nothing(place: Place) -> None:
    for id_ in ("", "a b", "ä", "a\x00", "-a", "x" * 101):
        with pytest.raises(ValueError, match="id"):
            await place.begin(id_)
        with pytest.raises(NoSuchRun):
            await place.runs.run(id_)
        with pytest.raises(NoSuchRun):
            await place.runs.claim(id_, hold())
        await place.runs.release(id_, "one")
    assert await place.runs.runs() == []


async def test_frames_round_trip_in_every_state(place: Place) -> None:
    walk = Walk(await place.begin())
    walk.call("kb_search", "kb_read", said=ODD, query=ODD, deep={"a": [1, 2.5, None, {"b": ODD}]})
    walk.result(ODD, structured={"hits": [ODD]}, milliseconds=1.5)
    walk.result("gone", success=False, error="nothing there", unsure=True)
    assert await place.keep(walk) == walk.run
    walk.control("suspended", proposal="p-1")
    walk.control("resumed", "it was approved", proposal="p-1")
    walk.ask()
    walk.answer(ODD)
    assert await place.keep(walk) == walk.run
    walk.respond(ODD)
    await place.keep(walk)
    stored = await place.sound()
    assert stored == walk.run
    assert stored.state == "done"
    assert list(await place.runs.frames("run-1", start=3, limit=2)) == list(walk.run.frames[3:5])
    assert len(await place.told()) == 4


async def test_frames_that_are_on_record_already_are_not_added_again(place: Place) -> None:
    """A lost reply: sending the same frames again returns the run's current state, whatever the sender had seen."""
    walk = Walk(begun := await place.begin())
    walk.call("kb_search")
    first = walk.run.frames
    await place.runs.append(begun, first, hold())
    walk.result()
    await place.keep(walk)
    assert await place.runs.append(begun, first, hold("another", NOW + DAY)) == walk.run
    with pytest.raises(BadFrames, match="another frame with its id"):
        await place.runs.append(begun, [replace(first[0], at=NOW + DAY)], hold())
    assert await place.sound() == walk.run


async def test_frames_after_others_than_the_newest_are_refused(place: Place) -> None:
    walk, late = Walk(begun := await place.begin()), Walk(begun)
    walk.call("kb_search")
    await place.keep(walk)
    late.plan("correct", problem="it was empty")
    frames = [replace(frame, id=f"late-{frame.number}") for frame in late.run.frames]
    with pytest.raises(StaleRun) as stale:
        await place.runs.append(begun, frames, hold())
    assert (stale.value.expected, stale.value.actual) == (0, 2)
    assert await place.sound() == walk.run


async def test_invalid_frames_are_refused_and_none_of_them_is_stored(place: Place) -> None:
    walk = Walk(begun := await place.begin())
    plan = walk.plan("call")
    bad = Control(**{**walk.place(), "number": 5}, signal="cancelled", detail="no")
    with pytest.raises(BadFrames, match="number 1"):
        await place.runs.append(begun, [plan, bad], hold())
    with pytest.raises(ValueError, match="nothing"):
        await place.runs.append(begun, [], hold())
    assert (await place.sound()).count == 0
    with pytest.raises(NoSuchRun):
        await place.runs.append(replace(begun, header=header("run-9")), [plan], hold())


async def test_of_eight_concurrent_appends_one_counts(place: Place) -> None:
    begun = await place.begin()

    async def attempt(number: int) -> bool:
        walk = Walk(begun)
        frame = replace(walk.plan("correct", problem=f"by {number}"), id=f"x-{number}")
        try:
            await place.runs.append(begun, [frame], hold())
        except StaleRun:
            return False
        return True

    assert sum(await asyncio.gather(*map(attempt, range(8)))) == 1
    assert (await place.sound()).count == 1


# --- holding ----------------------------------------------------------------------------------------------------------


async def test_a_run_has_one_claim_until_it_is_released_or_expires(place: Place) -> None:
    begun = await place.begin()
    assert await place.runs.claim("run-1", hold("two")) is None
    assert await place.runs.claim("run-1", hold("one", NOW + 20 * SECOND)) == begun
    assert await place.runs.claim("run-1", hold("two", NOW + 49 * SECOND)) is None
    assert await place.runs.claim("run-1", hold("two", NOW + 50 * SECOND)) == begun
    await place.runs.release("run-1", "one")
    assert await place.runs.claim("run-1", hold("one", NOW + 51 * SECOND)) is None
    await place.runs.release("run-1", "two")
    assert await place.runs.claim("run-1", hold("one", NOW + 51 * SECOND)) == begun


async def test_only_the_claimant_can_append_and_appending_extends_the_claim(place: Place) -> None:
    walk = Walk(begun := await place.begin())
    walk.call("kb_search")
    with pytest.raises(RunTaken, match="run-1"):
        await place.runs.append(begun, walk.run.frames, hold("two"))
    await place.runs.append(begun, walk.run.frames, hold("one", NOW + 20 * SECOND))
    assert await place.runs.claim("run-1", hold("two", NOW + 40 * SECOND)) is None
    walk.result()
    kept = await place.runs.run("run-1")
    await place.runs.append(kept, walk.run.frames[kept.count :], hold("two", NOW + MINUTE))
    assert await place.runs.claim("run-1", hold("one", NOW + MINUTE)) is None


async def test_a_persons_decision_counts_whoever_has_the_claim(place: Place) -> None:
    walk = Walk(await place.begin())
    walk.control("cancelled", "the person wants no more of it")
    await place.keep(walk, by=None)
    assert (await place.sound()).state == "cancelled"
    assert await place.runs.claim("run-1", hold("two")) is None


async def test_a_hold_that_ends_later_than_it_could_is_void(place: Place) -> None:
    """Its process died, and its clock, which had been an hour ahead, was corrected.

    Nobody could take over the run for that hour.
    """
    begun = await place.begin()
    await place.runs.claim("run-1", hold("one", NOW + 60 * MINUTE))
    assert [line.id for line in await place.runs.runs(adrift_at=NOW)] == ["run-1"]
    assert await place.runs.claim("run-1", hold("two")) == begun


async def test_of_eight_processes_that_claim_an_orphaned_run_one_gets_it(place: Place) -> None:
    await place.begin()
    claims = [place.runs.claim("run-1", hold(f"p{n}", NOW + MINUTE)) for n in range(8)]
    assert sum(got is not None for got in await asyncio.gather(*claims)) == 1


# --- lists and sums ---------------------------------------------------------------------------------------------------


async def test_runs_are_listed_newest_first_by_state_principal_and_page(place: Place) -> None:
    for number in range(5):
        await place.begin(f"run-{number}", principal=ADA if number % 2 else ODD, goal=f"Goal {number}\n" + "x" * 200)
    done = Walk(await place.runs.run("run-3"))
    done.respond()
    await place.keep(done)
    lines = await place.runs.runs()
    assert [line.id for line in lines] == ["run-4", "run-3", "run-2", "run-1", "run-0"]
    assert lines[0].title.startswith("Goal 4 x")
    assert len(lines[0].title) == 120
    assert [line.id for line in await place.runs.runs(limit=2, before="run-3")] == ["run-2", "run-1"]
    assert [line.id for line in await place.runs.runs(state="done")] == ["run-3"]
    assert [line.id for line in await place.runs.runs(principal=ADA, state="running")] == ["run-1"]
    assert [line.id for line in await place.runs.runs(principal=ODD)] == ["run-4", "run-2", "run-0"]
    assert await place.runs.runs(before="nothing") == []


async def test_orphaned_runs_are_found(place: Place) -> None:
    for number in range(3):
        await place.begin(f"run-{number}")
    await place.runs.release("run-0", "one")
    waiting = Walk(await place.runs.run("run-2"))
    waiting.ask()
    await place.keep(waiting)
    assert [line.id for line in await place.runs.runs(adrift_at=NOW)] == ["run-0"]
    assert [line.id for line in await place.runs.runs(adrift_at=NOW + 30 * SECOND)] == ["run-1", "run-0"]


async def test_usage_of_runs_is_summed(place: Place) -> None:
    none = await place.runs.total()
    assert (none.runs, none.tokens_in, none.cost_micros, none.unpriced) == (0, 0, 0, 0)
    for number, cost in enumerate((None, 5, 8)):
        more = {"principal": "bob@cursor"} if number == 2 else {}
        walk = Walk(await place.begin(f"run-{number}", begun_at=NOW + number * DAY, **more))
        plan = replace(walk.plan("correct", problem="x"), at=NOW + 3 * DAY, cost_micros=cost)
        await place.runs.append(await place.runs.run(f"run-{number}"), [plan], hold())
    every = await place.runs.total()
    assert (every.runs, every.tokens_in, every.tokens_out, every.cost_micros, every.unpriced) == (3, 300, 21, 13, 1)
    assert (await place.runs.total(principal=ADA)).cost_micros == 5
    assert every.tokens == 321


async def test_usage_since_a_time_is_summed_by_its_time(place: Place) -> None:
    """A run that waits for a person for days counts on each day with that day's usage."""
    waited = Walk(await place.begin("run-0"))
    waited.call("kb_read", said='"tokens_in":5', query='"tokens_in":5')
    waited.result('{"tokens_in":5}', structured={"tokens_in": 5})
    waited.ask()
    waited.answer()
    there = await place.keep(waited)
    late = replace(waited.plan("correct", problem="x"), at=NOW + 2 * DAY, cost_micros=8)
    await place.runs.append(there, [late], hold())
    ended = Walk(await place.begin("run-1"))
    ended.correct()
    there = await place.keep(ended)
    ended.control("cancelled")
    await place.runs.append(there, [replace(ended.run.frames[-1], at=NOW + 2 * DAY)], hold())
    bobs = Walk(await place.begin("run-2", begun_at=NOW + 2 * DAY, principal="bob@cursor"))
    asked = replace(bobs.plan("correct", problem="x"), at=NOW + 2 * DAY + SECOND)
    await place.runs.append(await place.runs.run("run-2"), [asked], hold())

    assert (await place.runs.total()).tokens == 5 * 107
    assert await place.runs.total(since=NOW + DAY) == Total(2, 200, 14, 8, 1)
    assert await place.runs.total(since=NOW + DAY, principal=ADA) == Total(1, 100, 7, 8, 0)
    assert await place.runs.total(since=NOW + 2 * DAY) == Total(2, 200, 14, 8, 1)
    assert await place.runs.total(since=NOW + 2 * DAY + SECOND) == Total(1, 100, 7, 0, 1)
    assert await place.runs.total(since=NOW + 3 * DAY) == Total(0, 0, 0, 0, 0)


def test_a_frame_of_a_newer_program_keeps_no_other_from_being_summed() -> None:
    newer = '{"type":"later","tokens_in":5}'
    walk = Walk()
    texts = [newer, frame_text(walk.plan("correct", problem="x"))]
    assert with_earlier(Total(1, 1, 1, 1, 0), texts, NOW) == Total(2, 101, 8, 1, 1)


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("engine", "processes"), [("sqlite", 2), *(pytest.param(e, 8, marks=pytest.mark.external) for e in SHARED)]
)
async def test_concurrent_appending_processes_leave_one_run_without_gaps(
    engine: str, processes: int, tmp_path: Path, schema: str, request: pytest.FixtureRequest
) -> None:
    """Each appends ten frames, each after the newest: none is lost or doubled."""
    where = request.getfixturevalue("postgres").url() if engine == "postgres" else str(tmp_path)
    state = await open_shared(where, schema)
    await runs_in(state).begin(header(), hold())
    writers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.crash.leading", "append", where, schema, f"w{n}", "10"),
            stdout=subprocess.PIPE,
        )
        for n in range(processes)
    ]
    told = [json_line for writer in writers for json_line in (await writer.communicate())[0].decode().split()]
    assert [writer.returncode for writer in writers] == [0] * processes
    frames = await runs_in(state).frames("run-1")
    assert [frame.number for frame in frames] == list(range(10 * processes))
    assert sorted(frame.id for frame in frames) == sorted(told)
    assert fold(header(), frames) == await runs_in(state).run("run-1")
    await state.close()


@pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")
@pytest.mark.parametrize("lives", [1, pytest.param(30, marks=pytest.mark.external)])
async def test_frames_that_were_acknowledged_survive_the_death_of_their_process(
    lives: int, tmp_path: Path, schema: str
) -> None:
    state = await open_shared(str(tmp_path), schema)
    await runs_in(state).begin(header(), hold())
    chance = random.Random(5)  # noqa: S311 - when to kill, not a secret
    told: list[str] = []
    for life in range(lives):
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.crash.leading", "append", str(tmp_path), schema, f"life{life}", "100000"),
            stdout=subprocess.PIPE,
        )
        assert writer.stdout is not None
        told += [(await writer.stdout.readline()).decode().strip() for _ in range(chance.randint(1, 5))]
        writer.kill()
        told += (await writer.stdout.read()).decode().split()
        await writer.wait()
        frames = await runs_in(state).frames("run-1")
        assert [frame.number for frame in frames] == list(range(len(frames)))
        assert set(told) <= {frame.id for frame in frames}
    await state.close()


async def records(place: Place) -> list[dict[str, Any]]:
    """Return the runs' records of the audit chain, after verifying the chain."""
    ledger = place.state.ledger
    found = await ledger.records()
    assert verify(found, await ledger.chain_end()) == []
    return [fields for fields in map(fields_of, found) if "run" in fields]


async def test_that_a_run_begins_and_how_it_ends_is_in_the_audit_chain_once_without_any_text(place: Place) -> None:
    """One audit record for each act, without anyone's text."""
    walk = Walk(begun := await place.begin(goal=ODD, context="Nobody is told."))
    assert await place.begin(goal=ODD, context="Nobody is told.") == begun
    walk.call("kb_search", query="Nobody is told.")
    walk.result()
    await place.keep(walk)
    assert [one["outcome"] for one in await records(place)] == ["begun"]
    walk.respond("Nobody is told that either.")
    await place.keep(walk)
    await place.runs.append(begun, walk.run.frames[-2:], hold())
    first, last = await records(place)
    assert first["run"] == {
        "id": "run-1",
        "model": "test:small",
        **dict.fromkeys(("goal_achieved", "iterations", "tokens_in", "tokens_out", "cost_micros")),
    }
    spent = walk.run.spent
    assert last["run"] == {
        "id": "run-1",
        "model": "test:small",
        "goal_achieved": True,
        "iterations": 2,
        "tokens_in": spent.tokens_in,
        "tokens_out": spent.tokens_out,
        "cost_micros": None if spent.unpriced else spent.cost_micros,
    }
    assert (last["outcome"], last["at"]) == ("done", utc_text(walk.run.moved_at))
    assert {one["principal"] for one in (first, last)} == {ADA}
    assert {one["tool"] for one in (first, last)} == {"agent_run"}
    assert first["arguments_hash"] == last["arguments_hash"] != ""
    assert "Nobody" not in json.dumps([first, last])


async def test_a_result_that_arrives_after_a_cancel_is_no_second_end(place: Place) -> None:
    walk = Walk(await place.begin())
    walk.call("kb_search")
    await place.keep(walk)
    walk.control("cancelled", "enough")
    await place.keep(walk)
    walk.result()
    await place.keep(walk)
    assert [one["outcome"] for one in await records(place)] == ["begun", "cancelled"]


async def test_an_unrecorded_act_leaves_nothing_in_the_chain(place: Place) -> None:
    walk = Walk(begun := await place.begin())
    with pytest.raises(RunExists):
        await place.begin(goal="Another one.")
    walk.call("kb_search")
    await place.keep(walk)
    late = Walk(begun)
    late.control("failed", "no")
    with pytest.raises(StaleRun):
        await place.runs.append(begun, [replace(late.run.frames[0], id="late")], hold())
    assert [one["outcome"] for one in await records(place)] == ["begun"]
