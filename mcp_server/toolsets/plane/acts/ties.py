"""A task's ties to other things: its cycle and modules, related tasks, links.

Plane has separate requests for each, and neither returns nor changes them with the task. So a plan names the ties that
it touches, and only those are looked up.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from mcp_server.connectors.errors import Missing
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.model import Project
from mcp_server.connectors.plane.wire import TaskGroup
from mcp_server.toolsets.plane.acts.model import TIES, FieldName, TaskField, TaskPlan, Value


async def ties_now(board: Board, plan: TaskPlan, task_id: str) -> Mapping[FieldName, Value]:
    """Return the current values of the plan's ties. A value has only ids and addresses that the plan touches and the task has."""
    return {one.name: await _tie_now(board, plan.project, one, task_id) for one in plan.fields if one.name in TIES}


async def _tie_now(board: Board, project: Project, field: TaskField, task_id: str) -> Value:
    touched = field.touched
    if field.name == "links":
        has = {link.url for link in (await board.client.links(project.id, task_id)).items}
    elif field.name == "relations":
        has = await relations_now(board, project, task_id)
    else:
        kind: TaskGroup = "cycle" if field.name == "cycle" else "module"
        has = {one for one in touched if await board.is_in(project, kind, one, task_id)}
    found = sorted(touched & has)
    if field.name == "cycle":
        return found[0] if found else None
    return found


async def relations_now(board: Board, project: Project, task_id: str) -> set[str]:
    """Return the relations of a task, each as its kind and the other task's id."""
    found = await board.client.relations(project.id, task_id)
    return {relation_key(one.kind, one.task_id) for one in found}


def relation_key(kind: str, task_id: str) -> str:
    """Return a relation as one value: `blocks <id>`."""
    return f"{kind} {task_id}"


async def tie(board: Board, plan: TaskPlan, task_id: str, now: Mapping[FieldName, Value]) -> None:
    """Change the task's ties from what they are `now` to what the plan sets. Each request has the same result if it is repeated.

    Raises: ConnectorError: one of the requests was refused, or its outcome is unknown; those before it are done.
    """
    for field in plan.fields:
        if field.name not in TIES or now[field.name] == field.after:
            continue
        has, wanted = as_set(now[field.name]), as_set(field.after)
        for value in sorted(wanted - has):
            await _add(board, plan, field.name, value, task_id)
        # The new cycle has taken the task out of the old one.
        for value in sorted(has - wanted) if field.name != "cycle" or not wanted else ():
            with suppress(Missing):  # somebody else removed it
                await _remove(board, plan.project, field.name, value, task_id)


async def _add(board: Board, plan: TaskPlan, name: FieldName, value: str, task_id: str) -> None:
    client, project = board.client, plan.project
    if name == "links":
        await client.add_link(project.id, task_id, value, plan.names.get(value, ""))
    elif name == "relations":
        kind, _, other = value.rpartition(" ")
        await client.add_relation(project.id, task_id, kind, other)
    else:
        await client.put_in_group(project.id, "cycle" if name == "cycle" else "module", value, task_id)


async def _remove(board: Board, project: Project, name: FieldName, value: str, task_id: str) -> None:
    client = board.client
    if name == "links":
        for link in (await client.links(project.id, task_id)).items:
            if link.url == value:
                await client.remove_link(project.id, task_id, link.id)
    else:
        await client.take_from_group(project.id, "cycle" if name == "cycle" else "module", value, task_id)


def as_set(value: Value) -> set[str]:
    """Return a value as the ids or addresses that it holds."""
    return set(value) if isinstance(value, list) else {value} if value else set()
