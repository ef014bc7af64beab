"""Fields of a task that the double of Plane refuses, in the program's words.

Source: work_item_create_*_400 of tests/samples/plane; `IssueSerializer` of github.com/makeplane/plane
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any
from uuid import UUID

from tests.doubles.plane_html import cleaned
from tests.doubles.plane_rows import PRIORITIES, Project, Row, Workspace


def wrong_fields(workspace: Workspace, body: Row) -> Row:
    """Return the error of each wrong field in the body."""
    states = {key for one in workspace.projects.values() for key in one.states}
    labels = {key for one in workspace.projects.values() for key in one.labels}
    told: Row = {
        "name": _wrong_name(body["name"]) if "name" in body else None,
        "priority": _wrong_priority(body.get("priority", "none")),
        "state": _wrong_id(body["state"], states) if body.get("state") is not None else None,
        **{name: _wrong_day(body.get(name)) for name in ("start_date", "target_date")},
    }
    wrong: Row = {name: [said] for name, said in told.items() if said}
    for name, known in (("labels", labels), ("assignees", set(workspace.accounts))):
        each = {str(at): _wrong_id(one, known) for at, one in enumerate(body.get(name) or [])}
        if any(each.values()):
            wrong[name] = {at: [said] for at, said in each.items() if said}
    return wrong


def _wrong_name(name: Any) -> str | None:
    if name is None:
        return "This field may not be null."
    if not isinstance(name, str):
        return "Not a valid string."
    if not name.strip():
        return "This field may not be blank."
    return "Ensure this field has no more than 255 characters." if len(name.strip()) > 255 else None


def _wrong_id(own_id: Any, known: Iterable[str]) -> str | None:
    try:
        UUID(str(own_id))
    except ValueError:
        return f"“{own_id}” is not a valid UUID."
    return None if own_id in set(known) else f'Invalid pk "{own_id}" - object does not exist.'


def _wrong_priority(priority: Any) -> str | None:
    return None if priority in PRIORITIES else f'"{priority}" is not a valid choice.'


def _wrong_day(text: Any) -> str | None:
    try:
        fits = text is None or date.fromisoformat(text).isoformat() == text
    except (TypeError, ValueError):
        fits = False
    return None if fits else "Date has wrong format. Use one of these formats instead: YYYY-MM-DD."


def wrong_whole(project: Project, body: Row) -> str | None:
    """Return the error of fields that are valid one by one, but not together."""
    if body.get("start_date") and body.get("target_date") and body["start_date"] > body["target_date"]:
        return "Start date cannot exceed target date"
    if body.get("description_html") is not None and cleaned(body["description_html"]) is None:
        return "Invalid HTML passed"
    if body.get("state") and body["state"] not in project.states:
        return "State is not valid please pass a valid state_id"
    if body.get("parent") and body["parent"] not in project.tasks:
        return "Parent is not valid issue_id please pass a valid issue_id"
    return None
