"""Bring the index up to date before an answer from it, within a limit, or say how much it lacks."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

import anyio
import anyio.to_thread

from knowledge.errors import StorageError
from knowledge.index.page_rows import DirectoryTrust, UnusablePage, prepare
from mcp_server.app.freshness.index_update import (
    ASK_S,
    OnProgress,
    bring_up_to_date,
    differences,
    held_lease,
    other_process,
)
from mcp_server.app.knowledge_base import KnowledgeBase
from mcp_server.presenters.index_state import IndexState

CHANGING = "they changed while they were indexed"
FEW = 200
"""Up to this number of changed pages, each is read to find out whether it can be indexed at all."""


async def freshened(
    base: KnowledgeBase, wait_s: float, *, by_words: bool, finish: str = "", on_progress: OnProgress = lambda _: None
) -> IndexState:
    """Bring the index up to date as far as `wait_s` allows, and return what it still lacks.

    `by_words`: the index of words is needed, too. `finish` is the command that completes the index.
    """
    late, unusable = await _late(base)
    behind = by_words and await _words_are_behind(base)
    why = "nothing was indexed for this answer"
    if wait_s and (late or behind):
        why = await _updated(base, late, wait_s, on_progress, by_words=by_words)
        late, unusable = await _late(base)
        behind = by_words and await _words_are_behind(base)
    pages = (await base.index.progress()).done
    if not late and not behind:
        return IndexState(complete=True, pages=pages, left_out=len(unusable))
    return IndexState(complete=False, pages=pages, left_out=len(unusable), waiting=len(late), why=why, finish=finish)


async def lacking(base: KnowledgeBase, why: str) -> IndexState:
    """Return what the index lacks, without bringing it up to date. `why` says why something may be missing."""
    late, unusable = await _late(base)
    pages = (await base.index.progress()).done
    return IndexState(not late, pages, len(unusable), len(late), (why or CHANGING) if late else "")


async def _updated(
    base: KnowledgeBase, late: Collection[str], wait_s: float, on_progress: OnProgress, *, by_words: bool
) -> str:
    """Update the index here, or wait until the process that keeps it has done so; return why pages may still be missing."""

    async def done_elsewhere() -> bool:
        progress = await base.index.progress()
        # While documents are left to index, the costly comparison of many files could only say no.
        if len(late) > FEW and progress.done < progress.total:
            return False
        return not await _still_late(base, late) and not (by_words and await _words_are_behind(base))

    began = anyio.current_time()
    try:
        async with held_lease(base, wait_s=wait_s, or_once=done_elsewhere, on_progress=on_progress) as lease:
            if lease is None:
                return f"{await other_process(base) or 'another process'} is indexing"
            with anyio.move_on_after(max(0.0, began + wait_s - anyio.current_time())) as limit:
                await bring_up_to_date(base, lease)
            if limit.cancelled_caught:
                # Each batch that was stored is in the database, and now in the index of words, too.
                await base.indexer.catch_up()
                return f"{wait_s:g} s were not enough; --wait SECONDS allows more"
        # A search server reports what it has a moment later.
        with anyio.move_on_after(max(0.0, began + wait_s - anyio.current_time())):
            while by_words and not _failure(base) and await _words_are_behind(base):  # noqa: ASYNC110 - in another process
                await anyio.sleep(ASK_S)
    except StorageError as error:
        return f"the index cannot be updated: {error}"
    return _failure(base) or CHANGING


def _failure(base: KnowledgeBase) -> str:
    """Return why the index of words could not be updated here, "" if it could."""
    return next((problem.reason for problem in base.indexer.problems if not problem.path), "")


async def _late(base: KnowledgeBase) -> tuple[frozenset[str], frozenset[str]]:
    """Return the pages that differ from the index, and separately those that can't be indexed, for which no waiting would help."""
    late = await differences(base)
    if not late or len(late) > FEW:
        return late, frozenset()
    known = await base.index.stamps(sorted(late))
    unusable = await anyio.to_thread.run_sync(partial(_unusable, base, late - known.keys()))
    return late - unusable, unusable


def _unusable(base: KnowledgeBase, paths: Collection[str]) -> frozenset[str]:
    trust = DirectoryTrust(base.vault)
    return frozenset(
        path for path in paths if isinstance(prepare(base.vault, path, None, trust, at_ns=0), UnusablePage)
    )


async def _still_late(base: KnowledgeBase, late: Collection[str]) -> frozenset[str]:
    """Return those of the `late` pages that still differ; pages that changed since don't prolong the wait."""
    known = {path: stamp for path, (stamp, _, _) in (await base.index.stamps(sorted(late))).items()}

    def look() -> frozenset[str]:
        there = {path: base.vault.find(path) for path in late}
        differing = frozenset(path for path, found in there.items() if known.get(path) != (found and found.stamp))
        return differing - _unusable(base, sorted(differing - known.keys())[:FEW])

    return await anyio.to_thread.run_sync(look)


async def _words_are_behind(base: KnowledgeBase) -> bool:
    return await (await base.engines()).keyword.position() != await base.index.position()
