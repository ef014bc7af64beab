"""A run in a server process of its own, over stdio and over HTTP, in both eras, with a model on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextResourceContents

from mcp_server.app.settings.settings import Settings
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import said, uses
from tests.doubles.serving import served
from tests.support.hosts.writers import let_in
from tests.support.journeys.hosts import ROOT, SdkHost, Site, serving_http
from tests.support.knowledge_bases.folders import write

WHERE = "Where is the deployment told?"


@asynccontextmanager
async def connected(site: Site, transport: str, mode: str, secret: str) -> AsyncIterator[Client]:
    """Connect to a process of its own as the host with that secret."""
    if transport == "stdio":
        command, environment = site.command(), {**site.environment, "FORGE_ENROLMENT": secret}
        process = StdioServerParameters(command=command[0], args=command[1:], env=environment, cwd=ROOT)
        async with Client(stdio_client(process), mode=mode) as client:
            yield client
        return
    async with (
        serving_http(site) as url,
        httpx2.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("transport", "mode"),
    [
        ("stdio", "auto"),
        pytest.param("stdio", "legacy", marks=pytest.mark.external),
        pytest.param("http", "auto", marks=pytest.mark.external),
        ("http", "legacy"),
    ],
)
async def test_a_process_carries_a_goal_through_and_explains_it(transport: str, mode: str, tmp_path: Path) -> None:
    model = Model()
    model.will(WHERE, uses("kb_read", path="guides/deploy.md"), said("It stands in guides/deploy.md."))
    async with served(model) as place:
        asked = {"FORGE_MODEL": "openai:some-model", "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{place.address}/v1"}
        site = Site(write(tmp_path / "kb"), tmp_path / "state", asked)
        settings = await let_in(Settings(kb=site.kb, state_dir=site.state_dir), "desktop", 3)
        async with connected(site, transport, mode, settings.enrolment or "") as client:
            host = SdkHost(client)
            answer = await host.call("agent_run", goal=WHERE)
            trace = await host.call("agent_trace", run_id=answer["run_id"])
            words = (await client.read_resource(f"run://{answer['run_id']}")).contents[0]
    assert (answer["status"], answer["text"]) == ("done", "It stands in guides/deploy.md.")
    assert (trace["status"], trace["answer"]) == ("done", answer["text"])
    assert isinstance(words, TextResourceContents)
    assert trace["text"] in words.text
    assert model.left == 0
