"""Makes proposals and the ways to decide on them when they are first needed: a host waits for the start of its server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from knowledge.trust.ports import Proposal
    from mcp_server.app.settings.settings import Settings
    from mcp_server.approvals import decisions, proposal_executor, proposals
    from mcp_server.approvals.decisions import Decisions
    from mcp_server.approvals.proposal_executor import ProposalExecutor
    from mcp_server.approvals.proposals import Proposing
    from mcp_server.gate.dispatch import Gate
    from mcp_server.ports import AllServices
else:
    decisions = LateModule("mcp_server.approvals.decisions")
    proposal_executor = LateModule("mcp_server.approvals.proposal_executor")
    proposals = LateModule("mcp_server.approvals.proposals")


class ApprovalParts(NamedTuple):
    """Functions that return the three parts, each made once."""

    load_proposing: Callable[[], Proposing]
    load_executor: Callable[[], ProposalExecutor]
    load_decisions: Callable[[], Decisions]


def approval_parts(
    settings: Settings,
    services: AllServices,
    for_callers: AllServices,
    load_gate: Callable[[], Gate],
    *,
    arrived: Callable[[Proposal], Awaitable[None]],
    recover: Callable[[], Awaitable[None]],
    runner: str,
) -> ApprovalParts:
    """Return how calls become proposals, and how these are decided on and executed.

    `services` are those of the server itself, `for_callers` show what the present caller may read. `arrived` is called with each
    proposal, `recover` before an act is repeated; `runner` is the name of this process.
    """

    @cache
    def proposing() -> Proposing:
        return proposals.Proposing(services, arrived=arrived, quotas=settings.quotas)

    @cache
    def executor() -> ProposalExecutor:
        return proposal_executor.ProposalExecutor(
            load_gate(), proposing(), services, for_callers, runner=runner, recover=recover
        )

    @cache
    def deciding() -> Decisions:
        return decisions.Decisions(executor(), proposing(), prevent_self_review=settings.prevent_self_review)

    return ApprovalParts(proposing, executor, deciding)
