"""Answers the calls of the tools on tasks in Plane. Imported with the first call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.page_mentions import related_pages, remember_mentions
from mcp_server.connectors.plane.board import board_of
from mcp_server.gate.caller import Call
from mcp_server.ports import ActServices
from mcp_server.toolsets.plane import TOOLSET, task_queries, task_views
from mcp_server.toolsets.plane.acts import plan as act_plan
from mcp_server.toolsets.plane.acts.batch import plan_batch
from mcp_server.toolsets.plane.acts.batch_execution import carry_out_batch, recall_batch
from mcp_server.toolsets.plane.acts.execution import TOOLS, WINDOWS, still_there, task_act
from mcp_server.toolsets.plane.acts.model import TaskPlan, answered, changes, done_before, sentence
from mcp_server.toolsets.plane.schemas import (
    ChangesArguments,
    ChangesMade,
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
from mcp_server.toolsets.service_act import earlier_act
from mcp_server.toolsets.spec import CallPlan, CallPreview

NOTHING = "nothing is left to change; nothing was sent"


async def list_projects(services: ActServices, _call: Call, arguments: ProjectsArguments) -> Projects:
    """Answer plane_list_projects."""
    return await task_views.list_projects(board_of(services), arguments.project)


async def query_tasks(services: ActServices, _call: Call, arguments: QueryArguments) -> TaskList:
    """Answer plane_query_tasks."""
    return await task_queries.query_tasks(board_of(services), arguments)


async def get_task(services: ActServices, _call: Call, arguments: GetArguments) -> TaskView:
    """Answer plane_get_task."""

    async def pages_of(origin: str, title: str, url: str, texts: Sequence[str]) -> Sequence[str]:
        await remember_mentions(services, origin, url=url, texts=texts, title=title)
        return await related_pages(services, origin, texts)

    return await task_views.get_task(board_of(services), arguments, pages_of)


async def projects_read(_services: ActServices, _call: Call, answer: Projects) -> Sequence[str]:
    """Return the projects whose description the answer holds."""
    return tuple(f"{TOOLSET}:{line.key}" for line in answer.projects) if answer.tainted else ()


async def tasks_read(_services: ActServices, _call: Call, answer: TaskList) -> Sequence[str]:
    """Return the tasks whose names the answer contains, and the projects whose people, states or labels it counts."""
    return tuple(f"{TOOLSET}:{key}" for key in (*(line.key for line in answer.tasks), *answer.counted))


async def task_read(_services: ActServices, _call: Call, answer: TaskView) -> Sequence[str]:
    """Return the task, and the related tasks and sub-tasks whose names the answer contains."""
    keys = [answer.key, *(tied.key for tied in answer.relations), *(below.key for below in answer.subtasks)]
    return tuple(f"{TOOLSET}:{key}" for key in keys)


async def plan_create(services: ActServices, call: Call, arguments: CreateArguments) -> CallPlan[TaskActed]:
    """Plan creating a task. Changes nothing."""
    return _call_plan(services, await _creation(services, call, arguments))


async def plan_update(services: ActServices, call: Call, arguments: UpdateArguments) -> CallPlan[TaskActed]:
    """Plan changing a task. Changes nothing."""
    return _call_plan(services, await act_plan.plan_update(board_of(services), call, arguments))


async def plan_comment(services: ActServices, call: Call, arguments: CommentArguments) -> CallPlan[TaskActed]:
    """Plan a comment. Changes nothing."""
    return _call_plan(services, await _comment(services, call, arguments))


async def plan_changes(services: ActServices, call: Call, arguments: ChangesArguments) -> CallPlan[ChangesMade]:
    """Plan several changes of tasks as one act. Changes nothing."""
    batch = await plan_batch(services, call, arguments)
    answer = batch.answer()
    if arguments.dry_run:
        return CallPlan(answer=answer, origins=batch.origins)
    if not batch.acts:
        return CallPlan(answer=replace(answer, status="unchanged", preview="", note=NOTHING), origins=batch.origins)
    return CallPlan(
        execute=lambda call: carry_out_batch(services, call, batch),
        preview=CallPreview(
            answer=answer, sentence=batch.sentence, effect=batch.effect, documents=(), files=batch.files
        ),
        origins=batch.origins,
        destination=batch.destination,
        level=batch.level,
    )


async def recall_changes(services: ActServices, call: Call, arguments: ChangesArguments) -> ChangesMade | None:
    """Finish several changes whose process died, and return the outcome of each."""
    return await recall_batch(services, call, arguments)


async def recall_create(services: ActServices, call: Call, arguments: CreateArguments) -> TaskActed | None:
    """Return the outcome of a creation whose process died."""
    try:
        plan = await _creation(services, call, arguments)
    except ConnectorError:
        # A name may no longer exist; the task is found by its key alone.
        plan = TaskPlan("create", await board_of(services).project(arguments.project), ())
    return await task_act(services, plan).recall(services, call)


async def recall_update(services: ActServices, call: Call, arguments: UpdateArguments) -> TaskActed | None:
    """Return the outcome of a change whose process died."""
    plan = await act_plan.plan_update(board_of(services), call, arguments)
    return await task_act(services, plan).recall(services, call)


async def recall_comment(services: ActServices, call: Call, arguments: CommentArguments) -> TaskActed | None:
    """Return the outcome of a comment whose process died."""
    return await task_act(services, await _comment(services, call, arguments)).recall(services, call)


async def _creation(services: ActServices, call: Call, arguments: CreateArguments) -> TaskPlan:
    plan = await act_plan.plan_creation(board_of(services), arguments)
    return await _halted_if_done(services, call, arguments, plan)


async def _comment(services: ActServices, call: Call, arguments: CommentArguments) -> TaskPlan:
    plan = await act_plan.plan_comment(board_of(services), arguments)
    return await _halted_if_done(services, call, arguments, plan)


async def _halted_if_done(
    services: ActServices, call: Call, arguments: CreateArguments | CommentArguments, plan: TaskPlan
) -> TaskPlan:
    """Return the plan, halted if a person approved this very call a while ago and it was done."""
    if plan.halted is not None:
        return plan
    earlier = await earlier_act(services, call, TOOLS[plan.kind], arguments, WINDOWS[plan.kind])
    if earlier is None:
        return plan
    return replace(plan, halted=await still_there(board_of(services), plan, done_before(plan, earlier)))


def _call_plan(services: ActServices, plan: TaskPlan) -> CallPlan[TaskActed]:
    origins = (plan.place,) if plan.quotes else ()
    if plan.halted is not None:
        return CallPlan(answer=plan.halted, origins=origins)
    return CallPlan(
        execute=lambda call: task_act(services, plan).carry_out(services, call),
        preview=CallPreview(
            answer=answered(plan, "analysis"),
            sentence=sentence(plan),
            effect=plan.effect,
            documents=(),  # none: of two calls about one task, the newer does not replace the older
            files=changes(plan),
        ),
        origins=origins,
        destination=plan.destination,
        level=plan.level,
    )
