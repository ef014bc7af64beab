"""The files of a source, in a folder or an archive, read within limits. Nothing outside it is read, and no link is followed."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from knowledge.pages.paths import is_hidden
from knowledge.pages.vault import LARGEST_BYTES, PART_BYTES
from knowledge.writing.files.exchange import Folder
from mcp_server.imports.model import BadSource, SkippedItem

LARGEST_FILE = 256 << 20
"""The largest attachment that is imported."""
MOST_BYTES = 4 << 30
"""The most that is read of one source altogether."""
MOST_FILES = 200_000
MOST_RATIO = 1_000
"""A file in an archive that claims to unpack to so many times its size is taken for an attack if it is large."""
LEAST_SUSPICIOUS = 16 << 20
DEEPEST_ARCHIVE = 2
_ENCRYPTED, _UTF8 = 0x1, 0x800


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source: its path there, with `/`, the size that the source claims, and a function that opens it."""

    path: str
    size: int
    opens: Callable[[], contextlib.AbstractContextManager[IO[bytes]]]


class SourceTree:
    """All files of a source. Reading counts against one budget, whatever an archive claims."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, SourceFile] = {}
        self.skipped: list[SkippedItem] = []
        self._left = MOST_BYTES

    def page(self, path: str) -> bytes:
        """Return the bytes of a file that becomes a page. Raises: BadSource: it is too large, or damaged."""
        return self._read(path, LARGEST_BYTES)

    def attachment(self, path: str) -> bytes:
        """Return the bytes of a file that is copied. Raises: BadSource: it is too large, or damaged."""
        return self._read(path, LARGEST_FILE)

    def _read(self, path: str, most: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        try:
            with self.files[path].opens() as file:
                while part := file.read(PART_BYTES):
                    # Counted while reading, because an archive may state any size for a file.
                    size += len(part)
                    if size > most:
                        raise BadSource(f"it has more than {most >> 20} MiB")
                    if size > self._left:
                        raise BadSource(f"more than {MOST_BYTES >> 30} GiB were read of the source already")
                    parts.append(part)
        except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise BadSource(f"it can't be read: {error}") from error
        self._left -= size
        return b"".join(parts)


@contextlib.contextmanager
def opened_source(place: Path) -> Iterator[SourceTree]:
    """Yield the files of a folder or of a zip archive, with those of archives inside an archive.

    Raises:
        BadSource: there is nothing, or it is neither a folder nor an archive.
    """
    with contextlib.ExitStack() as stack:
        tree = SourceTree(place.name.removesuffix(".zip"))
        if place.is_dir():
            _add_folder(tree, Path(os.path.realpath(place)), stack)
        elif place.is_file():
            _add_archive(tree, "", stack.enter_context(place.open("rb")), stack, depth=1)
        else:
            raise BadSource(f"there is no folder or file {place}")
        yield tree


def _add_folder(tree: SourceTree, root: Path, stack: contextlib.ExitStack) -> None:
    for above, folders, names in os.walk(root):
        where = os.path.relpath(above, root).replace(os.sep, "/").removeprefix(".").removeprefix("/")
        prefix = f"{where}/" if where else ""
        for name in sorted(folders):
            if is_hidden(name) or (Path(above) / name).is_symlink():
                reason = "a hidden folder" if is_hidden(name) else "a link, which an import does not follow"
                tree.skipped.append(SkippedItem(f"{prefix}{name}", reason))
                folders.remove(name)
        for name in sorted(names):
            status = (Path(above) / name).lstat()
            if stat.S_ISREG(status.st_mode):
                # Opened when it is read, one at a time: a source has more files than a process may have open.
                opens = _opener(root, where, name)
                _add(tree, SourceFile(f"{prefix}{name}", status.st_size, opens), stack, depth=0)
            else:
                reason = (
                    "a link, which an import does not follow" if stat.S_ISLNK(status.st_mode) else "no regular file"
                )
                tree.skipped.append(SkippedItem(f"{prefix}{name}", reason))


def _opener(root: Path, where: str, name: str) -> Callable[[], contextlib.AbstractContextManager[IO[bytes]]]:
    @contextlib.contextmanager
    def opened() -> Iterator[IO[bytes]]:
        with (
            Folder.open(str(root), where.split("/") if where else []) as folder,
            os.fdopen(folder.open_file(name), "rb") as file,
        ):
            yield file

    return opened


def _add_archive(tree: SourceTree, prefix: str, file: IO[bytes], stack: contextlib.ExitStack, *, depth: int) -> None:
    try:
        archive = stack.enter_context(zipfile.ZipFile(file))
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        if not prefix:
            raise BadSource(f"{tree.name} is neither a folder nor a zip archive: {error}") from error
        tree.skipped.append(SkippedItem(prefix.rstrip("/"), f"the archive can't be read: {error}"))
        return
    for entry in archive.infolist():
        if entry.is_dir():
            continue
        if problem := _problem_of(entry):
            tree.skipped.append(SkippedItem(f"{prefix}{entry.filename}", problem))
            continue
        path = f"{prefix}{_name_of(entry)}"
        if path in tree.files:
            tree.skipped.append(SkippedItem(path, "the archive has a second file of that name"))
            continue

        def opens(entry: zipfile.ZipInfo = entry) -> contextlib.AbstractContextManager[IO[bytes]]:
            return archive.open(entry)

        _add(tree, SourceFile(path, entry.file_size, opens), stack, depth=depth)


def _name_of(entry: zipfile.ZipInfo) -> str:
    """Return the name of a file in an archive. Many programs write UTF-8 without saying so, and it is read as code page 437."""
    if entry.flag_bits & _UTF8:
        return entry.filename
    try:
        return entry.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return entry.filename


def _add(tree: SourceTree, file: SourceFile, stack: contextlib.ExitStack, *, depth: int) -> None:
    """Add the file; an archive inside an archive, as Notion makes them for large exports, adds its files in its place."""
    if len(tree.files) >= MOST_FILES:
        raise BadSource(f"the source has more than {MOST_FILES:,} files")
    tree.files[file.path] = file
    if depth and file.path.lower().endswith(".zip") and depth < DEEPEST_ARCHIVE:
        unpacked = stack.enter_context(tempfile.SpooledTemporaryFile(max_size=PART_BYTES))  # noqa: SIM115 - the stack closes it
        try:
            # Unpacked first: a zip archive is read from its end, and to go back in a packed file, it is unpacked again.
            unpacked.write(tree.attachment(file.path))
        except BadSource as error:
            tree.skipped.append(SkippedItem(file.path, str(error)))
        else:
            above = file.path.rpartition("/")[0]
            _add_archive(tree, f"{above}/" if above else "", unpacked, stack, depth=depth + 1)
        del tree.files[file.path]


def _problem_of(entry: zipfile.ZipInfo) -> str:
    """Return why a file of an archive is not read, "" if it is."""
    name = entry.filename
    parts = name.replace("\\", "/").split("/")
    if name.startswith(("/", "\\")) or ".." in parts or (len(name) > 1 and name[1] == ":"):
        return "its path leads out of the archive"
    if any(ord(char) < 32 or char == "\x7f" for char in name):
        return "its name has a control character"
    if any(is_hidden(part) or part == "__MACOSX" for part in parts):
        return "a hidden file"
    # Archives that were made on Windows say no type, which is 0.
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        return "a link, which an import does not follow" if kind == stat.S_IFLNK else "no regular file"
    if entry.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    if entry.file_size > LARGEST_FILE:
        return f"it claims {entry.file_size:,} bytes; at most {LARGEST_FILE >> 20} MiB are read"
    if entry.file_size > LEAST_SUSPICIOUS and entry.file_size > MOST_RATIO * max(entry.compress_size, 1):
        return f"it claims to unpack to {entry.file_size // max(entry.compress_size, 1):,} times its size"
    return ""
