"""Requests to write, with paths as the caller gave them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from knowledge.history.ports import Actor
from knowledge.merge.model import StatementAnswer
from knowledge.writing.evidence.judge import PairJudgement


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's approval of exactly one effect (`Effect.digest`), with the data to record about it.

    `proposal` is "" if the person acted themselves.
    """

    proposal: str
    decision: str
    effect: str


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Knowledge for a page, one of its sections, or the best place under a directory. Times are aware UTC.

    `against` are texts of the page that a person decided against: text that contradicts them replaces them. `earlier`
    are requests for the same page that are carried out first, in the same act. `judgement` is a language model's
    opinion of the request, None before one was asked. `repeats` are sentences of the request that its writer had read
    in somebody else's text without naming that text as the source. Each is a digest of
    `knowledge.pages.markdown.passages`, with its origin. `answers` are the host's judgements of statements that it was
    asked about. If `content` is empty, the server fetches what the source says; `brought_from` is then that task or
    thread and its address. `inherits` is the source of the page that is cited, if its text is not trusted: a new page
    is marked with it.
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
    answers: tuple[StatementAnswer, ...] = ()
    brought_from: tuple[str, str] | None = None
    inherits: str = ""


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """Move a page to another path and rewrite the links to it."""

    actor: Actor
    path: str
    to: str


@dataclass(frozen=True, slots=True)
class RelinkRequest:
    """Repair the links that broke because somebody moved a page outside the server: they lead to its new path."""

    actor: Actor
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """Remove a page if it is still at the revision that the caller read."""

    actor: Actor
    path: str
    base_revision: str


@dataclass(frozen=True, slots=True)
class RevertRequest:
    """Restore a page to an earlier revision."""

    actor: Actor
    path: str
    revision: str


ChangeRequest = MoveRequest | DeleteRequest | RevertRequest
