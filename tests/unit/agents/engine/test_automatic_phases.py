"""Automatic phases: the server does their work in the step that enters them, or the step is not taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Agent, ConditionFinding, Look, SubmitFacts
from agents.engine.events import CheckpointReached, Completed, FeedbackAdded, Json, PhaseChanged, WorkRecorded
from agents.engine.fold import fold
from agents.engine.graph import Phase, PhaseGraph, Transition, checked
from agents.engine.runner import JourneyDecision, Submission
from agents.engine.state import get_state, restore_state
from agents.errors import BadGraph, BadWork, NotToDecide
from agents.prompts.prompt import prompt, stayed
from agents.store.export_file import exported, imported
from tests.support.agents.agent_harness import Pages, Remembering, runner_of
from tests.support.agents.engine_agents import PHASES, PLAN, WAYS, Made, begun, making, sent, with_phase, with_ways
from tests.support.agents.model_form import ModelForm
from tests.support.journeys.graphs import ADA

GAP = {"steps": ["lay the roof", " "]}


async def _nobody(_topic: str, _keys: object) -> None:
    """Notify nobody of changes."""


# --- in the step that enters them -------------------------------------------------------------------------------------


async def test_a_journey_begins_after_its_automatic_first_phases() -> None:
    led = await begun(look=Pages(routes={"bees": "navigation"}))
    state = await led.state()
    assert (state.phase, state.version, state.status, state.visit) == ("PLAN", 1, "active", 1)
    assert state.work["ROUTE"].content == {"mode": "navigation"}
    assert (state.work["ROUTE"].automatic, state.work["ROUTE"].version) == (True, 1)
    assert state.phase_visits == {"ROUTE": 1, "PLAN": 1}
    assert state.metrics["ROUTE"].submits == 0
    assert "Plan: bees" in await led.told()


async def test_automatic_work_is_part_of_the_step_that_led_to_it() -> None:
    """Decision 35: one transaction, so that no crash leaves a journey in a phase that nobody works on."""
    led = await begun()
    state = await led.submit(**PLAN)
    assert (state.phase, state.version) == ("MAKE", 2)
    log = await led.runner.store.events(led.journey)
    step = [logged for logged in log if logged.version == 2]
    assert [logged.key != "" for logged in step] == [True, *[False] * (len(step) - 1)]
    works = [(logged.event.phase, logged.event.automatic) for logged in step if isinstance(logged.event, WorkRecorded)]
    assert works == [("PLAN", False), ("CHECK", True), ("TALLY", True)]
    moves = [(m.event.source, m.event.target) for m in step if isinstance(m.event, PhaseChanged)]
    assert moves == [("PLAN", "CHECK"), ("CHECK", "TALLY"), ("TALLY", "MAKE")]
    assert fold(log) == state
    assert state.work["TALLY"].content == {"times": 1, "steps": 2}


async def test_automatic_work_names_its_findings_and_sends_back_within_the_same_step() -> None:
    led = await begun()
    state = await led.submit(**GAP)
    assert (state.phase, state.visit, state.version) == ("PLAN", 2, 2)
    assert (state.backward_trigger, state.backward_trigger_detail) == ("wrong", "step 2 is empty")
    assert [(one.kind, one.phase, one.text) for one in state.feedback] == [("validation", "CHECK", "step 2 is empty")]
    told = await led.told()
    assert "validation failure in CHECK: step 2 is empty" in told
    assert "Plan: bees" in told
    assert not stayed(state)
    again = await led.submit(**PLAN)
    assert (again.phase, again.work["TALLY"].content["times"]) == ("MAKE", 1)


async def test_a_phase_left_and_re_entered_in_one_step_gets_all_feedback() -> None:
    """Feedback that the phase itself added at this version doesn't count for the visit that begins now."""

    async def planned(_facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding(met=True, feedback=("the plan is thin",), kind="soft_failure")

    led = await begun(replace(making(), conditions={**making().conditions, "planned": planned}))
    state = await led.submit(**GAP)
    assert (state.phase, state.visit) == ("PLAN", 2)
    assert [(one.phase, one.version) for one in state.feedback] == [("PLAN", 2), ("CHECK", 2)]
    assert not stayed(state)


async def test_the_server_s_work_of_an_earlier_visit_is_there_when_it_works_again() -> None:
    led = await begun()
    await led.submit(**PLAN)
    await led.decide("revisit", "once more", changes={"phase": "PLAN"})
    state = await led.submit(**PLAN)
    assert (state.work["TALLY"].content["times"], state.phase_visits["TALLY"]) == (2, 2)


async def test_sending_a_journey_back_to_an_automatic_phase_leads_past_it() -> None:
    led = await begun()
    await led.submit(**PLAN)
    state = await led.decide("revisit", "count again", changes={"phase": "CHECK"})
    assert (state.phase, state.phase_visits["CHECK"], state.work["TALLY"].content["times"]) == ("MAKE", 2, 2)


async def test_the_same_submit_again_is_answered_the_same_though_the_server_would_do_it_otherwise_now() -> None:
    led = await begun()
    first = await sent(led.runner, led.journey, 1, **PLAN)
    seen = len(await led.events())
    again = await sent(led.runner, led.journey, 1, **PLAN)
    assert again.state == first.state
    assert len(await led.events()) == seen


async def test_work_that_the_server_did_is_no_submit_and_costs_no_tokens() -> None:
    led = await begun()
    state = await led.submit(**PLAN)
    took = state.metrics["CHECK"]
    assert (took.submits, took.tokens_in, took.tokens_out, took.visits) == (0, 0, 0, 1)
    assert state.metrics["PLAN"].submits == 1


async def test_a_journey_that_nobody_is_ever_asked_in_is_complete_when_it_begins() -> None:
    graph = PhaseGraph(
        "alone",
        (Phase("ONE", automatic=True), Phase("TWO", automatic=True), Phase("END")),
        (Transition("ONE", "TWO"), Transition("TWO", "END")),
        "ONE",
        ("END",),
    )
    alone = Agent("alone", "Alone", "", checked(graph, [], []), {}, {}, {})
    led = await begun(alone)
    state = await led.state()
    assert (state.phase, state.status, state.version) == ("END", "complete", 1)
    assert isinstance((await led.events())[-1], Completed)
    assert "Alone is complete." in await led.told()


# --- or not at all ----------------------------------------------------------------------------------------------------


async def _broken(_facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    raise ZeroDivisionError("no bees")


async def _no_json(_facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    return {"share": float("nan")}


async def _misfit(_facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    return {"words": 3}


async def _endless(_facts: SubmitFacts, _look: Look) -> Mapping[str, Json]:
    return {"text": "x" * 400_001}


@pytest.mark.parametrize(
    ("provide", "error", "why"),
    [
        (_broken, ZeroDivisionError, "no bees"),
        (_no_json, ValueError, "JSON"),
        (_misfit, BadWork, "the work for TALLY is not valid"),
        (_endless, BadWork, "at most 400000 are allowed"),
    ],
)
async def test_if_the_server_cannot_do_its_work_nothing_of_the_submit_is_on_record(
    provide: Any, error: type[Exception], why: str
) -> None:
    agent = making()
    agent = replace(
        agent, provides={**agent.provides, "TALLY": provide}, forms={**agent.forms, "TALLY": ModelForm(Made)}
    )
    led = await begun(agent)
    before = await led.state()
    with pytest.raises(error, match=why):
        await led.submit(**PLAN)
    assert await led.state() == before
    assert len(await led.runner.store.events(led.journey)) == before.seq


@pytest.mark.parametrize("provide", [_broken, _no_json])
async def test_if_the_server_cannot_do_the_first_work_no_journey_begins(provide: Any) -> None:
    agent = replace(making(), provides={"ROUTE": provide})
    runner = runner_of(agent, Remembering(_nobody), Pages())
    with pytest.raises((ZeroDivisionError, ValueError)):
        await runner.start("making", "bees", {}, by=ADA)
    assert await runner.store.journeys() == []


async def test_a_start_asked_for_again_is_the_first_one_though_the_server_took_it_further() -> None:
    runner = runner_of(making(), Remembering(_nobody), Pages())
    first, again = [await runner.start("making", "bees", {}, by=ADA) for _ in range(2)]
    assert (first.state.phase, first.state.version) == ("PLAN", 1)
    assert (first.repeated, again.repeated) == (False, True)
    assert (again.journey, again.state) == (first.journey, first.state)


async def test_a_yes_that_leads_to_work_which_the_server_cannot_do_is_not_on_record_either() -> None:
    agent = with_phase(making(), "PLAN", checkpoint="blocking")
    led = await begun(replace(agent, provides={**agent.provides, "CHECK": _broken}))
    waiting = await led.submit(**PLAN)
    assert waiting.status == "waiting"
    with pytest.raises(ZeroDivisionError):
        await led.decide("approve")
    assert await led.state() == waiting


async def test_a_phase_without_anything_to_do_is_passed_with_empty_work() -> None:
    led = await begun(replace(making(), provides={"CHECK": making().provides["CHECK"]}))
    assert (await led.state()).work["ROUTE"].content == {}
    assert (await led.submit(**PLAN)).work["TALLY"].content == {}


async def test_a_journey_whose_phase_became_automatic_continues_at_the_next_submit() -> None:
    """A team may change its agent while a journey is in it: the journey must not be stuck there forever."""
    led = await begun()
    await led.submit(**PLAN)
    agent = with_phase(making(), "MAKE", automatic=True)
    agent = replace(agent, forms={"PLAN": agent.forms["PLAN"], "JUDGE": agent.forms["JUDGE"]})
    agent = with_ways(replace(agent, graph=replace(agent.graph, transitions=(*WAYS, Transition("MAKE", "JUDGE")))))
    later = runner_of(agent, led.runner.store, led.look)
    assert "Submit an empty object as work to continue." in prompt(agent, await led.state())
    here = await sent(later, led.journey, 2, anything="at all")
    assert (here.state.phase, here.state.version) == ("JUDGE", 3)
    assert here.state.work["MAKE"].content == {}


async def test_an_automatic_phase_that_leads_nowhere_ends_the_step_instead_of_going_round() -> None:
    """No checked graph has one; with another graph the journey stops, and the process doesn't hang."""
    ways = tuple(way for way in WAYS if way.source != "TALLY")
    agent = replace(making(), graph=replace(making().graph, transitions=ways))
    led = await begun(agent)
    state = await led.submit(**PLAN)
    assert (state.phase, state.status) == ("TALLY", "active")
    assert (await led.submit()).work["TALLY"].content["times"] == 2


# --- beside a person --------------------------------------------------------------------------------------------------


async def test_an_optional_question_stays_open_during_automatic_work() -> None:
    led = await begun(with_phase(making(), "PLAN", checkpoint="optional"))
    state = await led.submit(**PLAN)
    assert (state.phase, state.status) == ("MAKE", "active")
    assert state.checkpoint is not None
    assert (state.checkpoint.phase, state.checkpoint.kind) == ("PLAN", "optional")
    back = await led.decide("reject", "too short")
    assert (back.phase, back.visit, back.backward_trigger_detail) == ("PLAN", 2, "too short")
    await led.submit(**PLAN)
    assert (await led.submit(text="a hive")).checkpoint is None
    with pytest.raises(NotToDecide, match="nothing was asked"):
        await led.decide("reject", "too late")


async def test_an_automatic_return_asks_nobody_about_the_previous_work() -> None:
    led = await begun(with_phase(making(), "PLAN", checkpoint="optional"))
    state = await led.submit(**GAP)
    assert (state.phase, state.backward_trigger) == ("PLAN", "wrong")
    assert state.checkpoint is not None
    assert (await led.submit(**PLAN)).checkpoint is not None


async def test_an_optional_question_before_the_end_is_over_with_the_journey() -> None:
    graph = PhaseGraph(
        "short",
        (Phase("MAKE", checkpoint="optional"), Phase("TALLY", automatic=True), Phase("END")),
        (Transition("MAKE", "TALLY"), Transition("TALLY", "END")),
        "MAKE",
        ("END",),
    )
    led = await begun(Agent("short", "Short", "", checked(graph, [], []), {"MAKE": ModelForm(Made)}, {}, {}))
    state = await led.submit(text="done")
    assert (state.status, state.checkpoint) == ("complete", None)
    asked = [event for event in await led.events() if isinstance(event, CheckpointReached)]
    assert [one.kind for one in asked] == ["optional"]


async def test_a_person_s_changes_are_checked_by_the_server_as_a_submit_is() -> None:
    led = await begun(with_phase(making(), "PLAN", checkpoint="blocking"))
    await led.submit(**PLAN)
    state = await led.decide("modify", changes={"steps": ["lay the roof", ""]})
    assert (state.phase, state.backward_trigger) == ("PLAN", "wrong")
    assert state.feedback[-1].text == "step 2 is empty"


# --- elsewhere --------------------------------------------------------------------------------------------------------


async def test_a_journey_forks_at_every_version_and_continues_from_there() -> None:
    led = await begun()
    await led.submit(**GAP)
    await led.submit(**PLAN)
    for version, phase in ((1, "PLAN"), (2, "PLAN"), (3, "MAKE")):
        fork = await led.runner.start("", "", {"fork_of": led.journey, "at_version": version}, by=ADA)
        assert (fork.state.phase, fork.state.version) == (phase, version + 1)
        assert fork.state.work["ROUTE"].content == {"mode": "discovery"}
        work = PLAN if phase == "PLAN" else {"text": "a hive"}
        on = await sent(led.runner, fork.journey, version + 1, **work)
        assert on.state.phase == ("MAKE" if phase == "PLAN" else "JUDGE")


async def test_a_journey_that_began_automatically_is_exported_and_continues_elsewhere() -> None:
    led = await begun()
    await led.submit(**GAP)
    text = "".join(exported(led.journey, await led.runner.store.events(led.journey)))
    id_, log = imported(text)
    elsewhere = runner_of(making(), Remembering(_nobody), Pages())
    assert (await elsewhere.adopt(id_, log)).version == 2
    assert (await elsewhere.position(id_)).state == await led.state()
    assert restore_state(get_state(await led.state())) == await led.state()
    assert (await sent(elsewhere, id_, 2, **PLAN)).state.phase == "MAKE"


@given(st.lists(st.sampled_from(["good", "gap", "none", "revisit", "reject", "soft", "hard"]), max_size=14))
@settings(max_examples=40)
async def test_wherever_a_walk_leads_no_journey_ever_rests_in_a_phase_of_the_server(moves: list[str]) -> None:
    led = await begun()
    table = {(t.source, t.target, t.condition) for t in WAYS}
    for move in moves:
        state = await led.state()
        if move == "revisit" or state.status == "complete":
            been = sorted(phase for phase in state.phase_visits if phase not in (state.phase, "DONE"))
            state = await led.decide("revisit", "so", changes={"phase": been[len(moves) % len(been)]})
        else:
            score = {"soft": 70, "hard": 20}.get(move, 90)
            plan = {"good": PLAN, "gap": GAP}.get(move, {"steps": []})
            work = {"PLAN": plan, "MAKE": {"text": move}, "JUDGE": {"score": score, "why": move}}[state.phase]
            state = await led.submit(**work)
        assert not next(phase for phase in PHASES if phase.name == state.phase).automatic
        assert prompt(making(), state)
    log = await led.runner.store.events(led.journey)
    assert fold(log) == await led.state()
    for logged in log:
        if isinstance(move_ := logged.event, PhaseChanged) and move_.reason != "revisit":
            assert (move_.source, move_.target, move_.reason) in table
        if isinstance(found := logged.event, FeedbackAdded) and found.phase == "CHECK":
            assert found.kind == "validation"


async def test_an_event_after_automatic_work_has_the_version_it_led_to() -> None:
    """The state folded while the step is computed equals the state folded from the record."""
    seen = []

    async def watch(_facts: SubmitFacts, look: Look) -> Mapping[str, Json]:
        seen.append(look.version)  # type: ignore[attr-defined]  # of the look below
        return {"times": 1}

    agent = replace(making(), provides={**making().provides, "TALLY": watch})
    led = await begun(agent)

    class Watching(Pages):
        version = 0

    def looking(_journey: str, state: Any) -> Look:
        look = Watching()
        look.version = state.version
        return look

    led.runner._judge.looking = looking
    await led.runner.submit(led.journey, 1, Submission(PLAN), by=ADA)
    assert seen == [2]


async def test_a_graph_reports_automatic_phases_that_would_stop_or_loop() -> None:
    graph = making().graph
    known = [*making().conditions]
    assert checked(graph, known, []) is graph

    def wrong(problem: str, **changes: Any) -> None:
        with pytest.raises(BadGraph) as caught:
            checked(replace(graph, **changes), known, [])
        assert problem in str(caught.value)

    without = tuple(way for way in WAYS if way != Transition("TALLY", "MAKE"))
    wrong(
        "phase 'TALLY' is automatic, so its last transition must be `always`",
        transitions=(*without, Transition("TALLY", "MAKE", "good")),
    )
    wrong(
        "phase 'CHECK' is automatic, so nobody can be asked there",
        transitions=with_ways(making(), Transition("CHECK", "TALLY", asks="ask")).graph.transitions,
    )
    wrong(
        "phase 'CHECK' is automatic, so nobody can be asked there",
        phases=with_phase(making(), "CHECK", checkpoint="blocking").graph.phases,
    )
    wrong(
        "automatic phases lead from 'CHECK' back to it",
        transitions=(*WAYS, Transition("TALLY", "CHECK", "good", is_backward=True)),
    )
    wrong(
        "phase 'DONE' is automatic, and the work is complete there",
        phases=with_phase(making(), "DONE", automatic=True).graph.phases,
    )
    wrong(
        "phase 'PLAN' begins a conversation with each visit, but names no speaker",
        phases=with_phase(making(), "PLAN", speaker="", fresh=True).graph.phases,
    )
    wrong(
        "phase 'PLAN' shows the unknown kind of feedback 'gossip'",
        phases=with_phase(making(), "PLAN", feedback=("gossip",)).graph.phases,
    )


async def test_an_opinion_on_a_phase_that_asks_nobody_is_not_taken() -> None:
    led = await begun()
    state = await led.submit(**PLAN)
    with pytest.raises(NotToDecide, match="nothing was asked about MAKE"):
        await led.runner.decide(led.journey, state.version, JourneyDecision("approve", "page"), by=ADA)
