"""The forms in which engines keep proposals, and the few rules that are the same in all of them. Pure."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from knowledge.errors import TooManyPending
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware, moment_if_any, utc_text
from knowledge.state.quota.bounds import LEAST_PROPOSED, Quotas, require_room_waiting
from knowledge.state.retention.cuts import ENDED, NOT_SHOWN, RETENTION, shortened, shortened_text
from knowledge.trust.ports import (
    Note,
    Passkey,
    Proposal,
    ProposalLine,
    ProposalVerdict,
    ShortenedTexts,
    TrustChange,
    TrustRecord,
)

MadeT = TypeVar("MadeT")
log = logging.getLogger(__name__)

TAINT_KEPT = timedelta(days=30)
PASSAGES_KEPT = timedelta(days=1)
MOST_PASSAGES = 20_000
"""Of one caller: at less than a hundred bytes each that bounds what reading may cost."""
RECENT = timedelta(days=1)
"""The changes of a trust record that a new one may look back at."""
MOST_KEPT = 4_000
"""Characters of arguments and preview that are kept of a proposal that ended."""
LEFT_BY_RETENTION = 600
"""Characters that are kept of them after their retention."""
LONGEST_SENTENCE = 400
"""Characters of what a list says of a proposal."""


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


def line_text(proposal: Proposal, cut: ShortenedTexts | None = None) -> str:
    """Return as JSON what a list shows of a proposal and nothing will change of it, and that it is `cut`."""
    p = proposal
    try:
        preview = json.loads(p.preview)
    except ValueError:
        preview = {}
    preview = preview if isinstance(preview, dict) else {}
    form: dict[str, Any] = {
        "id": p.id,
        "kind": p.kind,
        "tool": p.tool,
        "principal": p.principal,
        "effect": p.effect,
        "hash": p.hash,
        "level_needed": p.level_needed,
        "sentence": shortened_text(str(preview.get("sentence") or ""), LONGEST_SENTENCE, NOT_SHOWN),
        "run": preview.get("run") or {},
        "documents": p.documents,
        "created_at": utc_text(p.created_at),
        "expires_at": utc_text(p.expires_at),
        "journey": p.journey,
        "origin": p.origin,
    }
    return _json({**form, "cut": [cut.arguments, cut.size_bytes]} if cut else form)


def cut_in(line: str | None) -> ShortenedTexts | None:
    """Return whether the proposal with that line is cut, and how."""
    found = json.loads(line).get("cut") if line else None
    return ShortenedTexts(*found) if found else None


def readable(made: Callable[[Any], MadeT], rows: Iterable[Any]) -> list[MadeT]:
    """Return what is made of the rows that can be read; one that another program spoiled must not hide all others."""
    found = []
    for row in rows:
        try:
            found.append(made(row))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            log.warning("a proposal in the state database cannot be read and is left out (%s)", type(error).__name__)
    return found


def proposal_line(row: Sequence[Any]) -> ProposalLine:
    """Return the proposal in a row of line, told, state, verdict, whether it is answered, and so on in that order.

    Without a line, which an older program did not write, it is made of what was told; with one that is not read.
    """
    line, told, state, verdict, answered, ended_at, successor, runs_until = row
    form = json.loads(line if line is not None else line_text(proposed(told)))
    form.pop("cut", None)
    times = {name: datetime.fromisoformat(form[name]) for name in ("created_at", "expires_at")}
    return ProposalLine(
        **{**form, **times, "documents": tuple(form["documents"])},
        state=state,
        verdict=None if verdict is None else verdict_of(verdict),
        answered=bool(answered),
        ended_at=moment_if_any(ended_at),
        successor=successor,
        runs_until=moment_if_any(runs_until),
    )


def line_of(proposal: Proposal) -> ProposalLine:
    """Return what a list shows of the proposal."""
    p = proposal
    verdict = None if p.verdict is None else verdict_text(p.verdict)
    return proposal_line(
        (line_text(p), None, p.state, verdict, p.result is not None, p.ended_at, p.successor, p.runs_until)
    )


def after_its_end(
    proposal: Proposal, ended_before: datetime | None, *, is_origin: bool = False
) -> tuple[int, Proposal]:
    """Return how much may be kept of the proposal by now (0 all, 1 after its end, 2 after its retention), and that."""
    if proposal.open:
        return 0, proposal
    over = ended_before is not None and proposal.ended_at is not None and proposal.ended_at < ended_before
    if proposal.kind == "admin":  # what was enrolled is accounted for by their arguments
        return 2, proposal
    if over:
        return 2, cut_down(proposal, RETENTION, LEFT_BY_RETENTION)
    # What another one was made from is looked up by its arguments: where text was read that came into it.
    return 1, proposal if is_origin else cut_down(proposal, ENDED)


def cut_down(proposal: Proposal, why: str, room: int = MOST_KEPT) -> Proposal:
    """Return the proposal with the beginnings of its texts, in about `room` characters; itself if it has no more."""
    size = len(told(proposal)) + len(proposal.result or "")
    arguments, preview = proposal.arguments, proposal.preview
    long_result = why == RETENTION and len(proposal.result or "") > room
    if len(arguments) + len(preview) <= room and not long_result:
        return proposal
    digest = hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).hexdigest()
    return replace(
        proposal,
        arguments=_shorter(arguments, room // 4, why),
        preview=_shorter(preview, room * 3 // 4, why),
        result=_shorter(proposal.result, room, why) if proposal.result and long_result else proposal.result,
        cut=proposal.cut or ShortenedTexts(digest, size),
    )


def _shorter(text: str, room: int, why: str) -> str:
    """Return JSON of the same form in about so many characters."""
    if len(text) <= room:
        return text
    value = json.loads(text)
    if isinstance(value, dict):  # a preview: its sentence and its answer are read by name
        each = room // max(1, len(value))
        value = {name: one if name == "run" else shortened(one, each, why) for name, one in value.items()}
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(shortened(value, room, why), ensure_ascii=False, separators=(",", ":"))


def proposed(told: str) -> Proposal:
    """Return the proposal that `told` made that text of, as nothing has happened to it yet."""
    form = json.loads(told)
    times = {key: datetime.fromisoformat(form[key]) for key in ("created_at", "expires_at")}
    return Proposal(**{**form, **times, "documents": tuple(form["documents"])})


def proposal_of(row: Sequence[Any]) -> Proposal:
    """Return the proposal as it is by now: what `told` said of it, then state, verdict, result, error and so on in its order."""
    told, state, verdict, result, error, ended_at, successor, runner, runs_until, line = row
    return replace(
        proposed(told),
        state=state,
        verdict=None if verdict is None else verdict_of(verdict),
        result=result,
        error=error,
        ended_at=moment_if_any(ended_at),
        successor=successor,
        runner=runner,
        runs_until=moment_if_any(runs_until),
        cut=cut_in(line),
    )


def verdict_text(verdict: ProposalVerdict) -> str:
    """Return what a person said as JSON."""
    v = verdict
    return _json([v.approved, v.by, v.channel, utc_text(v.at), v.hash, v.note, v.signed, v.advisory])


def verdict_of(text: str) -> ProposalVerdict:
    """Return what `verdict_text` made that text of."""
    approved, by, channel, at, *rest = json.loads(text)
    return ProposalVerdict(approved, by, channel, datetime.fromisoformat(at), *rest)


def said(text: str | None) -> str | None:
    """Return a result or an error so that every database keeps it."""
    return None if text is None else storable(text)


def kept_passkey(passkey: Passkey) -> Passkey:
    """Return the passkey with names that every database keeps."""
    aware(passkey.created_at)
    return replace(passkey, name=storable(passkey.name), user=storable(passkey.user))


def replaced(
    proposal: Proposal,
    pending: Sequence[tuple[str, str, int]],
    replacing: Collection[str],
    most_pending: int,
    quotas: Quotas | None = None,
) -> Sequence[str]:
    """Return which of its principal's pending proposals (id, kind and bytes) it takes the place of.

    Raises:
        TooManyPending: those that would be left are as many as there may be.
        OverQuota: with it they would be more bytes than there may be.
    """
    gone = [id_ for id_, _, _ in pending if id_ in replacing]
    left = sum(kind == proposal.kind and id_ not in gone for id_, kind, _ in pending)
    if proposal.kind != "admin" and left >= most_pending:
        raise TooManyPending(proposal.principal, most_pending)
    if proposal.kind != "admin" and quotas is not None:
        waiting = sum(size for id_, kind, size in pending if kind != "admin" and id_ not in gone)
        require_room_waiting(quotas, proposal.principal, waiting, len(told(proposal)), proposal.created_at)
    return gone


def charged(proposal: Proposal) -> int:
    """Return how many bytes a proposal counts as."""
    return max(LEAST_PROPOSED, len(told(proposal)))


def same_trust_record(before: TrustRecord | None, after: TrustRecord) -> bool:
    """Return whether nothing but the time differs."""
    return before is not None and replace(after, updated_at=before.updated_at) == before


def changed_standing(
    principal: str, before: TrustRecord | None, after: TrustRecord, note: Note, *, unseen: float
) -> TrustChange:
    """Return the line of history, without its number, for a trust record that is replaced.

    Raises:
        ValueError: it is another principal's: a mistake of the caller.
    """
    if after.principal != principal:
        raise ValueError(f"a standing of {after.principal!r} in place of one of {principal!r}")
    aware(after.updated_at)
    return TrustChange(
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
