"""Any application on a real loopback socket, by uvicorn, with the network faults that a test requests.

The server runs in its own thread, so that tests with an event loop, tests without one, and other processes can call it.
A fault acts on the connection itself: cuts are TCP cuts, and malformed data never passes through the HTTP library.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tests.support.processes.socket_server import listening_on

PATIENCE_S = 60

Kind = Literal["cut", "wait", "answer", "raw", "hang_up"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one request. Use the functions below to make one.

    `acts`: the application runs first, and its reply is discarded (for `wait` and `hang_up`: sent). `then`: the cut or
    reply happens `seconds` later; raw bytes are sent one piece every `seconds`.
    """

    kind: Kind
    acts: bool = False
    seconds: float = 0.0
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    pieces: tuple[bytes, ...] = ()
    cut: bool = True


def after() -> Fault:
    """Let the application act, then cut the connection without a byte of reply."""
    return Fault("cut", acts=True)


def before() -> Fault:
    """Cut the connection once the request is read; the application never sees it."""
    return Fault("cut")


def hang_up() -> Fault:
    """Reply normally, promise to keep the connection, and close it."""
    return Fault("hang_up", acts=True)


def delayed(seconds: float) -> Fault:
    """Let the application act, and reply only after `seconds`."""
    return Fault("wait", acts=True, seconds=seconds)


def status(
    code: int, headers: Mapping[str, str] | None = None, body: bytes | str = b"", *, acts: bool = False
) -> Fault:
    """Answer with this status; the application runs first only if `acts` is set."""
    text = body.encode() if isinstance(body, str) else body
    return Fault("answer", acts=acts, status=code, headers=tuple((headers or {}).items()), body=text)


def redirected(url: str, code: int = 302) -> Fault:
    """Answer with a redirect to `url`."""
    return status(code, {"location": url})


def html(code: int = 200, *, acts: bool = True) -> Fault:
    """Answer with an HTML page instead of JSON, as a proxy or a login page does."""
    page = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Please sign in</body></html>"
    return status(code, {"content-type": "text/html; charset=utf-8"}, page, acts=acts)


def body(text: bytes | str, *, acts: bool = True) -> Fault:
    """Answer 200 with these bytes, declared as JSON."""
    return status(200, {"content-type": "application/json"}, text, acts=acts)


def oversized(size_bytes: int, *, acts: bool = True) -> Fault:
    """Answer with JSON of this many bytes."""
    return body(b'"' + b"x" * (size_bytes - 2) + b'"', acts=acts)


def truncated(*, acts: bool = True) -> Fault:
    """Send the head and half of the promised body, then cut."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 64\r\n\r\n"
    return Fault("raw", acts=acts, pieces=(head + b'{"half": "of wh',))


def malformed(*, acts: bool = True) -> Fault:
    """Send something that is not HTTP, then cut."""
    return Fault("raw", acts=acts, pieces=(b"EHLO there\r\n\r\n",))


def raw(*pieces: bytes, seconds: float = 0.0, acts: bool = True, cut: bool = True) -> Fault:
    """Send exactly these bytes, a piece every `seconds`, then cut, or leave the connection open."""
    return Fault("raw", acts=acts, seconds=seconds, pieces=pieces, cut=cut)


def dripping(seconds: float, *, acts: bool = True) -> Fault:
    """Send a head that promises a long body, then one byte every `seconds`, forever."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n"
    return Fault("raw", acts=acts, seconds=seconds, pieces=(head, *[b" "] * 99_999))


Plan = Callable[[str, str, int], Fault | None]


def in_turn(*faults: Fault | None) -> Plan:
    """Return a plan that gives each request the next fault, and none once they are used up."""
    left = list(faults)
    return lambda _method, _path, _number: left.pop(0) if left else None


def for_requests(method: str, path_ends: str, *faults: Fault | None) -> Plan:
    """Return a plan that gives the next fault to each request with that method and path ending."""
    left = list(faults)

    def plan(asked: str, path: str, _number: int) -> Fault | None:
        return left.pop(0) if left and asked == method and path.endswith(path_ends) else None

    return plan


def no_fault(_method: str, _path: str, _number: int) -> Fault | None:
    """Return None: no fault."""
    return None


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived; `connection` is the same for all requests of one connection."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    connection: tuple[str, int]


@dataclass
class Served:
    """A running server. `plan` gets method, path and number of the request, counted from 1, and returns its fault.

    `arrived` is set with each request; a test that waits for the next one clears it.
    """

    address: str
    plan: Plan = no_fault
    seen: list[Seen] = field(default_factory=list)
    arrived: threading.Event = field(default_factory=threading.Event)

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return int(self.address.rsplit(":", 1)[1])

    def count(self, method: str, path_ends: str = "") -> int:
        """Return how many such requests arrived."""
        return sum(seen.method == method and seen.path.endswith(path_ends) for seen in list(self.seen))

    def forget(self) -> None:
        """Forget earlier requests; numbers start again at 1."""
        self.seen.clear()


@contextmanager
def serving(
    app: ASGIApp, *, plan: Plan = no_fault, certificate: tuple[Path, Path] | None = None, port: int = 0
) -> Iterator[Served]:
    """Serve `app` on `port`, by default a free one, by TLS if `certificate` (chain, key) is given, until the block ends."""
    listening = listening_on(port)
    scheme = "https" if certificate else "http"
    served = Served(f"{scheme}://127.0.0.1:{listening.getsockname()[1]}", plan)
    running = _Running(app, served, listening, certificate)
    running.start()
    try:
        yield served
    finally:
        running.stop()


@asynccontextmanager
async def served(
    app: ASGIApp, *, plan: Plan = no_fault, certificate: tuple[Path, Path] | None = None
) -> AsyncIterator[Served]:
    """Do the same from an event loop, without blocking it."""
    opened = serving(app, plan=plan, certificate=certificate)
    running = await asyncio.to_thread(opened.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)


class _Running:
    """The thread, its event loop, and the server in it."""

    def __init__(
        self, app: ASGIApp, served: Served, listening: socket.socket, certificate: tuple[Path, Path] | None
    ) -> None:
        self._transports: dict[tuple[str, int], asyncio.Transport] = {}
        config = uvicorn.Config(
            _Faulty(app, served, self._transports),
            http=self._protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            timeout_keep_alive=PATIENCE_S,
        )
        config.load()
        if certificate:
            config.ssl = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            config.ssl.load_cert_chain(*certificate)
        self._server = _Server(config)
        self._listening = listening
        self._thread = threading.Thread(target=self._run, daemon=True, name="double")

    def start(self) -> None:
        self._thread.start()
        if not self._server.ready.wait(PATIENCE_S):
            raise TimeoutError("the double did not start")

    def stop(self) -> None:
        self._server.end()
        self._thread.join(PATIENCE_S)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._listening]))

    def _protocol(self) -> type[H11Protocol]:
        transports = self._transports

        class Reachable(H11Protocol):
            """A connection whose transport the faults can reach by the client's address."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                # Otherwise it follows other tests' logger settings, and logs addresses with their queries.
                self.access_log = False

            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
                super().connection_made(transport)
                if self.client:
                    transports[self.client] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                if self.client:
                    transports.pop(self.client, None)

        return Reachable


class _Server(uvicorn.Server):
    """Uvicorn that stops immediately instead of checking ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = threading.Event()
        self._over: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        await self.on_tick(0)
        self._over, self._loop = asyncio.Event(), asyncio.get_running_loop()
        self.ready.set()
        await self._over.wait()

    def end(self) -> None:
        if self._loop and self._over:
            self._loop.call_soon_threadsafe(self._over.set)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        tasks = list(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Faulty:
    """The application with faults around it."""

    def __init__(self, app: ASGIApp, served: Served, transports: Mapping[tuple[str, int], asyncio.Transport]) -> None:
        self._app, self._served, self._transports = app, served, transports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await _whole(receive)
        seen = _as_seen(scope, content)
        self._served.seen.append(seen)
        self._served.arrived.set()
        fault = self._served.plan(seen.method, seen.path, len(self._served.seen))
        again = _replayed(content, receive)
        if fault is None:
            await self._app(scope, again, send)
            return
        await self._broken(fault, scope, again, send)

    async def _broken(self, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
        transport = self._transports[tuple(scope["client"])]
        sent: list[Message] = []
        if fault.acts:
            await self._app(scope, receive, _kept(sent))
        match fault.kind:
            case "cut":
                await _cut(transport, receive)
            case "raw":
                await _written(fault, transport, receive)
            case "answer":
                await _answered(fault, send)
            case "wait":
                if not await _left_within(fault.seconds, receive):
                    await _given(sent, send)
            case "hang_up":
                await _given(sent, send)
                transport.close()


async def _whole(receive: Receive) -> bytes:
    content, more = b"", True
    while more:
        message = await receive()
        content += message.get("body", b"")
        more = message.get("more_body", False)
    return content


def _replayed(content: bytes, receive: Receive) -> Receive:
    """Return a channel that replays the body, and then what really arrives."""
    left = [content]

    async def replayed() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replayed


def _kept(sent: list[Message]) -> Send:
    async def keep(message: Message) -> None:
        sent.append(message)

    return keep


def _as_seen(scope: Scope, content: bytes) -> Seen:
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
    query = dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
    return Seen(scope["method"], scope["path"], query, headers, content, tuple(scope["client"]))


async def _given(sent: list[Message], send: Send) -> None:
    for message in sent:
        await send(message)


async def _answered(fault: Fault, send: Send) -> None:
    headers: list[tuple[bytes, bytes]] = [(name.encode(), value.encode("latin-1")) for name, value in fault.headers]
    headers.append((b"content-length", str(len(fault.body)).encode()))
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await send({"type": "http.response.body", "body": fault.body})


async def _written(fault: Fault, transport: asyncio.Transport, receive: Receive) -> None:
    for piece in fault.pieces:
        transport.write(piece)
        if fault.seconds and await _left_within(fault.seconds, receive):
            return
    if fault.cut:
        # A close, not an abort: what was written goes out before the connection ends.
        transport.close()
    await _gone(receive)


async def _cut(transport: asyncio.Transport, receive: Receive) -> None:
    transport.abort()
    await _gone(receive)


async def _left_within(seconds: float, receive: Receive) -> bool:
    """Return whether the client disconnected within this many seconds."""
    try:
        await asyncio.wait_for(_gone(receive), seconds)
    except TimeoutError:
        return False
    return True


async def _gone(receive: Receive) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await receive()
