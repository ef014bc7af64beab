"""Planned acts on tasks: what Plane would get, and the same as a person reads it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mcp_server.connectors.errors import one_line
from mcp_server.connectors.plane.model import PlaneTask, Project
from mcp_server.connectors.text.preview import Change, shown_change
from mcp_server.toolsets.plane.schemas import TaskActed
from mcp_server.toolsets.service_act import EarlierAct, digest_of

Kind = Literal["create", "update", "comment"]
FieldName = Literal["name", "state", "priority", "assignees", "labels", "start", "due", "description", "comment"]
Value = str | list[str] | None

LONG: tuple[FieldName, ...] = ("description", "comment")
"""Fields that are shown as texts of their own; the others are shown together, one per line."""
QUOTABLE: tuple[FieldName, ...] = ("state", "priority", "start", "due")
"""Fields whose values a sentence may quote: nobody writes text into them."""
LONGEST_SENTENCE = 200
LONGEST_PREVIEW = 4_000


@dataclass(frozen=True, slots=True)
class TaskField:
    """A field that an act sets.

    `before` and `after` are what Plane has and gets: ids (sorted), HTML, dates. `was` and `will_be` are the same for people:
    names, Markdown. `loses` says which forms of Plane's editor a changed text no longer has: colours, callouts, merged cells.
    """

    name: FieldName
    before: Value
    after: Value
    was: str
    will_be: str
    loses: str = ""

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
    nobody vouches for.
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

    @property
    def key(self) -> str | None:
        """The key of the task, such as KB-12; None while there is no task."""
        return f"{self.project.key}-{self.task.number}" if self.task else None

    @property
    def place(self) -> str:
        """The task, or the project that is to get one."""
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
        """A hash that is the same for a repetition of the change, and another one if it is due again.

        It is due again if somebody changed the task (back) since.
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
        return [self.kind, self.project.id, self.task.id if self.task else None, fields]


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
    """Return the texts that would be sent, as people read them; nothing that Plane has already."""
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
            before = one.was if plan.kind == "update" else None
            found.append(shown_change(f"{plan.place} {one.name}", before, one.will_be))
    return found


def sentence(plan: TaskPlan) -> str:
    """Return the effect of the act in one line, without any existing text of a task."""
    if plan.kind == "comment":
        return f"comment on task {plan.key} in Plane"
    if plan.kind == "create":
        name, people = plan.field("name"), plan.field("assignees")
        for_whom = f" for {people.will_be}" if people else ""
        # The name must not close its own quotes.
        quoted = f"“{' '.join((name.will_be if name else '').replace('”', chr(39)).split())}”"
        text = f"create a task in Plane project {plan.project.name} ({plan.project.key}){for_whom}: {quoted}"
        return one_line(text, LONGEST_SENTENCE)
    moves, others = [], []
    for one in plan.fields:
        if one.name in QUOTABLE:
            moves.append(f"{one.name} from {one.was or 'none'} to {one.will_be or 'none'}")
        else:
            others.append(f"{one.name} ({one.loses})" if one.loses else one.name)
    return one_line(f"change task {plan.key} in Plane: {', '.join([*moves, *others])}", LONGEST_SENTENCE)


def _line(name: str, value: str) -> str:
    # On one line, so that a name that somebody chose cannot pass for another field.
    return f"{name}: {' '.join(value.split()) or 'none'}"
