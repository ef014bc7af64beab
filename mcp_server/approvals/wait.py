"""Waits for changes of the state database, for example until a proposal is closed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from knowledge.state.ports import StateStore
from mcp_server.ports import WaitServices


def has_room(services: WaitServices) -> bool:
    """Return whether one more call may wait. A call that may not is answered at once, and can ask again."""
    return services.waiting.available_tokens >= 1


async def until(state: StateStore, done: Callable[[], Awaitable[bool]]) -> None:
    """Return once `done` returns true. It is called at once and after each event."""
    while True:
        # The event first, then the check: a change between the two ends the wait below at once.
        seen = await state.last_event()
        if await done():
            return
        await state.changed(seen)


async def closed(services: WaitServices, proposal_id: str) -> None:
    """Return once the proposal is rejected, executed, failed, superseded, withdrawn or expired."""

    async def is_closed() -> bool:
        proposal = await services.state.trust.proposal(proposal_id)
        return proposal is None or not proposal.open

    async with services.waiting:
        await until(services.state, is_closed)
