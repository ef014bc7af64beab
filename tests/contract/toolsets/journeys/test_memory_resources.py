"""Memory documents by address: their contents, missing ones, who is notified of them, and whose text they carry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import ResourceUpdated
from mcp_types import ResourceTemplateReference, ResourceUpdatedNotification, TextResourceContents

from agents.engine.agent import Agent
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, os_user
from tests.support.agents.inquiry_agent import ASK, DOCUMENT, chained, inquiry
from tests.support.agents.small_agents import Only, noting
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

pytestmark = [
    pytest.mark.filterwarnings("ignore:resources/(un)?subscribe:Warning"),  # the SDK's client warns of the old era
]

ERAS = ["auto", "legacy"]
SOON_S = 60


@pytest.fixture
async def settings(tmp_path: Path) -> Settings:
    here = Settings(kb=write(tmp_path / "kb", {"a.md": "# A\n"}), state_dir=tmp_path / "state", open_browser=False)
    return await let_in(here, "desktop", level=3)


@asynccontextmanager
async def hosting(settings: Settings, mode: str = "auto", *agents: Agent, **more: Any) -> AsyncIterator[Writer]:
    there = Only(*(agents or (inquiry(), noting())))
    async with (
        opened(settings, agents=there, indexing=False, announcing=False) as app,
        connect(app, mode=mode, **more) as client,
    ):
        yield Writer(client, app, settings.kb)


async def written(host: Writer, agent: str = "inquiry", journey: str = "", document: str = DOCUMENT) -> str:
    """Lead a journey until it has written one more document; return its id."""
    if not journey:
        journey = str((await host.call("journey_start", agent=agent, brief="bees"))["journey_id"])
    for work in ({"known": ["all"]}, {"document": document}):
        at = (await host.call("journey_status", journey_id=journey))["version"]
        await host.call("journey_submit", journey_id=journey, version=at, work=work)
    return journey


async def text_at(host: Writer, uri: str) -> str:
    content = (await host.client.read_resource(uri)).contents[0]
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text


@pytest.mark.parametrize("mode", ERAS)
async def test_a_memory_document_is_read_at_the_address_of_its_journey_and_agent(settings: Settings, mode: str) -> None:
    async with hosting(settings, mode) as host:
        journey = await written(host)
        assert await text_at(host, f"memory://{journey}/inquiry") == DOCUMENT
        templates = {one.uri_template for one in (await host.client.list_resource_templates()).resource_templates}
        assert "memory://{task}/{agent}" in templates


async def test_each_part_of_a_chain_has_its_document_and_the_newest_has_the_agent_s_name(settings: Settings) -> None:
    async with hosting(settings, "auto", chained("first", "second")) as host:
        journey = await written(host, "chain")
        at = (await host.call("journey_status", journey_id=journey))["version"]
        passed = await host.call("journey_submit", journey_id=journey, version=at, work={"score": 90})
        assert passed["phase"] == "second.ASK"
        await written(host, journey=journey, document="# The second one\n")
        for name, text in (("first", DOCUMENT), ("second", "# The second one\n"), ("inquiry", "# The second one\n")):
            assert await text_at(host, f"memory://{journey}/{name}") == text
        ref = ResourceTemplateReference(type="ref/resource", uri="memory://{task}/{agent}")
        names = await host.client.complete(ref, {"name": "agent", "value": ""}, context_arguments={"task": journey})
        assert names.completion.values == ["inquiry", "first", "second"]


async def test_a_missing_document_is_answered_with_the_existing_ones(settings: Settings) -> None:
    async with hosting(settings) as host:
        journey = await written(host)
        begun = (await host.call("journey_start", agent="noting", brief="bees"))["journey_id"]
        for uri, says in (
            (f"memory://{journey}/writer", "no memory document 'writer'; it has inquiry"),
            (f"memory://{begun}/noting", "it has none yet: an agent leaves one when it is complete"),
            ("memory://nowhere/inquiry", "there is no journey 'nowhere'"),
        ):
            with pytest.raises(MCPError, match=says):
                await host.client.read_resource(uri)
    async with hosting(settings, "auto", noting()) as host:
        with pytest.raises(MCPError, match="there is no agent 'inquiry'"):
            await host.client.read_resource(f"memory://{journey}/inquiry")


async def test_the_parts_of_the_address_complete(settings: Settings) -> None:
    async with hosting(settings) as host:
        journey = await written(host)
        ref = ResourceTemplateReference(type="ref/resource", uri="memory://{task}/{agent}")

        async def complete(name: str, typed: str, **chosen: str) -> list[str]:
            answer = await host.client.complete(ref, {"name": name, "value": typed}, context_arguments=chosen or None)
            return list(answer.completion.values)

        assert await complete("task", "inq") == [journey]
        assert await complete("task", "bees") == [journey]
        assert await complete("agent", "In", task=journey) == ["inquiry"]
        assert await complete("agent", "x", task=journey) == []
        assert await complete("agent", "") == []
        assert await complete("agent", "", task="nowhere") == []


@pytest.mark.security
async def test_reading_the_document_of_a_tainted_journey_taints_the_reader(settings: Settings) -> None:
    async with hosting(settings) as host:
        journey = await written(host)
        me, taints = Principal(os_user(), "desktop").id, host.app.services.taints
        await text_at(host, f"memory://{journey}/inquiry")
        assert not await taints.of(me, "")
        await taints.note("somebody else", journey, ("zulip:design/merge",))
        await text_at(host, f"memory://{journey}/inquiry")
        assert set(await taints.of(me, "")) == {"zulip:design/merge"}


async def test_a_document_listener_is_notified_of_each_step_of_its_journey_only(settings: Settings) -> None:
    async with hosting(settings) as host:
        journey = str((await host.call("journey_start", agent="inquiry", brief="bees"))["journey_id"])
        other = str((await host.call("journey_start", agent="inquiry", brief="wasps"))["journey_id"])
        uri = f"memory://{journey}/inquiry"
        async with host.client.listen(resource_subscriptions=[uri, "memory://", uri]) as heard:
            await host.call("journey_submit", journey_id=other, version=1, work=ASK)
            await host.call("journey_submit", journey_id=journey, version=1, work=ASK)
            with anyio.fail_after(SOON_S):
                first = await anext(aiter(heard))
            assert isinstance(first, ResourceUpdated)
            assert first.uri == uri


async def test_a_2025_client_that_subscribed_to_a_document_is_notified(settings: Settings) -> None:
    told, bell = list[str](), anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            told.append(str(message.params.uri))
            bell.set()

    async with hosting(settings, "legacy", message_handler=on_message) as host:
        journey = str((await host.call("journey_start", agent="inquiry", brief="bees"))["journey_id"])
        await host.client.subscribe_resource(f"memory://{journey}/inquiry")
        await host.call("journey_submit", journey_id=journey, version=1, work=ASK)
        with anyio.fail_after(SOON_S):
            await bell.wait()
        assert told == [f"memory://{journey}/inquiry"]
