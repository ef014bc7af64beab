"""The forms in which engines keep proposals, and the few rules that are the same in all of them. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from knowledge.errors import TooManyPending
from knowledge.ledger.acts import storable
from knowledge.ledger.moments import aware, utc_text
from knowledge.trust.ports import Note, Passkey, Proposal, Standing, StandingChange, Verdict

TAINT_KEPT = timedelta(days=30)
PASSAGES_KEPT = timedelta(days=1)
MOST_PASSAGES = 20_000
"""Of one caller: at less than a hundred bytes each that bounds what reading may cost."""
RECENT = timedelta(days=1)
"""The changes of a standing that a new one may look back at."""


def told(proposal: Proposal) -> str:
    """Return as JSON the part of a proposal that never changes. ASCII, so that every database keeps every character."""
    p = proposal
    return _json(
        {
            "id": p.id,
            "kind": p.kind,
            "tool": p.tool,
            "tool_hash": p.tool_hash,
            "arguments": p.arguments,
            "principal": p.principal,
            "revisions": dict(p.revisions),
            "effect": p.effect,
            "policy": p.policy,
            "hash": p.hash,
            "level_needed": p.level_needed,
            "level_held": p.level_held,
            "why": p.why,
            "preview": p.preview,
            "documents": p.documents,
            "created_at": utc_text(p.created_at),
            "expires_at": utc_text(p.expires_at),
            "journey": p.journey,
            "origin": p.origin,
        }
    )


def proposed(told: str) -> Proposal:
    """Return the proposal that `told` made that text of, as nothing has happened to it yet."""
    form = json.loads(told)
    times = {key: datetime.fromisoformat(form[key]) for key in ("created_at", "expires_at")}
    return Proposal(**{**form, **times, "documents": tuple(form["documents"])})


def proposal_of(row: Sequence[Any]) -> Proposal:
    """Return the proposal as it is by now: what `told` said of it, then state, verdict, result, error and so on in its order."""
    told, state, verdict, result, error, ended_at, successor, runner, runs_until = row
    return replace(
        proposed(told),
        state=state,
        verdict=None if verdict is None else verdict_of(verdict),
        result=result,
        error=error,
        ended_at=ended_at,
        successor=successor,
        runner=runner,
        runs_until=runs_until,
    )


def verdict_text(verdict: Verdict) -> str:
    """Return what a person said as JSON."""
    v = verdict
    return _json([v.approved, v.by, v.channel, utc_text(v.at), v.hash, v.note, v.signed, v.advisory])


def verdict_of(text: str) -> Verdict:
    """Return what `verdict_text` made that text of."""
    approved, by, channel, at, *rest = json.loads(text)
    return Verdict(approved, by, channel, datetime.fromisoformat(at), *rest)


def said(text: str | None) -> str | None:
    """Return a result or an error so that every database keeps it."""
    return None if text is None else storable(text)


def kept_passkey(passkey: Passkey) -> Passkey:
    """Return the passkey with names that every database keeps."""
    aware(passkey.created_at)
    return replace(passkey, name=storable(passkey.name), user=storable(passkey.user))


def replaced(
    proposal: Proposal, pending: Sequence[tuple[str, str]], replacing: Collection[str], most_pending: int
) -> Sequence[str]:
    """Return which of its principal's pending proposals (id and kind) it takes the place of.

    Raises:
        TooManyPending: those that would be left are as many as there may be.
    """
    gone = [id_ for id_, _ in pending if id_ in replacing]
    left = sum(kind == proposal.kind and id_ not in gone for id_, kind in pending)
    if proposal.kind != "admin" and left >= most_pending:
        raise TooManyPending(proposal.principal, most_pending)
    return gone


def same_standing(before: Standing | None, after: Standing) -> bool:
    """Return whether nothing but the time differs."""
    return before is not None and replace(after, updated_at=before.updated_at) == before


def changed_standing(
    principal: str, before: Standing | None, after: Standing, note: Note, *, unseen: float
) -> StandingChange:
    """Return the line of history, without its number, for a standing that is replaced.

    Raises:
        ValueError: it is another principal's: a mistake of the caller.
    """
    if after.principal != principal:
        raise ValueError(f"a standing of {after.principal!r} in place of one of {principal!r}")
    aware(after.updated_at)
    return StandingChange(
        id=0,
        principal=principal,
        at=note.at,
        score_before=before.score if before else unseen,
        score_after=after.score,
        reason=storable(note.reason),
        by=storable(note.by),
    )


def _json(form: object) -> str:
    return json.dumps(form, separators=(",", ":"), allow_nan=False)
