"""Several processes that serve HTTP on one port. Each that ends is replaced; a signal ends all of them in order."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace

import anyio
from anyio.abc import TaskStatus

from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport.shared_port import for_one_process, reserved
from mcp_server.transport.signals import ending_signals

logger = logging.getLogger("knowledge_forge")

STEADY_S = 10.0
"""A worker that lived longer is replaced at once."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
"""The pause before a worker that ended soon after its start is replaced. Each is twice as long as the one before."""
STOPPING_S = 60.0
"""How long the workers may take to end after a signal. A write that has begun finishes first."""
BLOCK = 65_536
# With -I, Python takes no module path from the environment or the current folder; the program's own comes as arguments.
_CODE = (
    "import sys; sys.path += [p for p in sys.argv[3:] if p not in sys.path]; "
    "from mcp_server.cli.server.worker import main; sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))"
)


def supervise(settings: Settings, address: HttpAddress) -> int:
    """Serve with `settings.http_workers` processes until a signal that ends programs. Return the exit code.

    Raises:
        BadSetting: the port can't be used, or this system can't share it.
    """
    if sys.platform == "win32":
        raise BadSetting("FORGE_HTTP_WORKERS", str(settings.http_workers), "on Windows one process serves")
    return anyio.run(_WorkerSupervisor(settings, address).run)


class _HttpWorker:
    """A process that serves. It ends by itself when the supervisor's end of its stdin is closed."""

    def __init__(self, process: anyio.abc.Process, told: int) -> None:
        self.process, self._told, self.began = process, told, anyio.current_time()

    async def ready(self) -> str:
        """Return the addresses once it serves, "" if it ended before that."""
        told = b""
        try:
            while True:
                await anyio.wait_readable(self._told)
                if not (part := os.read(self._told, BLOCK)):
                    return told.decode()
                told += part
        finally:
            os.close(self._told)

    def signal(self) -> None:
        """Ask it to end; at the second time, to cancel what it still does."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)


class _WorkerSupervisor:
    def __init__(self, settings: Settings, address: HttpAddress) -> None:
        self._settings, self._address = settings, address
        self._workers: dict[int, _HttpWorker] = {}
        self._serving = set[int]()
        self._stopping = anyio.Event()

    async def run(self) -> int:
        with reserved(self._address) as port:
            async with anyio.create_task_group() as tasks:
                await tasks.start(self._stop_on_signal)
                # One alone first: if it can't start, it has said why, and the others would only repeat it.
                own = for_one_process(port)
                first = await self._start(0, own)
                addresses = await first.ready()
                if not addresses:
                    code = await first.process.wait()
                    tasks.cancel_scope.cancel()
                    return 0 if self._stopping.is_set() else code or 1
                logger.info("serving %s with %d workers", addresses, self._settings.http_workers)
                self._serving.add(0)
                async with anyio.create_task_group() as keeping:
                    keeping.start_soon(self._keep, 0, port, own, first)
                    for number in range(1, self._settings.http_workers):
                        keeping.start_soon(self._keep, number, port, for_one_process(port))
                tasks.cancel_scope.cancel()
        return 0

    async def _start(self, number: int, own: socket.socket) -> _HttpWorker:
        told, telling = os.pipe()
        # Shielded: a cancellation while it starts would leave the process running unnoticed.
        with anyio.CancelScope(shield=True):
            try:
                process = await anyio.open_process(
                    [sys.executable, "-I", "-c", _CODE, str(own.fileno()), str(telling), *sys.path],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=None,
                    pass_fds=(own.fileno(), telling),
                    # A terminal's Ctrl-C would reach the workers beside the supervisor's signal, and count as the second one.
                    start_new_session=True,
                )
            finally:
                os.close(telling)
            worker = self._workers[number] = _HttpWorker(process, told)
            assert process.stdin is not None  # noqa: S101 - it is a pipe
            with suppress(anyio.BrokenResourceError):  # it has ended already, and is seen to
                await process.stdin.send(pickle.dumps(_of_worker(self._settings, number)))
        if self._stopping.is_set():
            worker.signal()
        return worker

    async def _keep(
        self, number: int, port: socket.socket, own: socket.socket, worker: _HttpWorker | None = None
    ) -> None:
        """Keep the worker with the socket `own` running until a signal ends all."""
        pause_s = 0.0
        while not self._stopping.is_set():
            if worker is None:
                worker = await self._start(number, own)
                if await worker.ready():
                    self._serving.add(number)
            code = await worker.process.wait()
            await worker.process.aclose()
            self._serving.discard(number)
            if self._serving:
                # New connections go to the other workers. With no other, they wait at the old socket for the next worker.
                own.close()
                own = for_one_process(port)
            if self._stopping.is_set():
                return
            lived_s = anyio.current_time() - worker.began
            pause_s = 0.0 if lived_s > STEADY_S else min(max(2 * pause_s, FIRST_PAUSE_S), LONGEST_PAUSE_S)
            logger.warning("worker %d %s after %.0f s; another one is started", number + 1, _ended(code), lived_s)
            worker = None
            with anyio.move_on_after(pause_s):
                await self._stopping.wait()

    async def _stop_on_signal(self, *, task_status: TaskStatus[None]) -> None:
        """Pass each signal on to all workers, and kill those that have not ended after a minute."""
        async with anyio.create_task_group() as tasks:
            with anyio.open_signal_receiver(*ending_signals()) as signals:
                task_status.started()
                async for _ in signals:
                    if not self._stopping.is_set():
                        tasks.start_soon(self._kill_later)
                    self._stopping.set()
                    for worker in self._workers.values():
                        worker.signal()

    async def _kill_later(self) -> None:
        await anyio.sleep(STOPPING_S)
        for number, worker in self._workers.items():
            if worker.process.returncode is None:
                logger.warning("worker %d has not ended after %.0f s and is killed", number + 1, STOPPING_S)
                worker.process.kill()


def _of_worker(settings: Settings, number: int) -> Settings:
    """Return the settings of one worker. Each serves its own metrics, at the port of the first one plus its number."""
    metrics = settings.metrics
    if metrics is None or not metrics.port:
        return settings
    return replace(settings, metrics=replace(metrics, port=metrics.port + number))


def _ended(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
