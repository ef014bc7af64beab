"""Looking again at pages that were just written: an editor may have had them open."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.history.ports import Ledger
from knowledge.state.ports import Stamp
from knowledge.writing.files.file_set import Displaced, FileSet

LOOKS_S = (0.05, 0.15, 0.4, 0.9, 1.6, 2.5, 4.0, 7.0, 11.0)
"""When a page is looked at again after it was last written here."""
DOUBT_S = 0.02
"""What nobody knows may be an act of another process that is not on record yet: asked again so much later."""
LET_GO_S = 2.0
"""How long a file that was a page stays open: an editor that had it open has written by then."""
HELD_S = 0.05
"""How often those are asked, by their descriptors, whether anybody has written to them."""
HELD_AGAIN = 3
"""How often one is held for as long again, because somebody is writing to it or what they wrote could not be kept yet."""
MOST_HELD = 128
LAST_LOOK_S = 2.0
"""Who stops a server does not wait long for it."""

log = logging.getLogger(__name__)

LateSave = Callable[[str, str | None, bytes], Awaitable[None]]
"""Told of a page's path, the revision of a file that it was until just now, and what somebody wrote into that file since."""


@dataclass
class _Page:
    written_at: float
    next_at: float
    known: str | None = None
    doubted: str | None = None
    stamp: Stamp | None = None
    """What the file looked like from outside when it was `known`."""


class _Held(NamedTuple):
    until: float
    file: Displaced
    again: int = HELD_AGAIN


class _Late(NamedTuple):
    held: _Held
    save: bytes


class SaveWatch:
    """What one process looks at again: pages that it wrote, and the files that they were before."""

    def __init__(
        self, files: FileSet, ledger: Ledger, *, mend: Callable[[str], Awaitable[None]], late: LateSave
    ) -> None:
        self._files, self._ledger = files, ledger
        self._mend, self._late = mend, late
        self._pages: dict[str, _Page] = {}
        self._held: list[_Held] = []
        self._more = anyio.Event()
        self._running = False

    def wrote(self, paths: Iterable[str]) -> None:
        """Look at these pages for some seconds from now on."""
        if not self._running:
            return
        now = monotonic()
        for path in paths:
            page = self._pages.setdefault(path, _Page(now, now + LOOKS_S[0]))
            page.written_at, page.next_at = now, min(page.next_at, now + LOOKS_S[0])
        self._more.set()

    def take(self, files: Sequence[Displaced]) -> None:
        """Look at these files for some seconds, and close them then."""
        now = monotonic()
        self._held.extend(_Held(now + LET_GO_S, file) for file in files)
        if not self._running:
            self._let_go(self._held)
        self._more.set()

    async def run(self) -> None:
        """Look until cancelled; then look a last time."""
        self._running = True
        try:
            while True:
                await self._until_due()
                await self._look_at_pages()
                await self._look_at_held(all_=False)
        finally:
            self._running = False
            with anyio.move_on_after(LAST_LOOK_S, shield=True):
                await self._look_at_held(all_=True)
                await self._look_at_pages(all_=True)
            self._let_go(self._held)

    async def _until_due(self) -> None:
        """Wait until something is to be looked at."""
        if not self._pages and not self._held:
            await self._more.wait()
        self._more = anyio.Event()
        now = monotonic()
        due = min((page.next_at for page in self._pages.values()), default=now + HELD_S)
        await anyio.sleep(max(0.0, min(due - now, HELD_S if self._held else due - now)))

    async def _look_at_pages(self, *, all_: bool = False) -> None:
        for path, page in list(self._pages.items()):
            now = monotonic()
            if all_ or page.next_at <= now:
                try:
                    await self._look_at(path, page)
                except Exception:  # whatever is wrong with one page, the server and its other pages go on
                    log.warning("cannot look again at %s", path, exc_info=True)
                page.next_at = _next(page, monotonic())
                if page.next_at == 0:
                    self._pages.pop(path, None)

    async def _look_at(self, path: str, page: _Page) -> None:
        stamp = self._files.stamp(path)
        if stamp is not None and stamp == page.stamp:
            return
        found = await anyio.to_thread.run_sync(self._files.look, path)
        if found.revision is None or found.revision == page.known:
            page.stamp = stamp
            return
        history = await self._ledger.history(path, limit=1)
        if history and history[0].revision == found.revision:
            page.known, page.doubted, page.stamp = found.revision, None, stamp
        elif page.doubted == found.revision or not self._running:
            page.doubted = None
            await self._mend(path)
        else:
            page.doubted = found.revision

    async def _look_at_held(self, *, all_: bool) -> None:
        # Each stays in the list until it is done with: whoever stops this in the middle looks at all of them again.
        held, now = list(self._held), monotonic()
        over = len(held) - MOST_HELD
        ending = [one for number, one in enumerate(held) if all_ or one.until <= now or number < over]
        if not ending and not any(one.file.touched for one in held):
            return
        late = await anyio.to_thread.run_sync(_written_late, held, ending)
        for one in late:
            await self._tell(one)
        unsure = [] if all_ else [one for one in ending if one.again and _is_unsure(one, late)]
        self._held.extend(_Held(now + LET_GO_S, one.file, one.again - 1) for one in unsure)
        self._held = [one for one in self._held if one not in unsure]
        self._let_go(one for one in ending if one not in unsure)

    async def _tell(self, late: _Late) -> None:
        file = late.held.file
        try:
            await self._late(file.path, file.revision, late.save)
        except Exception:  # likewise; it is told again when the file has been held for its time
            log.warning("cannot keep what was saved late at %s", file.path, exc_info=True)
        else:
            file.taken(late.save)

    def _let_go(self, held: Iterable[_Held]) -> None:
        for one in list(held):
            one.file.close()
            if one in self._held:
                self._held.remove(one)


def _next(page: _Page, now: float) -> float:
    """Return when the page is to be looked at again; 0 when that was the last time."""
    if page.doubted is not None:
        return now + DOUBT_S
    left = [page.written_at + look_s for look_s in LOOKS_S if page.written_at + look_s > now]
    return max(left[0], now + LOOKS_S[0]) if left else 0


def _written_late(held: Sequence[_Held], ending: Sequence[_Held]) -> list[_Late]:
    found = []
    for one in held:
        try:
            # The clocks of file systems tick slowly: at the end bytes are compared, whatever the time of the last change says.
            save = one.file.written(thoroughly=one in ending)
        except (OSError, KnowledgeError):
            log.warning("cannot read what was saved late at %s", one.file.path, exc_info=True)
        else:
            found += [] if save is None else [_Late(one, save)]
    return found


def _is_unsure(held: _Held, late: Sequence[_Late]) -> bool:
    """Return whether more is to come: somebody has just written to the file, or has emptied it."""
    return held.file.emptied or any(one.held is held for one in late)
