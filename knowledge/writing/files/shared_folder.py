"""Tests whether the file system of a folder has the properties that servers on several machines need to write to it at once.

Locks are not tested: servers that share a folder hold locks on pages in their database. Source: rename(2), link(2), nfs(5).
"""

from __future__ import annotations

import errno
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from knowledge.writing.files.exchange import TEMPORARY_PREFIX, TEMPORARY_SUFFIX, Folder

CLOCKS_APART_S = 5.0
"""How many seconds the clock of a file server may be off. Times tell new saves from old ones."""
LEFTOVER_S = 3600.0
_READ_ONLY = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})
_TRIED = f"{TEMPORARY_PREFIX}try-"

OpenFolder = Callable[[str, Sequence[str]], Folder]


@dataclass(frozen=True, slots=True)
class FolderFault:
    """A property that the file system lacks, as the end of a sentence, and what to do about it."""

    reason: str
    mend: str


class _DoesNotHold(Exception):
    """A property does not hold."""

    def __init__(self, reason: str, mend: str) -> None:
        self.fault = FolderFault(reason, mend)
        super().__init__(reason)


def fault_of(
    root: Path, *, open_folder: OpenFolder = Folder.open, now: Callable[[], float] = time.time
) -> FolderFault | None:
    """Return the first property that the folder's file system lacks.

    None if it has all of them, or if nothing can be written there at all. Files are made, exchanged and removed in a
    hidden folder below `root`. Blocks, on a network file system for some milliseconds.
    """
    try:
        with _tried(root) as name, open_folder(str(root), [name]) as folder:
            _flushes(folder)
            _exchanges(folder)
            _keeps_numbers(folder)
            _refuses_taken_names(folder)
            _shows_new_files(lambda: open_folder(str(root), [name]))
            _has_our_time(folder, now)
    except _DoesNotHold as error:
        return error.fault
    except OSError as error:
        if error.errno in _READ_ONLY:
            return None
        mend = "mount it so that files can be made, flushed, renamed and removed"
        return FolderFault(f"files in it can't be written: {error.strerror or error}", mend)
    return None


@contextmanager
def _tried(root: Path) -> Iterator[str]:
    """Yield the name of a new folder below `root`, and remove it afterwards, with those that killed processes left."""
    name = f"{_TRIED}{secrets.token_hex(6)}{TEMPORARY_SUFFIX}"
    (root / name).mkdir(mode=0o700)
    try:
        yield name
    finally:
        for left in root.glob(f"{_TRIED}*{TEMPORARY_SUFFIX}"):
            with suppress(OSError):
                if left.name == name or left.stat().st_mtime < time.time() - LEFTOVER_S:
                    shutil.rmtree(left, ignore_errors=True)


def _flushes(folder: Folder) -> None:
    try:
        folder.stage("old", b"old", None)
        folder.stage("new", b"new", None)
        folder.sync()
    except OSError as error:
        if error.errno in _READ_ONLY:
            raise
        reason = f"a file or a folder in it can't be flushed to the disk (fsync: {error.strerror or error})"
        raise _DoesNotHold(reason, "use a file system that can") from error


def _keeps_numbers(folder: Folder) -> None:
    """A file that was renamed is recognised by its number (inode)."""
    staged = folder.stage("numbered", b"", None)
    folder.publish("numbered", "renamed")
    now = folder.status("renamed")
    if now is None or now.st_ino != staged.st_ino:
        raise _DoesNotHold(
            "a file gets another number (inode) when it is renamed", "mount it with stable inode numbers"
        )


def _exchanges(folder: Folder) -> None:
    """The page and the file beside it trade names, so that a save which is replaced is never lost."""
    if not folder.swap_names("new", "old"):
        # The way without the system call needs a second name for the file that is replaced.
        linked = folder.give_second_name("old", "second")
        one, other = folder.status("old"), folder.status("second")
        if not linked or one is None or other is None or one.st_ino != other.st_ino:
            reason = (
                "two files in it can't exchange their names (renameat2), nor can a file have two names (hard links)"
            )
            raise _DoesNotHold(reason, "use NFS 4, or another file system that has one of them")
        folder.exchange("new", "old")
    if (folder.read("old"), folder.read("new")) != (b"new", b"old"):
        raise _DoesNotHold("two files that exchanged their names have the wrong bytes", "use another file system")


def _refuses_taken_names(folder: Folder) -> None:
    """Of two machines that create the same page, one is refused."""
    with suppress(FileExistsError):
        folder.publish("new", "old")
        raise _DoesNotHold("a file can be renamed over another by a call that forbids it", "use another file system")


def _shows_new_files(opened: Callable[[], Folder]) -> None:
    """A page that was replaced has its new bytes when it is opened next."""
    with opened() as folder:
        if folder.read("old") != b"new":
            raise _DoesNotHold("a file that was replaced is still read with its old bytes", "turn off caching of names")


def _has_our_time(folder: Folder, now: Callable[[], float]) -> None:
    before = now()
    written = folder.stage("timed", b"", None).st_mtime
    apart_s = max(before - written, written - now())
    if apart_s > CLOCKS_APART_S:
        reason = f"its files get times that are {apart_s:.0f} seconds away from this machine's clock"
        raise _DoesNotHold(reason, "let both machines set their clocks by NTP")
