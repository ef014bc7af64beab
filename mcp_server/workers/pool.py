"""Worker processes: they process large texts within a budget, and a caller that goes away stops its worker.

They are processes because a thread shares the interpreter's lock with the event loop and cannot be stopped (kb/decisions/0047).
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar, cast

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from knowledge.errors import TooMuchWaiting, TooMuchWork, WorkerEnded
from knowledge.offload import CALLER
from mcp_server.app.settings.environment import worker_environment
from mcp_server.fair_use.turns import leave_turn
from mcp_server.workers.child import HEADER, raised

A = TypeVar("A")
R = TypeVar("R")

ROOT = Path(__file__).parents[2]
INLINE_CHARACTERS = 16_000
"""Shorter texts are processed in the server: handing them over takes longer than the work."""
CPU_S = 20
"""Processor time of one step."""
WALL_S = 90.0
"""Elapsed time of one step. It is longer than `CPU_S`, because on a busy machine a worker gets little processor time."""
MEMORY_BYTES = 1536 * 2**20
"""Address space of a worker, including the interpreter."""
RETIRES_AT_BYTES = 128 * 2**20
"""A worker that used this much memory is replaced after its step: what it remembers of texts grows with each step."""
PATIENCE_S = 60.0
"""How long a step may wait for its turn."""
MOST_WAITING = 4
"""Steps of one caller that may run or wait at a time; each holds its texts in memory."""
LARGE_BYTES = 200_000
"""Requests and answers above this size are pickled on a thread, so that the event loop is not held up."""
# With -I, Python takes no module path from the environment or the current folder; the server's own comes as arguments.
_CODE = (
    "import sys; sys.path += [p for p in sys.argv[4:] if p not in sys.path]; "
    "from mcp_server.workers.child import main; main(*map(int, sys.argv[1:4]))"
)


class _Gone(Exception):
    """The worker exited without an answer; `code` is its exit status (negative: a signal). `before`: the request was not taken."""

    def __init__(self, code: int | None, *, before: bool) -> None:
        self.code, self.before = code, before
        super().__init__(code)


class Workers:
    """At most `most` processes, started on demand. Each caller has one step running at a time; its others wait their turn."""

    def __init__(
        self,
        *,
        most: int | None = None,
        inline_characters: int = INLINE_CHARACTERS,
        cpu_s: int = CPU_S,
        wall_s: float = WALL_S,
        memory_bytes: int | None = MEMORY_BYTES,
        retires_at_bytes: int = RETIRES_AT_BYTES,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._inline, self._cpu_s, self._wall_s = inline_characters, cpu_s, wall_s
        self._memory_bytes, self._retires_at_bytes, self._patience_s = memory_bytes, retires_at_bytes, patience_s
        self._room = anyio.Semaphore(most or max(2, (os.cpu_count() or 2) - 1))
        self._waiting: Counter[str] = Counter()
        self._turns: dict[str, anyio.Lock] = {}
        self._idle: deque[_Worker] = deque()
        self._all: set[_Worker] = set()

    async def run(self, step: Callable[[A], R], argument: A, *, size: int, what: str) -> R:
        """Return `step(argument)`, as the port `knowledge.offload.StepRunner` says."""
        if size <= self._inline:
            return step(argument)
        # Another process works now, and these have turns of their own: one of each caller.
        leave_turn()
        async with self._turn(what):
            request = await _apart(pickle.dumps, (step, argument), large=size > LARGE_BYTES)
            answer = await self._answer(request, what)
            del request
            word, value = await _apart(pickle.loads, answer, large=len(answer) > LARGE_BYTES)
        if word == "failed":
            raise raised(value)
        if word == "depth":
            raise TooMuchWork(what, "it is nested too deeply")
        if word == "memory":
            raise TooMuchWork(what, f"it takes more than {(self._memory_bytes or 0) // 2**20} MiB of memory")
        return cast("R", value)

    @asynccontextmanager
    async def _turn(self, what: str) -> AsyncIterator[None]:
        """Wait for the caller's turn and for a free worker.

        Raises:
            TooMuchWaiting: the caller has too many steps already, or has waited too long.
        """
        caller = CALLER.get()
        if self._waiting[caller] >= MOST_WAITING:
            raise TooMuchWaiting(what, self._waiting[caller])
        self._waiting[caller] += 1
        turn = self._turns.setdefault(caller, anyio.Lock())
        acquired = False
        try:
            with anyio.move_on_after(self._patience_s):
                # The turn first: a caller with many steps must not fill the queue for workers with them.
                await turn.acquire()
                acquired = True
                try:
                    await self._room.acquire()
                except BaseException:
                    turn.release()
                    acquired = False
                    raise
            if not acquired:
                raise TooMuchWaiting(what, self._waiting[caller] - 1, self._patience_s)
            try:
                yield
            finally:
                self._room.release()
                turn.release()
        finally:
            self._waiting[caller] -= 1
            if not self._waiting[caller]:
                del self._waiting[caller], self._turns[caller]

    async def _answer(self, request: bytes, what: str) -> bytes:
        """Return a worker's answer. A worker that exited on its own before it took the request is replaced."""
        while True:
            worker = await self._taken()
            try:
                with anyio.fail_after(self._wall_s):
                    answer = await worker.ask(request)
            except _Gone as gone:
                self._all.discard(worker)
                # An idle or retired worker exits by itself, perhaps at this moment. A fresh one has no reason to.
                if gone.before and worker.requests > 1:
                    continue
                if sys.platform != "win32" and gone.code == -signal.SIGXCPU:
                    raise TooMuchWork(what, f"it takes more than {self._cpu_s} s of processor time") from None
                why = f"the worker process ended (status {gone.code}), usually because memory ran out"
                raise WorkerEnded(what, why) from None
            except TimeoutError:
                await self._end(worker)
                raise TooMuchWork(what, f"it takes more than {self._wall_s:.0f} s") from None
            except BaseException:
                # Also when the caller is cancelled: otherwise the worker would send this step's answer to the next request.
                await self._end(worker)
                raise
            self._idle.append(worker)
            return answer

    async def _taken(self) -> _Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.process.returncode is None:
                return worker
            self._all.discard(worker)
        worker = await _Worker.started(self._cpu_s, self._memory_bytes, self._retires_at_bytes)
        self._all.add(worker)
        return worker

    async def _end(self, worker: _Worker) -> None:
        self._all.discard(worker)
        await worker.end()

    async def close(self) -> None:
        """Kill all workers."""
        self._idle.clear()
        for worker in list(self._all):
            await self._end(worker)


class _Worker:
    """One process and its pipes."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.requests = 0
        self._out = cast("ByteSendStream", process.stdin)
        self._in = BufferedByteReceiveStream(cast("ByteReceiveStream", process.stdout))

    @classmethod
    async def started(cls, cpu_s: int, memory_bytes: int | None, retires_at_bytes: int) -> _Worker:
        """Start a worker. It inherits neither the protocol's pipes nor the environment: see `worker_environment`."""
        command = [
            sys.executable,
            "-I",
            "-c",
            _CODE,
            str(cpu_s),
            str(memory_bytes or 0),
            str(retires_at_bytes),
            *_module_paths(),
        ]
        # Shielded: a cancellation while it starts would leave the process running unnoticed.
        with anyio.CancelScope(shield=True):
            process = await anyio.open_process(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=str(ROOT),
                env=worker_environment(),
                start_new_session=True,
            )
        return cls(process)

    async def ask(self, request: bytes) -> bytes:
        """Return the answer.

        Raises:
            _Gone: it exited instead.
        """
        self.requests += 1
        taken = False
        try:
            await self._out.send(HEADER.pack(len(request)))
            await self._out.send(request)
            head = await self._in.receive_exactly(HEADER.size)
            taken = True
            return await self._in.receive_exactly(HEADER.unpack(head)[0])
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.IncompleteRead, anyio.EndOfStream) as error:
            # Shielded: the process has closed its pipes, so it ends soon, and somebody has to collect its exit code.
            with anyio.CancelScope(shield=True):
                code = await self.process.wait()
                await self.process.aclose()
            raise _Gone(code, before=not taken and code == 0) from error

    async def end(self) -> None:
        """Kill the process, whatever it is doing."""
        # Also while the server stops, or the process would be left behind.
        with anyio.CancelScope(shield=True):
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.aclose()


def _module_paths() -> list[str]:
    """Return the server's module paths, except its working directory: a project may contain modules, too."""
    try:
        here: Path | None = Path.cwd().resolve()
    except OSError:  # the folder was deleted
        here = None
    found = [path for path in sys.path if Path(path).is_absolute() and Path(path).resolve() != here]
    return list(dict.fromkeys([*found, str(ROOT)]))


async def _apart(work: Callable[..., R], given: object, *, large: bool) -> R:
    return await anyio.to_thread.run_sync(work, given) if large else work(given)
