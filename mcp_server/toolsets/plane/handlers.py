"""What the tools on tasks in Plane do. Imported with the first call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.page_mentions import noted, pages_of
from mcp_server.connectors.replay import done_earlier
from mcp_server.gate.caller import Call
from mcp_server.ports import ActServices
from mcp_server.toolsets.plane.act_execution import TOOLS as TOOL_OF
from mcp_server.toolsets.plane.act_execution import WITHIN, carried_out, recalled, still_there
from mcp_server.toolsets.plane.act_model import TaskPlan, TaskWish, answered, changes, done_before, sentence
from mcp_server.toolsets.plane.act_plan import ActRequest, planned_comment, planned_creation, planned_update
from mcp_server.toolsets.plane.schemas import (
    TOOLSET,
    CommentArguments,
    CreateArguments,
    GetArguments,
    Projects,
    ProjectsArguments,
    QueryArguments,
    TaskActed,
    TaskList,
    TaskView,
    UpdateArguments,
)
from mcp_server.toolsets.plane.task_views import TaskQuery, projects_told, task_told, tasks_told
from mcp_server.toolsets.spec import CallPlan, CallPreview, ToolSpec


async def list_projects(services: ActServices, _call: Call, asked: ProjectsArguments) -> Projects:
    """Answer plane_list_projects."""
    return await projects_told(services.plane, asked.project)


async def query_tasks(services: ActServices, _call: Call, asked: QueryArguments) -> TaskList:
    """Answer plane_query_tasks."""
    named = asked.model_dump(exclude={"limit", "cursor", "journey_id"})
    return await tasks_told(services.plane, TaskQuery(**named), asked.limit, asked.cursor)


async def get_task(services: ActServices, _call: Call, asked: GetArguments) -> TaskView:
    """Answer plane_get_task."""

    async def cited(origin: str, title: str, url: str, texts: Sequence[str]) -> Sequence[str]:
        await noted(services, origin, url=url, texts=texts, title=title)
        return await pages_of(services, origin, texts)

    return await task_told(services.plane, asked.task, asked.include, asked.cursor, cited)


async def projects_read(_services: ActServices, told: Projects) -> Sequence[str]:
    """Return whose description was read."""
    return tuple(f"{TOOLSET}:{line.key}" for line in told.projects) if told.tainted else ()


async def tasks_read(_services: ActServices, told: TaskList) -> Sequence[str]:
    """Return which tasks were read of."""
    return tuple(f"{TOOLSET}:{line.key}" for line in told.tasks)


async def task_read(_services: ActServices, told: TaskView) -> Sequence[str]:
    """Return which task was read, and those that it is tied to: their names were told."""
    return tuple(f"{TOOLSET}:{key}" for key in (told.key, *(tied.key for tied in told.relations)))


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
    plan = await planned_creation(services.plane, asked.project, _wish(asked), _how(call, asked))
    return await _unless_done(services, call, asked, plan)


async def _update(services: ActServices, call: Call, asked: UpdateArguments) -> TaskPlan:
    how = _how(call, asked)
    return await planned_update(services.plane, asked.task, _wish(asked), how, seen_at=asked.seen_at)


async def _comment(services: ActServices, call: Call, asked: CommentArguments) -> TaskPlan:
    plan = await planned_comment(services.plane, asked.task, asked.text, _how(call, asked))
    return await _unless_done(services, call, asked, plan)


async def _unless_done(
    services: ActServices, call: Call, asked: CreateArguments | CommentArguments, plan: TaskPlan
) -> TaskPlan:
    """Return the plan, halted if a person agreed to this very call a while ago and it was done: nobody is asked twice."""
    if plan.halted is not None:
        return plan
    told = asked.model_dump(mode="json")
    earlier = await done_earlier(services, call, TOOL_OF[plan.kind], told, WITHIN[plan.kind])
    if earlier is None:
        return plan
    known = done_before(plan, earlier.answer, earlier.proposal)
    return replace(plan, halted=await still_there(services.plane, plan, known))


def _wish(asked: CreateArguments | UpdateArguments) -> TaskWish:
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
    return ActRequest(ToolSpec.hash_of(asked), rehearsal=asked.dry_run, unseen=call.trusted)


async def recall_create(services: ActServices, call: Call, asked: CreateArguments) -> TaskActed | None:
    """Return what became of a task that was to be created, by its key; also where its names are not there any more."""
    try:
        plan = await _creation(services, call, asked)
    except ConnectorError:
        plan = TaskPlan("create", await services.plane.project(asked.project), ())
    return await recalled(services, call, plan)


async def recall_update(services: ActServices, call: Call, asked: UpdateArguments) -> TaskActed | None:
    """Return what became of a change."""
    return await recalled(services, call, await _update(services, call, asked))


async def recall_comment(services: ActServices, call: Call, asked: CommentArguments) -> TaskActed | None:
    """Return what became of a comment."""
    return await recalled(services, call, await _comment(services, call, asked))
