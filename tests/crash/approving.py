"""A person approves a proposal, in a process that may be killed meanwhile.

`python -m tests.crash.approving PROPOSAL` takes its settings from the environment, as a server does, and executes what
it approves. Its claim on a proposal expires soon after it is dead, so that nobody has to wait a minute to take over.
"""

from __future__ import annotations

import sys

import anyio

from mcp_server.app.composition import open_app
from mcp_server.app.settings.loader import load
from mcp_server.approvals import proposal_executor as executor_module
from tests.support.hosts.reviewers import ANN

LEASE_S = 0.3


async def main(proposal_id: str) -> None:
    """Say yes."""
    executor_module.LEASE_S = LEASE_S
    async with open_app(load({}), indexing=False, announcing=False) as app:
        waits = await app.base.state.trust.proposal(proposal_id)
        assert waits is not None
        await app.approvals.approve(proposal_id, waits.hash, ANN, "")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1])
