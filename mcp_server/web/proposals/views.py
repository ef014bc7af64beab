"""A proposal as its page shows it: everything that a decision is about, nothing cut in silence. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from markupsafe import Markup

from knowledge.errors import size_in_words
from knowledge.history.ports import Flag
from knowledge.merge.model import Contradiction, Side
from knowledge.trust.audit_entries import PLACES
from knowledge.trust.ports import Proposal, ProposalLine, TrustRecord
from knowledge.writing.answers import Disagreement, OriginLine
from mcp_server.approvals.approvers import Requirement, requirement
from mcp_server.approvals.proposals import RUN, places_of
from mcp_server.gate.trust.scores import grant_of
from mcp_server.web.proposals.page_changes import DiffOptions, FileView, files_of
from mcp_server.web.proposals.passages import MARKED
from mcp_server.web.text.sanitize import sanitize, sanitize_line
from mcp_server.web.text.values import ANY_LENGTH, LONG_TEXT, Moment, ShownField, ShownText, fields_of, folded, moment

LAST_DECIDED = 5
SHOWN_APART = ("blocks", "conflicts", "diff", "status", "proposal", "verified", "path", "revision", "changed")
"""Parts of an answer that have their own place on the page, or say nothing before the act."""

MOST_PARTS = 50
"""Blocks, conflicts and contradictions of one proposal that are shown at once, of each so many."""


@dataclass(frozen=True, slots=True)
class ProposalContext:
    """What is known around a proposal: who asks, what they asked before, where the present text comes from, what contradicts.

    `trusted` are the places that a person vouches for by now.
    """

    trust_record: TrustRecord
    earlier: Sequence[ProposalLine]
    origins: Mapping[str, Sequence[OriginLine]]
    flags: Sequence[Flag]
    passkeys: bool
    now: datetime
    trusted: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class BlockView:
    """What would become of one block, with the confidences of both sides where they are known."""

    section: Markup
    verdict: str
    reason: ShownText
    new: Mapping[str, float] | None
    existing: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class ConflictView:
    """A block that both sides changed."""

    section: Markup
    base: ShownText
    ours: ShownText
    theirs: ShownText


@dataclass(frozen=True, slots=True)
class SideView:
    """One side of a contradiction."""

    heading: str
    path: Markup
    section: Markup
    text: ShownText
    source: Markup
    authority: float
    confidence: float | None
    observed: Moment | None


@dataclass(frozen=True, slots=True)
class DisagreementView:
    """Two claims that cannot both hold."""

    kind: str
    subject: Markup
    reason: Markup
    existing: SideView
    new: SideView


@dataclass(frozen=True, slots=True)
class AskerView:
    """Who asks, and how earlier proposals of theirs were decided."""

    principal: Markup
    score: float
    level: int
    meaning: str
    frozen: bool
    counts: Sequence[tuple[str, int]]
    last: Sequence[LineView]


@dataclass(frozen=True, slots=True)
class LineView:
    """A proposal as one line of a list."""

    id: str
    kind: str
    tool: str
    sentence: Markup
    principal: Markup
    state: str
    level: int
    created: Moment
    ended: Moment | None
    pages: Sequence[Markup]


@dataclass(frozen=True, slots=True)
class CausePlaceView:
    """A place whose text held the call up. `raw` is its name as forms send it back."""

    raw: str
    name: Markup
    trusted: bool


@dataclass(frozen=True, slots=True)
class ProposalView:
    """Everything that the page of one proposal shows."""

    line: LineView
    hash: str
    tool_hash: str
    why: ShownText
    places: Sequence[CausePlaceView]
    level_needed: int
    level_held: int
    expires: Moment
    expired: bool
    files: Sequence[FileView]
    blocks: Sequence[BlockView]
    conflicts: Sequence[ConflictView]
    disagreements: Sequence[DisagreementView]
    rest: Sequence[ShownField]
    calls: Sequence[Sequence[ShownField]]
    revisions: Sequence[tuple[Markup, str]]
    asker: AskerView
    needs: Requirement
    outcome: OutcomeView | None
    origin: str | None
    successor: str | None
    journey: str
    run: str
    left_out: bool
    marked: bool
    cut_from: str

    @property
    def waits(self) -> bool:
        """Return whether a person can still decide about it."""
        return self.line.state == "pending" and not self.expired

    @property
    def only_sent(self) -> bool:
        """Return whether no page changes by it, and something goes to another service."""
        return bool(self.files) and all(file.sent for file in self.files)


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """How it was decided, and what came of it."""

    by: Markup
    where: str
    at: Moment
    note: ShownText
    how: Markup
    error: ShownText | None
    result: Sequence[ShownField]


def line_of(proposal: Proposal | ProposalLine, now: datetime, preview: Mapping[str, Any] | None = None) -> LineView:
    """Return the proposal as one line; `preview` saves reading it again."""
    if isinstance(proposal, ProposalLine):
        said = proposal.sentence
    else:
        said = str((_preview(proposal) if preview is None else preview).get("sentence") or "")
    return LineView(
        id=proposal.id,
        kind=proposal.kind,
        tool=proposal.tool,
        sentence=sanitize_line(said or proposal.tool),
        principal=sanitize_line(proposal.principal),
        state=proposal.state,
        level=proposal.level_needed,
        created=moment(proposal.created_at, now),
        ended=moment(proposal.ended_at, now) if proposal.ended_at else None,
        pages=[sanitize_line(path) for path in proposal.documents],
    )


def view_of(proposal: Proposal, about: ProposalContext, showing: DiffOptions) -> ProposalView:
    """Return everything that the page shows of the proposal."""
    preview, longest = _preview(proposal), showing.longest
    most = ANY_LENGTH if showing.whole else MOST_PARTS
    answer = preview.get("answer")
    parts: Mapping[str, Any] = answer if isinstance(answer, dict) else {"answer": answer}
    files = files_of(preview.get("files") or (), about.origins, showing)
    apart = (*SHOWN_APART, "preview") if any(file.sent for file in files) else SHOWN_APART
    listed = {name: parts.get(name) or () for name in ("blocks", "conflicts")}
    said = {k: v for k, v in parts.items() if k not in apart and v not in (None, "", [], {})}
    view = ProposalView(
        line=line_of(proposal, about.now, preview),
        hash=proposal.hash,
        tool_hash=proposal.tool_hash,
        why=folded(proposal.why, longest),
        places=[CausePlaceView(one, sanitize_line(one), one in about.trusted) for one in places_of(proposal)],
        level_needed=proposal.level_needed,
        level_held=proposal.level_held,
        expires=moment(proposal.expires_at, about.now),
        expired=proposal.expires_at <= about.now,
        files=files,
        blocks=[_block(block, longest) for block in listed["blocks"][:most]],
        conflicts=[_conflict(conflict, longest) for conflict in listed["conflicts"][:most]],
        disagreements=[disagreement_of(flag.contradiction, about.now, longest) for flag in about.flags[:most]],
        rest=fields_of(said, longest),
        calls=[fields_of(call, longest) for call in json.loads(proposal.arguments)],
        revisions=[(sanitize_line(path), rev or "new page") for path, rev in sorted(proposal.revisions.items())],
        asker=_asker(about),
        needs=requirement(proposal, "page", passkeys=about.passkeys),
        outcome=_outcome(proposal, about.now, longest),
        origin=proposal.origin,
        successor=proposal.successor,
        journey=proposal.journey,
        run=str((preview.get(RUN) or {}).get("id", "")),
        left_out=any(len(one) > most for one in (*listed.values(), about.flags)),
        marked=False,
        cut_from=size_in_words(proposal.cut.size_bytes) if proposal.cut else "",
    )
    return _with_notices(view)


def _with_notices(view: ProposalView) -> ProposalView:
    """Return the view that also says whether something is folded away in it, and whether something had to be marked."""
    texts: list[ShownText] = [view.why, *(field.value for call in view.calls for field in call)]
    texts += [field.value for field in view.rest]
    texts += [block.reason for block in view.blocks]
    texts += [text for c in view.conflicts for text in (c.base, c.ours, c.theirs)]
    texts += [side.text for d in view.disagreements for side in (d.existing, d.new)]
    rows = [row for file in view.files for hunk in file.hunks for row in hunk]
    left_out = (
        view.left_out
        or any(text.left_out for text in texts)
        or any(f.left_out for f in view.files)
        or any(r.cut for r in rows)
    )
    html = (view.line.sentence, *(text.html for text in texts), *(part for row in rows for part in (row.old, row.new)))
    return replace(view, left_out=left_out, marked=any(MARKED in part for part in html))


def _preview(proposal: Proposal) -> Mapping[str, Any]:
    preview = json.loads(proposal.preview)
    return preview if isinstance(preview, dict) else {}


def _block(block: Mapping[str, Any], longest: int) -> BlockView:
    return BlockView(
        section=sanitize_line(str(block.get("section") or "")),
        verdict=str(block.get("verdict")),
        reason=folded(str(block.get("reason") or ""), longest),
        new=block.get("new"),
        existing=block.get("existing"),
    )


def _conflict(conflict: Mapping[str, Any], longest: int) -> ConflictView:
    base, ours, theirs = (folded(str(conflict.get(key) or ""), longest) for key in ("base", "ours", "theirs"))
    return ConflictView(sanitize_line(str(conflict.get("section") or "")), base, ours, theirs)


def disagreement_of(found: Contradiction | Disagreement, now: datetime, longest: int = ANY_LENGTH) -> DisagreementView:
    """Return a contradiction as it is shown, both sides with where they come from."""
    return DisagreementView(
        kind=found.kind,
        subject=sanitize_line(found.subject),
        reason=sanitize(found.reason),
        existing=_side("In the knowledge base", found.existing, now, longest),
        new=_side("New text", found.new, now, longest),
    )


def _side(heading: str, side: Side, now: datetime, longest: int) -> SideView:
    return SideView(
        heading=heading,
        path=sanitize_line(side.path),
        section=sanitize_line(side.section),
        text=folded(side.text, longest),
        source=sanitize_line(side.source),
        authority=side.authority,
        confidence=side.confidence,
        observed=moment(side.observed_at, now) if side.observed_at else None,
    )


def _asker(about: ProposalContext) -> AskerView:
    grant = grant_of(about.trust_record)
    states = [proposal.state for proposal in about.earlier]
    decided = [proposal for proposal in about.earlier if proposal.verdict is not None]
    return AskerView(
        principal=sanitize_line(about.trust_record.principal),
        score=round(grant.score, 2),
        level=int(grant.level),
        meaning=grant.level.meaning,
        frozen=about.trust_record.frozen,
        counts=[(state, states.count(state)) for state in dict.fromkeys(states)],
        last=[line_of(proposal, about.now) for proposal in decided[:LAST_DECIDED]],
    )


def _outcome(proposal: Proposal, now: datetime, longest: int) -> OutcomeView | None:
    verdict = proposal.verdict
    if verdict is None:
        return None
    result = json.loads(proposal.result) if proposal.result else None
    shown = result if isinstance(result, dict) else {} if result is None else {"result": result}
    unsigned = "not protected by a passkey" if verdict.advisory else ""
    return OutcomeView(
        by=sanitize_line(verdict.by),
        where="on this page" if verdict.channel == "page" else PLACES.get(verdict.channel, verdict.channel),
        at=moment(verdict.at, now),
        note=folded(verdict.note, longest),
        how=sanitize_line(f"signed with passkey {verdict.signed}" if verdict.signed else unsigned),
        error=folded(proposal.error, longest) if proposal.error else None,
        result=fields_of({k: v for k, v in shown.items() if v not in (None, "", [], {})}, LONG_TEXT),
    )
