"""What a wish comes to: names resolved, texts rendered, compared with what Plane has. Reads, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import TYPE_CHECKING

from anyio import to_thread

from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.plane.model import PlaneTask, State
from mcp_server.connectors.plane.readback import UNKNOWN
from mcp_server.connectors.plane.text.embedded import flattened, with_pictures
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.markdown import html_of
from mcp_server.connectors.text.dates import in_utc
from mcp_server.connectors.text.name_match import folded
from mcp_server.toolsets.plane.act_model import FieldName, TaskField, TaskPlan, TaskWish, answered

if TYPE_CHECKING:
    from mcp_server.connectors.plane.board import Board
    from mcp_server.connectors.plane.model import Label, PlaneMember, Project

NOTHING = "<p></p>"
"""How Plane keeps a description without any text; it refuses HTML that is empty."""
LONGEST_CURRENT = 20_000
LONGEST_NAME = 255
LONGEST_HEARD = 40
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
REHEARSED = "a rehearsal: nothing was sent"


class Unfit(ConnectorError):
    """What is asked for cannot be meant; the sentence says what to give instead."""

    def __init__(self, told: str) -> None:
        super().__init__("Plane", f"{told}; nothing was sent")


@dataclass(frozen=True, slots=True)
class ActRequest:
    """How a call was made: `rehearsal` only wants to see, `unseen` that nobody is shown the plan before it is carried out."""

    arguments_hash: str
    rehearsal: bool = False
    unseen: bool = False


async def planned_creation(board: Board, project_name: str, wish: TaskWish, asked: ActRequest) -> TaskPlan:
    """Return what creating a task would send.

    Raises:
        UnknownName, AmbiguousName, NotAllowed, Unfit: it cannot be meant so.
    """
    project = await board.project(project_name)
    names = _FieldNames(board, project)
    fields = [_plain("name", None, _name(wish.name or ""))]
    names.hear(project_name, (project.key, project.name, project.id))
    if wish.state:
        fields.append(names.state(None, await board.state(project, wish.state), wish.state))
    fields.append(_plain("priority", None, wish.priority or "none"))
    if wish.assignees:
        fields.append(names.several("assignees", (), await names.people_called(wish.assignees)))
    if wish.labels:
        fields.append(names.several("labels", (), await names.labels_called(wish.labels)))
    fields += [_plain(name, None, _day(name, text)) for name, text in _dates(wish) if text]
    _require_order({one.name: one.after for one in fields})
    html, shown = await to_thread.run_sync(_rendered, wish.description or "")
    if html:
        fields.append(TaskField("description", None, html, "", shown))
    heard = tuple(names.heard)
    plan = TaskPlan("create", project, tuple(fields), names.known, heard=heard, arguments_hash=asked.arguments_hash)
    return _halted(plan, asked)


async def planned_comment(board: Board, task_name: str, text: str, asked: ActRequest) -> TaskPlan:
    """Return what a comment would send.

    Raises:
        Missing, UnknownName, NotAllowed, Unfit: it cannot be meant so.
    """
    project, task = await board.task(task_name)
    html, shown = await to_thread.run_sync(_rendered, text)
    if not html or not shown.strip():
        raise Unfit("the comment has no text, which Plane would accept all the same")
    plan = TaskPlan(
        "comment",
        project,
        (TaskField("comment", None, html, "", shown),),
        task=task,
        url=board.url(project, task.number),
        arguments_hash=asked.arguments_hash,
    )
    return _halted(plan, asked)


async def planned_update(
    board: Board, task_name: str, wish: TaskWish, asked: ActRequest, *, seen_at: str | None = None
) -> TaskPlan:
    """Return what of the task would change. Where `seen_at` is named, nothing does if the task was changed since.

    Without it no description is replaced; of anything else the last one who sets it is right.

    Raises:
        Missing, UnknownName, AmbiguousName, NotAllowed, Unfit: it cannot be meant so.
    """
    if wish == TaskWish():
        raise Unfit("no field is named; name at least one that is to change")
    project, task = await board.task(task_name)
    names = _FieldNames(board, project)
    fields = [one for one in await _wished(board, names, task, wish) if one.before != one.after]
    plan = TaskPlan(
        "update",
        project,
        tuple(fields),
        names.known,
        task=task,
        url=board.url(project, task.number),
        heard=tuple(names.heard),
        arguments_hash=asked.arguments_hash,
    )
    if not fields:
        return replace(plan, halted=answered(plan, "unchanged", "all of it is so already; nothing was sent"))
    days: dict[str, object] = {"start": _iso(task.starts), "due": _iso(task.due)}
    _require_order(days | {one.name: one.after for one in fields})
    text = plan.field("description")
    if ((text and text.was) or seen_at is not None) and _seen(plan, seen_at) != task.updated_at:
        return _conflict(plan, task)
    # With fields that are no text of their own a person is shown what the task is called.
    quotes = not asked.unseen and any(one.was if one.name == "description" else True for one in fields)
    return _halted(replace(plan, quotes=quotes), asked)


async def _wished(board: Board, names: _FieldNames, task: PlaneTask, wish: TaskWish) -> list[TaskField]:
    """Return every field that is named, as it is and as it is to be."""
    project = names.project
    fields = []
    if wish.name is not None:
        fields.append(_plain("name", task.name, _name(wish.name)))
    if wish.state is not None:
        await names.load()
        there = names.states.get(task.state_id or "")
        stays = there is not None and _is_in(there, wish.state)
        wanted = there if there and stays else await board.state(project, wish.state)
        fields.append(names.state(task.state_id, wanted, wish.state))
    if wish.priority is not None:
        fields.append(_plain("priority", task.priority, wish.priority))
    if wish.assignees is not None:
        await names.load()
        fields.append(names.several("assignees", task.assignee_ids, await names.people_called(wish.assignees)))
    if wish.labels is not None:
        await names.load()
        fields.append(names.several("labels", task.label_ids, await names.labels_called(wish.labels)))
    for name, text in _dates(wish):
        if text is not None:
            fields.append(_plain(name, _iso(task.starts if name == "start" else task.due), _day(name, text)))
    if wish.description is not None:
        fields.append(await _description(names, task, wish.description))
    return fields


async def _description(names: _FieldNames, task: PlaneTask, markdown: str) -> TaskField:
    """Return the description; one that says the same in other HTML does not change."""
    await names.load()
    return await to_thread.run_sync(_described, task.html or "", markdown, names.people)


def _described(there: str, markdown: str, people: Mapping[str, str]) -> TaskField:
    html = with_pictures(html_of(markdown) or NOTHING, there)
    was, will_be = markdown_of(there, people), markdown_of(html)
    if was == will_be:
        return TaskField("description", there, there, was, will_be)
    return TaskField("description", there, html, was, will_be, flattened(there, html))


def _rendered(markdown: str) -> tuple[str, str]:
    """Return a text as it is sent, and as a person reads it; a long one takes its time, so this is done beside all else."""
    html = html_of(markdown)
    return html, markdown_of(html)


class _FieldNames:
    """The names of what fields hold as ids: those that were resolved, and, once loaded, all that the project has."""

    def __init__(self, board: Board, project: Project) -> None:
        self.board, self.project = board, project
        self.known: dict[str, str] = {}
        self.people: dict[str, str] = {}
        self.states: Mapping[str, State] = {}
        self.heard: list[str] = []

    async def load(self) -> None:
        """Learn what the project has, to name what a task has already."""
        if self.states:
            return
        self.states = await self.board.states_of(self.project)
        labels = await self.board.labels_of(self.project)
        self.people = dict(await self.board.names_of_people(self.project))
        self.known |= {id_: state.name for id_, state in self.states.items()}
        self.known |= {id_: label.name for id_, label in labels.items()} | self.people

    def hear(self, asked: str, names: Sequence[str]) -> None:
        """Remember what a name was taken for, if nothing is called just so: the caller may have meant something else."""
        if folded(asked) not in {folded(name) for name in names}:
            self.heard.append(f"{' '.join(asked.split())[:LONGEST_HEARD]!r} was taken for {names[0]}")

    async def people_called(self, asked: Sequence[str]) -> list[PlaneMember]:
        """Return the members of these names."""
        found = [await self.board.person(self.project, name) for name in asked]
        for name, one in zip(asked, found, strict=True):
            if folded(name) != "me":
                self.hear(name, (_called(one), one.full_name, one.email, one.id))
        return found

    async def labels_called(self, asked: Sequence[str]) -> list[Label]:
        """Return the labels of these names."""
        found = [await self.board.label(self.project, name) for name in asked]
        for name, one in zip(asked, found, strict=True):
            self.hear(name, (one.name, one.id))
        return found

    def state(self, before: str | None, after: State, asked: str) -> TaskField:
        """Return the state; one that Plane has and this server has not heard of yet keeps its id."""
        self.hear(asked, (after.name, after.id))
        self.known[after.id] = after.name
        return TaskField("state", before, after.id, self._told([before]) if before else "", after.name)

    def several(self, name: FieldName, before: Sequence[str], after: Sequence[PlaneMember | Label]) -> TaskField:
        """Return a field for several things; the same ones in another order are the same."""
        self.known |= {one.id: _called(one) for one in after}
        ids = sorted({one.id for one in after})
        return TaskField(name, sorted(set(before)), ids, self._told(before), self._told(ids))

    def _told(self, ids: Sequence[str]) -> str:
        return ", ".join(sorted(self.known.get(id_, UNKNOWN) for id_ in ids))


def _called(one: PlaneMember | Label) -> str:
    return one.name or getattr(one, "full_name", "") or getattr(one, "email", "") or one.id


def _halted(plan: TaskPlan, asked: ActRequest) -> TaskPlan:
    return replace(plan, halted=answered(plan, "analysis", REHEARSED)) if asked.rehearsal else plan


def _seen(plan: TaskPlan, seen_at: str | None) -> datetime:
    """Return when the task was as its caller knows it."""
    if seen_at is None:
        raise Unfit(
            f"a description replaces all of the text of {plan.key}: read it with plane_get_task, and name its updated_at as "
            "seen_at"
        )
    try:
        return in_utc(seen_at)
    except ValueError:
        raise Unfit(f"seen_at {seen_at[:40]!r} is no time; name updated_at just as plane_get_task told it") from None


def _conflict(plan: TaskPlan, task: PlaneTask) -> TaskPlan:
    """Return that the task may not be the one that was seen, with what it has now, so that nobody's words are lost."""
    text = plan.field("description")
    what = "its description as it is now" if text else "what it has now"
    current = text.was if text else "\n".join(f"{one.name}: {one.was or 'none'}" for one in plan.fields)
    rest = "; plane_get_task has the rest" if len(current) > LONGEST_CURRENT else ""
    note = (
        f"{plan.key} was changed after seen_at; nothing was sent. preview is {what}{rest}: put yours together with it and name "
        f"seen_at={task.updated_at.isoformat()}"
    )
    answer = replace(answered(plan, "conflict", note), preview=current[:LONGEST_CURRENT])
    return replace(plan, halted=answer, quotes=True)


def _plain(name: FieldName, before: str | None, after: str | None) -> TaskField:
    return TaskField(name, before, after, before or "", after or "")


def _is_in(state: State, asked: str) -> bool:
    """Return whether a task in this state need not be moved to get to a group of states, such as `started`."""
    return asked.strip().casefold() == state.group.casefold() != state.name.casefold()


def _name(text: str) -> str:
    """Return a name on one line, as Plane keeps it."""
    name = " ".join(CONTROLS.sub(" ", text).split())
    if not name:
        raise Unfit("the name is empty; a task needs one")
    if len(name) > LONGEST_NAME:
        raise Unfit(f"the name has {len(name)} characters, and Plane takes {LONGEST_NAME}")
    return name


def _dates(wish: TaskWish) -> tuple[tuple[FieldName, str | None], ...]:
    return ("start", wish.start), ("due", wish.due)


def _day(name: str, text: str) -> str | None:
    """Return an ISO date as such; None for one that is to be emptied."""
    if not text.strip():
        return None
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise Unfit(f"{name} {text[:40]!r} is no ISO date; write it like 2026-12-01") from None


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None


def _require_order(values: Mapping[str, object]) -> None:
    start, due = values.get("start"), values.get("due")
    if isinstance(start, str) and isinstance(due, str) and start > due:
        raise Unfit(f"it would start on {start}, after it is due on {due}")
