"""A question that ends with a task in Plane: the curating agent checks the act against its record."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.doubles.serving import after, no_fault
from tests.support.agents.agent_harness import PAGES, VARROA
from tests.support.hosts.reviewers import reviewing
from tests.support.knowledge_bases.folders import write
from tests.support.plane.hosts import PlaneHost, silent_from, working

TASK = {"project": "KB", "name": "Treat the mites", "description": "As kb:notes/bees.md says."}


@dataclass
class Curating:
    """A journey just before its act."""

    host: PlaneHost
    journey: str

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return await self.host.call(tool, journey_id=self.journey, **arguments)

    async def submit(self, **work: object) -> dict[str, Any]:
        version = (await self.host.call("journey_status", journey_id=self.journey))["version"]
        return await self.call("journey_submit", version=version, work=work)

    async def tool_events(self) -> list[dict[str, Any]]:
        told = await self.host.call("journey_status", journey_id=self.journey, view="events")
        return [event for event in told["events"] if event["type"].startswith("tool.")]


@asynccontextmanager
async def curating(home: Path, level: float) -> AsyncIterator[Curating]:
    """Lead a question to the point where a task is to be made."""
    write(home / "kb", dict(PAGES))
    async with working(home, level=level) as host:
        begun = await host.call("journey_start", agent="curate", brief="Have somebody treat the mites.")
        led = Curating(host, begun["journey_id"])
        await led.submit(question="Why do bees die in winter, and how is that avoided?", mode="discovery")
        await led.call("kb_search", query="why do bees die in winter")
        await led.call("kb_read", path=VARROA["path"])
        await led.submit(evidence=[{"id": "e1", "says": "mites", "citation": VARROA}])
        act = {"kind": "task", "why": "somebody has to do it"}
        there = await led.submit(conclusion="Somebody has to treat them.", rests_on=["e1"], act=act)
        assert there["phase"] == "ACT"
        assert "plane_create_task" in there["allowed_tools"]
        yield led


async def test_an_act_in_plane_is_proven_by_its_tool_and_ends_the_question(tmp_path: Path) -> None:
    async with curating(tmp_path, 4) as led:
        claimed = await led.submit(acts=[{"id": "a1", "tool": "plane_create_task"}])
        assert claimed["phase"] == "ACT"
        assert "is no call of this visit" in claimed["prompt"]
        made = await led.call("plane_create_task", **TASK)
        assert (made["status"], made["key"]) == ("done", "KB-5")
        told = await led.submit(acts=[{"id": "a1", "tool": "plane_create_task"}], said="KB-5 is for it.")
        assert (told["phase"], told["state"]) == ("COMPLETE", "complete")
        began, ended = (await led.tool_events())[-2:]
        assert (began["tool"], began["summary"]) == ("plane_create_task", "KB")
        assert (ended["facts"]["status"], ended["facts"]["key"]) == ("done", "KB-5")
        assert ended["summary"] == "status done, key KB-5"


async def test_a_task_that_waits_for_a_person_holds_the_question_up_until_they_agree(tmp_path: Path) -> None:
    async with curating(tmp_path, 2) as led, reviewing(led.host.settings) as person:
        waits = await led.call("plane_create_task", **TASK)
        deed = {"id": "a1", "tool": "plane_create_task", "proposal": waits["proposal"]["id"]}
        held = await led.submit(acts=[deed])
        assert held["phase"] == "ACT"
        assert "waits for the person's decision" in held["prompt"]
        assert led.host.written == 0
        assert (await person.approve(waits["proposal"]["id"])).state == "executed"
        assert (await led.submit())["state"] == "complete"
        assert led.host.written == 1


async def test_an_act_with_an_unknown_outcome_is_repeated_and_done_once(
    tmp_path: Path,
) -> None:
    async with curating(tmp_path, 4) as led:
        led.host.served.plan = silent_from("POST", "/work-items/", after())
        assert (await led.call("plane_create_task", **TASK))["status"] == "unsure"
        held = await led.submit(acts=[{"id": "a1", "tool": "plane_create_task"}], said="The task is in Plane.")
        assert held["phase"] == "ACT"
        assert "it is not known whether a1 (plane_create_task) was done: call it again" in held["prompt"]
        led.host.served.plan = no_fault
        assert (await led.call("plane_create_task", **TASK))["status"] == "done"
        assert (await led.submit())["state"] == "complete"
        assert [task["name"] for task in led.host.plane.tasks("KB")].count("Treat the mites") == 1
