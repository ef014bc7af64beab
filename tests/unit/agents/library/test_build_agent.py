"""Build: what each condition accepts and rejects, each path through the graph, and the host's instructions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.catalogue import main_entries
from agents.engine.events import CheckpointReached, Completed, Json, PhaseChanged, SourceFound, Speaking, Thinking
from agents.engine.graph import checked
from agents.engine.state import JourneyState
from agents.errors import BadWork
from agents.library.build.plan import COMPLETE, GROUNDING, MAKING, BuildRecord
from agents.library.folder import agent
from agents.prompts.prompt import COMMON, placeholders
from tests.support.agents.agent_harness import (
    ALTERED,
    ANSWER_TOKENS,
    ELSEWHERE,
    FLOWERS,
    NOWHERE,
    TOOLS,
    VARROA,
    WATER,
    WINTER,
    Pages,
    change,
    cost,
    judged,
    lacks,
    leading,
    walk,
    ways_not_taken,
    words_in,
)
from tests.support.journeys.graphs import Walk

AGENT = agent("build")
Work = Mapping[str, Json]


def concept(id_: str, text: str, *citations: Work) -> dict[str, Json]:
    return {"id": id_, "text": text, "citations": list(citations)}


def step(id_: str, text: str, *rests_on: str) -> dict[str, Json]:
    return {"id": id_, "step": text, "done_when": f"one sees: {text}", "rests_on": list(rests_on)}


def made(id_: str, **shown: Json) -> dict[str, Json]:
    return {"id": id_, "result": f"{id_} is there", **shown}


SEEN: Work = {"artefacts": ["code:src/hive.py"], "observed": "12 passed"}
GROUND: Work = {
    "goal": "A hive on the roof that gets through the winter.",
    "concepts": [
        concept("k1", "Bees need stores for the winter", WINTER, WATER),
        concept("k2", "Mites kill", VARROA),
    ],
    "plan": [step("s1", "Weigh the hive", "k1"), step("s2", "Treat the mites", "k1", "k2")],
}
MADE: Work = {"made": [made("s1", shown_by=[WINTER]), made("s2", **SEEN)]}
GAP: Work = {"concept": "k9", "text": "How oxalic acid is dosed", "step": "s2"}
ON_RECORD = {GROUNDING: GROUND}
WAITING: Mapping[str, Work] = {MAKING: {"made": [made("s1", shown_by=[WINTER])], "gap": GAP}}


# --- the graph --------------------------------------------------------------------------------------------------------


def test_the_graph_can_be_used_and_is_the_one_that_the_catalogue_shows() -> None:
    assert checked(AGENT.graph, AGENT.known_conditions, TOOLS) is AGENT.graph
    entry = next(entry for entry in main_entries() if entry.name == "build")
    assert (AGENT.name, AGENT.title, AGENT.summary) == (entry.name, entry.title, entry.summary)
    assert set(AGENT.forms) == {phase.name for phase in AGENT.graph.phases} - set(AGENT.graph.complete)
    assert {t.condition for t in AGENT.graph.transitions} == set(AGENT.conditions)


def test_first_and_later_visits_have_their_own_text_with_the_phases_tools() -> None:
    known = COMMON | set(AGENT.values(Walk(AGENT.graph).state))
    for phase in AGENT.graph.phases:
        first, again = AGENT.texts[phase.prompt], AGENT.texts.get(f"{phase.name}_again", "")
        assert words_in(first) <= 350
        assert words_in(again) <= 200
        assert bool(again) == (phase.name not in AGENT.graph.complete)
        assert placeholders(first + again) <= known
        assert set(re.findall(r"\b(?:kb|plane|zulip)_\w+", first + again)) <= set(phase.tools)
    named = {phase.prompt for phase in AGENT.graph.phases} | {phase.prompt_again for phase in AGENT.graph.phases}
    assert set(AGENT.texts) == named - {""}


# --- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ground",
    [
        GROUND,
        change(GROUND, "concepts", 0, citations=[{**WINTER, "section": "Bees > Winter"}]),
        change(GROUND, "plan", 1, rests_on=["k2"]),
    ],
)
async def test_a_plan_that_rests_on_quoted_concepts_is_grounded(ground: Work) -> None:
    assert (await judged(AGENT, "grounded", GROUNDING, ground)).met


@pytest.mark.parametrize(
    ("ground", "said"),
    [
        ({}, ["no goal", "no concept", "no step"]),
        ({**GROUND, "goal": "  "}, ["no goal"]),
        ({**GROUND, "concepts": []}, ["no concept", "the step s1 rests on concepts that do not exist: k1"]),
        ({**GROUND, "plan": []}, ["no step"]),
        (change(GROUND, "concepts", 1, citations=[]), ["no citation: k2"]),
        (change(GROUND, "concepts", 0, citations=[ALTERED]), ["concepts[k1].citations[0]", "is not in"]),
        (change(GROUND, "concepts", 1, citations=[VARROA, NOWHERE]), ["concepts[k2].citations[1]", "no page"]),
        (change(GROUND, "concepts", 1, text="bees need STORES, for the winter."), ["k2 says the same as k1"]),
        (change(GROUND, "plan", 0, rests_on=["k1", "k7"]), ["step s1", "do not exist: k7"]),
        (change(GROUND, "plan", 1, rests_on=[]), ["step s2 rests on no concept", "k1, k2"]),
        (change(GROUND, "plan", 1, id="k1"), ["used twice: k1"]),
        (change(GROUND, "plan", 1, step="weigh the hive"), ["s2 says the same as s1"]),
    ],
)
async def test_ungrounded_concepts_are_named(ground: Work, said: list[str]) -> None:
    assert lacks(await judged(AGENT, "grounded", GROUNDING, ground), *said)


async def test_after_a_gap_the_plan_is_grounded_only_with_the_concept_that_was_missing() -> None:
    assert lacks(await judged(AGENT, "grounded", GROUNDING, GROUND, works=WAITING), "k9", "s2", "left_out")
    unused = {**GROUND, "concepts": [*GROUND["concepts"], concept("k9", "Dosing acid", VARROA)]}
    assert lacks(await judged(AGENT, "grounded", GROUNDING, unused, works=WAITING), "no step rests on k9")
    used = change(unused, "plan", 1, rests_on=["k2", "k9"])
    assert (await judged(AGENT, "grounded", GROUNDING, used, works=WAITING)).met
    altered = change(used, "concepts", 2, citations=[ALTERED])
    assert lacks(await judged(AGENT, "grounded", GROUNDING, altered, works=WAITING), "concepts[k9]")
    other_id = change(used, "concepts", 2, id="k3")
    other_id = change(other_id, "plan", 1, rests_on=["k3"])
    assert lacks(await judged(AGENT, "grounded", GROUNDING, other_id, works=WAITING), "k9")
    same_words = change(other_id, "concepts", 2, text=GAP["text"].upper())
    assert (await judged(AGENT, "grounded", GROUNDING, same_words, works=WAITING)).met
    without = {**GROUND, "left_out": [{"id": "k9", "why": "the vet does it"}]}
    assert (await judged(AGENT, "grounded", GROUNDING, without, works=WAITING)).met


async def test_a_gap_of_a_step_that_is_made_or_gone_holds_nothing_up() -> None:
    for gap in ({**GAP, "step": "s1"}, {**GAP, "step": "s7"}):
        works = {MAKING: {**WAITING[MAKING], "gap": gap}}
        assert (await judged(AGENT, "grounded", GROUNDING, GROUND, works=works)).met


@pytest.mark.parametrize(
    "work",
    [
        MADE,
        change(MADE, "made", 1, shown_by=[FLOWERS]),
        change(MADE, "made", 1, artefacts=["kb:plans/honey.md#july", "kb:plans"]),
    ],
)
async def test_everything_is_made_when_each_step_is_shown(work: Work) -> None:
    assert (await judged(AGENT, "everything_made", MAKING, work, works=ON_RECORD)).met


@pytest.mark.parametrize(
    ("work", "said"),
    [
        ({}, ["not made yet: s1, s2"]),
        ({"made": MADE["made"][:1]}, ["not made yet: s2"]),
        ({"made": [*MADE["made"], made("s7", **SEEN)]}, ["no step of the plan: s7"]),
        (change(MADE, "made", 0, shown_by=[]), ["nothing shows yet that s1 is made", "shown_by"]),
        (change(MADE, "made", 0, shown_by=[ALTERED]), ["made[s1].shown_by[0]", "is not in"]),
        (change(MADE, "made", 0, shown_by=[WINTER, ELSEWHERE]), ["made[s1].shown_by[1]", "'Bees > Winter'"]),
        (change(MADE, "made", 1, observed=" "), ["s2", "what you saw"]),
        (change(MADE, "made", 1, artefacts=[]), ["s2", "name `artefacts`"]),
        (change(MADE, "made", 1, shown_by=[ALTERED]), ["made[s2].shown_by[0]"]),
        (change(MADE, "made", 1, artefacts=["code:a.py", "kb:plans/wax.md"]), ["made[s2]", "plans/wax.md"]),
        ({"made": [made("s2", **{**SEEN, "artefacts": ["kb:wax.md"]})]}, ["made[s2]", "wax.md", "not made yet: s1"]),
    ],
)
async def test_a_step_that_is_not_shown_is_named(work: Work, said: list[str]) -> None:
    assert lacks(await judged(AGENT, "everything_made", MAKING, work, works=ON_RECORD), *said)


async def test_before_everything_counts_as_made_all_of_it_is_checked_again() -> None:
    """A page may change after a step was recorded as made."""
    pages = Pages()
    pages.texts["notes/bees.md"] = pages.texts["notes/bees.md"].replace("15 kilograms", "12 kilograms")
    works = {**ON_RECORD, MAKING: {"made": MADE["made"][:1]}}
    last = await judged(AGENT, "everything_made", MAKING, {"made": [made("s2", **SEEN)]}, pages, works=works)
    assert lacks(last, "made[s1].shown_by[0]")
    assert (await judged(AGENT, "everything_made", MAKING, {"made": [made("s2", **SEEN)]}, works=works)).met


async def test_a_gap_is_a_concept_that_the_plan_does_not_have_for_a_step_that_is_not_made() -> None:
    found = await judged(AGENT, "conceptual_gap_discovered", MAKING, {"gap": GAP}, works=ON_RECORD)
    assert found.met
    assert found.detail == "step s2 needs the concept k9: How oxalic acid is dosed"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "names no concept"),
        ({"gap": None}, "names no concept"),
        ({"gap": {**GAP, "step": "s7"}}, "not in the plan"),
        ({"gap": GAP, "made": [made("s2", **SEEN)]}, "which is made"),
        ({"gap": {**GAP, "concept": "k1"}}, "rests on that concept already: k1"),
        ({"gap": {**GAP, "text": "mites KILL"}}, "rests on that concept already: k2"),
    ],
)
async def test_a_missing_gap_does_not_lead_back(given: Work, said: str) -> None:
    signals = ("conceptual_gap_discovered",)
    found = await judged(AGENT, "conceptual_gap_discovered", MAKING, given, works=ON_RECORD, signals=signals)
    assert lacks(found, said)


async def test_a_gap_that_was_named_before_or_left_out_does_not_lead_back() -> None:
    works = {**ON_RECORD, **WAITING}
    assert lacks(await judged(AGENT, "conceptual_gap_discovered", MAKING, {}, works=works), "names no concept")
    out = {GROUNDING: {**GROUND, "left_out": [{"id": "k9", "why": "the vet does it"}]}}
    assert lacks(await judged(AGENT, "conceptual_gap_discovered", MAKING, {"gap": GAP}, works=out), "left out")


# --- the way through --------------------------------------------------------------------------------------------------


async def test_building_goes_from_concepts_to_results_and_reports_its_events() -> None:
    async with leading(AGENT) as led:
        state = await led.submit(**GROUND)
        assert (state.phase, state.status) == (GROUNDING, "waiting")
        told = await led.told()
        assert all(part in told for part in ("A hive on the roof", "notes/bees.md > Winter", "s2: Treat", "done when"))
        assert AGENT.questions[GROUNDING] in told
        assert (await led.decide("approve")).phase == MAKING
        told = await led.told()
        assert "To make:\n" in told
        assert "s1: Weigh the hive; done when one sees: Weigh the hive; rests on k1" in told
        state = await led.submit(made=MADE["made"][:1])
        assert (state.phase, await led.missing()) == (MAKING, ["not made yet: s2"])
        told = await led.told()
        assert "made (1 of 2): s1" in told
        assert "s1: Weigh" not in told
        state = await led.submit(made=MADE["made"][1:])
        assert (state.phase, state.status) == (COMPLETE, "complete")
        events, told = await led.events(), await led.told()
    assert [e.source for e in events if isinstance(e, SourceFound)] == [
        "kb:notes/bees.md",
        "kb:notes/garden.md",
        "kb:notes/bees.md",
    ]
    assert [(e.phase, e.kind) for e in events if isinstance(e, CheckpointReached)] == [(GROUNDING, "blocking")]
    assert [e.text for e in events if isinstance(e, Speaking)] == [AGENT.questions[GROUNDING]]
    assert [e.target for e in events if isinstance(e, PhaseChanged)] == [MAKING, COMPLETE]
    assert any(isinstance(e, Completed) for e in events)
    assert all(part in told for part in ("made s2: s2 is there (code:src/hive.py)", "kb_merge", "Hand it over"))


async def test_a_gap_leads_back_to_grounding_and_finished_parts_are_kept() -> None:
    async with leading(AGENT) as led:
        await led.submit(**GROUND)
        await led.decide("approve")
        state = await led.submit("conceptual_gap_discovered", made=MADE["made"][:1], gap=GAP)
        assert (state.phase, state.visit, state.backward_trigger) == (GROUNDING, 2, "conceptual_gap_discovered")
        told = await led.told()
        assert "You come back to GROUNDING, visit 2.\nWhy: conceptual_gap_discovered" in told
        assert "- k9, for step s2: How oxalic acid is dosed" in told
        assert "made (1 of 2): s1" in told
        assert AGENT.texts["GROUNDING"][:60] not in told
        assert next(e.text for e in await led.events() if isinstance(e, Thinking)).startswith("returning to GROUNDING")
        assert (await led.submit()).status == "active"
        assert "k9" in (await led.missing())[0]
        state = await led.submit(
            concepts=[concept("k9", "Dosing acid", VARROA)], plan=[step("s2", "Treat", "k2", "k9")]
        )
        assert state.status == "waiting"
        assert (await led.decide("approve")).phase == MAKING
        told = await led.told()
        assert "You come back to MAKING, visit 2." in told
        assert "s2: Treat; done when one sees: Treat; rests on k2, k9" in told
        assert AGENT.texts["MAKING"][:30] not in told
        assert (await led.submit(made=MADE["made"][1:])).status == "complete"


async def test_a_signal_alone_moves_nothing_and_a_gap_belongs_to_one_submit() -> None:
    async with leading(AGENT) as led:
        await led.submit(**GROUND)
        await led.decide("approve")
        state = await led.submit("conceptual_gap_discovered", made=MADE["made"][:1])
        assert state.phase == MAKING
        assert "the signal conceptual_gap_discovered is not confirmed: `gap` names no concept" in await led.missing()
        assert (await led.submit(gap={**GAP, "step": "s1"})).phase == MAKING
        assert (await led.submit(made=MADE["made"][1:])).status == "complete"


async def test_a_person_may_change_or_refuse_the_plan_and_send_the_making_back() -> None:
    async with leading(AGENT) as led:
        await led.submit(**GROUND)
        state = await led.decide("reject", "no acid on my roof")
        assert (state.phase, state.status) == (GROUNDING, "active")
        told = await led.told()
        assert "the person rejected the submitted work" in told
        assert "no acid on my roof" in told
        await led.submit(**GROUND)
        state = await led.decide("modify", changes={"drop": ["s2"]})
        assert state.phase == MAKING
        assert [s["id"] for s in BuildRecord(state.works).steps] == ["s1"]
        state = await led.decide("revisit", "treat them after all", changes={"phase": GROUNDING})
        assert (state.phase, state.visit, state.backward_trigger) == (GROUNDING, 2, "revisit")
        assert "treat them after all" in await led.told()
        await led.submit(plan=GROUND["plan"][1:])
        state = await led.decide("modify", changes={"drop": ["k2"]})
        assert (state.phase, state.status) == (GROUNDING, "active")
        assert "the step s2 rests on concepts that do not exist: k2" in await led.missing()


async def test_a_work_of_another_form_is_refused_and_nothing_is_recorded() -> None:
    async with leading(AGENT) as led:
        with pytest.raises(BadWork, match="two items of 'plan' have the id s1"):
            await led.submit(plan=[step("s1", "a", "k1"), step("s1", "b", "k1")])
        assert (await led.state()).version == 1
        await led.submit(**GROUND)
        await led.decide("approve")
        for place in ("src/hive.py", "code:", "code: src", ":x"):
            with pytest.raises(BadWork, match="must be kind:place"):
                await led.submit(made=[made("s1", artefacts=[place], observed="seen")])
        assert (await led.state()).version == 3


# --- what it costs ----------------------------------------------------------------------------------------------------

LONG = "lengthy words about bees in the winter of the year before last " * 15


async def test_every_phase_is_resumed_within_its_budget_however_much_is_on_record() -> None:
    """The design, section 7: resuming a journey costs at most 2,500 tokens."""
    costs = dict[str, int]()
    concepts = [concept(f"k{n}", f"{n} {LONG}"[:990], WINTER, VARROA, FLOWERS) for n in range(20)]
    plan = [
        {**step(f"s{n}", f"{n} {LONG}"[:900], f"k{n % 20}", "k1", "k2"), "done_when": LONG[:900]} for n in range(30)
    ]
    ground: Work = {"goal": LONG * 2, "concepts": concepts, "plan": plan}
    broken = [made(f"s{n}", shown_by=[ALTERED, ELSEWHERE, NOWHERE]) for n in range(30)]
    gap = {"concept": "k99", "text": LONG[:990], "step": "s29"}
    shown = [{**made(f"s{n}", **SEEN), "result": LONG * 3} for n in range(30)]
    async with leading(AGENT, brief=LONG * 20) as led:

        async def note(at: str) -> None:
            costs[at] = cost(await led.position())

        await note("GROUNDING")
        await led.decide("answer", LONG * 3)
        await led.submit(**{**ground, "concepts": [{**c, "citations": [ALTERED, NOWHERE]} for c in concepts]})
        await note("GROUNDING with what is missing")
        await led.submit(**ground)
        await note("waiting")
        await led.decide("approve")
        await led.decide("answer", LONG * 3)
        await note("MAKING")
        await led.submit(made=broken[:29])
        await note("MAKING with what is missing")
        await led.submit(made=shown[:15], gap=gap)
        await note("GROUNDING again")
        await led.submit(concepts=[concept(f"k{n}", f"{n} {LONG}"[:990], ALTERED, NOWHERE) for n in range(20)])
        await note("GROUNDING again with what is missing")
        await led.submit(concepts=concepts, left_out=[{"id": "k99", "why": LONG[:990]}])
        await led.decide("approve")
        await note("MAKING again")
        await led.submit(made=broken)
        await note("MAKING again with what is missing")
        assert (await led.submit(made=shown)).status == "complete"
        await note("COMPLETE")
    assert max(costs.values()) <= ANSWER_TOKENS, costs


# --- random walks -----------------------------------------------------------------------------------------------------


def good(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return work that leads the journey on from its present state, whatever was recorded."""
    plan = BuildRecord(state.works)
    if state.phase == GROUNDING:
        left = [{"id": plan.gap["concept"], "why": "not needed"}] if plan.gap else []
        gone = [item["id"] for item in (*plan.concepts, *plan.steps)]
        return [({**GROUND, "left_out": left, "drop": gone}, ())]
    gone = [id_ for id_ in plan.made if id_ not in {s["id"] for s in plan.steps}]
    return [({"made": [made(s["id"], **SEEN) for s in plan.steps], "drop": gone}, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return what may be submitted in a state: good, half, wrong, and what leads back."""
    gap = {**GAP, "concept": f"k{state.version}", "text": f"What {state.version} is"}
    some: dict[str, Sequence[tuple[Work, tuple[str, ...]]]] = {
        GROUNDING: [
            (GROUND, ()),
            ({"concepts": [concept("k3", "Dosing", ALTERED)]}, ("grounded",)),
            ({"drop": ["s2", "k2"]}, ()),
            ({"concepts": [concept(f"k{state.version}", "Law", WATER)], "plan": [step("s3", "Ask", "k1")]}, ()),
        ],
        MAKING: [
            (MADE, ()),
            ({"made": [made("s1", **SEEN)]}, ()),
            ({"made": [made("s9", shown_by=[ALTERED])]}, ("everything_made",)),
            ({"gap": gap}, ()),
            ({"gap": gap, "drop": ["s1", "s2"]}, ("conceptual_gap_discovered", "nonsense")),
        ],
    }
    return [*some[state.phase], *good(state)]


CHOICES = st.lists(st.integers(0, 2**16), max_size=25)


@settings(max_examples=12)
@given(CHOICES)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good))


def test_walks_take_every_way_of_the_table() -> None:
    """Walks that never went back would prove little."""
    assert not asyncio.run(ways_not_taken(AGENT, any_work, good, walks=15))


@pytest.mark.slow
@settings(max_examples=10_000)
@given(CHOICES)
def test_ten_thousand_walks_never_leave_the_table_and_are_never_stuck(choices: list[int]) -> None:
    """10,000 random walks an agent, never outside the table, never without a move."""
    asyncio.run(walk(AGENT, choices, any_work, good))
