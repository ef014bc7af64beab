"""The final answer of a call that became a proposal. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from knowledge.trust.ports import Proposal
from mcp_server.approvals.summary import proposed
from mcp_server.gate.dispatch import CallAnswered, CallFailed, Outcome


def outcome_of(name: str, answer: Mapping[str, Any], proposal: Proposal, told: Mapping[str, Any]) -> Outcome:
    """Return the call's answer for the proposal's state: its result, its error, or that nothing was done (yet).

    `answer` is the preview of the call's answer, `told` the proposal's summary.
    """
    if proposal.state == "executed" and proposal.result:
        content = json.loads(proposal.result)
        return CallAnswered({**content, "proposal": content.get("proposal") or told})
    if proposal.state == "failed":
        return CallFailed(f"{name}: approved, but not done: {proposal.error}")
    return CallAnswered(proposed(answer, proposal, told))
