"""The only code that opens files of the knowledge base. Nothing outside its folder is ever read.

Which files are documents: regular files named like Markdown, in folders that are not hidden, up to `LARGEST_BYTES`.
Symbolic links: a document counts once, under its real path. So the scan follows no link to a folder or to a document
(what stays inside is found at its own place, which also makes loops harmless); a link named like Markdown to a plain
file of another name is the one way to that file, so it is a document under the link's name. A link may be read through
as long as its target lies inside and is not hidden: a checked-out link to `.env` must not publish it. Hard links are
files like any other.

All methods block; call them from a worker thread where the event loop matters.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from knowledge.errors import InvalidPath, NoSuchPath, UnreadableDocument, VaultUnavailable
from knowledge.pages.paths import LONGEST_PATH, clean_path, is_hidden, is_markdown, parent
from knowledge.state.ports import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_BYTES = 32 * 1024 * 1024
MOST_PROBLEMS = 200
READ_TRIES = 4
REVISION_DIGITS = 16

# Control characters and lone surrogates (names that are not UTF-8) cannot be spoken; a backslash would be read as "/".
_UNSPEAKABLE = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")
_LINK_IN_THE_WAY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EMLINK, errno.ENAMETOOLONG})
# Windows has neither openat nor O_NOFOLLOW; there the opened file is compared with the resolved path instead.
_HAS_OPENAT = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FILE_FLAGS = _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a fifo must not make us wait
_FOLDER_FLAGS = _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)


@dataclass(frozen=True, slots=True)
class FileRead:
    """The bytes of a document, what the file looked like when they were read, and the bytes' revision."""

    raw: bytes
    stamp: Stamp
    revision: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """A document that exists, and what its file looks like from outside."""

    path: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """Names right below a directory, each sorted."""

    directories: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VaultProblem:
    """Something of the knowledge base that is left out or odd, and why."""

    path: str
    reason: str


def revision_of(raw: bytes) -> str:
    """Return the revision that names these bytes: the first 16 hexadecimal digits of their SHA-256."""
    return hashlib.sha256(raw).hexdigest()[:REVISION_DIGITS]


class Vault:
    """The folder of one knowledge base."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self._problems: list[VaultProblem] = []
        self._problem_count = 0

    @classmethod
    def open(cls, root: Path) -> Self:
        """Return the vault at `root`.

        Raises:
            VaultUnavailable: there is no such folder, it is a file, or it may not be read; the message says what to do.
        """
        vault = cls(root)
        vault.check()
        return vault

    @property
    def root(self) -> Path:
        """Return the folder's real path."""
        return Path(self._root)

    @property
    def problems(self) -> tuple[VaultProblem, ...]:
        """Return what the last scan left out and why: the first 200 of `problem_count`."""
        return tuple(self._problems)

    @property
    def problem_count(self) -> int:
        """Return how many things the last scan left out."""
        return self._problem_count

    def check(self) -> None:
        """Return if the folder can be used now.

        Raises:
            VaultUnavailable: as `open` says it.
        """
        try:
            with os.scandir(self._root) as entries:
                next(entries, None)
            # Listing needs the folder's read bit, opening what is listed its search bit.
            os.stat(os.path.join(self._root, "."))  # noqa: PTH116, PTH118  Path drops the dot that does the asking
        except FileNotFoundError as error:
            raise VaultUnavailable(self._root, "there is no such folder; create it or name another (--kb)") from error
        except NotADirectoryError as error:
            raise VaultUnavailable(self._root, "it is a file; name the folder that holds the documents") from error
        except PermissionError as error:
            raise VaultUnavailable(self._root, "its folder may not be read; change its permissions") from error
        except OSError as error:
            raise VaultUnavailable(self._root, f"{_why(error)}; see that the disk is there") from error

    def identity(self) -> tuple[int, int]:
        """Return what tells this folder from another one that is put in its place.

        Raises:
            VaultUnavailable: as `open`.
        """
        self.check()
        try:
            status = os.stat(self._root)  # noqa: PTH116  a plain call, like its neighbours
        except OSError as error:
            raise VaultUnavailable(self._root, f"{_why(error)}; see that the disk is there") from error
        return status.st_dev, status.st_ino

    def read(self, path: str, *, plain: bool = False) -> FileRead:
        """Return the document's bytes as they were at one moment, with the stamp of that moment.

        A file that keeps changing under the reader comes with the stamp from before, so that it counts as changed. `plain`: no
        link is followed, not even one that stays inside. What configures the server is read so, or whoever may edit the file
        that the link leads to could change it.

        Raises:
            InvalidPath: `path` can never name a document, its real place is outside or hidden, or a link is not to be followed.
            NoSuchPath: no such file, it vanished meanwhile, or it is no regular file.
            UnreadableDocument: it is there and may not be read, or it is too large.
        """
        asked = clean_path(path)
        try:
            with self._opened(asked, plain=plain) as descriptor:
                raw, status = read_steadily(descriptor, asked)
        except OSError as error:
            raise self._refusal(asked, error) from error
        return FileRead(raw, stamp_of(status), revision_of(raw))

    def is_plain(self, path: str) -> bool:
        """Return whether no link lies on the way to what is at `path` now, nor is it one."""
        whole = self._absolute(path)
        return os.path.realpath(whole) == whole

    def resolve(self, path: str) -> str:
        """Return the real path, relative to the root, of the file or directory that `path` names right now.

        Raises:
            InvalidPath: it leaves the knowledge base, or its real place is hidden.
            NoSuchPath: nothing is there.
        """
        asked = clean_path(path)
        if not asked:
            return asked
        try:
            real = os.path.realpath(self._absolute(asked), strict=True)
        except OSError as error:
            raise NoSuchPath(asked) from error
        if real == self._root:
            return ""
        prefix = self._root.rstrip(os.sep) + os.sep
        if not real.startswith(prefix):
            raise InvalidPath(path, "it is a link that leaves the knowledge base")
        return clean_path(real[len(prefix) :])

    def list_dir(self, path: str) -> DirectoryListing:
        """Return the names of the subdirectories and documents right below `path` now, as a scan counts them.

        Raises:
            InvalidPath: as `read`.
            NoSuchPath: no such directory.
            UnreadableDocument: it may not be read.
        """
        asked = clean_path(path)
        real = self.resolve(asked)
        directories, documents = [], []
        try:
            with os.scandir(self._absolute(real)) as entries:
                for entry in entries:
                    if is_hidden(entry.name) or _UNSPEAKABLE.search(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif is_markdown(entry.name) and self.look(_join(real, entry.name)) is not None:
                        documents.append(entry.name)
        except OSError as error:
            raise self._refusal(asked, error) from error
        return DirectoryListing(tuple(sorted(directories)), tuple(sorted(documents)))

    def look(self, path: str) -> Scanned | None:
        """Return the document at `path` if a scan would find one there now."""
        if not is_markdown(path) or not _is_clean(path) or _UNSPEAKABLE.search(path) or self._crosses_link(path):
            return None
        try:
            status: os.stat_result | None = os.lstat(self._absolute(path))
            if status is not None and stat.S_ISLNK(status.st_mode):
                status = self._link_target(path)
        except (OSError, InvalidPath, NoSuchPath):
            return None
        return None if status is None or _unfit(status) else Scanned(path, stamp_of(status))

    def scan(self, below: str = "") -> Iterator[Scanned]:
        """Yield every document below the directory `below`, in no promised order; what is left out is in `problems`.

        What vanishes meanwhile is left out silently.

        Raises:
            VaultUnavailable: the knowledge base's folder cannot be listed, or went away before the end. Only then may
                a caller not conclude that what was not yielded is gone.
        """
        self._problems, self._problem_count = [], 0
        self.check()
        if below and self._crosses_link(below):
            return
        followed: set[str] = set()
        waiting = [below]
        while waiting:
            directory = waiting.pop()
            try:
                yield from self._scan_one(directory, waiting, followed)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.ENOTDIR:
                    self._report(directory, f"the folder cannot be listed: {_why(error)}")
        self.check()

    def _scan_one(self, directory: str, waiting: list[str], followed: set[str]) -> Iterator[Scanned]:
        with os.scandir(self._absolute(directory)) as entries:
            for entry in entries:
                name = entry.name
                if is_hidden(name):
                    continue
                is_directory = entry.is_dir(follow_symlinks=False)
                if not is_directory and not is_markdown(name):
                    continue
                path = _join(directory, name)
                if not _speakable(path, name):
                    self._report(
                        path, "the name cannot be used: not UTF-8, a control character, a backslash or too long"
                    )
                elif is_directory:
                    waiting.append(path)
                else:
                    found = self._scan_file(entry, path, followed)
                    if found is not None:
                        yield found

    def _scan_file(self, entry: os.DirEntry[str], path: str, followed: set[str]) -> Scanned | None:
        try:
            status = self._link_target(path) if entry.is_symlink() else entry.stat(follow_symlinks=False)
        except InvalidPath as error:
            self._report(path, error.reason)
            return None
        except (OSError, NoSuchPath):
            return None
        if status is None or (entry.is_symlink() and _seen(status, followed)):
            return None
        reason = _unfit(status)
        if reason:
            self._report(path, reason)
            return None
        return Scanned(path, stamp_of(status))

    def _link_target(self, path: str) -> os.stat_result | None:
        """Return the status of the file that only the link at `path` leads to; None if a scan finds it elsewhere."""
        real = self.resolve(path)
        if is_markdown(real):
            return None
        return os.lstat(self._absolute(real))

    def _crosses_link(self, path: str) -> bool:
        above = self._absolute(parent(path))
        return os.path.realpath(above) != above

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, *path.split("/")) if path else self._root  # noqa: PTH118  hot in scans

    def _report(self, path: str, reason: str) -> None:
        self._problem_count += 1
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(VaultProblem(speakable(path), reason))

    def _refusal(self, asked: str, error: OSError) -> NoSuchPath | UnreadableDocument:
        if error.errno in _ABSENT or error.errno == errno.ENXIO:  # ENXIO: opening a socket
            self.check()  # a folder that went away as a whole must not look like a deleted document
            return NoSuchPath(asked)
        return UnreadableDocument(asked, _why(error))

    @contextmanager
    def _opened(self, asked: str, *, plain: bool) -> Iterator[int]:
        descriptor = self._open_plain(asked) if plain else self._open_confined(asked)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NoSuchPath(asked)
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_plain(self, asked: str) -> int:
        """Open the file unless a link is in the way."""
        if not _HAS_OPENAT and self.is_plain(asked):
            return self._open_and_compare(asked)
        try:
            if _HAS_OPENAT:
                return self._walk(asked)
        except OSError as error:
            if error.errno not in _LINK_IN_THE_WAY:
                raise
        if self.resolve(asked) == asked:
            raise NoSuchPath(asked)  # a file lies where a folder should be
        raise InvalidPath(asked, "it is a link, or lies below one; put the file itself there")

    def _open_confined(self, asked: str) -> int:
        """Open the file; no link that is swapped in at any moment leads outside."""
        if not _HAS_OPENAT:
            return self._open_and_compare(asked)
        try:
            return self._walk(asked)
        except OSError as error:
            if error.errno not in _LINK_IN_THE_WAY:
                raise
        # The resolved path has no link in it. If one is there by now, the walk refuses it.
        return self._walk(self.resolve(asked))

    def _walk(self, path: str) -> int:
        """Open `path` part by part, each relative to the one before, following no link."""
        *folders, name = path.split("/")
        here = os.open(self._root, _FOLDER_FLAGS)
        try:
            for folder in folders:
                below = os.open(folder, _FOLDER_FLAGS, dir_fd=here)
                os.close(here)
                here = below
            return os.open(name or ".", _FILE_FLAGS, dir_fd=here)
        finally:
            os.close(here)

    def _open_and_compare(self, asked: str) -> int:
        descriptor = os.open(self._absolute(asked), _FILE_FLAGS)
        try:
            real = os.lstat(self._absolute(self.resolve(asked)))
            same = os.path.samestat(os.fstat(descriptor), real)
        except BaseException:
            os.close(descriptor)
            raise
        if not same:
            os.close(descriptor)
            raise NoSuchPath(asked)
        return descriptor


def speakable(path: str) -> str:
    """Return `path` fit to be shown and encoded: what cannot be spoken becomes a question mark."""
    return _UNSPEAKABLE.sub("?", path)


def read_steadily(descriptor: int, asked: str) -> tuple[bytes, os.stat_result]:
    """Return the bytes of an open file as they were at one moment, and what the file looked like then.

    Of one that keeps changing: the latest bytes, and what it looked like before they were read.

    Raises:
        UnreadableDocument: it is larger than `LARGEST_BYTES`.
    """
    raw, before = b"", os.fstat(descriptor)
    for _ in range(READ_TRIES):
        before = os.fstat(descriptor)
        if before.st_size > LARGEST_BYTES:
            raise UnreadableDocument(asked, _too_large(before.st_size))
        os.lseek(descriptor, 0, os.SEEK_SET)
        # One byte more than there were shows that it grew; reading on until the end might never end.
        raw = _read_at_most(descriptor, before.st_size + 1)
        after = os.fstat(descriptor)
        if stamp_of(before) == stamp_of(after) and len(raw) == after.st_size:
            break
    return raw, before


def _read_at_most(descriptor: int, size: int) -> bytes:
    parts, left = [], size
    while left > 0:
        part = os.read(descriptor, min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what a file with that status looks like from outside."""
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino)


def _unfit(status: os.stat_result) -> str:
    """Say why a file cannot be a document; nothing if it can."""
    if not stat.S_ISREG(status.st_mode):
        return "not a regular file"
    return _too_large(status.st_size) if status.st_size > LARGEST_BYTES else ""


def _seen(status: os.stat_result, followed: set[str]) -> bool:
    key = f"{status.st_dev}:{status.st_ino}"
    if key in followed:
        return True
    followed.add(key)
    return False


def _speakable(path: str, name: str) -> bool:
    if len(path) > LONGEST_PATH or _UNSPEAKABLE.search(name):
        return False
    # A folder named like a drive ("c:") is a fine name here and an absolute path to a Windows host.
    return path[1:2] != ":" or _is_clean(path)


def _is_clean(path: str) -> bool:
    try:
        return clean_path(path) == path
    except InvalidPath:
        return False


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__


def _too_large(size: int) -> str:
    return f"too large ({size / 2**20:.0f} MiB; at most {LARGEST_BYTES // 2**20} MiB are read)"
