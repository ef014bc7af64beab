"""Server processes that lead journeys, and several kinds of hosts that continue them.

Other processes, transports, libraries.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.abc
import anyio.to_thread
import httpx
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent

from agents.engine.events import Logged, logged_form
from agents.engine.fold import fold
from agents.engine.state import JourneyState, get_state
from mcp_server.app.factories.journey_store import journeys_in
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.settings import Settings
from tests.contract.protocol.test_server import announced
from tests.external.programs import node_program, run
from tests.support.hosts.writers import Refused

ROOT = Path(__file__).parents[3]
SOON_S = 60.0
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
PROTOCOL = "2025-11-25"
TIMES = frozenset({"at", "since", "timestamp", "started_at", "entered_at", "moved_at", "seconds", "duration_ms"})
ACCIDENTAL = TIMES | {"principal", "by", "conversation", "conversations", "key", "call", "arguments_hash"}
"""The parts that differ in each run: times, principals, and values that are random or made from a journey's id."""


class Gone(Exception):
    """The server was gone when it should have answered."""


class Host(Protocol):
    """Anything that can call tools of a server."""

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Return the tool's answer.

        Raises:
            Refused: it answered with an error.
            Gone: it did not answer at all.
        """
        ...


@dataclass(frozen=True)
class Site:
    """One knowledge base and the location of its state, as the environment of its processes names them."""

    kb: Path
    state_dir: Path
    database: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Return the whole environment of a process."""
        return {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self.state_dir.parent),
            "FORGE_KB": str(self.kb),
            "FORGE_STATE_DIR": str(self.state_dir),
            "FORGE_OPEN_BROWSER": "false",
            **self.database,
        }

    @property
    def settings(self) -> Settings:
        """Return the settings of a process in that environment."""
        return Settings(
            kb=self.kb,
            state_dir=self.state_dir,
            database_url=self.database.get("FORGE_DATABASE_URL"),
            database_schema=self.database.get("FORGE_DATABASE_SCHEMA"),
        )

    def command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "mcp_server", "serve", *more]

    async def record(self, journey: str) -> tuple[JourneyState, Sequence[Logged]]:
        """Return a journey's state and events, after checking the record."""
        async with open_state(self.settings) as opened:
            journeys = journeys_in(opened)
            state, log = await journeys.journey(journey), await journeys.events(journey)
        assert fold(log) == state, "the state beside the log is not its fold"
        assert [logged.seq for logged in log] == list(range(1, len(log) + 1)), "a gap in the events"
        steps = [logged.version for logged in log if logged.key]
        assert steps == list(range(2, state.version + 1)), "a gap in the versions, or a step twice"
        return state, log


def essence(state: JourneyState, log: Sequence[Logged]) -> dict[str, Any]:
    """Return the parts of a journey that don't depend on when, where and by whom it was led."""
    whole = {"state": get_state(state), "events": [logged_form(logged) for logged in log]}
    said: dict[str, Any] = json.loads(json.dumps(_without(whole, ACCIDENTAL)))
    return said


def _without(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, Mapping):
        return {name: _without(inside, names) for name, inside in value.items() if name not in names}
    if isinstance(value, list | tuple):
        return [_without(inside, names) for inside in value]
    return value


@dataclass(frozen=True)
class SdkHost:
    """A client of the Python SDK; `pid` is that of the server process it started, if it did."""

    client: Client
    pid: int = 0

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        try:
            with anyio.fail_after(SOON_S):
                result = await self.client.call_tool(tool, dict(arguments))
        except (MCPError, anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
            raise Gone(str(error)) from error
        first = result.content[0]
        assert isinstance(first, TextContent)
        if result.is_error:
            raise Refused(first.text)
        return dict(result.structured_content or {})

    def kill(self) -> None:
        """End the server as a power cut would."""
        os.kill(self.pid, signal.SIGKILL)


@dataclass(frozen=True)
class PlainHost:
    """JSON-RPC over HTTP by hand, without any SDK."""

    http: httpx.AsyncClient
    url: str
    session: Mapping[str, str]

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        answer = await self.http.post(self.url, json=asked, headers=self.session)
        lines = (line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith("data:"))
        told = [json.loads(line) for line in lines if line.strip()]
        result = next(message["result"] for message in told if message.get("id") == 2)
        return _answered(result)


@dataclass(frozen=True)
class InspectorHost:
    """The MCP Inspector's command line: the TypeScript SDK."""

    url: str
    token: str | None = None

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        options = ["--cli", "--server-url", self.url, "--transport", "http", "--format", "json"]
        options += [word for name, value in authorized(self.token).items() for word in ("--header", f"{name}: {value}")]
        options += ["--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
        said = await anyio.to_thread.run_sync(run, [*node_program("mcp-inspector"), *options], SOON_S)
        try:
            result = json.loads(said.stdout)["result"]
        except ValueError:
            raise AssertionError(said.stdout[-2000:] + said.stderr[-2000:]) from None
        return _answered(result)


def _answered(result: Mapping[str, Any]) -> dict[str, Any]:
    if result.get("isError"):
        raise Refused(result["content"][0]["text"])
    return dict(result["structuredContent"])


@asynccontextmanager
async def over_stdio(site: Site, **how: Any) -> AsyncIterator[SdkHost]:
    """Yield a host that has started its own server process; `how` is passed to the SDK's client."""
    site.state_dir.mkdir(parents=True, exist_ok=True)
    told = site.state_dir.parent / "pid"
    # The shell becomes the server, so the number that it writes down is the server's.
    script = ["-c", 'echo $$ >"$0"; exec "$@"', str(told), *site.command()]
    process = StdioServerParameters(command="/bin/sh", args=script, env=site.environment, cwd=ROOT)
    log = site.state_dir.parent / "stdio.log"
    with log.open("a", encoding="utf-8") as errors:
        async with Client(stdio_client(process, errlog=errors), **how) as client:
            yield SdkHost(client, int(told.read_text(encoding="utf-8")))


@asynccontextmanager
async def serving_http(site: Site) -> AsyncIterator[str]:
    """Yield the address of a separate server process."""
    command = site.command("--http", "127.0.0.1:0")
    process = await anyio.open_process(command, stdin=None, cwd=ROOT, env=site.environment)
    async with process:
        try:
            url = await announced(process)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drain, process)
                yield url
                tasks.cancel_scope.cancel()
        finally:
            process.kill()
            await process.wait()


async def _drain(process: anyio.abc.Process) -> None:
    """Read the server's further output, so that a full pipe never blocks it."""
    assert process.stderr is not None
    async for _ in process.stderr:
        pass


@asynccontextmanager
async def over_http(url: str, token: str | None = None) -> AsyncIterator[SdkHost]:
    """Yield a host of the Python SDK that talks to the server there."""
    async with (
        create_mcp_http_client(headers=authorized(token)) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield SdkHost(client)


def authorized(token: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"} if token else {}


@asynccontextmanager
async def by_hand(url: str, token: str | None = None) -> AsyncIterator[PlainHost]:
    """Yield a host that knows only HTTP and JSON."""
    hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "by hand", "version": "0"}}
    async with httpx.AsyncClient(headers={**HEADERS, **authorized(token)}, timeout=SOON_S) as http:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        answer = await http.post(url, json=asked)
        session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": PROTOCOL}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await http.post(url, json=ready, headers=session)).is_success
        yield PlainHost(http, url, session)


@asynccontextmanager
async def by_inspector(url: str, token: str | None = None) -> AsyncIterator[InspectorHost]:
    """Yield a host in another language."""
    yield InspectorHost(url, token)
