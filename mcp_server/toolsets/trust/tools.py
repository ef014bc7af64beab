"""The trust toolset: tells a caller what it may do, and the level that each tool needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.gate.policy import Trust
from mcp_server.late_module import LateModule
from mcp_server.toolsets.spec import ToolSpec

if TYPE_CHECKING:
    from mcp_server.toolsets.trust import handlers, schemas
else:
    handlers = LateModule("mcp_server.toolsets.trust.handlers")
    schemas = LateModule("mcp_server.toolsets.trust.schemas")

TRUST_STATUS = ToolSpec(
    name="trust_status",
    title="How far you are trusted",
    level=Trust.NONE,
    toolset="trust",
    description=(
        "Shows your trust score and level, the level each tool needs, and your pending proposals. Use it when a call was "
        "refused or proposed. cap is the highest score you can reach. Only a person can raise your level."
    ),
    arguments=schemas.NoArguments,
    result=schemas.TrustStatus,
    result_notes={
        "score": "0 to 5",
        "frozen": "true: a person holds the score at 0",
        "needs": "level by tool",
    },
    answer=handlers.status,
    read_only=True,
    idempotent=True,
)

PROPOSAL_STATUS = ToolSpec(
    name="proposal_status",
    title="Status of a proposal",
    level=Trust.NONE,
    toolset="trust",
    description=(
        "When a call returned status 'proposed': shows what a person decided about it and, once approved, its result. "
        "You cannot approve a proposal yourself."
    ),
    arguments=schemas.ProposalStatusArguments,
    result=schemas.ProposalStatus,
    answer=handlers.proposal_status,
    taints=handlers.read_in,
    read_only=True,
    idempotent=True,
    waits=True,
)

PROPOSAL_WITHDRAW = ToolSpec(
    name="proposal_withdraw",
    title="Withdraw a proposal",
    level=Trust.NONE,
    toolset="trust",
    description="Withdraws one of your proposals before a person decides on it. It is then never carried out.",
    arguments=schemas.WithdrawArguments,
    result=schemas.ProposalStatus,
    answer=handlers.withdraw,
    taints=handlers.read_in,
    idempotent=True,
)

TOOLS = (TRUST_STATUS, PROPOSAL_STATUS, PROPOSAL_WITHDRAW)
