"""The outcome of a call whose process died before the answer was recorded: looked up in records, or asked of the service.

This carries out nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
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
    from mcp_server.gate.caller import Call
    from mcp_server.gate.dispatch import Gate
    from mcp_server.ports import RunServices
    from mcp_server.toolsets.spec import AnySpec

AT_ONCE = 500
"""Audit records read at a time, from the newest back."""
OVERLAP = timedelta(days=1)
"""How much earlier than the call its audit record may be dated.

A record has the time at which the act began, by a clock that can be set.
"""

ANSWER_LOST = "Its answer was lost because the process that called it died. It changes nothing: call it again if it is still needed"
NOT_DONE = "It was not done: the process that called it died first. Call it again if it still makes sense"
FAILED_THERE = "It was not done: the only attempt failed. Call it again if it still makes sense"
INCOMPLETE = (
    "The process that called it died during the call, and the result is missing or incomplete. It may still come. "
    "Repeat the same call: it looks first, and does only what is missing"
)
NOT_ANSWERED = (
    "It is not known whether it was done: {why}. Repeat the same call: it looks first, and does this only once"
)
REPEATABLE = "It is not known whether it was done, because the process that called it died. Repeating the call does not do it twice"
TAKEN_BACK = "It was written, did not read back correctly, and was undone: the page is unchanged"
FROM_RECORD = "the process that called it died before it could answer; this is what the audit record says"


@dataclass(frozen=True, slots=True)
class Lost:
    """A call without an answer on record. It was not made before `since`, by the clock of the process that led the run."""

    spec: AnySpec
    asked: Any
    call: Call
    since: datetime


async def recalled(gate: Gate, services: RunServices, lost: Lost) -> CallOutcome | None:
    """Return the outcome of the call; None if nobody can tell.

    Raises:
        KnowledgeError: it cannot be looked up now.
    """
    spec = lost.spec
    if spec.read_only or getattr(lost.asked, "dry_run", False):
        return _failed(ANSWER_LOST)
    # A service is asked with the principal's rights as they are now.
    if isinstance(decision := await gate.decide(spec.name, Trust.READ, lost.call.principal), Refuse):
        return _unsure(NOT_ANSWERED.format(why=decision.why))
    if spec.plan is None:
        return _unsure(f"{REPEATABLE}.") if spec.idempotent else None
    trust = services.state.trust
    for one in await trust.lines(principal=lost.call.principal.id, limit=DOCUMENTED):
        if one.kind == "call" and one.run.get("key") == lost.call.key:
            if proposal := await trust.proposal(one.id):
                content = {"status": "proposed", "proposal": await summary(proposal, services.review_address)}
                return _succeeded(content, proposal=proposal.id)
            break
    if spec.recalled is not None:
        return await _elsewhere(services, lost)
    return None if spec.open_world else await _written(services, lost)


def not_before(run: Run) -> datetime:
    """Return a time before which the first open call of the run cannot have been made: that of the newest frame before the call."""
    return max(frame.at for frame in run.frames if not isinstance(frame, Control))


async def _elsewhere(services: RunServices, lost: Lost) -> CallOutcome:
    """Return the outcome of an act in another service. It is recorded before it is sent: without a record it was not sent."""
    spec, dispatcher = lost.spec, services.dispatcher
    entry = await dispatcher.entry_of_call(lost.call.key)
    # Abandoned, so that a process that only seemed dead cannot send it after all.
    entry = entry or await dispatcher.abandon(lost.call, spec.name, spec.toolset)
    if entry is None:
        return _failed(NOT_DONE)
    if entry.fate == "failed":
        return _failed(FAILED_THERE)
    if spec.recalled is None:
        raise TypeError(f"{spec.name} cannot be recalled")
    try:
        answer = await spec.recalled(services, lost.call, lost.asked)
    except KnowledgeError as error:
        return _unsure(NOT_ANSWERED.format(why=str(error).rstrip(".")))
    if answer is None:
        return _unsure(INCOMPLETE)
    content = spec.as_json(answer)
    return _succeeded(content, unsure=content.get("status") == "unsure")


async def _written(services: RunServices, lost: Lost) -> CallOutcome | None:
    """Return the outcome of a change of pages. Half-made changes of the dead process are finished first, as any next process would."""
    ledger = services.state.ledger
    if await ledger.intents():
        await services.recovery.finish_all()
    for intent in await ledger.intents():
        actor = intent.entry.actor
        fields = {
            "principal": actor.principal,
            "tool": actor.tool,
            "arguments_hash": actor.arguments_hash,
            "call": actor.call,
        }
        if _is_record_of(lost, fields):  # still unfinished, so nobody can tell
            return None
    record = await _audit_record(ledger, lost)
    if record is None:
        return _failed(NOT_DONE)
    if record.get("outcome") == "undone":
        return _failed(TAKEN_BACK)
    changes = record.get("changes", [])
    left = next((change for change in changes if change.get("after")), changes[0] if changes else {})
    return _succeeded(
        {
            "status": record.get("outcome"),
            "path": left.get("path"),
            "revision": left.get("after"),
            "changes": changes,
            "note": FROM_RECORD,
        }
    )


async def _audit_record(ledger: Ledger, lost: Lost) -> Mapping[str, Any] | None:
    """Return the audit record of the call, if there is one."""
    end, _ = await ledger.chain_end()
    while end > 0:
        start = max(0, end - AT_ONCE)
        at = lost.since
        for record in reversed(await ledger.records(after=start, limit=end - start)):
            fields = fields_of(record)
            with suppress(ValueError):  # somebody made its time unreadable: the one after it counts
                at = datetime.fromisoformat(str(fields.get("at", "")))
            if _is_record_of(lost, fields) and not fields.get("proposal"):
                return fields
        if at < lost.since - OVERLAP:
            return None
        end = start
    return None


def _is_record_of(lost: Lost, fields: Mapping[str, Any]) -> bool:
    its = {
        "principal": lost.call.principal.id,
        "tool": lost.spec.name,
        "arguments_hash": lost.spec.hash_of(lost.asked),
        "call": lost.call.key,
    }
    return all(fields.get(name) == value for name, value in its.items())


def _failed(text: str) -> CallOutcome:
    return CallOutcome(success=False, text=f"{text}.")


def _unsure(text: str) -> CallOutcome:
    return CallOutcome(success=False, text=text, unsure=True)


def _succeeded(content: Mapping[str, Any], *, proposal: str = "", unsure: bool = False) -> CallOutcome:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return CallOutcome(success=True, text=text, structured=dict(content), proposal=proposal, unsure=unsure)
