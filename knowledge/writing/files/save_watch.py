"""Checks pages again that this process just wrote, because an editor may have had them open and save over the write."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.history.ports import Ledger
from knowledge.state.ports import Stamp
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.files.swap import Displaced

LOOKS_S = (0.05, 0.15, 0.4, 0.9, 1.6, 2.5, 4.0, 7.0, 11.0)
"""Seconds after the last write here at which a page is checked. The last check comes after `stale_save.STALE_S`."""
DOUBT_S = 0.02
"""Seconds after which the ledger is read again: an unknown state may be from another process's act that is not recorded yet."""
LET_GO_S = 2.0
"""Seconds that a displaced file is held open: an editor that also has it open has normally written by then."""
DISPLACED_LOOK_S = 0.05
"""How often displaced files are checked, by their descriptors, for late writes."""
MOST_EXTENSIONS = 3
"""How often `LET_GO_S` is extended because somebody is writing to the file, or because a late save could not be kept
yet."""
MOST_DISPLACED = 128
LAST_LOOK_S = 2.0
"""Seconds for the last check when the server stops, which must not keep a person waiting."""

log = logging.getLogger(__name__)

LateSave = Callable[[str, str | None, bytes], Awaitable[None]]
"""Called with a page's path, the last known revision of its former file, and the bytes that somebody wrote into that file late."""


@dataclass
class _WatchedPage:
    written_at: float
    next_at: float
    known: str | None = None
    doubted: str | None = None
    stamp: Stamp | None = None
    """The stamp that the file had when it was `known`."""


@dataclass(eq=False)
class _WatchedFile:
    until: float
    file: Displaced
    extensions: int = MOST_EXTENSIONS
    late: bytes | None = None
    """Its content at the last check."""


class SaveWatch:
    """The pages that one process wrote, and the files that these pages were before."""

    def __init__(
        self, files: FileSet, ledger: Ledger, *, mend: Callable[[str], Awaitable[None]], late: LateSave
    ) -> None:
        self._files, self._ledger = files, ledger
        self._mend, self._late = mend, late
        self._pages: dict[str, _WatchedPage] = {}
        self._displaced: list[_WatchedFile] = []
        self._more = anyio.Event()
        self._running = False

    def wrote(self, paths: Iterable[str]) -> None:
        """Check these pages for some seconds from now on."""
        if not self._running:
            return
        now = monotonic()
        for path in paths:
            page = self._pages.setdefault(path, _WatchedPage(now, now + LOOKS_S[0]))
            page.written_at, page.next_at = now, min(page.next_at, now + LOOKS_S[0])
        self._more.set()

    def take(self, files: Sequence[Displaced]) -> None:
        """Check these files for some seconds, then close them."""
        now = monotonic()
        self._displaced.extend(_WatchedFile(now + LET_GO_S, file) for file in files)
        if not self._running:
            self._close(self._displaced)
        self._more.set()

    async def run(self, lately: Callable[[], Awaitable[Iterable[str]]]) -> None:
        """Check until cancelled, then once more. `lately` returns the pages that other processes have just written."""
        self._running = True
        try:
            self.wrote(await lately())
            while True:
                if not self._pages and not self._displaced:
                    await self._more.wait()
                self._more = anyio.Event()
                now = monotonic()
                due_s = min((page.next_at - now for page in self._pages.values()), default=DISPLACED_LOOK_S)
                await anyio.sleep(max(0.0, min(due_s, DISPLACED_LOOK_S) if self._displaced else due_s))
                await self._look_at_pages()
                await self._look_at_displaced(last=False)
        finally:
            self._running = False
            # Shielded, because this runs when a server is stopped: an editor may have saved since the last look.
            with anyio.move_on_after(LAST_LOOK_S, shield=True):
                await self._look_at_displaced(last=True)
                await self._look_at_pages(last=True)
            self._close(self._displaced)

    async def _look_at_pages(self, *, last: bool = False) -> None:
        for path, page in list(self._pages.items()):
            if not last and page.next_at > monotonic():
                continue
            try:
                await self._look_at(path, page)
            except Exception:  # a problem with one page must not end the watch of the others
                log.warning("cannot look again at %s", path, exc_info=True)
            now = monotonic()
            left = [page.written_at + look_s for look_s in LOOKS_S if page.written_at + look_s > now]
            if page.doubted is not None:
                page.next_at = now + DOUBT_S
            elif left:
                page.next_at = max(left[0], now + LOOKS_S[0])
            else:
                self._pages.pop(path, None)

    async def _look_at(self, path: str, page: _WatchedPage) -> None:
        stamp = self._files.stamp(path)
        if stamp is not None and stamp == page.stamp:
            return
        found = await anyio.to_thread.run_sync(self._files.read, path)
        if found.revision is None or found.revision == page.known:
            page.stamp = stamp
            return
        history = await self._ledger.history(path, limit=1)
        if history and history[0].revision == found.revision:
            page.known, page.doubted, page.stamp = found.revision, None, stamp
        # Unknown once, it may be from another process's act that is not on record yet; unknown twice, it is somebody's save.
        elif page.doubted == found.revision or not self._running:
            page.doubted = None
            await self._mend(path)
        else:
            page.doubted = found.revision

    async def _look_at_displaced(self, *, last: bool) -> None:
        # A file leaves the list only when it is finished with: if this is cancelled half-way, the last check sees all of them.
        watched, now = list(self._displaced), monotonic()
        over = len(watched) - MOST_DISPLACED
        ending = [one for number, one in enumerate(watched) if last or one.until <= now or number < over]
        if not ending and not any(one.file.touched for one in watched):
            return
        await anyio.to_thread.run_sync(_find_late_saves, watched, ending)
        for one in watched:
            if one.late is not None:
                try:
                    await self._late(one.file.path, one.file.revision, one.late)
                except Exception:  # the same bytes are reported again when the file is given up
                    log.warning("cannot keep what was saved late at %s", one.file.path, exc_info=True)
                else:
                    one.file.know(one.late)
        closing = []
        for one in ending:
            # Somebody has just written to it, or emptied it, so more is to come.
            if not last and one.extensions and (one.late is not None or one.file.emptied):
                one.until, one.extensions = now + LET_GO_S, one.extensions - 1
                self._displaced.remove(one)
                self._displaced.append(one)  # the oldest are closed first when there are too many
            else:
                closing.append(one)
        self._close(closing)

    def _close(self, files: Iterable[_WatchedFile]) -> None:
        for one in list(files):
            one.file.close()
            if one in self._displaced:
                self._displaced.remove(one)


def _find_late_saves(watched: Sequence[_WatchedFile], ending: Sequence[_WatchedFile]) -> None:
    for one in watched:
        one.late = None
        try:
            one.late = one.file.late_save(thoroughly=one in ending)
        except (OSError, KnowledgeError):
            log.warning("cannot read what was saved late at %s", one.file.path, exc_info=True)
