"""Answers of the writing tools: frozen values, cheap to import, because every tool list contains their schemas. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from knowledge.merge.model import BlockVerdict, Conflict, OfferedPlace, Ruling, Side, StatementQuestion

Status = Literal["done", "partial", "unchanged", "conflict", "analysis", "proposed"]
"""`partial`: some blocks are written, the others flagged, in conflict, or without a sure place. `conflict`: nothing is written.
`analysis`: nothing is written, because the call was a dry run, it is not known what the caller had read, or the place of the text
would be a guess."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The outcome of a merge. `revision` is the base of the next merge; None while there is no page.

    Usually it is the page's current revision. If others have written to the page since the base, it names the page as
    the caller knows it, so that a merge based on it removes none of their text; `note` then gives the current revision.
    `blocks` leaves out untouched blocks. `places` are where text that was not written could go, at most three, for the
    caller to choose; `questions` are for its model to answer in the next call. `verified`: read back and found as
    planned; None if nothing was written.
    """

    status: Status
    proposal: Mapping[str, Any] | None
    path: str
    revision: str | None
    blocks: Sequence[BlockVerdict]
    diff: str
    conflicts: Sequence[Conflict]
    verified: bool | None
    places: Sequence[OfferedPlace] = ()
    questions: Sequence[StatementQuestion] = ()
    note: str | None = None


@dataclass(frozen=True, slots=True)
class ChangeAnswer:
    """The outcome of a move, a deletion or a return to an earlier state.

    `path` is where the page is now, or was; `revision` is None when it is gone. `changed` are all pages that were written.
    """

    status: Status
    proposal: Mapping[str, Any] | None
    path: str
    revision: str | None
    changed: Sequence[str]
    diff: str
    conflicts: Sequence[Conflict]
    verified: bool | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class HistoryLine:
    """One state of a page. `by` is the principal, "" for a change made outside the server, for example in an editor.

    `revision` is None for a page that was removed; `added` and `removed` count lines.
    """

    revision: str | None
    at: str
    by: str
    tool: str
    source: str
    confidence: float | None
    proposal: str | None
    intent: str
    added: int
    removed: int
    moved_from: str | None


@dataclass(frozen=True, slots=True)
class PageSince:
    """The current revision of a page (None if there is no page), and its changes since an earlier one, newest first."""

    path: str
    revision: str | None
    changes: Sequence[HistoryLine]


@dataclass(frozen=True, slots=True)
class OriginLine:
    """The origin of a run of lines. `source` is `unknown` for changes made outside the server."""

    lines: str
    section: str
    source: str
    authority: float
    observed_at: str | None
    by: str
    revision: str | None
    corroborated_by: Sequence[str]


@dataclass(frozen=True, slots=True)
class History:
    """The states of a page, newest first, and where each line of the current one comes from (on the first page of the list only)."""

    path: str
    revision: str | None
    revisions: Sequence[HistoryLine]
    origins: Sequence[OriginLine]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class DismissalLine:
    """A person's dismissal of a contradiction, which is not raised again: both statements hold, or the existing one stays."""

    ruling: Ruling
    by: str
    at: str
    reason: str


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two claims that can't both be true, each with its origin. `kind` is what differs, such as `number` or `date`.

    `confidence`, 0..1, is the certainty that they contradict each other, times the confidence of the less credible
    side.
    """

    id: int
    kind: str
    subject: str
    reason: str
    flagged_at: str
    confidence: float
    existing: Side
    new: Side
    dismissed: DismissalLine | None = None


@dataclass(frozen=True, slots=True)
class Disagreements:
    """Contradictions, those of the highest confidence first."""

    contradictions: Sequence[Disagreement]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class DismissalAnswer:
    """The outcome of dismissing a contradiction. `claims` are its two texts, each after its page."""

    status: Literal["done", "analysis", "proposed"]
    proposal: Any
    contradiction_id: int
    claims: Sequence[str]


def join_notes(*notes: str | None) -> str:
    """Return several notes as one, "" if there are none."""
    return "; ".join(note for note in notes if note)
