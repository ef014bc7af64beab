"""A journey repeated from one of its versions: the same acts lead the same way, and differences are reported."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given as cases
from hypothesis import strategies as st

from agents.engine.agent import Agent, ConditionFinding, Look, SubmitFacts
from agents.engine.events import canonical
from agents.engine.progress.rerun import RepeatedStep, RerunOutcome, RerunStep, check_fork, given, repeat, steps_after
from agents.engine.runner import AT_VERSION, FORK_OF, JourneyDecision, Submission
from agents.engine.work.form import joined
from agents.errors import BadStart
from tests.support.agents.agent_harness import Led, Pages, leading, runner_of
from tests.support.agents.inquiry_agent import ASK, DOCUMENT, inquiry
from tests.support.agents.small_agents import noting
from tests.support.journeys.graphs import ADA

ITEM = st.builds(lambda id_, text: {"id": id_, "text": text}, st.sampled_from("abcd"), st.sampled_from(["x", "y"]))
ITEMS = st.lists(ITEM, max_size=4, unique_by=lambda item: str(item["id"]))
WORK = st.fixed_dictionaries(
    {}, optional={"notes": ITEMS, "plain": st.lists(st.integers(0, 3), max_size=3), "text": st.text(max_size=3)}
)


@cases(WORK, WORK, st.lists(st.sampled_from("abcd"), max_size=2))
def test_the_submitted_fields_are_found_so_that_they_make_the_same_work_again(
    before: dict[str, Any], new: dict[str, Any], dropped: list[str]
) -> None:
    whole = joined(before, {**new, "drop": dropped} if dropped else new, frozenset())
    told = given(before, whole, frozenset())
    assert joined(before, told, frozenset()) == whole
    assert len(canonical(told)) <= len(canonical({**whole, "drop": list("abcd")}))


def test_fields_of_one_submit_are_given_again() -> None:
    assert given({"text": "a", "lacks": "x"}, {"text": "a", "lacks": "x"}, frozenset({"lacks"})) == {"lacks": "x"}
    assert given(None, {"text": "a"}, frozenset()) == {"text": "a"}


async def whole_way(led: Led) -> None:
    await led.submit(**ASK)
    await led.decide("answer", changes={"q1": "Two.", "note": "Ada."})
    await led.submit("soft", document=DOCUMENT)
    await led.submit(score=70, issues=["say which hive"])
    await led.submit(document=DOCUMENT + "The left one.\n")
    await led.decide("revisit", "not those bees", changes={"phase": "ASK"})
    await led.submit(known=["these bees"])
    await led.submit(document=DOCUMENT + "These.\n")
    await led.submit(score=90)


async def acts(led: Led, version: int) -> list[RerunStep]:
    here = await led.position()
    return list(steps_after(await led.runner.store.events(led.journey), version, here.agent))


async def repeated(led: Led, version: int, agent: Agent | None = None, look: Pages | None = None) -> list[RepeatedStep]:
    """Repeat, with that agent, what came after a version."""
    runner = led.runner if agent is None else runner_of(agent, led.runner.store, look or led.look)
    fork = await led.runner.start("", "", {FORK_OF: led.journey, AT_VERSION: version}, by=ADA)
    return [
        one
        async for one in repeat(
            runner, fork.journey, await acts(led, version), by="bob@vscode", person="ann", channel="page"
        )
    ]


@pytest.mark.parametrize("version", [1, 2, 3, 5, 9])
async def test_from_every_version_the_same_acts_lead_the_same_way(version: int) -> None:
    """Stepwise re-execution from any of the checkpoints."""
    async with leading(inquiry()) as led:
        await whole_way(led)
        done = await repeated(led, version)
        assert [one.step.version for one in done] == list(range(version + 1, 11))
        assert all(one.same and not one.remarks for one in done), [one for one in done if not one.same]
        first, last = await led.state(), await led.runner.store.journeys(limit=1)
        state = await led.runner.store.journey(last[0].id)
        assert (state.status, state.phase) == ("complete", "DONE")
        assert {phase: work.content for phase, work in state.work.items()} == {
            phase: work.content for phase, work in first.work.items()
        }
        assert state.answers == first.answers


async def test_acts_are_those_of_hosts_and_people_with_their_results() -> None:
    async with leading(inquiry()) as led:
        await whole_way(led)
        told = await acts(led, 1)
        assert [one.name for one in told] == [
            "submit",
            "answer",
            "submit",
            "submit",
            "submit",
            "revisit",
            "submit",
            "submit",
            "submit",
        ]
        answer, document, back = told[1].act, told[2].act, told[5].act
        assert isinstance(answer, JourneyDecision)
        assert answer.changes == {"q1": "Two.", "note": "Ada."}
        assert isinstance(document, Submission)
        assert (document.work, document.signals) == ({"document": DOCUMENT}, ("soft",))
        assert isinstance(back, JourneyDecision)
        assert (back.note, back.changes) == ("not those bees", {"phase": "ASK"})
        assert str(told[1].outcome) == "ASK -> WRITE (open_questions), active"
        assert str(told[0].outcome) == "ASK, waiting"


async def test_where_conditions_are_others_today_the_first_difference_is_the_last_step() -> None:
    async def strict(facts: SubmitFacts, _look: Look) -> ConditionFinding:
        return ConditionFinding(int(facts.work.get("score", 0)) >= 95, ("a score of 95 passes",))

    now = inquiry()
    stricter = replace(now, conditions={**now.conditions, "passed": strict})
    async with leading(now) as led:
        await whole_way(led)
        done = await repeated(led, 8, stricter)
        assert [(one.step.version, one.same) for one in done] == [(9, True), (10, False)]
        assert done[-1].now == RerunOutcome("active", "JUDGE")
        assert done[-1].step.outcome == RerunOutcome("complete", "DONE", (("JUDGE", "DONE", "passed"),))
        assert "missing now: a score of 95 passes" in done[-1].remarks


async def test_work_that_is_refused_today_ends_it_with_the_reason() -> None:
    now = inquiry()
    narrow = replace(now, forms={**now.forms, "WRITE": now.forms["JUDGE"]})
    async with leading(now) as led:
        await whole_way(led)
        done = await repeated(led, 1, narrow)
        assert [one.same for one in done] == [True, True, False]
        assert done[-1].now is None
        assert "the work for WRITE is not valid" in done[-1].refused


async def test_automatic_findings_may_differ_now() -> None:
    look = Pages()
    now = inquiry()
    graph = now.graph
    ways = tuple(replace(way, target="LOOK") if way.condition == "hard" else way for way in graph.transitions)
    looking = replace(now, graph=replace(graph, transitions=ways))
    async with leading(looking, look=look, pages=["plans/honey.md"]) as led:
        await led.submit(known=["x"])
        await led.submit(document=DOCUMENT)
        await led.submit(score=1)
        done = await repeated(led, 3, looking, Pages(texts={}))
        assert [one.same for one in done] == [True]
        assert done[0].remarks == ("what the server found in LOOK is different now",)


async def test_a_word_that_needs_the_person_s_own_hand_is_not_relayed() -> None:
    async with leading(noting(own_hand=True)) as led:
        await led.submit(notes=[{"id": "1", "text": "a"}, {"id": "2", "text": "b"}])
        await led.decide("approve")
        fork = await led.runner.start("", "", {FORK_OF: led.journey, AT_VERSION: 2}, by=ADA)
        told = repeat(led.runner, fork.journey, await acts(led, 2), by=ADA, person="ann", channel="relayed")
        done = [one async for one in told]
        assert [one.now for one in done] == [None]
        assert "only the person can decide" in done[0].refused


async def test_only_an_early_enough_fork_of_the_journey_is_continued() -> None:
    async with leading(inquiry()) as led:
        await whole_way(led)
        fork = await led.runner.start("", "", {FORK_OF: led.journey, AT_VERSION: 4}, by=ADA)
        check_fork(led.journey, 4, fork.state, fork.journey)
        check_fork(led.journey, 7, fork.state, fork.journey)
        with pytest.raises(BadStart, match="at version 4, after version 3"):
            check_fork(led.journey, 3, fork.state, fork.journey)
        with pytest.raises(BadStart, match="was not forked from"):
            check_fork(led.journey, 4, await led.state(), led.journey)
