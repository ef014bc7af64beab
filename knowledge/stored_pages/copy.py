"""This machine's copy of the stored pages: a folder from which everything reads, brought up to date from the database.

The copy is a cache, and also a mirror in which people may edit. For each file it records the bytes that it last gave the file. A file
that differs from them was edited: it is never overwritten, and the edit is taken to the database (`acts.py`) with those bytes as its
base.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from knowledge.errors import KnowledgeError, VaultUnavailable
from knowledge.history.codec import content_digest
from knowledge.pages.vault import Vault
from knowledge.state.ports import Progress, Stamp
from knowledge.stored_pages.copy_files import CopyFiles, require_size
from knowledge.stored_pages.copy_record import CopiedFile, CopyRecord
from knowledge.stored_pages.ports import BEGINNING, FileExchange, StoredFile, StoredPages
from knowledge.writing.files.file_set import EMPTIED_S, LOOK_AGAIN_S, QUIET_S
from knowledge.writing.locks.page_locks import PageLocks

AT_ONCE = 200
"""Files that are brought in one step."""
READ_AT_ONCE = 16
"""Files whose bytes are in memory at once."""
MOST_NAMED = 3
FEW_REMOVED = 20
"""Up to this number of files may be removed from the copy at once; more is an accident, such as a folder that was emptied."""
LOCK = "copy"

_NO_STAMP = Stamp(-1, -1, -1)
"""A stamp that no file has: a file recorded with it is read at the next look."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CopyEdit:
    """An edit in the copy: the SHA-256 that the file was given last (None: it is new), and its bytes now (None: it is gone).

    `saved_at` is when the file was saved, None if it is gone.
    """

    path: str
    base: bytes | None
    raw: bytes | None
    saved_at: datetime | None = None

    @property
    def digest(self) -> bytes | None:
        """The SHA-256 of its bytes."""
        return None if self.raw is None else content_digest(self.raw)


class PagesCopy:
    """The copy of one machine. Its processes share `record_file`, and bring the copy up to date one at a time, under `locks`."""

    def __init__(
        self,
        vault: Vault,
        pages: StoredPages,
        record_file: Path,
        locks: PageLocks,
        *,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.vault, self.pages = vault, pages
        self._record, self._files = CopyRecord(record_file), CopyFiles(vault.root)
        self._locks, self._on_progress = locks, on_progress
        self._troubles: dict[str, str] = {}

    @property
    def troubles(self) -> Mapping[str, str]:
        """The reasons why files of the database are not in the copy, by path, as far as this process knows."""
        return dict(self._troubles)

    async def close(self) -> None:
        """Close the record."""
        await anyio.to_thread.run_sync(self._record.close)

    async def require_ours(self) -> None:
        """Check that a folder that never was a copy holds no files that the database lacks.

        Raises:
            VaultUnavailable: it does; nothing was changed.
        """
        if await anyio.to_thread.run_sync(self._record.begun):
            return
        there = sorted(path for path, _ in await anyio.to_thread.run_sync(lambda: list(self._files.walk())))
        stored = await self.pages.find(there)
        foreign = [path for path in there if not await self._is_stored(path, stored.get(path))]
        if foreign:
            named, more = ", ".join(foreign[:MOST_NAMED]), len(foreign) - MOST_NAMED
            raise VaultUnavailable(
                str(self.vault.root),
                f"the pages are in the database, and it has other files: {named}{f' and {more} more' if more > 0 else ''}; name an "
                "empty folder with FORGE_KB, and bring these files in with `knowledge-forge import`",
            )

    async def _is_stored(self, path: str, file: StoredFile | None) -> bool:
        found = await anyio.to_thread.run_sync(self._files.read, path)
        return found is not None and file is not None and found[1].digest == file.digest

    async def catch_up(self, *, whole: bool = False) -> None:
        """Bring the copy up to date with all changes that are committed now.

        With `whole`, every file is compared with the database: it may have been restored from a backup.

        Raises:
            StorageError, DocumentBusy, VaultUnavailable: the copy is as old as before, or in part.
        """
        last = await self.pages.last()
        place = await anyio.to_thread.run_sync(self._record.place)
        if not whole and place.seq == last:
            return
        async with self._locks.held([LOCK]):
            # Files that were brought and not recorded would look like edits.
            with anyio.CancelScope(shield=True):
                self.vault.check()
                await self._bring_all(whole=whole, last=last)

    async def _bring_all(self, *, whole: bool, last: int) -> None:
        # The first time, files are flushed together at the end. Before that the record has no place, and the folder counts as no copy.
        first = not await anyio.to_thread.run_sync(self._record.begun)
        if first:
            await anyio.to_thread.run_sync(self._record.clear)
        place = await anyio.to_thread.run_sync(self._record.place)
        # A database that is behind the copy was restored from a backup.
        whole = whole or place.seq > last
        unlisted = set(await anyio.to_thread.run_sync(self._record.all)) if whole else set[str]()
        place, done = (BEGINNING, 0) if whole else (place, 0)
        while files := await self.pages.after(place, limit=AT_ONCE):
            await self._bring(files, durable=not first)
            place = files[-1].place
            unlisted.difference_update(file.path for file in files)
            done += len(files)
            if not first:
                await anyio.to_thread.run_sync(self._record.set, {}, place)
            self._on_progress(Progress(done, done + (AT_ONCE if len(files) == AT_ONCE else 0)))
        if first and hasattr(os, "sync"):  # Windows has no such call
            await anyio.to_thread.run_sync(os.sync)
        if unlisted:
            await self._bring([StoredFile(path, None, 0) for path in sorted(unlisted)])
        await anyio.to_thread.run_sync(self._record.set, {}, place)

    async def add(self, path: str, raw: bytes, *, at: datetime) -> None:
        """Put a new file that is not a page into the database, and into the copy.

        Raises:
            UnwritableDocument: it is too large.
            StoredFileChanged: there is a file at that path already.
        """
        require_size(path, raw)
        await self.pages.put(FileExchange(path, None, raw), at=at)
        await caught_up(self)

    async def bring(self, paths: Collection[str]) -> None:
        """Bring these files up to date, if nobody has edited them in the copy."""
        async with self._locks.held([LOCK]):
            with anyio.CancelScope(shield=True):
                found = await self.pages.find(paths)
                await self._bring([found.get(path) or StoredFile(path, None, 0) for path in paths])

    async def _bring(self, files: Sequence[StoredFile], *, durable: bool = True) -> None:
        known = await anyio.to_thread.run_sync(self._record.all, [file.path for file in files])
        changed = await anyio.to_thread.run_sync(self._differing, files, known)
        for start in range(0, len(changed), READ_AT_ONCE):
            part = changed[start : start + READ_AT_ONCE]
            contents = await self.pages.contents({file.digest for file in part if file.digest is not None})
            for file in part:
                await anyio.to_thread.run_sync(
                    partial(self._place, durable=durable), file, known.get(file.path), contents
                )

    def _differing(self, files: Sequence[StoredFile], known: Mapping[str, CopiedFile]) -> list[StoredFile]:
        """Return those of the files that the copy does not have yet, judged by their stamps."""

        def is_there(file: StoredFile) -> bool:
            given = known.get(file.path)
            if given is None or file.digest is None:
                return given is None and file.digest is None
            return given.digest == file.digest and self.vault.file_stamp(file.path) == given.stamp

        return [file for file in files if not is_there(file)]

    def _place(
        self, file: StoredFile, known: CopiedFile | None, contents: Mapping[bytes, bytes], *, durable: bool
    ) -> None:
        raw = None if file.digest is None else contents.get(file.digest)
        if file.digest is not None and raw is None:
            return  # changed since: the newer change follows
        try:
            placed = self._files.place(file.path, known.digest if known else None, raw, durable=durable)
        except KnowledgeError as error:
            if self._troubles.get(file.path) != str(error):
                log.warning("this machine's copy lacks a file of the database: %s", error)
            self._troubles[file.path] = str(error)
            return
        self._troubles.pop(file.path, None)
        if placed is not False:
            self._record.set({file.path: placed if isinstance(placed, CopiedFile) else None})

    # --- edits --------------------------------------------------------------------------------------------------------

    async def edit_of(self, path: str) -> CopyEdit | None:
        """Return how somebody edited the file in the copy; None if it is as it was given.

        Raises:
            KnowledgeError: it can't be read.
        """
        # A file that another process has just placed is not on record yet, and would look like an edit.
        async with self._locks.held([LOCK]):
            return await anyio.to_thread.run_sync(self._edit_of, path)

    def _edit_of(self, path: str) -> CopyEdit | None:
        known = self._record.get(path)
        if known is not None and self.vault.file_stamp(path) == known.stamp:
            return None
        found = self._settled(path)
        if found is None:
            return None if known is None else CopyEdit(path, known.digest, None)
        raw, now = found
        if known is not None and now.digest == known.digest:
            self._record.set({path: now})  # only its stamp differs
            return None
        saved_at = datetime.fromtimestamp(now.stamp.mtime_ns / 1e9, UTC)
        return CopyEdit(path, known.digest if known else None, raw, saved_at)

    def _settled(self, path: str) -> tuple[bytes, CopiedFile] | None:
        """Return the file once an editor that writes in place has probably finished."""
        until = time.monotonic() + EMPTIED_S
        while (found := self._files.read(path)) is not None and time.monotonic() < until:
            age_s = time.time() - found[1].stamp.mtime_ns / 1e9
            if not 0 <= age_s < (QUIET_S if found[0] else EMPTIED_S):
                break
            time.sleep(LOOK_AGAIN_S)
        return found

    async def edited(self) -> Sequence[str]:
        """Return the paths of all files that somebody edited in the copy, sorted."""
        return await anyio.to_thread.run_sync(self._edited)

    def _edited(self) -> list[str]:
        self.vault.check()
        known, there = self._record.all(), dict(self._files.walk())
        differing = [path for path, stamp in there.items() if path not in known or known[path].stamp != stamp]
        return sorted({*differing, *(known.keys() - there.keys())})

    async def taken(self, edit: CopyEdit) -> None:
        """Note that the edit is in the database, and bring the file up to date: others may have changed it."""
        found = None if edit.raw is None else await anyio.to_thread.run_sync(self._files.read, edit.path)
        now = None if found is None or found[1].digest != edit.digest else found[1]
        # A file that was edited again has another digest, and stays an edit of this one.
        given = CopiedFile(edit.digest, now.stamp if now else _NO_STAMP) if edit.digest is not None else None
        await anyio.to_thread.run_sync(self._record.set, {edit.path: given})
        await self.bring([edit.path])

    async def refilled(self) -> bool:
        """Put all missing files back if they are so many that nobody can have meant to remove them; return whether they were."""

        def missing_by_accident() -> list[str]:
            known = self._record.all()
            missing = sorted(known.keys() - dict(self._files.walk()).keys())
            return missing if len(missing) > FEW_REMOVED or 1 < len(missing) == len(known) else []

        missing = await anyio.to_thread.run_sync(missing_by_accident)
        if missing:
            log.warning("%d files were missing in %s at once; they are put back", len(missing), self.vault.root)
            await anyio.to_thread.run_sync(self._record.set, dict.fromkeys(missing))
            await self.bring(missing)
        return bool(missing)


async def caught_up(copy: PagesCopy) -> None:
    """Bring the copy up to date before something is read from it.

    If that fails, it is logged, and the copy stays as it is.
    """
    try:
        await copy.catch_up()
    except KnowledgeError as error:
        log.warning("this machine's copy of the pages is not up to date: %s", error)
