"""The arguments and answers of the journey tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from mcp_server.toolsets.spec import Arguments, Cursor

LONGEST_NOTE = 4_000

JourneyId = Annotated[str, Field(description="From journey_start or journey_list.")]
Version = Annotated[int, Field(ge=1, description="version in the last answer about this journey.")]


class StartArguments(Arguments):
    """Arguments of journey_start."""

    agent: Annotated[str, Field(description="Agent or skill, e.g. research; omit for a proposal.")] = ""
    brief: Annotated[str, Field(description="The task, with everything the agent needs to know.")]
    inputs: Annotated[
        dict[str, Any],
        Field(
            description="Other inputs of the agent, by name. {fork_of: journey_id, at_version: 3} branches an existing journey."
        ),
    ] = Field(default_factory=dict)


class ReportedUsage(Arguments):
    """The cost of a step to the host."""

    tokens_in: Annotated[int, Field(ge=0)] = 0
    tokens_out: Annotated[int, Field(ge=0)] = 0
    model: str = ""
    conversation: str = ""


class SubmitArguments(Arguments):
    """Arguments of journey_submit."""

    journey_id: JourneyId
    version: Version
    work: Annotated[
        dict[str, Any],
        Field(description="As in work_schema, merged into what is recorded; or {phase: work, ...}."),
    ]
    signals: Annotated[
        list[str], Field(max_length=20, description="Hints for the next phase, if the prompt names any.")
    ] = Field(default_factory=list)
    usage: ReportedUsage | None = None
    confidence: Annotated[float | None, Field(ge=0, le=1, description="How sure you are of the work.")] = None
    reasoning: Annotated[str | None, Field(max_length=LONGEST_NOTE, description="Why you did it this way.")] = None


class DecideArguments(Arguments):
    """Arguments of journey_decide."""

    journey_id: JourneyId
    version: Version
    decision: Annotated[
        Literal["approve", "modify", "reject", "revisit", "answer", "cancel"],
        Field(description="reject needs a note; revisit returns to a phase; cancel ends the journey."),
    ]
    note: Annotated[str, Field(max_length=LONGEST_NOTE, description="The person's words.")] = ""
    changes: Annotated[
        dict[str, Any],
        Field(
            description="modify: fields, items by id; drop: ids. answer: {question id: their words}. revisit: {phase: name}."
        ),
    ] = Field(default_factory=dict)


class JourneyStatusArguments(Arguments):
    """Arguments of journey_status."""

    journey_id: JourneyId
    view: Annotated[
        Literal["state", "events", "graph", "report"], Field(description="graph is Mermaid; report is Markdown.")
    ] = "state"


class ListArguments(Arguments):
    """Arguments of journey_list."""

    state: Literal["active", "waiting", "complete", "cancelled"] | None = None
    agent: Annotated[str | None, Field(description="Only journeys of this agent.")] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None


@dataclass(frozen=True, slots=True)
class Journey:
    """A journey's position and what to do next.

    `state` is active, waiting (a person decides), complete, cancelled, or proposal (nothing was started).

    `work_schema` is null if the host has it already, as after work that was recorded but is not enough.
    """

    journey_id: str
    version: int
    agent: str
    state: str
    phase: str
    visit: int
    prompt: str
    work_schema: Mapping[str, Any] | None
    allowed_tools: Sequence[str]
    checkpoint: Mapping[str, Any] | None
    conversation: str


@dataclass(frozen=True, slots=True)
class JourneyView(Journey):
    """A journey's position, with the content of a view: `events`, or `text` (Mermaid, or the report)."""

    text: str | None = None
    events: Sequence[Mapping[str, Any]] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class JourneyItem:
    """A journey in a list."""

    journey_id: str
    agent: str
    title: str
    state: str
    phase: str
    version: int
    moved: str


@dataclass(frozen=True, slots=True)
class JourneyItems:
    """Journeys, newest first, and the agents. `note` says why no journeys are listed to this caller."""

    journeys: Sequence[JourneyItem]
    next_cursor: str | None
    agents: Sequence[Mapping[str, str]]
    note: str | None = None
