"""Research: what each condition accepts and rejects, each path through the graph, and the host's instructions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.catalogue import main_entries
from agents.engine.events import (
    CheckpointReached,
    Completed,
    Json,
    PhaseChanged,
    QuestionAdded,
    SourceFound,
    Speaking,
    Thinking,
    canonical,
)
from agents.engine.graph import checked
from agents.engine.state import JourneyState
from agents.errors import BadWork, JourneyOver, WaitsForPerson
from agents.library.folder import agent
from agents.library.research.tree import ANSWER, COMPLETE, DECOMPOSE, EXPAND, RISE_ABOVE, Tree
from agents.library.research.views import values
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
    Led,
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

AGENT = agent("research")

Work = Mapping[str, Json]


def category(id_: str, title: str) -> dict[str, Json]:
    return {"id": id_, "title": title, "why": "it is a part of the brief"}


def question(id_: str, of: str, text: str) -> dict[str, Json]:
    return {"id": id_, "category": of, "text": text, "why": "it changes the answer"}


def answer(id_: str, *citations: Work, text: str = "") -> dict[str, Json]:
    """Return an answer that says what its quotes say. It names its question, as several tests answer all from one quote."""
    said = " ".join(str(one["quote"]) for one in citations)
    return {"id": id_, "text": text or f"For {id_} as for q1 and the others: {said}", "citations": list(citations)}


def left_open(id_: str, *searched: str) -> dict[str, Json]:
    return {"id": id_, "open": {"why": "no page says it", "searched": list(searched)}}


def insight(id_: str, *rests_on: str, text: str = "") -> dict[str, Json]:
    return {
        "id": id_,
        "text": text or ("Feed them." if id_ == "c1" else f"Water them, {id_}."),
        "rests_on": list(rests_on),
    }


def adjacent(id_: str, text: str, near: str = "c1") -> dict[str, Json]:
    return {"id": id_, "text": text, "why": "it comes next", "near": near}


Q1, Q2, Q3 = "How much do bees eat in winter?", "What kills bees in winter?", "Which flowers feed bees in July?"
TREE: Work = {
    "categories": [category("c1", "Winter"), category("c2", "Summer")],
    "questions": [question("q1", "c1", Q1), question("q2", "c1", Q2), question("q3", "c2", Q3)],
}
ANSWERS: Work = {"answers": [answer("q1", WINTER), answer("q2", VARROA), answer("q3", FLOWERS, WATER)]}
INSIGHTS: Work = {"insights": [insight("c1", "q1", "q2"), insight("c2", "q3")]}
NEXT: Work = {
    "adjacent_questions": [
        adjacent("a1", "Who pays for the sugar?"),
        adjacent("a2", "What do wasps do to the hive?", "c2"),
        adjacent("a3", "How is honey sold?", "q3"),
    ]
}
NEW: Work = {
    "id": "c3",
    "title": "Law",
    "why": "bees on roofs need a permit",
    "questions": [{"id": "q9", "text": "Who has to be asked for bees on a roof?"}],
}
IN_TREE = {DECOMPOSE: TREE}
ANSWERED = {DECOMPOSE: TREE, ANSWER: ANSWERS}
RISEN = {**ANSWERED, RISE_ABOVE: INSIGHTS}


def without(work: Work, name: str, at: int) -> Work:
    return {**work, name: [item for n, item in enumerate(work[name]) if n != at]}


# --- the graph --------------------------------------------------------------------------------------------------------


def test_the_graph_can_be_used_and_is_the_one_that_the_catalogue_shows() -> None:
    assert checked(AGENT.graph, AGENT.known_conditions, TOOLS) is AGENT.graph
    entry = next(entry for entry in main_entries() if entry.name == "research")
    assert (AGENT.name, AGENT.title, AGENT.summary) == (entry.name, entry.title, entry.summary)
    assert set(AGENT.forms) == {phase.name for phase in AGENT.graph.phases} - set(AGENT.graph.complete)
    assert {t.condition for t in AGENT.graph.transitions} == set(AGENT.conditions)


def test_each_phase_has_words_for_coming_and_for_coming_back_and_they_differ() -> None:
    known = COMMON | set(values(_state_in_decompose()))
    for phase in AGENT.graph.phases:
        first = AGENT.texts[phase.prompt]
        assert words_in(first) <= 350
        assert placeholders(first) <= known
        if phase.name not in AGENT.graph.complete:
            again = AGENT.texts[phase.prompt_again]
            assert words_in(again) <= 200
            assert placeholders(again) <= known
            assert first != again
    named = {phase.prompt for phase in AGENT.graph.phases} | {phase.prompt_again for phase in AGENT.graph.phases}
    assert set(AGENT.texts) == named - {""}


def test_prompts_name_only_tools_of_their_phase() -> None:
    for phase in AGENT.graph.phases:
        for text in (AGENT.texts[phase.prompt], AGENT.texts.get(phase.prompt_again, "")):
            assert set(re.findall(r"\bkb_\w+", text)) <= set(phase.tools)


def test_schemas_say_nothing_that_only_python_knows() -> None:
    """Every schema costs tokens each time: no titles of pydantic, no references, nothing nullable."""
    for form in AGENT.forms.values():
        text = canonical(dict(form.schema))
        assert all(word not in text for word in ("$", "anyOf", "null", '"title":"'))
        assert "drop" in form.schema["properties"]


def _state_in_decompose() -> JourneyState:
    from tests.support.journeys.graphs import Walk

    return Walk(AGENT.graph).state


# --- conditions -------------------------------------------------------------------------------------------------------


async def test_a_whole_tree_is_complete() -> None:
    assert (await judged(AGENT, "question_tree_complete", DECOMPOSE, TREE)).met
    chosen = {**TREE, "left_out": [{"id": "c3", "why": "the person does not want it"}]}
    works = {ANSWER: {"answers": [], "new_categories": [NEW]}}
    assert (await judged(AGENT, "question_tree_complete", DECOMPOSE, chosen, works=works)).met


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({}, ["no category"]),
        ({"categories": TREE["categories"]}, ["no question", "c1, c2"]),
        (without(TREE, "questions", 2), ["no question", "c2"]),
        (change(TREE, "questions", 2, category="c7"), ["do not exist", "q3"]),
        (change(TREE, "questions", 1, id="c1"), ["used twice", "c1"]),
        (change(TREE, "questions", 1, text="how  much do Bees eat in winter"), ["q2 says the same as q1"]),
        (change(TREE, "categories", 1, title="WINTER"), ["c2 says the same as c1"]),
    ],
)
async def test_a_tree_that_lacks_something_is_not_complete(tree: Work, said: list[str]) -> None:
    assert lacks(await judged(AGENT, "question_tree_complete", DECOMPOSE, tree), *said)


async def test_a_tree_is_complete_again_only_with_every_proposal_included_or_left_out() -> None:
    for works in ({ANSWER: {"new_categories": [NEW]}}, {RISE_ABOVE: {"missing_categories": [NEW]}}):
        assert lacks(await judged(AGENT, "question_tree_complete", DECOMPOSE, TREE, works=works), "c3", "left_out")
        other = {**TREE, "left_out": [{"id": "c4", "why": "no"}]}
        assert lacks(await judged(AGENT, "question_tree_complete", DECOMPOSE, other, works=works), "c3")
        bare = {**TREE, "categories": [*TREE["categories"], category("c3", "Law")]}
        assert lacks(await judged(AGENT, "question_tree_complete", DECOMPOSE, bare, works=works), "c3", "no question")
        own_id = {
            "categories": [*TREE["categories"], category("c4", "Permits")],
            "questions": [*TREE["questions"], question("q4", "c4", "Who allows it?")],
        }
        assert not (await judged(AGENT, "question_tree_complete", DECOMPOSE, own_id, works=works)).met
        taken = change(own_id, "categories", 2, title="law")
        assert (await judged(AGENT, "question_tree_complete", DECOMPOSE, taken, works=works)).met


async def test_a_tree_may_not_repeat_the_synthesis_questions() -> None:
    works = {RISE_ABOVE: {"more_questions": [question("m1", "c1", "Who allows it?")]}}
    asked = {"categories": TREE["categories"], "questions": [*TREE["questions"], question("q4", "c2", "who allows it")]}
    found = await judged(AGENT, "question_tree_complete", DECOMPOSE, asked, works=works)
    assert lacks(found, "q4 says the same as m1")
    same = change(asked, "questions", 3, id="m1", text="Another one?")
    assert lacks(await judged(AGENT, "question_tree_complete", DECOMPOSE, same, works=works), "used twice", "m1")


@pytest.mark.parametrize(
    "answers",
    [
        ANSWERS,
        change(ANSWERS, "answers", 2, citations=[{**FLOWERS, "section": "Garden > Flowers"}]),
        {"answers": [*ANSWERS["answers"][:2], left_open("q3", "flowers july", "what blooms in summer")]},
        {"answers": [*ANSWERS["answers"][:2], {**left_open("q3", "flowers july", "summer"), "citations": [WATER]}]},
    ],
)
async def test_all_questions_are_answered_by_existing_quotes_or_by_real_searches(answers: Work) -> None:
    assert (await judged(AGENT, "all_questions_answered", ANSWER, answers, works=IN_TREE)).met


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({}, ["not answered yet: q1, q2, q3"]),
        (without(ANSWERS, "answers", 1), ["not answered yet: q2"]),
        (change(ANSWERS, "answers", 0, citations=[ALTERED]), ["answers[q1].citations[0]", "is not in"]),
        (change(ANSWERS, "answers", 2, citations=[WATER, NOWHERE]), ["answers[q3].citations[1]", "no page"]),
        (change(ANSWERS, "answers", 2, citations=[{**WATER, "quote": "Water."}]), ["answers[q3]", "too short"]),
        (change(ANSWERS, "answers", 0, citations=[]), ["no citation: q1"]),
        (change(ANSWERS, "answers", 0, text="  "), ["no text: q1"]),
        ({"answers": [*ANSWERS["answers"], answer("q8", WINTER)]}, ["no question of the tree: q8"]),
        ({"answers": [*ANSWERS["answers"][:2], left_open("q3", "flowers july")]}, ["q3", "after 1 queries"]),
        ({"answers": [*ANSWERS["answers"][:2], left_open("q3", "July", "july!")]}, ["q3", "after 1 queries"]),
        (
            {"answers": [*ANSWERS["answers"][:2], {**left_open("q3", "a", "b"), "citations": [ALTERED]}]},
            ["answers[q3].citations[0]"],
        ),
    ],
)
async def test_an_answer_that_lacks_something_is_named(answers: Work, said: list[str]) -> None:
    assert lacks(await judged(AGENT, "all_questions_answered", ANSWER, answers, works=IN_TREE), *said)


@pytest.mark.parametrize("found", [Q3, "flowers july"])
async def test_a_question_is_not_open_if_the_server_s_own_search_finds_enough(found: str) -> None:
    """The model's claim of a search without hits counts for nothing: the server searches."""
    work = {"answers": [*ANSWERS["answers"][:2], left_open("q3", "flowers july", "what blooms")]}
    look = Pages(scents={found: "sufficient"})
    said = "its own words" if found == Q3 else "'flowers july'"
    assert lacks(
        await judged(AGENT, "all_questions_answered", ANSWER, work, look, works=IN_TREE), "q3 is left open", said
    )
    partly = Pages(scents={found: "partial", "something else": "sufficient"})
    assert (await judged(AGENT, "all_questions_answered", ANSWER, work, partly, works=IN_TREE)).met


async def test_questions_of_the_synthesis_are_to_be_answered_too_unless_their_category_is_gone() -> None:
    works = {**IN_TREE, RISE_ABOVE: {"more_questions": [question("m1", "c1", "Who allows it?")]}}
    assert lacks(await judged(AGENT, "all_questions_answered", ANSWER, ANSWERS, works=works), "not answered yet: m1")
    allowed = answer("m1", WATER, text="The garden allows bees to drink.")
    more = {"answers": [*ANSWERS["answers"], allowed]}
    assert (await judged(AGENT, "all_questions_answered", ANSWER, more, works=works)).met
    twice = {**IN_TREE, RISE_ABOVE: {"more_questions": [question("q3", "c1", "Who allows it?")]}}
    found = await judged(AGENT, "all_questions_answered", ANSWER, without(ANSWERS, "answers", 2), works=twice)
    assert found.missing == ("not answered yet: q3",)
    gone = {**IN_TREE, RISE_ABOVE: {"more_questions": [question("m1", "c9", "Who allows it?")]}}
    assert (await judged(AGENT, "all_questions_answered", ANSWER, ANSWERS, works=gone)).met


async def test_facts_not_submitted_now_are_checked_when_they_count() -> None:
    """A page may change after an answer was recorded: every quote is looked up again before the work continues."""
    works = {**IN_TREE, ANSWER: {"answers": [answer("q1", ALTERED), answer("q2", VARROA)]}}
    early = await judged(AGENT, "all_questions_answered", ANSWER, {"answers": [answer("q2", WINTER)]}, works=works)
    assert early.missing == ("not answered yet: q3",)
    last = await judged(AGENT, "all_questions_answered", ANSWER, {"answers": [answer("q3", WATER)]}, works=works)
    assert lacks(last, "answers[q1].citations[0]")
    look = Pages(scents={"a": "sufficient"})
    works = {**IN_TREE, ANSWER: {"answers": [left_open("q1", "a", "b")]}}
    given = {"answers": [left_open("q2", "a", "b")]}
    early = await judged(AGENT, "all_questions_answered", ANSWER, given, look, works=works)
    assert [text.partition(" is left open")[0] for text in early.missing] == ["q2", "not answered yet: q3"]
    given = {"answers": [left_open("q2", "b", "c"), answer("q3", WATER)]}
    last = await judged(AGENT, "all_questions_answered", ANSWER, given, look, works=works)
    assert [text.partition(" is left open")[0] for text in last.missing] == ["q1"]


@pytest.mark.parametrize(
    ("condition", "phase", "name"),
    [
        ("new_category_discovered", ANSWER, "new_categories"),
        ("synthesis_reveals_missing_category", RISE_ABOVE, "missing_categories"),
    ],
)
async def test_a_category_leads_back_if_the_tree_does_not_have_it(condition: str, phase: str, name: str) -> None:
    found = await judged(AGENT, condition, phase, {name: [NEW]}, works=ANSWERED)
    assert found.met
    assert all(word in found.detail for word in ("c3", "Law", "q9", "permit", "Who has to be asked"))
    signals = (condition,)
    for known in ({**NEW, "id": "C1"}, {**NEW, "title": "summer"}):
        finding = await judged(AGENT, condition, phase, {name: [known]}, works=ANSWERED, signals=signals)
        assert lacks(finding, "the tree has")
    assert lacks(await judged(AGENT, condition, phase, {}, works=ANSWERED, signals=signals), "names no category")
    out = {**ANSWERED, DECOMPOSE: {**TREE, "left_out": [{"id": "c3", "why": "not wanted"}]}}
    assert lacks(await judged(AGENT, condition, phase, {name: [NEW]}, works=out), "left out")
    recorded = {**ANSWERED, phase: {name: [NEW]}}
    assert lacks(await judged(AGENT, condition, phase, {}, works=recorded), "names no category")


async def test_a_question_without_an_answer_leads_back_from_the_synthesis() -> None:
    more = {"more_questions": [question("m1", "c1", "Who allows it?")]}
    found = await judged(AGENT, "synthesis_requires_more_answers", RISE_ABOVE, more, works=ANSWERED)
    assert found.met
    assert found.detail == "m1: Who allows it?"
    unanswered = {**IN_TREE, ANSWER: without(ANSWERS, "answers", 2)}
    assert (await judged(AGENT, "synthesis_requires_more_answers", RISE_ABOVE, {}, works=unanswered)).met


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "no new question"),
        (question("m1", "c7", "Who allows it?"), "in no category of the tree"),
        (question("q1", "c1", "Who allows it?"), "has the id of something else"),
        (question("c2", "c1", "Who allows it?"), "has the id of something else"),
        (question("m1", "c1", Q3.upper()), "asks the same as q3"),
    ],
)
async def test_a_question_that_is_no_new_one_does_not_lead_back_and_is_named(more: Work, said: str) -> None:
    given = {**INSIGHTS, **({"more_questions": [more]} if more else {})}
    assert lacks(await judged(AGENT, "synthesis_requires_more_answers", RISE_ABOVE, given, works=ANSWERED), said)
    going_on = await judged(AGENT, "every_category_has_insight", RISE_ABOVE, given, works=ANSWERED)
    assert going_on.met if not more else lacks(going_on, said)


async def test_an_answered_question_of_the_synthesis_does_not_lead_back_again() -> None:
    for answered in (answer("m1", WATER), left_open("m1", "a", "b")):
        works = {**ANSWERED, ANSWER: {"answers": [*ANSWERS["answers"], answered]}}
        works = {**works, RISE_ABOVE: {"more_questions": [question("m1", "c1", "Who allows it?")]}}
        assert not (await judged(AGENT, "synthesis_requires_more_answers", RISE_ABOVE, INSIGHTS, works=works)).met
        assert (await judged(AGENT, "every_category_has_insight", RISE_ABOVE, INSIGHTS, works=works)).met


async def test_every_category_has_an_insight_that_rests_on_its_answers() -> None:
    assert (await judged(AGENT, "every_category_has_insight", RISE_ABOVE, INSIGHTS, works=ANSWERED)).met
    across = change(INSIGHTS, "insights", 1, rests_on=["q1", "q3"])
    assert (await judged(AGENT, "every_category_has_insight", RISE_ABOVE, across, works=ANSWERED)).met
    nothing = {**IN_TREE, ANSWER: {"answers": [*ANSWERS["answers"][:2], left_open("q3", "a", "b")]}}
    bare = change(INSIGHTS, "insights", 1, rests_on=[])
    assert (await judged(AGENT, "every_category_has_insight", RISE_ABOVE, bare, works=nothing)).met
    on_open = await judged(AGENT, "every_category_has_insight", RISE_ABOVE, INSIGHTS, works=nothing)
    assert lacks(on_open, "c2", "without an answer", "q3")


@pytest.mark.parametrize(
    ("insights", "said"),
    [
        ({}, "no insight: c1, c2"),
        (without(INSIGHTS, "insights", 1), "no insight: c2"),
        (change(INSIGHTS, "insights", 1, rests_on=[]), "the insight c2 rests on no answer of its category"),
        (change(INSIGHTS, "insights", 1, rests_on=["q1"]), "name one of q3"),
        (
            change(INSIGHTS, "insights", 0, rests_on=["q1", "q8"]),
            "the insight c1 rests on questions without an answer: q8",
        ),
        ({"insights": [*INSIGHTS["insights"], insight("c7", "q1")]}, "belong to no category: c7"),
    ],
)
async def test_an_insight_that_rests_on_nothing_is_named(insights: Work, said: str) -> None:
    assert lacks(await judged(AGENT, "every_category_has_insight", RISE_ABOVE, insights, works=ANSWERED), said)


async def test_the_frontier_is_three_questions_that_nobody_asked() -> None:
    assert (await judged(AGENT, "frontier_mapped", EXPAND, NEXT, works=RISEN)).met


@pytest.mark.parametrize(
    ("adjacent_questions", "said"),
    [
        ({}, "there are 0"),
        (without(NEXT, "adjacent_questions", 0), "there are 2"),
        (change(NEXT, "adjacent_questions", 0, text="how is HONEY sold"), "a3 says the same as a1"),
        (change(NEXT, "adjacent_questions", 0, text=Q1.lower()), "a1 says the same as q1"),
        (change(NEXT, "adjacent_questions", 0, near="c9"), "near nothing in the tree: a1"),
        (change(NEXT, "adjacent_questions", 0, id="q1"), "used twice: q1"),
    ],
)
async def test_a_frontier_that_lacks_something_is_named(adjacent_questions: Work, said: str) -> None:
    assert lacks(await judged(AGENT, "frontier_mapped", EXPAND, adjacent_questions, works=RISEN), said)


# --- the way through --------------------------------------------------------------------------------------------------


async def answering(led: Led) -> JourneyState:
    """Lead to ANSWER."""
    await led.submit(**TREE)
    return await led.decide("approve")


async def rising(led: Led) -> JourneyState:
    await answering(led)
    return await led.submit(**ANSWERS)


async def test_research_goes_from_the_tree_to_the_frontier_and_reports_its_events() -> None:
    async with leading(AGENT) as led:
        state = await led.submit(**TREE)
        assert (state.phase, state.status) == (DECOMPOSE, "waiting")
        with pytest.raises(WaitsForPerson):
            await led.submit(**TREE)
        told = await led.told()
        assert all(part in told for part in (Q1, Q2, Q3, "c2: Summer", "journey_decide", AGENT.questions[DECOMPOSE]))
        assert (await led.decide("approve")).phase == ANSWER
        state = await led.submit(**ANSWERS)
        assert (state.phase, state.status) == (RISE_ABOVE, "active")
        assert state.checkpoint is not None
        assert (state.checkpoint.phase, state.checkpoint.kind) == (ANSWER, "optional")
        assert (await led.submit(**INSIGHTS)).phase == EXPAND
        state = await led.submit(**NEXT)
        assert (state.phase, state.status) == (COMPLETE, "complete")
        events = await led.events()
        with pytest.raises(JourneyOver):
            await led.submit(**NEXT)
        told = await led.told()
    assert [e.question_id for e in events if isinstance(e, QuestionAdded)] == ["q1", "q2", "q3"]
    assert [e.category for e in events if isinstance(e, QuestionAdded)] == ["c1", "c1", "c2"]
    assert [e.source for e in events if isinstance(e, SourceFound)] == ["kb:notes/bees.md", "kb:notes/garden.md"]
    assert [(e.phase, e.kind) for e in events if isinstance(e, CheckpointReached)] == [
        (DECOMPOSE, "blocking"),
        (ANSWER, "optional"),
        (EXPAND, "informational"),
    ]
    assert [e.text for e in events if isinstance(e, Speaking)] == [
        AGENT.questions[p] for p in (DECOMPOSE, ANSWER, EXPAND)
    ]
    assert [e.target for e in events if isinstance(e, PhaseChanged)] == [ANSWER, RISE_ABOVE, EXPAND, COMPLETE]
    assert any(isinstance(e, Completed) for e in events)
    assert all(part in told for part in ("insight c1 (Winter): Feed them.", "next question a3", "Answer:\n", "3 of 3"))


async def test_a_category_found_while_answering_leads_back_and_its_answers_are_kept() -> None:
    async with leading(AGENT) as led:
        await answering(led)
        await led.submit(answers=[answer("q1", WINTER)])
        state = await led.submit("new_category_discovered", answers=[answer("q2", VARROA)], new_categories=[NEW])
        assert (state.phase, state.visit, state.backward_trigger) == (DECOMPOSE, 2, "new_category_discovered")
        told = await led.told()
        assert "You come back to DECOMPOSE, visit 2." in told
        assert "Why: new_category_discovered" in told
        assert "c3: Law; q9 Who has to be asked for bees on a roof?" in told
        assert AGENT.texts["DECOMPOSE"][:60] not in told
        assert next(e.text for e in await led.events() if isinstance(e, Thinking)).startswith("returning to DECOMPOSE")
        assert (await led.submit()).status == "active"
        assert "left_out" in (await led.missing())[0]
        grown = {"categories": [category("c3", "Law")], "questions": [question("q9", "c3", "Who has to be asked?")]}
        assert (await led.submit(**grown)).status == "waiting"
        assert (await led.decide("approve")).phase == ANSWER
        told = await led.told()
        assert "q9 (c3): Who has to be asked?" in told
        assert "q3 (c2)" in told
        assert "q1 (c1): How much" not in told
        assert "answered (2 of 4): q1, q2" in told
        state = await led.submit(answers=[answer("q3", WATER), left_open("q9", "permit roof", "bees law")])
        assert state.phase == RISE_ABOVE
        assert "c3 (Law), nothing was answered: `rests_on` is []" in await led.told()
        await led.submit(**{**INSIGHTS, "insights": [*INSIGHTS["insights"], insight("c3")]})
        assert "left open q9 (c3): Who has to be asked? Searched: permit roof, bees law" in await led.told()


async def test_the_synthesis_asks_for_more_answers_and_uses_them() -> None:
    async with leading(AGENT) as led:
        await rising(led)
        more = question("m1", "c2", "How do bees drink?")
        state = await led.submit(**INSIGHTS, more_questions=[more])
        assert (state.phase, state.visit, state.backward_trigger) == (ANSWER, 2, "synthesis_requires_more_answers")
        assert state.backward_trigger_detail == "m1: How do bees drink?"
        told = await led.told()
        assert "Not answered yet:\n- m1 (c2): How do bees drink?" in told
        assert any(isinstance(e, QuestionAdded) and e.question_id == "m1" for e in await led.events())
        assert (await led.submit(answers=[answer("m1", WATER)])).phase == RISE_ABOVE
        told = await led.told()
        assert "c2 (Summer), answered: m1" in told
        assert "c1 (Winter)," not in told
        state = await led.submit(insights=[insight("c2", "q3", "m1", text="Water and flowers.")])
        assert state.phase == EXPAND
        assert Tree(state.works).insights["c2"]["rests_on"] == ["q3", "m1"]
        assert Tree(state.works).insights["c1"]["rests_on"] == ["q1", "q2"]


async def test_the_synthesis_finds_a_category_missing_which_comes_before_more_answers() -> None:
    async with leading(AGENT) as led:
        await rising(led)
        more = question("m1", "c2", "How do bees drink?")
        state = await led.submit(**INSIGHTS, more_questions=[more], missing_categories=[NEW])
        assert (state.phase, state.backward_trigger) == (DECOMPOSE, "synthesis_reveals_missing_category")
        state = await led.submit(left_out=[{"id": "c3", "why": "the person knows the law"}])
        assert state.status == "waiting"
        assert "left out: c3" in await led.told()
        assert (await led.decide("approve")).phase == ANSWER
        assert (await led.submit(answers=[answer("m1", WATER)])).phase == RISE_ABOVE
        assert (await led.submit()).phase == EXPAND


async def test_a_signal_alone_moves_nothing_and_is_said_not_to_be_confirmed() -> None:
    async with leading(AGENT) as led:
        await answering(led)
        state = await led.submit("new_category_discovered", answers=[answer("q1", WINTER)])
        assert state.phase == ANSWER
        assert (await led.missing())[0].startswith("the signal new_category_discovered is not confirmed")
        await led.submit(answers=[answer("q2", VARROA), answer("q3", WATER)])
        state = await led.submit("synthesis_requires_more_answers", insights=[insight("c1", "q1")])
        assert state.phase == RISE_ABOVE
        assert "the signal synthesis_requires_more_answers is not confirmed" in (await led.missing())[0]


async def test_a_person_may_change_or_refuse_the_tree_and_send_the_coverage_back() -> None:
    async with leading(AGENT) as led:
        await led.submit(**TREE)
        state = await led.decide("reject", "ask about the law, too")
        assert (state.phase, state.status) == (DECOMPOSE, "active")
        told = await led.told()
        assert "the person rejected the submitted work" in told
        assert "ask about the law, too" in told
        await led.submit(**TREE)
        others = [category["id"] for category in TREE["categories"][1:]]
        state = await led.decide("modify", changes={"drop": others})
        assert (state.phase, state.status) == (DECOMPOSE, "active")
        assert "q3" in (await led.missing())[0]
        assert (await led.submit(drop=["q3"])).status == "waiting"
        assert (await led.decide("approve")).phase == ANSWER
        assert (await led.submit(answers=ANSWERS["answers"][:2])).phase == RISE_ABOVE
        state = await led.decide("reject", "one page is not enough")
        assert (state.phase, state.visit, state.backward_trigger) == (ANSWER, 2, "reject")
        told = await led.told()
        assert "one page is not enough" in told
        assert "Not answered yet:\n- none" in told
        state = await led.decide("revisit", "once more", changes={"phase": DECOMPOSE})
        assert (state.phase, state.backward_trigger) == (DECOMPOSE, "revisit")


async def test_two_items_with_one_id_are_refused_and_nothing_is_recorded() -> None:
    async with leading(AGENT) as led:
        with pytest.raises(BadWork, match="two items of 'categories' have the id c1"):
            await led.submit(categories=[category("c1", "Winter"), category("c1", "Summer")])
        with pytest.raises(BadWork, match="must say something"):
            await led.submit(categories=[category("c1", "  ")])
        assert (await led.state()).version == 1


# --- what it costs ----------------------------------------------------------------------------------------------------

LONG = "lengthy words about bees in the winter of the year before last " * 9
LARGE: Work = {
    "categories": [category(f"c{n}", f"Category {n} {LONG}"[:200]) for n in range(8)],
    "questions": [question(f"q{n}", f"c{n % 8}", f"{n} {LONG}"[:590]) for n in range(40)],
}


async def test_every_phase_is_resumed_within_its_budget_however_much_is_on_record() -> None:
    """The design, section 7: resuming a journey costs at most 2,500 tokens."""
    costs = dict[str, int]()
    answers = [answer(f"q{n}", WINTER, VARROA, WATER, text=f"{n}, as q0: main {LONG}" * 3) for n in range(40)]
    more = [question(f"m{n}", f"c{n % 8}", f"more {n} {LONG}"[:590]) for n in range(10)]
    async with leading(AGENT, brief=LONG * 30) as led:

        async def note(at: str) -> None:
            costs[at] = cost(await led.position())

        await note("DECOMPOSE")
        await led.decide("answer", LONG * 3)
        bad = change(LARGE, "questions", 39, category="c9")
        await led.submit(**change(bad, "questions", 38, text=LARGE["questions"][0]["text"]))
        await note("DECOMPOSE with what is missing")
        await led.submit(**LARGE)
        await note("waiting")
        await led.decide("approve")
        await led.decide("answer", LONG * 3)
        await note("ANSWER")
        broken = [answer(f"q{n}", ALTERED, ELSEWHERE, NOWHERE) for n in range(40)]
        await led.submit(answers=broken)
        await note("ANSWER with what is missing")
        proposed = [{**NEW, "id": f"n{n}", "title": f"{n} {LONG}"[:190], "why": LONG[:590]} for n in range(6)]
        await led.submit(answers=answers[:20], new_categories=proposed)
        await note("DECOMPOSE again")
        await led.submit(left_out=[{"id": f"n{n}", "why": LONG[:590]} for n in range(6)])
        await led.decide("approve")
        await led.submit(answers=[*answers[:19], *broken[20:]])
        await note("ANSWER again with what is missing")
        await led.submit(answers=answers)
        await note("RISE_ABOVE")
        await led.submit(insights=[insight(f"c{n}", "q1", text=f"{n} {LONG * 3}") for n in range(8)])
        await note("RISE_ABOVE with what is missing")
        await led.submit(more_questions=more)
        await note("ANSWER again")
        await led.submit(answers=[answer(q["id"], WINTER, text=f"As m0: {WINTER['quote']}") for q in more])
        await note("RISE_ABOVE again")
        await led.submit(insights=[insight(f"c{n}", f"q{n}", text=f"{n} {LONG * 3}") for n in range(8)])
        await note("EXPAND")
        await led.submit(adjacent_questions=[adjacent(f"a{n}", f"next {n} {LONG}"[:590], "c99") for n in range(20)])
        await note("EXPAND with what is missing")
        await led.submit(adjacent_questions=[adjacent(f"a{n}", f"next {n} {LONG}"[:590]) for n in range(20)])
        await note("COMPLETE")
        assert (await led.state()).status == "complete", await led.missing()
    assert max(costs.values()) <= ANSWER_TOKENS, costs


# --- random walks -----------------------------------------------------------------------------------------------------


def good(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return work that leads the journey on from its present state, whatever was recorded."""
    tree = Tree(state.works)
    if state.phase == DECOMPOSE:
        left = [{"id": one["id"], "why": "not wanted"} for one in tree.pending]
        gone = [*(q["id"] for q in tree.items(DECOMPOSE, "questions")), *(c["id"] for c in tree.categories)]
        return [({**TREE, "left_out": left, "drop": gone}, ())]
    if state.phase == ANSWER:
        gone = [id_ for id_ in tree.answers if id_ not in {q["id"] for q in tree.questions}]
        every = ", ".join(q["id"] for q in tree.questions)
        said = f"{WINTER['quote']} The same for all: {every}."
        answers = [answer(q["id"], WINTER, text=f"As to {q['text'].rstrip('?')}: {said}") for q in tree.questions]
        return [({"answers": answers, "drop": gone}, ())]
    if state.phase == RISE_ABOVE:
        gone = [id_ for id_ in tree.insights if id_ not in {c["id"] for c in tree.categories}]
        of = {c["id"]: [q["id"] for q in tree.answered if q["category"] == c["id"]] for c in tree.categories}
        bad = [q["id"] for q in tree.items(RISE_ABOVE, "more_questions") if q["id"] not in tree.answers]
        return [({"insights": [insight(id_, *own) for id_, own in of.items()], "drop": [*gone, *bad]}, ())]
    near = tree.categories[0]["id"]
    return [({"adjacent_questions": [{**q, "near": near} for q in NEXT["adjacent_questions"]]}, ())]


def any_work(state: JourneyState) -> Sequence[tuple[Work, tuple[str, ...]]]:
    """Return what may be submitted in a state: good, half, wrong, and what leads back."""
    more = question(f"m{state.version}", "c1", f"What of {state.version}?")
    new = {**NEW, "id": f"n{state.version}", "title": f"Part {state.version}"}
    some: dict[str, Sequence[tuple[Work, tuple[str, ...]]]] = {
        DECOMPOSE: [
            (TREE, ()),
            (without(TREE, "questions", 2), ("new_category_discovered",)),
            ({"drop": ["q3"]}, ()),
            ({"categories": [category("c3", "Law")], "questions": [question("q9", "c3", "Who allows it?")]}, ()),
        ],
        ANSWER: [
            (ANSWERS, ()),
            ({"answers": [answer("q1", ALTERED)]}, ()),
            ({"answers": [left_open("q2", "a", "b"), answer("m9", WINTER)]}, ()),
            ({"new_categories": [new]}, ("new_category_discovered",)),
            ({}, ("all_questions_answered", "nonsense")),
        ],
        RISE_ABOVE: [
            (INSIGHTS, ()),
            ({**INSIGHTS, "more_questions": [more]}, ()),
            ({"missing_categories": [new]}, ()),
            ({"insights": [insight("c9", "q9")]}, ()),
        ],
        EXPAND: [(NEXT, ()), (without(NEXT, "adjacent_questions", 0), ()), ({"drop": ["a1"]}, ())],
    }
    return [*some[state.phase], *good(state)]


CHOICES = st.lists(st.integers(0, 2**16), max_size=25)


@settings(max_examples=12)
@given(CHOICES)
def test_no_walk_leaves_the_table_or_is_stuck(choices: list[int]) -> None:
    asyncio.run(walk(AGENT, choices, any_work, good))


def test_walks_take_every_way_of_the_table() -> None:
    """Walks that never went back would prove little."""
    assert not asyncio.run(ways_not_taken(AGENT, any_work, good, walks=40))


@pytest.mark.slow
@settings(max_examples=10_000)
@given(CHOICES)
def test_ten_thousand_walks_never_leave_the_table_and_are_never_stuck(choices: list[int]) -> None:
    """10,000 random walks an agent, never outside the table, never without a move."""
    asyncio.run(walk(AGENT, choices, any_work, good))
