"""Requests over kept-alive connections, to a server in threads of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anyio
import h11
import pytest

from knowledge.wire.compression import BadPacking
from knowledge.wire.http_posts import HttpPosts

PATIENCE_S = 30.0


class Answering(ThreadingHTTPServer):
    """Answers a request with the bytes in `answers`, by path, and remembers the connection of each request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, bytes] = {}
        self.seen: list[tuple[str, bytes, int]] = []
        self.arrived = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/base/"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Answering

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.seen.append((self.path, body, self.client_address[1]))
        self.server.arrived.set()
        self.server.may_answer.wait(PATIENCE_S)
        self.wfile.write(self.server.answers.get(self.path, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"))
        self.close_connection = b"Connection: close" in self.server.answers.get(self.path, b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Answering]:
    with Answering() as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield started
        started.may_answer.set()
        started.shutdown()
        thread.join()


async def test_the_server_has_a_request_before_its_caller_waits(server: Answering) -> None:
    posts = HttpPosts(server.url, {"Key": "k"})
    assert (await posts.begin("search", b'{"a": 1}')).body == b"{}"
    server.arrived.clear()
    answer = posts.begin("search", b'{"a": 2}')
    assert server.arrived.wait(PATIENCE_S), "this thread has not returned to its event loop"
    assert (await answer).status == 200
    assert [(path, body) for path, body, _ in server.seen] == [
        ("/base/search", b'{"a": 1}'),
        ("/base/search", b'{"a": 2}'),
    ]
    await posts.close()


async def test_connections_are_kept_and_two_requests_at_once_use_two(server: Answering) -> None:
    posts = HttpPosts(server.url, {})
    for _ in range(3):
        both = posts.begin("a", b"1"), posts.begin("b", b"2")
        assert [(await one).status for one in both] == [200, 200]
    assert len(server.seen) == 6
    assert len({port for *_, port in server.seen}) == 2
    await posts.close()


async def test_a_cancelled_request_leaves_no_answer_to_the_next_one(server: Answering) -> None:
    posts = HttpPosts(server.url, {})
    await posts.begin("first", b"1")
    server.answers["/base/late"] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate"
    server.may_answer.clear()
    with anyio.move_on_after(0.05):
        await posts.begin("late", b"2")
    server.may_answer.set()
    assert (await posts.begin("next", b"3")).body == b"{}"
    ports = [port for *_, port in server.seen]
    assert ports[0] == ports[1] != ports[2]
    await posts.close()


@pytest.mark.parametrize(
    "framed",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}",
    ],
    ids=["chunked", "after a hint", "until the end"],
)
async def test_every_framing_of_an_answer_is_read(server: Answering, framed: bytes) -> None:
    posts = HttpPosts(server.url, {})
    server.answers["/base/a"] = framed
    for _ in range(2):
        reply = await posts.begin("a", b"1")
        assert (reply.status, reply.body) == (200, b"{}")
    await posts.close()


async def test_an_ended_connection_and_an_answer_that_is_not_http_are_errors(server: Answering) -> None:
    posts = HttpPosts(server.url, {})
    server.answers["/base/cut"] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{}"
    server.answers["/base/odd"] = b"220 mail.example.com\r\nConnection: close\r\n\r\n"
    server.answers["/base/packed"] = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}"
    for path, kind in (("cut", h11.RemoteProtocolError), ("odd", h11.RemoteProtocolError), ("packed", BadPacking)):
        with pytest.raises(kind), anyio.fail_after(PATIENCE_S):
            await posts.begin(path, b"1")
    assert (await posts.begin("a", b"1")).status == 200, "the next request gets a new connection"
    await posts.close()


async def test_a_server_that_is_not_there_is_an_os_error() -> None:
    with pytest.raises(OSError, match=r"."):
        await HttpPosts("http://127.0.0.1:9", {}).begin("a", b"1")
