"""An act in another service: carried out once through the outbox, recalled after a crash, and not repeated after an approval.

This part is the same for every service; a toolset plans its acts and defines how each is sent, looked up and answered.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from knowledge.errors import EffectChanged
from knowledge.outbox.ports import OutboxEntry
from knowledge.trust.ports import State
from mcp_server.approvals.proposals import client_of
from mcp_server.connectors.outbox_dispatcher import Delivered, OutboxAct, outbox_entry_for
from mcp_server.connectors.text.dates import to_minute
from mcp_server.gate.caller import Call
from mcp_server.gate.canonical_json import canonical, canonical_text
from mcp_server.ports import ActServices
from mcp_server.toolsets.spec import Arguments

MOST_PROPOSALS = 100
"""Executed proposals of a caller that are searched for the same call, newest first."""
APPROVED_ORIGIN = "approved"
"""The origin of a call that is planned again because a person approved it."""
EXECUTED: tuple[State, ...] = ("executed",)

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class ServiceAct(Generic[Answer]):
    """How a planned act is carried out and answered.

    `target`, `digest` and `arguments_hash` go into its outbox entry. The same act within `window` counts as a
    repetition. While it runs, no other act of ours that shares an entry of `alone_with` runs. `conclude` turns the
    outcome into the tool's answer. `conflict` is the answer if the target turns out to have changed since the plan;
    None where that cannot happen.
    """

    tool: str
    target: str
    digest: str
    arguments_hash: str
    window: timedelta
    act: OutboxAct
    conclude: Callable[[Delivered], Awaitable[Answer]]
    alone_with: Sequence[str] = ()
    conflict: Answer | None = None

    async def carry_out(self, services: ActServices, call: Call) -> Answer:
        """Carry out the act once, and return the answer.

        Raises:
            EffectChanged: the effect would now differ from the one that a person approved; nothing was sent.
            KnowledgeError: it certainly was not done.
        """
        entry = outbox_entry_for(
            call,
            tool=self.tool,
            target=self.target,
            digest=self.digest,
            arguments_hash=self.arguments_hash,
            at=services.now(),
        )
        try:
            delivered = await services.dispatcher.deliver(
                entry, self.act, within=self.window, alone_with=self.alone_with
            )
        except EffectChanged:
            # After an approval the person decides again; a caller that acts on its own only needs to read again.
            if call.approval or self.conflict is None:
                raise
            return self.conflict
        return await self.conclude(delivered)

    async def recall(self, services: ActServices, call: Call) -> Answer | None:
        """Return the answer of an act whose process died; None if its effect is not there and it can be done, or done again.

        Raises:
            KnowledgeError: nobody can tell.
        """
        delivered = await services.dispatcher.recall(call, self.act)
        return None if delivered is None else await self.conclude(delivered)


@dataclass(frozen=True, slots=True)
class EarlierAct:
    """An earlier call with the same arguments that a person approved and that was executed; `answer` is its answer."""

    proposal: str
    approved_at: datetime
    answer: Mapping[str, Any]

    @property
    def note(self) -> str:
        """Why nothing is sent."""
        at = to_minute(self.approved_at)
        return f"the same call was approved on {at} as {self.proposal} and is done; nothing was sent again"


async def earlier_act(
    services: ActServices, call: Call, tool: str, arguments: Arguments, within: timedelta
) -> EarlierAct | None:
    """Return the caller's own executed call with the same arguments, if a person approved it at most `within` ago.

    Hosts repeat a call to see whether it was approved, and a person should not be asked twice. The same call of another
    client counts as a different call, even if both clients share a principal because they send no token.
    """
    if call.origin == APPROVED_ORIGIN:
        return None  # an approval is to be executed, also of a call that was approved before
    trust = services.state.trust
    executed = await trust.lines(principal=call.principal.id, states=EXECUTED, limit=MOST_PROPOSALS)
    # In the form in which proposals are stored, so that both can be compared as texts.
    text = canonical_text([arguments.model_dump(mode="json")])
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    for line in executed:
        if line.tool != tool or line.verdict is None or line.verdict.at < services.now() - within:
            continue
        proposal = await trust.proposal(line.id)
        if proposal is None or client_of(proposal) != call.principal.client:
            continue
        # Long arguments of an ended proposal are cut; their digest stays.
        is_same = proposal.cut.arguments == digest if proposal.cut else proposal.arguments == text
        answer = json.loads(proposal.result or "null")
        if is_same and isinstance(answer, dict):
            return EarlierAct(proposal.id, line.verdict.at, answer)
    return None


def repetition_note(entry: OutboxEntry) -> str:
    """Return why nothing is sent for an act that the same call did before."""
    return f"the same call already did this on {to_minute(entry.begun_at)}; nothing was sent again"


def digest_of(effect: Sequence[object]) -> str:
    """Return the hash of everything that an act would do."""
    return hashlib.sha256(canonical(list(effect))).hexdigest()
