"""Waiting for a person: until nothing more is to happen to a proposal."""

from __future__ import annotations

from mcp_server.ports import WaitServices


def there_is_room(services: WaitServices) -> bool:
    """Return whether one more call may wait; else it is answered at once, and whoever called may ask again."""
    return services.waiting.available_tokens >= 1


async def ended(services: WaitServices, proposal_id: str) -> None:
    """Return when the proposal neither waits nor is being carried out."""
    async with services.waiting:
        while True:
            seen = await services.state.last_event()
            proposal = await services.state.trust.proposal(proposal_id)
            if proposal is None or not proposal.open:
                return
            await services.state.changed(seen)
