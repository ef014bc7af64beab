"""Questions, answers, complete responses, feedback, conversations and documents on the review page, without JavaScript."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agents.engine.agent import Agent
from agents.engine.events import StepUsage
from agents.engine.runner import JourneyDecision, Submission
from agents.engine.work.questions import WorkQuestion
from mcp_server.web.journeys.views import field_of
from tests.browser.payloads import PAYLOADS
from tests.contract.web.test_journeys_page import HOST, at, runner, said, state, text_of
from tests.support.agents.inquiry_agent import ASK, DOCUMENT, chained, inquiry
from tests.support.agents.small_agents import Only
from tests.support.web.review_pages import ME, Place, forms, kept

SIX = tuple(name for part in ("clarify", "research", "analyse", "synthesize") for name in (part, f"{part}.memory"))


HIVES, ROOF = (field_of(WorkQuestion(one["id"], one["question"])) for one in ASK["ask"])
BOTH = JourneyDecision("answer", "page", "", {"q1": "Two.", "note": "Ada."})


@pytest.fixture
def agents() -> list[Agent]:
    return [inquiry(), chained(*SIX)]


@pytest.fixture
async def place(tmp_path: Path, agents: list[Agent]) -> AsyncIterator[Place]:
    async with kept(tmp_path, agents=Only(*agents)) as opened:
        yield opened


async def led(place: Place, *works: dict[str, Any], agent: str = "inquiry", journey: str = "") -> str:
    """Continue a journey with these works, each with everything that a host may report."""
    if not journey:
        journey = (await runner(place).start(agent, "bees", {}, by=HOST)).journey
    for work in works:
        spent = Submission(work, ("hint",), StepUsage(1_200, 340, "model-x"), "", 0.75, "it has to be")
        await runner(place).submit(journey, (await state(place, journey)).version, spent, by=HOST)
    return journey


async def test_each_question_has_a_field_whose_text_is_the_answer(place: Place) -> None:
    journey = await led(place, ASK)
    visitor = await at(place, journey)
    found = forms(visitor.html)
    assert set(found[f"/journeys/{journey}/answer"]) == {"csrf", "version", HIVES, ROOF, "note"}
    assert f"/journeys/{journey}/approve" not in found
    shown = text_of(visitor.html)
    assert "How many hives are there? the plan is made per hive" in shown
    assert "Who may enter the roof? somebody has to do it" in shown
    await visitor.send(f"/journeys/{journey}/answer", note="soon", **{HIVES: "Two.", ROOF: "Ada,\r\non Fridays."})
    assert visitor.status == 200
    kept_now = await state(place, journey)
    assert (kept_now.phase, kept_now.status) == ("WRITE", "active")
    assert {id_: one["answer"] for id_, one in kept_now.answers["ASK"].items()} == {
        "q1": "Two.",
        "note": "Ada,\non Fridays.",
    }
    assert await said(place, journey) == [("answer", "page", "soon", ME)]
    assert "Answers from people" in visitor.html
    assert f"/journeys/{journey}/answer" in forms(visitor.html), "a word may be said at any time again"


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({}, "say something"),
        ({HIVES: " "}, "say something"),
        ({HIVES: "Two."}, "not answered yet: note: Who may enter the roof?"),
    ],
)
async def test_an_open_question_keeps_it_waiting_and_nothing_that_was_typed_is_lost(
    place: Place, typed: dict[str, str], says: str
) -> None:
    journey = await led(place, ASK)
    visitor = await at(place, journey)
    await visitor.send(f"/journeys/{journey}/answer", **typed)
    assert visitor.status in (409, 422)
    assert says in text_of(visitor.html)
    assert forms(visitor.html)[f"/journeys/{journey}/answer"][HIVES] == typed.get(HIVES, "")
    assert (await state(place, journey)).answers == {}
    assert (await state(place, journey)).status == "waiting"


def test_no_two_questions_have_one_field() -> None:
    """The page updates while someone types."""
    others = [WorkQuestion("q1", "How many?"), WorkQuestion("q1", "How old?"), WorkQuestion("q2", "How many?")]
    assert len({field_of(one) for one in others}) == 3
    assert field_of(WorkQuestion("q1", "How many?", "so")) == field_of(others[0])


async def test_an_answer_to_closed_questions_has_no_effect(place: Place) -> None:
    journey = await led(place, ASK)
    visitor, other = await at(place, journey), await at(place, journey)
    await other.send(f"/journeys/{journey}/answer", note="none of it is known")
    await visitor.send(f"/journeys/{journey}/answer", **{HIVES: "Two.", ROOF: "Ada."})
    assert visitor.status == 409
    assert "The journey has changed" in visitor.html
    assert (await state(place, journey)).answers["ASK"]["q1"]["answer"] != "Two."


async def test_the_response_is_shown_whole_with_feedback_by_its_kind_conversations_and_documents(place: Place) -> None:
    """Typed feedback, and every agent's complete response."""
    journey = await led(
        place,
        {"known": ["bees"]},
        {"document": DOCUMENT},
        {"score": 70, "issues": ["say which hive"]},
        {"document": DOCUMENT + "Left.\n"},
        {"score": 10, "issues": ["these are wasps"]},
    )
    html = (await at(place, journey)).html
    shown = text_of(html)
    for words in (
        "model model-x",
        "tokens 1,200 in, 340 out",
        "confidence 0.75",
        "reasoning it has to be",
        "signals hint",
        "Soft failures 1 say which hive in JUDGE , version 4",
        "Hard failures 1 these are wasps in JUDGE , version 6",
        "Memory of inquiry # Inquiry Agent Output: bees",
        "LOOK automatic",
        "The server ran LOOK , visit 1 .",
    ):
        assert words in shown, words
    now = await state(place, journey)
    assert f"conversation {now.conversation}" in shown
    assert "conversations all start again" in shown
    assert html.count("current</span>") == 1


async def test_any_version_is_shown_as_it_was_without_decisions(place: Place) -> None:
    """Complete checkpoints."""
    journey = await led(place, ASK)
    await runner(place).decide(journey, 2, BOTH, by=HOST)
    await led(place, {"document": DOCUMENT}, journey=journey)
    visitor = await at(place, journey)
    assert f'href="/journeys/{journey}?at=2"' in visitor.html
    html = await visitor.look(f"/journeys/{journey}?at=2")
    shown = text_of(html)
    assert "You are viewing version 2. The journey is now at version 4" in shown
    assert "Ada." not in shown
    assert "Memory documents" not in shown
    assert [form for form in forms(html) if journey in form] == []
    assert (await visitor.look(f"/journeys/{journey}?at=4")).count("You are viewing version") == 0
    assert (await visitor.look(f"/journeys/{journey}?at=x")).count("You are viewing version") == 0
    await visitor.look(f"/journeys/{journey}?at=9")
    assert visitor.status == 404
    assert "has no version 9; it has 1 to 4" in visitor.html


async def test_a_chain_is_drawn_as_its_parts_and_the_present_one_phase_by_phase(place: Place) -> None:
    journey = await led(place, {"known": ["x"]}, agent="chain")
    html = (await at(place, journey)).html
    assert html.count('class="graph graph-wide"') == 2
    shown = text_of(html)
    assert "Inside clarify" in shown
    assert "Transitions between parts" in shown
    assert "clarify → clarify.memory : passed" in shown
    assert len(html) < 200_000


async def test_hostile_questions_answers_and_documents_are_shown_inert(place: Place) -> None:
    for payload in PAYLOADS[::23]:
        bad = payload[:400]
        ask = {"ask": [{"id": bad[:60] or "x", "question": bad or "x", "why": bad}]}
        journey = await led(place, ask)
        visitor = await at(place, journey)
        field = field_of(WorkQuestion(str(ask["ask"][0]["id"]), str(ask["ask"][0]["question"])))
        await visitor.send(f"/journeys/{journey}/answer", **{field: bad.strip() or "x"})
        assert visitor.status == 200
        await led(place, {"document": f"{bad} and more than ten"}, {"score": 1, "issues": [bad]}, journey=journey)
        for address in (f"/journeys/{journey}", f"/journeys/{journey}?at=2&whole=1"):
            html = await visitor.look(address)
            assert visitor.status == 200
            assert not any(f"<{tag}" in html.partition("<main")[2] for tag in ("script", "img", "iframe", "style"))
