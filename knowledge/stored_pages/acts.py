"""Carries out acts on stored pages, each in one transaction of the database, and takes edits that people made in a copy.

The order of an act: take the locks; take edits of its pages from this machine's copy; read the pages; plan; check; exchange all files
and record the act in one transaction, which fails if a file is no longer as it was read. Then the copy is brought up to date.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TypeVar

import anyio

from knowledge.errors import InvalidPath, StoredFileChanged, UnwritableDocument
from knowledge.history.codec import content_digest
from knowledge.history.ports import Ledger
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.paths import ancestors, clean_path, is_markdown
from knowledge.pages.vault import revision_of
from knowledge.stored_pages.copy import CopyEdit, PagesCopy, caught_up
from knowledge.stored_pages.copy_files import require_size
from knowledge.stored_pages.ports import FileExchange
from knowledge.writing.acts import audit_entries as entries
from knowledge.writing.files.file_set import ABSENT, FileSet, FoundPage, require_nameable
from knowledge.writing.files.patience import ActPatience
from knowledge.writing.files.recovery import Recovery, Rejoin
from knowledge.writing.files.stale_save import NEAR, Lineage
from knowledge.writing.files.swap import StagedChange
from knowledge.writing.locks.page_locks import PageLocks
from knowledge.writing.model import ActDone, ActWork, PageAct, Rehearsed

T = TypeVar("T")


class StoredPageActs:
    """Carries out acts on the pages in the database. `copy` is this machine's, in which people may edit.

    `rejoin` merges an edit in the copy with what others have written since its base.
    """

    def __init__(
        self,
        copy: PagesCopy,
        ledger: Ledger,
        locks: PageLocks,
        *,
        now: Callable[[], datetime],
        rejoin: Rejoin,
        patience: Callable[[], ActPatience] = ActPatience,
    ) -> None:
        self._copy, self._pages, self._ledger, self._locks = copy, copy.pages, ledger, locks
        self._now, self._rejoin, self._patience = now, rejoin, patience
        self._lineage = Lineage(ledger)
        self.recovery = Recovery(FileSet(copy.vault), ledger, locks, rejoin=rejoin, now=now)
        """Removes files that dead processes left staged in the copy; acts themselves leave nothing half done."""

    async def run(self, act: PageAct[T]) -> ActDone[T]:
        """Carry out the act and return it once it is on record, durably. A caller that disconnects does not stop it."""
        async with self._writing(act.paths):
            done = await self._carry_out(act)
            if done.revisions:
                await caught_up(self._copy)
        return done

    async def rehearse(self, act: PageAct[T]) -> Rehearsed[T]:
        """Return the effect that the act would have now, with edits in this machine's copy. Takes no page's lock, changes nothing."""
        contents = {path: found.raw for path, found in (await self._look(act.paths)).items()}
        for path, raw in contents.items():
            edit = await self._copy.edit_of(path)
            if edit is not None:
                contents[path] = await self._with_edit(edit, raw)
        return Rehearsed(contents, await act.work(contents))

    async def note_outside(self, path: str) -> None:
        """Take the edit of the page in this machine's copy to the database, if there is one."""
        await self._copy.catch_up()
        async with self._writing((path,)):
            await self._take_edit(path, self._patience())

    async def follow_move(self, old: str, new: str) -> bool:
        """Record that somebody moved a page in this machine's copy; False, and nothing recorded, if nobody did."""
        await self._copy.catch_up()
        async with self._writing((old, new)):
            gone, come = await self._copy.edit_of(old), await self._copy.edit_of(new)
            stored = await self._pages.find((old, new))
            # Only exactly the same bytes are certainly the page that is gone; anything else is recorded as two edits.
            if gone is None or come is None or come.raw is None or come.digest != gone.base or gone.raw is not None:
                return False
            if stored[old].digest != gone.base or (new in stored and stored[new].digest is not None):
                return False
            entry = entries.followed(old, new, revision_of(come.raw), self._now())
            try:
                await self._pages.commit(entry, [FileExchange(old, gone.base, None), FileExchange(new, None, come.raw)])
            except StoredFileChanged:
                return False
            for edit in (gone, come):
                await self._copy.taken(edit)
            return True

    async def watch(self) -> None:
        """Return at once: writes need no watching, because nobody can overwrite one unnoticed."""

    async def take_file(self, path: str) -> None:
        """Take the edit of a file that is not a page to the database. A conflict keeps the file of the database beside the edit.

        Raises:
            KnowledgeError: it can't be taken now.
        """
        await self._copy.catch_up()
        async with self._writing((path,)):
            edit = await self._copy.edit_of(path)
            # Very many files that are missing at once were not deleted on purpose, and are back now.
            if edit is None or (edit.raw is None and await self._copy.refilled()):
                return
            stored = (await self._pages.find((path,))).get(path)
            current = stored.digest if stored else None
            if current != edit.digest and (edit.raw is not None or current == edit.base):
                require_size(path, edit.raw)
                if current is not None and current != edit.base:
                    # First: if the process stops between the two, both texts are in the database.
                    other = (await self._pages.contents([current]))[current]
                    await self._pages.put(FileExchange(_beside(path, current), None, other), at=self._now())
                await self._pages.put(FileExchange(path, current, edit.raw), at=self._now())
            await self._copy.taken(edit)
            await self._copy.catch_up()

    @asynccontextmanager
    async def _writing(self, paths: Sequence[str]) -> AsyncIterator[None]:
        """Hold the pages' locks, shielded from cancellation."""
        async with self._locks.held(set(paths)):
            with anyio.CancelScope(shield=True):
                yield

    async def _look(self, paths: Collection[str]) -> dict[str, FoundPage]:
        """Return the pages as they are in the database.

        Raises:
            InvalidPath: there is no page, and none can be made at that path.
        """
        for path in paths:
            _require_page_path(path)
        found = await self._pages.find(paths)
        digests = {path: file.digest for path, file in found.items()}
        contents = await self._pages.contents({d for path in paths if (d := digests.get(path)) is not None})
        seen = {}
        for path in paths:
            raw = contents.get(digests.get(path) or b"")
            if raw is None:
                require_nameable(path)
                await self._require_folder_above(path)
            seen[path] = ABSENT if raw is None else FoundPage(raw, revision_of(raw), None)
        return seen

    async def _require_folder_above(self, path: str) -> None:
        """Check that no file is where a folder above the new page would be, in the database or in this machine's copy.

        Raises:
            UnwritableDocument: there is one.
        """
        above = [folder for folder in ancestors(path) if folder]
        stored = [file.path for file in (await self._pages.find(above)).values() if file.digest is not None]
        there = [folder for folder in above if self._copy.vault.file_stamp(folder) is not None]
        if taken := [*stored, *there]:
            raise UnwritableDocument(
                path, f"a file is where a folder should be: {taken[0]}", "use another path, or move that file away"
            )

    async def _carry_out(self, act: PageAct[T]) -> ActDone[T]:
        patience = self._patience()
        for path in act.paths:
            _require_page_path(path)
            await self._take_edit(path, patience)
        while True:
            seen = await self._look(act.paths)
            work = await act.work({path: found.raw for path, found in seen.items()})
            done = await self._attempt(act, work, seen)
            if done is not None:
                return done
            patience.spend(act.paths[0])

    async def _attempt(self, act: PageAct[T], work: ActWork[T], seen: Mapping[str, FoundPage]) -> ActDone[T] | None:
        """Write `work`, planned from the pages in `seen`; return None if one of them was changed in the meantime."""
        if stray := set(work.contents) - set(seen):
            raise ValueError(f"the act changes {min(stray)!r}, which it does not name")
        changes = [
            StagedChange(path, seen[path], raw, "") for path, raw in work.contents.items() if raw != seen[path].raw
        ]
        if not changes:
            record = None
            if work.contradictions or work.record:
                record = await self._ledger.commit(entries.noted(act, work, seen, self._now()))
            return ActDone(work.result, {}, record)
        for change in changes:
            require_size(change.path, change.raw)
            if work.places.get(change.path, change.path) != change.path:
                raise InvalidPath(change.path, "it is a link in this machine's copy of the pages; use its real path")
        entry = entries.written(act, work, changes, self._now())
        wrong = await act.check({change.path: change.raw for change in changes}) if act.check else ()
        if wrong:
            record = await self._ledger.commit(entries.undone(entry))
            return ActDone(work.result, {c.path: c.before for c in entry.changes}, record, tuple(wrong))
        for change in changes:
            # The history of a page begins with its state before our first write, so that it can be restored.
            if change.seen.raw is not None and not await self._ledger.history(change.path, limit=1):
                await self._ledger.keep(change.path, change.seen.raw, how="outside", at=entry.at)
        try:
            record = await self._pages.commit(
                entry, [FileExchange(change.path, _digest(change.seen.raw), change.raw) for change in changes]
            )
        except StoredFileChanged:
            return None
        return ActDone(work.result, {c.path: c.after for c in entry.changes}, record)

    async def _take_edit(self, path: str, patience: ActPatience) -> None:
        """Take the edit of the page in this machine's copy, if there is one: neither side's text is lost."""
        edit = await self._copy.edit_of(path)
        # Many files that are missing at once are an accident: they are put back, not removed.
        while edit is not None and not (edit.raw is None and await self._copy.refilled()):
            require_size(path, edit.raw)
            try:
                await self._take(edit)
            except StoredFileChanged:
                patience.spend(path)
                continue
            await self._copy.taken(edit)
            break
        if edit is not None:
            await caught_up(self._copy)

    async def _take(self, edit: CopyEdit) -> None:
        """Write the edit to the database, merged with what others have written since its base.

        Raises:
            StoredFileChanged: the page was changed in the meantime.
        """
        stored = (await self._pages.find((edit.path,))).get(edit.path)
        current = stored.digest if stored else None
        if current == edit.digest or (edit.raw is None and current != edit.base):
            return  # there already; or removed here, but changed by others, whose text stays
        base = await self._missed_by(edit) if current == edit.base else None
        if current is None or (current == edit.base and base is None):
            await self._pages.keep_outside(FileExchange(edit.path, current, edit.raw), at=self._now())
            return
        contents = await self._pages.contents([digest for digest in (edit.base, current) if digest is not None])
        base = base if base is not None else contents.get(edit.base or b"", b"")
        theirs, edited = contents[current], edit.raw or b""
        joined = self._rejoin(base, edited, theirs)
        # The edit is a state in the page's history, so a line that the merge leaves out can be read there.
        await self._ledger.keep(edit.path, edited, how="outside", at=self._now())
        act = entries.restoring(edit.path, joined)
        seen = {edit.path: FoundPage(theirs, revision_of(theirs), None)}
        if await self._attempt(act, await act.work({}), seen) is None:
            raise StoredFileChanged(edit.path)
        if joined == theirs:
            # So that the page's own state is the newest in its history again.
            await self._ledger.keep(edit.path, theirs, how="outside", at=self._now())

    async def _with_edit(self, edit: CopyEdit, stored: bytes | None) -> bytes | None:
        """Return the page as it will be once this edit of it is in the database."""
        current = _digest(stored)
        if current in (None, edit.base, edit.digest):
            return edit.raw
        if edit.raw is None or stored is None:
            return stored
        base = await self._pages.contents([edit.base] if edit.base is not None else [])
        return self._rejoin(base.get(edit.base or b"", b""), edit.raw, stored)

    async def _missed_by(self, edit: CopyEdit) -> bytes | None:
        """Return the state that an editor had read, if the server then wrote the page and the editor saved over that; else None."""
        if edit.raw is None or edit.saved_at is None:
            return None
        history = await self._ledger.history(edit.path, limit=NEAR)
        stale = await self._lineage.stale(edit.path, edit.raw, edit.saved_at, history) if history else None
        return None if stale is None or stale.intended else stale.read


def _digest(raw: bytes | None) -> bytes | None:
    return None if raw is None else content_digest(raw)


def _require_page_path(path: str) -> None:
    """Check that a page or canvas can have this path.

    Raises:
        InvalidPath: it can't.
    """
    cleaned = clean_path(path)
    if not is_markdown(cleaned) and not is_canvas(cleaned):
        raise InvalidPath(path, "a document's name ends in .md, .markdown or .mdx")
    if cleaned != path:
        raise InvalidPath(path, f"write it as {cleaned}")


def _beside(path: str, digest: bytes) -> str:
    """Return the path of the other version of an attachment that two people changed at once."""
    stem, dot, suffix = path.rpartition(".")
    mark = f" (other version {digest.hex()[:8]})"
    return f"{stem}{mark}.{suffix}" if dot and "/" not in suffix else f"{path}{mark}"
