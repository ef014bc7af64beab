"""stdio: one process per host. Nothing but protocol on stdout; lines are bounded; it ends when the host does."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, cast

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, JSONRPCError

from mcp_server.transport.bad_lines import failure, mended, refusal
from mcp_server.transport.signals import ending_signals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_server.protocol.server import ForgeServer

LONGEST_LINE = 8 * 1024 * 1024
"""Bytes of one message; a longer one is answered with an error and skipped, in flat memory."""
READ_BYTES = 64 * 1024
PARENT_POLL_S = 2.0


async def serve_stdio(server: ForgeServer) -> None:
    """Serve one host over this process's stdin and stdout until it closes them, dies, or asks us to stop."""
    with _claimed_stdio() as (fd_in, fd_out):
        lines = BoundedLines(fd_in)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
            tasks.start_soon(_stop_with_parent, tasks.cancel_scope)
            stdin, stdout = cast("Any", lines), cast("Any", PipeWriter(fd_out))  # what the SDK uses of an AsyncFile
            async with stdio_server(stdin, stdout) as (read_stream, write_stream):
                lines.on_oversize = lambda size: write_stream.send(SessionMessage(_too_long(size)))
                await server.run_streams(Answering(read_stream, write_stream), write_stream)
            tasks.cancel_scope.cancel()


@contextmanager
def _claimed_stdio() -> Iterator[tuple[int, int]]:
    """Keep the wire for the transport: fd 0 reads nothing and fd 1 goes to stderr, whatever a library prints."""
    sys.stdout.flush()
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    try:
        yield wire_in, wire_out
    finally:
        os.dup2(wire_in, 0)
        os.dup2(wire_out, 1)


class Answering:
    """The messages of a read stream. A line that is none is mended, or refused at once: the SDK would say nothing to it.

    It takes the place of the SDK's stream, so it has what the SDK uses of that one.
    """

    def __init__(self, messages: Any, answers: Any) -> None:
        self._messages, self._answers = messages, answers

    @property
    def last_context(self) -> Any:
        """Return the sender's context, as the SDK's stream does."""
        return self._messages.last_context

    async def receive(self) -> Any:
        """Return the next message."""
        while isinstance(item := await self._messages.receive(), Exception):
            message = mended(item)
            if message is not None:
                return SessionMessage(message)
            answer = refusal(item)
            if answer is not None:
                await self._answers.send(SessionMessage(answer))
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class BoundedLines:
    """The lines of a descriptor as text; one that is too long is reported by its size and left out."""

    def __init__(self, fd: int, *, longest: int = LONGEST_LINE) -> None:
        self._fd, self._longest = fd, longest
        self.on_oversize: Callable[[int], Any] | None = None
        self._poll = _pollable(fd)

    async def __aiter__(self) -> AsyncIterator[str]:
        held: list[bytes] = []
        size = 0
        while block := await self._read():
            head, newline, rest = block.partition(b"\n")
            while newline:
                size += len(head)
                if size <= self._longest:
                    yield (b"".join(held) + head).decode("utf-8", "replace")
                else:
                    await self._oversize(size)
                held, size = [], 0
                head, newline, rest = rest.partition(b"\n")
            size += len(head)
            held = [*held, head] if size <= self._longest else []
        if 0 < size <= self._longest:
            yield b"".join(held).decode("utf-8", "replace")

    async def _oversize(self, size: int) -> None:
        if self.on_oversize is not None:
            await self.on_oversize(size)

    async def _read(self) -> bytes:
        if self._poll:
            await anyio.wait_readable(self._fd)
            return os.read(self._fd, READ_BYTES)
        return await anyio.to_thread.run_sync(os.read, self._fd, READ_BYTES, abandon_on_cancel=True)


class PipeWriter:
    """Writes text to a descriptor without a thread where the descriptor can be polled."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = _pollable(fd)
        if self._poll:
            os.set_blocking(fd, False)

    async def write(self, text: str) -> None:
        """Write all of `text`; a host that does not read makes this wait, not the server."""
        data = memoryview(text.encode())
        while data:
            if not self._poll:
                await anyio.to_thread.run_sync(self._write_all, bytes(data))
                return
            try:
                data = data[os.write(self._fd, data) :]
            except BlockingIOError:
                await anyio.wait_writable(self._fd)

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    async def flush(self) -> None:
        """Do nothing: every write goes straight out."""


def _pollable(fd: int) -> bool:
    """Return whether the event loop can wait for `fd`: pipes and sockets on Unix. Files and terminals take a thread."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _too_long(size: int) -> JSONRPCError:
    limit = LONGEST_LINE // (1024 * 1024)
    return failure(INVALID_REQUEST, f"a message of {size} bytes is too long; the limit is {limit} MiB")


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    if sys.platform == "win32":
        return
    with anyio.open_signal_receiver(*ending_signals()) as signals:
        async for _ in signals:
            scope.cancel()
            return


async def _stop_with_parent(scope: anyio.CancelScope) -> None:
    """End when the host is gone although a sibling still holds the pipe open."""
    parent = os.getppid()
    while True:
        await anyio.sleep(PARENT_POLL_S)
        with suppress(OSError):
            if os.getppid() != parent:
                scope.cancel()
                return
