"""Ends the acts of processes that died: finishes those of which any part is visible, and drops the others.

An act is recorded as an intent from before its first step until after its last. The locks on its pages are released when its
process dies. So a process that holds those locks and finds the intent knows that nobody else will end the act. The page and the
file beside it show how far the act got:

| act on a file | before | staged | made | removed beside |
|---|---|---|---|---|
| edit | page: old | page: old, beside: new | page: new, beside: old | page: new |
| new page | nothing | beside: new | page: new | |
| removal | page: old | | beside: old | nothing |

Any of these files may also hold a save by a program that takes no locks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import anyio
import anyio.to_thread

from knowledge.errors import (
    InvalidPath,
    KeepsChanging,
    KnowledgeError,
    ProposalSettled,
    UnknownIntent,
    UnreadableDocument,
    UnwritableDocument,
)
from knowledge.history.ports import FileChange, Intent, Ledger
from knowledge.pages.vault import revision_of
from knowledge.writing.files.file_set import ABSENT, FileSet, FoundPage
from knowledge.writing.files.swap import StagedChange, Swap
from knowledge.writing.locks.page_locks import PageLocks

Rejoin = Callable[[bytes, bytes, bytes], bytes]
"""`rejoin(before, current, after)`: `current` with the changes between `before` and `after`. Where both changed the same text, or
the texts can't be merged, `current` wins. Never raises."""

ORPHANED_S: Final = 60.0
TRIES = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Remains:
    """One file of a dead process's act: its planned states, and the page and staged file as they are now."""

    change: FileChange
    before: bytes | None
    after: bytes | None
    page: FoundPage
    beside: bytes | None

    @property
    def happened(self) -> bool:
        """Whether the change was made, even if somebody has saved the page since."""
        if self.change.after is None:
            return self.beside is not None or self.page.revision is None
        if self.beside is not None and revision_of(self.beside) == self.change.before:
            return True
        return self.page.revision == self.change.after and (self.beside is None or self.displaced is not None)

    @property
    def displaced(self) -> bytes | None:
        """A save that the exchange displaced and that nobody has handled yet, None without one."""
        if self.beside is None or revision_of(self.beside) in {self.change.before, self.change.after}:
            return None
        # The process may have died while it staged the new state: then this is only its beginning.
        return None if self.after is not None and self.after.startswith(self.beside) else self.beside


class Recovery:
    """Ends acts of dead processes. Several processes may try at once; the locks and the ledger let only one succeed."""

    def __init__(
        self, files: FileSet, ledger: Ledger, locks: PageLocks, *, rejoin: Rejoin, now: Callable[[], datetime]
    ) -> None:
        self._files, self._ledger, self._locks = files, ledger, locks
        self._rejoin, self._now = rejoin, now

    async def finish_all(self) -> int:
        """End every act whose process died; return how many were ended. One that can't be ended now is logged and kept."""
        ended = 0
        for intent in await self._ledger.intents():
            try:
                ended += await self.finish(intent, wait=False)
            except KnowledgeError:
                log.warning("cannot finish or drop the act %s that a process left behind", intent.id, exc_info=True)
        return ended

    async def finish(self, intent: Intent, *, wait: bool) -> bool:
        """End the act if it is still on record and its locks are free (or become so); return whether this call ended it."""
        paths = self.lock_names(change.path for change in intent.entry.changes)
        if wait:
            async with self._locks.held(paths):
                return await self._end_if_open(intent)
        async with self._locks.held_if_free(paths) as free:
            return free and await self._end_if_open(intent)

    async def sweep(self, *, older_than_s: float = ORPHANED_S) -> int:
        """Remove staged files that belong to no act; text that is in no history is kept first.

        A power cut leaves such files: intents survive a killed process, but not always a power cut.
        """
        before = self._now().timestamp() - older_than_s
        orphans = await anyio.to_thread.run_sync(lambda: list(self._files.orphans(before=before)))
        in_use = {change.staged for intent in await self._ledger.intents() for change in intent.entry.changes}
        removed = 0
        for orphan in orphans:
            if orphan.name in in_use:
                continue
            if orphan.raw and await self._ledger.content(orphan.page, revision_of(orphan.raw)) is None:
                await self._keep(orphan.page, orphan.raw)
            await anyio.to_thread.run_sync(self._files.remove_orphan, orphan)
            removed += 1
        return removed

    async def _keep(self, path: str, raw: bytes) -> None:
        await self._ledger.keep(path, raw, how="outside", at=self._now())

    def lock_names(self, paths: Iterable[str]) -> set[str]:
        """Return the names by which these pages are locked: their real paths."""
        names = set()
        for path in paths:
            try:
                names.add(self._files.real(path))
            except KnowledgeError:
                names.add(path)
        return names

    async def _end_if_open(self, intent: Intent) -> bool:
        # A server that is asked to stop must not leave the act half-recovered.
        with anyio.CancelScope(shield=True):
            # Another process may have ended it while this one waited for the locks.
            is_open = intent.id in {other.id for other in await self._ledger.intents()}
            if is_open:
                await self._end(intent)
        return is_open

    async def _end(self, intent: Intent) -> None:
        changes = intent.entry.changes
        remains = [await self._remains(change) for change in changes]
        happened = any(one.happened for one in remains)
        for one in remains:
            if one.displaced is not None:
                await self._keep(one.change.path, one.displaced)
            # A save at the page that the act never saw is kept before the act is merged with it. If the act is dropped, the save
            # is recorded when the page is next checked: it may be from an old buffer, and have removed earlier acts unknowingly.
            is_save = one.page.revision not in {one.change.before, one.change.after}
            if happened and not one.happened and one.page.raw is not None and is_save:
                await self._keep(one.change.path, one.page.raw)
        if happened:
            await self._complete(intent, remains)
        else:
            await self._ledger.drop(intent.id)
        for change in changes:
            # Last: until the act is ended, these files show how far it got.
            if change.staged:
                with suppress(InvalidPath):  # the path may hold something else by now
                    await anyio.to_thread.run_sync(self._files.discard, change.path, change.staged)

    async def _remains(self, change: FileChange) -> _Remains:
        before, after = [
            None if revision is None else await self._ledger.content(change.path, revision)
            for revision in (change.before, change.after)
        ]
        page, beside = await anyio.to_thread.run_sync(self._read, change)
        return _Remains(change, before, after, page, beside)

    def _read(self, change: FileChange) -> tuple[FoundPage, bytes | None]:
        """Return the page and the staged file beside it; both empty if a folder or a link to outside is there now."""
        try:
            page = self._files.read(change.path)
            return page, self._files.beside(change.path, change.staged) if change.staged else None
        except (InvalidPath, UnreadableDocument, UnwritableDocument) as error:
            if isinstance(error.__cause__, OSError):
                raise  # a problem of the disk, which may be gone later
            return ABSENT, None

    async def _complete(self, intent: Intent, remains: Sequence[_Remains]) -> None:
        """Finish every file of the act, merged with saves made in the meantime, and record it."""
        moved = _saves_at_old_places(remains)
        moved_with_save = {one.change.moved_from for one in remains if one.change.path in moved}
        finished: list[FileChange] = []
        for one in remains:
            if one.change.after is None:
                change = await self._finish_removal(one, even_saved=one.change.path in moved_with_save)
            else:
                change = await self._finish_write(one, moved.get(one.change.path))
            if change is not None:
                finished.append(change)
        left = {change.path for change in finished if change.after is not None}
        origins = {path: origins for path, origins in intent.entry.origins.items() if path in left}
        entry = replace(intent.entry, changes=tuple(finished), origins=origins)
        try:
            try:
                await self._ledger.commit(entry, intent_id=intent.id)
            except ProposalSettled as error:
                # Somebody ended the proposal, for example as failed. The act has happened, so it is recorded without
                # the proposal.
                log.warning(
                    "the act %s was found to be done, but proposal %s had ended without it", intent.id, error.proposal
                )
                note = f"{entry.decision or 'approved'}; found to be done, but proposal {error.proposal} had ended without it"
                await self._ledger.commit(replace(entry, proposal=None, decision=note), intent_id=intent.id)
        except UnknownIntent:
            log.info("the act %s was ended by another process", intent.id)

    async def _finish_write(self, one: _Remains, moved: tuple[bytes, bytes] | None) -> FileChange | None:
        """Write this file if that is still to be done; return the change as it is now, None if the file was left alone."""
        change = one.change
        if one.after is None:
            return change if one.happened else None  # its bytes are no longer kept, so nothing can be finished
        wanted = one.after
        if moved is not None:
            wanted = self._rejoin(moved[0], moved[1], wanted)
        save = one.displaced if one.happened else None
        current = one.page.raw if save is None else save
        if not one.happened or save is not None:
            if current is None and one.before is not None:
                return None  # the page was removed in the meantime
            if current is not None and current != one.before:
                wanted = self._rejoin(one.before or b"", current, wanted)
        elif one.page.revision != change.after:
            return change  # saved later: handled when the page is next checked
        now_there: bytes | None = wanted
        if revision_of(wanted) != one.page.revision:
            now_there = await self._put(change.path, one.page.raw, wanted, like=change.moved_from)
        before = change.before if current is None or not one.displaced else revision_of(current)
        return replace(change, before=before, after=None if now_there is None else revision_of(now_there))

    async def _finish_removal(self, one: _Remains, *, even_saved: bool) -> FileChange | None:
        """Remove the page if that is still to be done; return None if somebody saved it, unless the save moved with the page."""
        if one.happened:
            return one.change
        if one.page.revision != one.change.before and not even_saved:
            return None
        left = await self._put(one.change.path, one.page.raw, None, like=None)
        return one.change if left is None else None

    async def _put(self, path: str, over: bytes | None, raw: bytes | None, *, like: str | None) -> bytes | None:
        """Write `raw` to the page, which held `over`, and return what it holds then.

        A later save is kept and merged. If the page was to be removed (`raw` is None) and has a later save, it stays.
        """
        for _ in range(TRIES):
            seen = await anyio.to_thread.run_sync(self._files.read, path)
            if seen.raw is not None and seen.raw not in (over, raw):
                await self._keep(path, seen.raw)
                if raw is None:
                    return seen.raw
                over, raw = seen.raw, self._rejoin(over or b"", seen.raw, raw)
            if seen.raw == raw or await self._put_once(path, seen, raw, like):
                return raw
        raise KeepsChanging(path, TRIES)

    async def _put_once(self, path: str, seen: FoundPage, raw: bytes | None, like: str | None) -> bool:
        """Return whether the page now holds `raw`. Displaced saves are kept, including those put back at the page."""
        change = StagedChange(path, seen, raw, self._files.staged_name(path), like)
        with Swap(self._files, [change]) as swap:
            saves = await anyio.to_thread.run_sync(swap.make)
            try:
                for save in (*(saves or ()), *swap.take_met()):
                    await self._keep(save.path, save.raw)
            except BaseException:
                swap.keep_staged()  # the bytes beside the page may be the only copy of a save
                raise
        return saves is None


def _saves_at_old_places(remains: Sequence[_Remains]) -> Mapping[str, tuple[bytes, bytes]]:
    """Return, by the new path of a page that moves, its text and any save made at its old path in the meantime."""
    removals = {one.change.path: one for one in remains if one.change.after is None}
    found = {}
    for one in remains:
        old = removals.get(one.change.moved_from or "")
        if old is not None and old.before is not None:
            save = old.displaced if old.happened else old.page.raw
            if save is not None and save != old.before:
                found[one.change.path] = old.before, save
    return found
