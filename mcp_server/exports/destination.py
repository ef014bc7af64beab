"""The place of an export: written whole beside it, then renamed. Only an earlier export that nobody changed is replaced."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from knowledge.errors import KnowledgeError
from knowledge.pages.vault import PART_BYTES
from mcp_server.exports.claims import BadExport

MANIFEST = ".knowledge-forge-export.jsonl"
"""The hidden file in an exported folder that lists every file with its SHA-256; its first line names the form."""
LONGEST_LINE = 1 << 28


class ExportRefused(KnowledgeError):
    """The destination can't be used. Nothing was written, and everything there is as it was."""

    def __init__(self, place: Path, reason: str) -> None:
        self.place, self.reason = place, reason
        super().__init__(f"nothing was exported to {place}: {reason}")


class FolderWriter:
    """Writes the files of an export into a new folder and remembers their digests for the manifest."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.digests: dict[str, str] = {}

    def write(self, path: str, raw: bytes) -> str:
        """Write one file and return its SHA-256, hexadecimal. The path is relative and new."""
        with self._created(path) as file:
            file.write(raw)
        self.digests[path] = hashlib.sha256(raw).hexdigest()
        return self.digests[path]

    def copy(self, path: str, descriptor: int) -> tuple[str, int]:
        """Write everything that can be read from the descriptor, and return SHA-256 and size."""
        digest, size = hashlib.sha256(), 0
        with self._created(path) as file:
            while part := os.read(descriptor, PART_BYTES):
                file.write(part)
                digest.update(part)
                size += len(part)
        self.digests[path] = digest.hexdigest()
        return self.digests[path], size

    @contextlib.contextmanager
    def _created(self, path: str) -> Iterator[IO[bytes]]:
        place = self.root.joinpath(*path.split("/"))
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            yield file


@contextlib.contextmanager
def new_folder(destination: Path, form: str, kb: Path) -> Iterator[FolderWriter]:
    """Yield the writer of a new export of this form; when the block ends without an error, the folder has its name.

    Raises:
        ExportRefused: the destination lies in the knowledge base or around it, holds something else, or was changed by hand.
    """
    _require_outside(destination, kb)
    # Before anything is written: an export that is refused should not take minutes first.
    earlier = _earlier_export(destination, form)
    beside = Path(tempfile.mkdtemp(prefix=f".{destination.name}-", suffix=".partial", dir=_parent_of(destination)))
    try:
        # `mkdtemp` lets only its owner in, but an export is an ordinary folder.
        beside.chmod(0o777 & ~_umask())
        yield FolderWriter(beside)
        _put_in_place(beside, destination, earlier=earlier)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextlib.contextmanager
def new_file(destination: Path, form: str, kb: Path) -> Iterator[IO[bytes]]:
    """Yield a file to write; when the block ends without an error, it has its name.

    Raises:
        ExportRefused: the destination lies in the knowledge base, or something that is not an earlier export of this form is there.
    """
    _require_outside(destination, kb)
    is_there = destination.is_symlink() or destination.exists()
    if is_there and (destination.is_symlink() or not destination.is_file() or _form_of(destination) != form):
        raise ExportRefused(destination, "something that is no earlier export is there; name another file")
    descriptor, name = tempfile.mkstemp(prefix=f".{destination.name}-", suffix=".partial", dir=_parent_of(destination))
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # `mkstemp` lets only its owner read, but an export is an ordinary file.
        Path(name).chmod(0o666 & ~_umask())
        os.replace(name, destination)  # noqa: PTH105  a plain call, like its neighbours
    finally:
        Path(name).unlink(missing_ok=True)


def manifest_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of an exported folder's manifest, the one that names the form first.

    Raises:
        BadExport, ValueError: it is not a manifest.
        OSError: it can't be read.
    """
    with (folder / MANIFEST).open("rb") as file:
        for line in iter(lambda: file.readline(LONGEST_LINE), b""):
            value = json.loads(line)
            if not isinstance(value, dict):
                raise BadExport("a line of the manifest is not an object")
            yield value


def _require_outside(destination: Path, kb: Path) -> None:
    real, root = Path(os.path.realpath(destination)), Path(os.path.realpath(kb))
    if real == root or root in real.parents:
        raise ExportRefused(
            destination, "it lies in the knowledge base, which would then hold everything twice; name a folder outside"
        )
    if real in root.parents:
        raise ExportRefused(destination, "it holds the knowledge base; name another folder")


def _parent_of(destination: Path) -> Path:
    if not destination.parent.is_dir():
        raise ExportRefused(destination, f"there is no folder {destination.parent}; create it first")
    return destination.parent


def _earlier_export(destination: Path, form: str) -> bool:
    """Return whether an earlier export of this form is there and nobody has changed it; False if nothing is there."""
    if not destination.exists() and not destination.is_symlink():
        return False
    if destination.is_symlink() or not destination.is_dir():
        raise ExportRefused(destination, "something that is not a folder is there; name another folder")
    if not any(destination.iterdir()):
        return True
    try:
        lines = manifest_in(destination)
        head = next(lines, {})
        known: Mapping[str, str] = {str(line.get("path")): str(line.get("sha256")) for line in lines}
    except (OSError, ValueError, BadExport):
        raise ExportRefused(
            destination, "the folder is not empty, and no earlier export wrote it; name another folder, or an empty one"
        ) from None
    if head.get("format") != form:
        raise ExportRefused(
            destination, f"the folder is an export of another kind ({head.get('format')}); name another folder"
        )
    if changed := _changed_by_hand(destination, known):
        raise ExportRefused(
            destination,
            f"{changed} was added or changed there since the earlier export; move it away, or name another folder",
        )
    return True


def _changed_by_hand(folder: Path, known: Mapping[str, str]) -> str | None:
    """Return the first file of the folder that is not as the manifest says; None if all are."""
    for above, folders, names in os.walk(folder):
        for name in (*names, *folders):
            file = Path(above) / name
            path = file.relative_to(folder).as_posix()
            if file.is_symlink() or (name in names and path != MANIFEST and _digest(file) != known.get(path)):
                return path
    return None


def _digest(file: Path) -> str | None:
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _form_of(file: Path) -> str | None:
    """Return the form that the first line of a file names; None if it names none."""
    try:
        with file.open("rb") as opened:
            value = json.loads(opened.readline(LONGEST_LINE))
    except (OSError, ValueError):
        return None
    return str(value["format"]) if isinstance(value, dict) and "format" in value else None


def _put_in_place(new: Path, destination: Path, *, earlier: bool) -> None:
    """Give the new folder its name. An earlier export is set aside first, and comes back if the rename fails."""
    if not earlier:
        new.rename(destination)
        return
    aside = destination.with_name(f".{destination.name}-{secrets.token_hex(4)}.earlier")
    destination.rename(aside)
    try:
        new.rename(destination)
    except OSError:
        aside.rename(destination)
        raise
    shutil.rmtree(aside)


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
