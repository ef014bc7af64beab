"""Streamable HTTP on loopback: who may connect, and as whom."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import STATE_FILE, utc_now
from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.gate.host_registration import enrol, os_user
from mcp_server.transport import http_limits
from mcp_server.transport.http import http_app, stop_on_signal
from mcp_server.transport.shared_port import bound
from tests.contract.app.test_program_versions import migrate
from tests.support.knowledge_bases.folders import write

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")


@asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[tuple[App, httpx.AsyncClient]]:
    async with open_app(settings, indexing=False) as app:
        asgi = http_app(app.server)
        transport = httpx.ASGITransport(asgi)
        async with (
            app.server.session_manager.run(),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8321", headers=HEADERS) as client,
        ):
            yield app, client


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://127.0.0.1.evil.example", "null", "http://192.168.0.2"]
)
async def test_a_page_from_elsewhere_is_turned_away(settings: Settings, origin: str) -> None:
    """DNS rebinding and cross-site requests: the MCP specification, transports, security warning."""
    async with served(settings) as (_, client):
        assert (await client.post("/mcp", json=HELLO, headers={"origin": origin})).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example"])
async def test_another_name_for_this_machine_is_turned_away(settings: Settings, host: str) -> None:
    async with served(settings) as (_, client):
        assert (await client.post("/mcp", json=HELLO, headers={"host": host})).status_code == 421


@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "http://127.0.0.1", "http://[::1]:8321"])
async def test_this_machine_is_welcome(settings: Settings, origin: str | None) -> None:
    async with served(settings) as (_, client):
        answer = await client.post("/mcp", json=HELLO, headers={"origin": origin} if origin else {})
        assert answer.status_code == 200


async def status(client: httpx.AsyncClient, token: str | None) -> dict[str, Any]:
    """Call trust_status in the 2025 protocol with this bearer token."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    hello = await client.post("/mcp", json=HELLO, headers=headers)
    headers |= {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    ask = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "trust_status", "arguments": {}}}
    text = (await client.post("/mcp", json=ask, headers=headers)).text
    data = next(line for line in text.splitlines() if line.startswith("data: ") and '"id":2' in line.replace(" ", ""))
    answer: dict[str, Any] = httpx.Response(200, text=data.removeprefix("data: ")).json()
    content: dict[str, Any] = answer["result"]["structuredContent"]
    return content


async def test_a_host_is_known_by_its_enrolment_secret_as_bearer_token_and_nobody_without_one(
    settings: Settings,
) -> None:
    async with served(settings) as (app, client):
        secret = await enrol(app.base.state, "dashboard", now=utc_now())
        assert (await status(client, secret))["principal"] == f"{os_user()}@dashboard"
        assert (await status(client, None))["principal"] == f"{os_user()}@unenrolled:http"


@pytest.mark.parametrize(
    "given",
    [["Bearer guess"], ["Bearer"], ["Bearer "], ["Basic YTpi"], ["guess"], [""], ["Bearer {secret}", "Bearer guess"]],
    ids=["wrong", "no token", "blank", "basic", "no scheme", "empty", "two"],
)
async def test_a_wrong_authorization_is_a_401_before_any_mcp_and_never_treated_as_none(
    settings: Settings, given: list[str]
) -> None:
    async with served(settings) as (app, client):
        secret = await enrol(app.base.state, "dashboard", now=utc_now())
        wrong = [("authorization", one.format(secret=secret)) for one in given]
        modern = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}
        for more in ({}, modern, {"mcp-session-id": "none"}):
            headers = httpx.Headers([*HEADERS.items(), *more.items(), *wrong])
            answer = await client.post("/mcp", content="no json at all", headers=headers)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert secret not in answer.text


async def test_a_session_is_kept_to_the_host_that_opened_it(settings: Settings) -> None:
    """With a session's id alone, nobody can act in it or answer its forms: that takes the token it was opened with."""
    async with served(settings) as (app, client):
        secret, other = [await enrol(app.base.state, name, now=utc_now()) for name in ("dashboard", "other")]
        hello = await client.post("/mcp", json=HELLO, headers={"authorization": f"Bearer {secret}"})
        session = {"mcp-session-id": hello.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for token, code in ((None, 404), (other, 404), (secret, 202)):
            headers = session | ({"authorization": f"Bearer {token}"} if token else {})
            assert (await client.post("/mcp", json=note, headers=headers)).status_code == code


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadSetting, match="choose another port"):
            bound(HttpAddress("127.0.0.1", port))


def test_a_client_that_learns_the_port_may_connect_immediately() -> None:
    with bound(HttpAddress("127.0.0.1", 0)) as listening:
        socket.create_connection(listening.getsockname(), timeout=5).close()


def test_of_two_that_take_a_port_before_either_serves_one_gets_an_error() -> None:
    with bound(HttpAddress("127.0.0.1", 0)) as listening, pytest.raises(BadSetting, match="choose another port"):
        bound(HttpAddress("127.0.0.1", listening.getsockname()[1]))


@pytest.mark.skipif(sys.platform == "win32", reason="there a second Ctrl-C is uvicorn's own matter")
async def test_a_second_signal_cuts_off_what_the_first_one_lets_finish() -> None:
    running = uvicorn.Server(uvicorn.Config("none"))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            await tasks.start(stop_on_signal, running)
            under_way = asyncio.create_task(asyncio.sleep(3600))
            running.server_state.tasks.add(under_way)
            signal.raise_signal(signal.SIGTERM)
            while not running.should_exit:  # noqa: ASYNC110 - it tells nobody
                await anyio.sleep(0.01)
            assert not under_way.cancelling()
            signal.raise_signal(signal.SIGTERM)
            await asyncio.wait([under_way])
            assert under_way.cancelled()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("pieces", [0, 1], ids=["not yet answered", "half answered"])
async def test_a_request_that_a_stopping_server_cuts_off_is_a_503_unless_its_answer_has_begun(pieces: int) -> None:
    asked = asyncio.Event()

    async def slow(_scope: Scope, _receive: Receive, send: Send) -> None:
        if pieces:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
        asked.set()
        await asyncio.sleep(3600)

    listening = bound(HttpAddress("127.0.0.1", 0))
    listening.listen()
    running = uvicorn.Server(http_limits.bounded(slow, http_limits.MCP, timeout_graceful_shutdown=0, lifespan="off"))
    serving = asyncio.create_task(running._serve(sockets=[listening]))
    with anyio.fail_after(60):
        async with httpx.AsyncClient(timeout=60) as client:
            asking = asyncio.create_task(client.get(f"http://127.0.0.1:{listening.getsockname()[1]}/"))
            await asked.wait()
            running.should_exit = True
            if pieces:
                with pytest.raises(httpx.RemoteProtocolError):
                    await asking
            else:
                answer = await asking
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
                assert "Send the request again" in answer.text
                assert answer.headers["cache-control"] == "no-store"
        await serving


async def test_what_a_client_says_while_the_state_cannot_be_written_is_to_be_sent_again(settings: Settings) -> None:
    async with served(settings) as (_, client):
        started = await client.post("/mcp", json=HELLO)
        client.headers.update(
            {"mcp-session-id": started.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        )
        migrate(settings, STATE_FILE)
        reply = {"jsonrpc": "2.0", "id": "a question of another process", "result": {"action": "accept"}}
        for answer in (await client.post("/mcp", json=reply), await client.delete("/mcp")):
            assert answer.status_code == 503
            assert answer.headers["retry-after"] == "1"
            assert "send it again" in answer.text
