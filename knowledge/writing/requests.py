"""What callers ask to be written. Paths are as the caller gave them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from knowledge.ledger.ports import Actor


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Knowledge for a page, one of its sections, or the best place under a directory. Times are aware UTC."""

    actor: Actor
    path: str
    content: str
    source: str = "user"
    section: str | None = None
    base_revision: str | None = None
    authority: float | None = None
    observed_at: datetime | None = None
    corroboration: tuple[str, ...] = ()
    intent: str = ""


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A page that is to be at another path, with every link to it."""

    actor: Actor
    path: str
    to: str


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """A page that is to go, if it is still what the caller read."""

    actor: Actor
    path: str
    base_revision: str


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """A page that is to be again what it was at a revision."""

    actor: Actor
    path: str
    revision: str


ChangeRequest = MoveRequest | DeleteRequest | RevertRequest
