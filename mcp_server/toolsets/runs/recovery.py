"""What became of a call of a run over which its process died: found on record, and asked of the service. Nothing is carried out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agents.loop.record.frames import Control
from agents.loop.tools import CallOutcome
from knowledge.errors import KnowledgeError
from knowledge.history.audit.chain import fields_of
from knowledge.trust.ports import DOCUMENTED
from mcp_server.approvals.summary import summary
from mcp_server.gate.policy import Refuse, Trust

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from knowledge.history.ports import Ledger
    from knowledge.trust.ports import Proposal
    from mcp_server.gate.caller import Call
    from mcp_server.gate.dispatch import Gate
    from mcp_server.ports import RunServices
    from mcp_server.toolsets.spec import AnySpec

AT_ONCE = 500
"""Audit records read at once, from the newest back."""
OVERLAP = timedelta(days=1)
"""So much older than the call its record may say that it is: it has the time at which the act began, by a clock that may be set."""

ANSWER_LOST = "Its answer was lost, because the process that called it died. It changes nothing: call it again if it is still needed"
NOT_DONE = "It was not done: the process that called it died before. Call it again if it still makes sense"
FAILED_THERE = "It was certainly not done: it was tried once and failed. Call it again if it still makes sense"
NOT_WHOLE = (
    "The process that called it died over it, and it is not there, or not whole. It may still come. The same call again looks "
    "first, and does once what is missing"
)
NOT_ANSWERED = "It is not known whether it was done: {why}. The same call again looks first, and does it once"
REPEATABLE = "It is not known whether it was done, because the process that called it died. The same call again has its effect once"
TAKEN_BACK = "It was written, found wrong, and taken back: the page is as it was"
FROM_RECORD = "the process that called it died before it could answer; this is what the audit record says"


@dataclass(frozen=True, slots=True)
class Lost:
    """A call of which no answer is on record. It was not made before `since`, by the clock of who led the run."""

    spec: AnySpec
    asked: Any
    call: Call
    since: datetime


async def recalled(gate: Gate, services: RunServices, lost: Lost) -> CallOutcome | None:
    """Return what became of the call; None where nobody can tell.

    Raises:
        KnowledgeError: it cannot be looked up now.
    """
    spec = lost.spec
    if spec.read_only or getattr(lost.asked, "dry_run", False):
        return _failed(ANSWER_LOST)
    if isinstance(decision := await gate.decide(spec.name, Trust.READ, lost.call.principal), Refuse):
        return CallOutcome(success=False, text=NOT_ANSWERED.format(why=decision.why), unsure=True)
    if spec.plan is None:
        return CallOutcome(success=False, text=f"{REPEATABLE}.", unsure=True) if spec.idempotent else None
    if proposal := await _proposed(services, lost):
        content = {"status": "proposed", "proposal": await summary(proposal, services.review_address)}
        return _told(content, proposal=proposal.id)
    if spec.recalled is not None:
        return await _elsewhere(services, lost)
    return None if spec.open_world else await _written(services, lost)


def not_before(run: Run) -> datetime:
    """Return a time before which the first open call of the run was not made: until then the frame before it was not on record."""
    return max(frame.at for frame in run.frames if not isinstance(frame, Control))


async def _proposed(services: RunServices, lost: Lost) -> Proposal | None:
    trust = services.state.trust
    found = await trust.lines(principal=lost.call.principal.id, limit=DOCUMENTED)
    its = next((one.id for one in found if one.kind == "call" and one.run.get("key") == lost.call.key), None)
    return await trust.proposal(its) if its else None


async def _elsewhere(services: RunServices, lost: Lost) -> CallOutcome:
    """Return what became of an act in another service. Before it is sent it is on record: without a record it was not sent."""
    spec, dispatcher = lost.spec, services.dispatcher
    outbox_entry = await dispatcher.entry_of_call(lost.call.key)
    outbox_entry = outbox_entry or await dispatcher.abandon(lost.call, spec.name, spec.toolset)
    if outbox_entry is None:
        return _failed(NOT_DONE)
    if outbox_entry.fate == "failed":
        return _failed(FAILED_THERE)
    if spec.recalled is None:
        raise TypeError(f"{spec.name} cannot be recalled")
    try:
        answer = await spec.recalled(services, lost.call, lost.asked)
    except KnowledgeError as error:
        return CallOutcome(success=False, text=NOT_ANSWERED.format(why=str(error).rstrip(".")), unsure=True)
    if answer is None:
        return CallOutcome(success=False, text=NOT_WHOLE, unsure=True)
    content = spec.as_json(answer)
    return _told(content, unsure=content.get("status") == "unsure")


async def _written(services: RunServices, lost: Lost) -> CallOutcome | None:
    """Return what became of a change of pages. What its process left half done is ended first: that is done by whoever comes next."""
    ledger = services.state.ledger
    if await ledger.intents():
        await services.recovery.finish_all()
    if any(_is_its(lost, _who(intent.entry.actor)) for intent in await ledger.intents()):
        return None
    record = await _recorded(ledger, lost)
    if record is None:
        return _failed(NOT_DONE)
    if record.get("outcome") == "undone":
        return _failed(TAKEN_BACK)
    changes = record.get("changes", [])
    left = next((change for change in changes if change.get("after")), changes[0] if changes else {})
    return _told(
        {
            "status": record.get("outcome"),
            "path": left.get("path"),
            "revision": left.get("after"),
            "changes": changes,
            "note": FROM_RECORD,
        }
    )


async def _recorded(ledger: Ledger, lost: Lost) -> Mapping[str, Any] | None:
    """Return the audit record of the call, if there is one."""
    end, _ = await ledger.chain_end()
    while end > 0:
        start = max(0, end - AT_ONCE)
        at = lost.since
        for record in reversed(await ledger.records(after=start, limit=end - start)):
            fields = fields_of(record)
            at = _moment(fields) or at
            if _is_its(lost, fields) and not fields.get("proposal"):
                return fields
        if at < lost.since - OVERLAP:
            return None
        end = start
    return None


def _moment(fields: Mapping[str, Any]) -> datetime | None:
    """Return the time of a record; None where somebody made it unreadable."""
    try:
        return datetime.fromisoformat(str(fields.get("at", "")))
    except ValueError:
        return None


def _who(actor: Any) -> Mapping[str, Any]:
    """Return who acts as an audit record names them."""
    return {
        "principal": actor.principal,
        "tool": actor.tool,
        "arguments_hash": actor.arguments_hash,
        "call": actor.call,
    }


def _is_its(lost: Lost, fields: Mapping[str, Any]) -> bool:
    its = {
        "principal": lost.call.principal.id,
        "tool": lost.spec.name,
        "arguments_hash": lost.spec.hash_of(lost.asked),
        "call": lost.call.key,
    }
    return all(fields.get(name) == value for name, value in its.items())


def _failed(text: str) -> CallOutcome:
    return CallOutcome(success=False, text=f"{text}.")


def _told(content: Mapping[str, Any], *, proposal: str = "", unsure: bool = False) -> CallOutcome:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return CallOutcome(success=True, text=text, structured=dict(content), proposal=proposal, unsure=unsure)
