"""One writer of a page at a time, whichever process it is in; a lock dies with its holder.

A lock is the system's lock on an empty file in the state directory. Pages share a fixed number of such files, so the folder
does not grow and nothing has to be removed; two pages with one file merely wait for each other for some milliseconds.
Who comes looks for a while whether the lock is free, at first often, then less and less often; who has looked for too long gets in
line: before each lock stands a gate, and who holds the gate waits for the lock in the system, in a thread, and is woken at once.
So where more is asked than can be done, those who came last are served soon and the others within a bounded time, instead of
everybody waiting for everybody; and a lock does not lie idle until one certain process has woken up.

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
            await anyio.sleep(ASKED_AGAIN_S)
else:
    import fcntl

    def _try(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    async def _wait(file: int) -> None:
        """Return once the lock is ours. If nobody waits for that any more, the thread gives it back as soon as it has it."""
        same = [os.dup(file)]

        def wait() -> None:
            twin = same.pop()
            try:
                fcntl.flock(twin, fcntl.LOCK_EX)
            finally:
                os.close(twin)

        try:
            await anyio.to_thread.run_sync(wait, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        except BaseException:
            with contextlib.suppress(IndexError):  # the thread has it
                os.close(same.pop())
            raise


SLOTS = 256
"""An act on very many pages holds all of them: processes may open a thousand files or less."""
LONGEST_WAIT_S = 15.0
ASKED_AGAIN_S = 0.002
PASSING_S = 1.5
"""How long one looks before getting in line. With less of it more of those wait long who came first, and fewer of all."""
LOOKED_AGAIN_S = 0.002
LONGEST_PAUSE_S = 0.25
GROWTH = 1.6


class PageLocks(Protocol):
    """What locks of pages must promise: whoever holds one is alone with the page until they give it back or die."""

    def held(self, paths: Iterable[str]) -> AbstractAsyncContextManager[None]:
        """Hold the locks of these pages; raises `DocumentBusy` when others kept one for too long."""
        ...

    def held_if_free(self, paths: Iterable[str]) -> AbstractAsyncContextManager[bool]:
        """Hold all of these locks if nobody holds any of them; says whether that is so."""
        ...


class Locks:
    """The locks of one knowledge base, in `folder` of its state directory."""

    def __init__(self, folder: Path, *, longest_wait_s: float = LONGEST_WAIT_S) -> None:
        private_folder(folder)
        self._folder, self.longest_wait_s = folder, longest_wait_s
        self._queues: dict[int, tuple[anyio.Semaphore, int]] = {}

    @asynccontextmanager
    async def held(self, paths: Iterable[str]) -> AsyncIterator[None]:
        """Hold the locks of these pages, taken in one order everywhere, so that nobody waits for each other.

        Raises:
            DocumentBusy: others kept one for too long; none is held then.
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
        """Hold all of these locks if nobody holds any of them; says whether that is so."""
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
        """Give everything back: nothing is kept between two acts."""

    async def _take(self, slot: int, path: str, *, wait: bool) -> int:
        """Return the open file whose lock is ours now; -1 if it is not free and we do not wait."""
        queue, users = self._queues.get(slot, (anyio.Semaphore(1, max_value=1), 0))
        self._queues[slot] = queue, users + 1
        first, file = False, -1
        try:
            if wait:
                with anyio.fail_after(self.longest_wait_s):
                    await queue.acquire()
                    first = True
                    file = await self._wait_for(slot)
            else:
                queue.acquire_nowait()
                first = True
                file = self._take_now(slot)
        except anyio.WouldBlock:
            pass
        except TimeoutError:
            raise DocumentBusy(path, self.longest_wait_s) from None
        finally:
            if file < 0:
                self._leave(slot, first=first)
        return file

    def _leave(self, slot: int, *, first: bool) -> None:
        """Let the next in this process have its turn if it was ours; forget the queue once nobody uses it."""
        queue, users = self._queues[slot]
        if first:
            queue.release()
        if users == 1:
            del self._queues[slot]
        else:
            self._queues[slot] = queue, users - 1

    def _take_now(self, slot: int) -> int:
        lock = self._open(slot, "lock")
        if _try(lock):
            return lock
        os.close(lock)
        return -1

    async def _wait_for(self, slot: int) -> int:
        lock = await self._in_passing(slot)
        return lock if lock >= 0 else await self._in_line(slot)

    async def _in_passing(self, slot: int) -> int:
        """Return the lock if it is free at one of the moments that we look; -1 once it is time to get in line."""
        lock = self._open(slot, "lock")
        end, pause_s = anyio.current_time() + PASSING_S, LOOKED_AGAIN_S
        try:
            while not _try(lock):
                if anyio.current_time() >= end:
                    os.close(lock)
                    return -1
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * GROWTH, LONGEST_PAUSE_S)
        except BaseException:
            os.close(lock)
            raise
        return lock

    async def _in_line(self, slot: int) -> int:
        gate = self._open(slot, "gate")
        try:
            if not _try(gate):
                await _wait(gate)
            lock = self._open(slot, "lock")
            try:
                if not _try(lock):
                    await _wait(lock)
            except BaseException:
                os.close(lock)
                raise
            return lock
        finally:
            os.close(gate)

    def _open(self, slot: int, kind: str) -> int:
        return os.open(self._folder / f"{slot:03x}.{kind}", os.O_RDWR | os.O_CREAT, 0o600)

    def _give_back(self, taken: list[tuple[int, int]]) -> None:
        for slot, file in reversed(taken):
            os.close(file)
            self._leave(slot, first=True)


def slot_of(path: str) -> int:
    """Return which of the lock files is the page's."""
    return int.from_bytes(hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=4).digest()) % SLOTS
