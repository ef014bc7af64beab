"""One worker at a time among processes, by a lock that the system lifts when its holder dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from knowledge.private_files import private_folder

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock at `path` inside the block and yield True, or yield False at once if somebody else holds it.

    The file stays: deleting it would let two processes hold the same name.
    """
    private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield _taken(descriptor) and _is_at(descriptor, path)
    finally:
        os.close(descriptor)  # closing is what unlocks, on every system


def _taken(descriptor: int) -> bool:
    with suppress(OSError):
        _lock(descriptor)
        return True
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether the locked file is still the one at `path`: its folder may have been deleted in between."""
    with suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False
