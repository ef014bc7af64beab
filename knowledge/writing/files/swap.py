"""Replaces the files of an act together, and can undo that.

Nothing is ever overwritten. The new bytes are staged beside the page, durably, and exchange names with it atomically. Then the
displaced bytes are compared with those that the act had read. If they differ, a program that takes no locks, such as an editor,
has saved the page in the meantime: everything is undone, which puts the save back in its place, and the act is planned again from
it. All of it blocks.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple, Self

from knowledge.errors import KnowledgeError, UnreadableDocument, UnwritableDocument
from knowledge.pages.vault import LARGEST_BYTES, read_steadily, revision_of
from knowledge.writing.files.exchange import FileAttributes, Folder
from knowledge.writing.files.file_set import (
    ABSENT,
    HALF_WRITTEN_S,
    LOOK_AGAIN_S,
    QUIET_S,
    FileSet,
    FoundPage,
    found_at,
    named_errors,
    read_open,
)

MOST_EXCHANGES_BACK = 50
MOST_OPEN = 64
"""In an act on more files than this, displaced files are not held open: a process may open only a limited number."""


class Save(NamedTuple):
    """Bytes saved at `path` by someone else just before we wrote it."""

    path: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class StagedChange:
    """One file that becomes `raw`, or is removed (None), if it is still as `seen`. `staged` names the file beside it.

    `like` is the page whose attributes a new file gets. `place` is the real path that it must have; None: any.
    """

    path: str
    seen: FoundPage
    raw: bytes | None
    staged: str
    like: str | None = None
    place: str | None = None


class Displaced:
    """The former file of a page, held open: an editor that also has it open may still write to it."""

    def __init__(self, path: str, descriptor: int, found: FoundPage) -> None:
        self.path, self.revision = path, found.revision
        self._descriptor = descriptor
        self._touched = _touched(found.status) if found.status else (-1, -1)

    @property
    def touched(self) -> bool:
        """Whether its size or time has changed since it was last read."""
        return _touched(os.fstat(self._descriptor)) != self._touched

    @property
    def emptied(self) -> bool:
        """Whether somebody has emptied it, which editors that write in place do right before they write."""
        return os.fstat(self._descriptor).st_size == 0 and self.revision != revision_of(b"")

    def late_save(self, *, thoroughly: bool = False) -> bytes | None:
        """Return its bytes if somebody has written to it since it was last read, None otherwise and while it is empty.

        `thoroughly` compares bytes even if size and time are unchanged, because timestamps of file systems are coarse. The same
        bytes are returned again until `know` is called with them.
        """
        if not thoroughly and not self.touched:
            return None
        # Wait until the writer pauses, so that half of a save is not taken for a complete one.
        end = time.monotonic() + HALF_WRITTEN_S
        while -1 < time.time() - os.fstat(self._descriptor).st_mtime < QUIET_S and time.monotonic() < end:
            time.sleep(LOOK_AGAIN_S)
        raw, status = read_steadily(self._descriptor, "")
        self._touched = _touched(status)
        return raw if raw and revision_of(raw) != self.revision else None

    def know(self, raw: bytes) -> None:
        """Note that these bytes are kept, so that `late_save` no longer returns them."""
        self.revision = revision_of(raw)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class _FileSwap:
    """One file of an act, with its directory open."""

    def __init__(self, change: StagedChange, folder: Folder, name: str) -> None:
        self.change, self.folder, self.name = change, folder, name
        self.displaced: Displaced | None = None
        self.met: list[bytes] = []
        """Saves of others that the act displaced for a moment, before it was undone."""
        self._staged: os.stat_result | None = None

    def stage(self, files: FileSet) -> None:
        """Check that the file may be written, and put the new bytes beside it."""
        change, now = self.change, self.folder.status(self.name)
        if now is not None and not self.folder.may_write(self.name, now):
            raise UnwritableDocument(change.path, "the file is read-only", "change its permissions if it may be edited")
        if change.raw is not None:
            self._staged = self.folder.stage(change.staged, change.raw, self._attributes(files, now))

    def _attributes(self, files: FileSet, now: os.stat_result | None) -> FileAttributes | None:
        """Return the attributes for the new file: those that the page has now."""
        seen = self.change.seen
        if seen.status is None:
            return files.attributes(self.change.like) if self.change.like is not None else None
        # Any change of owner, permissions or attributes updates the change time. If that is the same as when the page was read, its
        # attributes are known and the page need not be opened again.
        if now is not None and _is_untouched(now, seen.status) and now.st_ctime_ns == seen.status.st_ctime_ns:
            return FileAttributes(now, seen.extended)
        return files.attributes(self.change.path)

    def unchanged(self) -> bool:
        """Return whether the page's status is still that of the page the act read."""
        status, seen = self.folder.status(self.name), self.change.seen.status
        return status is seen if status is None or seen is None else _is_untouched(status, seen)

    def put(self) -> None:
        """Make the change. A page that existed has the staged name afterwards."""
        change = self.change
        if change.seen.raw is None:
            self.folder.publish(change.staged, self.name)
        elif change.raw is None:
            self.folder.publish(self.name, change.staged)
        else:
            self.folder.exchange(change.staged, self.name)

    def displaced_as_seen(self) -> bool:
        """Return whether the displaced file is what the act had read, and hold it open."""
        if self.change.seen.raw is None:
            return True
        found = self._hold(self.change.seen.revision)
        self._meet(found)
        return found.raw == self.change.seen.raw

    def read_back(self) -> None:
        """Check that the page has the bytes that it was given, or a save that somebody made over them since.

        Such a save is handled when the page is next checked.
        """
        found = found_at(self.folder, self.name, self.change.path)
        if found.raw != self.change.raw and self._is_as_staged(found):
            raise OSError(errno.EIO, "the bytes read are not those written")

    def take_back(self) -> list[Save]:
        """Restore the former file, or leave a newer save by somebody else; return the saves that must be kept."""
        self.close_displaced()
        change = self.change
        if change.seen.raw is None:
            return self._unpublish() if self.folder.status(change.staged) is None else []
        if change.raw is None:
            return self._restore() if self.folder.status(change.staged) is not None else []
        # Both names exist before and after, so only the bytes show whether the exchange took place.
        return self._exchange_back() if self._look(change.staged).raw != change.raw else []

    def _unpublish(self) -> list[Save]:
        try:
            self.folder.publish(self.name, self.change.staged)
        except FileNotFoundError:
            return []
        displaced = self._hold_ours(self.change.raw)
        if displaced.raw == self.change.raw or self._is_as_staged(displaced):
            return []
        return self._restore()  # somebody has saved the new page: theirs is not ours to remove

    def _restore(self) -> list[Save]:
        beside = self._look(self.change.staged).raw
        try:
            self.folder.publish(self.change.staged, self.name)
        except FileExistsError:  # somebody has made the page again: theirs stays
            return self._saved(beside)
        return []

    def _exchange_back(self) -> list[Save]:
        saves: list[Save] = []
        ours = self.change.raw
        for _ in range(MOST_EXCHANGES_BACK):
            back = self._look(self.change.staged)
            self._meet(back)
            try:
                self.folder.exchange(self.change.staged, self.name)
            except FileNotFoundError:
                # Somebody removed the page: it stays removed, and their save is kept.
                return [*saves, *self._saved(back.raw)]
            # An editor that was still writing the displaced file may have finished; and an editor that opened our short-lived write
            # may save over this without having seen it. So it is remembered too.
            self._meet(self._look(self.name))
            displaced = self._hold_ours(ours)
            if displaced.raw == ours or self._is_as_staged(displaced):
                return saves
            # Somebody saved over our write before it was exchanged back. That save is newer than the one just put back, so exchange
            # once more to put it at the page.
            self._meet(displaced)
            saves += self._saved(back.raw)
            ours = back.raw
        return saves

    def _hold(self, known: str | None) -> FoundPage:
        """Return the displaced file and hold it open: a program that opened it while it was the page may still write to it.

        `known` is its last known revision.
        """
        self.close_displaced()
        file = self.folder.open_file(self.change.staged)
        try:
            found = read_open(file, self.change.path)
        except BaseException:
            os.close(file)
            raise
        self.displaced = Displaced(self.change.path, file, found._replace(revision=known))
        return found

    def _hold_ours(self, ours: bytes | None) -> FoundPage:
        """Return the file that was the page while our change was visible, and hold it open; `ours` are the bytes we wrote."""
        try:
            return self._hold(None if ours is None else revision_of(ours))
        except (OSError, KnowledgeError) as error:
            return _nothing_readable(error)

    def _look(self, name: str) -> FoundPage:
        """Return the page, or the file beside it, as it is now."""
        try:
            return found_at(self.folder, name, self.change.path)
        except (OSError, KnowledgeError) as error:
            return _nothing_readable(error)

    def _is_as_staged(self, found: FoundPage) -> bool:
        """Return whether this is exactly the file that we staged, with nothing written to it since."""
        return found.status is not None and self._staged is not None and _is_untouched(found.status, self._staged)

    def _meet(self, found: FoundPage) -> None:
        if found.raw is not None and found.raw not in (self.change.seen.raw, self.change.raw, *self.met):
            self.met.append(found.raw)

    def _saved(self, raw: bytes | None) -> list[Save]:
        """Return these bytes as a save to be kept, unless they are one of the act's own states."""
        if raw in self.met:
            self.met.remove(raw)
        return [] if raw is None or raw in (self.change.seen.raw, self.change.raw) else [Save(self.change.path, raw)]

    def close_displaced(self) -> None:
        if self.displaced is not None:
            self.displaced.close()
            self.displaced = None


class Swap:
    """Several files that change together. Closing it removes what is staged beside them."""

    def __init__(self, files: FileSet, changes: Sequence[StagedChange]) -> None:
        self._files = files
        # New pages first, removals last, so that a page that moves is always at one of its two places.
        self._changes = sorted(changes, key=lambda c: 0 if c.seen.raw is None else 2 if c.raw is None else 1)
        self._swaps: list[_FileSwap] = []
        self._done: list[_FileSwap] = []
        self._saves: list[Save] = []
        """Saves of others that are no longer in any file, until the caller takes them."""
        self._open = ExitStack()
        self._folders: dict[str, Folder] = {}
        self._keep_staged = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make(self) -> list[Save] | None:
        """Stage and exchange all files; return None once that is done and durable.

        A list means that one of the files was saved in the meantime and nothing is changed; it has the saves that are
        no longer in any file and must be kept.

        Raises:
            UnwritableDocument: a file can't be written; nothing is changed.
        """
        if not self._stage():
            return []
        try:
            for swap in self._swaps:
                with named_errors(swap.change.path):
                    as_seen = self._put(swap)
                if not as_seen:
                    return self.undo()
                if len(self._swaps) > MOST_OPEN:
                    swap.close_displaced()
            self._make_sure()
        except BaseException:
            self._saves += self.try_undo()
            raise
        return None

    def _stage(self) -> bool:
        """Stage every file; return whether all pages are still unchanged and at their places."""
        strayed = False
        for change in self._changes:
            with named_errors(change.path):
                if change.raw is not None and len(change.raw) > LARGEST_BYTES:
                    size = f"{len(change.raw) / 2**20:.0f} MiB"
                    reason = f"it would be {size}, but at most {LARGEST_BYTES // 2**20} MiB can be read"
                    raise UnwritableDocument(change.path, reason, "split it")
                real = self._files.real(change.path)
                # A link was put into the path after it was decided that this file may change.
                strayed = strayed or change.place not in (None, real)
                above, _, name = real.rpartition("/")
                if above not in self._folders:
                    folder = self._files.folder(above, create=change.raw is not None)
                    self._folders[above] = self._open.enter_context(folder)
                swap = _FileSwap(change, self._folders[above], name)
                self._swaps.append(swap)
                swap.stage(self._files)
        # Checked after staging, which takes longest: exchanging a page that was just saved, only to undo it, costs everybody time.
        return not strayed and all(swap.unchanged() for swap in self._swaps)

    def _put(self, swap: _FileSwap) -> bool:
        """Make one change; return whether it displaced what the act had read."""
        self._done.append(swap)  # beforehand, because a file system may make the change and still report an error
        try:
            swap.put()
        except (FileNotFoundError, FileExistsError):
            self._done.pop()
            return False  # the page was removed or created in the meantime, so nothing was displaced
        return swap.displaced_as_seen()

    def _make_sure(self) -> None:
        """Make the new names durable and check that the pages have the bytes that they were given."""
        synced = set()
        for swap in self._done:
            with named_errors(swap.change.path):
                identity = swap.folder.identity()
                if identity not in synced:
                    swap.folder.sync()
                    synced.add(identity)
                swap.read_back()

    def undo(self) -> list[Save]:
        """Undo everything; return the saves of others that are no longer in any file."""
        while self._done:
            swap = self._done[-1]
            with named_errors(swap.change.path):
                self._saves += swap.take_back()
                if len(self._swaps) > MOST_OPEN:
                    swap.close_displaced()
                self._done.pop()
                swap.folder.sync()
        saves, self._saves = self._saves, []
        return saves

    def try_undo(self) -> list[Save]:
        """Undo as much as possible; `is_undone` tells whether that was everything. Recovery does the rest later."""
        try:
            return self.undo()
        except (OSError, KnowledgeError):
            self.keep_staged()  # recovery needs the staged files
            return []

    @property
    def is_undone(self) -> bool:
        """Whether no part of the change is visible."""
        return not self._done

    def release_displaced(self) -> list[Displaced]:
        """Return the former files of the pages, open; the caller closes them."""
        released = [swap.displaced for swap in self._swaps if swap.displaced is not None]
        for swap in self._swaps:
            swap.displaced = None
        return released

    def take_met(self) -> list[Save]:
        """Return, once, the saves that the act displaced for a moment and put back.

        An editor that opened the page in that moment has not seen them, and may have saved over them by now.
        """
        met = [*self._saves, *(Save(swap.change.path, raw) for swap in self._swaps for raw in swap.met)]
        self._saves = []
        for swap in self._swaps:
            swap.met = []
        return met

    def keep_staged(self) -> None:
        """Leave the staged files, because the outcome of the act is uncertain."""
        self._keep_staged = True

    def remove_staged(self) -> None:
        """Remove the staged files, unless they are to be kept."""
        for swap in self._swaps:
            if not self._keep_staged:
                with contextlib.suppress(OSError):
                    swap.folder.unlink(swap.change.staged)
        self._keep_staged = True  # done: `close` need not do it again

    def close(self) -> None:
        """Remove the staged files and close everything."""
        self.remove_staged()
        for swap in self._swaps:
            swap.close_displaced()
        self._swaps = []
        self._open.close()


def _nothing_readable(error: Exception) -> FoundPage:
    """Return `ABSENT` if the error means that the file vanished or was replaced by a folder, a link or an unreadable file."""
    if isinstance(error, (UnwritableDocument, UnreadableDocument)):
        return ABSENT
    if isinstance(error, OSError) and error.errno in {errno.ELOOP, errno.EMLINK, errno.ENOENT}:
        return ABSENT
    raise error


def _is_untouched(status: os.stat_result, before: os.stat_result) -> bool:
    return _touched(status) == _touched(before) and status.st_ino == before.st_ino


def _touched(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns
