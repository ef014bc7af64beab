"""A lock between processes that a killed process gives back."""

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
            except OSError:  # it gives up after ten seconds; we do not
                continue
            return
else:
    import fcntl

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Hold the lock file at `path`, waiting for whoever has it. It stays behind, empty: removing it would free two."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _lock(file)
        yield
    finally:
        os.close(file)
