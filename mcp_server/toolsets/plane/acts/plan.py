"""Plans acts on tasks: names resolved, texts rendered, compared with what Plane has. Reads, and changes nothing."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TypeGuard, TypeVar

from anyio import to_thread

from mcp_server.connectors.errors import Missing, one_line
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.model import Label, PlaneMember, PlaneTask, Project, State
from mcp_server.connectors.plane.text.edit import as_plane_keeps, edited, lost
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.markdown import html_of
from mcp_server.connectors.plane.text.mention import MentionWriter
from mcp_server.connectors.text.dates import in_utc
from mcp_server.gate.caller import Call
from mcp_server.toolsets.plane.acts.model import FieldName, Kind, TaskField, TaskPlan, Unfit, answered
from mcp_server.toolsets.plane.acts.readback import UNKNOWN
from mcp_server.toolsets.plane.acts.tie_fields import ListChange, is_signed, parent_field, resolved, tie_fields
from mcp_server.toolsets.plane.schemas import LONGEST_NAME, CommentArguments, CreateArguments, UpdateArguments
from mcp_server.toolsets.spec import ToolSpec

EMPTY = "<p></p>"
"""A description without text, as Plane stores it: Plane refuses HTML that is empty."""
LONGEST_CURRENT = 20_000  # characters of the present values in the answer to a conflict
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
FIELDS = (
    "name",
    "state",
    "priority",
    "assignees",
    "labels",
    "start",
    "due",
    "description",
    "parent",
    "cycle",
    "modules",
    "relations",
    "links",
    "archived",
)
COMPARED = frozenset(FIELDS[:9])
"""Fields that `seen_at` protects: Plane keeps them in the task."""
REHEARSED = "a dry run: nothing was sent"
T = TypeVar("T")
FindTask = Callable[[str], Awaitable[tuple[Project, PlaneTask]]]
"""Returns the task that a caller names, as it is now: `Board.task`, or a function that knows a list read a moment ago."""


async def plan_creation(board: Board, arguments: CreateArguments) -> TaskPlan:
    """Return the planned creation of a task.

    Raises:
        UnknownName, AmbiguousServiceName, NotAllowed, Unfit: it cannot be carried out.
    """
    project = await board.project(arguments.project, near=False)
    names = _FieldNames(board, project)
    fields = await _fields_named(names, None, arguments)
    _require_order({one.name: one.after for one in fields})
    plan = TaskPlan(
        "create",
        project,
        tuple(fields),
        names.known,
        remarks=names.remarks,
        arguments_hash=ToolSpec.hash_of(arguments),
    )
    return _halted_if_dry_run(plan, arguments)


async def plan_comment(board: Board, arguments: CommentArguments) -> TaskPlan:
    """Return the planned comment, or the change or deletion of one.

    Raises:
        Missing, UnknownName, NotAllowed, Unfit: it cannot be carried out.
    """
    if arguments.delete and (arguments.comment_id is None or arguments.text):
        raise Unfit("delete needs comment_id, and no text")
    project, task = await board.task(arguments.task)
    if arguments.comment_id is not None:
        plan = await _comment_change(board, project, task, arguments)
    else:
        people = await _people_for(board, project, arguments.text)
        mentions = MentionWriter(people)
        html = mentions(await to_thread.run_sync(html_of, arguments.text))
        shown = await to_thread.run_sync(markdown_of, html, people)
        if not html or not shown.strip():
            raise Unfit("the comment is empty; write the text to add")
        field = TaskField("comment", None, html, "", shown)
        plan = TaskPlan("comment", project, (field,), task=task, remarks=mentions.remarks("", html))
    plan = replace(plan, url=board.url(project, task.number), arguments_hash=ToolSpec.hash_of(arguments))
    return plan if plan.halted is not None else _halted_if_dry_run(plan, arguments)


async def _comment_change(board: Board, project: Project, task: PlaneTask, arguments: CommentArguments) -> TaskPlan:
    """Return the plan that changes or deletes a comment of the key's owner.

    Plane's API changes anybody's comment. In its own pages only the author can.
    """
    kind: Kind = "delete" if arguments.delete else "edit"
    comment_id = arguments.comment_id or ""
    plan = TaskPlan(kind, project, (), task=task, comment_id=comment_id)
    try:
        comment = await board.client.comment(project.id, task.id, comment_id)
    except Missing:
        if kind == "edit":
            raise
        return replace(plan, halted=answered(plan, "unchanged", "there is no such comment; nothing was sent"))
    me = await board.me()
    if comment.by != me.id:
        author = (await board.names_of_people(project)).get(comment.by or "", "somebody else")
        raise Unfit(
            f"the comment is by {one_line(author, LONGEST_NAME)}, and the key's owner can change only their own"
        )
    people = await board.names_of_people(project)
    was = await to_thread.run_sync(markdown_of, comment.html, people)
    if kind == "delete":
        return replace(plan, fields=(TaskField("comment", comment.html, None, was, ""),), quotes=True)
    mentions = MentionWriter(people)
    html = await to_thread.run_sync(edited, comment.html, arguments.text, people, mentions)
    will_be = await to_thread.run_sync(markdown_of, html, people)
    if not will_be.strip():
        raise Unfit("the comment would be empty; to delete it, set delete")
    remarks = mentions.remarks(comment.html, html)
    if was == will_be and not remarks:
        return replace(plan, halted=answered(plan, "unchanged", "the comment already has this text; nothing was sent"))
    field = TaskField("comment", comment.html, html, was, will_be, lost(comment.html, html))
    return replace(plan, fields=(field,), quotes=True, remarks=remarks)


async def plan_update(board: Board, call: Call, arguments: UpdateArguments, find: FindTask | None = None) -> TaskPlan:
    """Return the plan of the fields that would change.

    With `seen_at` nothing changes if one of these fields was changed since then. Without `seen_at` only an empty
    description is replaced, so that no text is lost. For any other field the last writer wins.

    Raises:
        Missing, UnknownName, AmbiguousServiceName, NotAllowed, Unfit: it cannot be carried out.
    """
    if all(getattr(arguments, name) is None for name in FIELDS):
        raise Unfit("no field is named; name at least one to change")
    project, task = await (find or board.task)(arguments.task)
    names = _FieldNames(board, project)
    if any(one is not None for one in (arguments.state, arguments.assignees, arguments.labels, arguments.description)):
        await names.load()
    fields = [one for one in await _fields_named(names, task, arguments) if one.before != one.after]
    plan = TaskPlan(
        "update",
        project,
        tuple(fields),
        names.known,
        task=task,
        remarks=names.remarks,
        url=board.url(project, task.number),
        arguments_hash=ToolSpec.hash_of(arguments),
    )
    if not fields:
        return replace(plan, halted=answered(plan, "unchanged", "the task already has these values; nothing was sent"))
    # The date that stays is the task's own.
    days: dict[str, object] = {"start": _iso(task.starts), "due": _iso(task.due)}
    _require_order(days | {one.name: one.after for one in fields})
    text = plan.field("description")
    # An empty description may be filled without having read it.
    replaces_words = text is not None and bool(text.was)
    if replaces_words or arguments.seen_at is not None:
        seen = _seen(plan, arguments.seen_at)
        # `+mel` adds to whatever the list is now, so it is no conflict that the list was changed.
        whole = {one for one in COMPARED if not is_signed(getattr(arguments, one))}
        if board.changed_since(task, seen, [one.name for one in fields if one.name in whole]):
            return _conflict(plan, task)
    # The preview shows a person the task's name, or the text that is replaced. A trusted caller gets none.
    quotes = not call.trusted and any(one.was if one.name == "description" else True for one in fields)
    return _halted_if_dry_run(replace(plan, quotes=quotes), arguments)


async def _fields_named(
    names: _FieldNames, task: PlaneTask | None, arguments: CreateArguments | UpdateArguments
) -> list[TaskField]:
    """Return every field that the arguments name, even if it would not change; `task` is None for a new one."""
    board, project = names.board, names.project
    fields = []
    if arguments.name is not None:
        fields.append(_plain("name", task.name if task else None, _task_name(arguments.name)))
    if _is_named(arguments.state, task):
        current = names.states.get(task.state_id or "") if task else None
        # A task in a group of states, such as `started`, need not move to be in it. A state may have the name of its group.
        if current and arguments.state.strip().casefold() == current.group.casefold() != current.name.casefold():
            wanted = current
        else:
            wanted = await board.state(project, arguments.state, near=False)
        fields.append(names.state(task.state_id if task else None, wanted))
    if arguments.priority is not None:
        fields.append(_plain("priority", task.priority if task else None, arguments.priority))
    fields += await _lists_named(names, task, arguments)
    days: tuple[tuple[FieldName, str | None, date | None], ...] = (
        ("start", arguments.start, task.starts if task else None),
        ("due", arguments.due, task.due if task else None),
    )
    for name, text, day in days:
        if _is_named(text, task):
            fields.append(_plain(name, _iso(day), _day(name, text)))
    if _is_named(arguments.parent, task):
        fields.append(await parent_field(board, project, task, arguments.parent, names.known))
    if _is_named(arguments.description, task):
        # A long text takes its time, so it is rendered in a thread.
        if task is None:
            names.people = dict(await _people_for(board, project, arguments.description))
        mentions = MentionWriter(names.people)
        described = await to_thread.run_sync(_description, task, arguments.description, names.people, mentions)
        names.remarks = mentions.remarks(str(described.before or ""), str(described.after or ""))
        fields += [described] if described.after else []
    return [*fields, *await tie_fields(board, project, task, arguments, names.known)]


async def _lists_named(
    names: _FieldNames, task: PlaneTask | None, arguments: CreateArguments | UpdateArguments
) -> list[TaskField]:
    """Return the people and labels that the arguments name, as whole lists or as changes of the present ones."""
    board, project = names.board, names.project
    fields = []
    if _is_named(arguments.assignees, task):
        people = await board.people.by_id(project)
        found = await resolved(
            "assignees",
            arguments.assignees,
            task,
            lambda one: board.person(project, one, near=False),
            [name for one in people.values() for name in (one.name, one.full_name)],
        )
        fields.append(names.several("assignees", task.assignee_ids if task else (), found))
    if _is_named(arguments.labels, task):
        labels = await board.labels.by_id(project)
        found_labels = await resolved(
            "labels",
            arguments.labels,
            task,
            lambda one: board.labels.named(project, one, near=False),
            [one.name for one in labels.values()],
        )
        fields.append(names.several("labels", task.label_ids if task else (), found_labels))
    return fields


async def _people_for(board: Board, project: Project, text: str) -> Mapping[str, str]:
    """Return the names of the project's people if the text may mention one."""
    return await board.names_of_people(project) if "@" in text else {}


def _is_named(value: T | None, task: PlaneTask | None) -> TypeGuard[T]:
    """Return whether the arguments set this. In an update an empty value empties the field; a new task has nothing to empty."""
    return bool(value) if task is None else value is not None


def _description(
    task: PlaneTask | None, markdown: str, people: Mapping[str, str], mentions: MentionWriter
) -> TaskField:
    if task is None:
        html = mentions(html_of(markdown))
        return TaskField("description", None, html, "", markdown_of(html, people))
    current = task.html or ""
    html = edited(current, markdown, people, mentions) or EMPTY
    was, will_be = markdown_of(current, people), markdown_of(html, people)
    if was == will_be:
        # The same text in other HTML is no change: Plane's own HTML would lose its details for nothing.
        return TaskField("description", current, current, was, will_be)
    return TaskField("description", current, html, was, will_be, lost(current, as_plane_keeps(html)))


class _FieldNames:
    """Names by id, for fields that hold ids: the names that were resolved and, after `load`, all names of the project."""

    def __init__(self, board: Board, project: Project) -> None:
        self.board, self.project = board, project
        self.known: dict[str, str] = {}
        self.people: dict[str, str] = {}
        self.states: Mapping[str, State] = {}
        self.remarks: tuple[str, ...] = ()

    async def load(self) -> None:
        """Load the names of the project, to show the current values of a task."""
        self.states = await self.board.states.by_id(self.project)
        labels = await self.board.labels.by_id(self.project)
        self.people = dict(await self.board.names_of_people(self.project))
        self.known |= {id_: state.name for id_, state in self.states.items()}
        self.known |= {id_: label.name for id_, label in labels.items()} | self.people

    def state(self, before: str | None, after: State) -> TaskField:
        """Return the field of the state."""
        self.known[after.id] = after.name
        return TaskField("state", before, after.id, self._shown([before]) if before else "", after.name)

    def several(
        self, name: FieldName, before: Sequence[str], change: ListChange[PlaneMember] | ListChange[Label]
    ) -> TaskField:
        """Return a field that holds several ids, sorted: another order is no change."""
        self.known |= {one.id: _display_name(one) for one in (*change.added, *change.removed)}
        ids = change.applied_to(before)
        return TaskField(name, sorted(set(before)), ids, self._shown(before), self._shown(ids))

    def _shown(self, ids: Sequence[str]) -> str:
        return ", ".join(sorted(self.known.get(id_, UNKNOWN) for id_ in ids))


def _display_name(one: PlaneMember | Label) -> str:
    return one.name or getattr(one, "full_name", "") or getattr(one, "email", "") or one.id


def _halted_if_dry_run(plan: TaskPlan, arguments: CreateArguments | UpdateArguments | CommentArguments) -> TaskPlan:
    if not arguments.dry_run:
        return plan
    note = "; ".join([REHEARSED, *plan.remarks, *(f"{one.name}: {one.loses}" for one in plan.fields if one.loses)])
    return replace(plan, halted=answered(plan, "analysis", note))


def _seen(plan: TaskPlan, seen_at: str | None) -> datetime:
    """Return when the task was last changed, as far as the caller knows."""
    if seen_at is None:
        raise Unfit(
            f"a description replaces the whole text of {plan.key}: read it with plane_get_task, and pass its updated_at as seen_at"
        )
    try:
        return in_utc(seen_at)
    except ValueError:
        raise Unfit(
            f"seen_at {seen_at[:40]!r} is not a time; pass updated_at exactly as plane_get_task gave it"
        ) from None


def _conflict(plan: TaskPlan, task: PlaneTask) -> TaskPlan:
    """Return a plan that only shows the task's current values, for the caller to merge."""
    text = plan.field("description")
    what = "its current description" if text else "its current values"
    current = text.was if text else "\n".join(f"{one.name}: {one.was or 'none'}" for one in plan.fields)
    rest = "; plane_get_task has the rest" if len(current) > LONGEST_CURRENT else ""
    note = (
        f"{plan.key} was changed after seen_at; nothing was sent. preview has {what}{rest}: merge yours into it and pass "
        f"seen_at={task.updated_at.isoformat()}"
    )
    answer = replace(answered(plan, "conflict", note), preview=current[:LONGEST_CURRENT])
    return replace(plan, halted=answer, quotes=True)


def _plain(name: FieldName, before: str | None, after: str | None) -> TaskField:
    return TaskField(name, before, after, before or "", after or "")


def _task_name(text: str) -> str:
    """Return a name on one line, as Plane keeps it."""
    # Otherwise the readback would report the white space that Plane strips.
    name = " ".join(CONTROLS.sub(" ", text).split())
    if not name:
        raise Unfit("the name is empty; a task needs one")
    if len(name) > LONGEST_NAME:
        raise Unfit(f"the name has {len(name)} characters, and Plane accepts {LONGEST_NAME}")
    return name


def _day(name: str, text: str) -> str | None:
    """Return an ISO date; None for an empty text, which removes the date."""
    if not text.strip():
        return None
    try:
        return date.fromisoformat(text.strip()).isoformat()
    except ValueError:
        raise Unfit(f"{name} {text[:40]!r} is not an ISO date; write it like 2026-12-01") from None


def _iso(day: date | None) -> str | None:
    return day.isoformat() if day else None


def _require_order(values: Mapping[str, object]) -> None:
    # Plane refuses it, too (work_item_create_baddates_400), but not before a person was asked to approve it.
    start, due = values.get("start"), values.get("due")
    if isinstance(start, str) and isinstance(due, str) and start > due:
        raise Unfit(f"it would start on {start}, after it is due on {due}")
