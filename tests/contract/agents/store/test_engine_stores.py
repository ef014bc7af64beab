"""Every store keeps the engine's records alike: whole checkpoints at every version, one act a step, older logs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from agents.engine.events import (
    Decided,
    Json,
    Logged,
    PhaseChanged,
    StepUsage,
    WorkRecorded,
    canonical,
    logged_form,
    logged_of,
)
from agents.engine.fold import FOLDING, fold
from agents.engine.progress.position import JourneyPosition
from agents.engine.runner import JourneyDecision, Runner, Submission
from agents.engine.state import JourneyState, get_state, restore_state
from agents.errors import StaleJourney
from agents.store.codec import state_of, state_text
from agents.store.export_file import exported, imported
from knowledge.state.ports import StateStore
from tests.support.agents.agent_harness import Pages
from tests.support.agents.engine_agents import ASK, PLAN, making
from tests.support.agents.small_agents import Only
from tests.support.journeys.graphs import ADA, ODD
from tests.support.state.engines import journeys_in
from tests.support.state.ledgers import MINUTE, NOW, open_shared
from tests.support.state.memory.state import MemoryStateStore

SHARED = ("sqlite", "postgres")
SENDERS = 6
ANSWERS = {"q1": "two", "q2": f"only {ODD}"}
NEW_FIELDS = ("answers", "answered_at", "conversations", "returns")
"""Fields that states lacked before there were questions and speakers."""
NEW_OF_WORK = ("confidence", "reasoning", "signals", "usage", "conversation", "automatic")
ACTS: Sequence[Submission | JourneyDecision] = (
    Submission({"steps": ["lay the roof", " "]}, ("planned",), StepUsage(900, 80, "m-1"), "chat 1", 0.4, "a guess"),
    Submission(ASK, (), StepUsage(700, 60, "m-1"), "chat 1", 0.9, f"now {ODD}"),
    JourneyDecision("answer", "host", "", ANSWERS),
    Submission({"text": "a hive"}, ("made", "hint"), StepUsage(300, 40, "m-2"), "chat 2", 1.0, "sure"),
    Submission({"score": 70, "why": "thin"}, (), StepUsage(50, 5, "m-3"), "", 0.0, ""),
    Submission({"text": "two hives"}),
    Submission({"score": 30, "why": "wrong roof"}, reasoning="the roof leaks"),
    Submission(PLAN, confidence=0.5),
    Submission({"text": "a third one"}),
    Submission({"score": 95}, usage=StepUsage(10, 20)),
)
"""A validation failure, questions, a soft failure, a hard failure, and then the end."""


@dataclass
class Place:
    """Runners of two processes on one database; in memory there is only one store."""

    runners: Sequence[Runner]
    states: Sequence[StateStore]
    where: str
    name: str

    async def start(self) -> str:
        return (await self.runners[0].start("making", f"bees {ODD}", {}, by=ADA)).journey

    async def act(self, journey: str, version: int, act: Submission | JourneyDecision, of: int = 0) -> JourneyPosition:
        if isinstance(act, Submission):
            return await self.runners[of].submit(journey, version, act, by=ADA)
        return await self.runners[of].decide(journey, version, act, by=ADA)

    async def led(self) -> tuple[str, list[JourneyState]]:
        """Return a journey that went through all acts, and its state after each."""
        journey = await self.start()
        states = [(await self.runners[0].position(journey)).state]
        for act in ACTS:
            states.append((await self.act(journey, states[-1].version, act, len(states) % 2)).state)
        return journey, states


def runner(state: StateStore, names: Callable[[], str]) -> Runner:
    ticks = count()
    return Runner(
        journeys_in(state),
        Only(making()),
        lambda _journey, _state: Pages(),
        now=lambda: NOW + next(ticks) * MINUTE,
        chance=names,
    )


@asynccontextmanager
async def opened(engine: str, where: str, name: str) -> AsyncIterator[Place]:
    numbers = count(1)
    async with AsyncExitStack() as stack:
        states: list[StateStore] = []
        for _ in range(2):
            states.append(MemoryStateStore() if engine == "memory" else await open_shared(where, name))
            stack.push_async_callback(states[-1].close)
        runners = [runner(state, lambda: f"{next(numbers):08x}") for state in states]
        if engine == "memory":
            runners[1] = runners[0]
        yield Place(runners, states, where, name)


@pytest.fixture(params=["memory", *SHARED])
async def place(request: pytest.FixtureRequest, tmp_path: Path, schema: str) -> AsyncIterator[Place]:
    where = request.getfixturevalue("postgres").url() if request.param == "postgres" else str(tmp_path)
    async with opened(request.param, where, schema) as there:
        yield there


# --- whole checkpoints ------------------------------------------------------------------------------------------------


async def test_every_version_is_a_whole_checkpoint_of_all_that_was_said_and_done(place: Place) -> None:
    """State with metrics, conversation ids, every agent's complete response, feedback."""
    journey, states = await place.led()
    last = states[-1]
    assert (last.status, last.version, last.iteration) == ("complete", len(ACTS) + 1, 4)
    log = await place.runners[1].store.events(journey)
    for state in states:
        assert fold(logged for logged in log if logged.version <= state.version) == state
        assert await place.runners[1].store.journey(journey, version=state.version) == state
        form = json.loads(canonical(get_state(state)))
        assert restore_state(form) == state
    assert await place.runners[1].store.journey(journey) == last
    first = get_state(states[1])["work"]["PLAN"]
    assert {name: first[name] for name in (*NEW_OF_WORK[:5], "content")} == {
        "content": {"steps": ["lay the roof", " "]},
        "confidence": 0.4,
        "reasoning": "a guess",
        "signals": ["planned"],
        "usage": {"tokens_in": 900, "tokens_out": 80, "model": "m-1", "counted": False},
        "conversation": "chat 1",
    }
    assert get_state(states[1])["work"]["CHECK"]["automatic"] is True
    assert get_state(states[1])["feedback"][0]["text"] == "step 2 is empty"
    assert states[3].answers["PLAN"]["q2"] == {"question": "Who enters?", "answer": ANSWERS["q2"]}
    assert (states[2].work["PLAN"].reasoning, states[5].work["JUDGE"].confidence) == (f"now {ODD}", 0.0)
    assert {one.kind for one in last.feedback} == {"validation", "soft_failure", "hard_failure"}
    assert states[7].conversation.startswith("planner_iter4_")


async def test_tokens_of_each_phase_are_those_that_were_reported(place: Place) -> None:
    journey, states = await place.led()
    last = states[-1]
    reported: dict[str, list[int]] = {}
    for state, act in zip(states, ACTS, strict=False):
        if isinstance(act, Submission) and act.usage.tokens_in:
            sums = reported.setdefault(state.phase, [0, 0])
            sums[0] += act.usage.tokens_in
            sums[1] += act.usage.tokens_out
    assert reported == {"PLAN": [1_600, 140], "MAKE": [300, 40], "JUDGE": [60, 25]}
    for phase, (tokens_in, tokens_out) in reported.items():
        took = last.metrics[phase]
        works = [e.event for e in await place.runners[0].store.events(journey) if isinstance(e.event, WorkRecorded)]
        counted = [one.usage for one in works if one.phase == phase and one.usage.counted]
        assert took.tokens_in - sum(one.tokens_in for one in counted) == tokens_in
        assert took.tokens_out - sum(one.tokens_out for one in counted) == tokens_out
        assert took.counted == sum(one.tokens_in + one.tokens_out for one in counted)
    assert last.metrics["CHECK"].tokens_in == last.metrics["TALLY"].tokens_out == 0


async def test_from_any_version_the_same_acts_lead_the_same_way_again(place: Place) -> None:
    """Stepwise re-execution from any checkpoint."""
    journey, states = await place.led()
    for at in (1, 3, 6, 9):
        fork = await place.runners[1].start("", "", {"fork_of": journey, "at_version": at}, by=ADA)
        here = fork.state
        for before, act in zip(states[at - 1 :], ACTS[at - 1 :], strict=False):
            assert (here.phase, here.status, here.visit) == (before.phase, before.status, before.visit)
            here = (await place.act(fork.journey, here.version, act)).state
        assert (here.status, here.phase_visits, here.returns) == ("complete", states[-1].phase_visits, 3)
        assert {name: work.content for name, work in here.work.items()} == {
            name: work.content for name, work in states[-1].work.items()
        }
    assert await place.runners[0].store.journey(journey) == states[-1]


async def test_a_complete_journey_is_exported_and_continues_elsewhere(place: Place) -> None:
    journey = await place.start()
    version = 1
    for act in ACTS[:4]:
        version = (await place.act(journey, version, act)).state.version
    text = "".join(exported(journey, await place.runners[0].store.events(journey)))
    async with opened("memory", "", "") as elsewhere:
        id_, log = imported(text)
        await elsewhere.runners[0].adopt(id_, log)
        there, here = [await one.runners[0].position(journey) for one in (elsewhere, place)]
        assert there.state == here.state
        for act in ACTS[4:]:
            on = await elsewhere.act(journey, there.state.version, act)
            there = on
        assert there.state.status == "complete"


# --- one act for each step --------------------------------------------------------------------------------------------


async def _told(place: Place, journey: str) -> int:
    """Return how many notices of the journey's change arrived."""
    return len([e for e in await place.states[0].events_after(0) if (e.topic, e.key) == ("journey", journey)])


async def test_a_beginning_and_a_step_through_automatic_phases_are_one_act_each(place: Place) -> None:
    """Decision 35: no crash leaves a journey in a phase that nobody works on."""
    journey = await place.start()
    assert await _told(place, journey) == 1
    log = await place.runners[1].store.events(journey)
    assert [logged.version for logged in log] == [1] * len(log)
    assert [logged.key for logged in log] == [""] * len(log)
    await place.act(journey, 1, Submission(PLAN))
    assert await _told(place, journey) == 2
    assert (await place.runners[1].position(journey)).state.phase == "MAKE"


async def test_concurrent_equal_acts_are_done_once_and_answered_to_all(place: Place) -> None:
    journey = await place.start()
    sent = [place.act(journey, 1, Submission(PLAN), of=n % 2) for n in range(SENDERS)]
    answers = await asyncio.gather(*sent)
    assert [get_state(one.state) for one in answers] == [get_state(answers[0].state)] * SENDERS
    works = [e.event.phase for e in await place.runners[0].store.events(journey) if isinstance(e.event, WorkRecorded)]
    assert works == ["ROUTE", "PLAN", "CHECK", "TALLY"]


async def test_of_several_concurrent_answers_one_counts_and_the_others_learn_of_it(place: Place) -> None:
    journey = await place.start()
    await place.act(journey, 1, Submission(ASK))
    words = [JourneyDecision("answer", "page", f"word of {n}") for n in range(SENDERS)]
    done = await asyncio.gather(
        *(place.act(journey, 2, one, of=n % 2) for n, one in enumerate(words)), return_exceptions=True
    )
    (won,) = [one for one in done if isinstance(one, JourneyPosition)]
    lost = [one for one in done if isinstance(one, BaseException)]
    assert all(isinstance(one, StaleJourney) for one in lost), lost
    assert {one.changed[0] for one in lost if isinstance(one, StaleJourney)} == {
        f"version 3: a person said answer at PLAN (page) by {ADA}"
    }
    there = await place.runners[1].store.journey(journey)
    assert there == won.state
    said = [e.event for e in await place.runners[0].store.events(journey) if isinstance(e.event, Decided)]
    assert [one.answers for one in said] == [there.answers["PLAN"]]


async def test_a_cached_state_shares_no_answers_with_its_reader(place: Place) -> None:
    journey = await place.start()
    await place.act(journey, 1, Submission(ASK))
    told = await place.act(journey, 2, ACTS[2])
    if place.runners[0] is not place.runners[1]:  # the memory store returns its own objects
        told.state.answers["PLAN"]["q1"]["answer"] = "forged"  # type: ignore[index]  # whoever was told may do what they like
    after = await place.act(journey, 3, Submission({"text": "a hive"}))
    assert after.state.answers["PLAN"]["q1"]["answer"] == "two"
    assert after.state == await place.runners[1].store.journey(journey)


async def test_a_persons_answer_is_not_written_again_with_each_step(place: Place) -> None:
    """Bytes stored per step do not grow with the length of the journey."""
    journey = await place.start()
    version = 1
    for number in range(4):
        ask = [{"id": f"q{number}", "question": "How many?"}]
        await place.act(journey, version, Submission({"steps": ["one"], "ask": ask}))
        await place.act(
            journey, version + 1, JourneyDecision("answer", "page", changes={f"q{number}": f"{number} " + "x" * 9_000})
        )
        sent = JourneyDecision("revisit", "page", "again", {"phase": "PLAN"})
        version = (await place.act(journey, version + 2, sent, of=1)).state.version
    state = await place.runners[1].store.journey(journey)
    assert [answer["answer"][0] for answer in state.answers["PLAN"].values()] == ["0", "1", "2", "3"]
    assert state == await place.runners[0].store.journey(journey) == fold(await place.runners[0].store.events(journey))
    assert len(state_text(state)) < 6_000
    assert "x" * 100 not in state_text(state)


# --- from before ------------------------------------------------------------------------------------------------------


def _spoil(place: Place, journey: str, change: Callable[[str], str]) -> None:
    """Replace the state beside the log with one that an older program wrote."""
    if place.where.startswith("postgresql://"):
        with psycopg.connect(place.where, autocommit=True) as database:
            schema = Identifier(place.name)
            row = database.execute(SQL("SELECT folded FROM {}.journey WHERE id = %s").format(schema), (journey,))
            (folded,) = row.fetchone() or ("",)
            update = SQL("UPDATE {}.journey SET folding = %s, folded = %s WHERE id = %s").format(schema)
            database.execute(update, (FOLDING - 1, change(folded), journey))
        return
    with closing(apsw.Connection(str(Path(place.where) / place.name / "state.db"))) as connection:
        connection.set_busy_timeout(5_000)
        rows: Any = connection.execute("SELECT folded FROM journey WHERE id = ?", (journey,)).fetchall()
        told = (FOLDING - 1, change(rows[0][0]), journey)
        connection.execute("UPDATE journey SET folding = ?, folded = ? WHERE id = ?", told).fetchall()


def _older(folded: str) -> str:
    """Return the state without the fields that older states lacked."""
    form = json.loads(folded)
    works = {
        phase: {name: value for name, value in work.items() if name not in NEW_OF_WORK}
        for phase, work in form["work"].items()
    }
    return canonical({name: value for name, value in {**form, "work": works}.items() if name not in NEW_FIELDS})


@pytest.mark.parametrize("place", SHARED, indirect=True)
async def test_an_old_state_is_rebuilt_from_the_log_with_its_missing_fields(place: Place) -> None:
    journey = await place.start()
    version = 1
    for act in ACTS[:5]:
        version = (await place.act(journey, version, act)).state.version
    before = await place.runners[0].store.journey(journey)
    _spoil(place, journey, _older)
    assert await place.runners[1].store.journey(journey) == before
    assert before.answers
    assert before.work["PLAN"].reasoning
    there = await place.act(journey, version, ACTS[5], of=1)
    assert there.state.phase == "JUDGE"
    assert there.state == fold(await place.runners[0].store.events(journey))


def test_an_old_state_is_read_in_place_without_its_missing_fields() -> None:
    form = get_state(fold([_old_log()[0]]))
    old = state_of(_older(canonical(form)))
    assert (old.answers, old.conversations, old.returns, old.iteration) == ({}, {}, 0, 1)
    assert restore_state(get_state(old)) == old


def _old_log() -> list[Logged]:
    """Return a log as written by a program without speakers, questions and automatic work."""

    def at(seq: int, version: int, key: str = "", **event: Json) -> Logged:
        moment = f"2026-03-01T12:0{seq}:00+00:00"
        form = {"seq": seq, "version": version, "at": moment, "by": ADA, "event": event}
        return logged_of({**form, "key": key} if key else form)

    moved: dict[str, Any] = {"source": "PLAN", "target": "MAKE", "reason": "planned", "is_backward": False}
    usage = {"tokens_in": 10, "tokens_out": 5, "model": "m", "counted": False}
    return [
        at(1, 1, type="journey.started", agent="making", brief="bees", phase="PLAN", principal=ADA),
        at(2, 2, "k-2", type="work.recorded", phase="PLAN", visit=1, work=dict(PLAN), usage=usage),
        at(3, 2, type="phase.checkpoint", phase="PLAN", target="MAKE", condition="planned", kind="blocking"),
        at(4, 3, "k-3", type="journey.decided", decision="answer", channel="relayed", phase="PLAN", note="two hives"),
        at(5, 4, "k-4", type="journey.decided", decision="approve", channel="page", phase="PLAN"),
        at(6, 4, type="phase.changed", **moved),
        at(7, 5, "k-5", type="feedback.added", kind="validation", phase="MAKE", text="the text says too little"),
        at(8, 6, "k-6", type="journey.forked", of="making-0", at_version=5, principal=ADA),
    ]


async def test_a_log_from_before_is_taken_over_to_the_last_character_and_led_on(place: Place) -> None:
    log = _old_log()
    written = [canonical(logged_form(logged)) for logged in log]
    await place.runners[0].adopt("making-9", log)
    back = await place.runners[1].store.events("making-9")
    assert [canonical(logged_form(logged)) for logged in back] == written
    state = await place.runners[1].store.journey("making-9")
    assert (state.phase, state.version, state.answers, state.conversation) == ("MAKE", 6, {}, "")
    assert state.word is not None
    assert state.word.decision == "approve"
    on = await place.act("making-9", 6, Submission({"text": "a hive"}))
    assert on.state.phase == "JUDGE"
    assert on.state.conversation.startswith("judge_iter1_")


async def test_conversations_of_all_journeys_of_a_place_are_different_ones(place: Place) -> None:
    seen: list[str] = []
    for _ in range(3):
        journey, _states = await place.led()
        events = [logged.event for logged in await place.runners[0].store.events(journey)]
        mine: Mapping[str, None] = dict.fromkeys(
            e.conversation for e in events if isinstance(e, PhaseChanged) and e.conversation
        )
        seen += mine
    assert len(set(seen)) == len(seen)
