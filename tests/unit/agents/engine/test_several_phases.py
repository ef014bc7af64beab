"""Work for several phases in one submission: what is recorded, where it ends, and what a retry or a crash leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from agents.catalogue import built_in
from agents.engine.events import Json, PhaseChanged, StepUsage, WorkRecorded
from agents.engine.graph import Phase
from agents.engine.runner import JourneyDecision, Submission
from agents.engine.state import RecordedWork
from agents.engine.work.several import Recorded, beginning, stretch
from agents.errors import BadWork
from agents.library.cognitive.agent import alone, as_agent
from agents.library.cognitive.library import cognitive
from agents.prompts.ahead import ahead, described, form_text, outcome, told_with, tools_here
from agents.prompts.prompt import as_before, prompt
from knowledge.tokens import count_tokens
from tests.support.agents.agent_harness import Led, Remembering, leading, nobody
from tests.support.agents.cognitive.scripts import analysis
from tests.support.agents.cognitive.scripts.shared import CLOSING
from tests.support.agents.engine_agents import with_phase
from tests.support.agents.small_agents import noting
from tests.support.journeys.graphs import ADA

COLLECT: dict[str, Json] = {"notes": [{"id": "1", "text": "bees"}, {"id": "2", "text": "roof"}]}
WRITE: dict[str, Json] = {"text": "Bees on a roof."}
ASKED: Json = {"id": "q1", "question": "Who feeds them?", "why": "they may be fed too late"}
ACTING = frozenset({"kb_merge", "plane_create_task"})


@pytest.fixture
async def led() -> AsyncIterator[Led]:
    async with leading(noting("none")) as begun:
        yield begun


async def submitted(led: Led, version: int = 1, **works: Json) -> Recorded | None:
    return (await led.runner.submit(led.journey, version, Submission(works), by=ADA)).recorded_now


async def test_each_phase_is_a_step_of_its_own_with_its_own_version(led: Led) -> None:
    assert await submitted(led, COLLECT=COLLECT, WRITE=WRITE) == Recorded(("COLLECT", "WRITE"))
    state = await led.state()
    assert (state.status, state.version) == ("complete", 3)
    log = [logged for logged in await led.runner.store.events(led.journey) if isinstance(logged.event, WorkRecorded)]
    assert [(logged.event.phase, logged.version) for logged in log if isinstance(logged.event, WorkRecorded)] == [
        ("COLLECT", 2),
        ("WRITE", 3),
    ]


async def test_the_record_is_the_same_as_of_two_submissions() -> None:
    logs = []
    for together in (True, False):
        async with leading(noting("none")) as led:
            if together:
                await submitted(led, COLLECT=COLLECT, WRITE=WRITE)
            else:
                await led.submit(**COLLECT)
                await led.submit(**WRITE)
            logs.append(
                [replace(e, usage=StepUsage()) if isinstance(e, WorkRecorded) else e for e in await led.events()]
            )
    assert logs[0] == logs[1]


async def test_a_retry_records_nothing_again_and_gets_the_same_answer(led: Led) -> None:
    first = await submitted(led, COLLECT=COLLECT, WRITE=WRITE)
    before = await led.events()
    assert await submitted(led, COLLECT=COLLECT, WRITE=WRITE) == first
    assert await led.events() == before


class _Dying(Remembering):
    """A store whose process dies before its third append."""

    left = 2

    async def append(self, *args: Any, **named: Any) -> Any:
        self.left -= 1
        if self.left < 1:
            raise ConnectionError
        return await super().append(*args, **named)


async def test_a_crash_between_two_phases_leaves_the_first_and_a_retry_continues() -> None:
    store = _Dying(nobody)
    async with leading(noting("none"), store=store) as led:
        with pytest.raises(ConnectionError):
            await submitted(led, COLLECT=COLLECT, WRITE=WRITE)
        assert (await led.state()).phase == "WRITE"
        store.left = 10
        assert await submitted(led, COLLECT=COLLECT, WRITE=WRITE) == Recorded(("COLLECT", "WRITE"))
        assert [e.phase for e in await led.events() if isinstance(e, WorkRecorded)] == ["COLLECT", "WRITE"]


async def test_it_ends_with_work_that_does_not_fit_and_says_why(led: Led) -> None:
    came = await submitted(led, COLLECT=COLLECT, WRITE={"words": "none"})
    assert came is not None
    assert (came.phases, came.unused) == (("COLLECT",), ("WRITE",))
    assert "words" in came.why
    assert outcome(came).startswith("Recorded: COLLECT. WRITE was not: nothing was recorded because the work for WRITE")
    assert (await led.state()).phase == "WRITE"


async def test_it_ends_with_work_that_is_not_enough(led: Led) -> None:
    assert await submitted(led, COLLECT={"notes": []}, WRITE=WRITE) == Recorded(("COLLECT",), ("WRITE",))
    assert (await led.state()).phase == "COLLECT"
    assert await led.missing() == ["two notes are needed"]


async def test_it_ends_where_the_work_goes_back() -> None:
    """WRITE leads back to COLLECT, whose work is already recorded."""
    async with leading(noting("none")) as led:
        await led.submit(**COLLECT)
        came = await submitted(led, 2, WRITE={"text": "", "lacks": "a third note"}, COLLECT=COLLECT)
        assert came == Recorded(("WRITE",), ("COLLECT",))
        assert outcome(came) == "Recorded: WRITE. Not used: COLLECT."
        assert [e for e in await led.events() if isinstance(e, PhaseChanged)][-1].is_backward


@pytest.mark.parametrize("checkpoint", ["blocking", "optional"])
async def test_it_ends_where_a_person_is_asked(checkpoint: Any) -> None:
    async with leading(noting(checkpoint)) as led:
        assert await submitted(led, COLLECT=COLLECT, WRITE=WRITE) == Recorded(("COLLECT",), ("WRITE",))
        state = await led.state()
        assert state.checkpoint is not None
        assert "WRITE" not in state.work


async def test_it_ends_before_a_phase_that_is_worked_on_alone() -> None:
    async with leading(with_phase(noting("none"), "WRITE", alone=True)) as led:
        assert await submitted(led, COLLECT=COLLECT, WRITE=WRITE) == Recorded(("COLLECT",), ("WRITE",))


@pytest.mark.parametrize(
    ("works", "told"),
    [
        ({"WRITE": WRITE}, "the journey is in COLLECT, and its work is not among them"),
        ({"WRITE": WRITE, "COLLECT": COLLECT}, "the journey is in COLLECT, so its work comes first"),
        ({"COLLECT": COLLECT, "WRIT": WRITE}, "there is no phase 'WRIT'"),
        ({"COLLECT": COLLECT, "WRITE": "text"}, "the work for WRITE is not an object"),
    ],
)
async def test_what_is_out_of_place_records_nothing(led: Led, works: dict[str, Json], told: str) -> None:
    with pytest.raises(BadWork) as raised:
        await submitted(led, **works)
    assert raised.value.problems == (told,)
    assert len(await led.events()) == 1


async def test_the_reported_cost_counts_once(led: Led) -> None:
    usage = StepUsage(500, 70, "model")
    submission = Submission({"COLLECT": COLLECT, "WRITE": WRITE}, usage=usage)
    state = (await led.runner.submit(led.journey, 1, submission, by=ADA)).state
    assert (state.metrics["COLLECT"].tokens_in, state.metrics["COLLECT"].tokens_out) == (500, 70)
    assert state.metrics["WRITE"].tokens_in == 0
    assert (
        state.metrics["WRITE"].tokens_out
        == state.metrics["WRITE"].counted
        == count_tokens('{"text":"Bees on a roof."}')
    )


async def test_an_agent_with_a_field_named_like_a_phase_takes_one_phase_at_a_time() -> None:
    agent = noting("none")
    graph = replace(
        agent.graph, phases=tuple(replace(p, name="text") if p.name == "DONE" else p for p in agent.graph.phases)
    )
    ways = tuple(replace(t, target="text") if t.target == "DONE" else t for t in graph.transitions)
    odd = replace(agent, graph=replace(graph, transitions=ways, complete=("text",)))
    async with leading(odd) as led:
        with pytest.raises(BadWork, match="COLLECT"):
            await submitted(led, COLLECT=COLLECT, WRITE=WRITE)


# --- what is described ahead ------------------------------------------------------------------------------------------


def test_a_stretch_ends_at_people_other_conversations_and_branches() -> None:
    def names(agent: str, phase: str) -> list[str]:
        return [one.name for one in stretch(built_in(agent), phase)]

    assert names("research", "DECOMPOSE") == [], "a person approves the tree of questions"
    assert names("curate", "ROUTE") == [], "two ways lead on"
    assert names("orchestrate", "IMPLEMENTING") == [], "the judge has a conversation of its own"
    assert names("understand", "DIAGNOSE") == [], "the learner answers in between"
    assert names("analysis", "DECOMPOSE") == ["BOUND", "DRIVERS", "WEIGH", "CONCLUDE", "CLOSING"]


def test_a_stretch_begins_where_a_conversation_does_or_a_person_decided() -> None:
    for agent, phase, first in (
        ("analysis", "CONCLUDE", "JOHARI_DISCOVERY"),
        ("deliver", "generate.memory.NEXT", "generate.memory.JOHARI_DISCOVERY"),
        ("research", "ANSWER", "ANSWER"),
        ("understand", "TEACH", "TEACH"),
    ):
        assert beginning(built_in(agent), phase) == first


def test_a_tool_for_an_act_is_allowed_only_in_its_own_phase() -> None:
    curate = built_in("curate")
    assert [one.name for one in described(curate, "ORIENT")][:3] == ["TARGET", "DEEP_DIVE", "REASON"]
    memory = ahead(built_in("memory"), "GOAL", ACTING)
    assert "kb_merge: only once PROPOSE is the present phase; submit the work before it first" in memory
    tools = tools_here(curate, "ORIENT", ["kb_map", "kb_read", "kb_search", "kb_merge"], ACTING)
    assert "kb_read" in tools
    assert "kb_merge" not in tools


def test_phases_that_were_described_before_are_only_named() -> None:
    analysis = built_in("analysis")
    full = ahead(analysis, "DECOMPOSE", ACTING)
    later = ahead(analysis, "BOUND", ACTING, known=told_with(analysis, "DECOMPOSE"))
    assert "## DRIVERS" in full
    assert later.startswith("Next, as described before: DRIVERS, WEIGH, CONCLUDE, CLOSING.")
    assert count_tokens(later) < 40
    assert "## DRIVERS" in ahead(analysis, "BOUND", ACTING, known=told_with(analysis, "CONCLUDE")), "another stretch"


async def test_phases_ahead_are_described_with_short_inputs_of_the_journey(led: Led) -> None:
    plain = noting("none")
    agent = replace(
        plain, texts={**plain.texts, plain.graph.phase("WRITE").prompt: "Write {{ inputs.page }} {{ phase }}."}
    )
    state = replace(await led.state(), phase="WRITE", phase_visits={"WRITE": 1})
    for page, shown, enough in (("bees.md", "bees.md", True), ("long/" * 60, "(an input of this journey)", False)):
        assert f"Write {shown} WRITE." in ahead(agent, "COLLECT", ACTING, inputs={"page": page})
        assert as_before(agent, replace(state, inputs={"page": page}), {"WRITE"}) is enough
    assert "Write  WRITE." in ahead(agent, "COLLECT", ACTING), "an input that was not given"


async def test_what_a_conversation_was_told_is_only_named_in_it() -> None:
    """Brief, role, terms and the instructions of described phases are sent once; what is new is sent."""
    brief = "Why do the bees on the roof die?"
    async with leading(as_agent(cognitive("analysis")), brief=brief, constraints=["No bee drowns."]) as led:
        first = await led.runner.submit(led.journey, 1, Submission({"ask": [ASKED]}), by=ADA)
        waits = prompt(first.agent, first.state, before=first.came_from)
        assert brief not in waits
        assert "q1: Who feeds them?" in waits
        answered = JourneyDecision("answer", "relayed", changes={"q1": "Ada does."})
        there = await led.runner.decide(led.journey, 2, answered, by=ADA)
        assert there.came_from is not None
        known = told_with(there.agent, there.came_from.phase)
        assert as_before(there.agent, there.state, known)
        short, full = (
            prompt(there.agent, there.state, before=there.came_from, known=known),
            prompt(there.agent, there.state),
        )
        assert "Who feeds them? -> Ada does." in short
        assert "As before in this conversation: Task Context, Brief, Steps, Role Extension, Task Instructions," in short
        assert not [text for text in (brief, "Look above all at", "Take the question apart") if text in short]
        assert all(section in full for section in ("## Brief\n", "## Role Extension", "## Task Instructions"))
        assert count_tokens(short) < 200 < count_tokens(full)


async def test_a_new_conversation_and_a_new_name_for_it_are_told_everything() -> None:
    async with leading(alone(cognitive("analysis"), cognitive("memory")), brief="Why do bees die?") as led:
        known = {"acknowledge": ["Bees die in winter."]}
        other = await led.runner.submit(led.journey, 1, Submission(known, conversation="another chat"), by=ADA)
        assert other.state.phase == "DECOMPOSE"
        assert other.came_from is None
        again = await led.runner.submit(
            led.journey, 2, Submission(analysis.DECOMPOSE, conversation="another chat"), by=ADA
        )
        assert again.came_from is not None, "it has been told by now"
        for work in (analysis.BOUND, analysis.DRIVERS, analysis.WEIGH, analysis.CONCLUDE):
            await led.submit(**work)
        left = await led.runner.submit(led.journey, (await led.state()).version, Submission(CLOSING), by=ADA)
        assert left.state.phase == "memory.GOAL", await led.missing()
        assert left.came_from is None, "another agent has a conversation of its own"


async def test_a_retry_gets_the_first_answer() -> None:
    async with leading(as_agent(cognitive("analysis")), brief="Why do bees die?") as led:
        first, again = [
            await led.runner.submit(led.journey, 1, Submission({"acknowledge": ["They die."]}), by=ADA) for _ in "12"
        ]
        assert (again.recorded_now, again.came_from) == (first.recorded_now, first.came_from)


async def test_values_that_the_host_did_not_bring_are_shown() -> None:
    """The answers that SETTLE works in, and the statements that the server read for the memory agent."""
    clarification, memory = as_agent(cognitive("clarification")), as_agent(cognitive("memory"))
    for agent, phase, works, told in (
        (clarification, "SETTLE", {}, False),
        (clarification, "DOUBT", {"READ": False}, True),
        (memory, "GOAL", {"OUTPUT": True}, False),
        (memory, "GOAL", {"OUTPUT": False}, True),
    ):
        async with leading(agent) as led:
            work = {step: RecordedWork(1, 1, 1, {}, automatic=automatic) for step, automatic in works.items()}
            state = replace(await led.state(), phase=phase, phase_visits={phase: 1}, work=work)
            assert as_before(agent, state, {phase}) is told, (phase, works)


def test_a_form_is_told_in_short() -> None:
    form = built_in("analysis").forms["DECOMPOSE"].schema
    assert form_text(form) == "{question, parts: [{id, text, needs?: [string] (Ids of parts to be known before.)}]}"
    assert form_text({"properties": {"on": {"enum": ["a", "b"]}, "n": {"type": "integer"}}}) == "{on: a|b, n: integer}"


def test_every_phase_ahead_of_every_agent_names_its_fields() -> None:
    for name in ("research", "curate", "analysis", "synthesis", "decide-well", "deliver"):
        agent = built_in(name)
        phases: list[Phase] = [phase for phase in agent.graph.phases if phase.name in agent.forms]
        for phase in phases:
            text = ahead(agent, phase.name, ACTING)
            for one in described(agent, phase.name):
                assert f"## {one.name}" in text
                fields = agent.forms[one.name].schema["properties"]
                assert all(field in text for field in fields if field != "drop")
            assert count_tokens(text) <= 2_000
