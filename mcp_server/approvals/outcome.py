"""What a call answers in the end that became a proposal. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from knowledge.trust.ports import Proposal
from mcp_server.approvals.summary import proposed
from mcp_server.gate.dispatch import CallAnswered, CallFailed, Outcome


def ending(name: str, answer: Mapping[str, Any], proposal: Proposal, told: Mapping[str, Any]) -> Outcome:
    """Return what the call answers as the proposal stands: what it did, why it failed, or that it did nothing (yet).

    `answer` is what it would do, `told` the proposal's summary.
    """
    if proposal.state == "executed" and proposal.result:
        content = json.loads(proposal.result)
        return CallAnswered({**content, "proposal": content.get("proposal") or told})
    if proposal.state == "failed":
        return CallFailed(f"{name}: approved, but not done: {proposal.error}")
    return CallAnswered(proposed(answer, proposal, told))
