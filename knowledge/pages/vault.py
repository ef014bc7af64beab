"""The only code that opens files of the knowledge base for reading. Nothing outside its folder is ever read.

Documents are regular files named like Markdown, in folders that are not hidden, up to `LARGEST_BYTES`.
Symbolic links: a document counts once, under its real path. So a scan follows no link to a folder or to a document: its target
inside the folder is found at its own path, and loops are harmless. A link with a Markdown name to a file with another name is the
only way to that file, so it is a document under the link's name. Reading follows a link if its target is inside and not hidden: a
checked-out link to `.env` must not publish it. Hard links are ordinary files.

All methods block; call them from a worker thread where the event loop matters.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from knowledge.errors import InvalidPath, NoSuchPath, UnreadableDocument, VaultUnavailable
from knowledge.pages.obsidian.vault_settings import VaultSettings, read_settings
from knowledge.pages.paths import LONGEST_PATH, ancestors, clean_path, is_clean, is_hidden, is_markdown, parent
from knowledge.state.ports import Stamp

LARGEST_BYTES = 32 * 1024 * 1024
"""The largest page that is read. Other limits are related to it. `LONGEST_CONTENT` in
`mcp_server/toolsets/knowledge/schemas.py` limits the text in a call, `LONGEST_LINE` in
`mcp_server/transport/stdio.py` the whole message, and `LARGEST_FORM` in `mcp_server/web/page_context.py` a form on
the site."""
MOST_PROBLEMS = 200
OBSIDIAN_FOLDER = ".obsidian"
LARGEST_SETTING = 64 * 1024
READ_TRIES = 4
UNSETTLED_NS = 2_000_000_000
"""How long a folder may change again without a sign of it: file systems keep times to two seconds (FAT) or better."""
PART_BYTES = 1 << 20
REVISION_DIGITS = 16

# Control characters and lone surrogates (names that are not UTF-8) cannot be sent; hosts would read a backslash as "/".
_UNSENDABLE = re.compile("[\x00-\x1f\x7f\\\\\ud800-\udfff]")
_LINK_IN_THE_WAY = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
_ABSENT = _LINK_IN_THE_WAY | {errno.ENOENT, errno.ENAMETOOLONG, errno.ENXIO}  # ENXIO: opening a socket
# Windows has neither openat nor O_NOFOLLOW; there the opened file is compared with the resolved path instead.
HAS_OPENAT = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_FLAGS = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
FILE_FLAGS = _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a fifo must not make us wait
FOLDER_FLAGS = _FLAGS | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)


@dataclass(frozen=True, slots=True)
class FileRead:
    """The bytes of a document, their revision, and the stamp of the file when they were read."""

    raw: bytes
    stamp: Stamp
    revision: str


@dataclass(frozen=True, slots=True)
class Scanned:
    """A document that exists, and the stamp of its file, which was not read.

    `changed_ns` is when its content or its place last changed, the later of the two times that the file system keeps.
    """

    path: str
    stamp: Stamp
    changed_ns: int


@dataclass(frozen=True, slots=True)
class DirectoryListing:
    """Names of the children of a directory, each kind sorted."""

    directories: tuple[str, ...]
    documents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _FolderNames:
    """The names of a folder's files and of the folders in it. `state` differs once it has changed, None if that can't be told."""

    state: tuple[int, int, int, int] | None
    folders: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VaultProblem:
    """A file or folder that is left out of the knowledge base or is unusual, and why."""

    path: str
    reason: str


def revision_of(raw: bytes) -> str:
    """Return the revision of these bytes: the first 16 hexadecimal digits of their SHA-256."""
    return hashlib.sha256(raw).hexdigest()[:REVISION_DIGITS]


class Vault:
    """The folder of one knowledge base."""

    def __init__(self, root: Path) -> None:
        self._root = os.path.realpath(root)
        self.root = Path(self._root)
        """The folder's real path."""
        self.problem_count = 0
        """The number of files and folders that the last scan left out."""
        self._problems: list[VaultProblem] = []
        self._listed: Mapping[str, _FolderNames] = {}

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
    def problems(self) -> tuple[VaultProblem, ...]:
        """The first 200 files and folders that the last scan left out; `problem_count` counts all."""
        return tuple(self._problems)

    def check(self) -> None:
        """Check that the folder can be used now.

        Raises:
            VaultUnavailable: as `open`.
        """
        self.identity()

    def identity(self) -> tuple[int, int]:
        """Return device and inode of the folder, which change if another folder is put in its place.

        Raises:
            VaultUnavailable: as `open`.
        """
        try:
            with os.scandir(self._root) as entries:
                next(entries, None)
            # Listing needs the folder's read bit; reaching something in it, such as `.`, needs its search bit.
            status = os.stat(os.path.join(self._root, "."))  # noqa: PTH116, PTH118  Path would drop the dot
        except FileNotFoundError as error:
            raise VaultUnavailable(
                self._root, "there is no such folder; create it, or name another one with --kb"
            ) from error
        except NotADirectoryError as error:
            raise VaultUnavailable(self._root, "it is a file; name the folder that holds the documents") from error
        except PermissionError as error:
            raise VaultUnavailable(self._root, "its folder may not be read; change its permissions") from error
        except OSError as error:
            raise VaultUnavailable(self._root, f"{_why(error)}; check that the disk is attached") from error
        return status.st_dev, status.st_ino

    def read(self, path: str, *, plain: bool = False) -> FileRead:
        """Return the document's bytes as they were at one moment, with the stamp of that moment.

        A file that keeps changing is returned with the stamp from before the read, so that it counts as changed. With
        `plain` no link is followed, not even one that stays inside. Files that configure the server are read like that:
        otherwise anyone who may edit a link's target could change the configuration.

        Raises:
            InvalidPath: `path` can never name a document, its real place is outside or hidden, or `plain` met a link.
            NoSuchPath: no such file, it has just vanished, or it is not a regular file.
            UnreadableDocument: it exists and may not be read, or it is too large.
        """
        path = clean_path(path)
        try:
            descriptor = self._open(path, plain=plain)
            try:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise NoSuchPath(path)
                raw, status = read_steadily(descriptor, path)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise self._refusal(path, error) from error
        return FileRead(raw, stamp_of(status), revision_of(raw))

    def is_plain(self, path: str) -> bool:
        """Return whether neither `path` nor any folder above it is a link now."""
        absolute = self._absolute(path)
        return os.path.realpath(absolute) == absolute

    def resolve(self, path: str) -> str:
        """Return the real path, relative to the root, of the file or directory that `path` names now.

        Raises:
            InvalidPath: it leaves the knowledge base, or its real place is hidden.
            NoSuchPath: nothing is there.
        """
        path = clean_path(path)
        if not path:
            return path
        try:
            real = os.path.realpath(self._absolute(path), strict=True)
        except OSError as error:
            raise NoSuchPath(path) from error
        if real == self._root:
            return ""
        prefix = self._root.rstrip(os.sep) + os.sep
        if not real.startswith(prefix):
            raise InvalidPath(path, "it is a link that leaves the knowledge base")
        return clean_path(real[len(prefix) :])

    def exists(self, path: str) -> bool:
        """Return whether a file or directory of the knowledge base is at `path` now; cheap where nothing is."""
        if not os.path.exists(self._absolute(path)):  # noqa: PTH110  hot in moves: most places that a link may mean are empty
            return False
        try:
            self.resolve(path)
        except (InvalidPath, NoSuchPath):
            return False
        return True

    def resolve_new(self, path: str) -> str:
        """Return the real path, relative to the root, that a file at `path` would have if it were created now.

        Folders that are links are followed; the nearest folder that exists decides.

        Raises:
            InvalidPath: a link leads out of the knowledge base.
        """
        for above in filter(None, ancestors(path)):
            try:
                return f"{self.resolve(above)}/{path[len(above) + 1 :]}".lstrip("/")
            except NoSuchPath:
                continue
        return path

    def list_dir(self, path: str) -> DirectoryListing:
        """Return the names of the subdirectories and documents in `path` now, as a scan would find them.

        Raises:
            InvalidPath: as `read`.
            NoSuchPath: no such directory.
            UnreadableDocument: it may not be read.
        """
        path = clean_path(path)
        real = self.resolve(path)
        directories, documents = [], []
        try:
            with os.scandir(self._absolute(real)) as entries:
                for entry in entries:
                    if is_hidden(entry.name) or _UNSENDABLE.search(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    elif is_markdown(entry.name) and self._is_document(entry, _join(real, entry.name)):
                        documents.append(entry.name)
        except OSError as error:
            raise self._refusal(path, error) from error
        return DirectoryListing(tuple(sorted(directories)), tuple(sorted(documents)))

    def has_directory(self, path: str) -> bool:
        """Return whether `list_dir` would list `path` now; looks at nothing in it.

        Raises:
            InvalidPath: as `read`.
        """
        try:
            with os.scandir(self._absolute(self.resolve(path))):
                return True
        except (OSError, NoSuchPath):
            return False

    def _is_document(self, entry: os.DirEntry[str], path: str) -> bool:
        """Return whether `find` finds the file that was listed in a real folder; asking `find` takes ten times as long."""
        if entry.is_symlink() or not is_clean(path):
            return self.find(path) is not None
        try:
            return not _unfit(entry.stat(follow_symlinks=False))
        except OSError:
            return False  # deleted meanwhile

    def find(self, path: str) -> Scanned | None:
        """Return the document at `path` if a scan would find one there now. Reads nothing."""
        if not is_markdown(path) or not is_clean(path) or _UNSENDABLE.search(path) or not self.is_plain(parent(path)):
            return None
        try:
            status: os.stat_result | None = os.lstat(self._absolute(path))
            if status is not None and stat.S_ISLNK(status.st_mode):
                status = self._link_target(path)
        except (OSError, InvalidPath, NoSuchPath):
            return None
        return None if status is None or _unfit(status) else _scanned(path, status)

    def files(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of the paths, whatever their suffix, at which `read` would find a file now. Opens none."""
        found = set()
        for path in paths:
            try:
                status = os.lstat(self._absolute(self.resolve(path)))
            except (OSError, InvalidPath, NoSuchPath, ValueError):
                continue
            if not _unfit(status):
                found.add(path)
        return frozenset(found)

    def scan(self, below: str = "") -> Iterator[Scanned]:
        """Yield every document below the directory `below` in any order; `problems` then has what was left out.

        Files that vanish during the scan are left out silently.

        Raises:
            VaultUnavailable: the knowledge base's folder cannot be listed, or vanished before the end. Then a caller must
                not conclude that documents which were not yielded are gone.
        """
        self._problems, self.problem_count = [], 0
        self.check()
        if below and not self.is_plain(parent(below)):
            return
        followed: set[tuple[int, int]] = set()
        waiting = [below]
        while waiting:
            directory = waiting.pop()
            try:
                yield from self._scan_one(directory, waiting, followed)
            except FileNotFoundError:
                # Deleted since its parent was listed. If the whole folder is gone, `check` below says so.
                continue
            except OSError as error:
                if error.errno != errno.ENOTDIR:
                    self._report(directory, f"the folder cannot be listed: {_why(error)}")
        self.check()

    def file_paths(self) -> Iterator[str]:
        """Yield the path of every file that is not hidden, documents and others. Opens none and follows no link.

        A folder is listed again only if it has changed since.
        """
        seen: dict[str, _FolderNames] = {}
        waiting = [""]
        while waiting:
            directory = waiting.pop()
            with suppress(OSError):
                names = self._names_in(directory)
                seen[directory] = names
                waiting += [_join(directory, name) for name in names.folders]
                for name in names.files:
                    yield _join(directory, name)
        self._listed = seen

    def _names_in(self, directory: str) -> _FolderNames:
        absolute = self._absolute(directory)
        status, began_ns = os.lstat(absolute), time.time_ns()
        state = status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns
        known = self._listed.get(directory)
        if known is not None and known.state == state:
            return known
        folders, files = [], []
        with os.scandir(absolute) as entries:
            for entry in entries:
                if is_hidden(entry.name) or _UNSENDABLE.search(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files.append(entry.name)
        # Another change within the same tick of the file system's clock would leave the same times.
        is_settled = max(status.st_mtime_ns, status.st_ctime_ns) < began_ns - UNSETTLED_NS
        return _FolderNames(state if is_settled else None, tuple(folders), tuple(files))

    def file_stamp(self, path: str) -> Stamp | None:
        """Return the stamp of the file, document or not, at exactly that path; None if there is none, or a link."""
        if not is_clean(path) or _UNSENDABLE.search(path) or not self.is_plain(path):
            return None
        try:
            status = os.lstat(self._absolute(path))
        except OSError:
            return None
        return stamp_of(status) if stat.S_ISREG(status.st_mode) else None

    def is_obsidian(self) -> bool:
        """Return whether Obsidian keeps its settings here; then links mean what Obsidian takes them to mean."""
        try:
            return stat.S_ISDIR(os.lstat(self._absolute(OBSIDIAN_FOLDER)).st_mode)
        except OSError:
            return False

    def obsidian_settings(self) -> VaultSettings:
        """Return Obsidian's folder of templates and the paths of its daily notes.

        These two settings are all that is ever read of a hidden folder. No tool or page shows their text.
        """
        return read_settings(self._setting("templates.json"), self._setting("daily-notes.json"))

    def _setting(self, name: str) -> bytes | None:
        path = f"{OBSIDIAN_FOLDER}/{name}"
        try:
            descriptor = self._walk(path) if HAS_OPENAT else os.open(self._absolute(path), FILE_FLAGS)
        except OSError:
            return None
        try:
            status = os.fstat(descriptor)
            fits = stat.S_ISREG(status.st_mode) and status.st_size <= LARGEST_SETTING
            return os.read(descriptor, LARGEST_SETTING) if fits else None
        finally:
            os.close(descriptor)

    def _scan_one(self, directory: str, waiting: list[str], followed: set[tuple[int, int]]) -> Iterator[Scanned]:
        with os.scandir(self._absolute(directory)) as entries:
            for entry in entries:
                name = entry.name
                if is_hidden(name):
                    continue
                is_directory = entry.is_dir(follow_symlinks=False)
                if not is_directory and not is_markdown(name):
                    continue
                path = _join(directory, name)
                # A folder named like a drive ("c:") is a fine name here and an absolute path to a Windows host.
                is_drive = path[1:2] == ":" and not is_clean(path)
                if len(path) > LONGEST_PATH or _UNSENDABLE.search(name) or is_drive:
                    self._report(
                        path, "the name cannot be used: not UTF-8, a control character, a backslash or too long"
                    )
                elif is_directory:
                    waiting.append(path)
                elif (found := self._scan_file(entry, path, followed)) is not None:
                    yield found

    def _scan_file(self, entry: os.DirEntry[str], path: str, followed: set[tuple[int, int]]) -> Scanned | None:
        try:
            status = self._link_target(path) if entry.is_symlink() else entry.stat(follow_symlinks=False)
        except InvalidPath as error:
            self._report(path, error.reason)
            return None
        except (OSError, NoSuchPath):
            return None
        if status is None:
            return None
        if entry.is_symlink():
            # Two links to one file are one document, under whichever name comes first.
            target = (status.st_dev, status.st_ino)
            if target in followed:
                return None
            followed.add(target)
        if reason := _unfit(status):
            self._report(path, reason)
            return None
        return _scanned(path, status)

    def _link_target(self, path: str) -> os.stat_result | None:
        """Return the status of the file that only the link at `path` leads to; None if a scan finds it at its real path."""
        real = self.resolve(path)
        if is_markdown(real):
            return None
        return os.lstat(self._absolute(real))

    def _absolute(self, path: str) -> str:
        return os.path.join(self._root, *path.split("/")) if path else self._root  # noqa: PTH118  hot in scans

    def _report(self, path: str, reason: str) -> None:
        self.problem_count += 1
        if len(self._problems) < MOST_PROBLEMS:
            self._problems.append(VaultProblem(printable(path), reason))

    def _refusal(self, path: str, error: OSError) -> NoSuchPath | UnreadableDocument:
        if error.errno in _ABSENT:
            self.check()  # if the whole folder has vanished, that must not look like one deleted document
            return NoSuchPath(path)
        return UnreadableDocument(path, _why(error))

    def _open(self, path: str, *, plain: bool) -> int:
        """Open the file. No link that is swapped in at any moment leads outside; `plain` refuses links altogether."""
        if HAS_OPENAT:
            try:
                return self._walk(path)
            except OSError as error:
                if error.errno not in _LINK_IN_THE_WAY:
                    raise
        elif not plain or self.is_plain(path):
            return self._open_and_compare(path)
        real = self.resolve(path)
        if not plain:
            # The resolved path has no link in it. If one appears in the meantime, the walk refuses it.
            return self._walk(real)
        if real == path:
            raise NoSuchPath(path)  # no link: a file is where a folder should be
        raise InvalidPath(path, "it is a link, or lies below one; put the file itself there")

    def _walk(self, path: str) -> int:
        """Open `path` part by part, each relative to the one before, following no link."""
        *folders, name = path.split("/")
        here = os.open(self._root, FOLDER_FLAGS)
        try:
            for folder in folders:
                below = os.open(folder, FOLDER_FLAGS, dir_fd=here)
                os.close(here)
                here = below
            return os.open(name or ".", FILE_FLAGS, dir_fd=here)
        finally:
            os.close(here)

    def _open_and_compare(self, path: str) -> int:
        """Open the file on systems without openat, then check that it is the one that the path really leads to."""
        descriptor = os.open(self._absolute(path), FILE_FLAGS)
        try:
            real = os.lstat(self._absolute(self.resolve(path)))
            same = os.path.samestat(os.fstat(descriptor), real)
        except BaseException:
            os.close(descriptor)
            raise
        if not same:
            os.close(descriptor)
            raise NoSuchPath(path)
        return descriptor


def printable(path: str) -> str:
    """Return `path` with a question mark for every character that can't be shown or encoded."""
    return _UNSENDABLE.sub("?", path)


def read_steadily(descriptor: int, path: str) -> tuple[bytes, os.stat_result]:
    """Return the bytes of an open file as they were at one moment, and its status at that moment.

    If the file keeps changing, they are the latest bytes, with the status from before they were read.

    Raises:
        UnreadableDocument: it is larger than `LARGEST_BYTES`.
    """
    raw, before = b"", os.fstat(descriptor)
    for _ in range(READ_TRIES):
        before = os.fstat(descriptor)
        if reason := _too_large(before):
            raise UnreadableDocument(path, reason)
        os.lseek(descriptor, 0, os.SEEK_SET)
        # One byte more than the size shows that the file grew; reading on to its end might never end.
        parts, left = [], before.st_size + 1
        while left > 0 and (part := os.read(descriptor, min(left, PART_BYTES))):
            parts.append(part)
            left -= len(part)
        raw = b"".join(parts)
        after = os.fstat(descriptor)
        if stamp_of(before) == stamp_of(after) and len(raw) == after.st_size:
            break
    return raw, before


def _scanned(path: str, status: os.stat_result) -> Scanned:
    return Scanned(path, stamp_of(status), max(status.st_mtime_ns, status.st_ctime_ns))


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file with that status."""
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino)


def _unfit(status: os.stat_result) -> str:
    """Return why a file cannot be a document, "" if it can."""
    return _too_large(status) if stat.S_ISREG(status.st_mode) else "not a regular file"


def _too_large(status: os.stat_result) -> str:
    if status.st_size <= LARGEST_BYTES:
        return ""
    return f"too large ({status.st_size / 2**20:.0f} MiB; at most {LARGEST_BYTES // 2**20} MiB are read)"


def _join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def _why(error: OSError) -> str:
    return error.strerror or type(error).__name__
