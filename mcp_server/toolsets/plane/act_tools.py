"""The Plane toolset's second half: create tasks, change them, and comment on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from mcp_server.connectors.plane.model import Priority
from mcp_server.gate.caller import Call
from mcp_server.gate.policy import Trust
from mcp_server.ports import ActServices
from mcp_server.toolsets.plane.answers import TaskActed
from mcp_server.toolsets.plane.task_tools import TOOLSET, IsoDate
from mcp_server.toolsets.spec import Arguments, CallPlan, CallPreview, DryRun, InJourney, ToolSpec

if TYPE_CHECKING:
    from mcp_server.toolsets.plane.act_model import TaskPlan, TaskWish
    from mcp_server.toolsets.plane.act_plan import ActRequest

LONGEST_NAME = 255
LONGEST_TEXT = 100_000


class CreateArguments(Arguments):
    """Arguments of plane_create_task."""

    project: Annotated[str, Field(min_length=1, description="Key or name, e.g. 'KB'.")]
    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    description: Annotated[
        str, Field(max_length=LONGEST_TEXT, description="Markdown; cite a page as kb:guides/backup.md.")
    ] = ""
    priority: Priority = "none"
    assignees: Annotated[list[str], Field(description="Names or email addresses.")] = Field(default_factory=list)
    state: str | None = None
    labels: list[str] = Field(default_factory=list)
    start: IsoDate = None
    due: IsoDate = None
    dry_run: DryRun = False
    journey_id: InJourney = None


class UpdateArguments(Arguments):
    """Arguments of plane_update_task."""

    task: Annotated[str, Field(min_length=1, description="Key, id or URL, e.g. KB-12.")]
    name: Annotated[str | None, Field(min_length=1, max_length=LONGEST_NAME)] = None
    description: Annotated[
        str | None, Field(max_length=LONGEST_TEXT, description="The whole new text; needs seen_at.")
    ] = None
    seen_at: Annotated[str | None, Field(description="updated_at of the task you read.")] = None
    priority: Priority | None = None
    assignees: Annotated[list[str] | None, Field(description="The whole new list.")] = None
    state: str | None = None
    labels: list[str] | None = None
    start: Annotated[str | None, Field(description="ISO date; '' removes it.")] = None
    due: str | None = None
    dry_run: DryRun = False
    journey_id: InJourney = None


class CommentArguments(Arguments):
    """Arguments of plane_comment_task."""

    task: Annotated[str, Field(min_length=1, description="Key, id or URL, e.g. KB-12.")]
    text: Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT, description="Markdown.")]
    dry_run: DryRun = False
    journey_id: InJourney = None


async def plan_create(services: ActServices, call: Call, asked: CreateArguments) -> CallPlan[TaskActed]:
    """Work out what creating the task would send. Changes nothing."""
    return _call_plan(services, await _creation(services, call, asked))


async def plan_update(services: ActServices, call: Call, asked: UpdateArguments) -> CallPlan[TaskActed]:
    """Work out what of the task would change. Changes nothing."""
    return _call_plan(services, await _update(services, call, asked))


async def plan_comment(services: ActServices, call: Call, asked: CommentArguments) -> CallPlan[TaskActed]:
    """Work out what the comment would send. Changes nothing."""
    return _call_plan(services, await _comment(services, call, asked))


def _call_plan(services: ActServices, plan: TaskPlan) -> CallPlan[TaskActed]:
    """Return what the gate has to know of an act on a task."""
    from mcp_server.toolsets.plane.act_execution import carried_out
    from mcp_server.toolsets.plane.act_model import answered, changes, sentence

    origins = (plan.place,) if plan.quotes else ()  # the task whose text is shown with the plan
    if plan.halted is not None:
        return CallPlan(answer=plan.halted, origins=origins)
    return CallPlan(
        execute=lambda call: carried_out(services, call, plan),
        preview=CallPreview(
            answer=answered(plan, "analysis"),
            sentence=sentence(plan),
            effect=plan.effect,
            documents=(),
            files=changes(plan),
        ),
        origins=origins,
        destination=plan.destination,
    )


async def _creation(services: ActServices, call: Call, asked: CreateArguments) -> TaskPlan:
    from mcp_server.toolsets.plane.act_plan import planned_creation

    plan = await planned_creation(services.plane, asked.project, _wish(asked), _how(call, asked))
    return await _unless_done(services, call, asked, plan)


async def _update(services: ActServices, call: Call, asked: UpdateArguments) -> TaskPlan:
    from mcp_server.toolsets.plane.act_plan import planned_update

    how = _how(call, asked)
    return await planned_update(services.plane, asked.task, _wish(asked), how, seen_at=asked.seen_at)


async def _comment(services: ActServices, call: Call, asked: CommentArguments) -> TaskPlan:
    from mcp_server.toolsets.plane.act_plan import planned_comment

    plan = await planned_comment(services.plane, asked.task, asked.text, _how(call, asked))
    return await _unless_done(services, call, asked, plan)


async def _unless_done(
    services: ActServices, call: Call, asked: CreateArguments | CommentArguments, plan: TaskPlan
) -> TaskPlan:
    """Return the plan, halted if a person agreed to this very call a while ago and it was done: nobody is asked twice."""
    from mcp_server.connectors.replay import done_earlier
    from mcp_server.toolsets.plane.act_execution import TOOLS as TOOL_OF
    from mcp_server.toolsets.plane.act_execution import WITHIN, still_there
    from mcp_server.toolsets.plane.act_model import done_before

    if plan.halted is not None:
        return plan
    told = asked.model_dump(mode="json")
    earlier = await done_earlier(services, call, TOOL_OF[plan.kind], told, WITHIN[plan.kind])
    if earlier is None:
        return plan
    known = done_before(plan, earlier.answer, earlier.proposal)
    return replace(plan, halted=await still_there(services.plane, plan, known))


def _wish(asked: CreateArguments | UpdateArguments) -> TaskWish:
    from mcp_server.toolsets.plane.act_model import TaskWish

    return TaskWish(
        name=asked.name,
        description=asked.description,
        priority=asked.priority,
        assignees=asked.assignees,
        state=asked.state,
        labels=asked.labels,
        start=asked.start,
        due=asked.due,
    )


def _how(call: Call, asked: CreateArguments | UpdateArguments | CommentArguments) -> ActRequest:
    from mcp_server.toolsets.plane.act_plan import ActRequest

    return ActRequest(ToolSpec.hash_of(asked), rehearsal=asked.dry_run, unseen=call.trusted)


async def recall_create(services: ActServices, call: Call, asked: CreateArguments) -> TaskActed | None:
    """Return what became of a task that was to be created, by its key; also where its names are not there any more."""
    from mcp_server.connectors.errors import ConnectorError
    from mcp_server.toolsets.plane.act_execution import recalled
    from mcp_server.toolsets.plane.act_model import TaskPlan

    try:
        plan = await _creation(services, call, asked)
    except ConnectorError:
        plan = TaskPlan("create", await services.plane.project(asked.project), ())
    return await recalled(services, call, plan)


async def recall_update(services: ActServices, call: Call, asked: UpdateArguments) -> TaskActed | None:
    """Return what became of a change."""
    from mcp_server.toolsets.plane.act_execution import recalled

    return await recalled(services, call, await _update(services, call, asked))


async def recall_comment(services: ActServices, call: Call, asked: CommentArguments) -> TaskActed | None:
    """Return what became of a comment."""
    from mcp_server.toolsets.plane.act_execution import recalled

    return await recalled(services, call, await _comment(services, call, asked))


PLANE_CREATE_TASK = ToolSpec[ActServices, CreateArguments, TaskActed](
    name="plane_create_task",
    title="Create a task in Plane",
    level=Trust.ROUTINE,
    toolset=TOOLSET,
    description=(
        "Creates a task; repeating the call soon after creates no second one. "
        "dropped and differs list what Plane did not store as sent."
    ),
    arguments=CreateArguments,
    result=TaskActed,
    plan=plan_create,
    recalled=recall_create,
    idempotent=True,
    open_world=True,
)

PLANE_UPDATE_TASK = ToolSpec[ActServices, UpdateArguments, TaskActed](
    name="plane_update_task",
    title="Change a task in Plane",
    level=Trust.ROUTINE,
    toolset=TOOLSET,
    description="Changes only the fields you set; state moves the task.",
    arguments=UpdateArguments,
    result=TaskActed,
    plan=plan_update,
    recalled=recall_update,
    destructive=True,
    idempotent=True,
    open_world=True,
)

PLANE_COMMENT_TASK = ToolSpec[ActServices, CommentArguments, TaskActed](
    name="plane_comment_task",
    title="Comment on a task in Plane",
    level=Trust.ROUTINE,
    toolset=TOOLSET,
    description="Adds a comment; repeating the call soon after adds no second one.",
    arguments=CommentArguments,
    result=TaskActed,
    plan=plan_comment,
    recalled=recall_comment,
    idempotent=True,
    open_world=True,
)

TOOLS = (PLANE_CREATE_TASK, PLANE_UPDATE_TASK, PLANE_COMMENT_TASK)
