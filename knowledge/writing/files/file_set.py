"""Reads the pages of an act and the files that acts stage beside them. All of it blocks; `swap.py` does the writing."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath, UnreadableDocument, UnwritableDocument
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.paths import clean_path, is_markdown
from knowledge.pages.vault import Vault, read_steadily, revision_of
from knowledge.state.ports import Stamp
from knowledge.writing.files.exchange import (
    FileAttributes,
    Folder,
    Step,
    extended_attributes,
    is_temporary,
    no_step,
    temporary_name,
)

HALF_WRITTEN_S = 0.1
"""A file whose first write was at most this long ago may be only part of a save."""
EMPTIED_S = 1.0
"""Editors that write in place empty the file first; on a busy machine it may stay empty for a while."""
QUIET_S = 0.02
"""A file written in place counts as saved after this time without another write."""
LOOK_AGAIN_S = 0.004
NAME_DIGITS = 8
LOST = "lost-"

_RESERVED = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$"}) | {
    device + digit for device in ("com", "lpt") for digit in "0123456789¹²³"
}


class FoundPage(NamedTuple):
    """A page as it was at one moment: bytes, revision, status and extended attributes; all empty if there is no page."""

    raw: bytes | None
    revision: str | None
    status: os.stat_result | None
    extended: Mapping[str, bytes] = MappingProxyType({})


ABSENT = FoundPage(None, None, None)


class Orphan(NamedTuple):
    """A staged file in `folder` that belongs to no act. `page` is the page that it was staged for, or a name for lost text."""

    page: str
    folder: str
    name: str
    raw: bytes


class FileSet:
    """The files of one vault. `step` is called at every step of a write (see exchange.py)."""

    def __init__(self, vault: Vault, *, step: Step = no_step) -> None:
        self._vault, self._step = vault, step

    def real(self, path: str) -> str:
        """Return the real path of the page, links followed, or the path that it would be created at.

        Raises:
            InvalidPath: it can't be a page, it leaves the knowledge base, or it is a link to nothing.
        """
        cleaned = clean_path(path)
        if not is_markdown(cleaned) and not is_canvas(cleaned):
            raise InvalidPath(path, "a document's name ends in .md, .markdown or .mdx")
        try:
            return self._vault.resolve(cleaned)
        except NoSuchPath:
            # First, because it refuses a hidden place; nothing may be said about a link there.
            made_at = self._vault.resolve_new(cleaned)
            if os.path.islink(self._vault.root / cleaned):  # noqa: PTH114  a plain call, like its neighbours
                raise InvalidPath(path, "it is a link that leads to nothing") from None
        require_nameable(cleaned)
        return made_at

    def stamp(self, path: str) -> Stamp | None:
        """Return size, time and inode of the page, or None. Reads nothing."""
        found = self._vault.find(path)
        return found.stamp if found else None

    def read(self, path: str) -> FoundPage:
        """Return the page as it is now.

        Raises:
            InvalidPath: as `real`.
            UnwritableDocument: a folder, or something that is not a regular file, is there.
            UnreadableDocument: it may not be read, or is too large.
        """
        with named_errors(path):
            try:
                folder, name = self.place(path)
            except (FileNotFoundError, NotADirectoryError):
                self._vault.check()  # a knowledge base that went away must not look like an empty one
                return ABSENT
            with folder:
                return found_at(folder, name, path, attributes=True)

    def settled(self, path: str, found: FoundPage, half_written: Callable[[bytes], bool]) -> FoundPage:
        """Return the page once an editor that writes in place has probably finished; waits at most a tenth of a second.

        For an emptied page it waits up to a second. `half_written` says whether bytes could be the beginning of a save.
        """
        begun = time.monotonic()
        while found.status is not None and found.raw is not None:
            longest_s = HALF_WRITTEN_S if found.raw else EMPTIED_S
            if time.monotonic() > begun + longest_s:
                break
            age_s = time.time() - found.status.st_mtime
            # An editor that writes a new file and renames it changes the inode after the last write, and is done then.
            in_place = found.status.st_ctime_ns == found.status.st_mtime_ns
            # A time further in the future than clocks differ says nothing about when the file was written.
            unfinished = -1 < age_s < longest_s and half_written(found.raw)
            if not unfinished and not (in_place and -1 < age_s < QUIET_S):
                break
            time.sleep(LOOK_AGAIN_S)
            found = self.read(path)
        return found

    def attributes(self, path: str) -> FileAttributes | None:
        """Return the current attributes of the page's file, None if it can't be opened."""
        with contextlib.suppress(OSError, KnowledgeError):
            folder, name = self.place(path)
            with folder:
                return folder.attributes(name)
        return None

    def staged_name(self, path: str) -> str:
        """Return a new name for a staged file beside `path`.

        It contains a digest of the page's name, by which recovery finds the page.
        """
        return temporary_name(name_digest(self.real(path).rpartition("/")[2]))

    def beside(self, path: str, staged: str) -> bytes | None:
        """Return the bytes of the staged file beside `path`, or None."""
        with named_errors(path):
            try:
                folder, _ = self.place(path)
            except (FileNotFoundError, NotADirectoryError):
                # The whole folder was removed, and the staged file with it.
                return None
            with folder:
                return found_at(folder, staged, path).raw

    def discard(self, path: str, staged: str) -> None:
        """Remove the staged file beside `path` if it is there."""
        with named_errors(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder, _ = self.place(path)
            with folder:
                folder.unlink(staged)

    def orphans(self, *, before: float) -> Iterator[Orphan]:
        """Yield every staged file in the knowledge base that nobody has touched since `before` (Unix time)."""
        for above, folders, names in os.walk(self._vault.root):
            # Hidden folders have no pages, so nothing was staged in them.
            folders[:] = [name for name in folders if not name.startswith(".")]
            where = os.path.relpath(above, self._vault.root).replace(os.sep, "/").removeprefix(".").removeprefix("/")
            for name in filter(is_temporary, names):
                pages = (page for page in names if is_markdown(page) or is_canvas(page))
                owner = next((page for page in pages if name_digest(page) in name), None)
                with contextlib.suppress(OSError), self.folder(where) as folder:
                    status = folder.status(name)
                    if status is not None and max(status.st_ctime, status.st_mtime) < before:
                        page = f"{where}/{owner or LOST + name.strip('.') + '.md'}".lstrip("/")
                        yield Orphan(page, where, name, found_at(folder, name, page).raw or b"")

    def remove_orphan(self, orphan: Orphan) -> None:
        """Remove the file if it is there."""
        # If another process has just removed it, there is nothing left to do.
        with contextlib.suppress(OSError), self.folder(orphan.folder) as folder:
            folder.unlink(orphan.name)

    def folder(self, where: str, *, create: bool = False) -> Folder:
        """Return the directory, open; `create` makes it if it is missing."""
        return Folder.open(str(self._vault.root), where.split("/") if where else [], self._step, create=create)

    def place(self, path: str) -> tuple[Folder, str]:
        """Return the directory of the page, open, and its name in it."""
        above, _, name = self.real(path).rpartition("/")
        return self.folder(above), name


def require_nameable(path: str) -> None:
    """Check that a file may be made at `path` on every system that people copy knowledge bases to.

    Raises:
        InvalidPath: a part is the name of a device on Windows, or ends in a dot or a blank.
    """
    for part in path.split("/"):
        if part.endswith((".", " ")):
            raise InvalidPath(path, f"{part!r} ends in a dot or a space, which Windows drops")
        if part.split(".")[0].rstrip().lower() in _RESERVED:
            raise InvalidPath(path, f"{part!r} is the name of a device on Windows")


def name_digest(name: str) -> str:
    """Return the digest that identifies a page in the names of files staged beside it."""
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape")).hexdigest()[:NAME_DIGITS]


def found_at(folder: Folder, name: str, path: str, *, attributes: bool = False) -> FoundPage:
    """Return the current file `name`, or `ABSENT`; `path` is the page that errors name."""
    try:
        file = folder.open_file(name)
    except FileNotFoundError:
        return ABSENT
    try:
        found = read_open(file, path)
        return found._replace(extended=extended_attributes(file)) if attributes else found
    finally:
        os.close(file)


def read_open(file: int, path: str) -> FoundPage:
    """Return an open file as it is now; `path` is the page that errors name.

    Raises:
        UnwritableDocument: it is not a regular file.
        UnreadableDocument: it is too large.
    """
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "something that is not a regular file"
        raise UnwritableDocument(path, f"{kind} is there", "use another path, or move it away")
    raw, status = read_steadily(file, path)
    return FoundPage(raw, revision_of(raw), status)


_REASONS = {
    errno.ENOSPC: ("the disk is full", "make room and try again"),
    errno.EDQUOT: ("your quota of the disk is used up", "make room and try again"),
    errno.EROFS: ("the file system is read-only", "check how it is mounted"),
    errno.EACCES: ("its folder may not be written to", "change its permissions"),
    errno.EPERM: ("its folder may not be written to", "change its permissions"),
    errno.EIO: ("the disk reports an error", "check the disk before you try again"),
    errno.ENAMETOOLONG: ("its name is too long for this file system", "use a shorter one"),
    errno.ENOTDIR: ("a file is where a folder should be", "use another path, or move that file away"),
    errno.ELOOP: ("a link was put in its place", "try again"),
}


@contextlib.contextmanager
def named_errors(path: str) -> Iterator[None]:
    """Turn an operating system error into a sentence about the page."""
    try:
        yield
    except OSError as error:
        reason, mend = _REASONS.get(error.errno or 0, (error.strerror or type(error).__name__, "try again"))
        raise UnwritableDocument(path, reason, mend) from error
    except UnreadableDocument as error:
        if not error.path:
            raise UnreadableDocument(path, error.reason) from error
        raise
