"""stdio: one process per host. Nothing but protocol goes to stdout, lines are bounded, and the server ends when the host does."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self, cast

import anyio
import anyio.to_thread
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST

from mcp_server.protocol.server import ForgeServer
from mcp_server.transport.bad_lines import LONGEST_MESSAGE, failure, mended, refusal
from mcp_server.transport.signals import ending_signals

LONGEST_LINE = LONGEST_MESSAGE
"""Bytes of a line; a longer one is answered with an error and skipped without being kept in memory."""
READ_BYTES = 64 * 1024  # as much as a pipe holds on Linux
PARENT_POLL_S = 2.0  # not every system can tell a process that its parent has ended


async def serve_stdio(server: ForgeServer) -> None:
    """Serve one host over this process's stdin and stdout until it closes them, dies, or sends a signal."""
    with _claimed_stdio() as (fd_in, fd_out):
        lines = BoundedLines(fd_in)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_stop_on_signal, tasks.cancel_scope)
            tasks.start_soon(_stop_with_parent, tasks.cancel_scope)
            stdin, stdout = (
                cast("Any", lines),
                cast("Any", PipeWriter(fd_out)),
            )  # they have the methods of an AsyncFile that the SDK uses
            async with stdio_server(stdin, stdout) as (read_stream, write_stream):

                async def refuse(size: int) -> None:
                    why = f"a message of {size} bytes is too long; the limit is {LONGEST_LINE // 2**20} MiB"
                    await write_stream.send(SessionMessage(failure(INVALID_REQUEST, why)))

                lines.on_oversize = refuse
                await server.run_streams(Answering(read_stream, write_stream), write_stream)
            tasks.cancel_scope.cancel()


@contextmanager
def _claimed_stdio() -> Iterator[tuple[int, int]]:
    """Yield the protocol's descriptors. Meanwhile fd 0 is empty and fd 1 is stderr, because libraries may print."""
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
    """The messages of a read stream. A line that is not a message is repaired or refused at once: the SDK would drop it silently.

    It replaces the SDK's stream, so it has the methods that the SDK calls on that.
    """

    def __init__(self, messages: Any, answers: Any) -> None:
        self._messages, self._answers = messages, answers

    @property
    def last_context(self) -> Any:
        """The sender's context, as on the SDK's stream."""
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
    """The lines of a descriptor as text; a line that is too long is left out and its size reported."""

    def __init__(self, fd: int, *, longest: int = LONGEST_LINE) -> None:
        self._fd, self._longest = fd, longest
        self.on_oversize: Callable[[int], Any] | None = None
        self._poll = _pollable(fd)

    async def __aiter__(self) -> AsyncIterator[str]:
        pieces: list[bytes] = []
        size = 0
        while block := await self._read():
            head, newline, rest = block.partition(b"\n")
            while newline:
                size += len(head)
                if size <= self._longest:
                    yield (b"".join(pieces) + head).decode("utf-8", "replace")
                elif self.on_oversize is not None:
                    await self.on_oversize(size)
                pieces, size = [], 0
                head, newline, rest = rest.partition(b"\n")
            size += len(head)
            pieces = [*pieces, head] if size <= self._longest else []
        if 0 < size <= self._longest:  # the last line may lack its line break
            yield b"".join(pieces).decode("utf-8", "replace")

    async def _read(self) -> bytes:
        if self._poll:
            await anyio.wait_readable(self._fd)
            return os.read(self._fd, READ_BYTES)
        return await anyio.to_thread.run_sync(os.read, self._fd, READ_BYTES, abandon_on_cancel=True)


class PipeWriter:
    """Writes text to a descriptor, without a thread if the event loop can wait for it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = _pollable(fd)
        if self._poll:
            os.set_blocking(fd, False)

    async def write(self, text: str) -> None:
        """Write all of `text`. If the host does not read, only this call waits, not the server."""
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
    """Return whether the event loop can wait for `fd`: pipes and sockets on Unix. Files and terminals need a thread."""
    if sys.platform == "win32":
        return False
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


async def _stop_on_signal(scope: anyio.CancelScope) -> None:
    if sys.platform == "win32":  # its event loop cannot wait for signals
        return
    with anyio.open_signal_receiver(*ending_signals()) as signals:
        async for _ in signals:
            scope.cancel()
            return


async def _stop_with_parent(scope: anyio.CancelScope) -> None:
    """Stop when the host has exited, even if another of its child processes still holds the pipe open."""
    parent = os.getppid()
    while True:
        await anyio.sleep(PARENT_POLL_S)
        with suppress(OSError):
            if os.getppid() != parent:
                scope.cancel()
                return
