"""Waits until a proposal is closed: rejected, executed, failed, superseded, withdrawn or expired."""

from __future__ import annotations

from mcp_server.ports import WaitServices


def has_room(services: WaitServices) -> bool:
    """Return whether one more call may wait. A call that may not is answered at once, and can ask again."""
    return services.waiting.available_tokens >= 1


async def closed(services: WaitServices, proposal_id: str) -> None:
    """Return once the proposal is neither pending nor being executed."""
    async with services.waiting:
        while True:
            # The event first, then the proposal: a change between the two ends the wait below at once.
            seen = await services.state.last_event()
            proposal = await services.state.trust.proposal(proposal_id)
            if proposal is None or not proposal.open:
                return
            await services.state.changed(seen)
