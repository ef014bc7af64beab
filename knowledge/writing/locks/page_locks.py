"""Locks on pages: one writer at a time, in any process; a lock is released when its holder dies.

A lock is the system's lock on an empty file in the state directory. Pages share a fixed number of such files, so the folder
does not grow and nothing has to be removed; two pages with the same file only make each other wait for some milliseconds.
A writer polls for the lock, at first often, then less and less. After a while it queues: each lock has a second file, its gate, and
the holder of the gate waits for the lock in a blocking call, in a thread, and gets it as soon as it is free. So under overload the
latest writers are served soon and the others within a bounded time, instead of all waiting long, and a free lock is not left idle
until one particular process wakes up.

Source: adaptive LIFO, B. Maurer, "Fail at Scale", ACM Queue 13 (2015); a mutex with a starvation mode, Go's sync.Mutex (2016).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from knowledge.errors import DocumentBusy
from knowledge.private_files import private_folder

SLOTS = 256
"""Number of lock files. An act on very many pages may hold all of them, and some systems let a process open only 1,000 files."""
LONGEST_WAIT_S = 15.0
POLLING_S = 1.5
"""Seconds that a writer polls before it queues. With a shorter time, more of the early writers wait long; with a
longer one, more of all writers do."""
FIRST_PAUSE_S = 0.002
LONGEST_PAUSE_S = 0.25
PAUSE_GROWTH = 1.6

if sys.platform == "win32":
    import msvcrt

    def _try(file: int) -> bool:
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    async def _wait(file: int) -> None:
        while not _try(file):  # noqa: ASYNC110  another process gives it back, which sets no event here
            await anyio.sleep(FIRST_PAUSE_S)
else:
    import fcntl

    def _try(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def _wait(file: int) -> None:
        """Return once the lock is ours. If this is cancelled, the thread gives the lock back as soon as it has it."""
        # A duplicate descriptor, because the caller closes `file` on cancellation and the system may reuse its number.
        same = [os.dup(file)]

        def wait() -> None:
            twin = same.pop()
            try:
                fcntl.flock(twin, fcntl.LOCK_EX)
            finally:
                os.close(twin)

        try:
            # With its own limiter, so that threads waiting for locks don't use up those of other work.
            await anyio.to_thread.run_sync(wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        except BaseException:
            with contextlib.suppress(IndexError):  # the thread has started and closes it
                os.close(same.pop())
            raise


class PageLocks(Protocol):
    """Exclusive locks on pages, kept until the holder releases them or its process dies."""

    def held(self, paths: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Hold the locks of these pages; raises `DocumentBusy` if others keep one for too long."""
        ...

    def held_if_free(self, paths: Iterable[str]) -> AbstractAsyncContextManager[bool]:
        """Hold all of these locks if all are free, else none; yields whether they are held."""
        ...


class Locks:
    """The locks of one knowledge base, in `folder` of its state directory."""

    def __init__(self, folder: Path, *, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        private_folder(folder)
        self._folder, self.longest_wait_s = folder, longest_wait_s
        self._queues: dict[int, tuple[anyio.Semaphore, int]] = {}
        """For each slot in use, the turn of tasks in this process, and how many of them hold it or wait."""

    @asynccontextmanager
    async def held(self, paths: Iterable[str]) -> AsyncIterator[None]:
        """Hold the locks of these pages, taken in one order everywhere, so that no two holders wait for each other.

        Raises:
            DocumentBusy: others kept one for too long; then none is held.
        """
        wanted: dict[int, str] = {}
        for path in sorted(paths):
            wanted.setdefault(slot_of(path), path)
        taken: list[tuple[int, int]] = []
        try:
            for slot in sorted(wanted):
                taken.append((slot, await self._take(slot, wanted[slot], wait=True)))  # noqa: PERF401  those taken are given back
            yield
        finally:
            self._give_back(taken)

    @asynccontextmanager
    async def held_if_free(self, paths: Iterable[str]) -> AsyncIterator[bool]:
        """Hold all of these locks if all are free, else none; yields whether they are held."""
        taken: list[tuple[int, int]] = []
        try:
            for slot in sorted({slot_of(path) for path in paths}):
                file = await self._take(slot, "", wait=False)
                if file < 0:
                    yield False
                    return
                taken.append((slot, file))
            yield True
        finally:
            self._give_back(taken)

    async def close(self) -> None:
        """Do nothing: nothing is kept between two acts."""

    async def _take(self, slot: int, path: str, *, wait: bool) -> int:
        """Return the open file whose lock is ours now; -1 if it is not free and `wait` is false."""
        # Tasks of this process take turns in their order, so that only one of them polls for the file.
        queue, users = self._queues.get(slot, (anyio.Semaphore(1, max_value=1), 0))
        self._queues[slot] = queue, users + 1
        has_turn, file = False, -1
        try:
            if wait:
                with anyio.fail_after(self.longest_wait_s):
                    await queue.acquire()
                    has_turn = True
                    file = await self._wait_for(slot)
            else:
                queue.acquire_nowait()
                has_turn = True
                lock = self._open(slot, "lock")
                if _try(lock):
                    file = lock
                else:
                    os.close(lock)
        # Another task of this process has the turn, so the lock is not free.
        except anyio.WouldBlock:
            pass
        except TimeoutError:
            raise DocumentBusy(path, self.longest_wait_s) from None
        finally:
            if file < 0:
                self._leave(slot, has_turn=has_turn)
        return file

    async def _wait_for(self, slot: int) -> int:
        """Return the open file whose lock is ours now: poll for a while, then queue."""
        lock = self._open(slot, "lock")
        try:
            end, pause_s = anyio.current_time() + POLLING_S, FIRST_PAUSE_S
            while not _try(lock):
                if anyio.current_time() >= end:
                    await self._queue(slot, lock)
                    break
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * PAUSE_GROWTH, LONGEST_PAUSE_S)
        except BaseException:
            os.close(lock)
            raise
        return lock

    async def _queue(self, slot: int, lock: int) -> None:
        gate = self._open(slot, "gate")
        try:
            for file in (gate, lock):
                if not _try(file):
                    await _wait(file)
        finally:
            os.close(gate)

    def _open(self, slot: int, kind: str) -> int:
        return os.open(self._folder / f"{slot:03x}.{kind}", os.O_RDWR | os.O_CREAT, 0o600)

    def _give_back(self, taken: list[tuple[int, int]]) -> None:
        for slot, file in reversed(taken):
            os.close(file)
            self._leave(slot, has_turn=True)

    def _leave(self, slot: int, *, has_turn: bool) -> None:
        """Pass the turn to the next task of this process if it was ours; drop the queue once it is unused."""
        queue, users = self._queues[slot]
        if has_turn:
            queue.release()
        if users == 1:
            del self._queues[slot]
        else:
            self._queues[slot] = queue, users - 1


def slot_of(path: str) -> int:
    """Return which of the lock files is the page's."""
    return int.from_bytes(hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=4).digest()) % SLOTS
