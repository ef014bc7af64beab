"""A server process: from a page to a task, its comment, its move and its announcement, over stdio and HTTP, in both eras.

By default the same happens in memory: `test_page_to_thread.py`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import TextContent

from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from tests.doubles.plane import ADA, WORKSPACE, Plane, plane_served
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.support.hosts.reviewers import Reviewer, reviewing
from tests.support.journeys.hosts import Site, serving_http
from tests.support.knowledge_bases.folders import write

pytestmark = pytest.mark.external

ROOT = Path(__file__).parents[3]
PAGE = "guides/rotate-keys.md"
PAGES = {PAGE: "# Rotate the keys\n\nKeys are rotated every quarter, by whoever is on call.\n"}
BOT = "Zulip Default Bot"
ME = Principal(os_user(), "host").id


@dataclass(frozen=True)
class Team:
    """A Plane and a Zulip on this machine, a knowledge base, and a person who decides about a host's proposals."""

    settings: Settings
    plane: Plane
    at_plane: Served
    zulip: Zulip
    at_zulip: Served
    person: Reviewer
    secret: str

    @property
    def environment(self) -> dict[str, str]:
        """Return the server's environment from a host's configuration."""
        own = self.settings
        assert own.plane is not None
        assert own.zulip is not None
        return {
            "FORGE_ENROLMENT": self.secret,
            "FORGE_OPEN_BROWSER": "0",
            "PLANE_BASE_URL": own.plane.base_url,
            "PLANE_API_KEY": own.plane.api_key,
            "PLANE_WORKSPACE": own.plane.workspace,
            "ZULIP_SITE": own.zulip.site,
            "ZULIP_EMAIL": own.zulip.email,
            "ZULIP_API_KEY": own.zulip.api_key,
        }

    @property
    def written(self) -> int:
        """Return how many changing requests reached either service."""
        own = [one for one in (*self.at_plane.seen, *self.at_zulip.seen) if one.method != "GET"]
        return len([one for one in own if not one.path.endswith(("/register", "/events"))])


@asynccontextmanager
async def team(tmp_path: Path) -> AsyncIterator[Team]:
    zulip = Zulip()
    zulip.world.channel("launch", "Iago", BOT)
    async with plane_served() as (at_plane, plane), served(zulip) as at_zulip:
        settings = Settings(
            kb=write(tmp_path / "kb", PAGES),
            state_dir=tmp_path / "state",
            plane_base_url=at_plane.address,
            plane_api_key=ADA.key,
            plane_workspace=WORKSPACE,
            zulip_site=at_zulip.address,
            zulip_email=zulip.world.user(BOT).email,
            zulip_api_key=zulip.world.user(BOT).key,
        )
        async with open_state(settings) as state:
            secret = await enrol(state, "host", now=utc_now())
        async with reviewing(settings) as person:
            yield Team(settings, plane, at_plane, zulip, at_zulip, person, secret)


@asynccontextmanager
async def connected(own: Team, era: str, transport: str = "stdio") -> AsyncIterator[Client]:
    """Start the server as a host does, with its configuration; or connect to an equal one over HTTP."""
    if transport == "http":
        site = Site(own.settings.kb, own.settings.state_dir or own.settings.kb, {**os.environ, **own.environment})
        async with (
            serving_http(site) as url,
            create_mcp_http_client(headers={"authorization": f"Bearer {own.secret}"}) as http,
            Client(streamable_http_client(url, http_client=http), mode=era) as client,
        ):
            yield client
        return
    where = ["--kb", str(own.settings.kb), "--state-dir", str(own.settings.state_dir)]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mcp_server", "serve", *where],
        env={**os.environ, **own.environment},
        cwd=ROOT,
    )
    async with Client(stdio_client(server), mode=era) as client:
        yield client


class Host:
    """A model's host: its calls are checked against the tool's schema, and proposals go to the person."""

    def __init__(self, own: Team, client: Client, schemas: dict[str, dict[str, Any]], *, asks: bool) -> None:
        self._own, self._client, self._schemas, self._asks = own, client, schemas, asks

    async def read(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = await self._client.call_tool(tool, dict(arguments))
        assert isinstance(result.content[0], TextContent)
        assert not result.is_error, result.content[0].text
        answer = dict(result.structured_content or {})
        jsonschema.validate(answer, self._schemas[tool])
        return answer

    async def act(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return what was done: at once, or after the person's approval, before which nothing happened."""
        before = self._own.written
        answer = await self.read(tool, **arguments)
        if not self._asks:
            assert answer["status"] == "done"
            return answer
        assert answer["status"] == "proposed"
        assert self._own.written == before
        proposal = await self._own.person.only()
        shown = json.loads(proposal.preview)["files"]
        assert shown, "a person sees what would be sent"
        assert (await self._own.person.approve(proposal.id)).state == "executed"
        told = await self.read("proposal_status", proposal_id=proposal.id, wait_seconds=5)
        done = dict(told["proposal"]["result"])
        jsonschema.validate(done, self._schemas[tool])
        assert done["status"] == "done"
        return done


@asynccontextmanager
async def hosted(own: Team, era: str, level: float, transport: str = "stdio") -> AsyncIterator[Host]:
    await grant(own.person.app.base.state, ME, level, by="ann", now=utc_now())
    async with connected(own, era, transport) as client:
        schemas = {tool.name: tool.output_schema or {} for tool in (await client.list_tools()).tools}
        yield Host(own, client, schemas, asks=level < 4)


@pytest.mark.parametrize(
    ("transport", "era", "level"),
    [
        ("stdio", "auto", 2.0),
        ("stdio", "auto", 4.0),
        ("stdio", "legacy", 2.0),
        ("http", "auto", 2.0),
        ("http", "legacy", 4.0),
    ],
)
async def test_a_page_becomes_a_task_that_is_commented_moved_and_announced(
    tmp_path: Path, transport: str, era: str, level: float
) -> None:
    async with team(tmp_path) as own, hosted(own, era, level, transport) as host:
        page = await host.read("kb_read", path=PAGE)
        created = await host.act(
            "plane_create_task",
            project="knowledge base",
            name=page["title"],
            description=f"{page['text']}\n\nSee kb:{page['path']}.",
            assignees=["mel"],
            labels=["bug"],
        )
        key = created["key"]
        commented = await host.act("plane_comment_task", task=key, text="The **guide** says by whom.")
        moved = await host.act("plane_update_task", task=key, state="in progress")
        said = await host.act(
            "zulip_send_message",
            channel="launch",
            topic="keys",
            text=f"[{key}]({created['url']}) is on its way, from kb:{PAGE}",
        )
        assert {commented["key"], moved["key"]} == {key}
        assert said["place"] == "launch/keys"

        task = own.plane.task(key)
        states = {row["id"]: row["name"] for row in own.plane.project("KB").states.values()}
        assert states[task["state"]] == "In Progress"
        assert "every quarter" in task["description_html"]
        assert [row["comment_html"] for row in own.plane.comments(key)] == [
            "<p>The <strong>guide</strong> says by whom.</p>"
        ]
        (text,) = own.zulip.world.texts("launch", "keys")
        assert created["url"] in text

        cited = {(one["origin"], one["url"]) for one in (await host.read("kb_read", path=PAGE))["cited_by"]}
        assert cited == {(f"plane:{key}", created["url"]), ("zulip:launch", said["url"].replace("/topic/keys", ""))}
        assert (await host.read("plane_get_task", task=key))["pages"] == [PAGE]

        records = [record.body for record in await own.person.app.base.state.ledger.records(limit=1000)]
        tools = {"plane_create_task", "plane_comment_task", "plane_update_task", "zulip_send_message"}
        assert tools <= {json.loads(body)["tool"] for body in records}
        assert not [body for body in records if "every quarter" in body or "is on its way" in body]


async def test_two_hosts_with_the_same_announcement_make_it_once(tmp_path: Path) -> None:
    """Two processes of one host: the same call reaches the channel once, and both get that message."""
    async with team(tmp_path) as own, hosted(own, "auto", 4.0) as one, hosted(own, "auto", 4.0) as other:
        answers: list[dict[str, Any]] = []

        async def announce(host: Host) -> None:
            answers.append(await host.read("zulip_send_message", channel="launch", topic="keys", text="Rotated."))

        async with anyio.create_task_group() as tasks:
            for host in (one, other, one, other):
                tasks.start_soon(announce, host)
        assert own.zulip.world.texts("launch", "keys") == ["Rotated."]
        assert sorted(answer["status"] for answer in answers) == ["done", "unchanged", "unchanged", "unchanged"]
        assert len({tuple(answer["message_ids"]) for answer in answers}) == 1
