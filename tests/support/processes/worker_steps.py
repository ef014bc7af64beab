"""Steps for worker processes, at the top level of a module that a worker can import."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Never

from knowledge.errors import NoSuchSection


def process(_: object) -> int:
    """Return the working process's id."""
    return os.getpid()


def endless(started: Path) -> Never:
    """Write the process id to a file and work forever."""
    staged = started.with_suffix(".staged")
    staged.write_text(str(os.getpid()), encoding="utf-8")
    staged.rename(started)
    while True:
        pass


def asleep(seconds: float) -> int:
    """Do nothing for a while."""
    time.sleep(seconds)
    return os.getpid()


def greedy(size: int) -> int:
    """Use that much memory."""
    return len(bytearray(size))


def deep(levels: int) -> int:
    """Recurse this deep."""
    return 1 + deep(levels - 1) if levels else 0


def wrong(path: str) -> Never:
    """Fail with an error of the domain."""
    raise NoSuchSection(path, "Limits", ["One", "Two"])


def modules(name: str) -> str:
    """Return the location of a loaded module."""
    return str(__import__(name).__file__)
