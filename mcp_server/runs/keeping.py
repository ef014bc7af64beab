"""Looks after runs that wait: goes on with those about whose proposal a person decided, and with those whose process died."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from knowledge.errors import KnowledgeError

if TYPE_CHECKING:
    from agents.loop.run import Run
    from mcp_server.runs.office import Runs
    from mcp_server.services import Services

logger = logging.getLogger("knowledge_forge.runs")

LOOK_S = 20.0


async def keep_runs(services: Services, runs: Runs) -> None:
    """Go on with runs, for ever. Several processes may: of those that try to lead a run one does."""
    while True:
        seen = await services.state.last_event()
        try:
            await look_after(services, runs)
        except KnowledgeError:
            logger.warning("cannot look after runs now", exc_info=True)
        with anyio.move_on_after(LOOK_S):
            await services.state.changed(seen)


async def look_after(services: Services, runs: Runs) -> None:
    """Go on with whatever can be gone on with now."""
    for line in await runs.store.runs(state="suspended", limit=100):
        run = await runs.store.run(line.id)
        told = await became(services, run)
        if told is not None:
            runs.resume_aside(run.id, run.proposal, told)
    for line in await runs.store.runs(adrift_at=services.now(), limit=100):
        runs.lead_aside(line.id)


async def became(services: Services, run: Run) -> str | None:
    """Return what a run is told of the proposal that it waits for; None while that is open, and where it waits for none."""
    if not run.proposal:
        return None
    proposal = await services.state.trust.proposal(run.proposal)
    if proposal is not None and proposal.open:
        return None
    return f"it was {proposal.state}" if proposal else "it is gone"
