"""The journeys toolset: work in phases whose state is stored here, so that any host can continue it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.gate.policy import Trust
from mcp_server.late_module import LateModule
from mcp_server.toolsets.spec import JOURNEYS, ToolSpec

if TYPE_CHECKING:
    from mcp_server.toolsets.journeys import handlers, schemas
else:
    handlers = LateModule("mcp_server.toolsets.journeys.handlers")
    schemas = LateModule("mcp_server.toolsets.journeys.schemas")

JOURNEY_NOTES = {
    "version": "for your next submit or decision",
    "state": "active, waiting (for a person), complete or cancelled",
    "visit": "times this phase was entered",
    "work_schema": "JSON Schema of work; null: as before, or none",
    "checkpoint": "what to ask the person, or null",
    "conversation": "the context to work in",
}

JOURNEY_START = ToolSpec(
    name="journey_start",
    title="Start a journey",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Starts a journey: longer work that an agent leads through phases. The server stores it, so any host can continue it. "
        "Without agent it only proposes the lightest that is enough, or none. journey_list names agents, costs and journeys. "
        "Returns prompt (what to do), work_schema (what to submit) and allowed_tools. Pass journey_id to its tools."
    ),
    arguments=schemas.StartArguments,
    result=schemas.Journey,
    result_notes=JOURNEY_NOTES | {"state": "active, waiting (for a person), complete; or proposal"},
    answer=handlers.start,
    taints=handlers.read_in,
)

JOURNEY_SUBMIT = ToolSpec(
    name="journey_submit",
    title="Submit work of a phase",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Records your work for the current phase and checks it. Returns the prompt of the next phase, what is still missing, "
        "or a question for the person. If you recognise the returned conversation, continue it; otherwise start fresh from "
        "the prompt."
    ),
    arguments=schemas.SubmitArguments,
    result=schemas.Journey,
    result_notes=JOURNEY_NOTES,
    answer=handlers.submit,
    taints=handlers.read_in,
    idempotent=True,
)

JOURNEY_DECIDE = ToolSpec(
    name="journey_decide",
    title="Relay a person's decision",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Relays what the person said about a journey. Ask them, wait for their answer and pass it on; never decide yourself. "
        "Recorded as relayed. Where checkpoint.verified is true the person must decide elsewhere, and this call is refused."
    ),
    arguments=schemas.DecideArguments,
    result=schemas.Journey,
    result_notes=JOURNEY_NOTES,
    answer=handlers.decide,
    taints=handlers.read_in,
    idempotent=True,
)

JOURNEY_STATUS = ToolSpec(
    name="journey_status",
    title="Status of a journey",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Returns everything needed to continue a journey: its prompt, work_schema, version and any open checkpoint. "
        "With view it returns the newest events, the graph of phases or a report instead. Changes nothing."
    ),
    arguments=schemas.JourneyStatusArguments,
    result=schemas.JourneyView,
    result_notes=JOURNEY_NOTES | {"text": "the graph or report, if view asks for it"},
    answer=handlers.status,
    taints=handlers.read_in,
    read_only=True,
    idempotent=True,
)

JOURNEY_LIST = ToolSpec(
    name="journey_list",
    title="Journeys and agents",
    level=Trust.READ,
    toolset=JOURNEYS,
    description="Lists journeys, newest first, whichever host started them, and the agents that journey_start accepts.",
    arguments=schemas.ListArguments,
    result=schemas.JourneyItems,
    result_notes={"journeys.moved": "time of the last change"},
    answer=handlers.journeys,
    read_only=True,
    idempotent=True,
)

TOOLS = (JOURNEY_START, JOURNEY_SUBMIT, JOURNEY_DECIDE, JOURNEY_STATUS, JOURNEY_LIST)
