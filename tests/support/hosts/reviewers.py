"""Hosts that may only propose, and the person who decides, for tests of the trust gradient."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from knowledge.trust.ports import Proposal
from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.approvers import Approver

ANN = Approver("ann", "page")


@dataclass(frozen=True)
class Reviewer:
    """A person who decides, in a server of their own that shares the knowledge base with the hosts'."""

    app: App

    async def waiting(self) -> list[Proposal]:
        """Return the pending proposals, oldest first."""
        found = await self.app.base.state.trust.proposals(states=("pending",))
        return list(reversed(found))

    async def only(self) -> Proposal:
        (found,) = await self.waiting()
        return found

    async def approve(self, proposal_id: str, person: Approver = ANN, note: str = "") -> Proposal:
        proposal = await self.proposal(proposal_id)
        return await self.app.approvals.approve(proposal_id, proposal.hash, person, note)

    async def reject(
        self, proposal_id: str, person: Approver = ANN, note: str = "", *, harmful: bool = False
    ) -> Proposal:
        proposal = await self.proposal(proposal_id)
        return await self.app.approvals.reject(proposal_id, proposal.hash, person, note, harmful=harmful)

    async def proposal(self, proposal_id: str) -> Proposal:
        found = await self.app.base.state.trust.proposal(proposal_id)
        assert found is not None
        return found

    async def score(self, principal: str) -> float:
        trust_record = await self.app.base.state.trust_record(principal)
        return 2.0 if trust_record is None else trust_record.score

    async def acts(self, proposal_id: str) -> list[dict[str, Any]]:
        """Return the audit records of that proposal's changes to files."""
        import json

        records = await self.app.base.state.ledger.records(limit=100_000)
        bodies = [json.loads(record.body) for record in records]
        return [body for body in bodies if body["proposal"] == proposal_id and body["changes"]]


@asynccontextmanager
async def reviewing(settings: Settings) -> AsyncIterator[Reviewer]:
    """Open the approvals of a server."""
    async with open_app(settings, indexing=False) as app:
        yield Reviewer(app)
