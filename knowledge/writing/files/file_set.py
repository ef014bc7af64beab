"""What acts need of the files of a knowledge base: look at them, put others in their place, and take that back.

Nothing is ever overwritten: new bytes lie beside the page, durable, and change places with it in one moment; then what was
displaced is looked at. If it is not what the act has seen, somebody who takes no lock has saved it meanwhile: everything
is taken back, the save lies where it was saved, and the act is asked again. All of it blocks.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple, Self

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath, UnreadableDocument, UnwritableDocument
from knowledge.pages.paths import clean_path, is_markdown, parent
from knowledge.pages.vault import LARGEST_BYTES, Vault, read_steadily, revision_of
from knowledge.state.ports import Stamp
from knowledge.writing.files.exchange import Folder, Step, is_temporary, nothing, temporary_name

HALF_WAY_S = 0.1
"""A file that somebody began to write at most so long ago may not be all of what they save."""
EMPTIED_S = 1.0
"""Editors that write in place empty the file first; on a busy machine it may stay so for a while."""
QUIET_S = 0.02
"""A file that is written in place counts as saved when nobody has touched it for so long."""
LOOK_AGAIN_S = 0.004
MOST_TAKING_BACK = 50
MOST_OPEN = 64
"""Of an act on more files than this, those that were displaced are not held open: processes may not open so many."""
NAME_DIGITS = 8
LOST = "lost-"

_RESERVED = frozenset({"con", "prn", "aux", "nul", "conin$", "conout$"}) | {
    device + digit for device in ("com", "lpt") for digit in "0123456789¹²³"
}


class FoundPage(NamedTuple):
    """A page as it was at one moment: its bytes, their revision, and what its file looked like; all None where there is none."""

    raw: bytes | None
    revision: str | None
    status: os.stat_result | None


ABSENT = FoundPage(None, None, None)


class Save(NamedTuple):
    """Bytes that somebody saved at `path` while we were about to write it."""

    path: str
    raw: bytes


class Orphan(NamedTuple):
    """A file that was staged in `folder` and belongs to no act. `page` is the one it was staged for, or a name for what is lost."""

    page: str
    folder: str
    name: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class StagedChange:
    """One file that is to become `raw`, or to go (None), if it is still as `seen`. `staged` names the file beside it.

    `like` is the page whose permissions a new file takes over. `place` is where it has to lie, links followed; None: anywhere.
    """

    path: str
    seen: FoundPage
    raw: bytes | None
    staged: str
    like: str | None = None
    place: str | None = None


class Displaced:
    """A file that a page was until just now, still open: an editor that has it open as well may yet write to it."""

    def __init__(self, path: str, descriptor: int, found: FoundPage) -> None:
        self.path, self.revision = path, found.revision
        self._descriptor = descriptor
        self._touched = _touched(found.status) if found.status else (-1, -1)

    @property
    def touched(self) -> bool:
        """Whether its size or time is another than when it was last read."""
        return _touched(os.fstat(self._descriptor)) != self._touched

    @property
    def emptied(self) -> bool:
        """Whether somebody has emptied it: they are about to write."""
        return os.fstat(self._descriptor).st_size == 0 and self.revision != revision_of(b"")

    def written(self, *, thoroughly: bool = False) -> bytes | None:
        """Return what it holds now if somebody has written to it since, nothing while it is empty.

        The next call says None unless they did so again. Once `thoroughly`, it compares bytes even where size and time are
        as before: clocks of file systems tick slowly. Then what it holds is returned again until it is `taken`.
        """
        if not thoroughly and not self.touched:
            return None
        raw, status = _quiet(self._descriptor)
        self._touched = _touched(status)
        return raw if raw and revision_of(raw) != self.revision else None

    def taken(self, raw: bytes) -> None:
        """Count these bytes as known: whoever was told of them has kept them."""
        self.revision = revision_of(raw)

    def close(self) -> None:
        """Let go of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class FileSet:
    """The files of one vault. `step` is told of every step (see exchange.py)."""

    def __init__(self, vault: Vault, *, step: Step = nothing) -> None:
        self._vault, self._step = vault, step

    def real(self, path: str) -> str:
        """Return where the page at `path` lies once links are followed, or would lie if it were made.

        Raises:
            InvalidPath: it can be no page, it leaves the knowledge base, or it is a link to nothing.
        """
        asked = clean_path(path)
        if not is_markdown(asked):
            raise InvalidPath(path, "a document's name ends in .md, .markdown or .mdx")
        try:
            return self._vault.resolve(asked)
        except NoSuchPath:
            if os.path.islink(self._vault.root / asked):  # noqa: PTH114  a plain call, like its neighbours
                raise InvalidPath(path, "it is a link that leads to nothing") from None
        return self._unmade(asked)

    def _unmade(self, asked: str) -> str:
        require_nameable(asked)
        above, rest = parent(asked), asked.rpartition("/")[2]
        while above:
            try:
                return f"{self._vault.resolve(above)}/{rest}".lstrip("/")
            except NoSuchPath:
                above, rest = parent(above), f"{above.rpartition('/')[2]}/{rest}"
        return rest

    def stamp(self, path: str) -> Stamp | None:
        """Return what the page looks like from outside; None if there is none. Reads nothing."""
        found = self._vault.look(path)
        return found.stamp if found else None

    def look(self, path: str) -> FoundPage:
        """Return the page as it is now.

        Raises:
            InvalidPath: as `real`.
            UnwritableDocument: a folder, or no regular file, lies there.
            UnreadableDocument: it may not be read, or is too large.
        """
        with _named_errors(path):
            try:
                folder, name = self.place(path)
            except (FileNotFoundError, NotADirectoryError):
                self._vault.check()  # a knowledge base that went away must not look like an empty one
                return ABSENT
            with folder:
                return _found(folder, name, path)

    def settled(self, path: str, found: FoundPage, half_way: Callable[[bytes], bool]) -> FoundPage:
        """Return the page once an editor that writes in place has probably finished; waits a tenth of a second at most.

        One that was emptied is waited for longer. `half_way` says whether bytes could be the beginning of a save.
        """
        begun = time.monotonic()
        while found.status is not None and found.raw is not None:
            longest_s = HALF_WAY_S if found.raw else EMPTIED_S
            if time.monotonic() > begun + longest_s:
                break
            age_s = time.time() - found.status.st_mtime
            in_place = (
                found.status.st_ctime_ns == found.status.st_mtime_ns
            )  # a rename would have come after the writing
            unfinished = -1 < age_s < longest_s and half_way(found.raw)
            if not unfinished and not (in_place and -1 < age_s < QUIET_S):
                break
            time.sleep(LOOK_AGAIN_S)
            found = self.look(path)
        return found

    def begin(self, changes: Sequence[StagedChange]) -> Swap:
        """Return the change of these files, with nothing done so far."""
        return Swap(self, changes)

    def staged_name(self, path: str) -> str:
        """Return a new name for a file beside `path`, by which it can be told whose file it is."""
        return temporary_name(name_digest(self.real(path).rpartition("/")[2]))

    def beside(self, path: str, staged: str) -> bytes | None:
        """Return what the staged file beside `path` holds; None if there is none."""
        with _named_errors(path):
            try:
                folder, _ = self.place(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
            with folder:
                return _found(folder, staged, path).raw

    def discard(self, path: str, staged: str) -> None:
        """Remove the staged file beside `path` if it is there."""
        with _named_errors(path), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            folder, _ = self.place(path)
            with folder:
                folder.unlink(staged)

    def orphans(self, *, before: float) -> Iterator[Orphan]:
        """Yield every file beside pages that we staged and nobody has touched since `before` (Unix time)."""
        for above, folders, names in os.walk(self._vault.root):
            folders[:] = [name for name in folders if not name.startswith(".")]
            where = os.path.relpath(above, self._vault.root).replace(os.sep, "/").removeprefix(".").removeprefix("/")
            for name in filter(is_temporary, names):
                owner = next((page for page in names if is_markdown(page) and name_digest(page) in name), None)
                with contextlib.suppress(OSError), self.folder(where) as folder:
                    status = folder.status(name)
                    if status is not None and max(status.st_ctime, status.st_mtime) < before:
                        page = f"{where}/{owner or LOST + name.strip('.') + '.md'}".lstrip("/")
                        yield Orphan(page, where, name, _found(folder, name, page).raw or b"")

    def remove_orphan(self, orphan: Orphan) -> None:
        """Remove the file if it is there."""
        with contextlib.suppress(OSError), self.folder(orphan.folder) as folder:
            folder.unlink(orphan.name)

    def folder(self, where: str, *, create: bool = False) -> Folder:
        """Return the directory, open, made if asked."""
        return Folder.open(str(self._vault.root), _parts(where), self._step, create=create)

    def place(self, path: str) -> tuple[Folder, str]:
        """Return the directory of the page, open, and its name in it."""
        above, _, name = self.real(path).rpartition("/")
        return self.folder(above), name


class _OpenedFile:
    """One file of a change, with its directory open."""

    def __init__(self, change: StagedChange, folder: Folder, name: str) -> None:
        self.change, self.folder, self.name = change, folder, name
        self.displaced: Displaced | None = None
        self.met: list[bytes] = []
        """What others had saved and the act displaced, before it was taken back."""
        self._staged: os.stat_result | None = None

    def stage(self, like: int | None) -> None:
        if self.change.raw is not None:
            self._staged = self.folder.stage(self.change.staged, self.change.raw, like)

    def read_back(self) -> None:
        """Return if the page holds what it was given, or what somebody has saved since; that is looked at by who meets it."""
        found = _found(self.folder, self.name, self.change.path)
        if found.raw != self.change.raw and self._is_as_staged(found):
            raise OSError(errno.EIO, "what is read is not what was written")

    def _is_as_staged(self, found: FoundPage) -> bool:
        """Return whether this is the very file that we staged, and nobody has written to it."""
        return found.status is not None and self._staged is not None and _is_untouched(found.status, self._staged)

    def unchanged(self) -> bool:
        """Whether the page still looks as it was seen."""
        status, seen = self.folder.status(self.name), self.change.seen.status
        if status is None or seen is None:
            return status is seen
        return _is_untouched(status, seen)

    def put(self) -> None:
        """Let the page become what it is to be; what was there is at the staged name afterwards."""
        change = self.change
        if change.seen.raw is None:
            self.folder.publish(change.staged, self.name)
        elif change.raw is None:
            self.folder.publish(self.name, change.staged)
        else:
            self.folder.exchange(change.staged, self.name)

    def look_at_displaced(self) -> bool:
        """Return whether what was displaced is what was seen; keep it open."""
        if self.change.seen.raw is None:
            return True
        found = self._hold(self.change.seen.revision)
        self._meet(found)
        return found.raw == self.change.seen.raw

    def _hold(self, known: str | None) -> FoundPage:
        """Return what was displaced, and keep it open: who opened it while it was the page may yet write to it.

        `known` is the revision that it is known to have had.
        """
        self.close_displaced()
        file = self.folder.open_file(self.change.staged)
        try:
            found = _read(file, self.change.path)
        except BaseException:
            os.close(file)
            raise
        self.displaced = Displaced(self.change.path, file, found._replace(revision=known))
        return found

    def _meet(self, found: FoundPage) -> None:
        if found.raw is not None and found.raw not in (self.change.seen.raw, self.change.raw, *self.met):
            self.met.append(found.raw)

    def take_back(self) -> list[Save]:
        """Let the page be what it was before, or what somebody has saved over it since; return saves that must be kept."""
        self.close_displaced()
        if not self._is_put():
            return []
        if self.change.seen.raw is None:
            return self._take_away()
        if self.change.raw is None:
            return self._return()
        return self._exchange_back()

    def _is_put(self) -> bool:
        """Tell by the file beside the page whether the page has become what it was to be."""
        if self.change.seen.raw is None:
            return self.folder.status(self.change.staged) is None
        if self.change.raw is None:
            return self.folder.status(self.change.staged) is not None
        return self._look(self.change.staged).raw != self.change.raw

    def _exchange_back(self) -> list[Save]:
        saves: list[Save] = []
        ours = self.change.raw
        for _ in range(MOST_TAKING_BACK):
            back = self._look(self.change.staged)
            self._meet(back)
            try:
                self.folder.exchange(self.change.staged, self.name)
            except FileNotFoundError:
                return [*saves, *self._saved(back.raw)]  # somebody removed the page: that stands, what they saw is kept
            # Who was still writing it has done so by now; the next save may be made from what was the page until now.
            self._meet(self._look(self.name))
            displaced = self._displaced_again(ours)
            if displaced.raw == ours or self._is_as_staged(displaced):
                return saves
            # A newer save than the one that we have just put there: it is the newer one that has to lie there.
            self._meet(displaced)
            saves += self._saved(back.raw)
            ours = back.raw
        return saves

    def _displaced_again(self, ours: bytes | None) -> FoundPage:
        """Return what was the page while the act showed, and keep it open; `ours` is what we have put there."""
        return _or_absent(lambda: self._hold(None if ours is None else revision_of(ours)))

    def _take_away(self) -> list[Save]:
        try:
            self.folder.publish(self.name, self.change.staged)
        except FileNotFoundError:
            return []
        displaced = self._displaced_again(self.change.raw)
        if displaced.raw == self.change.raw or self._is_as_staged(displaced):
            return []
        return self._return()

    def _return(self) -> list[Save]:
        beside = self._look(self.change.staged).raw
        try:
            self.folder.publish(self.change.staged, self.name)
        except FileExistsError:
            return self._saved(beside)
        return []

    def _look(self, name: str) -> FoundPage:
        """Return what lies there, the page or what is beside it; nothing if that is no file."""
        return _or_absent(lambda: _found(self.folder, name, self.change.path))

    def _saved(self, raw: bytes | None) -> list[Save]:
        if raw in self.met:
            self.met.remove(raw)
        return [] if raw is None or raw in (self.change.seen.raw, self.change.raw) else [Save(self.change.path, raw)]

    def close_displaced(self) -> None:
        if self.displaced is not None:
            self.displaced.close()
            self.displaced = None


class Swap:
    """Several files that become others together. Close it at the end: that removes what lies beside them."""

    def __init__(self, files: FileSet, changes: Sequence[StagedChange]) -> None:
        self._files = files
        self._changes = sorted(changes, key=_turn)
        self._places: list[_OpenedFile] = []
        self._done: list[_OpenedFile] = []
        self._open = ExitStack()
        self._folders: dict[str, Folder] = {}
        self._finished = False
        self._strayed = False
        """A file lies elsewhere by now than when it was decided that it may change: a link was put in its way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def make(self) -> list[Save] | None:
        """Stage and exchange all files; None when that is done and durable.

        Otherwise nothing is changed, because somebody saved one of them meanwhile; what would else be lost is returned.

        Raises:
            UnwritableDocument: a file cannot be written; nothing is changed.
        """
        self._stage()
        if self._strayed or not all(place.unchanged() for place in self._places):
            return []
        for place in self._places:
            try:
                with _named_errors(place.change.path):
                    as_seen = self._put(place)
            except BaseException:
                self.undo_what_can_be()
                raise
            if not as_seen:
                return self.undo()
            if len(self._places) > MOST_OPEN:
                place.close_displaced()
        try:
            self._make_sure()
        except BaseException:
            self.undo_what_can_be()
            raise
        return None

    def _stage(self) -> None:
        for change in self._changes:
            with _named_errors(change.path):
                require_writable(change)
                folder, name = self._opened(change)
                place = _OpenedFile(change, folder, name)
                if not folder.may_write(name):
                    raise UnwritableDocument(
                        change.path, "the file is read-only", "change its permissions if it may be edited"
                    )
                self._places.append(place)
                with self._like(change) as like:
                    place.stage(like)

    def _opened(self, change: StagedChange) -> tuple[Folder, str]:
        """Return the directory of the file and its name in it; files of one directory share it."""
        real = self._files.real(change.path)
        self._strayed = self._strayed or change.place not in (None, real)
        above, _, name = real.rpartition("/")
        if above not in self._folders:
            folder = self._files.folder(above, create=change.raw is not None)
            self._folders[above] = self._open.enter_context(folder)
        return self._folders[above], name

    @contextlib.contextmanager
    def _like(self, change: StagedChange) -> Iterator[int | None]:
        """Open the file whose permissions the new one takes over."""
        source = change.path if change.seen.raw is not None else change.like
        file = None
        if source is not None and change.raw is not None:
            with contextlib.suppress(OSError, KnowledgeError):
                folder, name = self._files.place(source)
                with folder:
                    file = folder.open_file(name)
        try:
            yield file
        finally:
            if file is not None:
                os.close(file)

    def _put(self, place: _OpenedFile) -> bool:
        self._done.append(place)  # before it is: a file system may do it and report an error all the same
        try:
            place.put()
        except (FileNotFoundError, FileExistsError):
            self._done.pop()
            return False  # removed or made by somebody meanwhile: nothing was displaced
        return place.look_at_displaced()

    def _make_sure(self) -> None:
        """Make the new names durable and see that the pages hold what they were given."""
        synced = set()
        for place in self._done:
            with _named_errors(place.change.path):
                identity = place.folder.identity()
                if identity not in synced:
                    place.folder.sync()
                    synced.add(identity)
                place.read_back()

    def undo(self) -> list[Save]:
        """Take everything back; return saves of others that lie nowhere any more."""
        saves: list[Save] = []
        while self._done:
            place = self._done[-1]
            with _named_errors(place.change.path):
                saves += place.take_back()
                if len(self._places) > MOST_OPEN:
                    place.close_displaced()
                self._done.pop()
                place.folder.sync()
        return saves

    def undo_what_can_be(self) -> list[Save]:
        """Take back what can be; `taken_back` says whether that is all. The rest is mended when somebody meets the intent."""
        try:
            return self.undo()
        except (OSError, KnowledgeError):
            self._finished = True  # what lies beside the pages is needed for that
            return []

    @property
    def taken_back(self) -> bool:
        """Whether nothing of the change shows."""
        return not self._done

    def displaced(self) -> list[Displaced]:
        """Return the files that were the pages until just now, open; whoever takes them closes them."""
        taken = [place.displaced for place in self._places if place.displaced is not None]
        for place in self._places:
            place.displaced = None
        return taken

    def met(self) -> list[Save]:
        """Return once what others had saved and the act displaced for a moment: it lies at the page again.

        Who read the page in that moment has not seen it, and may have saved over it by now.
        """
        met = [Save(place.change.path, raw) for place in self._places for raw in place.met]
        for place in self._places:
            place.met = []
        return met

    def leave(self) -> None:
        """Let what lies beside the files lie there: it is not certain what became of the act."""
        self._finished = True

    def clear(self) -> None:
        """Remove what lies beside the files, unless it is to stay."""
        for place in self._places:
            if not self._finished:
                with contextlib.suppress(OSError):
                    place.folder.unlink(place.change.staged)
        self._finished = True

    def close(self) -> None:
        """Remove what lies beside the files and let go of them."""
        self.clear()
        for place in self._places:
            place.close_displaced()
        self._places = []
        self._open.close()


def require_nameable(path: str) -> None:
    """Return if a file may be made at `path` on every system that people copy knowledge bases to.

    Raises:
        InvalidPath: a part is a name of a device on Windows, or ends in a dot or a blank.
    """
    for part in path.split("/"):
        if part.endswith((".", " ")):
            raise InvalidPath(path, f"{part!r} ends in a dot or a blank, which Windows drops")
        if part.split(".")[0].rstrip().lower() in _RESERVED:
            raise InvalidPath(path, f"{part!r} is the name of a device on Windows")


def require_writable(change: StagedChange) -> None:
    """Return if the new bytes could be read again.

    Raises:
        UnwritableDocument: they are too large.
    """
    if change.raw is not None and len(change.raw) > LARGEST_BYTES:
        size = f"{len(change.raw) / 2**20:.0f} MiB"
        raise UnwritableDocument(
            change.path, f"it would be {size}, at most {LARGEST_BYTES // 2**20} MiB are read", "split it"
        )


def name_digest(name: str) -> str:
    """Return what names a page in the names of files beside it."""
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape")).hexdigest()[:NAME_DIGITS]


def _turn(change: StagedChange) -> int:
    """New pages first, removals last: what moves is never nowhere."""
    return 0 if change.seen.raw is None else 2 if change.raw is None else 1


def _parts(path: str) -> list[str]:
    return path.split("/") if path else []


def _found(folder: Folder, name: str, path: str) -> FoundPage:
    try:
        file = folder.open_file(name)
    except FileNotFoundError:
        return ABSENT
    try:
        return _read(file, path)
    finally:
        os.close(file)


def _or_absent(look: Callable[[], FoundPage]) -> FoundPage:
    """Return what `look` finds; nothing where a folder or a link lies that somebody put there, or what cannot be read."""
    try:
        return look()
    except (UnwritableDocument, UnreadableDocument):
        return ABSENT
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.EMLINK, errno.ENOENT}:
            raise
        return ABSENT


def _read(file: int, path: str) -> FoundPage:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        kind = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise UnwritableDocument(path, f"{kind} lies there", "name another path, or move that away")
    raw, status = read_steadily(file, path)
    return FoundPage(raw, revision_of(raw), status)


def _is_untouched(status: os.stat_result, before: os.stat_result) -> bool:
    return _touched(status) == _touched(before) and status.st_ino == before.st_ino


def _touched(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _quiet(file: int) -> tuple[bytes, os.stat_result]:
    """Return an open file and what it looked like once nobody writes to it any more; waits a tenth of a second at most."""
    end = time.monotonic() + HALF_WAY_S
    while -1 < time.time() - os.fstat(file).st_mtime < QUIET_S and time.monotonic() < end:
        time.sleep(LOOK_AGAIN_S)
    return read_steadily(file, "")


_REASONS = {
    errno.ENOSPC: ("the disk is full", "make room and try again"),
    errno.EDQUOT: ("your quota of the disk is used up", "make room and try again"),
    errno.EROFS: ("the file system is read-only", "see why it is mounted so"),
    errno.EACCES: ("its folder may not be written to", "change its permissions"),
    errno.EPERM: ("its folder may not be written to", "change its permissions"),
    errno.EIO: ("the disk reports an error", "look at the disk before you try again"),
    errno.ENAMETOOLONG: ("its name is too long for this file system", "use a shorter one"),
    errno.ENOTDIR: ("a file lies where a folder should be", "name another path, or move that file away"),
    errno.ELOOP: ("a link was put in its way", "try again"),
}


@contextlib.contextmanager
def _named_errors(path: str) -> Iterator[None]:
    """Turn what the system says into a sentence about the page."""
    try:
        yield
    except OSError as error:
        reason, mend = _REASONS.get(error.errno or 0, (error.strerror or type(error).__name__, "try again"))
        raise UnwritableDocument(path, reason, mend) from error
    except UnreadableDocument as error:
        if not error.path:
            raise UnreadableDocument(path, error.reason) from error
        raise
