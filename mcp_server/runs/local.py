"""The runs that this process leads itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.approvals.reviewers.work_deciders import require_answerer
from mcp_server.ports import RunViewServices

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore
    from mcp_server.approvals.approvers import Approver


RUNS = "agent_run"
"""A process that does not list this tool leads no runs, not even those that others began: it may have to be read-only."""


async def answer(
    services: RunViewServices, store: RunStore, run: Run, text: str, person: Approver, *, ask: str
) -> None:
    """Record the person's answer to that question; the run continues here if this process leads runs with its model.

    Raises:
        CannotDecide: others answer it. RunNotThere: it has no open question, or a different one. NoSuchRun: there is no such run.
    """
    await require_answerer(services, run, person.principal_id)
    if leads_runs(services) and services.runs.model.name == run.header.model:
        await services.runs.answer_aside(run.id, text, person.name, ask=ask)
    else:
        # Imported here, because the server's start needs only `leads_runs`, not the code that reads runs.
        from mcp_server.runs.interventions import leave_answer

        await leave_answer(store, run.id, text, person.name, ask=ask, now=services.now)


def leads_runs(services: RunViewServices) -> bool:
    """Return whether this process leads runs."""
    return services.has_runs and any(spec.name == RUNS for spec in services.tools())
