"""Work that the server does from the record: memory documents around a judgement, and steps that follow from earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.engine.runner import Submission
from agents.engine.state import JourneyState, RecordedWork
from agents.library.cognitive import library
from agents.library.cognitive.agent import alone, as_agent
from agents.library.cognitive.library import cognitive
from agents.library.cognitive.phases.last_phases import completed, expected
from agents.library.cognitive.phases.memory_document import digest, problems, section
from agents.library.cognitive.setting import ALONE
from tests.support.agents.agent_harness import Led, leading
from tests.support.agents.cognitive.scripts import clarification, memory
from tests.support.agents.cognitive.scripts.shared import CLOSING
from tests.support.journeys.graphs import ADA

BRIEF = "Keep bees on the roof."
KNOWN = {"acknowledge": ["The roof belongs to the house."]}
CLEAR: Mapping[str, Mapping[str, Any]] = {
    "JOHARI_DISCOVERY": KNOWN,
    "READ": clarification.READ,
    "DOUBT": clarification.DOUBT,
    "ASK": {
        "questions": [],
        "assumptions": [
            {"id": "a1", "about": "u1", "text": "Two hives at most.", "because": "more would frighten the neighbours"},
            {"id": "a2", "about": "u2", "text": "Honey bees are meant.", "because": "honey is spoken of"},
        ],
    },
}
"""Works of a clarification that asks the person nothing."""
NOW = datetime(2026, 11, 26, tzinfo=UTC)


# --- memory documents -------------------------------------------------------------------------------------------------


async def test_the_document_has_what_the_steps_recorded_and_the_judgement() -> None:
    agent = as_agent(cognitive("clarification"))
    async with leading(agent, brief=BRIEF, constraints=["Nobody is stung."]) as led:
        await _until_closing(led)
        state = await led.submit(**CLOSING)
        assert state.status == "complete"
        kept = state.work["CLOSING"].content
        document = kept["document"]
        assert {name: kept[name] for name in CLOSING} == CLOSING
        assert agent.documents(state) == {"clarification": document}
        assert f"- Task: {led.journey}" in document
        assert "- Inputs: constraints" in document
        assert "READ goal: The town has honey" in section(document, "Step Overview")
        assert "SETTLE: nothing to record" in section(document, "Step Overview")
        assert "Known knowns (2): The recorded steps were done" in section(document, "Johari Summary")
        assert "how windy the roof is in March (nobody measured it)" in section(document, "Johari Summary")
        told = digest(document)
        assert told.startswith("### Downstream Directives\n- Set up the hive on the south side in April.")
        assert "SPECIFY requirements: r1: Two hives stand" in told
        assert "READ goal" not in told, "the next agent needs the result"


SPECIFIED: Mapping[str, Any] = {
    "goal": "Two hives live through the winter.",
    "requirements": [
        {"id": "r1", "text": "Two hives stand on the roof.", "from": ["p1", "a1"], "test": "Count them in May: two."},
        {"id": "r2", "text": "Honey bees live there.", "from": ["a2"], "test": "A beekeeper looks and names them."},
    ],
    "left_out": [],
}


async def _until_closing(led: Led) -> None:
    given = [{"id": "p2", "words": "Nobody is stung.", "means": "a fence"}] if (await led.state()).inputs else []
    read = {**clarification.READ, "points": [*clarification.READ["points"], *given]}
    for work in ({**CLEAR, "READ": read}).values():
        await led.submit(**work)
    kept = [{"id": "r3", "text": "A fence is up.", "from": ["p2"], "test": "Somebody looks for it."}] if given else []
    await led.submit(**{**SPECIFIED, "requirements": [*SPECIFIED["requirements"], *kept]})
    assert (await led.state()).phase == "CLOSING", await led.missing()


def test_no_field_of_a_step_has_the_name_of_another_step() -> None:
    """A line of a document is `STEP field: text`; after the step's own name another one would end its result."""
    for name in library.names():
        agent = cognitive(name)
        for step in agent.own_steps:
            others = {one.casefold() for one in agent.own_steps if one != step}
            assert others.isdisjoint(agent.own.forms[step].schema["properties"]), (name, step)


@pytest.mark.parametrize("name", ["memory", "analysis"])
@settings(max_examples=12)
@given(data=st.data())
def test_whatever_was_recorded_the_document_is_sound(name: str, data: st.DataObject) -> None:
    """Texts that look like headings, fences, rules, comments, labels and names of steps."""
    agent = cognitive(name)
    odd = (
        "# x",
        "## Section 2: Johari Summary",
        "```",
        "~~~",
        "---",
        "<!--",
        "> a",
        "known unknowns",
        "**",
        *agent.steps,
    )
    texts = st.one_of(st.sampled_from(odd), st.text(min_size=1, max_size=12))
    said = texts.filter(lambda text: any(map(str.isalnum, text)))
    values = st.one_of(texts, st.lists(texts, max_size=14), st.lists(st.fixed_dictionaries({"id": texts}), max_size=3))
    works: dict[str, Any] = {
        step: data.draw(st.dictionaries(st.sampled_from(("worth", "text", "items")), values))
        for step in agent.own_steps
    }
    state = _closing_state(data.draw(texts), works, data.draw(st.lists(texts, max_size=3)))
    judged = {"firm": [data.draw(said)], "directives": [data.draw(said)], "surprises": data.draw(st.lists(texts))}
    document = str(completed(agent, ALONE, state, judged)["document"])
    assert problems(document, expected(agent, ["task-1"])) == []


def _closing_state(brief: str, works: Mapping[str, Any], known: list[str]) -> JourneyState:
    all_works = {**works, "LEARNING_INJECTION": {"task": "task-1"}, "JOHARI_DISCOVERY": {"share": known}}
    return JourneyState(
        "x",
        brief,
        {},
        ADA,
        "CLOSING",
        9,
        9,
        "active",
        {"CLOSING": 1},
        {},
        NOW,
        NOW,
        NOW,
        work={phase: RecordedWork(1, 1, 1, work) for phase, work in all_works.items()},
    )


# --- steps that follow ------------------------------------------------------------------------------------------------


async def test_nothing_is_settled_by_a_host_if_nothing_was_asked() -> None:
    async with leading(as_agent(cognitive("clarification")), brief=BRIEF) as led:
        for work in CLEAR.values():
            await led.submit(**work)
        state = await led.state()
        assert state.phase == "SPECIFY"
        settled = state.work["SETTLE"]
        assert (settled.content, settled.automatic) == ({"settled": []}, True)
        assert state.metrics["SETTLE"].submits == 0


async def test_a_host_s_own_work_for_the_step_in_the_same_submission_comes_first() -> None:
    async with leading(as_agent(cognitive("clarification")), brief=BRIEF) as led:
        works = {**CLEAR, "SETTLE": {"settled": []}, "SPECIFY": SPECIFIED, "CLOSING": CLOSING}
        recorded = (await led.runner.submit(led.journey, 1, Submission(works), by=ADA)).recorded_now
        assert recorded is not None
        assert recorded.phases == tuple(works)
        assert not (await led.state()).work["SETTLE"].automatic


async def test_a_step_to_which_a_person_sends_the_work_back_is_the_hosts() -> None:
    async with leading(as_agent(cognitive("clarification")), brief=BRIEF) as led:
        for work in CLEAR.values():
            await led.submit(**work)
        state = await led.decide("revisit", "settle how many first", changes={"phase": "SETTLE"})
        assert state.phase == "SETTLE"
        assert (await led.submit(settled=[])).phase == "SPECIFY"


async def test_the_memory_agent_begins_with_the_document_read_and_keeps_nothing_if_nothing_was_learned() -> None:
    agent = alone(cognitive("clarification"), cognitive("memory"))
    async with leading(agent, brief=BRIEF) as led:
        await _until_closing(led)
        state = await led.submit(**CLOSING)
        assert state.phase == "memory.GOAL"
        assert state.conversation.startswith("memory_iter1_")
        assert state.work["memory.JOHARI_DISCOVERY"].automatic
        says = state.work["memory.OUTPUT"].content["says"]
        assert says[0] == {"id": "s1", "words": "Set up the hive on the south side in April."}
        assert says[-1]["words"].startswith("SPECIFY requirements: r2: Honey bees live there.")
        await led.submit(**memory.WORKS["GOAL"])
        state = await led.submit(learned=[], none_because="all of it is known")
        assert state.phase == "memory.GAPS"
        assert state.work["memory.PROPOSE"].content == {"none_because": "all of it is known"}


async def test_a_statement_that_the_server_did_not_take_is_added_by_the_host() -> None:
    agent = alone(cognitive("clarification"), cognitive("memory"))
    async with leading(agent, brief=BRIEF) as led:
        await _until_closing(led)
        await led.submit(**CLOSING)
        missed = {"id": "s9", "words": "somebody who looks after the bees"}
        assert (await led.submit(missed=missed)).phase == "memory.OUTPUT", await led.missing()
        assert (await led.submit(says=[missed])).phase == "memory.GOAL"
        state = await led.state()
        assert [one["id"] for one in state.work["memory.OUTPUT"].content["says"]][-1] == "s9"


async def test_a_journey_of_an_older_version_that_is_in_the_discovery_is_continued_there() -> None:
    agent = alone(cognitive("clarification"), cognitive("memory"))
    async with leading(agent, brief=BRIEF) as led:
        await _until_closing(led)
        await led.submit(**CLOSING)
        state = await led.decide("revisit", changes={"phase": "memory.JOHARI_DISCOVERY"})
        assert state.phase == "memory.JOHARI_DISCOVERY"
        assert (await led.submit(**KNOWN)).phase == "memory.GOAL", "and what follows is done by the server again"
