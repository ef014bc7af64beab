"""An index of the readable pages alone, copied from the index of all pages and kept up to date with it.

Hits that are taken out after ranking would leave their traces: how rare a word is, how many pages have it, which spelling is known.
A separate index holds nothing of a hidden page that could leave a trace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from knowledge.access.rules import PathAccess
from knowledge.index.ports import KeywordIndex
from knowledge.state.ports import IndexPosition, IndexStore, Remove, Replace, Touch

BATCH = 256
FENCE = 1
"""The same for all processes: they copy the same rows, one process at a time, so no write has to be refused as
outdated."""

Turn = Callable[[], AbstractAsyncContextManager[None]]
"""Waits until no other process copies into the same index."""


class WholeIndex(IndexStore, Protocol):
    """An index from which documents can be copied."""

    async def copies(self, paths: Sequence[str]) -> Sequence[Replace]:
        """Return the existing documents among `paths`, as changes that store them in another index."""
        ...


class IndexCopy:
    """Makes `copy` follow `whole`, with the keyword index that `keyword` loads.

    `turn` keeps other processes from copying at the same time. `made_from` is the file that records which vectors were copied.
    """

    def __init__(
        self,
        whole: WholeIndex,
        copy: IndexStore,
        access: PathAccess,
        *,
        keyword: Callable[[], Awaitable[KeywordIndex]],
        turn: Turn,
        made_from: Path,
    ) -> None:
        self._whole, self._copied, self._access = whole, copy, access
        self._keyword, self._turn, self._made_from = keyword, turn, made_from
        self._lock = anyio.Lock()
        self._at: tuple[IndexPosition, IndexPosition, int] | None = None

    async def follow(self) -> None:
        """Bring the copy up to date. Costs next to nothing while nothing has changed.

        Raises:
            StorageError: one of the indexes can't be used now.
        """
        if self._at == await self._position():
            return
        async with self._lock:
            # Another task may have copied while this one waited for the lock.
            at = await self._position()
            if self._at == at:
                return
            async with self._turn():
                await self._copy(at)
                await (await self._keyword()).catch_up(self._copied)
            self._at = at

    async def _position(self) -> tuple[IndexPosition, IndexPosition, int]:
        progress = await self._whole.progress()
        return await self._whole.position(), (await self._whole.space()).position, progress.total

    async def _copy(self, at: tuple[IndexPosition, IndexPosition, int]) -> None:
        texts, vectors, _ = at
        identity = (await self._whole.space()).identity
        origin = f"{texts.generation} {vectors.generation}"
        known = await anyio.to_thread.run_sync(self._origin)
        if origin != known:
            # Other vectors, or an index made afresh: nothing of the copy can be compared with it.
            await self._copied.begin(identity)
            own = await self._copied.stamps()
            await self._copied.apply([Remove(path) for path in own], fence=FENCE)
            await self._copied.begin(identity)
        theirs = await self._whole.stamps()
        wanted = {path: stamp for path, stamp in theirs.items() if self._access.may_read(path)}
        own = await self._copied.stamps()
        gone: list[Remove] = [Remove(path) for path in own if path not in wanted]
        changed = [path for path, (_, revision, _) in wanted.items() if path not in own or own[path][1] != revision]
        # A page that was checked again is the same: writing its rows again would change the scores of a search a
        # little.
        checked = [
            Touch(path, stamp, at)
            for path, (stamp, revision, at) in wanted.items()
            if path in own and own[path] != (stamp, revision, at) and own[path][1] == revision
        ]
        if gone or checked:
            await self._copied.apply([*gone, *checked], fence=FENCE)
        # In the order of the whole index, so that equal hits keep their order.
        for start in range(0, len(changed), BATCH):
            rows = await self._whole.copies(changed[start : start + BATCH])
            await self._copied.apply(rows, fence=FENCE)
        progress = await self._whole.progress()
        # While the whole index is incomplete, so is the copy; how much is missing counts hidden pages too.
        await self._copied.set_total(len(wanted) + (progress.done < progress.total))
        if origin != known:
            await anyio.to_thread.run_sync(self._made_from.write_text, origin, "ascii")

    def _origin(self) -> str:
        try:
            return self._made_from.read_text("ascii")
        except OSError:
            return ""
