"""The files of one machine's copy of the stored pages: placed without overwriting an edit. All of it blocks."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from knowledge.errors import InvalidPath, UnwritableDocument
from knowledge.history.codec import content_digest
from knowledge.pages.paths import clean_path, is_hidden
from knowledge.pages.vault import LARGEST_BYTES, read_steadily, stamp_of
from knowledge.state.ports import Stamp
from knowledge.stored_pages.copy_record import CopiedFile
from knowledge.writing.files.exchange import Folder, temporary_name
from knowledge.writing.files.file_set import name_digest, named_errors, require_nameable


class CopyFiles:
    """The folder of a copy. Every file in it that is not hidden is one of the knowledge base's, pages and attachments alike."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def walk(self) -> Iterator[tuple[str, Stamp]]:
        """Yield the path of every file that is not hidden, with its stamp. Opens none and follows no link."""
        waiting = [""]
        while waiting:
            folder = waiting.pop()
            with contextlib.suppress(OSError), os.scandir(os.path.join(self._root, folder)) as found:  # noqa: PTH118  hot
                for entry in found:
                    path = f"{folder}/{entry.name}".lstrip("/")
                    if is_hidden(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif entry.is_file(follow_symlinks=False):
                        yield path, stamp_of(entry.stat(follow_symlinks=False))

    def read(self, path: str) -> tuple[bytes, CopiedFile] | None:
        """Return the bytes of the file at exactly that path, with its stamp; None if there is none.

        Raises:
            KnowledgeError: it can't be read.
        """
        above, name = _parts(path)
        with named_errors(path):
            try:
                with Folder.open(self._root, above) as folder:
                    return _found(folder, name, path)
            except OSError as error:
                if error.errno in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                    return None
                raise

    def place(self, path: str, before: bytes | None, raw: bytes | None, *, durable: bool = True) -> CopiedFile | bool:
        """Give the file these bytes, or remove it (None), if the SHA-256 of its present bytes is `before`.

        Return the file as it is then; True if it was removed; False, with nothing changed, if somebody edited it. The
        change must be durable (`durable`) before the copy's record has it: otherwise, after a power cut, the former
        bytes would look like an edit.

        Raises:
            KnowledgeError: the file can't be written; nothing is changed.
        """
        _require_sound(path)
        above, name = _parts(path)
        with named_errors(path):
            try:
                with Folder.open(self._root, above, create=raw is not None) as folder:
                    placed = _place(folder, name, path, before, raw, durable=durable)
            except FileNotFoundError:
                placed = before is None  # its folder is gone, and the file with it
        if placed is True:
            self._remove_empty(above)
        return placed

    def _remove_empty(self, parts: list[str]) -> None:
        """Remove these folders, the innermost first, as long as they are empty: the database has nothing in them any longer."""
        while parts:
            try:
                Path(self._root, *parts).rmdir()
            except OSError:
                # Not empty: hidden files of other programs stay, and so does their folder.
                return
            parts = parts[:-1]


def _place(
    folder: Folder, name: str, path: str, before: bytes | None, raw: bytes | None, *, durable: bool
) -> CopiedFile | bool:
    found = _found(folder, name, path)
    if (None if found is None else found[0]) == raw:
        return True if found is None else found[1]
    if (None if found is None else found[1].digest) != before:
        return False
    staged = temporary_name(name_digest(name))
    if raw is not None:
        folder.stage(staged, raw, folder.attributes(name) if found is not None else None, durable=durable)
    try:
        if before is None:
            folder.publish(staged, name)
        elif raw is None:
            folder.publish(name, staged)
        else:
            folder.exchange(staged, name)
    except (FileExistsError, FileNotFoundError):
        folder.unlink(staged)  # ours: nothing has taken its name
        return False
    if durable:
        folder.sync()
    # An editor saved between the look and the exchange: its bytes are in the staged file now.
    if before is not None and not _has(folder, staged, path, before):
        _put_back(folder, staged, name, path, raw)
        return False
    folder.unlink(staged)
    if raw is None:
        return True
    placed = _found(folder, name, path)
    return placed[1] if placed is not None and placed[0] == raw else False


def _put_back(folder: Folder, staged: str, name: str, path: str, raw: bytes | None) -> None:
    """Put a save that was displaced back in its place.

    If there is a new file in its place, the save keeps its temporary name until recovery finds it.
    """
    if raw is None:
        with contextlib.suppress(FileExistsError):
            folder.publish(staged, name)
        return
    folder.exchange(staged, name)
    if _has(folder, staged, path, content_digest(raw)):
        folder.unlink(staged)


def _found(folder: Folder, name: str, path: str) -> tuple[bytes, CopiedFile] | None:
    try:
        file = folder.open_file(name)
    except FileNotFoundError:
        return None
    try:
        raw, status = read_steadily(file, path)
    finally:
        os.close(file)
    return raw, CopiedFile(content_digest(raw), stamp_of(status))


def _has(folder: Folder, name: str, path: str, digest: bytes) -> bool:
    found = _found(folder, name, path)
    return found is not None and found[1].digest == digest


def _parts(path: str) -> tuple[list[str], str]:
    *above, name = path.split("/")
    return above, name


def _require_sound(path: str) -> None:
    """Check that the path may be used in a folder. Servers of this version store files only at such paths.

    Raises:
        InvalidPath: it may not.
    """
    if clean_path(path) != path or not path or any(is_hidden(part) for part in path.split("/")):
        raise InvalidPath(path, "a stored file can't have this name")
    require_nameable(path)


def require_size(path: str, raw: bytes | None) -> None:
    """Check that the file can be read again, attachments included.

    Raises:
        UnwritableDocument: it is too large.
    """
    if raw is not None and len(raw) > LARGEST_BYTES:
        size = f"{len(raw) / 2**20:.0f} MiB"
        raise UnwritableDocument(
            path, f"it would be {size}, but at most {LARGEST_BYTES >> 20} MiB can be read", "split it"
        )
