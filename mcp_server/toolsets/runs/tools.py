"""The runs toolset: the server carries a goal through by itself, with the language model that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.gate.policy import Trust
from mcp_server.late_module import LateModule
from mcp_server.toolsets.spec import ToolSpec

if TYPE_CHECKING:
    from mcp_server.toolsets.runs import handlers, schemas
else:
    handlers = LateModule("mcp_server.toolsets.runs.handlers")
    schemas = LateModule("mcp_server.toolsets.runs.schemas")

AGENT_RUN = ToolSpec(
    name="agent_run",
    title="Run a task on the server",
    level=Trust.EDIT,
    toolset="runs",
    description=(
        "For hosts without a strong model: the server's own language model works on a goal with these tools, with your rights "
        "and within limits. It costs money. status is done, failed, cancelled, asking, proposed or running; note says what "
        "to do next."
    ),
    arguments=schemas.RunArguments,
    result=schemas.RunAnswer,
    result_notes={
        "text": "the answer, or why the run ended",
        "goal_achieved": "whether the answer addresses the goal; if not, note says why",
        "question": "to answer with run_id and answer",
        "cost": "in the currency of the configured prices; null if a price is unknown",
    },
    plan=handlers.plan_call,
    recalled=handlers.recalled,
    open_world=True,
    leads=True,
)

AGENT_TRACE = ToolSpec(
    name="agent_trace",
    title="Explain a run",
    level=Trust.READ,
    toolset="runs",
    description="Shows the status of a run, its answer or question, and what it did and why.",
    arguments=schemas.TraceArguments,
    result=schemas.RunTrace,
    result_notes={
        "answer": "the answer, or why the run ended",
        "text": "what it did and why",
        "next_offset": "null at the end",
    },
    answer=handlers.trace,
    taints=handlers.read_in,
    read_only=True,
    idempotent=True,
)

TOOLS = (AGENT_RUN, AGENT_TRACE)
