"""Connections that promise a request and never finish it: they are cut off, bounded in number, and keep nobody out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_server.app.composition import open_app
from mcp_server.app.settings.access import THIS_MACHINE
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport import http
from mcp_server.transport import http_limits as bounds
from mcp_server.transport.shared_port import SharedPort, bound
from mcp_server.web import application
from tests.support.knowledge_bases.folders import write
from tests.support.processes.socket_server import Prompt
from tests.support.web.plain_http import TRUSTING_NOBODY
from tests.support.web.review_pages import shown

PATIENCE_S = 60.0
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
SLOW: dict[str, Callable[[int], bytes]] = {
    "nothing": lambda _port: b"",
    "headers": lambda port: f"POST /mcp HTTP/1.1\r\nhost: localhost:{port}\r\nx: ".encode(),
    "body": lambda port: (
        f"POST /mcp HTTP/1.1\r\nhost: localhost:{port}\r\ncontent-type: application/json\r\n"
        "accept: application/json, text/event-stream\r\ncontent-length: 1000000\r\n\r\n{"
    ).encode(),
    "second request": lambda port: f"GET / HTTP/1.1\r\nhost: localhost:{port}\r\n\r\nGET / HT".encode(),
}


def tight(monkeypatch: pytest.MonkeyPatch, **less: Any) -> None:
    """Use shorter limits than the product's."""
    monkeypatch.setattr(bounds, "MCP", replace(bounds.MCP, **less))
    # Patched where it is used: the page's module has its own name for the limits.
    monkeypatch.setattr(application, "PAGE", replace(bounds.PAGE, **less))


@asynccontextmanager
async def mcp_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    settings = Settings(kb=write(tmp_path / "kb"), state_dir=tmp_path / "state")
    listening = bound(HttpAddress("127.0.0.1", 0))
    servers: list[uvicorn.Server] = []

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Kept)
    async with open_app(settings, indexing=False) as app, anyio.create_task_group() as tasks:
        port = SharedPort(listening, http.log_addresses)
        tasks.start_soon(
            partial(http.serve_app, http.http_app(app.server), HttpAddress("127.0.0.1", 0), THIS_MACHINE, port=port)
        )
        yield int(listening.getsockname()[1])
        # If it were cancelled, the event loop would wait for the open requests when it closes.
        servers[0].should_exit = True


@asynccontextmanager
async def page_port(tmp_path: Path, _monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[int]:
    async with shown(tmp_path) as place:
        yield place.port


@pytest.fixture(params=[mcp_port, page_port], ids=["mcp", "page"])
async def port(request: pytest.FixtureRequest) -> Any:
    return request.param


async def answered(port: int) -> int:
    """Ask as any other client would, on a separate connection, and return the status."""
    async with httpx.AsyncClient(timeout=PATIENCE_S, verify=TRUSTING_NOBODY) as client:
        return (await client.post(f"http://localhost:{port}/mcp", json=HELLO, headers=HEADERS)).status_code


async def trickle(port: int, opening: bytes, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
    """Open a connection, send a byte now and then, and return when the server ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(opening)
    task_status.started()
    reading = asyncio.create_task(reader.read())
    try:
        while not reading.done():
            if opening:
                writer.write(b"x")
            await asyncio.wait([reading], timeout=0.05)
        with suppress(ConnectionError):
            await reading
    finally:
        reading.cancel()
        writer.close()


@pytest.mark.parametrize("kind", SLOW)
async def test_a_client_that_never_finishes_a_request_is_cut_off(
    kind: str, port: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight(monkeypatch, head_s=0.3, body_s=0.3)
    async with port(tmp_path, monkeypatch) as number:
        with anyio.fail_after(PATIENCE_S):
            await trickle(number, SLOW[kind](number))


@pytest.mark.parametrize("kind", SLOW)
async def test_however_many_clients_dawdle_others_are_served(
    kind: str, port: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uvicorn counts connections that never sent a request, and then answers everyone 503."""
    tight(monkeypatch, connections=40)
    async with port(tmp_path, monkeypatch) as number, anyio.create_task_group() as tasks:
        quiet = await answered(number)
        with anyio.fail_after(PATIENCE_S):
            # All are connected before anybody else is: the newest connection is the last to be closed.
            for _ in range(150):
                await tasks.start(trickle, number, SLOW[kind](number))
            for _ in range(3):
                assert await answered(number) == quiet
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("path", ["/login", "/trust/grant", "/nowhere"])
async def test_a_client_that_is_not_logged_in_sends_the_page_four_kilobytes_at_most(path: str, tmp_path: Path) -> None:
    """A login form holds one secret.

    Twenty million bytes were read from each of 200 clients at once, logged in or not.
    """
    async with shown(tmp_path) as place:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(
            f"POST {path} HTTP/1.1\r\nhost: localhost:{place.port}\r\norigin: http://localhost:{place.port}\r\n"
            "content-type: application/x-www-form-urlencoded\r\ncontent-length: 19000000\r\n\r\nsecret=".encode()
        )
        writer.write(b"x" * 5_000)
        with anyio.fail_after(PATIENCE_S):
            answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 404")


async def test_headers_are_read_up_to_a_limit_even_if_they_arrive_together(
    port: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        port(tmp_path, monkeypatch) as number,
        httpx.AsyncClient(timeout=PATIENCE_S, verify=TRUSTING_NOBODY) as client,
    ):
        for headers in ({"x": "y" * 40_000}, {f"x-{at}": "y" * 90 for at in range(400)}):
            answer = await client.get(f"http://127.0.0.1:{number}/", headers=headers)
            assert (answer.status_code, answer.headers["connection"]) == (400, "close")


@asynccontextmanager
async def flowing(app: ASGIApp, **less: Any) -> AsyncIterator[int]:
    listening = bound(HttpAddress("127.0.0.1", 0))
    server = Prompt(bounds.bounded(app, bounds.ClientLimits(10, **less), lifespan="off"))
    running = asyncio.create_task(server._serve(sockets=[listening]))
    try:
        yield int(listening.getsockname()[1])
    finally:
        server.should_exit = True
        await running


async def test_an_answer_may_take_its_time() -> None:
    """Event streams, and calls that wait for a person, are silent for longer than any client may be."""

    async def slow(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2):
            await asyncio.sleep(2.2)
            await send({"type": "http.response.body", "body": b"still here\n", "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async with (
        # Long enough for a request to arrive on a busy machine, and shorter than each silence.
        flowing(slow, head_s=2.0, body_s=2.0, reading_s=2.0) as number,
        httpx.AsyncClient(timeout=PATIENCE_S, verify=TRUSTING_NOBODY) as client,
    ):
        assert (await client.post(f"http://127.0.0.1:{number}/", content=b"x")).text == "still here\n" * 2


async def test_a_client_that_reads_no_answer_is_cut_off() -> None:
    """Their output stays in memory, and a polite close waits for them once more."""
    over = asyncio.Event()

    async def large(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        for _ in range(40):
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        assert await receive() == {"type": "http.disconnect"}
        over.set()

    async with flowing(large, reading_s=0.2) as number:
        _reader, writer = await asyncio.open_connection("127.0.0.1", number, limit=1_000)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        with anyio.fail_after(PATIENCE_S):
            await over.wait()
        writer.close()
