"""Carries out acts on pages: an act is written completely, based on the actual content of the files, or not at all.

The order of an act: take the locks; read the pages; record the intent; stage the new files; exchange them with the pages; compare
the displaced bytes with those read; check; commit. If the process is killed in between, the intent tells the next process what
was in progress (recovery.py).
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError, OutcomeUnknown
from knowledge.git.working_files import GitVersion
from knowledge.history.ports import Intent, Ledger, Revision
from knowledge.pages.vault import stamp_of
from knowledge.writing.acts import audit_entries as entries
from knowledge.writing.files.file_set import FileSet, FoundPage
from knowledge.writing.files.patience import ActPatience
from knowledge.writing.files.recovery import Recovery, Rejoin
from knowledge.writing.files.save_watch import SaveWatch
from knowledge.writing.files.stale_save import NEAR, Lineage, Stale, half_written
from knowledge.writing.files.swap import Save, StagedChange, Swap
from knowledge.writing.files.unwatched_writes import written_lately
from knowledge.writing.locks.page_locks import PageLocks
from knowledge.writing.model import ActDone, ActWork, PageAct, Rehearsed

T = TypeVar("T")
LeftByGit = Callable[[str, bytes, datetime], GitVersion | None]
"""Returns what Git has left of a page since the server wrote these bytes at that time; None outside a checkout."""

log = logging.getLogger(__name__)


class _Leftovers(ExitStack):
    """The work that remains after an act: removing staged files, and recording saves that it displaced for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[Save] = []
        self.new_to_history: set[str] = set()
        """Pages that had no history when the act read them."""

    def take_met(self, path: str) -> list[bytes]:
        """Return, once, the saves that acts displaced at the page and put back, oldest first."""
        met = [save.raw for save in self.met if save.path == path]
        self.met = [save for save in self.met if save.path != path]
        return met


class Transaction:
    """Carries out acts on the files of one knowledge base, safe against other processes and against editors that take no locks.

    `rejoin` merges text that an editor overwrote unknowingly back into the page (see recovery.py), unless Git has replaced it
    (`left_by_git`). Run `watch` in the background, so that this is noticed soon.
    """

    def __init__(
        self,
        files: FileSet,
        ledger: Ledger,
        locks: PageLocks,
        *,
        now: Callable[[], datetime],
        rejoin: Rejoin,
        patience: Callable[[], ActPatience] = ActPatience,
        left_by_git: LeftByGit | None = None,
    ) -> None:
        self._files, self._ledger, self._locks = files, ledger, locks
        self._now, self._rejoin, self._patience = now, rejoin, patience
        self._left_by_git = left_by_git
        self._lineage = Lineage(ledger)
        self.recovery = Recovery(files, ledger, locks, rejoin=rejoin, now=now)
        self._watch = SaveWatch(files, ledger, mend=self.mend, late=self._merge_late_save)

    async def run(self, act: PageAct[T]) -> ActDone[T]:
        """Carry out the act and return it once it is on record, durably. A caller that disconnects does not stop it.

        Raises:
            InvalidPath, UnreadableDocument, UnwritableDocument: nothing was changed.
            DocumentBusy, KeepsChanging: nothing was changed; saves by others are kept.
            StorageError: the ledger can't be used; nothing was changed, or (OutcomeUnknown) recovery ends the act later.
            Any error of `act.work`: nothing was changed.
        """
        async with self._writing(act.paths) as leftovers:
            done = await self._carry_out(act, leftovers)
        if done.revisions and not done.undone:
            self._watch.wrote(done.revisions)
        return done

    async def rehearse(self, act: PageAct[T]) -> Rehearsed[T]:
        """Return the effect that the act would have now. Takes no locks and changes nothing."""
        seen = await self._look(act.paths)
        contents = {path: found.raw for path, found in seen.items()}
        return Rehearsed(contents, await act.work(contents))

    async def mend(self, path: str) -> None:
        """Record a save by another program in the page's history, and restore text that it overwrote unknowingly."""
        async with self._writing((path,)) as leftovers:
            await self._accounted((path,), leftovers, self._patience())

    async def note_outside(self, path: str) -> None:
        """Record the page as it is now if its history does not end with that state.

        The page was changed or removed, or it is new to the server. As `mend` does, it restores text that somebody
        overwrote unknowingly.

        Raises:
            KnowledgeError: the page can't be read or locked.
        """
        async with self._writing((path,)) as leftovers:
            found = (await self._accounted((path,), leftovers, self._patience()))[path]
            if found.raw is None:
                await self._ledger.removed(path, at=self._now())
            elif path in leftovers.new_to_history and found.status is not None:
                # What a caller has read of the page is the state before the change.
                seen = await self._ledger.seen_last(path)
                before = None if seen is None else await self._ledger.content(path, seen.revision)
                if seen is not None and before is not None:
                    await self._keep(path, before, seen.at)
                at = self._saved_at(found.status, None)
                await self._keep(path, found.raw, at if seen is None else min(max(at, seen.at), self._now()))

    async def follow_move(self, old: str, new: str) -> bool:
        """Record that somebody moved a page outside the server; return False and record nothing if nobody did.

        The page keeps its history, its origins and its contradictions. Links to it stay as they are.

        Raises:
            KnowledgeError: a page can't be read or locked.
        """
        async with self._writing((old, new)):
            seen = await self._look((old, new))
            newest, known = await self._ledger.history(old, limit=1), await self._ledger.history(new, limit=1)
            page = seen[new]
            if seen[old].raw is not None or page.raw is None or page.status is None or known or not newest:
                return False
            if newest[0].path != old or newest[0].revision != page.revision:
                return False
            at = min(max(datetime.fromtimestamp(page.status.st_ctime, UTC), newest[0].at), self._now())
            await self._ledger.keep(new, page.raw, how="seen", at=at)
            await self._ledger.commit(entries.followed(old, new, newest[0].revision or "", at))
            return True

    async def watch(self) -> None:
        """Keep checking pages for some seconds after they were written here. Runs until it is cancelled.

        Pages that were written just before are checked, too: the process that wrote them may have been killed.
        """
        await self._watch.run(self._written_lately)

    async def _written_lately(self) -> Sequence[str]:
        try:
            return await written_lately(self._ledger, self._now())
        except KnowledgeError:  # what this process writes is watched all the same
            log.warning("cannot look for pages that were written lately", exc_info=True)
            return ()

    @asynccontextmanager
    async def _writing(self, paths: Sequence[str]) -> AsyncIterator[_Leftovers]:
        """Hold the pages' locks, shielded from cancellation, and clean up afterwards."""
        with _Leftovers() as leftovers:
            async with self._locked(paths):
                with anyio.CancelScope(shield=True):
                    try:
                        yield leftovers
                    finally:
                        # The last attempt may have displaced saves that no further attempt has handled.
                        if leftovers.met:
                            try:
                                await self._accounted(paths, leftovers, self._patience())
                            except KnowledgeError:  # the caller has to hear the outcome of the act itself
                                log.warning(
                                    "cannot record the version of %s that somebody saved meanwhile",
                                    paths[0],
                                    exc_info=True,
                                )
            # Staged files are removed without the locks, so that others may write the pages again.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(leftovers.close)

    @asynccontextmanager
    async def _locked(self, paths: Sequence[str]) -> AsyncIterator[None]:
        """Hold the pages' locks once no act of a dead process is left on them."""
        names = await anyio.to_thread.run_sync(self.recovery.lock_names, paths)
        while True:
            async with self._locks.held(names):
                # An act may have reached the page through another link; its locks are those of real paths.
                left = [
                    intent
                    for intent in await self._ledger.intents()
                    if names & self.recovery.lock_names(change.path for change in intent.entry.changes)
                ]
                if not left:
                    yield
                    return
            # After releasing our locks: the dead act may involve more pages than ours, and locks are taken in one order.
            for intent in left:
                await self.recovery.finish(intent, wait=True)

    async def _carry_out(self, act: PageAct[T], leftovers: _Leftovers) -> ActDone[T]:
        patience = self._patience()
        while True:
            seen = await self._accounted(act.paths, leftovers, patience)
            work = await act.work({path: found.raw for path, found in seen.items()})
            # Planning takes the longest. Exchanging a page that was saved in the meantime, only to undo it, would cost everybody time.
            pairs = ((self._files.stamp(path), found.status) for path, found in seen.items())
            if not any(stamp and status and stamp != stamp_of(status) for stamp, status in pairs):
                done = await self._attempt(act, work, seen, leftovers)
                if done is not None:
                    return done
            patience.spend(act.paths[0])

    async def _look(self, paths: Sequence[str]) -> dict[str, FoundPage]:
        return await anyio.to_thread.run_sync(lambda: {path: self._files.read(path) for path in paths})

    async def _accounted(
        self, paths: Sequence[str], leftovers: _Leftovers, patience: ActPatience
    ) -> Mapping[str, FoundPage]:
        """Return the current pages, after recording others' saves and restoring what those removed unknowingly."""
        while True:
            seen = await self._look(paths)
            restored = False
            for path in paths:
                seen[path], wrote = await self._account(path, seen[path], leftovers)
                restored = wrote or await self._merge_met(path, seen[path], leftovers) or restored
            if not restored:
                return seen
            patience.spend(paths[0])

    async def _account(self, path: str, found: FoundPage, leftovers: _Leftovers) -> tuple[FoundPage, bool]:
        """Record the page's current state; return the page and whether overwritten text was restored in it."""
        newest_line = await self._ledger.history(path, limit=1)
        newest = newest_line[0].revision if newest_line else None
        if newest_line:
            leftovers.new_to_history.discard(path)
        else:
            leftovers.new_to_history.add(path)
        if found.raw is None or found.revision == newest:
            return found, False
        history = await self._ledger.history(path, limit=NEAR) if newest_line else ()
        contents = [
            await self._ledger.content(path, line.revision) for line in history[:3] if line.revision is not None
        ]
        known = [raw for raw in contents if raw is not None]
        found = await anyio.to_thread.run_sync(self._files.settled, path, found, partial(half_written, known))
        if not history or found.raw is None or found.status is None or found.revision == newest:
            return found, False
        saved_at = datetime.fromtimestamp(found.status.st_mtime, UTC)
        stale = await self._lineage.stale(path, found.raw, saved_at, history)
        missed = None if stale is None else await self._missed(path, stale)
        await self._keep(path, found.raw, self._saved_at(found.status, history[0]))
        if missed is None:
            return found, False
        joined = self._rejoin(missed[0], found.raw, missed[1])
        return found, joined != found.raw and await self._restore(path, found, joined, leftovers)

    async def _missed(self, path: str, stale: Stale) -> tuple[bytes, bytes] | None:
        """Return two states: the changes between them are missing in the save. None if somebody took them back on purpose."""
        left = None
        if self._left_by_git is not None:
            left = await anyio.to_thread.run_sync(self._left_by_git, path, stale.newest, stale.at)
        if left is None:
            return None if stale.intended else (stale.read, stale.newest)
        # States of other branches are in the history too, so only what our own write changed is compared. That write
        # may also have created the page.
        before = stale.before or b""
        if not left.replaced:
            return None if stale.intended else (stale.read if stale.by_acts else before, stale.newest)
        if left.unknowingly:
            return before, stale.newest
        if stale.intended or self._rejoin(before, left.raw, stale.newest) != left.raw:
            return None
        # The save lacks our text although Git's version has it, so it is from an old buffer.
        return stale.read, left.raw

    async def _merge_met(self, path: str, found: FoundPage, leftovers: _Leftovers) -> bool:
        """Keep the text that an act displaced for a moment, if it has been overwritten since; return whether the page was written.

        An editor that read the page in that moment has not seen this text, so its save removed it unknowingly.
        """
        while met := leftovers.take_met(path):
            oldest, *later = met
            leftovers.met += [Save(path, save) for save in later]
            # A save caught half-written is the beginning of a later one.
            is_there = any(state.startswith(oldest) for state in (found.raw or b"", *later))
            if not is_there and await self._merge(path, None, oldest, found, leftovers):
                return True  # the page has changed: the later ones are compared with its new state
        return False

    async def _restore(self, path: str, found: FoundPage, joined: bytes, leftovers: _Leftovers) -> bool:
        """Write `joined`: the text that an editor overwrote unknowingly, merged with the text that the editor saved."""
        act = entries.restoring(path, joined)
        await self._attempt(act, await act.work({}), {path: found}, leftovers)
        return True

    async def _attempt(
        self, act: PageAct[T], work: ActWork[T], seen: Mapping[str, FoundPage], leftovers: _Leftovers
    ) -> ActDone[T] | None:
        """Write `work`, planned from the pages in `seen`; return None if one of them was saved in the meantime."""
        if stray := set(work.contents) - set(seen):
            raise ValueError(f"the act changes {min(stray)!r}, which it does not name")
        changes = [
            StagedChange(
                path, seen[path], raw, self._files.staged_name(path), work.moved.get(path), work.places.get(path)
            )
            for path, raw in work.contents.items()
            if raw != seen[path].raw
        ]
        if not changes:
            # Findings are recorded even if nothing is written: contradictions, or support for what the pages say.
            record = None
            if work.contradictions or work.record:
                record = await self._ledger.commit(entries.noted(act, work, seen, self._now()))
            return ActDone(work.result, {}, record)
        at = self._now()
        intent = Intent(secrets.token_hex(8), at, entries.written(act, work, changes, at))
        for change in changes:
            if change.seen.raw is not None and change.path in leftovers.new_to_history:
                # The history of a page begins with its state before our first write, so that it can be restored.
                await self._keep(change.path, change.seen.raw, at)
                leftovers.new_to_history.discard(change.path)
        states = {raw for change in changes for raw in (change.seen.raw, change.raw) if raw is not None}
        await self._ledger.intend(intent, list(states))
        swap = leftovers.enter_context(Swap(self._files, changes))
        try:
            return await self._write(act, work, intent, swap)
        finally:
            leftovers.met += swap.take_met()
            self._watch.take(swap.release_displaced())

    async def _write(self, act: PageAct[T], work: ActWork[T], intent: Intent, swap: Swap) -> ActDone[T] | None:
        try:
            saves = await anyio.to_thread.run_sync(swap.make)
        except BaseException:
            await self._give_up(intent, swap)
            raise
        if saves is not None:
            await self._keep_saves(saves, swap)
            await anyio.to_thread.run_sync(swap.remove_staged)
            await self._ledger.drop(intent.id)
            return None
        changes = intent.entry.changes
        try:
            written = {change.path: work.contents[change.path] for change in changes}
            wrong = await act.check(written) if act.check else ()
            if wrong:
                await self._keep_saves(await anyio.to_thread.run_sync(swap.undo), swap)
                record = await self._ledger.commit(entries.undone(intent.entry), intent_id=intent.id)
                return ActDone(work.result, {c.path: c.before for c in changes}, record, tuple(wrong))
            record = await self._ledger.commit(intent.entry, intent_id=intent.id)
        except OutcomeUnknown:
            swap.keep_staged()  # the next process sees in the ledger whether the act is on record
            raise
        except BaseException:
            await self._keep_saves(await anyio.to_thread.run_sync(swap.try_undo), swap)
            await self._give_up(intent, swap)
            raise
        return ActDone(work.result, {c.path: c.after for c in changes}, record)

    def _saved_at(self, status: os.stat_result, newest: Revision | None) -> datetime:
        """Return when the file was saved, so that histories keep the order of their times; never later than now."""
        saved_at = datetime.fromtimestamp(status.st_mtime, UTC)
        return min(saved_at if newest is None else max(saved_at, newest.at), self._now())

    async def _keep(self, path: str, raw: bytes, at: datetime | None = None) -> None:
        await self._ledger.keep(path, raw, how="outside", at=at or self._now())

    async def _keep_saves(self, saves: Sequence[Save], swap: Swap) -> None:
        """Keep other programs' saves whose only copy is beside a page that has a newer save."""
        try:
            for save in saves:
                await self._keep(save.path, save.raw)
        except BaseException:
            swap.keep_staged()
            raise

    async def _give_up(self, intent: Intent, swap: Swap) -> None:
        """Drop an act that did not happen. If part of it could not be undone, its intent stays, and recovery ends it."""
        if swap.is_undone:
            try:
                await self._ledger.drop(intent.id)
            except Exception:  # the caller has to hear why the act failed
                log.warning("cannot drop the act %s; the next write to its pages will", intent.id, exc_info=True)

    async def _merge_late_save(self, path: str, before: str | None, save: bytes) -> None:
        """Keep text that an editor wrote into the former file of a page, and merge it into the page."""
        try:
            async with self._writing((path,)) as leftovers:
                seen = await self._accounted((path,), leftovers, self._patience())
                await self._merge(path, before, save, seen[path], leftovers)
        except KnowledgeError:
            await self._keep(path, save)
            log.warning("a late save of %s is in its history, but could not be merged into it", path, exc_info=True)

    async def _merge(self, path: str, before: str | None, save: bytes, seen: FoundPage, leftovers: _Leftovers) -> bool:
        """Merge an editor's save that the page does not hold into it, and keep a copy; return whether the page was written."""
        read = await self._lineage.made_from(path, save, before)
        await self._keep(path, save)
        leftovers.new_to_history.discard(path)
        if seen.raw is None:
            return False
        joined = seen.raw if read is None else self._rejoin(read, save, seen.raw)
        if joined != seen.raw:
            return await self._restore(path, seen, joined, leftovers)
        await self._keep(path, seen.raw)  # so that the page's own state is the newest in its history again
        return False
