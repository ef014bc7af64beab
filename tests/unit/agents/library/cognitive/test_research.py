"""Research: its own steps, forward to the end and back, and for each condition the near misses that it rejects."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.agent import Called
from agents.engine.state import JourneyState
from agents.library.cognitive.library import cognitive, described
from tests.support.agents.agent_harness import (
    ALTERED,
    VARROA,
    WINTER,
    Led,
    Pages,
    change,
    leading,
    walk,
)
from tests.support.agents.cognitive.scripts import Scene
from tests.support.agents.cognitive.scripts.research_cognitive import FIND, GATHER, PLAN, QUESTIONS, WEIGH, WORKS, acts
from tests.support.agents.cognitive.steps import before, follow, judge, own, perform
from tests.support.agents.team_agents import OWN_TOOLS

RESEARCH = own("research-cognitive")
NEW = {"new_question": {"id": "q3", "text": "Which treatment works?", "evidence": "e1"}}
THIRD = {"id": "q3", "text": "Which treatment works?", "why": "it is done in December", "done_when": "one is named"}
UNASKABLE = {
    "unaskable": {
        "question": "q2",
        "text": QUESTIONS["questions"][1]["text"],
        "queries": ["hive euro", "price of hives"],
        "why": "ask for a range instead",
    }
}
LOOK_AGAIN = {**WEIGH, "look_again": {"contradiction": "k1", "query": "winter losses statistics"}}
MORE = {**FIND, "more": {"question": "q2", "query": "hive shop catalogue"}}


def seen(**scents: Any) -> Pages:
    """Return a look-up in which search and contradictions were called."""
    return Pages(called=[Called("kb_search", "GATHER", {}), Called("kb_contradictions", "WEIGH", {})], **scents)


def test_it_is_read_without_a_mistake_and_has_the_numbers_of_the_table() -> None:
    """The table of the agents' protocol: seven steps, 3,000 and 2,500 tokens, its priority sections, the balanced class."""
    assert described("research-cognitive", OWN_TOOLS).problems == ()
    agent = cognitive("research-cognitive")
    assert agent.steps[2:] == tuple(WORKS)
    assert (agent.function, len(agent.steps)) == ("RESEARCH", 7)
    assert (agent.budget.tokens_in, agent.budget.tokens_out) == (3_000, 2_500)
    assert agent.priority == ("research_queries", "unknowns", "constraints")
    assert (agent.advice.model_class, agent.advice.example) == ("balanced", "sonnet")


async def test_the_script_leads_it_step_by_step_to_the_end() -> None:
    async with leading(RESEARCH) as led:
        assert await follow(led, acts) == list(WORKS)


async def upto(led: Led, phase: str) -> None:
    """Do what the script says up to that phase."""
    for name in before(WORKS, phase):
        await perform(led, acts(name, Scene(led.journey, "")))
    assert (await led.state()).phase == phase


async def test_evidence_that_raises_a_question_leads_back_to_plan_for_it() -> None:
    async with leading(RESEARCH) as led:
        await upto(led, "GATHER")
        state = await led.submit(**GATHER, **NEW)
        assert (state.phase, state.backward_trigger) == ("QUESTIONS", "evidence_raises_question")
        assert state.backward_trigger_detail == "Which treatment works?"
        assert (await led.submit(**QUESTIONS)).phase == "QUESTIONS"
        assert await led.missing() == ["questions has nothing for q3 of GATHER.new_question"]
        assert (await led.submit(questions=[THIRD])).phase == "PLAN"
        assert (await led.submit()).phase == "PLAN"
        assert await led.missing() == ["searches.question has nothing for q3 of QUESTIONS.questions"]
        fourth = {"id": "s4", "question": "q3", "query": "oxalic acid", "aim": "find", "where": "notes"}
        assert (await led.submit(searches=[fourth])).phase == "GATHER"
        assert (await led.submit()).phase == "GATHER"
        assert "evidence.question or nothing.question has nothing for q3 of QUESTIONS.questions" in await led.missing()


async def test_a_question_that_no_search_finds_leads_back_to_put_it_otherwise() -> None:
    async with leading(RESEARCH) as led:
        await upto(led, "PLAN")
        state = await led.submit(**UNASKABLE)
        assert (state.phase, state.backward_trigger) == ("QUESTIONS", "question_unaskable")
        assert state.backward_trigger_detail == "ask for a range instead"
        unchanged = "a question that no search can answer is still put as it was"
        assert (await led.submit(**QUESTIONS)).phase == "QUESTIONS", "it would come back at once"
        assert any(text.startswith(unchanged) for text in await led.missing())
        second = QUESTIONS["questions"][1]
        shouted = {**second, "text": f" {second['text'].upper()}"}
        assert (await led.submit(questions=[shouted])).phase == "QUESTIONS", "in other letters it is the same question"
        assert (await led.submit(questions=[{**second, "text": "Within which range do hives cost?"}])).phase == "PLAN"


async def test_a_question_that_no_search_finds_may_be_taken_out_as_well() -> None:
    async with leading(RESEARCH) as led:
        await upto(led, "PLAN")
        await led.submit(**UNASKABLE)
        assert (await led.submit(drop=["q2"], questions=[THIRD])).phase == "PLAN"


@pytest.mark.parametrize(
    ("source", "work", "why", "query"),
    [
        ("WEIGH", LOOK_AGAIN, "contradiction_needs_evidence", "winter losses statistics"),
        ("FIND", MORE, "more_to_find", "hive shop catalogue"),
    ],
)
async def test_a_query_that_nobody_planned_leads_back_and_is_planned(
    source: str, work: Mapping[str, Any], why: str, query: str
) -> None:
    async with leading(RESEARCH, look=Pages(scents={"hive shop catalogue": "sufficient"})) as led:
        await upto(led, source)
        state = await led.submit(**work)
        assert (state.phase, state.backward_trigger, state.backward_trigger_detail) == ("PLAN", why, query)
        assert (await led.submit()).phase == "PLAN"
        assert await led.missing() == [
            f"searches.query has nothing for {query} of FIND.more.query or WEIGH.look_again.query"
        ]
        search = {"id": "s4", "question": "q1", "query": query, "aim": "find", "where": "everywhere"}
        assert (await led.submit(searches=[search])).phase == "GATHER"


EVIDENCE, NOTHING, FINDING = GATHER["evidence"], GATHER["nothing"][0], FIND["findings"][0]
ONE_ONLY = {"searches": [search for search in PLAN["searches"] if search["aim"] == "find"]}
MISSES: list[tuple[str, str, Mapping[str, Any], str]] = [
    ("questions_asked", "QUESTIONS", {"questions": QUESTIONS["questions"][:1]}, "questions has 1, at least 2"),
    ("questions_asked", "QUESTIONS", change(QUESTIONS, "questions", 0, done_when=" "), "questions[q1] lacks 'done_when'"),
    ("questions_asked", "QUESTIONS", change(QUESTIONS, "questions", 1, text="what do colonies die of in winter?"), "says the same"),
    ("search_planned", "PLAN", {"searches": PLAN["searches"][:2]}, "searches.question has nothing for q2"),
    ("search_planned", "PLAN", change(PLAN, "searches", 0, question="q9"), "searches.question names q9"),
    ("search_planned", "PLAN", change(PLAN, "searches", 0, query=" "), "searches[s1] lacks 'query'"),
    ("search_planned", "PLAN", change(PLAN, "searches", 1, query="Winter losses mite"), "searches[s2].query says the same"),
    ("search_planned", "PLAN", ONE_ONLY, "plan at least one search whose aim is to refute"),
    ("question_unaskable", "PLAN", {"unaskable": {**UNASKABLE["unaskable"], "question": "q9"}}, "unaskable.question names q9"),
    ("question_unaskable", "PLAN", {"unaskable": {**UNASKABLE["unaskable"], "queries": ["hive euro"]}}, "unaskable.queries has 1"),
    ("question_unaskable", "PLAN", {"unaskable": {**UNASKABLE["unaskable"], "queries": ["bees", "x"]}}, "a search finds enough"),
    ("question_unaskable", "PLAN", {"unaskable": {**UNASKABLE["unaskable"], "text": "What else?"}}, "unaskable.text names"),
    ("question_unaskable", "PLAN", PLAN, "unaskable is not in this submit"),
    ("evidence_gathered", "GATHER", {"evidence": EVIDENCE}, "nothing.question has nothing for q2"),
    ("evidence_gathered", "GATHER", change(GATHER, "evidence", 0, question="q9"), "names q9, which QUESTIONS.questions"),
    ("evidence_gathered", "GATHER", change(GATHER, "evidence", 0, search="s9"), "evidence.search names s9"),
    ("evidence_gathered", "GATHER", change(GATHER, "evidence", 0, claim=" "), "evidence[e1]: claim is empty"),
    ("evidence_gathered", "GATHER", change(GATHER, "evidence", 1, claim="mites are the main cause."), "evidence[e2].claim says"),
    ("evidence_gathered", "GATHER", change(GATHER, "evidence", 0, quotes=[]), "evidence[e1]: quotes rests on 0"),
    ("evidence_gathered", "GATHER", change(GATHER, "evidence", 0, quotes=[VARROA, ALTERED]), "evidence[e1]: quotes[1]: the quote"),
    ("evidence_gathered", "GATHER", change(GATHER, "nothing", 0, tried=["bees"], nearest=[WINTER]), "nothing[n1]: tried has 1"),
    ("evidence_gathered", "GATHER", change(GATHER, "nothing", 0, tried=["bees", "x"], nearest=[]), "nothing[n1]: the server finds"),
    ("evidence_gathered", "GATHER", change(GATHER, "nothing", 0, tried=["bees", "x"], nearest=[ALTERED]), "nothing[n1]: the ser"),
    ("evidence_raises_question", "GATHER", {**GATHER, "new_question": {**NEW["new_question"], "id": "q1"}}, "names nothing that"),
    ("evidence_raises_question", "GATHER", {**GATHER, "new_question": {**NEW["new_question"], "evidence": "e9"}}, "names e9"),
    ("evidence_raises_question", "GATHER", GATHER, "new_question is not in this submit"),
    ("sources_weighed", "WEIGH", {**WEIGH, "sources": []}, "sources.page has nothing for notes/bees.md of GATHER.evidence"),
    ("sources_weighed", "WEIGH", change(WEIGH, "sources", 0, page="notes/garden.md"), "names notes/garden.md, which"),
    ("sources_weighed", "WEIGH", change(WEIGH, "sources", 0, why=" "), "sources[so1]: why is empty"),
    ("sources_weighed", "WEIGH", change(WEIGH, "contradictions", 0, between=["e1", "e9"]), "contradictions.between names e9"),
    ("sources_weighed", "WEIGH", change(WEIGH, "contradictions", 0, between=["e1", "e1"]), "contradictions[k1]: between has 1"),
    ("sources_weighed", "WEIGH", change(WEIGH, "contradictions", 0, how=" "), "contradictions[k1]: how is empty"),
    ("contradiction_needs_evidence", "WEIGH", WEIGH, "look_again is not in this submit"),
    (
        "contradiction_needs_evidence",
        "WEIGH",
        {**WEIGH, "look_again": {"contradiction": "k9", "query": "x"}},
        "look_again.contradiction names k9",
    ),
    (
        "contradiction_needs_evidence",
        "WEIGH",
        {**WEIGH, "look_again": {"contradiction": "k1", "query": "winter  losses mite"}},
        "look_again.query names nothing that PLAN.searches.query",
    ),
    ("findings_stated", "FIND", {**FIND, "gaps": []}, "findings.question or gaps.about has nothing for q2"),
    ("findings_stated", "FIND", change(FIND, "findings", 0, question="q9"), "findings.question names q9"),
    ("findings_stated", "FIND", change(FIND, "findings", 0, evidence=["e1", "e9"]), "findings[f1]: evidence names e9"),
    ("findings_stated", "FIND", change(FIND, "findings", 0, evidence=[]), "findings[f1]: evidence names nothing of"),
    ("findings_stated", "FIND", change(FIND, "findings", 0, evidence=["e1", "e1"]), "fewer than two pieces of evidence"),
    ("findings_stated", "FIND", change(FIND, "findings", 0, text=" "), "findings[f1]: text is empty"),
    ("findings_stated", "FIND", change(FIND, "gaps", 0, about="q8"), "gaps.about names q8"),
    ("findings_stated", "FIND", change(FIND, "gaps", 0, next=" "), "gaps[g1]: next is empty"),
    ("more_to_find", "FIND", MORE, "a search does not find enough for it"),
    ("more_to_find", "FIND", {**MORE, "more": {"question": "q9", "query": "bees"}}, "more.question names q9"),
    ("more_to_find", "FIND", {**MORE, "more": {"question": "q1", "query": "price hive euro"}}, "more.query names nothing that"),
    ("more_to_find", "FIND", FIND, "more is not in this submit"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "phase", "work", "told"), MISSES)
async def test_near_misses_hold_it_up(condition: str, phase: str, work: Mapping[str, Any], told: str) -> None:
    look = seen(scents={"bees": "sufficient"})
    found = await judge(RESEARCH, condition, phase, work, works=before(WORKS, phase), look=look)
    assert not found.met
    assert any(told in text for text in found.missing), found.missing


def test_each_condition_has_near_misses() -> None:
    assert {condition for condition, *_ in MISSES} == set(RESEARCH.conditions)


@pytest.mark.parametrize(
    ("condition", "phase", "tool"),
    [("evidence_gathered", "GATHER", "kb_search"), ("sources_weighed", "WEIGH", "kb_contradictions")],
)
async def test_an_answer_without_a_look_up_is_not_known(condition: str, phase: str, tool: str) -> None:
    found = await judge(RESEARCH, condition, phase, WORKS[phase], works=before(WORKS, phase))
    assert found.missing == (f"call {tool} with the journey_id of this journey, in this phase",)


async def test_unsettled_and_unfound_answers_are_gaps() -> None:
    """However well the question was answered otherwise."""
    works = {**before(WORKS, "FIND"), "WEIGH": change(WEIGH, "contradictions", 0, settled="open")}
    answered = {
        **FIND,
        "findings": [
            FINDING,
            {**FINDING, "id": "f2", "question": "q2", "text": "Nobody weighed a hive.", "confidence": "low"},
        ],
        "gaps": [],
    }
    found = await judge(RESEARCH, "findings_stated", "FIND", answered, works=works)
    assert found.missing == (
        "gaps.about has nothing for q2, k1 of GATHER.nothing.question or WEIGH.contradictions.settled=open",
    )


async def test_a_question_for_which_the_server_finds_too_little_needs_no_nearest_page() -> None:
    only = {"evidence": EVIDENCE, "nothing": [{**NOTHING, "nearest": []}]}
    assert (await judge(RESEARCH, "evidence_gathered", "GATHER", only, works=before(WORKS, "GATHER"), look=seen())).met


OTHER: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "QUESTIONS": [{"questions": [THIRD]}, {}],
    "PLAN": [UNASKABLE, {"drop": ["s2"]}],
    "GATHER": [{**GATHER, **NEW}, {"nothing": []}],
    "WEIGH": [LOOK_AGAIN, change(WEIGH, "contradictions", 0, settled="open")],
    "FIND": [MORE, {**FIND, "gaps": []}],
}


def good(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    """Return work that leads on from any state of a walk."""
    search = {"question": "q3", "aim": "find", "where": "notes"}
    queries = ["oxalic acid", "winter losses statistics", "hive shop catalogue"]
    planned = [{**search, "id": f"s{n}", "query": query} for n, query in enumerate(queries, 7)]
    # A person may have sent the work on although a search was dropped: then its evidence comes from another.
    kept = state.work["PLAN"].content.get("searches", []) if "PLAN" in state.work else []
    there = [one["id"] for one in kept] or ["s1"]
    evidence = [{**one, "search": one["search"] if one["search"] in there else there[0]} for one in GATHER["evidence"]]
    first, second = QUESTIONS["questions"]
    otherwise = "PLAN" in state.work and "unaskable" in state.work["PLAN"].content
    put = {**second, "text": f"Within which range? ({state.visit})"} if otherwise else second
    found: dict[str, Mapping[str, Any]] = {
        "QUESTIONS": {"questions": [first, put, THIRD]},
        "PLAN": {"searches": [*PLAN["searches"], *planned]},
        "GATHER": {**GATHER, "evidence": evidence, "nothing": [NOTHING, {**NOTHING, "id": "n2", "question": "q3"}]},
        "WEIGH": WEIGH,
        "FIND": {
            **FIND,
            "gaps": [
                {**FIND["gaps"][0], "id": f"g{n}", "about": about} for n, about in enumerate(["q2", "q3", "k1"], 1)
            ],
        },
    }
    return [(found[state.phase], ())]


def any_work(state: JourneyState) -> Sequence[tuple[Mapping[str, Any], tuple[str, ...]]]:
    return [*good(state), *((work, ()) for work in OTHER[state.phase])]


@given(choices=st.lists(st.integers(0, 1_000), max_size=25))
@settings(max_examples=12)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    look = seen(scents={"hive shop catalogue": "sufficient"})
    assert "findings_stated" in asyncio.run(walk(RESEARCH, choices, any_work, good, look=look))
