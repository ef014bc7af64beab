"""The port that several server processes share."""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import ExitStack, suppress

import pytest

from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport.shared_port import BACKLOG, bound, for_one_process, reserved
from mcp_server.web.ports import listening

CONNECTIONS = 64


def process_at(port: socket.socket) -> socket.socket:
    """Return the socket of one more process, which listens."""
    own = for_one_process(port)
    own.listen(BACKLOG)
    return own


def waiting(process: socket.socket) -> int:
    """Accept the connections that wait at this socket; return how many."""
    process.settimeout(0)
    taken = 0
    with suppress(BlockingIOError):
        while True:
            process.accept()[0].close()
            taken += 1
    return taken


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the processes share one socket")
def test_connections_are_distributed_over_the_processes() -> None:
    with ExitStack() as open_until_the_end:
        keep = open_until_the_end.enter_context
        port = keep(reserved(HttpAddress("127.0.0.1", 0)))
        processes = [keep(process_at(port)) for _ in range(2)]
        for _ in range(CONNECTIONS):
            keep(socket.create_connection(port.getsockname(), 10))
        accepted = [waiting(process) for process in processes]
        assert sum(accepted) == CONNECTIONS
        assert min(accepted) > 0


def test_no_other_server_gets_the_port_before_or_after_the_processes_listen() -> None:
    with reserved(HttpAddress("127.0.0.1", 0)) as port:
        there = HttpAddress(*port.getsockname())
        for open_socket in (bound, reserved):
            with pytest.raises(BadSetting, match="cannot listen there: Address already in use; choose another port"):
                open_socket(there)
        with process_at(port):
            for open_socket in (bound, reserved):
                with pytest.raises(BadSetting, match="choose another port"):
                    open_socket(there)


def test_a_port_that_a_server_uses_is_not_shared_with_it() -> None:
    with bound(HttpAddress("127.0.0.1", 0)) as other, pytest.raises(BadSetting, match="choose another port"):
        reserved(HttpAddress(*other.getsockname()))


async def test_no_reply_waits_until_the_client_has_confirmed_its_headers() -> None:
    """Nagle's algorithm kept the body of each reply for 40 ms on a connection that stays open."""
    with ExitStack() as open_until_the_end:
        keep = open_until_the_end.enter_context
        port = keep(reserved(HttpAddress("127.0.0.1", 0)))
        for listener in (bound(HttpAddress("127.0.0.1", 0)), process_at(port), *keep(listening(0))):
            accepted = asyncio.get_running_loop().create_future()

            def note(
                _: asyncio.StreamReader, writer: asyncio.StreamWriter, done: asyncio.Future[bool] = accepted
            ) -> None:
                connection = writer.get_extra_info("socket")
                done.set_result(bool(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
                writer.close()

            async with await asyncio.start_server(note, sock=listener):
                _, writer = await asyncio.open_connection(*listener.getsockname()[:2])
                assert await accepted, listener
                writer.close()
                await writer.wait_closed()
