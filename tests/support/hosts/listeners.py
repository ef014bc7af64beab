"""Subscribers of both protocols that know only HTTP and JSON, for many at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx

from tests.support.hosts.plain_callers import INFO, LEGACY, MODERN, PlainCaller, messages_of
from tests.support.web.plain_http import TRUSTING_NOBODY

PATIENCE_S = 60.0


class Follower:
    """A client that knows a page as it was when it last read it: once it is subscribed, and at each notification."""

    def __init__(self, caller: PlainCaller, path: str) -> None:
        self._caller, self._path = caller, path
        self._changed, self.lost = anyio.Event(), anyio.Event()

    def heard(self, _uri: str) -> None:
        """Take a notification."""
        self._changed.set()

    async def until(self, words: str) -> None:
        """Return once it knows a text with these words; it reads the page only if it has to."""
        with anyio.fail_after(PATIENCE_S):
            while words not in (await self._caller.call("kb_read", path=self._path))["text"]:
                await self._changed.wait()
                self._changed = anyio.Event()


@asynccontextmanager
async def following(url: str, token: str, era: str, path: str) -> AsyncIterator[Follower]:
    """Subscribe to a page, and yield the client that follows it."""
    async with PlainCaller(url, token, era) as caller:
        follower = Follower(caller, path)
        async with listening(url, token, era, [f"kb://doc/{path}"], follower.heard, lost=follower.lost):
            yield follower


@asynccontextmanager
async def listening(
    url: str,
    token: str,
    era: str,
    uris: Sequence[str],
    heard: Callable[[str], None],
    *,
    lost: anyio.Event | None = None,
) -> AsyncIterator[None]:
    """Subscribe to these addresses, and call `heard` with each that changes; `lost` is set when the stream ends.

    The body runs once the server has confirmed the subscriptions.
    """
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {token}",
        "mcp-protocol-version": era,
    }
    timeout = httpx.Timeout(PATIENCE_S, read=None)
    async with (
        httpx.AsyncClient(headers=headers, timeout=timeout, verify=TRUSTING_NOBODY) as http,
        anyio.create_task_group() as tasks,
    ):
        ready, ended = anyio.Event(), lost or anyio.Event()
        if era == MODERN:
            stream = http.stream("POST", url, json=_listen(uris), headers={"mcp-method": "subscriptions/listen"})
            tasks.start_soon(_follow, stream, heard, ready, ended)
        else:
            hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": INFO}
            answer = await http.post(url, json=_request(0, "initialize", hello))
            http.headers["mcp-session-id"] = answer.headers["mcp-session-id"]
            for number, uri in enumerate(uris, 1):
                (await http.post(url, json=_request(number, "resources/subscribe", {"uri": uri}))).raise_for_status()
            tasks.start_soon(_follow, http.stream("GET", url), heard, ready, ended)
        with anyio.fail_after(PATIENCE_S):
            await ready.wait()
        yield
        tasks.cancel_scope.cancel()


def _request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def _listen(uris: Sequence[str]) -> dict[str, Any]:
    told = {"protocolVersion": MODERN, "clientInfo": INFO, "clientCapabilities": {}}
    meta = {f"io.modelcontextprotocol/{name}": value for name, value in told.items()}
    return _request(1, "subscriptions/listen", {"_meta": meta, "notifications": {"resourceSubscriptions": list(uris)}})


async def _follow(stream: Any, heard: Callable[[str], None], ready: anyio.Event, ended: anyio.Event) -> None:
    """Report each change until the stream ends. A stream of the 2025 protocol is open with its headers."""
    try:
        async with stream as answer:
            answer.raise_for_status()
            if answer.request.method == "GET":
                ready.set()
            async for message in messages_of(answer):
                if message.get("method") == "notifications/resources/updated":
                    heard(str(message["params"]["uri"]))
                elif message.get("method") == "notifications/subscriptions/acknowledged":
                    ready.set()
    except httpx.TransportError:
        if not ready.is_set():
            raise
    ended.set()
