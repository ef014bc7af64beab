"""JSON requests to one server, sent before the caller first waits.

An HTTP library lets other tasks run several times before it sends anything. A search computes on the same thread while a
server works, so the server would only begin when that is done.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

import h11

from knowledge.wire.compression import Unpacking

MOST_REPLY = 16 << 20
"""Limit for the body of a reply."""
MOST_IDLE = 16
"""Connections that are kept open between requests."""


class Reply(NamedTuple):
    """A server's answer, its body unpacked."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Address:
    """A server's address, taken apart; `path` is the common beginning of all paths."""

    host: str
    port: int
    path: str
    headers: Sequence[tuple[str, str]]


class HttpPosts:
    """Sends requests to the server at `url`, over connections that are kept alive. No proxy is used, no redirect followed.

    For one event loop. The caller limits the time.
    """

    def __init__(self, url: str, headers: Mapping[str, str], tls: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        host = parts.hostname or ""
        self._tls = (tls or ssl.create_default_context()) if secure else None
        # The server sends a compressed answer in several small packets, and delays the second by 40 ms until the first is
        # acknowledged.
        plain = {"Host": parts.netloc.rpartition("@")[2], "Accept-Encoding": "identity"}
        sent = plain | {"Content-Type": "application/json"} | dict(headers)
        self._at = _Address(host, parts.port or (443 if secure else 80), parts.path.rstrip("/"), [*sent.items()])
        self._idle: list[_Exchanges] = []
        self._open: set[_Exchanges] = set()

    def begin(self, path: str, body: bytes) -> asyncio.Future[Reply]:
        """Return the answer to `body`, which is JSON, as a future. If a connection is open, the request is sent now.

        Cancelling the future closes its connection. Its errors:
            OSError: the server cannot be reached, its certificate is not trusted, or it ended the connection.
            h11.RemoteProtocolError: what it sends is not HTTP.
            BadPacking: the body of the answer is too large, or can't be unpacked.
        """
        line = self._free()
        return self._sent(line, path, body) if line else asyncio.ensure_future(self._post_on_new(path, body))

    async def _post_on_new(self, path: str, body: bytes) -> Reply:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(
            lambda: _Exchanges(self._take_back), self._at.host, self._at.port, ssl=self._tls
        )
        self._open.add(line)
        line.ended.add_done_callback(lambda _: self._open.discard(line))
        return await self._sent(line, path, body)

    def _sent(self, line: _Exchanges, path: str, body: bytes) -> asyncio.Future[Reply]:
        answer = line.send(self._at, path, body)
        answer.add_done_callback(lambda done: line.end() if done.cancelled() else None)
        return answer

    def _take_back(self, line: _Exchanges) -> None:
        if line.reusable and len(self._idle) < MOST_IDLE:
            self._idle.append(line)
        else:
            line.end()

    async def close(self) -> None:
        """Close all connections. A request that waits fails."""
        self._idle.clear()
        ended = list(self._open)
        for line in ended:
            line.end()
        # The event loop closes the sockets in one of its next turns.
        await asyncio.gather(*(line.ended for line in ended))

    def _free(self) -> _Exchanges | None:
        while self._idle:
            if (line := self._idle.pop()).reusable:
                return line
        return None


class _Exchanges(asyncio.Protocol):
    """One connection: a request, its answer, the next request."""

    def __init__(self, done: Callable[[_Exchanges], None]) -> None:
        self._done = done
        """Called with each complete answer, before its caller has it, so that the next request can use the connection."""
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the connection is closed."""
        self._http = h11.Connection(h11.CLIENT)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Reply] | None = None
        self._status, self._headers = 0, dict[str, str]()
        self._unpacking: Unpacking | None = None
        self._body = bytearray()

    @property
    def reusable(self) -> bool:
        """Whether the next request can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._http.our_state is h11.IDLE

    def send(self, at: _Address, path: str, body: bytes) -> asyncio.Future[Reply]:
        """Send the request now, and return a future for its answer."""
        answer = self._answer = asyncio.get_running_loop().create_future()
        self._body = bytearray()
        if self._transport is None:
            self._fail(ConnectionResetError())
            return answer
        headers = [*at.headers, ("Content-Length", str(len(body)))]
        request = h11.Request(method="POST", target=f"{at.path}/{path}", headers=headers)
        # One write, so that it is one packet.
        parts = (self._http.send(part) or b"" for part in (request, h11.Data(data=body), h11.EndOfMessage()))
        self._transport.write(b"".join(parts))
        return answer

    def end(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    # --- called by the event loop -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = transport if isinstance(transport, asyncio.Transport) else None

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the request that waits."""
        self._transport = None
        if not self.ended.done():
            self.ended.set_result(None)
        self._fail(exc if isinstance(exc, OSError) else ConnectionResetError())

    def data_received(self, data: bytes) -> None:
        """Read on, and answer the request that waits when its answer is complete."""
        try:
            self._http.receive_data(data)
            self._read()
        except (h11.RemoteProtocolError, ValueError) as error:
            self._fail(error)
            self.end()

    def eof_received(self) -> None:
        """Read the end of an answer without a length. The connection then closes."""
        try:
            self._http.receive_data(b"")
            self._read()
        except (h11.RemoteProtocolError, ValueError) as error:
            self._fail(error)

    def _read(self) -> None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._status = event.status_code
                self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in event.headers}
                self._unpacking = Unpacking(self._headers.get("content-encoding", ""), MOST_REPLY)
            elif isinstance(event, h11.Data) and self._unpacking is not None:
                for piece in self._unpacking.feed(bytes(event.data)):
                    self._body += piece
            elif isinstance(event, h11.EndOfMessage):
                self._complete()
                return
            elif not isinstance(event, h11.InformationalResponse):
                return

    def _complete(self) -> None:
        reply = Reply(self._status, self._headers, bytes(self._body))
        if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
            self._http.start_next_cycle()
        if self._answer is not None and not self._answer.done():
            self._done(self)
            self._answer.set_result(reply)

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
