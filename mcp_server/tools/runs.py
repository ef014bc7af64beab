"""The runs toolset: the server carries a goal through by itself, with the language model that the settings name."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mcp_server.gate.canonical import canonical
from mcp_server.gate.policy import Trust
from mcp_server.services import Call, Services
from mcp_server.tools.spec import Arguments, Shown, ToolSpec

if TYPE_CHECKING:
    from agents.loop.frames import Frame, Header
    from agents.loop.run import Run

TOOLSET = "runs"
MOST_GOAL, MOST_CONTEXT, MOST_ANSWER = 8_000, 100_000, 8_000
"""Characters."""


class RunArguments(Arguments):
    """Arguments of agent_run."""

    goal: Annotated[str, Field(max_length=MOST_GOAL, description="What is to be reached.")] = ""
    context: Annotated[str, Field(max_length=MOST_CONTEXT, description="What is known already.")] = ""
    toolsets: Annotated[list[str], Field(max_length=10, description="Default: all.")] = Field(default_factory=list)
    max_iterations: Annotated[int, Field(ge=1, le=50)] = 5
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    run_id: Annotated[str | None, Field(description="A run that asks; `answer` is the person's.")] = None
    answer: Annotated[str, Field(max_length=MOST_ANSWER)] = ""


class TraceArguments(Arguments):
    """Arguments of agent_trace."""

    run_id: str
    offset: Annotated[int, Field(ge=0)] = 0


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A run to begin, or (`answer`) to go on with."""

    header: Header
    answer: str = ""


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """Where a run stands. `status`: done, failed, cancelled, asking (`question`), proposed (`proposal` waits), running.

    `text` is its answer, or why it ended. `cost` is what is known of it, in the currency of the prices.
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


@dataclass(frozen=True, slots=True)
class RunTrace:
    """A run in words, made of its record alone."""

    run_id: str
    status: str
    text: str
    next_offset: int | None
    tainted: bool


async def plan_run(services: Services, call: Call, asked: RunArguments) -> RunPlan:
    """Work out which run would be begun, or gone on with. Changes nothing."""
    from agents.loop.errors import NoSuchRun, RunNotThere
    from agents.loop.explained import STANDS
    from agents.loop.frames import Header, Limits

    if asked.run_id is not None:
        there = await services.runs.store.run(asked.run_id)
        if there.header.principal != call.principal.id:
            raise NoSuchRun(asked.run_id)
        if there.ask is None:
            raise RunNotThere(there.id, STANDS[there.state], "answered")
        return RunPlan(there.header, asked.answer)
    header = Header(
        id=f"r-{secrets.token_hex(10)}",
        goal=asked.goal,
        context=asked.context,
        principal=call.principal.id,
        begun_at=services.now(),
        toolsets=tuple(asked.toolsets),
        model=services.model.name,
        limits=Limits(iterations=asked.max_iterations, seconds=float(asked.timeout_seconds)),
    )
    return RunPlan(header)


async def carry_through(services: Services, call: Call, plan: RunPlan) -> RunAnswer:
    """Begin the run, or answer it, and return where it stands when it is over or waits; at once where the caller does not wait."""
    runs, header = services.runs, plan.header
    aside = call.detached or call.approval is not None

    async def report(run: Run, frame: Frame) -> None:
        await call.report(run.iterations, header.limits.iterations, frame.TYPE)

    if not plan.answer:
        await runs.begin(header)
        await services.taints.carry(call.principal.id, header.id)
    if aside and plan.answer:
        runs.answer_aside(header.id, plan.answer, call.principal.id)
    elif aside:
        runs.lead_aside(header.id)
    elif plan.answer:
        await runs.answer(header.id, plan.answer, call.principal.id, progress=report)
    else:
        await runs.lead(header.id, progress=report)
    return await answered(services, await runs.store.run(header.id))


async def answered(services: Services, run: Run) -> RunAnswer:
    """Return where the run stands, as plain data."""
    from agents.loop.explained import traced
    from mcp_server.gate.summary import summary

    waits = await services.state.trust.proposal(run.proposal) if run.proposal else None
    response, spent = run.response, run.spent
    return RunAnswer(
        run_id=run.id,
        status="proposed" if run.state == "suspended" else run.state,
        text=response.text if response else run.why,
        goal_achieved=bool(response and response.goal_achieved),
        question=run.ask.question if run.ask else "",
        proposal=await summary(waits, services.review_address) if waits else None,
        iterations=run.iterations,
        tools_called=list(run.tools_called),
        trace=traced(run),
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
        cost=None if spent.unpriced else spent.cost_micros / 1_000_000,
    )


def shows(plan: RunPlan) -> Shown:
    """Return what a person is shown of the plan before they agree to it."""
    header = plan.header
    about = [header.goal, header.context, list(header.toolsets), header.model, plan.answer]
    what = "go on with a run, answering" if plan.answer else "carry out"
    return Shown(
        answer=RunAnswer("", "analysis", "", False, "", None, 0, [], "", 0, 0, None),  # noqa: FBT003 - in the order of its fields
        sentence=f"{what}: {plan.answer or header.goal}",
        effect=hashlib.sha256(canonical(about)).hexdigest(),
        documents=(),
    )


async def trace(services: Services, call: Call, asked: TraceArguments) -> RunTrace:
    """Return the run in words."""
    from agents.loop.errors import NoSuchRun
    from agents.loop.explained import explained

    run = await services.runs.store.run(asked.run_id)
    if run.header.principal != call.principal.id:
        raise NoSuchRun(asked.run_id)
    tainted = bool(await services.taints.of_journey(run.id))
    return RunTrace(run.id, run.state, explained(run), None, tainted)


async def read_in(services: Services, told: RunTrace) -> Sequence[str]:
    """Return where text of the run comes from that nobody vouches for."""
    return tuple(await services.taints.of_journey(told.run_id))


AGENT_RUN = ToolSpec[RunArguments, RunPlan, RunAnswer](
    name="agent_run",
    title="Carry a goal through",
    level=Trust.EDIT,
    toolset=TOOLSET,
    description="The server's own model works on the goal with these tools, step by step, within bounds; each passes the gate as yours.",
    arguments=RunArguments,
    result=RunAnswer,
    plan=plan_run,
    apply=carry_through,
    shows=shows,
    open_world=True,
    leads=True,
)

AGENT_TRACE = ToolSpec[TraceArguments, None, RunTrace](
    name="agent_trace",
    title="Explain a run",
    level=Trust.READ,
    toolset=TOOLSET,
    description="What a run did and why, step by step.",
    arguments=TraceArguments,
    result=RunTrace,
    answer=trace,
    taints=read_in,
    read_only=True,
    idempotent=True,
)

TOOLS = (AGENT_RUN, AGENT_TRACE)
