"""What callers ask to be written. Paths are as the caller gave them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from knowledge.history.ports import Actor
from knowledge.writing.evidence.judge import PairJudgement


@dataclass(frozen=True, slots=True)
class Approval:
    """What a person agreed to: exactly this effect (`Effect.digest`), and how the agreement is put on record."""

    proposal: str
    decision: str
    effect: str


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Knowledge for a page, one of its sections, or the best place under a directory. Times are aware UTC.

    `against` are texts of the page that a person decided against: what says otherwise takes their place. `earlier` are
    requests for the same page that are carried out first, in the same act. `judgement` is what a language model holds of it,
    None before one was asked. `repeats` are sentences of it (see `knowledge.pages.markdown.passages`) that its writer was
    shown as somebody else's and does not name as such, each with where it comes from.
    """

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
    against: tuple[str, ...] = ()
    earlier: tuple[MergeRequest, ...] = ()
    judgement: PairJudgement | None = None
    repeats: tuple[tuple[bytes, str], ...] = ()


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
