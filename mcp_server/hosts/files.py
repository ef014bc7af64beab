"""Changes a file that belongs to another program: it is backed up first, and replaced in one step with the same mode and owner."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from knowledge.errors import KnowledgeError

BACKUP = "{}.bak-knowledge-forge-"
_TRIES = 5  # a host may write to the file at the same moment


class ConfigurationRefused(KnowledgeError):
    """A host's configuration file that cannot be changed safely; nothing was written."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path} was not changed: {problem}")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The outcome of a rewrite; `backup` is None if none was needed or the file did not exist."""

    changed: bool
    backup: Path | None = None


def read(path: Path) -> str | None:
    """Return the file's text with its own line breaks and byte order mark; None if there is no file.

    Raises:
        ConfigurationRefused: it cannot be read, or is not UTF-8.
    """
    data = _read_bytes(path)
    return None if data is None else _decoded(path, data)


def rewrite(
    path: Path, edit: Callable[[str], str], *, backup: bool = True, same: Callable[[str], frozenset[str]] | None = None
) -> Rewritten:
    """Replace the file's text by `edit(text)`. A missing file counts as "".

    A symlink stays one, and its target is changed. With `backup`, a copy of the old file is left beside it first,
    unless an earlier copy has the same text or one of `same(text)`. If the host writes to the file at the same moment,
    its new text is edited instead.

    Raises:
        ConfigurationRefused: it cannot be read or written, or the host keeps writing to it.
    """
    target = Path(os.path.realpath(path))
    for _ in range(_TRIES):
        found = _read_bytes(target)
        before = "" if found is None else _decoded(target, found)
        after = edit(before)
        if after == before:
            return Rewritten(changed=False)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with _written(target, after.encode()) as temporary:
                # Hosts take no lock. With this check, only a write in the moment of the rename would be lost.
                if _read_bytes(target) != found:
                    continue
                known = {before} | (same(before) if same else frozenset())
                copy = _back_up(target, found, known) if backup and found is not None else None
                temporary.replace(target)
        except OSError as error:
            raise ConfigurationRefused(path, f"{error.strerror or error}; close the host and try again") from error
        _sync_folder(target.parent)
        return Rewritten(changed=True, backup=copy)
    raise ConfigurationRefused(path, "something keeps writing to it; close the host and try again")


def check_writable(path: Path) -> None:
    """Check that the file's folder, or the nearest existing one above it, can be written to.

    Raises:
        ConfigurationRefused: it cannot, or something that is not a folder is in the way.
    """
    folder = Path(os.path.realpath(path)).parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationRefused(path, f"{folder} is not writable")


def backups(path: Path) -> list[Path]:
    """Return the backups beside the file, oldest first."""
    target = Path(os.path.realpath(path))
    prefix = BACKUP.format(target.name)
    if not target.parent.is_dir():
        return []
    numbered = [(p.name.removeprefix(prefix), p) for p in target.parent.iterdir() if p.name.startswith(prefix)]
    return [p for _, p in sorted((int(number), p) for number, p in numbered if number.isdecimal())]


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationRefused(path, f"it cannot be read ({error.strerror or error})") from error


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationRefused(path, f"it is not UTF-8 text (byte {error.start})") from error


@contextlib.contextmanager
def _written(target: Path, data: bytes) -> Iterator[Path]:
    """Write `data` durably beside `target`, with its mode and owner; the new file is removed again unless it is renamed."""
    descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            # Before the rename, or a power failure could leave the host an empty configuration.
            os.fsync(file.fileno())
        _take_after(temporary, target)
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def _take_after(temporary: Path, target: Path) -> None:
    """Give the new file the old one's mode and owner. Without an old one, only its owner may read it, because it has a secret."""
    with contextlib.suppress(FileNotFoundError):
        old = target.stat()
        if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.getuid(), os.getgid()):
            # The owner comes before the mode: that may let the file's group read, which is this process's group until
            # here.
            with contextlib.suppress(PermissionError):
                os.chown(temporary, old.st_uid, old.st_gid)
        temporary.chmod(stat.S_IMODE(old.st_mode))


def _back_up(target: Path, data: bytes, known: set[str]) -> Path | None:
    earlier = backups(target)
    # Every installation writes a new secret; without this, each would leave another copy of the same text.
    if any(_read_bytes(copy) in {text.encode() for text in known} for copy in earlier):
        return None
    prefix = BACKUP.format(target.name)
    number = int(earlier[-1].name.removeprefix(prefix)) + 1 if earlier else 1
    copy = target.with_name(f"{prefix}{number}")
    with _written(copy, data) as temporary:
        _take_after(temporary, target)
        temporary.replace(copy)
    return copy


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows cannot sync a folder, and does not need to
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
