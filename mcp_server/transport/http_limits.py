"""How long and how often a client may keep an HTTP server waiting.

uvicorn waits for ever for the rest of a request, and its `limit_concurrency` counts connections that never asked for anything, so
that a few hundred of them keep everybody out. Here each wait for a client ends, and when all places are taken the connection that has
kept the server waiting longest is closed. An answer has no deadline: calls may take an hour, and event streams never end.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

Wait = Literal["head", "body", "reading"]
"""What is waited for: the request line and headers, the request's body, or that the client takes what was sent to it."""

KEEPALIVE_S, PROBE_S, PROBES = 60, 20, 3
"""When the system asks a silent client whether it is still there, how often, and after how many questions it is taken for gone."""
_HARMLESS = (
    (b"content-security-policy", b"default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
"""Headers of answers that no application gives: nothing in them acts either."""
_BUSY = h11.Connection(h11.SERVER).send(
    h11.Response(
        status_code=503,
        reason=b"Service Unavailable",
        headers=[(b"retry-after", b"1"), (b"content-length", b"0"), (b"connection", b"close"), *_HARMLESS],
    )
)


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """What one server allows its clients."""

    connections: int
    head_bytes: int = 16_384
    head_s: float = 10.0
    """Also how long a kept connection may take from one answer to the end of the next request's headers."""
    body_s: float = 60.0
    reading_s: float = 60.0

    def times(self) -> dict[Wait, float]:
        """Return how long each wait may take."""
        return {"head": self.head_s, "body": self.body_s, "reading": self.reading_s}


MCP = ClientLimits(connections=1000)
PAGE = ClientLimits(connections=100, body_s=30.0)
"""One person with a few tabs, and the programs of this machine."""


def bounded(app: ASGIApp, bounds: ClientLimits, **more: Any) -> uvicorn.Config:
    """Return the configuration of a server that holds its clients to `bounds`; `more` is uvicorn's own.

    It logs no addresses: the review page's may hold a login secret.
    """
    limited = ClientLimits(min(bounds.connections, _most_sockets()), bounds.head_bytes, *bounds.times().values())
    protocol = type("Bounded", (BoundedProtocol,), {"bounds": limited})
    # With `log_config` uvicorn would write to stderr past our own form of log lines.
    return uvicorn.Config(
        app,
        http=protocol,
        h11_max_incomplete_event_size=bounds.head_bytes,
        access_log=False,
        log_config=None,
        ws="none",
        **more,
    )


def _most_sockets() -> int:
    """Return half of the files that this process may open: without one left, nobody else gets in and no page can be read."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else max(soft // 2, 1)


class BoundedProtocol(H11Protocol):
    """One connection whose every wait for the client has a deadline."""

    bounds: ClientLimits
    _wait: Wait | None = None
    _since: float = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _answered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Take the connection up, in the place of another one if there are too many."""
        super().connection_made(transport)
        _keep_alive(transport.get_extra_info("socket"))
        if len(self.connections) > self.bounds.connections and not self._has_room():
            transport.write(_BUSY)
            transport.close()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take up what came, in pieces: h11 checks the size of headers only when it has to wait for more of them."""
        for at in range(0, len(data), self.bounds.head_bytes):
            if self.transport.is_closing():
                break
            super().data_received(data[at : at + self.bounds.head_bytes])
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Say that this is no HTTP, and end the connection."""
        told = msg.encode("ascii", "replace")
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), *_HARMLESS]
        headers.append((b"content-length", str(len(told)).encode()))
        parts = (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=told))
        for event in (*parts, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._answered = True
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait until the client takes what was sent."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Go on: the client took it."""
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        """Set the deadline of what is waited for now. The same wait goes on under the deadline that it has."""
        wait = self._waits_for()
        if wait is self._wait:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._wait, self._since, self._deadline = wait, self.loop.time(), None
        if wait is not None:
            self._deadline = self.loop.call_later(self.bounds.times()[wait], self._overdue)

    def _waits_for(self) -> Wait | None:
        if self.flow.write_paused or (
            (self.transport.is_closing() or self._is_answered()) and self.transport.get_write_buffer_size()
        ):
            return "reading"
        if self.transport.is_closing():
            return None
        states: dict[Any, Wait] = {h11.IDLE: "head", h11.SEND_BODY: "body"}
        return states.get(self.conn.their_state)

    def _is_answered(self) -> bool:
        return self.cycle is not None and self.cycle.response_complete

    def _overdue(self) -> None:
        if self._waits_for() is self._wait:
            # `close` would wait for the client once more, to take what is still to be sent.
            self.transport.abort()
        else:
            self._watch()

    def _has_room(self) -> bool:
        """Return whether there is room for this connection, once that which has kept us waiting longest made some.

        One that was answered before goes after those that never were: it is idle between two requests, as browsers' are.
        """
        waiting = [
            one
            for one in self.connections
            if isinstance(one, BoundedProtocol) and one is not self and one._wait is not None  # noqa: SLF001 - its own kind
        ]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: (one._answered, one._since))  # noqa: SLF001 - likewise
        self.connections.discard(longest)  # it leaves for good a moment later, when the loop comes round
        longest.transport.abort()
        return True


def _keep_alive(connected: socket.socket | None) -> None:
    """Have the system notice a client that went without a word, as machines do that lose power or their network."""
    if connected is None:
        return
    options = (("TCP_KEEPIDLE", KEEPALIVE_S), ("TCP_KEEPINTVL", PROBE_S), ("TCP_KEEPCNT", PROBES))
    with suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options:
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
