"""What Plane has otherwise than it was sent, found by reading it back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mcp_server.connectors.plane.model import PlaneTask
from mcp_server.connectors.plane.text.html_markdown import markdown_of
from mcp_server.connectors.plane.text.markdown import differs, same_words
from mcp_server.toolsets.plane.act_model import TaskField, TaskPlan, Value

ONE_OF: Mapping[str, str] = {"assignees": "assignee", "labels": "label"}
UNKNOWN = "one that this server does not know"


@dataclass(frozen=True, slots=True)
class ReadbackDifference:
    """`dropped` names what Plane did not take, `differs` what it has otherwise; no text of the task is in either."""

    dropped: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()


def value_of(task: PlaneTask, field: TaskField) -> Value:
    """Return what the task has in that field, in the form in which fields have it."""
    match field.name:
        case "name":
            return task.name
        case "state":
            return task.state_id
        case "priority":
            return task.priority
        case "assignees":
            return sorted(set(task.assignee_ids))
        case "labels":
            return sorted(set(task.label_ids))
        case "start":
            return task.starts.isoformat() if task.starts else None
        case "due":
            return task.due.isoformat() if task.due else None
        case "description" | "comment":
            return task.html or ""


def is_set(plan: TaskPlan, task: PlaneTask) -> bool:
    """Return whether each field is just as the plan sets it."""
    return all(value_of(task, one) == one.after for one in plan.fields)


def is_done(plan: TaskPlan, task: PlaneTask) -> bool:
    """Return whether the plan's change is there: each field as it is set, or, where Plane may take only some of it, as some."""
    return all(_is_taken(one, value_of(task, one)) for one in plan.fields)


def is_as_before(plan: TaskPlan, task: PlaneTask) -> bool:
    """Return whether the fields that the plan sets still have what they had when it was made."""
    return all(value_of(task, one) == one.before for one in plan.fields)


def is_between(plan: TaskPlan, task: PlaneTask) -> bool:
    """Return whether each field has what it had when the plan was made, or what it was to get, as far as Plane takes it."""
    values = [(one, value_of(task, one)) for one in plan.fields]
    return all(value == one.before or _is_taken(one, value) for one, value in values)


def _is_taken(field: TaskField, value: Value) -> bool:
    """Return whether a value is what Plane may have made of the one that it was sent.

    Of people and labels it leaves out some, of a text elements, but no word: other words are somebody else's.
    """
    if value in (field.after, field.before):
        return value == field.after
    if isinstance(value, list):
        return set(value) <= set(field.ids)
    return field.name == "description" and same_words(field.text or "", value or "")


def difference(plan: TaskPlan, task: PlaneTask) -> ReadbackDifference:
    """Return what of the plan's fields the task has otherwise."""
    dropped: list[str] = []
    differing: list[str] = []
    for one in plan.fields:
        if one.name in ("assignees", "labels"):
            missing, added = _several(plan, one, task)
            dropped += missing
            differing += added
        elif one.name == "description":
            differing += text_difference(one.name, one.text or "", task.html or "")
            differing += [f"{one.name}: {one.flattens}"] if one.flattens else []
        elif value_of(task, one) != one.after:
            differing.append(_otherwise(plan, one, value_of(task, one)))
    if plan.kind == "create" and plan.fields and plan.field("assignees") is None:
        # A project may have somebody who gets what nobody is named for.
        differing += [f"assignees: also {plan.names.get(id_, UNKNOWN)}" for id_ in task.assignee_ids]
    return ReadbackDifference(tuple(dropped), tuple(differing))


def text_difference(name: str, sent: str, kept: str) -> tuple[str, ...]:
    """Return in words how the text that Plane keeps is otherwise than it was sent."""
    if markdown_of(sent) == markdown_of(kept):
        return ()
    return tuple(f"{name}: {words}" for words in differs(sent, kept)) or (f"{name}: it is not what was sent",)


def _several(plan: TaskPlan, field: TaskField, task: PlaneTask) -> tuple[list[str], list[str]]:
    wanted = set(field.ids)
    there = value_of(task, field)
    has = set(there) if isinstance(there, list) else set()
    missing = [f"{ONE_OF[field.name]} {plan.names.get(id_, UNKNOWN)}" for id_ in sorted(wanted - has)]
    added = [f"{field.name}: also {plan.names.get(id_, UNKNOWN)}" for id_ in sorted(has - wanted)]
    return missing, added


def _otherwise(plan: TaskPlan, field: TaskField, value: Value) -> str:
    """Return that a field has another value, in words that hold no text of the task."""
    if field.name == "name":
        return "name: it is not what was sent"
    told = plan.names.get(value, value) if isinstance(value, str) else "none"
    return f"{field.name}: {told}, not {field.will_be or 'none'}"
