"""The runs that this process leads itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.ports import RunViewServices

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore


RUNS = "agent_run"
"""A process that does not list this tool leads no runs, not even those that others began: it may have been told to change nothing."""


async def answer(services: RunViewServices, store: RunStore, run: Run, text: str, by: str, *, ask: str) -> None:
    """Put the person's answer to that question on record; the run goes on here if it is one that this process leads.

    Raises:
        RunNotThere: it asks nothing, or something else. NoSuchRun: there is none.
    """
    if leads_runs(services) and services.runs.model.name == run.header.model:
        await services.runs.answer_aside(run.id, text, by, ask=ask)
    else:
        from mcp_server.runs.interventions import (
            leave_answer,  # start-up needs `leads_runs`, and nothing of the journal of runs
        )

        await leave_answer(store, run.id, text, by, ask=ask, now=services.now)


def leads_runs(services: RunViewServices) -> bool:
    """Return whether this process leads runs."""
    return services.has_runs and any(spec.name == RUNS for spec in services.tools())
