"""Planned acts on tasks: the values for Plane, and the same as a person reads them. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from mcp_server.connectors.errors import ConnectorError, one_line
from mcp_server.connectors.plane.model import PlaneTask, Project
from mcp_server.connectors.plane.wire import SERVICE
from mcp_server.connectors.text.preview import Change, shown_change
from mcp_server.gate.policy import Trust
from mcp_server.toolsets.plane.schemas import TaskActed
from mcp_server.toolsets.service_act import EarlierAct, digest_of

Kind = Literal["create", "update", "comment", "edit", "delete"]
"""The last two change and delete a comment."""
FieldName = Literal[
    "name",
    "state",
    "priority",
    "assignees",
    "labels",
    "start",
    "due",
    "parent",
    "description",
    "cycle",
    "modules",
    "relations",
    "links",
    "archived",
    "comment",
]
Value = str | list[str] | None

LONG: tuple[FieldName, ...] = ("description", "comment")
"""Fields that are shown as separate texts; the others are shown together, one per line."""
TIES: tuple[FieldName, ...] = ("cycle", "modules", "relations", "links")
"""Fields that Plane keeps outside of the task. In a plan, their values before and after are only those that the act touches."""
QUOTABLE: tuple[FieldName, ...] = ("state", "priority", "start", "due", "parent", "archived")
"""Fields whose values a sentence may quote, because they hold no free text."""
BY_HAND: Mapping[FieldName, str] = {
    "name": "the earlier one is in the history of the task in Plane",
    "description": "the earlier one is in the history of the task in Plane",
    "relations": "a person can remove them in Plane",
    "archived": "a person can restore the task in Plane",
}
"""Fields that no call of this server can restore, and where a person can."""
LONGEST_SENTENCE = 200
LONGEST_PREVIEW = 4_000


class Unfit(ConnectorError):
    """The arguments cannot be carried out; the message says what to give instead."""

    def __init__(self, why: str) -> None:
        super().__init__(SERVICE, f"{why}; nothing was sent")


@dataclass(frozen=True, slots=True)
class TaskField:
    """A field that an act sets.

    `before` and `after` are the values in Plane before and after the act: ids (sorted), HTML or dates. `was` and
    `will_be` are the same values for people: names or Markdown. `loses` names the formatting of Plane's editor that a
    changed text loses: colours, callouts, merged cells.
    """

    name: FieldName
    before: Value
    after: Value
    was: str
    will_be: str
    loses: str = ""

    @property
    def touched(self) -> set[str]:
        """The ids or addresses that the act adds or removes, and those that it only looks at."""
        values = (self.before, self.after)
        return {one for value in values for one in ([value] if isinstance(value, str) else value or ())}

    @property
    def ids(self) -> tuple[str, ...]:
        """The new ids of a field that holds several."""
        return tuple(self.after) if isinstance(self.after, list) else ()

    @property
    def text(self) -> str | None:
        """The new value of a field that holds one; None if it is emptied."""
        return self.after if isinstance(self.after, str) else None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The effect of a call in Plane.

    `task` is the one to change or comment on. `names` are those of people, labels and states by id. `halted` is the answer of a
    call that is not carried out: a dry run, a conflict, or nothing to do. `quotes`: the preview holds text of the task, which
    nobody vouches for. `comment_id` is the comment to change or delete. `remarks` are said with the plan and with the answer.
    """

    kind: Kind
    project: Project
    fields: tuple[TaskField, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    task: PlaneTask | None = None
    url: str | None = None
    halted: TaskActed | None = None
    quotes: bool = False
    arguments_hash: str = ""
    comment_id: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def level(self) -> Trust:
        """The level that the act needs if that is more than its tool's level: a deletion cannot be undone."""
        return Trust.HIGH_STAKES if self.kind == "delete" else Trust.NONE

    @property
    def ties(self) -> tuple[TaskField, ...]:
        """The fields that Plane keeps outside of the task."""
        return tuple(one for one in self.fields if one.name in TIES)

    @property
    def own_fields(self) -> tuple[TaskField, ...]:
        """The fields that Plane keeps in the task, and that one request sets."""
        return tuple(one for one in self.fields if one.name not in (*TIES, "archived"))

    @property
    def without_archive(self) -> TaskPlan:
        """The same plan, but the task is not archived."""
        return self.with_only([one for one in self.fields if one.name != "archived"])

    def with_only(self, fields: Sequence[TaskField]) -> TaskPlan:
        """Return the same plan with these fields alone."""
        return replace(self, fields=tuple(fields))

    @property
    def key(self) -> str | None:
        """The key of the task, such as KB-12; None while there is no task."""
        return f"{self.project.key}-{self.task.number}" if self.task else None

    @property
    def place(self) -> str:
        """The task, or the project in which one is created."""
        return f"plane:{self.key or self.project.key}"

    @property
    def destination(self) -> str:
        """The destination of the text: everyone in the project can read it."""
        return f"plane:{self.project.key}"

    @property
    def effect(self) -> str:
        """A hash over the fields that would be set and their values before; "" if there are none."""
        return digest_of(self._act()) if self.fields else ""

    @property
    def digest(self) -> str:
        """A hash that is the same for a repetition of the change.

        It differs if somebody has changed the task since: then the change is a new act.
        """
        since = self.task.updated_at.isoformat() if self.task and self.kind == "update" else ""
        return digest_of([*self._act(), since])

    def field(self, name: FieldName) -> TaskField | None:
        """Return the field of that name, None if the act leaves it alone."""
        return next((one for one in self.fields if one.name == name), None)

    def text(self, name: FieldName) -> str | None:
        """Return the new value of a field; None if it is emptied or left alone."""
        one = self.field(name)
        return one.text if one else None

    def _act(self) -> list[object]:
        fields = [[one.name, one.before, one.after] for one in self.fields]
        comment = [self.comment_id] if self.comment_id else []
        return [self.kind, self.project.id, self.task.id if self.task else None, fields, *comment]


def answered(
    plan: TaskPlan, status: Literal["analysis", "unchanged", "conflict", "unsure"], note: str | None = None
) -> TaskActed:
    """Return the answer of an act that was not, or not certainly, done."""
    shown = preview(plan) if status == "analysis" else None
    if shown is not None and len(shown) > LONGEST_PREVIEW:
        # Its author knows it already; a person who decides is shown all of it (`changes`).
        shown = f"{shown[:LONGEST_PREVIEW]}\n... {len(shown) - LONGEST_PREVIEW:,} characters more, as given"
    task_id = plan.task.id if plan.task else None
    return TaskActed(status, None, task_id, plan.key, plan.project.id, plan.url, preview=shown, note=note)


def done_before(plan: TaskPlan, earlier: EarlierAct) -> TaskActed:
    """Return the answer of a call that is done already, because a person approved the same one."""
    same = answered(plan, "unchanged", earlier.note)
    then = earlier.answer
    return replace(same, task_id=then.get("task_id"), key=then.get("key"), url=then.get("url"))


def preview(plan: TaskPlan) -> str:
    """Return the texts that would be sent, as people read them, without text that Plane already has."""
    short = [_line(one.name, one.will_be) for one in plan.fields if one.name not in LONG]
    long = [one.will_be for one in plan.fields if one.name in LONG]
    return "\n\n".join(["\n".join(short), *long] if short else long)


def changes(plan: TaskPlan) -> list[Change]:
    """Return the texts that go out: the short fields together, each long one by itself."""
    short = [one for one in plan.fields if one.name not in LONG]
    found = []
    if short:
        # The key alone does not tell a person which task they decide about.
        name = [_line("name", plan.task.name)] if plan.task and not plan.field("name") else []
        was = "\n".join([*name, *(_line(one.name, one.was) for one in short)])
        will_be = "\n".join([*name, *(_line(one.name, one.will_be) for one in short)])
        place = plan.place if plan.task else f"{plan.place} new task"
        found.append(shown_change(place, was if plan.task else None, will_be))
    for one in plan.fields:
        if one.name in LONG:
            before = one.was if plan.kind in ("update", "edit", "delete") else None
            after = None if plan.kind == "delete" else one.will_be
            found.append(shown_change(f"{plan.place} {one.name}", before, after))
    return found


def sentence(plan: TaskPlan) -> str:
    """Return the effect of the act in one line, without any existing text of a task."""
    remarks = "".join(f"; {one}" for one in plan.remarks)
    if plan.kind == "comment":
        return one_line(f"comment on task {plan.key} in Plane{remarks}", LONGEST_SENTENCE)
    if plan.kind in ("edit", "delete"):
        what = "change" if plan.kind == "edit" else "delete for good"
        loses = f" ({plan.fields[0].loses})" if plan.fields[0].loses else ""
        return one_line(f"{what} a comment on task {plan.key} in Plane{loses}{remarks}", LONGEST_SENTENCE)
    if plan.kind == "create":
        name, people = plan.field("name"), plan.field("assignees")
        for_whom = f" for {people.will_be}" if people else ""
        # The name must not close its own quotes.
        quoted = f"“{' '.join((name.will_be if name else '').replace('”', chr(39)).split())}”"
        text = f"create a task in Plane project {plan.project.name} ({plan.project.key}){for_whom}: {quoted}"
        return one_line(f"{text}{remarks}", LONGEST_SENTENCE)
    moves, others = [], []
    for one in plan.fields:
        if one.name in QUOTABLE:
            moves.append(f"{one.name} from {one.was or 'none'} to {one.will_be or 'none'}")
        else:
            others.append(f"{one.name} ({one.loses})" if one.loses else one.name)
    return one_line(f"change task {plan.key} in Plane: {', '.join([*moves, *others])}{remarks}", LONGEST_SENTENCE)


def undo_of(plan: TaskPlan, key: str, comment_id: str | None = None) -> str:
    """Return the call that undoes the act, and what no call can undo."""
    if plan.kind != "update":
        remove = json.dumps({"task": key, "comment_id": comment_id, "delete": True})
        return {
            "create": f"this server deletes no task: delete {key} in Plane, or set its state to a cancelled one",
            "comment": f"plane_comment_task {remove}",
            "edit": "plane_comment_task with the same comment_id and its earlier text, which Plane no longer has",
            "delete": "a deleted comment cannot be restored",
        }[plan.kind]
    back: dict[str, object] = {}
    by_hand = [f"{one.name} ({BY_HAND[one.name]})" for one in plan.fields if one.name in BY_HAND]
    for one in plan.fields:
        if one.name in BY_HAND:
            continue
        if one.name == "links":
            back["links"] = [*(f"-{url}" for url in _without(one.after, one.before)), *_without(one.before, one.after)]
        elif isinstance(one.before, list):
            added = [f"-{plan.names.get(id_, id_)}" for id_ in _without(one.after, one.before)]
            back[one.name] = [*added, *(f"+{plan.names.get(id_, id_)}" for id_ in _without(one.before, one.after))]
        else:
            back[one.name] = one.was
    call = f"plane_update_task {json.dumps({'task': key, **back}, ensure_ascii=False)}" if back else ""
    hand = f"not by a call: {', '.join(by_hand)}" if by_hand else ""
    # No call changes a task while it is archived.
    parts = (hand, call) if plan.field("archived") else (call, hand)
    return "; ".join(part for part in parts if part)


def _without(some: Value, others: Value) -> list[str]:
    """Return the values of one list that are not in another."""
    return [one for one in some or () if one not in (others or ())] if isinstance(some, list) else []


def _line(name: str, value: str) -> str:
    # On one line, so that a name that somebody chose cannot pass for another field.
    return f"{name}: {' '.join(value.split()) or 'none'}"
