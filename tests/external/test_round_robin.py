"""Four servers on PostgreSQL behind nginx in turn, so that every request of a client lands at another one."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp_types import ElicitResult, InputRequiredResult, InputResponses, TextContent, TextResourceContents

from mcp_server.app.knowledge_base import open_state, utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.host_registration import Principal, enrol, os_user
from mcp_server.gate.trust.scores import grant
from tests.contract.agents.library.test_client_walks import Led, lead
from tests.contract.gate.test_trust_gradient import Forms
from tests.external.programs import ROOT, node_program, wait_for_port
from tests.external.test_conformance import PASSED, passes_suite
from tests.support.agents.agent_harness import PAGES
from tests.support.agents.transition_scripts import SCRIPTS
from tests.support.hosts.reviewers import reviewing
from tests.support.hosts.writers import allow_forms
from tests.support.knowledge_bases.folders import write
from tests.support.processes.free_port import free_port
from tests.support.processes.http_server import let_in
from tests.support.processes.round_robin import Machines, landed, machines, nginx, round_robin
from tests.support.roads.road import PUBLIC_URL
from tests.support.state.postgres import PostgresServer

pytestmark = [pytest.mark.external, pytest.mark.skipif(sys.platform == "win32", reason="nginx of Debian")]

SERVERS = 4
ERAS = ("auto", "legacy")
PAGE = "notes/shared.md"
TEXT = "# Shared\n\nFirst.\n"
REPLAYS = 40


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer) -> Iterator[Machines]:
    """Four servers with a process each, which all tests share."""
    folder = tmp_path_factory.mktemp("machines")
    kb = write(folder / "kb", {**PAGES, PAGE: TEXT})
    with machines(folder, kb, postgres.url(), f"t_{secrets.token_hex(6)}", *[1] * SERVERS) as found:
        yield found


async def host(settings: Settings, level: float) -> tuple[str, str]:
    """Register a host; return its principal and its secret."""
    name = f"host-{secrets.token_hex(4)}"
    async with open_state(settings) as state:
        secret = await enrol(state, name, now=utc_now())
        await allow_forms(state, name)
        principal = Principal(os_user(), name).id
        await grant(state, principal, level, by="ann", now=utc_now())
    return principal, secret


@asynccontextmanager
async def connected(place: Machines, era: str, level: float, forms: Forms | None = None) -> AsyncIterator[Client]:
    _, secret = await host(place.settings, level)
    async with (
        create_mcp_http_client(headers={"authorization": f"Bearer {secret}"}) as http,
        Client(streamable_http_client(place.url, http_client=http), mode=era, elicitation_callback=forms) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result.content[0], TextContent)
    assert not result.is_error, result.content[0].text
    return dict(result.structured_content or {})


async def new_page(client: Client, era: str) -> str:
    path = f"notes/{era}-{secrets.token_hex(4)}.md"
    assert (await call(client, "kb_merge", path=path, content=TEXT))["status"] == "done"
    return path


@pytest.mark.parametrize("era", ERAS)
async def test_tools_resources_prompts_and_completions_answer_wherever_a_request_lands(
    place: Machines, era: str
) -> None:
    before = landed(place.folder / "proxy")
    async with connected(place, era, 4) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"kb_search", "kb_merge", "journey_start", "trust_status"} <= names
        path = await new_page(client, era)
        for line in ("Two.", "Three.", "Four."):
            read = await call(client, "kb_read", path=path)
            text = f"{read['text']}\n{line}\n"
            done = await call(client, "kb_merge", path=path, content=text, base_revision=read["revision"])
            assert done["status"] == "done"
        assert len((await call(client, "kb_history", path=path))["revisions"]) == 4
        assert (await call(client, "kb_map", path="notes"))["path"] == "notes"
        moved = path.replace("notes/", "notes/moved-")
        assert (await call(client, "kb_move", path=path, to=moved))["status"] == "done"
        assert (await call(client, "kb_search", query="Three", path="notes"))["hits"] is not None
        content = (await client.read_resource(f"kb://doc/{moved}")).contents[0]
        assert isinstance(content, TextResourceContents)
        assert "Four." in content.text
        assert (await client.list_prompts()).prompts
        assert (await client.list_resources()).resources is not None
        assert (await call(client, "trust_status"))["level"] == 4
    after = landed(place.folder / "proxy")
    assert all(after[server] > before.get(server, 0) for server in after)
    assert len(after) == SERVERS


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_approves_a_write_in_both_protocols(place: Machines, era: str) -> None:
    forms = Forms()
    async with connected(place, era, 3) as writer:
        path = await new_page(writer, era)
    async with connected(place, era, 2, forms) as client:
        for line in ("Once.", "Twice."):
            read = await call(client, "kb_read", path=path)
            text = f"{read['text']}\n{line}\n"
            done = await call(client, "kb_merge", path=path, content=text, base_revision=read["revision"])
            assert done["status"] == "done", done
    assert len(forms.seen) == 2
    assert "Twice." in (place.settings.kb / path).read_text(encoding="utf-8")


async def test_replays_of_an_answered_form_everywhere_are_one_act(place: Machines) -> None:
    async with connected(place, "auto", 3) as writer:
        path = await new_page(writer, "replay")
    async with connected(place, "auto", 2, Forms()) as client:
        read = await call(client, "kb_read", path=path)
        arguments = {"path": path, "content": f"{read['text']}\nOnce.\n", "base_revision": read["revision"]}
        asked = await client.session.call_tool("kb_merge", arguments, allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        revisions: list[str] = []

        async def replay() -> None:
            yes: InputResponses = {"decision": ElicitResult(action="accept", content={"decision": "approve"})}
            done = await client.session.call_tool(
                "kb_merge", arguments, input_responses=yes, request_state=asked.request_state, allow_input_required=True
            )
            revisions.append(str((getattr(done, "structured_content", None) or {}).get("revision")))

        async with anyio.create_task_group() as tasks:
            for _ in range(REPLAYS):
                tasks.start_soon(replay)
    assert len(revisions) == REPLAYS
    assert len(set(revisions)) == 1
    assert (place.settings.kb / path).read_text(encoding="utf-8").count("Once.") == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_proposal_is_approved_elsewhere_and_its_outcome_is_seen_everywhere(place: Machines, era: str) -> None:
    async with connected(place, era, 2) as client, reviewing(place.settings) as person:
        proposals = []
        for word in ("approve", "reject"):
            path = f"notes/{word}-{era}-{secrets.token_hex(4)}.md"
            told = await call(client, "kb_merge", path=path, content=TEXT)
            assert told["status"] == "proposed"
            proposals.append((told["proposal"]["id"], path, word))
        for proposal, path, word in proposals:
            await (person.approve if word == "approve" else person.reject)(proposal)
            for _ in range(SERVERS):
                seen = await call(client, "proposal_status", proposal_id=proposal, wait_seconds=30)
                assert seen["proposal"]["state"] == ("executed" if word == "approve" else "rejected"), seen
            assert (place.settings.kb / path).exists() == (word == "approve")


@pytest.mark.parametrize("era", ERAS)
async def test_a_journey_is_led_through_all_servers(place: Machines, era: str) -> None:
    for script in SCRIPTS[:: len(SCRIPTS) // 3]:
        _, secret = await host(place.settings, script.level)
        async with (
            create_mcp_http_client(headers={"authorization": f"Bearer {secret}"}) as http,
            Client(streamable_http_client(place.url, http_client=http), mode=era) as client,
        ):
            await lead(Led(client, place.settings), script)


OF_ONE_PROCESS = (
    "sep-2575-server-sends-prompts-list-changed-on-subscription",
    "sep-2575-server-sends-tools-list-changed-on-subscription",
)
"""Checks in which the suite's own fixture changes a list in the memory of one process. The tools of a running server never change. Its
prompts are made from the team's files, and every process notices a change within two seconds; the suite waits 1.5 seconds."""


# --- the public conformance suite ---------------------------------------------------------------------------------------


@contextmanager
def conformance_servers(folder: Path, url: str, schema: str) -> Iterator[str]:
    """Yield the address of a proxy before four conformance servers that want a token, which it adds."""
    kb = write(folder / "kb")
    settings = Settings(kb=kb, state_dir=folder / "person", database_url=url, database_schema=schema)
    (token,) = asyncio.run(let_in(settings, "suite"))
    variables = {"FORGE_DATABASE_URL": url, "FORGE_DATABASE_SCHEMA": schema, "FORGE_HTTP_URL": PUBLIC_URL}
    environment = {**os.environ, **variables}
    ports = [free_port() for _ in range(SERVERS)]
    with ExitStack() as stack:
        log = stack.enter_context((folder / "servers.log").open("w", encoding="utf-8"))
        for number, port in enumerate(ports):
            arguments = [str(port), str(kb), str(folder / f"machine{number}"), str(folder / "events.db")]
            command = [sys.executable, "-m", "tests.external.conformance_server", *arguments]
            process = stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, env=environment, stderr=log, stdout=log, text=True)
            )
            stack.callback(process.terminate)
            wait_for_port(port, process)
        yield stack.enter_context(round_robin(folder / "proxy", [f"http://127.0.0.1:{port}" for port in ports], token))


@pytest.mark.parametrize("version", sorted(PASSED))
def test_the_public_conformance_suite_passes_wherever_a_request_lands(
    version: str, postgres: PostgresServer, schema: str, tmp_path: Path
) -> None:
    node_program("conformance")
    nginx()
    with conformance_servers(tmp_path, postgres.url(), schema) as url:
        passes_suite(version, url, tmp_path / "results", without=OF_ONE_PROCESS if version == "2026-07-28" else ())
    assert len(landed(tmp_path / "proxy")) == SERVERS
