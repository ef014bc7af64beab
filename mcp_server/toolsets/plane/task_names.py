"""The names of a task's state, people and labels: those that came with it, else those of its project's lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.model import Label, PlaneMember, PlaneTask, Project, State
from mcp_server.connectors.text.name_match import folded

SOMEBODY = "somebody"
"""The name that is shown for a person who is no longer a member of the project."""


@dataclass(frozen=True, slots=True)
class TaskNames:
    """The names of a task's state, assignees and labels."""

    state: str
    assignees: Sequence[str]
    labels: Sequence[str]


async def names_of(board: Board, project: Project, tasks: Sequence[PlaneTask]) -> list[TaskNames]:
    """Return the names of the state, people and labels of each task.

    Lists that no task needs are not requested: they count against the rate limit.
    """
    states = await states_shown(board, project, tasks)
    people = await people_shown(board, project, tasks)
    return named(tasks, states, people, await labels_shown(board, project, tasks))


def named(
    tasks: Sequence[PlaneTask], states: Iterable[State], people: Iterable[PlaneMember], labels: Iterable[Label]
) -> list[TaskNames]:
    """Return the names for each task, sorted: Plane keeps no order of people and labels."""
    state_names = {state.id: state.name for state in states}
    people_names = {person.id: person.name or person.full_name for person in people}
    label_names = {label.id: label.name for label in labels}
    return [
        TaskNames(
            state_names.get(task.state_id or "", ""),
            sorted((people_names.get(person, SOMEBODY) for person in task.assignee_ids), key=folded),
            sorted((label_names[label] for label in task.label_ids if label in label_names), key=folded),
        )
        for task in tasks
    ]


async def states_shown(board: Board, project: Project, tasks: Sequence[PlaneTask]) -> Collection[State]:
    """Return at least the states that these tasks are in."""
    lacking = {task.state_id for task in tasks if task.state is None and task.state_id}
    shown = {task.state for task in tasks if task.state is not None}
    return {*shown, *(await board.states.by_id(project, lacking)).values()} if lacking else shown


async def people_shown(board: Board, project: Project, tasks: Sequence[PlaneTask]) -> Collection[PlaneMember]:
    """Return at least the people that these tasks are assigned to, as far as they are still members."""
    lacking = {id_ for task in tasks if not task.assignees for id_ in task.assignee_ids}
    shown = {person for task in tasks for person in task.assignees}
    return {*shown, *(await board.people.by_id(project, lacking)).values()} if lacking else shown


async def labels_shown(board: Board, project: Project, tasks: Sequence[PlaneTask]) -> Collection[Label]:
    """Return at least the labels that these tasks have."""
    lacking = {id_ for task in tasks if not task.labels for id_ in task.label_ids}
    shown = {label for task in tasks for label in task.labels}
    return {*shown, *(await board.labels.by_id(project, lacking)).values()} if lacking else shown
