"""Curate: its graph, and each path through it."""

from __future__ import annotations

import re

import pytest

from agents.catalogue import main_entries
from agents.engine.agent import Fate
from agents.engine.events import Json, PhaseChanged, QuestionAdded, SourceFound, Thinking
from agents.engine.graph import checked
from agents.engine.state import JourneyState
from agents.errors import BadWork, JourneyOver
from agents.library.curate.record import (
    ACT,
    COMPLETE,
    DEEP_DIVE,
    KNOWLEDGE,
    MERGE,
    MESSAGES,
    ORIENT,
    REASON,
    ROUTE,
    TARGET,
    TASKS,
    CurationRecord,
)
from agents.library.curate.views import done, values
from agents.library.folder import agent
from agents.prompts.prompt import COMMON, placeholders
from tests.support.agents.agent_harness import FLOWERS, TOOLS, WINTER, Led, Pages, leading, revision, words_in
from tests.support.agents.curate_works import (
    ASKED,
    AT_BEES,
    BEES,
    DIVED,
    GARDEN,
    MERGED_BEES,
    MISSING,
    ORIENTED,
    PENDING,
    REFUSED,
    ROUTED,
    SOUGHT,
    TARGETED,
    call,
    chosen,
    deed,
    evidence,
    now,
    place,
    reasoned,
)
from tests.support.journeys.graphs import Walk

AGENT = agent("curate")

# --- the graph --------------------------------------------------------------------------------------------------------


def test_the_graph_can_be_used_and_is_the_one_that_the_catalogue_shows() -> None:
    assert checked(AGENT.graph, AGENT.known_conditions, TOOLS) is AGENT.graph
    entry = next(entry for entry in main_entries() if entry.name == "curate")
    assert (AGENT.name, AGENT.title, AGENT.summary) == (entry.name, entry.title, entry.summary)
    assert set(AGENT.forms) == {phase.name for phase in AGENT.graph.phases} - set(AGENT.graph.complete)
    assert {t.condition for t in AGENT.graph.transitions} == set(AGENT.conditions)
    tools = AGENT.forms[ACT].schema["properties"]["acts"]["items"]["properties"]["tool"]["enum"]
    assert set(tools) == {*KNOWLEDGE, *TASKS, *MESSAGES} <= TOOLS


def test_each_phase_has_words_for_coming_and_for_coming_back_and_they_differ() -> None:
    there = COMMON | set(values(Walk(AGENT.graph).state))
    for phase in AGENT.graph.phases:
        first = AGENT.texts[phase.prompt]
        assert words_in(first) <= 350
        assert placeholders(first) <= there
        if phase.name not in AGENT.graph.complete:
            again = AGENT.texts[phase.prompt_again]
            assert words_in(again) <= 200
            assert placeholders(again) <= there
            assert first != again
    names = {phase.prompt for phase in AGENT.graph.phases} | {phase.prompt_again for phase in AGENT.graph.phases}
    assert set(AGENT.texts) == names - {""}


def test_prompts_name_only_tools_of_their_phase() -> None:
    """Other calls named in a prompt would be refused; the last phase calls nothing, it names what a person may want."""
    for phase in AGENT.graph.phases:
        for text in (AGENT.texts[phase.prompt], AGENT.texts.get(phase.prompt_again, "")):
            tools = set(
                re.findall(
                    r"\b(?:kb|plane|zulip)_\w+", text.replace("kb_read answered", "").replace("kb_read gave", "")
                )
            )
            assert tools <= set(phase.tools) or phase.name == COMPLETE, phase.name
    assert "journey_id" not in AGENT.texts["COMPLETE"]


# --- the way through --------------------------------------------------------------------------------------------------

NEW_LINE = "We treat again in August when more than ten mites a day fall on the board."


def merge_into_bees(look: Pages) -> dict[str, Json]:
    """Write into the page of bees, as kb_merge would, and return a quote of the new text."""
    look.texts[BEES] += f"\n{NEW_LINE}\n"
    return {"path": BEES, "section": "Counting mites", "quote": NEW_LINE}


async def reasoning(led: Led) -> JourneyState:
    """Lead to REASON, straight from the question."""
    await led.submit(**SOUGHT)
    return await led.submit(**DIVED)


async def acting(led: Led, kind: str, path: str | None = None) -> JourneyState:
    await reasoning(led)
    return await led.submit(**reasoned(kind, path))


async def test_a_question_goes_by_map_page_and_passages_to_a_verified_change() -> None:
    async with leading(AGENT, brief="Say when mites are treated.") as led:
        assert (await led.submit(**ROUTED)).phase == ORIENT
        told = await led.told()
        assert f"Question: {ASKED}" in told
        assert "Named place: notes" in told
        assert (await led.submit(**ORIENTED)).phase == ORIENT
        assert "the map was not read in this journey" in (await led.missing())[0]
        led.look.called = [call("kb_map", "notes")]
        assert (await led.submit()).phase == TARGET
        assert "Candidates: c1 notes; c2 notes/garden.md" in await led.told()
        led.look.called = [call("kb_read", BEES)]
        assert (await led.submit(**TARGETED)).phase == DEEP_DIVE
        assert (await led.submit(**DIVED)).phase == REASON
        assert "e1: Bees, mites and stores in winter. (notes/bees.md > Bees > Varroa)" in await led.told()
        assert (await led.submit(**reasoned("merge", BEES))).phase == ACT
        assert "Chosen: merge at notes/bees.md: the page lacks it" in await led.told()
        says = merge_into_bees(led.look)
        led.look.called = [MERGED_BEES]
        assert (await led.submit(acts=[deed("a1", "kb_merge", BEES)])).phase == MERGE
        told = await led.told()
        assert "Changed: notes/bees.md (kb_merge)" in told
        assert "Not verified yet: notes/bees.md" in told
        stale = await led.submit(pages=[now("m1", BEES, AT_BEES, says)])
        assert stale.phase == MERGE
        assert "m1: that is not the present revision" in (await led.missing())[0]
        state = await led.submit(pages=[now("m1", BEES, revision(led.look.texts[BEES]), says)])
        assert (state.phase, state.status) == (COMPLETE, "complete")
        with pytest.raises(JourneyOver):
            await led.submit(said="more")
        told, events = await led.told(), await led.events()
    assert "verified: notes/bees.md at revision" in told
    assert "Tell the person how it ended" in told
    assert [(e.text, e.category) for e in events if isinstance(e, QuestionAdded)] == [(ASKED, "navigation")]
    assert [e.source for e in events if isinstance(e, SourceFound)] == [f"kb:{BEES}", f"kb:{BEES}"]
    assert [(e.target, e.reason) for e in events if isinstance(e, PhaseChanged)] == [
        (ORIENT, "known_place"),
        (TARGET, "oriented"),
        (DEEP_DIVE, "targeted"),
        (REASON, "evidence_found"),
        (ACT, "act_chosen"),
        (MERGE, "knowledge_changed"),
        (COMPLETE, "merged"),
    ]


async def test_discovery_dives_immediately_and_an_answer_needs_no_merge() -> None:
    async with leading(AGENT) as led:
        assert (await led.submit(**SOUGHT)).phase == DEEP_DIVE
        assert (await led.submit(**DIVED)).phase == REASON
        assert (await led.submit(**reasoned("answer"))).phase == ACT
        state = await led.submit(said="In December, when there is no brood.")
        assert (state.phase, state.status, state.transition_history[-1].reason) == (COMPLETE, "complete", "acted")
        assert "the person was told: In December" in await led.told()


async def test_lost_scent_leads_back_to_the_map_and_from_there_to_other_pages() -> None:
    async with leading(AGENT) as led:
        await led.submit(**SOUGHT)
        state = await led.submit(evidence=[evidence("e1", WINTER)], missing=MISSING)
        assert (state.phase, state.visit, state.backward_trigger) == (ORIENT, 1, "missing_context")
        told = await led.told()
        assert "You come back to ORIENT" in told
        assert "Why: missing_context" in told
        assert f"Detail: {MISSING}" in told
        assert "evidence e1: Bees, mites and stores in winter." in told
        assert AGENT.texts["ORIENT"][:60] not in told
        assert any(isinstance(e, Thinking) and MISSING in e.text for e in await led.events())
        led.look.called = [call("kb_map")]
        assert (await led.submit(candidates=[place("c1", "notes")])).phase == TARGET
        led.look.called = [call("kb_read", GARDEN)]
        assert (await led.submit(pages=[place("p1", GARDEN)])).phase == DEEP_DIVE
        state = await led.state()
        assert state.visit == 2
        told = await led.told()
        assert "Look only for what was missing" in told
        assert "Pages now: p1 notes/garden.md" in told
        assert (await led.submit(evidence=[evidence("e2", FLOWERS)])).phase == REASON
        assert len(CurationRecord((await led.state()).works).evidence) == 2


async def test_the_work_waits_for_the_person_and_continues_after_approval() -> None:
    async with leading(AGENT) as led:
        await acting(led, "merge", BEES)
        led.look.called = [call("kb_merge", BEES, "proposed", proposal="x1")]
        led.look.fates["x1"] = PENDING
        state = await led.submit(acts=[deed("a1", "kb_merge", BEES, "x1")])
        assert (state.phase, state.status) == (ACT, "active")
        assert len(await led.missing()) == 1
        waits = "a1 (kb_merge notes/bees.md) waits for the person's decision about proposal x1: tell them, look with"
        assert (await led.missing())[0].startswith(waits)
        assert "act a1 kb_merge notes/bees.md, proposal x1" in done(state)
        assert (await led.submit()).phase == ACT
        led.look.fates["x1"] = Fate("kb_merge", "done", path=BEES)
        assert (await led.submit()).phase == MERGE
        says = merge_into_bees(led.look)
        state = await led.submit(pages=[now("m1", BEES, revision(led.look.texts[BEES]), says)])
        assert state.status == "complete"


async def test_a_refusal_leads_back_to_reasoning_with_the_persons_words() -> None:
    async with leading(AGENT) as led:
        await acting(led, "merge", BEES)
        led.look.called = [call("kb_merge", BEES, "proposed", proposal="x1")]
        led.look.fates["x1"] = PENDING
        await led.submit(acts=[deed("a1", "kb_merge", BEES, "x1")])
        led.look.fates["x1"] = REFUSED
        state = await led.submit()
        assert (state.phase, state.visit, state.backward_trigger) == (REASON, 2, "human_rejected")
        told = await led.told()
        assert "Why: human_rejected" in told
        assert "say who measured it" in told
        assert "Chosen before: merge at notes/bees.md" in told
        led.look.called = []
        assert (await led.submit(conclusion="In December, says the page.")).phase == REASON
        assert "submit the act again" in (await led.missing())[0]
        assert (await led.submit(act=chosen("answer", why="the person only wants to know"))).phase == ACT
        told = await led.told()
        assert "Chosen now: answer: the person only wants to know" in told
        assert "a1 kb_merge notes/bees.md, proposal x1" in told
        assert (await led.submit(said="In December.")).phase == ACT
        assert "x1 was rejected: drop a1" in (await led.missing())[0]
        assert (await led.submit(drop=["a1"])).status == "complete"


async def test_a_signal_alone_moves_nothing_and_is_said_not_to_be_confirmed() -> None:
    async with leading(AGENT) as led:
        await led.submit(**SOUGHT)
        led.look.scents[MISSING] = "sufficient"
        assert (await led.submit("missing_context", missing=MISSING)).phase == DEEP_DIVE
        assert (await led.missing())[0].startswith(
            "the signal missing_context is not confirmed: kb_search finds enough"
        )
        await led.submit(**DIVED)
        await led.submit(**reasoned("merge", BEES))
        state = await led.submit("human_rejected", "knowledge_changed", acts=[deed("a1", "kb_merge", BEES)])
        assert state.phase == ACT
        assert "the signal human_rejected is not confirmed" in (await led.missing())[0]
        assert "is no call of this visit" in (await led.missing())[1]


async def test_a_person_may_send_the_work_back_and_it_continues_from_there() -> None:
    async with leading(AGENT) as led:
        await acting(led, "answer")
        await led.submit(said="In December.")
        state = await led.decide("revisit", "I meant the flowers", changes={"phase": ROUTE})
        assert (state.phase, state.visit) == (ROUTE, 2)
        told = await led.told()
        assert f"The question was: {ASKED}" in told
        assert "I meant the flowers" in told
        state = await led.submit(question="Which flowers feed bees?", mode="discovery", place=None)
        assert state.phase == DEEP_DIVE
        assert [e.text for e in await led.events() if isinstance(e, QuestionAdded)] == [
            ASKED,
            "Which flowers feed bees?",
        ]


async def test_work_of_another_form_is_refused_by_field_and_nothing_is_recorded() -> None:
    async with leading(AGENT) as led:
        with pytest.raises(BadWork, match="mode"):
            await led.submit(question=ASKED, mode="guess")
        with pytest.raises(BadWork, match="must say something"):
            await led.submit(question="  ", mode="discovery")
        assert (await led.state()).version == 1
        await acting(led, "task")
        with pytest.raises(BadWork, match=re.escape("acts[a1].tool")):
            await led.submit(acts=[deed("a1", "kb_search")])


async def test_the_record_suffices_for_another_host_to_continue() -> None:
    async with leading(AGENT) as led:
        state = await acting(led, "merge", BEES)
        assert list(done(state)) == [
            f"question: {ASKED}",
            "conclusion: Treat the bees in December. (rests on e1)",
            "chosen: merge at notes/bees.md: the page lacks it",
            "evidence e1: Bees, mites and stores in winter. (notes/bees.md > Bees > Varroa)",
            "evidence e2: Bees, mites and stores in winter. (notes/bees.md > Winter)",
        ]
