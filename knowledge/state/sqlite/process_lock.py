"""A lock between processes, which a killed process releases."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(file: int) -> None:
        while True:
            try:
                msvcrt.locking(file, msvcrt.LK_LOCK, 1)
            except OSError:  # `locking` gives up after ten seconds
                continue
            return
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Hold the lock on the file at `path`, after waiting for it. The empty file stays: if it were removed, two could hold the lock."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file)
        yield
    finally:
        os.close(file)
