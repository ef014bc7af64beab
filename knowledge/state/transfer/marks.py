"""Marks a state database that must not be used: its state was moved away, or is still arriving. Pure.

The mark is a schema version higher than any program knows, so that older programs refuse the database too. A lease that nobody holds
names the other database.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from knowledge.errors import MoveUnfinished, StateMoved, StorageError

ARRIVING, LEFT = 1_000_000, 2_000_000
"""Added to the schema version."""
MARK_LEASE = "state move"
"""The lease whose holder is the place of the other database."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`arriving` from the database `other`, `left` for it, or `used`."""

    standing: Literal["used", "arriving", "left"] = "used"
    other: str = ""


USED = Mark()


def mark_of(version: int, other: str) -> Mark:
    """Return the mark of a database with that schema version."""
    if version >= LEFT:
        return Mark("left", other)
    return Mark("arriving", other) if version >= ARRIVING else USED


def marked_version(version: int, mark: Mark) -> int:
    """Return the schema version with that mark; `version` may have another one."""
    return version % ARRIVING + {"used": 0, "arriving": ARRIVING, "left": LEFT}[mark.standing]


def unusable(place: str, version: int, other: str) -> StorageError | None:
    """Return the error for a marked database, or None."""
    mark = mark_of(version, other)
    if mark.standing == "used":
        return None
    return StateMoved(place, other) if mark.standing == "left" else MoveUnfinished(place, other)
