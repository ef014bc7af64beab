"""Shared by the engines: the position of an empty index, and the lock that lets one process at a time catch up."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knowledge.private_files import private_folder
from knowledge.state.ports import IndexPosition

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


NOWHERE = IndexPosition("", 0)
"""The position of an index with nothing in it."""


@contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold the lock at `path` inside the block and yield True, or yield False at once if another process holds it.

    The system releases the lock when its holder dies. The file is never deleted: otherwise two processes could each hold a lock
    on a different file with that name.
    """
    private_folder(path.parent)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            _lock(descriptor)
            # The folder may have been deleted between opening and locking: then the locked file is no longer at `path`.
            mine = os.path.samestat(os.fstat(descriptor), path.stat())
        except OSError:
            mine = False
        yield mine
    finally:
        os.close(descriptor)  # closing releases the lock, on every system
