"""What becomes of acts whose process died: finished if they had begun to show, otherwise as if they had never been.

An act is on record as an intent before its first step and until its last. The lock of its pages dies with its process; so who
holds those locks and finds the intent knows that nobody else will end it. What the page and the file beside it hold tells
how far it came.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

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
from knowledge.history.ports import FileChange, HistoryEntry, Intent, Ledger
from knowledge.pages.vault import revision_of
from knowledge.writing.files.file_set import ABSENT, FileSet, FoundPage, StagedChange
from knowledge.writing.locks.page_locks import PageLocks

Rejoin = Callable[[bytes, bytes, bytes], bytes]
"""`rejoin(before, current, after)`: `current` with what was done between `before` and `after`; where both changed the same,
it stays as `current` has it. Never raises; what cannot be joined is `current`."""

ORPHANED_S: Final = 60.0
TRIES = 10

log = logging.getLogger(__name__)


def keep_as_saved(_before: bytes, current: bytes, _after: bytes) -> bytes:
    """Join nothing: what somebody saved stays as it is."""
    return current


@dataclass(frozen=True, slots=True)
class _Remains:
    """What a dead process has left of one file of its act."""

    change: FileChange
    before: bytes | None
    after: bytes | None
    page: FoundPage
    beside: bytes | None

    @property
    def happened(self) -> bool:
        """Whether the file had become what it was to be, whatever came later."""
        is_there, beside = self.page.revision is not None, self.beside is not None
        if self.change.after is None:
            return beside or not is_there
        if beside and self._beside_revision == self.change.before:
            return True
        if self.page.revision == self.change.after:
            return not beside or self._is_save
        return False

    @property
    def displaced(self) -> bytes | None:
        """What somebody saved right before the exchange, which nobody has looked at yet."""
        return self.beside if self._is_save else None

    @property
    def _beside_revision(self) -> str | None:
        return None if self.beside is None else revision_of(self.beside)

    @property
    def _is_save(self) -> bool:
        """Whether what lies beside the page is neither of the act's two states, nor the beginning of the new one."""
        if self.beside is None or self._beside_revision in {self.change.before, self.change.after}:
            return False
        return self.after is None or not self.after.startswith(self.beside)


class Recovery:
    """Ends what others have begun. Safe to be done by several processes at once: the locks and the ledger let one of them."""

    def __init__(
        self, files: FileSet, ledger: Ledger, locks: PageLocks, *, rejoin: Rejoin, now: Callable[[], datetime]
    ) -> None:
        self._files, self._ledger, self._locks = files, ledger, locks
        self._rejoin, self._now = rejoin, now

    async def finish_all(self) -> int:
        """End every act that nobody is about any more; return how many. One that cannot be ended now is logged and stays."""
        ended = 0
        for intent in await self._ledger.intents():
            try:
                ended += await self.finish(intent, wait=False)
            except KnowledgeError:
                log.warning("cannot finish or drop the act %s that a process left behind", intent.id, exc_info=True)
        return ended

    async def finish(self, intent: Intent, *, wait: bool) -> bool:
        """End the act if it is still open and its locks are free; return whether that was done here."""
        paths = self.lock_names(change.path for change in intent.entry.changes)
        if wait:
            async with self._locks.held(paths):
                return await self._shielded(intent)
        async with self._locks.held_if_free(paths) as free:
            return free and await self._shielded(intent)

    async def sweep(self, *, older_than_s: float = ORPHANED_S) -> int:
        """Remove files that lie beside pages and belong to no act; what they hold is kept if nobody knows it."""
        before = self._now().timestamp() - older_than_s
        orphans = await anyio.to_thread.run_sync(lambda: list(self._files.orphans(before=before)))
        begun = {change.staged for intent in await self._ledger.intents() for change in intent.entry.changes}
        removed = 0
        for orphan in orphans:
            if orphan.name not in begun:
                await self._keep_if_unknown(orphan.page, orphan.raw)
                await anyio.to_thread.run_sync(self._files.remove_orphan, orphan)
                removed += 1
        return removed

    async def _keep_if_unknown(self, path: str, raw: bytes) -> None:
        if raw and await self._ledger.content(path, revision_of(raw)) is None:
            await self._ledger.keep(path, raw, how="outside", at=self._now())

    def lock_names(self, paths: Iterable[str]) -> set[str]:
        """Return the names by which pages are locked: where they really lie."""
        names = set()
        for path in paths:
            try:
                names.add(self._files.real(path))
            except KnowledgeError:
                names.add(path)
        return names

    async def _shielded(self, intent: Intent) -> bool:
        ended = False
        with anyio.CancelScope(shield=True):
            if intent.id in {other.id for other in await self._ledger.intents()}:
                await self._end(intent)
                ended = True
        return ended

    async def _end(self, intent: Intent) -> None:
        remains = [await self._remains(change) for change in intent.entry.changes]
        await self._keep_saves(remains)
        if any(one.happened for one in remains):
            await self._complete(intent, remains)
        else:
            await self._ledger.drop(intent.id)
        for change in intent.entry.changes:
            if change.staged:
                with suppress(InvalidPath):  # somebody has put something else there since
                    await anyio.to_thread.run_sync(self._files.discard, change.path, change.staged)

    async def _remains(self, change: FileChange) -> _Remains:
        before, after = [
            None if revision is None else await self._ledger.content(change.path, revision)
            for revision in (change.before, change.after)
        ]
        page, beside = await anyio.to_thread.run_sync(self._left, change)
        return _Remains(change, before, after, page, beside)

    def _left(self, change: FileChange) -> tuple[FoundPage, bytes | None]:
        """Return the page and what lies beside it; nothing where somebody has put a folder or a link that leaves since."""
        try:
            page = self._files.look(change.path)
            return page, self._files.beside(change.path, change.staged) if change.staged else None
        except (InvalidPath, UnreadableDocument, UnwritableDocument) as error:
            if isinstance(error.__cause__, OSError):
                raise  # a matter of the disk: it may be better later
            return ABSENT, None

    async def _keep_saves(self, remains: Sequence[_Remains]) -> None:
        for one in remains:
            known = {one.change.before, one.change.after}
            if one.displaced is not None:
                await self._ledger.keep(one.change.path, one.displaced, how="outside", at=self._now())
            if not one.happened and one.page.raw is not None and one.page.revision not in known:
                await self._ledger.keep(one.change.path, one.page.raw, how="outside", at=self._now())

    async def _complete(self, intent: Intent, remains: Sequence[_Remains]) -> None:
        """Let every file of the act become what it was to be, joined with what somebody saved meanwhile, and record it."""
        moved = self._saved_where_it_was(remains)
        gone = {one.change.moved_from for one in remains if one.change.path in moved}
        changes = [
            await self._removed(one, even_saved=one.change.path in gone)
            if one.change.after is None
            else await self._completed(one, moved.get(one.change.path))
            for one in remains
        ]
        entry = _about(intent.entry, [change for change in changes if change is not None])
        try:
            await self._record(entry, intent.id)
        except UnknownIntent:
            log.info("the act %s was ended by another process", intent.id)

    async def _record(self, entry: HistoryEntry, intent_id: str) -> None:
        """Put the act on record; where its proposal was ended without it meanwhile, beside that: it has happened all the same."""
        try:
            await self._ledger.commit(entry, intent_id=intent_id)
        except ProposalSettled as error:
            log.warning("the act %s was found done when proposal %s had ended without it", intent_id, error.proposal)
            decision = f"{entry.decision or 'approved'}; found done when proposal {error.proposal} had ended without it"
            await self._ledger.commit(replace(entry, proposal=None, decision=decision), intent_id=intent_id)

    def _saved_where_it_was(self, remains: Sequence[_Remains]) -> Mapping[str, tuple[bytes, bytes]]:
        """Return, by the path that a page moves to, what it was and what somebody saved at its old place meanwhile."""
        left = {one.change.path: one for one in remains if one.change.after is None}
        found = {}
        for one in remains:
            old = left.get(one.change.moved_from or "")
            if old is not None and old.before is not None:
                save = old.displaced if old.happened else old.page.raw
                if save is not None and save != old.before:
                    found[one.change.path] = old.before, save
        return found

    async def _completed(self, one: _Remains, moved: tuple[bytes, bytes] | None) -> FileChange | None:
        """Do what is left to do to this file and return the change as it is now; None if it was left alone."""
        change, current = one.change, one.displaced if one.happened and one.displaced is not None else one.page.raw
        if one.after is None:
            return change if one.happened else None  # its bytes are not kept any more: nothing to finish it with
        wanted = one.after
        if moved is not None:
            wanted = self._rejoin(moved[0], moved[1], wanted)
        if not one.happened or one.displaced is not None:
            if current is None and one.before is not None:
                return None  # somebody removed it meanwhile
            if current is not None and current != one.before:
                wanted = self._rejoin(one.before or b"", current, wanted)
        elif one.page.revision != change.after:
            return change  # saved again later: looked at when somebody meets it
        now_there: bytes | None = wanted
        if revision_of(wanted) != one.page.revision:
            now_there = await self._put(change.path, one.page.raw, wanted, like=change.moved_from)
        before = change.before if current is None or not one.displaced else revision_of(current)
        return replace(change, before=before, after=None if now_there is None else revision_of(now_there))

    async def _removed(self, one: _Remains, *, even_saved: bool) -> FileChange | None:
        """Remove the page if that is left to do; None if somebody saved it and that is not where it has moved to."""
        if one.happened:
            return one.change
        if one.page.revision != one.change.before and not even_saved:
            return None  # somebody saved it after all: it stays
        left = await self._put(one.change.path, one.page.raw, None, like=None)
        return one.change if left is None else None

    async def _put(self, path: str, over: bytes | None, raw: bytes | None, *, like: str | None) -> bytes | None:
        """Let the page, which was `over`, become `raw`; return what it is then.

        What somebody has saved since is kept and joined; a page that was to go stays then.
        """
        for _ in range(TRIES):
            seen = await anyio.to_thread.run_sync(self._files.look, path)
            if seen.raw is not None and seen.raw not in (over, raw):
                await self._ledger.keep(path, seen.raw, how="outside", at=self._now())
                if raw is None:
                    return seen.raw
                over, raw = seen.raw, self._rejoin(over or b"", seen.raw, raw)
            if seen.raw == raw or await self._put_once(path, seen, raw, like):
                return raw
        raise KeepsChanging(path, TRIES)

    async def _put_once(self, path: str, seen: FoundPage, raw: bytes | None, like: str | None) -> bool:
        """Return whether the page has become `raw`. What was displaced is kept, also where it lies at the page again."""
        change = StagedChange(path, seen, raw, self._files.staged_name(path), like)
        with self._files.begin([change]) as swap:
            saves = await anyio.to_thread.run_sync(swap.make)
            try:
                for save in (*(saves or ()), *swap.met()):
                    await self._ledger.keep(save.path, save.raw, how="outside", at=self._now())
            except BaseException:
                swap.leave()
                raise
        return saves is None


def _about(entry: HistoryEntry, changes: Sequence[FileChange]) -> HistoryEntry:
    """Return the entry for these changes only."""
    left = {change.path for change in changes if change.after is not None}
    origins = {path: origins for path, origins in entry.origins.items() if path in left}
    return replace(entry, changes=tuple(changes), origins=origins)
