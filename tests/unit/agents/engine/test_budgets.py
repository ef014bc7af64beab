"""Budgets: the input of a phase stays within its limit, and so does its output."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Agent, ConditionFinding, Look, SubmitFacts
from agents.engine.events import FeedbackAdded, Json, StepUsage, canonical
from agents.engine.graph import FEEDBACK_KINDS, Phase, PhaseGraph, Transition, checked
from agents.engine.progress.metrics import costliest, slowest, table
from agents.engine.runner import JourneyDecision, Runner, Submission
from agents.engine.state import JourneyState
from agents.errors import BadStart, BadWork
from agents.prompts.context import Budget, PromptSection
from agents.prompts.prompt import prompt
from agents.report.journey_report import report
from knowledge.tokens import count_tokens
from tests.support.agents.agent_harness import Led, Pages, Remembering, runner_of
from tests.support.agents.engine_agents import PLAN, Made, begun, making, sent, with_phase
from tests.support.agents.model_form import ModelForm
from tests.support.agents.small_agents import Only
from tests.support.journeys.graphs import ADA
from tests.support.state.ledgers import MINUTE, NOW

LONG = "mites " * 3_300
"""A text of about five thousand tokens."""


def taken_in(agent: Agent, state: JourneyState) -> int:
    """Return the tokens of a phase's whole input for the host: its prompt, and the schema of its work."""
    form = agent.forms.get(state.phase)
    schema = count_tokens(canonical(dict(form.schema))) if form and state.status == "active" else 0
    return count_tokens(prompt(agent, state)) + schema


def telling(state: JourneyState, body: str) -> Sequence[PromptSection]:
    """Return the sections of an agent that has more than fits."""
    plan: Any = state.work["PLAN"].content["steps"] if "PLAN" in state.work else []
    return [
        PromptSection("Task", body),
        PromptSection("Brief", state.brief, 3),
        PromptSection("Plan", "\n".join(plan), 1),
        PromptSection("Answers", canonical(state.answers), 2),
    ]


async def hostile(agent: Agent) -> Led:
    """Return a journey in MAKE in which everyone wrote as much as they may."""
    led = await begun(agent, brief=LONG)
    await led.submit(steps=[LONG] * 18, ask=[{"id": f"q{n}", "question": LONG} for n in range(2)])
    await led.decide("answer", LONG)
    step = [FeedbackAdded(kind, "JUDGE", f"{kind} {LONG}") for kind in FEEDBACK_KINDS]
    step += [FeedbackAdded("soft_failure", "JUDGE", f"{n} " + "thin " * 90) for n in range(9)]
    state = await led.state()
    await led.runner.store.append(led.journey, step, expected=state.version, key="k", by=ADA, at=state.moved_at)
    return led


# --- what comes in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokens_in", [500, 800, 1_200, 2_500, 6_000])
@pytest.mark.parametrize("has_sections", [False, True])
async def test_prompt_and_schema_stay_within_the_budget_however_much_people_and_models_wrote(
    tokens_in: int, *, has_sections: bool
) -> None:
    agent = with_phase(making(), "MAKE", feedback=FEEDBACK_KINDS)
    agent = replace(agent, budgets={"MAKE": Budget(tokens_in, 0)})
    agent = replace(agent, sections=telling) if has_sections else agent
    led = await hostile(agent)
    state = await led.state()
    assert state.phase == "MAKE"
    assert taken_in(agent, state) <= tokens_in
    told = await led.told()
    assert "Make it." in told
    assert "thin" in told, "the newest feedback is told"
    if has_sections:
        assert "Context budget of" in told


async def test_a_larger_budget_shows_more_and_the_first_section_is_trimmed_last() -> None:
    agent = replace(making(), sections=telling)
    lengths = []
    for tokens_in in (1_500, 3_000, 30_000, 120_000):
        led = await hostile(replace(agent, budgets={"MAKE": Budget(tokens_in, 0)}))
        told = await led.told()
        lengths.append(len(told))
        assert "## Plan" in told
        assert ("## Brief" in told) == (tokens_in == 120_000)
        assert (f"(Context budget of {tokens_in:,} tokens; " in told) == (tokens_in < 120_000)
    assert lengths == sorted(set(lengths))


async def test_a_phase_without_a_budget_has_the_usual_one() -> None:
    led = await hostile(replace(making(), budgets={}))
    assert taken_in(making(), await led.state()) <= 2_300


async def test_a_persons_long_note_is_cut_before_the_instructions() -> None:
    agent = replace(making(), budgets={"MAKE": Budget(400, 0)})
    led = await begun(agent)
    await led.submit(**PLAN)
    await led.decide("answer", LONG[:4_000])
    told = await led.told()
    assert taken_in(agent, await led.state()) <= 400
    assert "Make it." in told
    assert "The person said: mites" in told


# --- what is brought --------------------------------------------------------------------------------------------------


async def test_work_above_its_budget_is_refused_by_name_of_its_longest_fields() -> None:
    led = await begun()
    await led.submit(**PLAN)
    before = await led.state()
    with pytest.raises(BadWork) as refused:
        await led.submit(text=LONG)
    told = str(refused.value)
    assert "nothing was recorded" in told
    assert (
        "the work of MAKE has 4,953 tokens, its output budget is 300; shorten it, most of it is in text 4,951" in told
    )
    assert "mites" not in told
    assert await led.state() == before


async def test_the_three_longest_fields_are_named_longest_first() -> None:
    agent = replace(making(), budgets={"PLAN": Budget(0, 100)})
    led = await begun(agent)
    with pytest.raises(BadWork, match=r"most of it is in ask 1\d\d, steps 5\d \(tokens\)"):
        await led.submit(steps=["x" * 200], ask=[{"id": "a", "question": "x" * 400}])


async def test_several_submits_together_stay_within_the_budget_or_the_last_is_refused() -> None:
    agent = replace(making(), budgets={"PLAN": Budget(0, 200)})
    led = await begun(agent)
    await led.submit(steps=[], ask=[])
    await led.submit(ask=[{"id": "a", "question": "x" * 500}], steps=[])
    await led.decide("reject", "x")
    with pytest.raises(BadWork, match="its output budget is 200"):
        await led.submit(ask=[{"id": "b", "question": "y" * 500}])
    assert (await led.submit(drop=["a"], ask=[{"id": "b", "question": "y" * 500}])).version == 5


@pytest.mark.parametrize("letter", ["x", "ß", "語", "🜁"])
async def test_a_letter_of_any_language_counts_once(letter: str) -> None:
    led = await begun()
    await led.submit(**PLAN)
    assert (await led.submit(text=letter * 1_150)).phase == "JUDGE"
    other = await begun()
    await other.submit(**PLAN)
    with pytest.raises(BadWork, match="its output budget is 300"):
        await other.submit(text=letter * 1_250)


async def test_a_persons_own_change_is_exempt_from_a_models_budget() -> None:
    led = await begun(with_phase(making(), "MAKE", checkpoint="blocking"))
    await led.submit(**PLAN)
    await led.submit(text="a hive")
    assert (await led.decide("modify", changes={"text": LONG})).phase == "JUDGE"


# --- in the wrong order -----------------------------------------------------------------------------------------------


async def test_work_of_another_phase_is_refused_with_the_phase_that_it_looks_like() -> None:
    """Wrong order."""
    led = await begun()
    before = await led.state()
    with pytest.raises(BadWork) as refused:
        await led.submit(text="a hive")
    assert str(refused.value).startswith(
        "nothing was recorded because the work for PLAN is not valid: it looks like work for MAKE, but the journey is in PLAN: "
        "no phase can be skipped, and only a person can send it back to an earlier one (`revisit`)"
    )
    assert await led.state() == before
    with pytest.raises(BadWork, match="it looks like work for JUDGE, but the journey is in PLAN"):
        await led.submit(score=100)


@pytest.mark.parametrize("work", [{}, {"nonsense": 1}, {"steps": 3}, {"steps": ["a"], "text": "a hive"}])
async def test_work_over_every_budget_is_refused_only_for_its_own_mistakes(work: dict[str, Json]) -> None:
    led = await begun()
    if not work:
        assert (await led.submit(**work)).phase == "PLAN"
        return
    with pytest.raises(BadWork) as refused:
        await led.submit(**work)
    assert "it looks like work for" not in str(refused.value)


@given(st.lists(st.sampled_from(["planned", "made", "good", "DONE", "always", "soft"]), max_size=6))
@settings(max_examples=25)
async def test_no_signal_skips_a_phase(signals: list[str]) -> None:
    led = await begun()
    here = await led.runner.submit(led.journey, 1, Submission({"steps": []}, tuple(signals)), by=ADA)
    assert here.state.phase == "PLAN"


# --- what it took -----------------------------------------------------------------------------------------------------


async def test_where_time_and_tokens_went_is_found_and_said() -> None:
    """Bottleneck analysis right on a constructed case. The clock advances a minute an act."""
    led = await begun()
    costs = iter(
        [StepUsage(100, 10), StepUsage(5_000, 900), StepUsage(200, 20), StepUsage(4_000, 100), StepUsage(300, 30)]
    )

    async def act(**work: Json) -> None:
        version = (await led.state()).version
        await led.runner.submit(led.journey, version, Submission(work, usage=next(costs)), by=ADA)

    await act(**PLAN)
    await act(text="a hive")
    await act(score=70, why="thin")
    await act(text="two hives")
    await act(score=90)
    state = await led.state()
    rows = {row.phase: row for row in table(state, state.moved_at + 99 * MINUTE)}
    assert {phase: (row.tokens_in, row.tokens_out, row.visits, row.submits) for phase, row in rows.items()} == {
        "ROUTE": (0, 0, 1, 0),
        "PLAN": (100, 10, 1, 1),
        "CHECK": (0, 0, 1, 0),
        "TALLY": (0, 0, 1, 0),
        "MAKE": (9_000, 1_000, 2, 2),
        "JUDGE": (500, 50, 2, 2),
        "DONE": (0, 0, 1, 0),
    }
    dear, slow = costliest(list(rows.values())), slowest(list(rows.values()))
    assert dear is not None
    assert slow is not None
    assert (dear.phase, dear.tokens, dear.tokens_per_visit) == ("MAKE", 10_000, 5_000)
    assert slow.seconds == max(row.seconds for row in rows.values())
    assert sum(row.seconds for row in rows.values()) == (state.moved_at - state.started_at).total_seconds()
    told = report(await led.position(), await led.runner.store.events(led.journey), state.moved_at)
    assert "MAKE: 10,000" in told
    assert f"Most time went into {slow.phase}" in told


async def test_conditions_see_the_cost_reported_with_the_present_submit() -> None:
    seen = []

    async def made(facts: SubmitFacts, _look: Look) -> ConditionFinding:
        seen.append((facts.spent.tokens, facts.spent.iteration, facts.spent.seconds > 0, facts.journey))
        return ConditionFinding(met=True)

    led = await begun(replace(making(), conditions={**making().conditions, "made": made}))
    await led.runner.submit(led.journey, 1, Submission(PLAN, usage=StepUsage(100, 10)), by=ADA)
    await led.runner.submit(led.journey, 2, Submission({"text": "so"}, usage=StepUsage(1_000, 1)), by=ADA)
    assert seen == [(1_111, 1, True, led.journey)]


WEEKS = 3_000_000.0


async def test_the_seconds_that_were_spent_are_those_of_visits_and_not_those_that_passed_between() -> None:
    """Otherwise a fork of an old journey, or a reopened complete one, would have no seconds left."""
    seen: list[float] = []
    clock = Clock()

    async def made(facts: SubmitFacts, look: Look) -> ConditionFinding:
        seen.append(facts.spent.seconds)
        return await making().conditions["made"](facts, look)

    agent = replace(making(), conditions={**making().conditions, "made": made})
    runner = Runner(
        Remembering(_nobody), Only(agent), lambda _journey, _state: Pages(), now=clock.now, chance=clock.chance
    )
    begun_ = await runner.start("making", "bees", {}, by=ADA)
    clock.seconds += 60
    await sent(runner, begun_.journey, 1, **PLAN)
    clock.seconds += 40
    await sent(runner, begun_.journey, 2, text="a hive")
    assert seen.pop() == 60 + 40
    clock.seconds += 10
    assert (await sent(runner, begun_.journey, 3, score=90)).state.status == "complete"

    clock.seconds += WEEKS
    fork = await runner.start("", "", {"fork_of": begun_.journey, "at_version": 2}, by=ADA)
    clock.seconds += 30
    await sent(runner, fork.journey, fork.state.version, text="a hive")
    assert seen.pop() == 60 + 30, "neither the weeks, nor what the other journey did after the fork"

    clock.seconds += WEEKS
    back = await runner.decide(begun_.journey, 4, JourneyDecision("revisit", "page", "", {"phase": "MAKE"}), by=ADA)
    clock.seconds += 20
    await sent(runner, begun_.journey, back.state.version, text="a better hive")
    assert seen.pop() == 60 + 40 + 10 + 20, "while all was complete nothing was spent"


class Clock:
    """A clock that can be advanced, and ids that count."""

    def __init__(self) -> None:
        self.seconds, self._made = 0.0, 0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.seconds)

    def chance(self) -> str:
        self._made += 1
        return f"{self._made:08x}"


# --- too much ---------------------------------------------------------------------------------------------------------


def chain(length: int) -> Agent:
    """Return an agent with this many phases, every second of which is automatic."""
    names = [f"P{n}" for n in range(length)]
    phases = tuple(Phase(name, automatic=n % 2 == 1) for n, name in enumerate(names))
    ways = tuple(Transition(a, b) for a, b in zip(names, [*names[1:], "END"], strict=True))
    graph = checked(PhaseGraph("chain", (*phases, Phase("END")), ways, "P0", ("END",)), [], [])
    forms = {name: ModelForm(Made) for name in names[::2]}
    return Agent("chain", "Chain", "", graph, forms, {}, {})


async def test_an_agent_of_two_thousand_phases_is_loaded_and_led_without_delay() -> None:
    begin = time.process_time()
    agent = chain(2_000)
    led = await begun(agent)
    for _ in range(5):
        await led.submit(text="so")
    assert (await led.state()).phase == "P10"
    assert prompt(agent, await led.state())
    assert time.process_time() - begin < 5


async def test_a_hundred_automatic_phases_in_a_row_are_one_step() -> None:
    names = [f"P{n}" for n in range(100)]
    ways = tuple(Transition(a, b) for a, b in zip(names, [*names[1:], "END"], strict=True))
    phases = (*(Phase(name, automatic=name != "P0") for name in names), Phase("END"))
    graph = checked(PhaseGraph("row", phases, ways, "P0", ("END",)), [], [])
    led = await begun(Agent("row", "Row", "", graph, {"P0": ModelForm(Made)}, {}, {}))
    state = await led.submit(text="so")
    assert (state.status, state.version, len(state.work)) == ("complete", 2, 100)


async def test_a_brief_and_inputs_without_measure_begin_nothing_also_where_the_server_works_first() -> None:
    runner = runner_of(making(), Remembering(_nobody), (await begun()).look)
    inputs: Mapping[str, Json] = {"x": "y" * 30_000}
    for brief, given_ in (("", {}), ("x" * 20_001, {}), ("bees", inputs)):
        with pytest.raises(BadStart):
            await runner.start("making", brief, given_, by=ADA)
    assert await runner.store.journeys() == []


async def _nobody(_topic: str, _keys: object) -> None:
    """Notify nobody of changes."""


async def test_the_largest_possible_work_passes_through_automatic_phases() -> None:
    led = await begun(replace(making(), budgets={}))
    await led.submit(steps=["x" * 399_000])
    state = (await sent(led.runner, led.journey, 2, text="y" * 399_000)).state
    assert (state.phase, state.work["TALLY"].content["steps"]) == ("JUDGE", 1)
