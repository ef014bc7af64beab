"""Everything that a person needs to decide on a proposal, as the terminal and the page show it.

Texts are as hosts and models wrote them; the code that lays them out makes them harmless.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from knowledge.access.directory import FolderReviewers
from knowledge.merge.model import Contradiction
from knowledge.state.ports import StateStore
from knowledge.state.retention.cuts import NOT_SHOWN, shortened_text
from knowledge.trust.codec import LONGEST_SENTENCE
from knowledge.trust.ports import Channel, Proposal, ProposalLine, State
from knowledge.writing.answers import HistoryLine
from mcp_server.approvals.approvers import Requirement, must_sign, requirement
from mcp_server.approvals.proposals import AGAINST, PLACES, REPEATS, RUN, principal_of
from mcp_server.approvals.reviewers.deciders import reviewers_of
from mcp_server.approvals.summary import becomes
from mcp_server.approvals.views.askers import of_each_asker
from mcp_server.approvals.views.present import Present
from mcp_server.gate.trust.scores import grant_of, trust_record_of

MOST_FLAGS = 200
MOST_EARLIER = 200
"""Earlier proposals of a principal that are counted."""
_ELSEWHERE = {
    *("answer", "files", "sentence", RUN, PLACES, REPEATS, "blocks", "conflicts", "note", "diff"),
    *("contradiction_id", "claims"),
}
"""Parts of a preview and of its answer that are shown separately."""
_SAYS_NOTHING = {"status", "proposal", "verified", "path", "revision", "changed"}
"""Parts of an answer that have no meaning before the act."""


@dataclass(frozen=True, slots=True)
class Asker:
    """A principal that asks for a proposal: its trust now, its other proposals counted by state, and those, newest first.

    `sentence` describes its own call, if another principal made the proposal and this one joined it.
    """

    principal: str
    score: float
    level: int
    meaning: str
    frozen: bool
    counts: Mapping[State, int]
    earlier: Sequence[ProposalLine] = ()
    asked_at: datetime | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """The change of one page, or of a text that is `sent` to another service. `effect` completes a sentence about it."""

    path: str
    moved_from: str
    effect: str
    diff: str
    sent: bool


@dataclass(frozen=True, slots=True)
class ProposalSummary:
    """A proposal with everything that a person needs for a decision.

    `needs` is the requirement for an approval in the channel that shows this. `blocks` and `conflicts` are as the tool returned
    them. `rest` is the remainder of the previewed answer; `calls` are the arguments of each call, run as one act. `also` are the
    principals that joined `asker`. If a page has changed since, `present` is its present state, everything above is as of
    now where that could be computed, and `as_proposed` are the changes as they were proposed. Only somebody who is in every group
    of `reviewers` can decide.
    """

    proposal: Proposal
    asker: Asker
    needs: Requirement
    now: datetime
    contradictions: Sequence[Contradiction]
    note: str
    places: Sequence[str]
    run: Mapping[str, Any]
    files: Sequence[ChangedFile]
    blocks: Sequence[Mapping[str, Any]]
    conflicts: Sequence[Mapping[str, Any]]
    rest: Mapping[str, Any]
    calls: Sequence[Mapping[str, Any]]
    also: Sequence[Asker] = ()
    present: Present | None = None
    as_proposed: Sequence[ChangedFile] = ()
    reviewers: Sequence[FolderReviewers] = ()

    @property
    def approvable(self) -> bool:
        """Whether an approval would apply the proposal, as far as is known."""
        return self.present is None or self.present.outcome in ("same", "unknown")

    @property
    def version(self) -> str:
        """A hash of the current effect if that is shown instead of the proposed one; "" if the proposal is shown as proposed."""
        if self.present is None or not self.present.preview:
            return ""
        return hashlib.sha256(self.present.preview.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def askers(self) -> Sequence[Asker]:
        """Everybody who asks for it, in the order in which they asked."""
        return (self.asker, *self.also)

    @property
    def waits(self) -> bool:
        """Whether a person can still decide on it."""
        return self.proposal.state == "pending" and self.proposal.expires_at > self.now

    @property
    def only_sent(self) -> bool:
        """Whether it changes no page and sends something to another service."""
        return bool(self.files) and all(file.sent for file in self.files)

    def texts(self) -> Iterator[str]:
        """Yield every text that may be long, apart from diffs."""
        if self.present is not None:
            yield self.present.why
        yield self.proposal.why
        yield self.note
        for one in self.contradictions:
            yield from (one.existing.text, one.new.text)
        for block in self.blocks:
            yield str(block.get("reason") or "")
        for conflict in self.conflicts:
            yield from (str(conflict.get(side) or "") for side in ("base", "ours", "theirs"))
        for values in (self.rest, *self.calls):
            yield from map(value_text, values.values())


async def proposal_summary(
    state: StateStore,
    proposal: Proposal,
    channel: Channel,
    *,
    now: datetime,
    present: Present | None = None,
    user: str = "",
) -> ProposalSummary:
    """Return the proposal as it is shown in `channel` to `user`, by default the owner.

    `present` is its present state, if a page has changed since.
    """
    asker, *also = await askers_of(state, proposal, now=now)
    contradictions: list[Contradiction] = []
    if proposal.kind == "flag":
        # The page may have other contradictions. Those of this proposal are named by the texts that it would replace.
        against = {text for call in calls_in(proposal) for text in call.get(AGAINST, ())}
        flags = [flag for path in proposal.documents for flag in await state.ledger.flags(path, limit=MOST_FLAGS)]
        contradictions = [one.contradiction for one in flags if one.contradiction.existing.text in against]
    elif proposal.tool == "kb_dismiss" and isinstance(flag_id := calls_in(proposal)[-1].get("contradiction_id"), int):
        flag = await state.ledger.flag(flag_id)
        contradictions = [] if flag is None else [flag.contradiction]
    passkeys = await must_sign(state.trust, user)
    needs = requirement(proposal, channel, passkeys=passkeys)
    reviewers = await reviewers_of(state, proposal) if proposal.state == "pending" else ()
    if present is None or not present.preview:
        summary = summary_of(proposal, asker, needs, contradictions, now=now, also=also)
        return replace(summary, present=present, reviewers=reviewers)
    current = replace(proposal, preview=present.preview)
    summary = summary_of(current, asker, needs, contradictions, now=now, also=also)
    before = _files(_preview(proposal))
    return replace(summary, proposal=proposal, present=present, as_proposed=before, reviewers=reviewers)


async def askers_of(state: StateStore, proposal: Proposal, *, now: datetime) -> Sequence[Asker]:
    """Return everybody who asks for the proposal, in the order in which they asked: first the principal that made it."""
    return [await _asker(state, own, proposal, now=now) for own in await of_each_asker(state.trust, proposal)]


async def _asker(state: StateStore, own: Proposal, proposal: Proposal, *, now: datetime) -> Asker:
    grant = grant_of(await trust_record_of(state, principal_of(own), now=now))
    found = await state.trust.lines(principal=own.principal, limit=MOST_EARLIER)
    earlier = [one for one in found if one.id != own.id]
    return Asker(
        principal=own.principal,
        score=0.0 if grant.frozen else grant.score,
        level=int(grant.level),
        meaning=grant.level.meaning,
        frozen=grant.frozen,
        counts=Counter(one.state for one in earlier),
        earlier=earlier,
        asked_at=own.created_at,
        sentence=shortened_text(sentence_of(own), LONGEST_SENTENCE, NOT_SHOWN) if own is not proposal else "",
    )


def summary_of(
    proposal: Proposal,
    asker: Asker,
    needs: Requirement,
    contradictions: Sequence[Contradiction] = (),
    *,
    now: datetime,
    also: Sequence[Asker] = (),
) -> ProposalSummary:
    """Return the proposal with its context. Pure."""
    preview = _preview(proposal)
    answer = preview.get("answer")
    parts = answer if isinstance(answer, dict) else {"result": answer}
    files = _files(preview)
    # The preview of a text that is sent only repeats what its diff shows.
    hidden = _ELSEWHERE | _SAYS_NOTHING | ({"preview"} if any(file.sent for file in files) else set())
    rest = {k: v for k, v in {**preview, **parts}.items() if k not in hidden and v not in (None, "", [], {})}
    run = preview.get(RUN)
    places = preview.get(PLACES)
    return ProposalSummary(
        proposal=proposal,
        asker=asker,
        needs=needs,
        now=now,
        contradictions=contradictions,
        note=note if isinstance(note := parts.get("note"), str) else "",
        places=[str(place) for place in places] if isinstance(places, list) else [],
        run=run if isinstance(run, dict) else {},
        files=files,
        blocks=_mappings(parts.get("blocks")),
        conflicts=_mappings(parts.get("conflicts")),
        # The previewed answer of an act on trust is its own arguments, which are shown as the exact action.
        rest={} if proposal.kind == "admin" else rest,
        calls=calls_in(proposal),
        also=also,
    )


def since_proposed(present: Present) -> Sequence[str]:
    """Describe the changes since the proposal was made, one line for each, the newest first."""
    lines = []
    for page in present.changed:
        gone = " (it no longer exists)" if page.revision is None else ""
        lines += [f"{page.path}{gone}, changed {_changed_by(one)}" for one in page.changes]
    return lines


def _changed_by(change: HistoryLine) -> str:
    at = f"{change.at[:16].replace('T', ' ')} UTC"
    return f"{at}, by {change.by} with {change.tool}" if change.by else f"{at}, outside the server"


def outcome_now(present: Present) -> str:
    """Return what an approval would do now, in a sentence or two."""
    match present.outcome:
        case "same":
            return "Approving still makes the same change. It is shown on the page as it is now."
        case "different":
            return (
                "The change would now be a different one, which is shown here. Approving the proposal would not apply it. "
                "Propose it with the page as it is now, and then decide on that."
            )
        case "impossible":
            return f"It can no longer be made: {present.why}. Reject it."
    return (
        f"What it would change now could not be computed: {present.why}. The change is shown as it was proposed. "
        "If it would be a different one, approving it applies nothing and asks you again."
    )


def sentence_of(proposal: Proposal | ProposalLine) -> str:
    """Return the effect of the proposal, in a sentence."""
    sentence = proposal.sentence if isinstance(proposal, ProposalLine) else _preview(proposal).get("sentence")
    return sentence if isinstance(sentence, str) and sentence else f"call {proposal.tool}"


def state_of(proposal: Proposal | ProposalLine) -> str:
    """Return the name of the proposal's state as people read it."""
    return "changes requested" if proposal.verdict and proposal.verdict.changes else proposal.state


def ending(proposal: Proposal) -> str:
    """Return the outcome of the proposal, as one sentence without its full stop."""
    if proposal.state == "approved" and not proposal.runner:
        return f"approved; the settings given here leave out {proposal.tool}, so the next server that lists it carries it out"
    if run := _begun_run(proposal):
        return (
            f"approved, and run {run} was started; to watch it: knowledge-forge runs follow {run}; if no server with its "
            f"model is running: knowledge-forge runs resume {run}"
        )
    match proposal.state:
        case "rejected" if proposal.verdict and proposal.verdict.changes:
            return "changes requested; nothing was done"
        case "failed":
            return f"approved, but it failed: {proposal.error or 'no reason is recorded'}"
        case "superseded":
            return f"nothing was done; replaced by {proposal.successor or 'another proposal'}"
    return {
        "pending": "it is still waiting",
        "approved": "approved; being carried out",
        "executed": "approved, and carried out",
        "rejected": "rejected",
        "expired": "expired; nothing was done",
        "withdrawn": "withdrawn; nothing was done",
    }[proposal.state]


def _begun_run(proposal: Proposal) -> str:
    """Return the run that continues by itself since the proposal was carried out; "" if none does."""
    result = parsed(proposal.result) if proposal.state == "executed" and proposal.result else None
    if not isinstance(result, dict) or result.get("status") != "running":
        return ""
    return str(result.get("run_id") or "")


def calls_in(proposal: Proposal) -> list[dict[str, Any]]:
    """Return the arguments of each call, or the text if it was shortened and is no longer JSON."""
    calls = parsed(proposal.arguments)
    calls = calls if isinstance(calls, list) else [calls]
    return [call if isinstance(call, dict) else {"arguments": call} for call in calls]


def given(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a call has a value for. Those that are null say nothing to a reader."""
    return {name: value for name, value in call.items() if value is not None}


def value_text(value: object) -> str:
    """Return a value as text: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)


def parsed(text: str) -> Any:
    """Return the value of JSON `text`, or the text itself if it is not JSON (after an edit of the database by hand)."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _preview(proposal: Proposal) -> Mapping[str, Any]:
    preview = parsed(proposal.preview)
    return preview if isinstance(preview, dict) else {}


def _mappings(found: object) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _files(preview: Mapping[str, Any]) -> list[ChangedFile]:
    """Return the changed files. A renamed page counts as one: its new path implies that the old one is free then."""
    files = _mappings(preview.get("files"))
    moved = {(str(one["moved_from"]), one.get("before")) for one in files if one.get("moved_from")}
    gone = [one for one in files if one.get("after") is None and (str(one.get("path")), one.get("before")) in moved]
    return [_file_effect(one) for one in files if one not in gone]


def _file_effect(file: Mapping[str, Any]) -> ChangedFile:
    if file.get("sent"):
        effect = becomes(file)
    elif file.get("moved_from"):
        effect = "is renamed"
    else:
        effect = "is created" if file.get("before") is None else becomes(file)
    moved, diff = str(file.get("moved_from") or ""), str(file.get("diff") or "")
    return ChangedFile(str(file.get("path")), moved, effect, diff, bool(file.get("sent")))
