"""Every agent, through each of its transitions, with a real client over stdio and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent, TextResourceContents

from agents.catalogue import built_in, main_entries
from agents.engine.state import get_state, restore_state
from knowledge.tokens import count_tokens
from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver
from tests.contract.protocol.test_server import over_http, over_stdio
from tests.support.agents.agent_harness import PAGES
from tests.support.agents.transition_scripts import SCRIPTS, Script, Step
from tests.support.hosts.writers import let_in
from tests.support.journeys.cited_pages import read_cited
from tests.support.knowledge_bases.folders import write

RESUMING_TOKENS = 2_500


@dataclass
class Led:
    """A journey led by a client, and the answers of its tools."""

    client: Client
    settings: Settings
    journey: str = ""
    answers: dict[str, Any] = field(default_factory=dict)

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        assert isinstance(result.content[0], TextContent)
        assert not result.is_error, (tool, arguments, result.content[0].text)
        self.answers[tool] = result.structured_content or {}
        return dict(result.structured_content or {})

    async def status(self, **more: Any) -> dict[str, Any]:
        return await self.call("journey_status", journey_id=self.journey, **more)

    async def make(self, step: Step) -> dict[str, Any]:
        """Make the step at the newest version and return the state after it."""
        content, told = self.filled(step.content), await self.status()
        here = {"journey_id": self.journey, "version": told["version"]}
        if step.kind == "submit":
            await read_cited(self.call, told, content)
            return await self.call("journey_submit", **here, work=content, signals=list(step.signals))
        if step.kind == "decide":
            return await self.call("journey_decide", **here, **content)
        if step.kind == "call":
            await self.call(content.pop("tool"), journey_id=self.journey, **content)
        else:
            await self.decide_proposal(step.kind, content["note"])
        return await self.status()

    async def decide_proposal(self, word: str, note: str) -> None:
        """Decide about the last merge's proposal in another process, as a person does."""
        waiting = self.answers["kb_merge"]["proposal"]["id"]
        async with open_app(self.settings, indexing=False, announcing=False) as app:
            proposal = await app.services.state.trust.proposal(waiting)
            assert proposal is not None
            decide = app.approvals.approve if word == "approve_proposal" else app.approvals.reject
            await decide(proposal.id, proposal.hash, Approver("ann", "page"), note)

    def filled(self, value: Any) -> Any:
        """Return the value with `$tool.field` replaced by that tool's last answer."""
        if isinstance(value, str) and value.startswith("$"):
            tool, *path = value[1:].split(".")
            found: Any = self.answers[tool]
            for name in path:
                found = found[name]
            return found
        if isinstance(value, Mapping):
            return {name: self.filled(inside) for name, inside in value.items()}
        return [self.filled(inside) for inside in value] if isinstance(value, list | tuple) else value


def test_the_scripts_take_every_transition_of_every_agent() -> None:
    for entry in main_entries():
        table = {(t.source, t.target, t.condition) for t in built_in(entry.name).graph.transitions}
        taken = {way for script in SCRIPTS if script.agent == entry.name for way in script.takes}
        assert table <= taken, (entry.name, table - taken)


@pytest.mark.external
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_leads_every_agent_through_every_transition(tmp_path: Path, transport: str) -> None:
    """Transitions, re-entry wording, decisions, state round-trip and events, through a real client."""
    settings = Settings(kb=write(tmp_path / "kb", dict(PAGES)), state_dir=tmp_path / "state")
    for level in sorted({script.level for script in SCRIPTS}):
        allowed = await let_in(settings, f"host{level}", level)
        connecting = over_stdio(allowed, "auto") if transport == "stdio" else over_http(allowed, "legacy")
        async with connecting as client:
            for script in SCRIPTS:
                if script.level == level:
                    await lead(Led(client, allowed), script)


async def lead(led: Led, script: Script) -> None:
    begun = await led.call("journey_start", agent=script.agent, brief=script.brief, inputs=dict(script.inputs))
    led.journey = begun["journey_id"]
    for number, step in enumerate(script.steps):
        told = await led.make(step)
        at = (script.agent, number, step.content, told["prompt"])
        assert (told["phase"], told["state"]) == (step.phase, step.state), at
        for words in step.says:
            assert words in told["prompt"], (words, at)
        resumed = await led.status()
        assert count_tokens(json.dumps(resumed, ensure_ascii=False)) <= RESUMING_TOKENS, at
    await look_back(led, script)


async def look_back(led: Led, script: Script) -> None:
    """Check the record against what was done.

    The events in order, the state's round trip through JSON, the report, the graph.
    """
    state = await resource(led.client, f"journey://{led.journey}")
    form = state["state"] if "state" in state and isinstance(state["state"], dict) else state
    assert get_state(restore_state(form)) == form
    events = await all_events(led)
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    versions = [event["version"] for event in events]
    assert versions == sorted(versions)
    assert set(versions) == set(range(1, versions[-1] + 1))
    changes = [(e["source"], e["target"], e["reason"]) for e in events if e["type"] == "phase.changed"]
    assert changes == list(script.takes)
    for event, following in pairwise(events):
        if event["type"] == "phase.changed" and event["is_backward"]:
            assert any(e["type"] == "agent.thinking" and e["version"] == event["version"] for e in events), (
                "who comes back says so"
            )
        if event["type"] == "tool.start":
            assert following["type"] in ("tool.success", "tool.error", "tool.start")
    types = [event["type"] for event in events]
    assert types[0] == "journey.started"
    assert types.count("agent.complete") == 1
    graph = (await led.status(view="graph"))["text"]
    assert all(phase.name in graph for phase in built_in(script.agent).graph.phases)
    report = (await led.status(view="report"))["text"]
    assert script.brief in report


async def all_events(led: Led) -> list[dict[str, Any]]:
    told = await resource(led.client, f"journey://{led.journey}/events")
    return [dict(event) for event in told["events"]]


async def resource(client: Client, uri: str) -> dict[str, Any]:
    read = await client.read_resource(uri)
    content = read.contents[0]
    assert isinstance(content, TextResourceContents)
    return dict(json.loads(content.text))
