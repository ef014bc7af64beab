"""The runs that this process leads itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.late_module import LateModule
from mcp_server.ports import RunViewServices

if TYPE_CHECKING:
    from agents.loop.record.run import Run
    from agents.loop.store.ports import RunStore
    from mcp_server.approvals.approvers import Approver
    from mcp_server.approvals.reviewers import work_deciders
    from mcp_server.runs import interventions
else:
    # The server's start needs only `leads_runs`, not the code that reads runs.
    work_deciders = LateModule("mcp_server.approvals.reviewers.work_deciders")
    interventions = LateModule("mcp_server.runs.interventions")


RUNS = "agent_run"
"""A process that does not list this tool leads no runs, not even those that others began: it may have to be read-only."""


async def answer(
    services: RunViewServices, store: RunStore, run: Run, text: str, person: Approver, *, ask: str
) -> None:
    """Record the person's answer to that question; the run continues here if this process leads runs with its model.

    Raises:
        CannotDecide: others answer it. RunNotThere: it has no open question, or a different one. NoSuchRun: there is no such run.
    """
    await work_deciders.require_answerer(services, run, person.principal_id)
    if leads_runs(services) and services.runs.model.name == run.header.model:
        await services.runs.answer_aside(run.id, text, person.name, ask=ask)
    else:
        await interventions.leave_answer(store, run.id, text, person.name, ask=ask, now=services.now)


def leads_runs(services: RunViewServices) -> bool:
    """Return whether this process leads runs."""
    return services.has_runs and any(spec.name == RUNS for spec in services.tools())
