"""Acts on tasks as they are planned: what Plane would get, and the same as a person reads it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mcp_server.connectors.plane.model import PlaneTask, Priority, Project
from mcp_server.connectors.text.preview import Change, shown_change
from mcp_server.gate.canonical_json import canonical
from mcp_server.toolsets.plane.schemas import TaskActed

Kind = Literal["create", "update", "comment"]
FieldName = Literal["name", "state", "priority", "assignees", "labels", "start", "due", "description", "comment"]
Value = str | list[str] | None

LONG: tuple[FieldName, ...] = ("description", "comment")
"""Fields that are texts of their own; the others are shown together, one a line."""
LONGEST_SENTENCE = 200
LONGEST_PREVIEW = 4_000


@dataclass(frozen=True, slots=True)
class TaskWish:
    """What a caller says that a task is to have, in the caller's words; None where nothing is said, "" where nothing is to be."""

    name: str | None = None
    description: str | None = None
    priority: Priority | None = None
    assignees: Sequence[str] | None = None
    state: str | None = None
    labels: Sequence[str] | None = None
    start: str | None = None
    due: str | None = None


@dataclass(frozen=True, slots=True)
class TaskField:
    """A field that an act sets.

    `before` and `after` are what Plane has and gets: ids, HTML, dates; ids are sorted. `was` and `will_be` are the same for
    people: names, Markdown. `flattens` counts what of a text is kept as plain words only: mentions, and what else an editor
    puts there that Markdown has not.
    """

    name: FieldName
    before: Value
    after: Value
    was: str
    will_be: str
    flattens: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the ids that a field for several things gets."""
        return tuple(self.after) if isinstance(self.after, list) else ()

    @property
    def text(self) -> str | None:
        """Return what a field for one thing gets; None where it is emptied."""
        return self.after if isinstance(self.after, str) else None


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What a call would do in Plane.

    `task` is the one that is changed or commented on. `names` are those of people, labels and states by id. `halted` is the
    answer of a call that is not to be carried out: a rehearsal, a conflict, or something that is so already. `quotes`: what is
    shown of the plan has text of the task, which nobody vouches for. `heard`: what names were taken for that nothing bears.
    """

    kind: Kind
    project: Project
    fields: tuple[TaskField, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    task: PlaneTask | None = None
    url: str | None = None
    halted: TaskActed | None = None
    quotes: bool = False
    heard: tuple[str, ...] = ()
    arguments_hash: str = ""

    @property
    def key(self) -> str | None:
        """Return the key of the task, such as KB-12; None while there is no task."""
        return f"{self.project.key}-{self.task.number}" if self.task else None

    @property
    def place(self) -> str:
        """Return what the act is about: the task, or the project that is to get one."""
        return f"plane:{self.key or self.project.key}"

    @property
    def destination(self) -> str:
        """Return where the text goes to."""
        return f"plane:{self.project.key}"

    @property
    def effect(self) -> str:
        """Return a hash over what would be set, and in the place of what; "" where nothing would."""
        return _digest(self._told()) if self.fields else ""

    @property
    def digest(self) -> str:
        """Return a hash that tells the same act again from one that is due again, because somebody changed the task back since."""
        since = self.task.updated_at.isoformat() if self.task and self.kind == "update" else ""
        return _digest([*self._told(), since])

    def field(self, name: FieldName) -> TaskField | None:
        """Return what the act sets this field to, None where it leaves it alone."""
        return next((one for one in self.fields if one.name == name), None)

    def _told(self) -> list[object]:
        fields = [[one.name, one.before, one.after] for one in self.fields]
        return [self.kind, self.project.id, self.task.id if self.task else None, fields]


def _digest(told: list[object]) -> str:
    return hashlib.sha256(canonical(told)).hexdigest()


def answered(
    plan: TaskPlan, status: Literal["analysis", "unchanged", "conflict", "unsure"], note: str | None = None
) -> TaskActed:
    """Return the answer of an act that was not, or not certainly, done."""
    shown = _cut(preview(plan)) if status == "analysis" else None
    task_id = plan.task.id if plan.task else None
    return TaskActed(status, None, task_id, plan.key, plan.project.id, plan.url, preview=shown, note=note)


def done_before(plan: TaskPlan, answer: Mapping[str, Any], proposal: str) -> TaskActed:
    """Return the answer of a call that is done already, because a person agreed to the same one; `answer` is what that was told."""
    note = f"the same call was approved as {proposal} and is done; nothing was sent again"
    same = answered(plan, "unchanged", note)
    return replace(same, task_id=answer.get("task_id"), key=answer.get("key"), url=answer.get("url"))


def preview(plan: TaskPlan) -> str:
    """Return what would be sent, as a person reads it: nothing of what is there already."""
    short = [_line(one.name, one.will_be) for one in plan.fields if one.name not in LONG]
    long = [one.will_be for one in plan.fields if one.name in LONG]
    return "\n\n".join(["\n".join(short), *long] if short else long)


def changes(plan: TaskPlan) -> list[Change]:
    """Return the texts that go out: the short fields together, each long one by itself."""
    short = [one for one in plan.fields if one.name not in LONG]
    long = [one for one in plan.fields if one.name in LONG]
    found = []
    if short:
        # Whoever decides about KB-12 has to see what that is.
        name = [_line("name", plan.task.name)] if plan.task and not plan.field("name") else []
        was = "\n".join([*name, *(_line(one.name, one.was) for one in short)])
        will_be = "\n".join([*name, *(_line(one.name, one.will_be) for one in short)])
        found.append(
            shown_change(plan.place if plan.task else f"{plan.place} new task", was if plan.task else None, will_be)
        )
    for one in long:
        before = one.was if plan.kind == "update" else None
        found.append(shown_change(f"{plan.place} {one.name}", before, one.will_be))
    return found


def sentence(plan: TaskPlan) -> str:
    """Return what the act does, in one line, without any text of a task that is there."""
    if plan.kind == "comment":
        return f"comment on task {plan.key} in Plane"
    if plan.kind == "create":
        name = plan.field("name")
        whom = plan.field("assignees")
        told = f" for {whom.will_be}" if whom else ""
        return _short(f"create a task in Plane project {plan.project.name} ({plan.project.key}){told}: {_quoted(name)}")
    moves = [
        f"{one.name} from {one.was or 'none'} to {one.will_be or 'none'}" for one in plan.fields if one.name in _TOLD
    ]
    others = [
        f"{one.name} ({one.flattens})" if one.flattens else one.name for one in plan.fields if one.name not in _TOLD
    ]
    return _short(f"change task {plan.key} in Plane: {', '.join([*moves, *others])}")


_TOLD = ("state", "priority", "start", "due")


def _cut(text: str) -> str:
    """Return so much of a text as its own author needs to know it again; a person who decides is shown all of it."""
    if len(text) <= LONGEST_PREVIEW:
        return text
    return f"{text[:LONGEST_PREVIEW]}\n... {len(text) - LONGEST_PREVIEW:,} characters more, as given"


def _line(name: str, value: str) -> str:
    """Return a field on a line of its own; what others named cannot pass for another field."""
    return f"{name}: {' '.join(value.split()) or 'none'}"


def _quoted(one: TaskField | None) -> str:
    return f"“{' '.join((one.will_be if one else '').replace('”', chr(39)).split())}”"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_SENTENCE else text[: LONGEST_SENTENCE - 3] + "..."
