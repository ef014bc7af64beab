"""A contradiction as people see it before they settle it: both sides as their pages are now, and who asks for the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from knowledge.contradictions.settlement import CHOICES, Choice, ContradictionNow, KeepChoice, SideNow
from knowledge.contradictions.statement_place import StatementPlace
from knowledge.history.ports import Flag
from knowledge.history.timestamps import utc_text
from knowledge.merge.document.units import bare, split_lines
from knowledge.trust.ports import ProposalLine
from mcp_server.approvals.contradictions.claims import PendingClaim, answered_claims, closed_claims, pending_claims
from mcp_server.ports import WebServices


@dataclass(frozen=True, slots=True)
class ContradictionSummary:
    """A contradiction with its sides as they are now, and the pending proposals that ask for the new side.

    `closed` are the proposals that ended because a person settled or dismissed it. If the contradiction is open again, `closed`
    leaves out those that somebody has proposed again since.
    """

    now: ContradictionNow
    claims: Sequence[PendingClaim]
    closed: Sequence[ProposalLine] = ()

    @property
    def flag(self) -> Flag:
        """The contradiction on record."""
        return self.now.flag

    @property
    def status(self) -> str:
        """The contradiction's state in one word."""
        return "settled" if self.flag.settled_at else "dismissed" if self.flag.dismissal else "open"

    @property
    def askers(self) -> Mapping[str, datetime]:
        """When each principal first reported it, or asked for its new side; the first one first."""
        found = {self.flag.principal: self.flag.at}
        for claim in self.claims:
            for principal, at in claim.askers:
                found.setdefault(principal, at)
        return found

    def effect_of(self, choice: Choice) -> str:
        """Return what keeping that side does, as a sentence without its full stop."""
        keep, other = self.now.keeps[choice], self.now.sides[1 - CHOICES.index(choice)]
        if keep.why_not:
            return f"not possible without a guess, because {keep.why_not}"
        if not keep.pages:
            return f"writes nothing; the new text stays out of {other.side.path}"
        verb = (
            "removes"
            if self.now.sides[0].side.path == self.now.sides[1].side.path
            and all(side.places for side in self.now.sides)
            else "rewrites"
        )
        which = "first" if choice == "second" else "second"
        return f"{verb} the {which} statement in {other.side.path}, line {other.places[0].line}"


@dataclass(frozen=True, slots=True)
class NumberedLine:
    """A line of a page near a statement. `own`: it is in the statement's paragraph, item or row."""

    number: int
    text: str
    own: bool


def numbered(place: StatementPlace) -> Sequence[NumberedLine]:
    """Return the lines of the statement's block and those around it, with their numbers."""
    above = place.block[: place.start - place.block_start]
    first = place.line - above.count("\n") - len(place.before)
    block = [bare(line) for line in split_lines(place.block)]
    lines = [(text, False) for text in place.before] + [(text, True) for text in block]
    lines += [(text, False) for text in place.after]
    return [NumberedLine(first + at, text, own) for at, (text, own) in enumerate(lines)]


async def contradiction_summary(services: WebServices, flag: Flag) -> ContradictionSummary:
    """Return the contradiction as it is now."""
    open_ = flag.settled_at is None and flag.dismissal is None
    claims = await pending_claims(services.state, flag.contradiction) if open_ else ()
    closed = await (closed_claims(services.state, flag) if open_ else answered_claims(services.state, flag.id))
    return ContradictionSummary(await services.settlements.look(flag), claims, closed)


def contradiction_fields(summary: ContradictionSummary) -> dict[str, Any]:
    """Return the contradiction as JSON fields, with times as text."""
    flag = summary.flag
    found = flag.contradiction
    end, word = flag.settlement, flag.dismissal
    return {
        "id": flag.id,
        "status": summary.status,
        "kind": found.kind,
        "subject": found.subject,
        "reason": found.reason,
        "confidence": round(found.confidence, 2),
        "flagged_at": utc_text(flag.at),
        "asked_by": [{"principal": who, "at": utc_text(at)} for who, at in summary.askers.items()],
        "proposals": [claim.proposal.id for claim in summary.claims],
        "closed": [line.id for line in summary.closed],
        "first": _side_fields(summary.now.sides[0]),
        "second": _side_fields(summary.now.sides[1]),
        "keep": {choice: _keep_fields(summary, choice, summary.now.keeps[choice]) for choice in CHOICES},
        "settled": None if end is None else _end_fields(end.how, end.by, end.at, end.reason),
        "dismissed": None if word is None else _end_fields(word.ruling, word.by, word.at, word.reason),
    }


def _side_fields(now: SideNow) -> dict[str, Any]:
    side, origin = now.side, now.origin
    return {
        "path": side.path,
        "section": now.places[0].section if now.places else side.section,
        "state": now.state,
        "text": side.text,
        "source": side.source,
        "authority": round(side.authority, 2),
        "confidence": None if side.confidence is None else round(side.confidence, 2),
        "observed_at": None if side.observed_at is None else utc_text(side.observed_at),
        "by": "" if origin is None else origin.by,
        "revision": now.revision,
        "places": [_place_fields(place) for place in now.places],
        "instead": None if now.instead is None else _place_fields(now.instead),
    }


def _place_fields(place: StatementPlace) -> dict[str, Any]:
    return {"line": place.line, "section": place.section, "text": place.block.rstrip("\r\n")}


def _keep_fields(summary: ContradictionSummary, choice: Choice, keep: KeepChoice) -> dict[str, Any]:
    return {"possible": not keep.why_not, "effect": summary.effect_of(choice), "diff": keep.diff}


def _end_fields(how: str, by: str, at: datetime, reason: str) -> dict[str, str]:
    return {"how": how, "by": by, "at": utc_text(at), "reason": reason}
