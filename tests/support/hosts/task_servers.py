"""Servers with tasks: two clients of the same principal, and the person who decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import Approver
from tests.doubles.provider_turns import Call, Turn
from tests.support.hosts.task_clients import (
    Wire,
    wired,
)
from tests.support.runs.hosts import RunHost, run_host

NOTE = {"path": "new.md", "content": "# New\n\nOne.\n"}
MOVE = {"path": "guides/deploy.md", "to": "guides/release.md"}
ANN = Approver("ann", "page")
UNKNOWN, MISSING, OTHER_NAME, NO_METHOD = -32602, -32021, -32020, -32601


@dataclass(frozen=True)
class Place:
    """One server: `host` is a client without tasks, `wire` speaks by hand; both are the same principal."""

    host: RunHost
    wire: Wire

    @property
    def forms(self) -> Wire:
        """Return the same client with forms."""
        return replace(self.wire, forms=True)

    async def proposal(self, proposal_id: str) -> Proposal:
        found = await self.host.app.services.state.trust.proposal(proposal_id)
        assert found is not None
        return found

    async def decide(self, proposal_id: str, *, approve: bool = True, note: str = "") -> None:
        """Decide as a person on the page."""
        proposal = await self.proposal(proposal_id)
        approvals = self.host.app.approvals
        await (approvals.approve if approve else approvals.reject)(proposal.id, proposal.hash, ANN, note)

    def written(self) -> bool:
        return (self.host.settings.kb / NOTE["path"]).exists()

    def moved(self) -> bool:
        return (self.host.settings.kb / MOVE["to"]).exists()


@asynccontextmanager
async def place(folder: Path, **more: Any) -> AsyncIterator[Place]:
    async with run_host(folder, **more) as host, wired(host.app, host.settings.enrolment or "") as wire:
        yield Place(host, wire)


def asks(question: str) -> Turn:
    return Turn(calls=(Call("ask_user", {"question": question}),))
