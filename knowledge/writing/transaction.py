"""Doing acts: what follows from what is there is written whole, or nothing is, and it is acknowledged when it is on record.

The order of an act: locks; look; intent; stage, exchange, look at what was displaced; check; record. Killed anywhere in
between, the intent says to whoever comes next what was under way (recovery.py).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError, OutcomeUnknown
from knowledge.history.ports import Intent, Ledger
from knowledge.pages.vault import stamp_of
from knowledge.writing.acts import audit_entries as entries
from knowledge.writing.files.file_set import FileSet, FoundPage, Save, StagedChange, Swap
from knowledge.writing.files.patience import ActPatience
from knowledge.writing.files.recovery import Recovery, Rejoin, keep_as_saved
from knowledge.writing.files.save_watch import SaveWatch
from knowledge.writing.files.stale_save import NEAR, Lineage, half_way
from knowledge.writing.locks.page_locks import PageLocks
from knowledge.writing.model import ActDone, ActWork, Contents, PageAct, Rehearsed

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Begun(Generic[T]):
    """An act about to be written."""

    act: PageAct[T]
    work: ActWork[T]
    intent: Intent
    contents: Contents


class _Afterwards(ExitStack):
    """What is left to do after an act: what lies beside the pages is removed, and what it displaced for a moment looked after."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[Save] = []
        self.new_to_history: set[str] = set()
        """Pages of which there was no history when the act looked at them."""

    def met_at(self, path: str) -> list[bytes]:
        """Return once what acts met at the page and took back, the oldest first."""
        met = [save.raw for save in self.met if save.path == path]
        self.met = [save for save in self.met if save.path != path]
        return met


class Transaction:
    """Does acts to the files of one knowledge base, safe against others that do, and against editors that ask nobody.

    `rejoin` puts back what an editor overwrote unknowingly (see recovery.py); run `watch` in the background, so that this is
    noticed soon. `new_id` names acts.
    """

    def __init__(
        self,
        files: FileSet,
        ledger: Ledger,
        locks: PageLocks,
        *,
        now: Callable[[], datetime],
        rejoin: Rejoin = keep_as_saved,
        new_id: Callable[[], str] = lambda: secrets.token_hex(8),
        patience: Callable[[], ActPatience] = ActPatience,
    ) -> None:
        self._files, self._ledger, self._locks = files, ledger, locks
        self._now, self._rejoin, self._new_id, self._patience = now, rejoin, new_id, patience
        self._lineage = Lineage(ledger)
        self.recovery = Recovery(files, ledger, locks, rejoin=rejoin, now=now)
        self._watch = SaveWatch(files, ledger, mend=self.mend, late=self._rejoin_late)

    async def run(self, act: PageAct[T]) -> ActDone[T]:
        """Do the act and return it once it is on record, durably. A caller that goes away meanwhile does not stop it.

        Raises:
            InvalidPath, UnreadableDocument, UnwritableDocument: nothing was changed.
            DocumentBusy, KeepsChanging: nothing was changed; what others saved meanwhile is kept.
            StorageError: the ledger cannot be used; nothing was changed, or (OutcomeUnknown) it is ended later.
            What `act.work` raises: nothing was changed.
        """
        async with self._writing(act.paths) as afterwards:
            done = await self._done(act, afterwards)
        if done.revisions and not done.undone:
            self._watch.wrote(done.revisions)
        return done

    async def rehearse(self, act: PageAct[T]) -> Rehearsed[T]:
        """Return what the act would do now. Waits for nobody and changes nothing."""
        seen = _contents(await self._look(act.paths))
        return Rehearsed(seen, await act.work(seen))

    async def mend(self, path: str) -> None:
        """Look at the page: what somebody saved is in its history, and what they overwrote unknowingly is put back."""
        async with self._writing((path,)) as afterwards:
            await self._accounted((path,), afterwards, self._patience())

    async def watch(self) -> None:
        """Look again, for some seconds, at every page that was written here. Runs until it is cancelled."""
        await self._watch.run()

    @asynccontextmanager
    async def _writing(self, paths: Sequence[str]) -> AsyncIterator[_Afterwards]:
        """Hold the pages, not to be cancelled, and leave nothing behind."""
        with _Afterwards() as afterwards:
            async with self._held(paths):
                with anyio.CancelScope(shield=True):
                    try:
                        yield afterwards
                    finally:
                        await self._account_for_met(paths, afterwards)
            # What lies beside the pages is removed when others may write them again.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(afterwards.close)

    async def _account_for_met(self, paths: Sequence[str], afterwards: _Afterwards) -> None:
        """Put on record what the last act on the pages displaced and took back; no other attempt has looked at it."""
        if afterwards.met:
            try:
                await self._accounted(paths, afterwards, self._patience())
            except KnowledgeError:  # what became of the act itself is what the caller has to hear
                log.warning("cannot put on record what somebody saved at %s meanwhile", paths[0], exc_info=True)

    @asynccontextmanager
    async def _held(self, paths: Sequence[str]) -> AsyncIterator[None]:
        """Hold the pages' locks with no act of a dead process left on them."""
        names = await anyio.to_thread.run_sync(self.recovery.lock_names, paths)
        while True:
            async with self._locks.held(names):
                left = [intent for intent in await self._ledger.intents() if self._touches(intent, names)]
                if not left:
                    yield
                    return
            for intent in left:
                await self.recovery.finish(intent, wait=True)

    def _touches(self, intent: Intent, names: set[str]) -> bool:
        """Return whether the act is about one of these pages, whichever link it was reached through."""
        return not self.recovery.lock_names(change.path for change in intent.entry.changes).isdisjoint(names)

    async def _done(self, act: PageAct[T], afterwards: _Afterwards) -> ActDone[T]:
        patience = self._patience()
        while True:
            seen = await self._accounted(act.paths, afterwards, patience)
            work = await act.work(_contents(seen))
            # To write what was overtaken meanwhile, and to take that back, would only make everybody wait.
            if not self._moved_on(seen):
                done = await self._attempt(act, work, seen, afterwards)
                if done is not None:
                    return done
            patience.spend(act.paths[0])

    def _moved_on(self, seen: Mapping[str, FoundPage]) -> bool:
        """Return whether it can be told from outside that somebody has saved one of the pages since."""
        pairs = ((self._files.stamp(path), found.status) for path, found in seen.items())
        return any(stamp and status and stamp != stamp_of(status) for stamp, status in pairs)

    async def _look(self, paths: Sequence[str]) -> dict[str, FoundPage]:
        return await anyio.to_thread.run_sync(lambda: {path: self._files.look(path) for path in paths})

    async def _accounted(
        self, paths: Sequence[str], afterwards: _Afterwards, patience: ActPatience
    ) -> Mapping[str, FoundPage]:
        """Return the pages as they are; what somebody else saved is on record, and what it took away is put back."""
        while True:
            seen = await self._look(paths)
            restored = False
            for path in paths:
                seen[path], again = await self._account(path, seen[path], afterwards)
                restored = again or await self._join_met(path, seen[path], afterwards) or restored
            if not restored:
                return seen
            patience.spend(paths[0])

    async def _account(self, path: str, found: FoundPage, afterwards: _Afterwards) -> tuple[FoundPage, bool]:
        """Return the page as it is and on record, and whether something was put back into it."""
        newest_line = await self._ledger.history(path, limit=1)
        newest = newest_line[0].revision if newest_line else None
        (afterwards.new_to_history.discard if newest_line else afterwards.new_to_history.add)(path)
        if found.raw is None or found.revision == newest:
            return found, False
        history = await self._ledger.history(path, limit=NEAR) if newest_line else ()
        known = [raw for line in history[:3] if (raw := await self._content(path, line.revision)) is not None]
        found = await anyio.to_thread.run_sync(self._files.settled, path, found, partial(half_way, known))
        if not history or found.raw is None or found.status is None or found.revision == newest:
            return found, False
        saved_at = datetime.fromtimestamp(found.status.st_mtime, UTC)
        stale = await self._lineage.stale(path, found.raw, saved_at, history)
        await self._ledger.keep(path, found.raw, how="outside", at=self._now())
        if stale is None:
            return found, False
        joined = self._rejoin(stale.read, found.raw, stale.newest)
        return found, joined != found.raw and await self._restore(path, found, joined, afterwards)

    async def _join_met(self, path: str, found: FoundPage, afterwards: _Afterwards) -> bool:
        """Keep what an act had displaced for a moment, if somebody has saved over it since; return whether something was written.

        They had read the page in that moment: their save does not know of it, and here it was never seen at the page.
        """
        while met := afterwards.met_at(path):
            oldest, *later = met
            afterwards.met += [Save(path, save) for save in later]
            is_there = any(state.startswith(oldest) for state in (found.raw or b"", *later))
            if not is_there and await self._join(path, None, oldest, found, afterwards):
                return True  # the page is another now: the later ones are held against that
        return False

    async def _content(self, path: str, revision: str | None) -> bytes | None:
        return None if revision is None else await self._ledger.content(path, revision)

    async def _restore(self, path: str, found: FoundPage, joined: bytes, afterwards: _Afterwards) -> bool:
        """Write what an editor overwrote unknowingly, joined with what it saved."""
        act = entries.restoring(path, joined)
        await self._attempt(act, await act.work({}), {path: found}, afterwards)
        return True

    async def _attempt(
        self, act: PageAct[T], work: ActWork[T], seen: Mapping[str, FoundPage], afterwards: _Afterwards
    ) -> ActDone[T] | None:
        """Write what `work` says about the pages as seen; None if somebody saved one of them meanwhile."""
        stray = set(work.contents) - set(seen)
        if stray:
            raise ValueError(f"the act changes {min(stray)!r}, which it does not name")
        changes = [
            StagedChange(
                path, seen[path], raw, self._files.staged_name(path), work.moved.get(path), work.places.get(path)
            )
            for path, raw in work.contents.items()
            if raw != seen[path].raw
        ]
        if not changes:
            return await self._noted(act, work, seen)
        at = self._now()
        entry = entries.written(act, work, changes, at)
        begun = _Begun(act, work, Intent(self._new_id(), at, entry), {change.path: change.raw for change in changes})
        for change in changes:
            if change.seen.raw is not None and change.path in afterwards.new_to_history:
                # So the history of a page begins with what it was when it was first written here, and one finds back to it.
                await self._ledger.keep(change.path, change.seen.raw, how="outside", at=self._now())
                afterwards.new_to_history.discard(change.path)
        states = {raw for change in changes for raw in (change.seen.raw, change.raw) if raw is not None}
        await self._ledger.intend(begun.intent, list(states))
        return await self._carry_out(begun, afterwards.enter_context(self._files.begin(changes)), afterwards)

    async def _noted(self, act: PageAct[T], work: ActWork[T], seen: Mapping[str, FoundPage]) -> ActDone[T]:
        """Put on record what an act found that writes nothing: contradictions, or support for what the pages say."""
        record = None
        if work.contradictions or work.record:
            record = await self._ledger.commit(entries.noted(act, work, seen, self._now()))
        return ActDone(work.result, {}, record)

    async def _carry_out(self, begun: _Begun[T], swap: Swap, afterwards: _Afterwards) -> ActDone[T] | None:
        try:
            return await self._carried_out(begun, swap)
        finally:
            afterwards.met += swap.met()
            self._watch.take(swap.displaced())

    async def _carried_out(self, begun: _Begun[T], swap: Swap) -> ActDone[T] | None:
        try:
            saves = await anyio.to_thread.run_sync(swap.make)
        except BaseException:
            await self._give_up(begun, swap)
            raise
        if saves is not None:
            await self._keep(saves, swap)
            await anyio.to_thread.run_sync(swap.clear)
            await self._ledger.drop(begun.intent.id)
            return None
        try:
            wrong = await begun.act.check(begun.contents) if begun.act.check else ()
            if wrong:
                return await self._undone(begun, swap, wrong)
            record = await self._ledger.commit(begun.intent.entry, intent_id=begun.intent.id)
        except OutcomeUnknown:
            swap.leave()  # whoever comes next sees in the ledger whether it is on record
            raise
        except BaseException:
            await self._keep(await anyio.to_thread.run_sync(swap.undo_what_can_be), swap)
            await self._give_up(begun, swap)
            raise
        revisions = {change.path: change.after for change in begun.intent.entry.changes}
        return ActDone(begun.work.result, revisions, record)

    async def _undone(self, begun: _Begun[T], swap: Swap, wrong: Sequence[str]) -> ActDone[T]:
        """Take the act back and put on record that it was."""
        await self._keep(await anyio.to_thread.run_sync(swap.undo), swap)
        entry = begun.intent.entry
        record = await self._ledger.commit(entries.undone(entry), intent_id=begun.intent.id)
        revisions = {change.path: change.before for change in entry.changes}
        return ActDone(begun.work.result, revisions, record, tuple(wrong))

    async def _keep(self, saves: Sequence[Save], swap: Swap) -> None:
        """Keep what somebody saved and what now lies beside their newer save only."""
        try:
            for save in saves:
                await self._ledger.keep(save.path, save.raw, how="outside", at=self._now())
        except BaseException:
            swap.leave()
            raise

    async def _give_up(self, begun: _Begun[T], swap: Swap) -> None:
        """Forget an act that did not happen, unless something of it could not be taken back: then it is mended later."""
        if swap.taken_back:
            try:
                await self._ledger.drop(begun.intent.id)
            except Exception:  # the reason why the act failed is what the caller has to hear
                log.warning("cannot drop the act %s; the next to write there does", begun.intent.id, exc_info=True)

    async def _rejoin_late(self, path: str, before: str | None, save: bytes) -> None:
        """Keep what an editor wrote into a file that was the page until just now, and join it with what the page is."""
        try:
            async with self._writing((path,)) as afterwards:
                seen = await self._accounted((path,), afterwards, self._patience())
                await self._join(path, before, save, seen[path], afterwards)
        except KnowledgeError:
            await self._ledger.keep(path, save, how="outside", at=self._now())
            log.warning("what was saved late at %s is in its history and cannot be joined with it", path, exc_info=True)

    async def _join(self, path: str, before: str | None, save: bytes, seen: FoundPage, afterwards: _Afterwards) -> bool:
        """Keep what somebody saved and what is not at the page; return whether the page was written, joined with it."""
        read = await self._lineage.made_from(path, save, before)
        await self._ledger.keep(path, save, how="outside", at=self._now())
        afterwards.new_to_history.discard(path)
        if seen.raw is None:
            return False
        joined = seen.raw if read is None else self._rejoin(read, save, seen.raw)
        if joined != seen.raw:
            return await self._restore(path, seen, joined, afterwards)
        await self._ledger.keep(path, seen.raw, how="outside", at=self._now())  # that is what the page is, again
        return False


def _contents(seen: Mapping[str, FoundPage]) -> Contents:
    return {path: found.raw for path, found in seen.items()}
