"""Acts on readable pages: a page that its writer may not read can't be part of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import anyio.to_thread

from knowledge.access.view.readable_vault import ReadableVault
from knowledge.writing.acts.ports import PageActs
from knowledge.writing.files.file_set import FileSet
from knowledge.writing.files.recovery import Recovery
from knowledge.writing.model import ActDone, PageAct, Rehearsed

T = TypeVar("T")


class ReadableActs(PageActs):
    """Passes an act on if all of its pages are readable. Acts of dead processes are finished with all of their pages."""

    def __init__(self, acts: PageActs, vault: ReadableVault) -> None:
        self._acts, self._files = acts, FileSet(vault)

    @property
    def recovery(self) -> Recovery:
        """Finishes the acts of processes that died, whichever pages they changed."""
        return self._acts.recovery

    async def run(self, act: PageAct[T]) -> ActDone[T]:
        """Carry out the act.

        Raises:
            NoRightThere, InvalidPath: one of its pages is hidden, or would become hidden; nothing was read or changed.
        """
        await self._require(act.paths)
        return await self._acts.run(act)

    async def rehearse(self, act: PageAct[T]) -> Rehearsed[T]:
        """Return the effect that the act would have now."""
        await self._require(act.paths)
        return await self._acts.rehearse(act)

    async def note_outside(self, path: str) -> None:
        """Record the page as somebody else left it."""
        await self._require([path])
        await self._acts.note_outside(path)

    async def follow_move(self, old: str, new: str) -> bool:
        """Record that somebody moved a page outside the server."""
        await self._require([old, new])
        return await self._acts.follow_move(old, new)

    async def watch(self) -> None:
        """Do nothing: the acts on all pages are watched already."""

    async def _require(self, paths: Iterable[str]) -> None:
        # Finding the real place of a page refuses hidden ones, and links to them.
        await anyio.to_thread.run_sync(lambda: [self._files.real(path) for path in paths])
