"""Agents and journeys by address, and their change notices.

Through real clients in both eras, even for moves by another process.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourcesListChanged, ResourceUpdated
from mcp_types import (
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextContent,
    TextResourceContents,
)

from agents.catalogue import entries
from agents.engine.events import Thinking
from agents.engine.graph import mermaid
from agents.engine.state import restore_state
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.protocol import change_events as changes
from mcp_server.toolsets.journeys.offers import resource_texts
from tests.support.agents.inquiry_agent import inquiry
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.writers import Writer, let_in
from tests.support.journeys.hosts import ROOT, SdkHost, Site, over_http, over_stdio, serving_http
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

pytestmark = [
    pytest.mark.filterwarnings("ignore:resources/(un)?subscribe:Warning"),  # the SDK's client warns of the old era
]

ERAS = ["auto", "legacy"]
TEMPLATES = {
    "agent://{agent}",
    "agent://{agent}/{phase}",
    "journey://{journey_id}",
    "journey://{journey_id}/events",
    "journey://{journey_id}/report",
    "memory://{task}/{agent}",
}
PAGES = {"a.md": "# A\n\nThe cap is 20 calls an hour.\n"}
TWO = {"notes": [{"id": "1", "text": "first"}, {"id": "2", "text": "second"}]}
AGENT = noting()
ROTA = """\
title: Rota
summary: {summary}
initial: PLAN
complete: DONE
phases:
  - name: PLAN
    purpose: who does what
    tools: [kb_map]
    prompt: Plan the rota for {{{{ brief }}}}.
    prompt_again: Mend the rota.
    work: {{properties: {{names: {{type: array, items: {{type: string}}}}}}}}
  - name: DONE
    prompt: Hand it out.
transitions:
  - {{from: PLAN, to: DONE, condition: planned}}
conditions:
  planned:
    filled: names
"""


def rota(kb: Path, summary: str = "Who does what.") -> Path:
    """Write a team's agent and return its file."""
    file = kb / "_agents" / "rota.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(ROTA.format(summary=summary), encoding="utf-8")
    return file


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    here = Settings(kb=write(tmp_path / "kb", PAGES), state_dir=tmp_path / "state", open_browser=False)
    return await let_in(here, "desktop", level=3)


@asynccontextmanager
async def hosting(settings: Settings, mode: str = "auto", **more: Any) -> AsyncIterator[Writer]:
    given = {"agents": Only(AGENT), "indexing": False, "announcing": False, **more}
    async with opened(settings, **given) as app, connect(app, mode=mode) as client:
        yield Writer(client, app, settings.kb)


async def begin(host: Writer, brief: str = "bees") -> str:
    return str((await host.call("journey_start", agent="noting", brief=brief))["journey_id"])


async def read(client: Client, uri: str) -> TextResourceContents:
    content = (await client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    return content


async def object_at(client: Client, uri: str) -> dict[str, Any]:
    content = await read(client, uri)
    assert content.mime_type == "application/json"
    told: dict[str, Any] = json.loads(content.text)
    return told


# --- agents -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_an_agent_is_read_whole_at_its_address(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode) as host:
        told = await object_at(host.client, "agent://noting")
        assert {name: told[name] for name in ("agent", "title", "summary", "initial", "complete", "origin")} == {
            "agent": "noting",
            "title": "Noting",
            "summary": "Two notes, then a report.",
            "initial": "COLLECT",
            "complete": ["DONE"],
            "origin": "built in",
        }
        assert [phase["phase"] for phase in told["phases"]] == ["COLLECT", "WRITE", "DONE"]
        collect = told["phases"][0]
        assert (collect["purpose"], collect["checkpoint"], collect["verified"]) == ("collect notes", "blocking", False)
        assert collect["question"] == "Are these the notes that matter?"
        assert collect["tools"] == ["kb_map", "kb_read", "kb_merge"]
        assert [(way["from"], way["to"], way["condition"], way["is_backward"]) for way in told["transitions"]] == [
            ("COLLECT", "WRITE", "two_notes", False),
            ("WRITE", "COLLECT", "note_lacking", True),
            ("WRITE", "DONE", "report_written", False),
        ]
        assert told["diagram"] == mermaid(AGENT.graph)


async def test_an_agents_address_has_its_purpose_its_budgets_and_its_model(
    settings: Settings,
) -> None:
    """A recommended class of model and its reason, as metadata."""
    async with hosting(settings, agents=Only(inquiry())) as host:
        told = await object_at(host.client, "agent://inquiry")
        assert told["profile"]["function"] == "INQUIRY"
        assert told["profile"]["priority"] == ["question", "constraints"]
        assert told["models"] == {
            "": {"class": "balanced", "example": "sonnet", "reason": "most of it is asking"},
            "judge": {"class": "largest", "example": "opus", "reason": "a verdict decides"},
        }
        look, ask, write = told["phases"][:3]
        assert (look["automatic"], ask["automatic"], ask["speaker"]) == (True, False, "planner")
        assert write["budget"] == {"input": 2_000, "output": 500}
        assert [way["asks"] for way in told["transitions"] if way["from"] == "ASK"] == ["ask", ""]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_phase_has_both_visits_texts_its_schema_and_its_tools(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode) as host:
        told = await object_at(host.client, "agent://noting/COLLECT")
        assert told["prompt"] == "Collect two notes about: {{ brief }}"
        assert "You come back to {{ phase }}, visit {{ visit }}." in told["prompt_again"]
        assert "Add the note that was lacking." in told["prompt_again"]
        assert told["work_schema"] == AGENT.forms["COLLECT"].schema
        assert told["allowed_tools"] == ["kb_map", "kb_read", "kb_merge"]
        assert [way["to"] for way in told["transitions"]] == ["WRITE"]
        end = await object_at(host.client, "agent://noting/DONE")
        assert (end["work_schema"], end["prompt_again"], end["transitions"]) == (None, "", [])


async def test_a_phase_allows_only_tools_that_are_listed(settings: Settings) -> None:
    async with hosting(replace(settings, read_only=True)) as host:
        told = await object_at(host.client, "agent://noting/COLLECT")
        assert told["tools"] == ["kb_map", "kb_read", "kb_merge"]
        assert told["allowed_tools"] == ["kb_map", "kb_read"]


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("agent://notin", "there is no agent 'notin': did you mean 'noting'?"),
        ("agent://noting/COLLECTS", "noting has no phase 'COLLECTS'; it has COLLECT, WRITE, DONE"),
        ("agent://nothing/COLLECT", "there is no agent 'nothing'"),
        ("journey://noting-0", "there is no journey 'noting-0'; call journey_list to see which exist"),
        ("journey://noting-0/events", "there is no journey 'noting-0'"),
        ("journey://noting-0/report", "there is no journey 'noting-0'"),
    ],
)
async def test_unknown_addresses_get_one_sentence(settings: Settings, uri: str, told: str) -> None:
    async with hosting(settings) as host:
        with pytest.raises(MCPError) as caught:
            await host.client.read_resource(uri)
        assert told in caught.value.message
        assert caught.value.error.code == -32602


async def test_agents_are_listed_and_templates_only_with_the_toolset(settings: Settings) -> None:
    async with hosting(settings) as host:
        listed = {str(r.uri): r for r in (await host.client.list_resources()).resources}
        assert [uri for uri in listed if uri.startswith("agent://")] == [
            *(f"agent://{entry.name}" for entry in entries()),
            "agent://noting",
        ]
        assert (listed["agent://noting"].title, listed["agent://noting"].description) == (
            "Noting",
            "Two notes, then a report.",
        )
        templates = {t.uri_template for t in (await host.client.list_resource_templates()).resource_templates}
        assert templates > TEMPLATES
    async with hosting(replace(settings, toolsets=("knowledge",))) as host:
        uris = [str(r.uri) for r in (await host.client.list_resources()).resources]
        assert not [uri for uri in uris if uri.startswith("agent://")]
        templates = {t.uri_template for t in (await host.client.list_resource_templates()).resource_templates}
        assert not templates & TEMPLATES


# --- journeys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_a_journey_is_read_whole_and_can_be_restored_from_it(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode) as host:
        id_ = await begin(host)
        await host.call("journey_submit", journey_id=id_, version=1, work=TWO)
        await host.call("journey_decide", journey_id=id_, version=2, decision="approve")
        told = await object_at(host.client, f"journey://{id_}")
        state = await host.app.services.journeys.store.journey(id_)
        assert restore_state(told["state"]) == state
        assert told["state"]["work"]["COLLECT"]["content"] == {**TWO}
        assert told["agent"] == {
            "name": "noting",
            "title": "Noting",
            "summary": "Two notes, then a report.",
            "uri": "agent://noting",
        }
        assert told["diagram"] == mermaid(AGENT.graph, "WRITE", {"COLLECT": 1, "WRITE": 1})


@pytest.mark.parametrize("mode", ERAS)
async def test_events_are_read_in_order_without_the_works(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode) as host:
        id_ = await begin(host, "A brief that is nobody's business")
        await host.call("kb_map", journey_id=id_)
        await host.call("journey_submit", journey_id=id_, version=1, work={"notes": [{"id": "1", "text": "secret"}]})
        told = await object_at(host.client, f"journey://{id_}/events")
        log = await host.app.services.journeys.store.events(id_)
        assert [event["seq"] for event in told["events"]] == [logged.seq for logged in log]
        assert [event["type"] for event in told["events"]] == [logged.event.TYPE for logged in log]
        assert {"tool.start", "tool.success", "work.recorded", "feedback.added"} <= {e["type"] for e in told["events"]}
        assert (told["journey_id"], told["version"], told["left_out"], told["note"]) == (id_, 2, 0, None)
        assert "secret" not in json.dumps(told)
        assert "business" not in json.dumps(told)


async def test_of_very_many_events_the_newest_are_shown_and_the_rest_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_texts, "MOST_EVENTS", 5)
    async with hosting(settings) as host:
        id_ = await begin(host)
        store, now = host.app.services.journeys.store, host.app.services.now()
        await store.note(id_, [Thinking(f"thought {n}") for n in range(9)], by="ada", at=now)
        told = await object_at(host.client, f"journey://{id_}/events")
        assert [event["text"] for event in told["events"]] == [f"thought {n}" for n in range(4, 9)]
        assert told["left_out"] == 5
        assert told["note"].startswith("The first 5 events are left out")


@pytest.mark.parametrize("mode", ERAS)
async def test_the_report_is_read_as_markdown(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode) as host:
        id_ = await begin(host)
        await host.call("journey_submit", journey_id=id_, version=1, work=TWO)
        content = await read(host.client, f"journey://{id_}/report")
        assert content.mime_type == "text/markdown"
        assert content.text.startswith("# Noting: bees")
        assert "first" in content.text


async def test_a_brief_with_halves_of_characters_can_be_read(settings: Settings) -> None:
    """A brief comes from anywhere, and JSON on the wire is UTF-8."""
    async with hosting(settings) as host:
        started = await host.app.services.journeys.start("noting", "odd \ud800 \x00 \u2028 end", {}, by="ada")
        told = await object_at(host.client, f"journey://{started.journey}")
        assert told["state"]["brief"] == "odd \ufffd \x00 \u2028 end"
        assert (await read(host.client, f"journey://{started.journey}/report")).text


async def test_a_journey_whose_agent_is_gone_can_still_be_read(settings: Settings) -> None:
    async with hosting(settings) as host:
        id_ = await begin(host)
    async with hosting(settings, agents=Only()) as host:
        told = await object_at(host.client, f"journey://{id_}")
        assert (told["agent"], told["diagram"]) == (None, None)
        assert "there is no agent 'noting'" in told["problem"]
        assert told["state"]["phase"] == "COLLECT"
        assert (await object_at(host.client, f"journey://{id_}/events"))["events"]
        with pytest.raises(MCPError, match="there is no agent 'noting'"):
            await host.client.read_resource(f"journey://{id_}/report")


@pytest.mark.security
@pytest.mark.parametrize("part", ["", "/events", "/report"])
async def test_reading_a_tainted_journey_taints_the_reader(settings: Settings, part: str) -> None:
    """Its work may repeat it: trust section of the design, taint."""
    async with hosting(settings) as host:
        id_ = await begin(host)
        me, taints = Principal(os_user(), "desktop").id, host.app.services.taints
        await host.client.read_resource(f"journey://{id_}{part}")
        assert not await taints.of(me, "")
        await taints.note("somebody else", id_, ("zulip:design/merge",))
        assert not await taints.of(me, "")
        await host.client.read_resource(f"journey://{id_}{part}")
        assert set(await taints.of(me, "")) == {"zulip:design/merge"}


# --- completions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ERAS)
async def test_addresses_of_agents_phases_and_journeys_complete(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode) as host:
        bees, wasps = await begin(host, "Bees on the roof"), await begin(host, "Wasps in the cellar")

        async def complete(uri: str, name: str, typed: str, **chosen: str) -> list[str]:
            ref = ResourceTemplateReference(type="ref/resource", uri=uri)
            answer = await host.client.complete(ref, {"name": name, "value": typed}, context_arguments=chosen or None)
            return list(answer.completion.values)

        assert await complete("agent://{agent}", "agent", "no") == ["noting"]
        assert await complete("agent://{agent}/{phase}", "agent", "No") == ["noting"]
        assert await complete("agent://{agent}/{phase}", "phase", "", agent="noting") == ["COLLECT", "WRITE", "DONE"]
        assert await complete("agent://{agent}/{phase}", "phase", "w", agent="noting") == ["WRITE"]
        assert await complete("agent://{agent}/{phase}", "phase", "w", agent="nobody") == []
        assert await complete("agent://{agent}/{phase}", "phase", "w") == []
        for template in sorted(one for one in TEMPLATES if one.startswith("journey")):
            assert await complete(template, "journey_id", "") == [wasps, bees]
            assert await complete(template, "journey_id", "noting-") == [wasps, bees]
            assert await complete(template, "journey_id", bees) == [bees]
            assert await complete(template, "journey_id", "roof BEE") == [bees]
            assert await complete(template, "journey_id", "roof wasps") == []
        assert await complete("journey://{journey_id}", "path", "") == []


# --- news -------------------------------------------------------------------------------------------------------------


def of(journey: str) -> set[str]:
    return {f"journey://{journey}", f"journey://{journey}/events", f"journey://{journey}/report"}


@asynccontextmanager
async def subscribed(connection: Any, journey: str) -> AsyncIterator[Callable[[], Awaitable[set[str]]]]:
    """Connect as a 2025-era client and yield a queue of the addresses announced to it."""
    heard, bell = set[str](), anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            heard.add(str(message.params.uri))
            if heard >= of(journey):
                bell.set()

    async def told() -> set[str]:
        with anyio.fail_after(60):
            await bell.wait()
        return heard

    async with Client(connection, mode="legacy", message_handler=on_message) as client:
        for uri in of(journey):
            await client.session.subscribe_resource(uri)
        yield told


async def updated(heard: AsyncIterator[Any], count: int) -> set[str]:
    """Return the next addresses announced to a listener, this many."""
    uris = set[str]()
    with anyio.fail_after(60):
        async for event in heard:
            assert isinstance(event, ResourceUpdated)
            uris.add(event.uri)
            if len(uris) == count:
                break
    return uris


async def test_in_one_machine_both_kinds_of_subscribers_hear_of_a_step_of_another_server(settings: Settings) -> None:
    async with hosting(settings) as other, hosting(settings) as listening:
        id_ = await begin(other)
        async with (
            subscribed(listening.app.server, id_) as told,
            listening.client.listen(resource_subscriptions=sorted(of(id_))) as heard,
        ):
            await other.call("journey_submit", journey_id=id_, version=1, work=TWO)
            assert await updated(heard, 3) == of(id_)
            assert await told() == of(id_)


async def test_a_note_of_a_tool_call_is_news_of_the_journey(settings: Settings) -> None:
    async with hosting(settings) as host:
        id_ = await begin(host)
        async with host.client.listen(resource_subscriptions=[f"journey://{id_}/events"]) as heard:
            await host.call("kb_map", journey_id=id_)
            assert await updated(heard, 1) == {f"journey://{id_}/events"}


def process_of(site: Site) -> Any:
    """Return a separate server process with stdio."""
    command = site.command()
    return stdio_client(
        StdioServerParameters(command=command[0], args=command[1:], env=dict(site.environment), cwd=ROOT)
    )


async def submitted(host: SdkHost) -> tuple[str, Callable[[], Awaitable[None]]]:
    """Begin a journey; return its id and a function that submits to it."""
    id_ = str((await host.call("journey_start", agent="build", brief="bees"))["journey_id"])

    async def submit() -> None:
        await host.call("journey_submit", journey_id=id_, version=1, work={"goal": "A hive that winters."})

    return id_, submit


@pytest.mark.external
async def test_over_stdio_both_kinds_of_subscribers_hear_of_a_step_of_another_process(tmp_path: Path) -> None:
    site = Site(write(tmp_path / "kb", PAGES), tmp_path / "state")
    async with over_stdio(site) as host, Client(process_of(site)) as modern:
        id_, submit = await submitted(host)
        async with (
            subscribed(process_of(site), id_) as told,
            modern.listen(resource_subscriptions=sorted(of(id_))) as heard,
        ):
            await submit()
            assert await updated(heard, 3) == of(id_)
            assert await told() == of(id_)


async def test_over_http_both_kinds_of_subscribers_hear_of_a_step_of_another_process(tmp_path: Path) -> None:
    site = Site(write(tmp_path / "kb", PAGES), tmp_path / "state")
    async with (
        serving_http(site) as listening,
        serving_http(site) as working,
        over_http(working) as host,
        Client(listening) as modern,
    ):
        id_, submit = await submitted(host)
        async with (
            subscribed(listening, id_) as told,
            modern.listen(resource_subscriptions=sorted(of(id_))) as heard,
        ):
            await submit()
            assert await updated(heard, 3) == of(id_)
            assert await told() == of(id_)


# --- agents that come and go ------------------------------------------------------------------------------------------


async def names(client: Client) -> tuple[set[str], set[str]]:
    """Return the names of the prompts, and the agents among the resources."""
    prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
    uris = {str(resource.uri) for resource in (await client.list_resources()).resources}
    return prompts, {uri for uri in uris if uri.startswith("agent://")}


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the lists more often than in the product, so that tests wait less."""
    monkeypatch.setattr(changes, "FIRST_LOOK_S", 0.1)
    monkeypatch.setattr(changes, "LISTS_LOOK_S", 0.3)


@pytest.mark.usefixtures("often")
@pytest.mark.external
async def test_a_team_agent_appears_changes_and_disappears_and_listeners_are_notified(settings: Settings) -> None:
    async with hosting(settings, agents=None) as host:
        before = await names(host.client)
        async with host.client.listen(prompts_list_changed=True, resources_list_changed=True) as heard:
            file = rota(settings.kb)
            await both(heard)
            prompts, uris = await names(host.client)
            assert (prompts - before[0], uris - before[1]) == ({"rota"}, {"agent://rota"})
            begin = (await host.client.get_prompt("rota", {"brief": "July"})).messages[0].content
            assert isinstance(begin, TextContent)
            assert "Plan the rota for July." in begin.text
            assert (await object_at(host.client, "agent://rota"))["origin"] == "_agents/rota.yaml"
            rota(settings.kb, "Who does what, and when.")
            await both(heard)
            shown = {p.name: p.description for p in (await host.client.list_prompts()).prompts}
            assert shown["rota"] == "Who does what, and when."
            file.write_text("title: [", encoding="utf-8")
            await both(heard)
            assert await names(host.client) == before
            with pytest.raises(MCPError, match=r"rota\.yaml"):
                await host.client.read_resource("agent://rota")


async def both(heard: AsyncIterator[Any]) -> None:
    """Return when a listener has received both lists' change notices."""
    kinds = set[type]()
    with anyio.fail_after(60):
        async for event in heard:
            kinds.add(type(event))
            if kinds == {PromptsListChanged, ResourcesListChanged}:
                return


@pytest.mark.usefixtures("often")
async def test_a_2025_client_that_saw_the_lists_is_notified_of_changes(settings: Settings) -> None:
    heard, bell = list[str](), anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, PromptListChangedNotification | ResourceListChangedNotification):
            heard.append(message.method)
            if len(heard) == 2:
                bell.set()

    unseen = list[Any]()

    async def never(message: Any) -> None:
        unseen.append(message)

    async with opened(settings, indexing=False, announcing=False) as app:
        async with (
            connect(app, mode="legacy", message_handler=on_message) as client,
            connect(app, mode="legacy", message_handler=never),
        ):
            promised = client.session.server_capabilities
            assert promised is not None
            assert promised.prompts is not None
            assert promised.prompts.list_changed
            assert promised.resources is not None
            assert promised.resources.list_changed
            await names(client)
            rota(settings.kb)
            with anyio.fail_after(60):
                await bell.wait()
            assert "rota" in (await names(client))[0]
        assert sorted(heard) == ["notifications/prompts/list_changed", "notifications/resources/list_changed"]
        assert unseen == [], "who asked for no list needs no news of one"


@pytest.mark.usefixtures("often")
async def test_nothing_is_announced_while_nothing_changes(settings: Settings) -> None:
    rota(settings.kb)
    async with (
        hosting(settings, agents=None) as host,
        host.client.listen(prompts_list_changed=True, resources_list_changed=True) as heard,
    ):
        with anyio.move_on_after(1.5) as waited:  # several looks
            async for event in heard:
                raise AssertionError(event)
        assert waited.cancelled_caught
