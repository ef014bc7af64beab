"""Where a cognitive agent halts, and the message that its host gets then."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agents.catalogue import built_in
from agents.library.cognitive.library import cognitive
from agents.library.cognitive.phases.last_phases import expected
from mcp_server.app.settings.settings import Settings
from tests.contract.protocol.test_server import in_memory
from tests.support.agents.agent_harness import PAGES
from tests.support.agents.cognitive.cast import Cast, acts
from tests.support.agents.cognitive.documents import whole
from tests.support.agents.cognitive.host import costs
from tests.support.hosts.writers import Refused, let_in
from tests.support.journeys.cited_pages import read_cited
from tests.support.journeys.hosts import SdkHost
from tests.support.knowledge_bases.folders import write

JOHARI: Mapping[str, Any] = {"share": ["Bees fly in March."], "acknowledge": [], "explore": []}


@asynccontextmanager
async def hosting(folder: Path) -> AsyncIterator[SdkHost]:
    settings = Settings(kb=write(folder / "kb", dict(PAGES)), state_dir=folder / "state")
    async with in_memory(await let_in(settings, "scripted", 3.0), "auto") as client:
        yield SdkHost(client)


async def begun(host: SdkHost, agent: str, **inputs: Any) -> dict[str, Any]:
    return await host.call("journey_start", agent=agent, brief="Keep bees on the roof.", inputs=inputs)


async def submitted(host: SdkHost, told: Mapping[str, Any], work: Mapping[str, Any]) -> dict[str, Any]:
    return await host.call("journey_submit", journey_id=told["journey_id"], version=told["version"], work=dict(work))


async def decided(host: SdkHost, told: Mapping[str, Any], decision: str, **more: Any) -> dict[str, Any]:
    return await host.call(
        "journey_decide", journey_id=told["journey_id"], version=told["version"], decision=decision, **more
    )


async def refusal(host: SdkHost, told: Mapping[str, Any], work: Mapping[str, Any]) -> str:
    with pytest.raises(Refused) as refused:
        await submitted(host, told, work)
    again = await host.call("journey_status", journey_id=told["journey_id"])
    assert again["version"] == told["version"], "nothing was recorded"
    return str(refused.value)


async def until(host: SdkHost, told: dict[str, Any], agent: str, phase: str) -> dict[str, Any]:
    """Lead the journey by its scripts to that phase."""
    while (before := told["phase"]) != phase:
        for act in acts(Cast.alone(agent), told, {}):
            if act.kind == "call":
                rest = {name: value for name, value in act.content.items() if name != "tool"}
                await host.call(act.content["tool"], journey_id=told["journey_id"], **rest)
            else:
                await read_cited(host.call, told, act.content)
                told = await submitted(host, told, act.content)
        assert told["phase"] != before, told["prompt"]
    return told


async def test_it_waits_until_the_person_has_answered_every_question(tmp_path: Path) -> None:
    """Their document: if there are clarifying questions, the agent halts before step 2."""
    questions = [
        {"id": "q1", "question": "How many hives?", "why": "the roof bears two"},
        {"id": "q2", "question": "Who lives below?", "why": "they may be stung"},
    ]
    async with hosting(tmp_path) as host:
        told = await submitted(host, await begun(host, "analysis"), {**JOHARI, "ask": questions})
        assert (told["state"], told["phase"]) == ("waiting", "JOHARI_DISCOVERY")
        assert [one["id"] for one in told["checkpoint"]["questions"]] == ["q1", "q2"]
        assert "How many hives?" in told["prompt"]
        assert "Never answer yourself" in told["prompt"]
        assert told["allowed_tools"] == []

        assert "waits for a person's decision on JOHARI_DISCOVERY; ask them" in await refusal(host, told, JOHARI)
        with pytest.raises(Refused, match="questions: answer them"):
            await decided(host, told, "approve")
        with pytest.raises(Refused, match="not answered yet: q2: Who lives below"):
            await decided(host, told, "answer", changes={"q1": "Two."})
        with pytest.raises(Refused, match="no question 'q9'; the open ones are q1, q2"):
            await decided(host, told, "answer", changes={"q1": "Two.", "q2": "Nobody.", "q9": "Yes."})

        told = await decided(host, told, "answer", changes={"q1": "Two.", "q2": "Nobody."})
        assert (told["state"], told["phase"]) == ("active", built_in("analysis").graph.phases[3].name)
        assert "How many hives? -> Two." in told["prompt"]


async def test_without_a_sound_memory_document_it_is_not_complete(tmp_path: Path) -> None:
    """Their document: the memory file must exist before completion succeeds."""
    async with hosting(tmp_path) as host:
        told = await until(host, await begun(host, "validation"), "validation", "CLOSING")
        document = whole(expected(cognitive("validation"), [told["journey_id"]]))
        empty = await submitted(host, told, {})
        assert "in `not_firm` what is not" in empty["prompt"]
        told = empty
        short = await submitted(host, told, {"document": document.replace("## Section 2: Johari Summary", "## Else")})
        assert (short["phase"], short["state"]) == ("CLOSING", "active")
        assert "Johari Summary" in short["prompt"]
        open_ended = await submitted(host, short, {"document": document.replace("**VALIDATION_COMPLETE**", "")})
        assert "**VALIDATION_COMPLETE**" in open_ended["prompt"]

        done = await submitted(host, open_ended, {"document": document})
        assert done["phase"] == "memory.GOAL"
        assert done["agent"] == "validation"


async def test_no_step_can_be_taken_before_its_turn(tmp_path: Path) -> None:
    """Their document: the mandatory steps are listed at the start, and none can be skipped."""
    async with hosting(tmp_path) as host:
        told = await begun(host, "validation")
        steps = built_in("validation").profile["steps"]
        assert len(steps) == 6
        assert all(step in told["prompt"] for step in steps)
        ahead = acts(Cast.alone("validation"), {**told, "phase": "CRITERIA"}, {})[-1].content
        said = await refusal(host, told, ahead)
        assert "looks like work for CRITERIA, but the journey is in JOHARI_DISCOVERY: no phase can be skipped" in said


async def test_over_budget_input_is_trimmed_and_over_budget_output_refused(tmp_path: Path) -> None:
    """Their document: a table of budgets and of the sections that are kept first."""
    long = "The wall on the south side is warm from noon on, and nobody walks there. "
    async with hosting(tmp_path) as host:
        begins = await begun(host, "memory", findings=long * 60, constraints=[long * 2] * 20)
        # The first answer also says what the agent will cost.
        told = await host.call("journey_status", journey_id=begins["journey_id"])
        assert costs(told) <= 1_500
        assert "Context budget" in told["prompt"]
        assert "left out" in told["prompt"] or "cut" in told["prompt"]
        assert "Task Instructions" in told["prompt"], "what is to be done is never trimmed"

        said = await refusal(host, told, {**JOHARI, "share": [f"{n} {long * 4}" for n in range(12)]})
        assert "its output budget is 800" in said
        assert "most of it is in share" in said
