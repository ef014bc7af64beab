"""How a task in Plane differs from what was sent, found by reading it back. Pure.

Plane answers 200 even if it dropped people, labels or parts of the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mcp_server.connectors.plane.model import PlaneTask
from mcp_server.connectors.plane.text.edit import lost
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.markdown import differs, same_words
from mcp_server.toolsets.plane.acts.model import TIES, FieldName, TaskField, TaskPlan, Value

ONE_OF: Mapping[str, str] = {
    "assignees": "assignee",
    "labels": "label",
    "modules": "module",
    "relations": "relation",
    "links": "link",
}
Ties = Mapping[FieldName, Value]
NO_TIES: Ties = {}
UNKNOWN = "one that this server does not know"


@dataclass(frozen=True, slots=True)
class ReadbackDifference:
    """`dropped` names values that Plane did not take, `differs` those that it changed. Neither quotes text of the task."""

    dropped: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()


def value_of(task: PlaneTask, field: TaskField, ties: Ties = NO_TIES) -> Value:
    """Return the task's value of a field, in the form of `TaskField.after`."""
    if field.name in TIES:
        return ties[field.name]
    values: Mapping[FieldName, Value] = {
        "name": task.name,
        "state": task.state_id,
        "priority": task.priority,
        "assignees": sorted(set(task.assignee_ids)),
        "labels": sorted(set(task.label_ids)),
        "start": task.starts.isoformat() if task.starts else None,
        "due": task.due.isoformat() if task.due else None,
        "parent": task.parent_id,
        "description": task.html or "",
        "archived": None,  # an archived task cannot be read
    }
    return values[field.name]


def is_set(plan: TaskPlan, task: PlaneTask, ties: Ties = NO_TIES) -> bool:
    """Return whether the task has exactly the values that the plan sets."""
    return all(value_of(task, one, ties) == one.after for one in plan.fields)


def is_done(plan: TaskPlan, task: PlaneTask, ties: Ties = NO_TIES) -> bool:
    """Return whether the task has the values that the plan sets, as far as Plane takes them."""
    return all(_is_taken(one, value_of(task, one, ties)) for one in plan.fields)


def is_as_before(plan: TaskPlan, task: PlaneTask, ties: Ties = NO_TIES) -> bool:
    """Return whether the fields of the plan still have the values that they had when it was made."""
    return all(value_of(task, one, ties) == one.before for one in plan.fields)


def is_between(plan: TaskPlan, task: PlaneTask, ties: Ties = NO_TIES) -> bool:
    """Return whether each field has its value from before, or the one that the plan sets, as far as Plane takes it.

    A list of ties may also be between the two states: its entries were added or removed one after the other.
    """
    values = [(one, value_of(task, one, ties)) for one in plan.fields]
    return all(
        value == one.before or (one.name in TIES and one.name != "cycle") or _is_taken(one, value)
        for one, value in values
    )


def _is_taken(field: TaskField, value: Value) -> bool:
    """Return whether Plane may have turned the value that was sent into this one.

    It drops some people, labels and elements of a text, but never words: different words were written by somebody else.
    """
    if value in (field.after, field.before):
        return value == field.after
    if isinstance(value, list):
        return field.name not in TIES and set(value) <= set(field.ids)
    return field.name == "description" and same_words(field.text or "", value or "")


def difference(plan: TaskPlan, task: PlaneTask, ties: Ties = NO_TIES) -> ReadbackDifference:
    """Return which of the plan's fields have other values in the task."""
    dropped: list[str] = []
    differing: list[str] = []
    for one in plan.fields:
        if one.name == "archived":
            continue
        value = value_of(task, one, ties)
        if isinstance(value, list):
            wanted, has = set(one.ids), set(value)
            dropped += [f"{ONE_OF[one.name]} {plan.names.get(id_, UNKNOWN)}" for id_ in sorted(wanted - has)]
            differing += [f"{one.name}: also {plan.names.get(id_, UNKNOWN)}" for id_ in sorted(has - wanted)]
        elif one.name == "description":
            differing += text_difference(one.name, one.text or "", task.html or "")
            loses = lost(str(one.before or ""), task.html or "")
            differing += [f"{one.name}: {loses}"] if loses else []
        elif value != one.after and one.name == "name":
            differing.append("name: it differs from what was sent")
        elif value != one.after:
            shown = plan.names.get(value, value) if isinstance(value, str) else "none"
            differing.append(f"{one.name}: {shown}, not {one.will_be or 'none'}")
    if plan.kind == "create" and plan.fields and plan.field("assignees") is None:
        # A project may have a default assignee, who gets tasks for which nobody is named.
        differing += [f"assignees: also {plan.names.get(id_, UNKNOWN)}" for id_ in task.assignee_ids]
    return ReadbackDifference(tuple(dropped), tuple(differing))


def text_difference(name: str, sent: str, stored: str) -> tuple[str, ...]:
    """Return in words how the stored text differs from the one that was sent; nothing if both read the same."""
    if markdown_of(sent) == markdown_of(stored):
        return ()
    return tuple(f"{name}: {words}" for words in differs(sent, stored)) or (f"{name}: it differs from what was sent",)
