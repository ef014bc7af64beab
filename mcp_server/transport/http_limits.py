"""How long and how often a client may keep an HTTP server waiting.

uvicorn waits forever for the rest of a request, and its `limit_concurrency` counts connections that never sent a request, so a few
hundred of them lock everybody out. Here every wait for a client has a deadline, and when all places are taken, the connection that
has kept the server waiting longest is closed. Answers have no deadline: calls may take an hour, and event streams never end.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import h11
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

if sys.platform != "win32":
    import resource

Wait = Literal["head", "body", "reading"]
"""Waiting for the request line and headers, for the request's body, or for the client to read what was sent to it."""

KEEPALIVE_S, PROBE_S, PROBES = 60, 20, 3
"""TCP keep-alive: seconds of silence before the first probe, seconds between probes, and how many may go unanswered."""
_HARMLESS = (
    (b"content-security-policy", b"default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
)
"""Headers of answers that the application did not make: a browser must not run, frame or store those either."""
_BUSY = h11.Connection(h11.SERVER).send(
    h11.Response(
        status_code=503,
        reason=b"Service Unavailable",
        headers=[(b"retry-after", b"1"), (b"content-length", b"0"), (b"connection", b"close"), *_HARMLESS],
    )
)


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """The limits of one server for its clients."""

    connections: int
    head_bytes: int = 16_384
    head_s: float = 10.0
    """Also the time from one answer on a kept connection to the end of the next request's headers."""
    body_s: float = 60.0
    reading_s: float = 60.0

    def times(self) -> dict[Wait, float]:
        """Return the longest time of each wait, in seconds."""
        return {"head": self.head_s, "body": self.body_s, "reading": self.reading_s}


MCP = ClientLimits(connections=1000)
PAGE = ClientLimits(connections=100, body_s=30.0)
"""The limits of the review page, for one person with a few tabs and for programs on this machine."""


def bounded(app: ASGIApp, bounds: ClientLimits, **more: Any) -> uvicorn.Config:
    """Return the configuration of a server that holds its clients to `bounds`; `more` goes to uvicorn.

    It logs no addresses: the review page's may hold a login secret.
    """
    # At most half of the files that this process may open: with none left, no client gets in and no page can be read.
    most_sockets = sys.maxsize
    if sys.platform != "win32":
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            most_sockets = max(soft // 2, 1)
    limited = replace(bounds, connections=min(bounds.connections, most_sockets))
    protocol = type("Bounded", (BoundedProtocol,), {"bounds": limited})
    # With a `log_config` uvicorn would write to stderr itself, past our format of log lines.
    return uvicorn.Config(
        CutOffAnswer(app),
        http=protocol,
        h11_max_incomplete_event_size=bounds.head_bytes,
        access_log=False,
        log_config=None,
        ws="none",
        **more,
    )


@dataclass(frozen=True, slots=True)
class CutOffAnswer:
    """An application whose requests are answered with 503 if a stopping server cuts them off before their answer began.

    uvicorn would answer 500, and a client takes that for a fault of its request.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer it if it is cut off."""
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, noting)
        except asyncio.CancelledError:
            if scope["type"] == "http" and not begun:
                said = "The server stopped before it answered. Send the request again; what it changes may be done already."
                headers = {"retry-after": "1", **{name.decode(): value.decode() for name, value in _HARMLESS}}
                await PlainTextResponse(said, 503, headers)(scope, receive, send)
            raise


class BoundedProtocol(H11Protocol):
    """One connection; every wait for its client has a deadline."""

    bounds: ClientLimits
    _wait: Wait | None = None
    _since: float = 0.0
    _deadline: asyncio.TimerHandle | None = None
    _answered = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Accept the connection, in place of another one if there are too many."""
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
        """Parse the data in pieces: h11 checks the size of headers only when it has to wait for more of them."""
        for at in range(0, len(data), self.bounds.head_bytes):
            if self.transport.is_closing():
                break
            super().data_received(data[at : at + self.bounds.head_bytes])
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Answer that this is not HTTP, and close the connection."""
        body = msg.encode("ascii", "replace")
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close"), *_HARMLESS]
        headers.append((b"content-length", str(len(body)).encode()))
        parts = (h11.Response(status_code=400, headers=headers, reason=b"Bad Request"), h11.Data(data=body))
        for event in (*parts, h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._answered = True
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Wait for the client to read what was sent."""
        super().pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        """Continue: the client has read it."""
        super().resume_writing()
        self._watch()

    def _watch(self) -> None:
        """Set the deadline of the present wait. The same wait keeps its deadline: a byte now and then must not extend it."""
        wait = self._waits_for()
        if wait is self._wait:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._wait, self._since, self._deadline = wait, self.loop.time(), None
        if wait is not None:
            self._deadline = self.loop.call_later(self.bounds.times()[wait], self._overdue)

    def _waits_for(self) -> Wait | None:
        answered = self.cycle is not None and self.cycle.response_complete
        if self.flow.write_paused or (
            (self.transport.is_closing() or answered) and self.transport.get_write_buffer_size()
        ):
            return "reading"
        if self.transport.is_closing():
            return None
        states: dict[Any, Wait] = {h11.IDLE: "head", h11.SEND_BODY: "body"}
        return states.get(self.conn.their_state)

    def _overdue(self) -> None:
        if self._waits_for() is self._wait:
            # Not `close`: it would wait for the client to read the rest.
            self.transport.abort()
        else:
            self._watch()

    def _has_room(self) -> bool:
        """Close the connection that has kept the server waiting longest; return whether there was one.

        Connections that were answered before are closed last: browsers keep them open between requests.
        """
        waiting = [
            one
            for one in self.connections
            if isinstance(one, BoundedProtocol) and one is not self and one._wait is not None  # noqa: SLF001 - its own kind
        ]
        if not waiting:
            return False
        longest = min(waiting, key=lambda one: (one._answered, one._since))  # noqa: SLF001 - as above
        self.connections.discard(longest)  # not left to `connection_lost`, which the loop calls only in its next turn
        longest.transport.abort()
        return True


def _keep_alive(connected: socket.socket | None) -> None:
    """Have the system detect clients that vanish without closing, such as machines that lose power or their network."""
    if connected is None:
        return
    # Which of these options exist depends on the system.
    options = (("TCP_KEEPIDLE", KEEPALIVE_S), ("TCP_KEEPINTVL", PROBE_S), ("TCP_KEEPCNT", PROBES))
    with suppress(OSError):
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options:
            if hasattr(socket, name):
                connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
