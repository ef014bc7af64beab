"""The arguments and answers of the tools on runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mcp_server.toolsets.spec import Arguments

if TYPE_CHECKING:
    from agents.loop.record.frames import Header


class RunArguments(Arguments):
    """Arguments of agent_run."""

    goal: Annotated[str, Field(description="What to achieve.")] = ""
    context: Annotated[str, Field(description="What is already known.")] = ""
    toolsets: Annotated[list[str], Field(description="Toolsets the run may use, e.g. ['knowledge']; all if empty.")] = (
        Field(default_factory=list)
    )
    max_iterations: Annotated[int, Field(ge=1, le=50)] = 5
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    run_id: Annotated[str | None, Field(description="Instead of goal: a run that asks a question.")] = None
    answer: Annotated[str | None, Field(description="The person's answer to that question.")] = None


class TraceArguments(Arguments):
    """Arguments of agent_trace."""

    run_id: Annotated[str, Field(description="run_id in the answer of agent_run.")]
    offset: Annotated[int, Field(ge=0, description="next_offset of the previous answer.")] = 0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run to begin, or a run to answer. In the second case `answer` is the answer to `question`, whose id is `ask`."""

    header: Header
    answer: str = ""
    ask: str = ""
    question: str = ""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """A run as it is now. `status`: done, failed, cancelled, asking (`question`), proposed (`proposal` waits), running.

    `text` is its answer, or why it ended; `note` says what to do if it is not over. `cost` is in the currency of the prices, None if
    a price is unknown. `tainted`: it has read untrusted text.
    """

    run_id: str
    status: str
    text: str
    goal_achieved: bool
    question: str
    proposal: Mapping[str, Any] | None
    iterations: int
    tools_called: Sequence[str]
    trace: str
    tokens_in: int
    tokens_out: int
    cost: float | None
    tainted: bool
    note: str | None


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A page of a run's explanation (`text`), made from its record alone.

    The other fields are as in the answer of agent_run. `answer` is the field `text` of that answer.
    """

    run_id: str
    status: str
    answer: str
    question: str
    proposal: Mapping[str, Any] | None
    text: str
    next_offset: int | None
    tainted: bool
