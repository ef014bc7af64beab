"""Plane's public API, version 1, as pure values: requests are made here, and replies are read here.

Plane's words (`work-items`, `issue`, `sequence_id`, `target_date`, `description_html`) stop in this file. Every path ends in a
slash: a POST without one is redirected, many clients follow with a GET, and nothing is created while nothing complains
(err_no_trailing_slash_post).

Source: https://developers.plane.so/api-reference/introduction, and replies recorded from a community edition 1.2.3
(tests/samples/plane; the names in brackets are theirs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

from mcp_server.connectors.errors import Missing
from mcp_server.connectors.plane.model import (
    CLEAR,
    Comment,
    Cycle,
    FoundTask,
    KeyTaken,
    Label,
    ListPage,
    Module,
    PlaneMember,
    PlaneTask,
    Project,
    Relation,
    State,
    TaskChanges,
    TaskDraft,
)
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from mcp_server.connectors.text.dates import in_utc

SERVICE = "Plane"
API = "/api/v1"
ADDRESS_SETTING = "PLANE_BASE_URL"
SOURCE = "knowledge-forge"
"""What Plane calls `external_source`: with the key (`external_id`) it makes a create repeatable."""

MOST_A_PAGE = 1000
TASKS_A_PAGE = 250
"""Plane looks up the people and labels of each task by itself, so that a page of 1,000 would take it seconds."""

LEAN = (
    "id",
    "name",
    "sequence_id",
    "project",
    "priority",
    "state",
    "assignees",
    "labels",
    "start_date",
    "target_date",
    "created_at",
    "updated_at",
)
"""What lists ask for of a task: everything but its text."""

SAID = ("id", "comment_html", "created_at", "created_by", "actor", "external_id", "external_source")

RELATIONS = {
    "blocking": "blocks",
    "blocked_by": "blocked by",
    "duplicate": "duplicate of",
    "relates_to": "relates to",
    "start_after": "starts after",
    "start_before": "starts before",
    "finish_after": "finishes after",
    "finish_before": "finishes before",
}
HOW_TO_FIND = "check how it is written, or whether it was deleted or archived"
T = TypeVar("T")


class UnreadableReply(ValueError):
    """A reply that is not of the shape that Plane's replies have; says which part, never what it holds."""


# Requests


def headers_of(api_key: str) -> dict[str, str]:
    """Return the headers that sign a request (https://developers.plane.so/api-reference/introduction#authentication)."""
    return {"X-API-Key": api_key}


def me() -> ServiceRequest:
    """Return the question who owns the key (users_me)."""
    return _get(f"{API}/users/me/")


def projects(workspace: str, cursor: str | None = None) -> ServiceRequest:
    """Return the question for projects: the owner's, and those that are public to the workspace (projects_list)."""
    return _get(f"{_workspace(workspace)}/projects/", _paged(cursor, MOST_A_PAGE))


def members(workspace: str, project_id: str) -> ServiceRequest:
    """Return the question for the people of a project; answered as a plain list (project_members_list2)."""
    return _get(f"{_project(workspace, project_id)}/members/")


def states(workspace: str, project_id: str, cursor: str | None = None) -> ServiceRequest:
    """Return the question for the states of a project (states_list)."""
    return _get(f"{_project(workspace, project_id)}/states/", _paged(cursor, MOST_A_PAGE))


def labels(workspace: str, project_id: str, cursor: str | None = None) -> ServiceRequest:
    """Return the question for the labels of a project (labels_list)."""
    return _get(f"{_project(workspace, project_id)}/labels/", _paged(cursor, MOST_A_PAGE))


def cycles(workspace: str, project_id: str, cursor: str | None = None) -> ServiceRequest:
    """Return the question for the cycles of a project that are not archived (cycles_list)."""
    return _get(f"{_project(workspace, project_id)}/cycles/", _paged(cursor, MOST_A_PAGE))


def modules(workspace: str, project_id: str, cursor: str | None = None) -> ServiceRequest:
    """Return the question for the modules of a project that are not archived (modules_list)."""
    return _get(f"{_project(workspace, project_id)}/modules/", _paged(cursor, MOST_A_PAGE))


def tasks(workspace: str, project_id: str, cursor: str | None, per_page: int, order_by: str) -> ServiceRequest:
    """Return the question for a page of a project's tasks, without their texts (work_items_list_page1).

    Archived tasks and drafts are not among them. `order_by` is a field, with `-` before it for last first.
    """
    query = _paged(cursor, per_page) | {"order_by": order_by, "fields": ",".join(LEAN)}
    return _get(f"{_project(workspace, project_id)}/work-items/", query)


def cycle_tasks(workspace: str, project_id: str, cycle_id: str, cursor: str | None, per_page: int) -> ServiceRequest:
    """Return the question for a page of a cycle's tasks (cycle_issues_list)."""
    query = _paged(cursor, per_page) | {"fields": ",".join(LEAN)}
    return _get(f"{_project(workspace, project_id)}/cycles/{_part(cycle_id)}/cycle-issues/", query)


def module_tasks(workspace: str, project_id: str, module_id: str, cursor: str | None, per_page: int) -> ServiceRequest:
    """Return the question for a page of a module's tasks (module_issues_list)."""
    query = _paged(cursor, per_page) | {"fields": ",".join(LEAN)}
    return _get(f"{_project(workspace, project_id)}/modules/{_part(module_id)}/module-issues/", query)


def search(workspace: str, text: str, project_id: str | None, limit: int) -> ServiceRequest:
    """Return the question for tasks whose name or project's key has `text`, or whose number is a number in it.

    Unordered; without a project it goes over all that the key's owner belongs to (search, search_workspace).
    """
    where = {"workspace_search": "true"} if project_id is None else {"project_id": project_id}
    return _get(f"{_workspace(workspace)}/work-items/search/", {"search": text, "limit": str(limit)} | where)


def task(workspace: str, project_id: str, task_id: str) -> ServiceRequest:
    """Return the question for one task with its text (work_item_get)."""
    return _get(_task(workspace, project_id, task_id))


def task_by_key(workspace: str, key: str) -> ServiceRequest:
    """Return the question for the task that people call `key`, such as KB-1 (work_item_by_identifier)."""
    return _get(f"{_workspace(workspace)}/work-items/{_part(key)}/")


def task_by_external(workspace: str, project_id: str, key: str) -> ServiceRequest:
    """Return the question for the task that was created with our `key`, archived or not (work_item_by_external_id)."""
    query = {"external_id": key, "external_source": SOURCE}
    return _get(f"{_project(workspace, project_id)}/work-items/", query)


def create_task(workspace: str, project_id: str, draft: TaskDraft) -> ServiceRequest:
    """Return the request for a new task; a second one with the same key is a 409 with the first one's id.

    It is not repeatable by itself: Plane looks for the key first and writes then, and two that run at once both find none.
    Source: work_item_create, work_item_create_external_dup_409;
    https://developers.plane.so/api-reference/issue/add-issue
    """
    body = _given(
        name=draft.name,
        description_html=draft.html,
        priority=draft.priority,
        state=draft.state_id,
        assignees=_ids(draft.assignee_ids),
        labels=_ids(draft.label_ids),
        start_date=draft.starts and draft.starts.isoformat(),
        target_date=draft.due and draft.due.isoformat(),
        parent=draft.parent_id,
        external_id=draft.key,
        external_source=SOURCE,
    )
    return ServiceRequest("POST", f"{_project(workspace, project_id)}/work-items/", json=body)


def update_task(workspace: str, project_id: str, task_id: str, changes: TaskChanges) -> ServiceRequest:
    """Return the request that sets some fields to values (work_item_update).

    It is not repeatable by itself: between the first time and the second somebody else may have changed the same fields.
    """
    body = _given(
        name=changes.name,
        description_html=changes.html,
        priority=changes.priority,
        state=changes.state_id,
        assignees=_ids(changes.assignee_ids),
        labels=_ids(changes.label_ids),
    )
    for name, day in (("start_date", changes.starts), ("target_date", changes.due)):
        if day is not None:
            body[name] = None if day is CLEAR else day.isoformat()
    return ServiceRequest("PATCH", _task(workspace, project_id, task_id), json=body)


def comments(workspace: str, project_id: str, task_id: str, cursor: str | None, per_page: int) -> ServiceRequest:
    """Return the question for a page of a task's comments, last first (comments_list)."""
    query = _paged(cursor, per_page) | {"fields": ",".join(SAID)}
    return _get(f"{_task(workspace, project_id, task_id)}comments/", query)


def comment(workspace: str, project_id: str, task_id: str, comment_id: str) -> ServiceRequest:
    """Return the question for one comment (comment_get)."""
    return _get(f"{_task(workspace, project_id, task_id)}comments/{_part(comment_id)}/")


def create_comment(workspace: str, project_id: str, task_id: str, html: str, key: str) -> ServiceRequest:
    """Return the request for a new comment; a second one with the same key is a 409 with the first one's id.

    The key counts for the whole project, not for the task; as with a task, of two that run at once both are written. An
    empty text would be accepted (comment_create_empty).
    Source: comment_create_external, comment_create_external_dup_409
    """
    body = {"comment_html": html, "external_id": key, "external_source": SOURCE}
    return ServiceRequest("POST", f"{_task(workspace, project_id, task_id)}comments/", json=body)


def relations(workspace: str, project_id: str, task_id: str) -> ServiceRequest:
    """Return the question what a task is tied to (relations_list)."""
    return _get(f"{_task(workspace, project_id, task_id)}relations/")


# Readers


def read_person(body: Any) -> PlaneMember:
    """Return a person; names may be empty (users_me, project_members_list2)."""
    whole = _object(body, "a person")
    full = f"{_text(whole, 'first_name', '')} {_text(whole, 'last_name', '')}".strip()
    return PlaneMember(_id(whole), _text(whole, "display_name", ""), full, _text(whole, "email", ""))


def read_project(body: Any) -> Project:
    """Return a project (project_get)."""
    whole = _object(body, "a project")
    return Project(
        _id(whole),
        _text(whole, "identifier"),
        _text(whole, "name"),
        _text(whole, "description", ""),
        archived=whole.get("archived_at") is not None,
        member=whole.get("is_member") is not False,
    )


def read_state(body: Any) -> State:
    """Return a state (states_list)."""
    whole = _object(body, "a state")
    return State(_id(whole), _text(whole, "name"), _text(whole, "group", ""), default=whole.get("default") is True)


def read_label(body: Any) -> Label:
    """Return a label (labels_list)."""
    whole = _object(body, "a label")
    return Label(_id(whole), _text(whole, "name"))


def read_cycle(body: Any) -> Cycle:
    """Return a cycle; a draft has no times (cycles_list)."""
    whole = _object(body, "a cycle")
    return Cycle(
        _id(whole), _text(whole, "name"), _moment_or_none(whole, "start_date"), _moment_or_none(whole, "end_date")
    )


def read_module(body: Any) -> Module:
    """Return a module (modules_list)."""
    whole = _object(body, "a module")
    return Module(_id(whole), _text(whole, "name"))


def read_task(body: Any) -> PlaneTask:
    """Return a task; without its text where only the lean fields came (work_item_get, work_items_list_page1)."""
    whole = _object(body, "a task")
    return PlaneTask(
        id=_id(whole),
        number=_number(whole, "sequence_id"),
        project_id=_reference(whole, "project") or _odd("a task's project is missing"),
        name=_text(whole, "name"),
        priority=_text(whole, "priority", "none"),
        state_id=_reference(whole, "state"),
        assignee_ids=_references(whole, "assignees"),
        label_ids=_references(whole, "labels"),
        starts=_day_or_none(whole, "start_date"),
        due=_day_or_none(whole, "target_date"),
        created_at=_moment(whole, "created_at"),
        updated_at=_moment(whole, "updated_at"),
        html=_text_or_none(whole, "description_html"),
        parent_id=_reference(whole, "parent"),
        created_by=_reference(whole, "created_by"),
        external_id=_text_or_none(whole, "external_id"),
        external_source=_text_or_none(whole, "external_source"),
    )


def read_found(body: Any) -> FoundTask:
    """Return what a search tells of a task (search)."""
    whole = _object(body, "a task that was found")
    return FoundTask(
        _id(whole),
        _number(whole, "sequence_id"),
        _text(whole, "name"),
        _text(whole, "project_id"),
        _text(whole, "project__identifier"),
    )


def read_search(body: Any) -> tuple[FoundTask, ...]:
    """Return what a search found; a task that is told twice counts once (search, search_empty)."""
    found = [read_found(item) for item in _list(_object(body, "a search"), "issues")]
    return tuple({item.id: item for item in found}.values())


def read_comment(body: Any) -> Comment:
    """Return a comment; its HTML is as it was written, for Plane cleans only the texts of tasks (comment_get)."""
    whole = _object(body, "a comment")
    ours = whole.get("external_source") == SOURCE
    return Comment(
        _id(whole),
        _text(whole, "comment_html", ""),
        _moment(whole, "created_at"),
        _reference(whole, "actor") or _reference(whole, "created_by"),
        _text_or_none(whole, "external_id") if ours else None,
    )


def read_relations(body: Any) -> tuple[Relation, ...]:
    """Return what a task is tied to; older editions name the other task by its id, newer ones with its project.

    Source: relations_list; IssueRelationRefSerializer of github.com/makeplane/plane
    """
    whole = _object(body, "relations")
    return tuple(
        Relation(told, *_tied(item))
        for kind, told in RELATIONS.items()
        if whole.get(kind)
        for item in _list(whole, kind)
    )


def read_page(body: Any, read: Callable[[Any], T]) -> ListPage[T]:
    """Return a page, or a plain list as a page that is whole (projects_list, project_members_list2, cycles_list_current).

    `next_cursor` is told at the end, too, where `next_page_results` is false (work_items_list_cursor_past_end).
    """
    if isinstance(body, list):
        return ListPage(tuple(read(item) for item in body), None, len(body))
    whole = _object(body, "a page")
    total = whole.get("total_results")
    goes_on = whole.get("next_page_results")
    if not isinstance(goes_on, bool):
        _odd("a page does not say whether it is the last")
    return ListPage(
        tuple(read(item) for item in _list(whole, "results")),
        _text(whole, "next_cursor") if goes_on else None,
        total if isinstance(total, int) and not isinstance(total, bool) else None,
    )


def read_taken(reply: ServiceReply) -> KeyTaken | None:
    """Return what has our key already, None where the reply is no such conflict (work_item_create_external_dup_409)."""
    body = reply.body
    if reply.status == 409 and isinstance(body, Mapping) and isinstance(body.get("id"), str) and body["id"]:
        return KeyTaken(body["id"])
    return None


# Parts


def _get(path: str, query: Mapping[str, str] | None = None) -> ServiceRequest:
    return ServiceRequest("GET", path, query=query or {}, repeatable=True)


def _workspace(workspace: str) -> str:
    return f"{API}/workspaces/{_part(workspace)}"


def _project(workspace: str, project_id: str) -> str:
    return f"{_workspace(workspace)}/projects/{_part(project_id)}"


def _task(workspace: str, project_id: str, task_id: str) -> str:
    return f"{_project(workspace, project_id)}/work-items/{_part(task_id)}/"


def _part(text: str) -> str:
    """Return text as one part of a path: it names one thing, whatever it holds.

    Raises:
        Missing: it would lead to another path, so nothing can be called so.
    """
    if text.strip(".") == "":
        raise Missing(SERVICE, "thing with such a name", HOW_TO_FIND)
    return quote(text, safe="")


def _paged(cursor: str | None, per_page: int) -> dict[str, str]:
    size = {"per_page": str(max(1, min(per_page, MOST_A_PAGE)))}
    return size if cursor is None else size | {"cursor": cursor}


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _ids(ids: tuple[str, ...] | None) -> list[str] | None:
    return None if ids is None else list(dict.fromkeys(ids))


def _odd(what: str) -> NoReturn:
    raise UnreadableReply(what)


def _object(body: Any, what: str) -> Mapping[str, Any]:
    return body if isinstance(body, Mapping) else _odd(f"{what} is no object")


def _list(whole: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = whole.get(name)
    return value if isinstance(value, list) else _odd(f"{name} is no list")


def _id(whole: Mapping[str, Any]) -> str:
    value = whole.get("id")
    return value if isinstance(value, str) and value else _odd("an id is missing")


def _text(whole: Mapping[str, Any], name: str, otherwise: str | None = None) -> str:
    value = whole.get(name)
    if value is None and otherwise is not None:
        return otherwise
    return value if isinstance(value, str) else _odd(f"{name} is no text")


def _text_or_none(whole: Mapping[str, Any], name: str) -> str | None:
    return None if whole.get(name) is None else _text(whole, name)


def _number(whole: Mapping[str, Any], name: str) -> int:
    value = whole.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else _odd(f"{name} is no number")


def _reference(whole: Mapping[str, Any], name: str) -> str | None:
    value = whole.get(name)
    return None if value is None else _referred(value, name)


def _references(whole: Mapping[str, Any], name: str) -> tuple[str, ...]:
    if whole.get(name) is None:
        return ()
    return tuple(dict.fromkeys(_referred(value, name) for value in _list(whole, name)))


def _referred(value: Any, name: str) -> str:
    """Return the id of a thing that is named by it, or told as an object (work_item_get_expand)."""
    if isinstance(value, Mapping):
        return _id(value)
    return value if isinstance(value, str) and value else _odd(f"{name} is no id")


def _tied(item: Any) -> tuple[str, str | None]:
    if isinstance(item, Mapping) and "issue_id" in item:
        return _text(item, "issue_id"), _text_or_none(item, "project_id")
    return _referred(item, "relations"), None


def _moment_or_none(whole: Mapping[str, Any], name: str) -> datetime | None:
    return None if whole.get(name) is None else _moment(whole, name)


def _moment(whole: Mapping[str, Any], name: str) -> datetime:
    told = _text(whole, name)
    try:
        # Plane tells times in the time zone of the key's owner; one without a zone would be UTC.
        return in_utc(told)
    except ValueError as odd:
        raise UnreadableReply(f"{name} is no time") from odd


def _day_or_none(whole: Mapping[str, Any], name: str) -> date | None:
    told = _text_or_none(whole, name)
    try:
        return None if told is None else date.fromisoformat(told[:10])
    except ValueError as odd:
        raise UnreadableReply(f"{name} is no day") from odd
