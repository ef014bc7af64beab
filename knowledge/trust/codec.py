"""The stored form of proposals, and the rules that every engine applies to them. Pure."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import astuple, fields, replace
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from knowledge.errors import ProposalSettled, TooManyPending
from knowledge.history.acts import storable
from knowledge.history.timestamps import aware, moment, moment_if_any, utc_text
from knowledge.state.quota.bounds import LEAST_PROPOSED, Quotas, require_room_waiting
from knowledge.state.retention.cuts import ENDED, NOT_SHOWN, RETENTION, shortened, shortened_text
from knowledge.trust.ports import (
    JoinedAsker,
    Kind,
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
RECENT = timedelta(days=1)
"""How far back an update of a trust record reads earlier changes: a score may rise only by a limited amount per day."""
MOST_KEPT = 4_000
"""Characters of arguments and preview that are kept when a proposal has ended."""
LEFT_BY_RETENTION = 600
"""Characters of arguments and preview that are kept after the retention time."""
JOINABLE: Final[Kind] = "flag"
"""The kind of proposal that several principals may ask for. A call can't be shared: the others would get its result."""
LONGEST_SENTENCE = 400
"""Characters of the sentence about a proposal in a list."""

_FIXED = tuple(field.name for field in fields(Proposal))
_FIXED = _FIXED[: _FIXED.index("state")]
"""The fields of a proposal that never change, in the order in which they are stored."""
_SHOWN = tuple(field.name for field in fields(ProposalLine))
_SHOWN = _SHOWN[: _SHOWN.index("state")]
"""The fields of a line that never change, in the order in which they are stored."""
_TOLD = ("arguments", "level_held", "why", "preview", "journey")
"""The fields of an asker that come from its own call, in the order in which they are stored."""


def proposal_text(proposal: Proposal) -> str:
    """Return as JSON the part of a proposal that never changes, in ASCII, which every database stores unchanged."""
    form = {name: getattr(proposal, name) for name in _FIXED}
    return _json({**form, "revisions": dict(proposal.revisions)})


def line_text(proposal: Proposal, cut: ShortenedTexts | None = None) -> str:
    """Return as JSON the part of a proposal that lists show and that never changes, and how its texts were `cut`."""
    try:
        preview = json.loads(proposal.preview)
    except ValueError:
        preview = {}
    preview = preview if isinstance(preview, dict) else {}
    from_preview = {
        "sentence": shortened_text(str(preview.get("sentence") or ""), LONGEST_SENTENCE, NOT_SHOWN),
        "run": preview.get("run") or {},
    }
    form = {name: from_preview[name] if name in from_preview else getattr(proposal, name) for name in _SHOWN}
    return _json({**form, "cut": [cut.arguments, cut.size_bytes]} if cut else form)


def cut_in(line: str | None) -> ShortenedTexts | None:
    """Return how the texts of the proposal with that line were cut, or None if they are whole."""
    found = json.loads(line).get("cut") if line else None
    return ShortenedTexts(*found) if found else None


def readable(made: Callable[[Any], MadeT], rows: Iterable[Any]) -> list[MadeT]:
    """Return the result of `made` for each readable row, so that a row spoiled by another program does not hide the others."""
    found = []
    for row in rows:
        try:
            found.append(made(row))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            log.warning("a proposal in the state database cannot be read and is left out (%s)", type(error).__name__)
    return found


def proposal_line(row: Sequence[Any]) -> ProposalLine:
    """Return the line from a row with line, told, state, verdict, whether it has a result, and the remaining fields in order.

    `told` is read only if an older program wrote no line.
    """
    line, told, state, verdict, answered, ended_at, successor, runs_until = row
    form = json.loads(line if line is not None else line_text(proposal_from(told)))
    form.pop("cut", None)
    return ProposalLine(
        **_with_times(form),
        state=state,
        verdict=None if verdict is None else verdict_of(verdict),
        answered=bool(answered),
        ended_at=moment_if_any(ended_at),
        successor=successor,
        runs_until=moment_if_any(runs_until),
    )


def line_of(proposal: Proposal) -> ProposalLine:
    """Return the line of the proposal."""
    p = proposal
    verdict = None if p.verdict is None else verdict_text(p.verdict)
    return proposal_line(
        (line_text(p), None, p.state, verdict, p.result is not None, p.ended_at, p.successor, p.runs_until)
    )


def kept_by_now(proposal: Proposal, ended_before: datetime | None, *, is_origin: bool = False) -> tuple[int, Proposal]:
    """Return how much of the proposal is still kept (0 all, 1 after its end, 2 after its retention), and that part."""
    if proposal.open:
        return 0, proposal
    if proposal.kind == "admin":  # its arguments are the record of what a person registered
        return 2, proposal
    if ended_before is not None and proposal.ended_at is not None and proposal.ended_at < ended_before:
        return 2, shortened_proposal(proposal, RETENTION, LEFT_BY_RETENTION)
    # A proposal that was made from this one still needs its arguments, to find the text and its origins.
    return 1, proposal if is_origin else shortened_proposal(proposal, ENDED)


def shortened_proposal(proposal: Proposal, why: str, room: int = MOST_KEPT) -> Proposal:
    """Return the proposal with its texts cut to about `room` characters; unchanged if they are no longer than that."""
    arguments, preview, result = proposal.arguments, proposal.preview, proposal.result or ""
    long_result = why == RETENTION and len(result) > room
    if len(arguments) + len(preview) <= room and not long_result:
        return proposal
    digest = hashlib.sha256(arguments.encode("utf-8", "surrogatepass")).hexdigest()
    return replace(
        proposal,
        # People read the preview, so it gets most of the room.
        arguments=_shorter(arguments, room // 4, why),
        preview=_shorter(preview, room * 3 // 4, why),
        result=_shorter(result, room, why) if long_result else proposal.result,
        # The first cut saw the complete texts: a later one must not replace its digest.
        cut=proposal.cut or ShortenedTexts(digest, len(proposal_text(proposal)) + len(result)),
    )


def _shorter(text: str, room: int, why: str) -> str:
    """Return JSON of the same form in about `room` characters."""
    if len(text) <= room:
        return text
    value = json.loads(text)
    if isinstance(value, dict):  # a preview: its sentence and its answer are read by name
        each = room // max(1, len(value))
        value = {name: one if name == "run" else shortened(one, each, why) for name, one in value.items()}
    else:
        value = shortened(value, room, why)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def proposal_from(text: str) -> Proposal:
    """Return the proposal with that `proposal_text`, in its initial state."""
    return Proposal(**_with_times(json.loads(text)))


def _with_times(form: dict[str, Any]) -> dict[str, Any]:
    times = {name: datetime.fromisoformat(form[name]) for name in ("created_at", "expires_at")}
    return {**form, **times, "documents": tuple(form["documents"])}


def proposal_of(row: Sequence[Any]) -> Proposal:
    """Return the proposal from a row of `proposal_text`, the fields from state to `runs_until` in their order, and its line."""
    told, state, verdict, result, error, ended_at, successor, runner, runs_until, line = row
    return replace(
        proposal_from(told),
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


def asker_of(proposal: Proposal) -> JoinedAsker:
    """Return the principal of this proposal as an asker that joins another proposal instead of making this one."""
    p = proposal
    return JoinedAsker(p.principal, aware(p.created_at), p.arguments, p.level_held, p.why, p.preview, p.journey)


def asker_text(asker: JoinedAsker) -> str:
    """Return the texts of an asker's own call as JSON in ASCII, which every database stores unchanged."""
    return _json({name: getattr(asker, name) for name in _TOLD})


def asker_from(row: Sequence[Any]) -> JoinedAsker:
    """Return the asker in a row of principal, time of asking, time of leaving and `asker_text`."""
    principal, asked_at, left_at, told = row
    return JoinedAsker(principal, moment(asked_at), left_at=moment_if_any(left_at), **json.loads(told))


def as_asked_by(proposal: Proposal, asker: JoinedAsker) -> Proposal:
    """Return the proposal with the texts of the asker's own call in place of those of the principal that made it.

    Its hash stays that of the proposal. For an asker that withdrew, its state is `withdrawn`.
    """
    own = replace(
        proposal,
        principal=asker.principal,
        created_at=asker.asked_at,
        origin=None,
        **{name: getattr(asker, name) for name in _TOLD},
    )
    if asker.left_at is None:
        return own
    ended: dict[str, Any] = {"verdict": None, "result": None, "error": None, "successor": None}
    return replace(own, state="withdrawn", ended_at=asker.left_at, **ended)


def shortened_asker(
    proposal: Proposal, asker: JoinedAsker, ended_before: datetime | None, *, is_origin: bool = False
) -> JoinedAsker:
    """Return the asker with as much of its texts as is still kept, by the rules for proposals."""
    _, own = kept_by_now(as_asked_by(proposal, replace(asker, left_at=None)), ended_before, is_origin=is_origin)
    return replace(asker, arguments=own.arguments, preview=own.preview)


def verdict_text(verdict: ProposalVerdict) -> str:
    """Return a person's decision as JSON."""
    told = astuple(verdict)
    # Left out where it says nothing, so that a program without it can still read the row.
    return _json(told if verdict.changes else told[:-1])


def verdict_of(text: str) -> ProposalVerdict:
    """Return the decision with that JSON."""
    approved, by, channel, at, *rest = json.loads(text)
    return ProposalVerdict(approved, by, channel, datetime.fromisoformat(at), *rest)


def storable_or_none(text: str | None) -> str | None:
    """Return a result or an error, with characters replaced that some database can't store."""
    return None if text is None else storable(text)


def storable_passkey(passkey: Passkey) -> Passkey:
    """Return the passkey with names that every database can store."""
    aware(passkey.created_at)
    return replace(passkey, name=storable(passkey.name), user=storable(passkey.user))


def superseded(
    proposal: Proposal,
    pending: Sequence[tuple[str, str, int]],
    replacing: Collection[str],
    most_pending: int,
    quotas: Quotas | None = None,
    *,
    joined: Sequence[tuple[str, int]] = (),
    size: int | None = None,
) -> Sequence[str]:
    """Return the ids of the proposals that `proposal` replaces, among its principal's `pending` ones (id, kind and bytes).

    `joined` are other principals' proposals that its principal joined (id and bytes). `size` is its stored size in bytes if it joins
    another proposal.

    Raises:
        TooManyPending: even without the replaced ones, the maximum is pending.
        OverQuota: it would exceed the allowed number of bytes.
        ProposalSettled: it was made from one of those that it replaces, which is no longer pending.
    """
    gone = [id_ for id_, _, _ in pending if id_ in replacing]
    if proposal.origin in replacing and proposal.origin not in gone:
        raise ProposalSettled(str(proposal.origin))
    if proposal.kind == "admin":
        return gone
    pending = [*pending, *((id_, JOINABLE, bytes_) for id_, bytes_ in joined)]
    if sum(kind == proposal.kind and id_ not in gone for id_, kind, _ in pending) >= most_pending:
        raise TooManyPending(proposal.principal, most_pending)
    if quotas is not None:
        waiting = sum(bytes_ for id_, kind, bytes_ in pending if kind != "admin" and id_ not in gone)
        size = len(proposal_text(proposal)) if size is None else size
        require_room_waiting(quotas, proposal.principal, waiting, size, proposal.created_at)
    return gone


def counted_size(proposal: Proposal, size: int | None = None) -> int:
    """Return the bytes that a proposal counts as; `size` is its stored size if it joins another proposal."""
    return max(LEAST_PROPOSED, len(proposal_text(proposal)) if size is None else size)


def asks_the_same(pending: Proposal, fresh: Proposal) -> bool:
    """Return whether the fresh proposal of another principal would put the same question to a person as the pending one."""
    both = (pending.kind, fresh.kind) == (JOINABLE, JOINABLE) and pending.state == "pending"
    return (
        both and (pending.tool, pending.effect) == (fresh.tool, fresh.effect) and pending.principal != fresh.principal
    )


def only_time_differs(before: TrustRecord, after: TrustRecord) -> bool:
    """Return whether the two differ in their times only."""
    return replace(after, updated_at=before.updated_at) == before


def change_line(
    principal: str, before: TrustRecord | None, after: TrustRecord, note: Note, *, unseen: float
) -> TrustChange:
    """Return the line of history, without its number, for a trust record that is replaced.

    Raises:
        ValueError: it is another principal's: a bug in the caller.
    """
    if after.principal != principal:
        raise ValueError(f"a trust record of {after.principal!r} cannot replace one of {principal!r}")
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
    return json.dumps(form, separators=(",", ":"), allow_nan=False, default=utc_text)
