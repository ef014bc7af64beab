"""Plane's public API, version 1, as pure values: makes requests and reads replies.

Plane's words (`work-items`, `issue`, `sequence_id`, `target_date`, `description_html`) appear only here and in `reply_check`.

Every path ends in a slash. Plane redirects a POST without one, and many clients follow with a GET: they get a 200, nothing is
created, and nothing complains (err_no_trailing_slash_post).

Source: https://developers.plane.so/api-reference/introduction, and replies recorded from a community edition 1.2.3
(tests/samples/plane; the names in brackets are theirs).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import lru_cache
from typing import Any, Literal, NoReturn, TypeVar
from urllib.parse import quote

from mcp_server.connectors.errors import Missing
from mcp_server.connectors.plane.model import (
    CLEAR,
    Attachment,
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
    TaskFields,
    TaskLink,
)
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from mcp_server.connectors.text.dates import in_utc

SERVICE = "Plane"
API = "/api/v1"
ADDRESS_SETTING = "PLANE_BASE_URL"
SOURCE = "knowledge-forge"
"""Our `external_source`. Together with a key (`external_id`) it makes Plane answer a second create with the id of the first."""

MOST_A_PAGE = 1000  # the most that Plane gives at once
TASKS_A_PAGE = 1000
FEWER_A_PAGE = 250
"""For a server that does not answer the larger page in time: Plane looks up the people and labels of each task separately."""

LEAN = (
    "id,name,sequence_id,project,parent,priority,state,assignees,labels,start_date,target_date,"
    "created_at,created_by,updated_at"
)
"""The fields of tasks in lists: everything but their texts."""
EXPANDED = "state,assignees,labels,parent"
"""The fields of one task that come as objects with their names, and with the parent's number, which spares four requests."""
LISTED = "state"
"""The fields of tasks in lists that come as objects. With people and labels, Plane would need three times as long for each task.

Source: IssueSerializer.to_representation in apps/api/plane/api/serializers/issue.py of github.com/makeplane/plane
"""
COMMENT_FIELDS = "id,comment_html,created_at,created_by,actor,external_id,external_source"

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
INTAKE_STATES: Mapping[int, tuple[str, str]] = {
    -2: ("pending", "backlog"),
    -1: ("rejected", "cancelled"),
    0: ("snoozed", "backlog"),
    1: ("accepted", "completed"),
    2: ("duplicate", "cancelled"),
}
"""Plane's decisions on tasks in an intake, each with the group of states that it is like.

Source: IntakeIssueStatus in apps/api/plane/db/models/intake.py of github.com/makeplane/plane
"""
HOW_TO_FIND = "check how it is written, or whether it was deleted or archived"
ProjectList = Literal["states", "labels", "cycles", "modules"]
TaskGroup = Literal["cycle", "module"]
T = TypeVar("T")


class UnreadableReply(ValueError):
    """A reply without the documented structure. The message names the part, and never quotes it."""


# Requests


def headers_of(api_key: str) -> dict[str, str]:
    """Return the headers that sign a request (https://developers.plane.so/api-reference/introduction#authentication)."""
    return {"X-API-Key": api_key}


def me() -> ServiceRequest:
    """Ask who owns the key (users_me)."""
    return _get(f"{API}/users/me/")


def projects(workspace: str, cursor: str | None = None) -> ServiceRequest:
    """Ask for the key owner's projects, and for those that are public in the workspace (projects_list)."""
    return _get(f"{_workspace(workspace)}/projects/", _paged(cursor, MOST_A_PAGE))


def members(workspace: str, project_id: str) -> ServiceRequest:
    """Ask for the people of a project; the answer is a plain list, not a page (project_members_list2)."""
    return _get(f"{_project(workspace, project_id)}/members/")


def people(workspace: str) -> ServiceRequest:
    """Ask for everybody in the workspace; guests may not (workspace_members_list)."""
    return _get(f"{_workspace(workspace)}/members/")


def project_list(workspace: str, project_id: str, kind: ProjectList, cursor: str | None = None) -> ServiceRequest:
    """Ask for a project's states, labels, cycles or modules, without archived ones.

    Source: states_list, labels_list, cycles_list, modules_list.
    """
    return _get(f"{_project(workspace, project_id)}/{kind}/", _paged(cursor, MOST_A_PAGE))


def tasks(workspace: str, project_id: str, cursor: str | None, per_page: int, order_by: str) -> ServiceRequest:
    """Ask for a page of a project's tasks, without their texts (work_items_list_page1).

    Archived tasks and drafts are not among them. `order_by` is a field, with `-` before it for descending order.
    """
    query = _paged(cursor, per_page) | {"order_by": order_by, "fields": LEAN, "expand": LISTED}
    return _get(f"{_project(workspace, project_id)}/work-items/", query)


def group_tasks(
    workspace: str, project_id: str, kind: TaskGroup, group_id: str, *, cursor: str | None, per_page: int
) -> ServiceRequest:
    """Ask for a page of the tasks of a cycle or module (cycle_issues_list, module_issues_list)."""
    query = _paged(cursor, per_page) | {"fields": LEAN, "expand": LISTED}
    return _get(f"{_project(workspace, project_id)}/{kind}s/{_part(group_id)}/{kind}-issues/", query)


def intake(workspace: str, project_id: str, cursor: str | None, per_page: int) -> ServiceRequest:
    """Ask for a page of the tasks in a project's intake (intake_list)."""
    return _get(f"{_project(workspace, project_id)}/intake-issues/", _paged(cursor, per_page))


def search(workspace: str, text: str, project_id: str | None, limit: int) -> ServiceRequest:
    """Ask for tasks whose name or project's key contains `text`, or whose number is a number in it.

    Unordered; without a project it searches all that the key's owner belongs to (search, search_workspace).
    """
    where = {"workspace_search": "true"} if project_id is None else {"project_id": project_id}
    return _get(f"{_workspace(workspace)}/work-items/search/", {"search": text, "limit": str(limit)} | where)


def task(workspace: str, project_id: str, task_id: str) -> ServiceRequest:
    """Ask for one task with its text (work_item_get)."""
    return _get(_task(workspace, project_id, task_id), {"expand": EXPANDED})


def task_by_key(workspace: str, key: str) -> ServiceRequest:
    """Ask for the task that people call `key`, such as KB-1 (work_item_by_identifier)."""
    return _get(f"{_workspace(workspace)}/work-items/{_part(key)}/", {"expand": EXPANDED})


def task_by_external(workspace: str, project_id: str, key: str) -> ServiceRequest:
    """Ask for the task that was created with our `key`, archived or not (work_item_by_external_id)."""
    query = {"external_id": key, "external_source": SOURCE}
    return _get(f"{_project(workspace, project_id)}/work-items/", query)


def create_task(workspace: str, project_id: str, fields: TaskFields, key: str) -> ServiceRequest:
    """Create a task; a second create with the same key is a 409 with the first one's id.

    Not repeatable: Plane looks for the key before it writes, so two requests at once both find none.
    Source: work_item_create, work_item_create_external_dup_409;
    https://developers.plane.so/api-reference/issue/add-issue
    """
    # Plane drops people who cannot be assigned and answers 201 all the same (work_item_create_badassignee).
    body = _json_of(fields) | {"external_id": key, "external_source": SOURCE}
    return ServiceRequest("POST", f"{_project(workspace, project_id)}/work-items/", json=body)


def update_task(workspace: str, project_id: str, task_id: str, fields: TaskFields) -> ServiceRequest:
    """Set fields of a task (work_item_update).

    Not repeatable: between two tries somebody else may have changed the same fields.
    """
    return ServiceRequest("PATCH", _task(workspace, project_id, task_id), json=_json_of(fields))


def comments(workspace: str, project_id: str, task_id: str, cursor: str | None, per_page: int) -> ServiceRequest:
    """Ask for a page of a task's comments, newest first (comments_list)."""
    query = _paged(cursor, per_page) | {"fields": COMMENT_FIELDS}
    return _get(f"{_task(workspace, project_id, task_id)}comments/", query)


def comment(workspace: str, project_id: str, task_id: str, comment_id: str) -> ServiceRequest:
    """Ask for one comment (comment_get)."""
    return _get(f"{_task(workspace, project_id, task_id)}comments/{_part(comment_id)}/")


def create_comment(workspace: str, project_id: str, task_id: str, html: str, key: str) -> ServiceRequest:
    """Create a comment; a second create with the same key is a 409 with the first one's id.

    The key counts for the whole project, not for the task. Not repeatable, for the same reason as a task. Plane would accept an
    empty text (comment_create_empty).
    Source: comment_create_external, comment_create_external_dup_409
    """
    body = {"comment_html": html, "external_id": key, "external_source": SOURCE}
    return ServiceRequest("POST", f"{_task(workspace, project_id, task_id)}comments/", json=body)


def relations(workspace: str, project_id: str, task_id: str) -> ServiceRequest:
    """Ask which tasks are related to a task (relations_list)."""
    return _get(f"{_task(workspace, project_id, task_id)}relations/")


def add_relation(workspace: str, project_id: str, task_id: str, kind: str, other_id: str) -> ServiceRequest:
    """Relate a task to another; `kind` is one of ours. Plane's API has no request that removes a relation.

    Two tasks have one relation in each direction: Plane answers 201 to a second one but does not store it.
    Source: IssueRelationListCreateAPIEndpoint of github.com/makeplane/plane
    """
    name = next(name for name, ours in RELATIONS.items() if ours == kind)
    body = {"relation_type": name, "issues": [other_id]}
    return ServiceRequest("POST", f"{_task(workspace, project_id, task_id)}relations/", json=body)


def links(workspace: str, project_id: str, task_id: str, cursor: str | None) -> ServiceRequest:
    """Ask for the links of a task (links_list), without the icons of their sites."""
    query = _paged(cursor, MOST_A_PAGE) | {"fields": "id,url,title"}
    return _get(f"{_task(workspace, project_id, task_id)}links/", query)


def add_link(workspace: str, project_id: str, task_id: str, url: str, title: str) -> ServiceRequest:
    """Add a link; an address that the task links to already is a 400 (link_create, link_create_dup)."""
    body = {"url": url, "title": title}
    return ServiceRequest("POST", f"{_task(workspace, project_id, task_id)}links/", json=body)


def remove_link(workspace: str, project_id: str, task_id: str, link_id: str) -> ServiceRequest:
    """Remove a link."""
    return ServiceRequest("DELETE", f"{_task(workspace, project_id, task_id)}links/{_part(link_id)}/")


def attachments(workspace: str, project_id: str, task_id: str) -> ServiceRequest:
    """Ask for the names of a task's files; the answer is a plain list, not a page.

    Their contents cannot be read: Plane redirects to its file store, which has another address.
    Source: IssueAttachmentListCreateAPIEndpoint of github.com/makeplane/plane
    """
    return _get(f"{_task(workspace, project_id, task_id)}attachments/")


def put_in_group(workspace: str, project_id: str, kind: TaskGroup, group_id: str, task_id: str) -> ServiceRequest:
    """Put a task into a cycle, which takes it out of its other cycle; or into a module, in addition to its other modules.

    A cycle that has ended takes no tasks (cycle_issue_add, module_issue_add).
    """
    path = f"{_project(workspace, project_id)}/{kind}s/{_part(group_id)}/{kind}-issues/"
    return ServiceRequest("POST", path, json={"issues": [task_id]})


def take_from_group(workspace: str, project_id: str, kind: TaskGroup, group_id: str, task_id: str) -> ServiceRequest:
    """Take a task out of a cycle or module.

    Source: CycleIssueDetailAPIEndpoint, ModuleIssueDetailAPIEndpoint of github.com/makeplane/plane
    """
    path = f"{_project(workspace, project_id)}/{kind}s/{_part(group_id)}/{kind}-issues/{_part(task_id)}/"
    return ServiceRequest("DELETE", path)


def update_comment(workspace: str, project_id: str, task_id: str, comment_id: str, html: str) -> ServiceRequest:
    """Change the text of a comment. Plane's API does not check who wrote it (comment_update)."""
    path = f"{_task(workspace, project_id, task_id)}comments/{_part(comment_id)}/"
    return ServiceRequest("PATCH", path, json={"comment_html": html})


def delete_comment(workspace: str, project_id: str, task_id: str, comment_id: str) -> ServiceRequest:
    """Delete a comment for good. Plane's API does not check who wrote it.

    Source: IssueCommentDetailAPIEndpoint of github.com/makeplane/plane
    """
    return ServiceRequest("DELETE", f"{_task(workspace, project_id, task_id)}comments/{_part(comment_id)}/")


# Readers


def read_person(body: Any) -> PlaneMember:
    """Return a person (users_me, project_members_list2)."""
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
    """Return a cycle (cycles_list)."""
    whole = _object(body, "a cycle")
    starts, ends = (None if whole.get(name) is None else _moment(whole, name) for name in ("start_date", "end_date"))
    return Cycle(_id(whole), _text(whole, "name"), starts, ends, _count(whole))


def read_module(body: Any) -> Module:
    """Return a module (modules_list)."""
    whole = _object(body, "a module")
    return Module(_id(whole), _text(whole, "name"), _count(whole))


def read_task(body: Any) -> PlaneTask:
    """Return a task; without its text if only the lean fields came (work_item_get, work_items_list_page1)."""
    whole = _object(body, "a task")
    # The expanded parent of a task without one is an empty object.
    parent = whole.get("parent") or None
    return PlaneTask(
        id=_id(whole),
        number=_number(whole, "sequence_id"),
        project_id=_reference(whole, "project") or _unreadable("a task's project is missing"),
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
        external_id=_text_or_none(whole, "external_id"),
        external_source=_text_or_none(whole, "external_source"),
        parent_id=None if parent is None else _id_of(parent, "parent"),
        parent_number=_number(parent, "sequence_id") if isinstance(parent, Mapping) else None,
        created_by=_reference(whole, "created_by"),
        state=_kept_once(read_state(whole["state"])) if isinstance(whole.get("state"), Mapping) else None,
        assignees=_expanded(whole, "assignees", read_person),
        labels=_expanded(whole, "labels", read_label),
    )


def read_link(body: Any) -> TaskLink:
    """Return a link (links_list)."""
    whole = _object(body, "a link")
    return TaskLink(_id(whole), _text(whole, "url"), _text(whole, "title", ""))


def read_attachments(body: Any) -> tuple[Attachment, ...]:
    """Return the files of a task: `FileAsset` of github.com/makeplane/plane has their names in `attributes`."""
    found = []
    for item in body if isinstance(body, list) else _unreadable("attachments are not a list"):
        whole = _object(item, "an attachment")
        about = _object(whole.get("attributes") or {}, "attributes")
        size = whole.get("size") or about.get("size") or 0
        size_bytes = int(size) if isinstance(size, (int, float)) else 0
        found.append(Attachment(_id(whole), _text(about, "name", ""), _text(about, "type", ""), size_bytes))
    return tuple(found)


def read_deleted(body: Any) -> None:
    """Check that the reply is that of a deletion, which has no body (label_delete_204)."""
    if body not in (None, ""):
        _unreadable("a deletion has an answer")


def read_related(body: Any) -> None:
    """Check that the reply lists relations; a new one that Plane ignored is not among them."""
    if not isinstance(body, list):
        _unreadable("relations are not a list")


def read_held(body: Any, task_id: str) -> None:
    """Check that the task is among those now in the cycle or module (cycle_issue_add, module_issue_add)."""
    rows = body if isinstance(body, list) else _unreadable("the tasks of a group are not a list")
    if not any(_reference(_object(row, "a task of a group"), "issue") == task_id for row in rows):
        _unreadable("the task is not in it")


def read_intake_task(body: Any) -> PlaneTask:
    """Return a task in an intake. Its state is what was decided about it, `pending` if nothing was.

    Source: IntakeIssueSerializer in apps/api/plane/api/serializers/intake.py of github.com/makeplane/plane
    """
    whole = _object(body, "a task in the intake")
    name, group = INTAKE_STATES.get(_number(whole, "status"), ("pending", "backlog"))
    task = read_task(whole.get("issue_detail"))
    return replace(task, state_id=name, state=State(name, name, group))


def read_search(body: Any) -> tuple[FoundTask, ...]:
    """Return the tasks that a search found, each once (search, search_empty)."""
    found: dict[str, FoundTask] = {}
    for item in _list(_object(body, "a search"), "issues"):
        whole = _object(item, "a task that was found")
        found[_id(whole)] = FoundTask(
            _id(whole),
            _number(whole, "sequence_id"),
            _text(whole, "name"),
            _text(whole, "project_id"),
            _text(whole, "project__identifier"),
        )
    return tuple(found.values())


def read_comment(body: Any) -> Comment:
    """Return a comment. Its HTML is as somebody wrote it: Plane sanitizes the texts of tasks only (comment_get)."""
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
    """Return the related tasks. Older editions give ids alone, newer ones objects with the project.

    Source: relations_list; IssueRelationRefSerializer of github.com/makeplane/plane
    """
    whole = _object(body, "relations")
    found = []
    for name, kind in RELATIONS.items():
        for item in _list(whole, name) if whole.get(name) else ():
            if isinstance(item, Mapping) and "issue_id" in item:
                found.append(Relation(kind, _text(item, "issue_id"), _text_or_none(item, "project_id")))
            else:
                found.append(Relation(kind, _id_of(item, "relations")))
    return tuple(found)


def read_page(body: Any, read: Callable[[Any], T]) -> ListPage[T]:
    """Return a page; a plain list is one page (projects_list, project_members_list2, cycles_list_current).

    The last page also has a `next_cursor`: only `next_page_results` shows that it is the last (work_items_list_cursor_past_end).
    """
    if isinstance(body, list):
        return ListPage(tuple(read(item) for item in body), None, len(body))
    whole = _object(body, "a page")
    total = whole.get("total_results")
    has_more = whole.get("next_page_results")
    if not isinstance(has_more, bool):
        _unreadable("a page does not say whether it is the last")
    return ListPage(
        tuple(read(item) for item in _list(whole, "results")),
        _text(whole, "next_cursor") if has_more else None,
        total if isinstance(total, int) and not isinstance(total, bool) else None,
    )


def read_taken(reply: ServiceReply) -> KeyTaken | None:
    """Return the existing item with our key; None if the reply is not that conflict (work_item_create_external_dup_409).

    A 409 without an id is a conflict of another kind, such as two projects of one name (project_create_dup_409).
    """
    body = reply.body
    if reply.status == 409 and isinstance(body, Mapping) and isinstance(body.get("id"), str) and body["id"]:
        return KeyTaken(body["id"])
    return None


# Parts of requests


def _get(path: str, query: Mapping[str, str] | None = None) -> ServiceRequest:
    return ServiceRequest("GET", path, query=query or {}, repeatable=True)


def _workspace(workspace: str) -> str:
    return f"{API}/workspaces/{_part(workspace)}"


def _project(workspace: str, project_id: str) -> str:
    return f"{_workspace(workspace)}/projects/{_part(project_id)}"


def _task(workspace: str, project_id: str, task_id: str) -> str:
    return f"{_project(workspace, project_id)}/work-items/{_part(task_id)}/"


def _part(text: str) -> str:
    """Return any text as one part of a path.

    Raises: Missing: servers and proxies would resolve it to a different path (`..`), so nothing can have that name.
    """
    if text.strip(".") == "":
        raise Missing(SERVICE, "thing with such a name", HOW_TO_FIND)
    return quote(text, safe="")


def _paged(cursor: str | None, per_page: int) -> dict[str, str]:
    # Plane refuses a larger page (work_items_list_per_page_over).
    size = {"per_page": str(max(1, min(per_page, MOST_A_PAGE)))}
    return size if cursor is None else size | {"cursor": cursor}


def _json_of(task: TaskFields) -> dict[str, Any]:
    """Return the fields that are set; an empty list clears people or labels, null clears a date."""
    fields = {
        "name": task.name,
        "description_html": task.html,
        "priority": task.priority,
        "state": task.state_id,
        "assignees": None if task.assignee_ids is None else list(dict.fromkeys(task.assignee_ids)),
        "labels": None if task.label_ids is None else list(dict.fromkeys(task.label_ids)),
    }
    days = {"start_date": task.starts, "target_date": task.due, "archived_at": task.archived}
    emptied = {name: None if day is CLEAR else day.isoformat() for name, day in days.items() if day is not None}
    if task.parent_id is not None:
        emptied["parent"] = None if task.parent_id is CLEAR else task.parent_id
    return {name: value for name, value in fields.items() if value is not None} | emptied


# Parts of replies


def _unreadable(what: str) -> NoReturn:
    raise UnreadableReply(what)


def _object(body: Any, what: str) -> Mapping[str, Any]:
    return body if isinstance(body, Mapping) else _unreadable(f"{what} is not an object")


def _list(whole: Mapping[str, Any], name: str) -> Sequence[Any]:
    value = whole.get(name)
    return value if isinstance(value, list) else _unreadable(f"{name} is not a list")


def _id(whole: Mapping[str, Any]) -> str:
    value = whole.get("id")
    return value if isinstance(value, str) and value else _unreadable("an id is missing")


def _text(whole: Mapping[str, Any], name: str, default: str | None = None) -> str:
    value = whole.get(name)
    if value is None and default is not None:
        return default
    return value if isinstance(value, str) else _unreadable(f"{name} is not a text")


def _text_or_none(whole: Mapping[str, Any], name: str) -> str | None:
    return None if whole.get(name) is None else _text(whole, name)


def _count(whole: Mapping[str, Any]) -> int | None:
    value = whole.get("total_issues")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(whole: Mapping[str, Any], name: str) -> int:
    value = whole.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else _unreadable(f"{name} is not a number")


def _reference(whole: Mapping[str, Any], name: str) -> str | None:
    value = whole.get(name)
    return None if value is None else _id_of(value, name)


def _references(whole: Mapping[str, Any], name: str) -> tuple[str, ...]:
    if whole.get(name) is None:
        return ()
    return tuple(dict.fromkeys(_id_of(value, name) for value in _list(whole, name)))


def _expanded(whole: Mapping[str, Any], name: str, read: Callable[[Any], T]) -> tuple[T, ...]:
    """Return the things that are given as objects; none if only their ids are."""
    return tuple(_kept_once(read(value)) for value in whole.get(name) or () if isinstance(value, Mapping))


@lru_cache(maxsize=4_096)
def _kept_once(thing: T) -> T:
    """Return an equal thing that was read before: thousands of tasks share a few states, people and labels."""
    return thing


def _id_of(value: Any, name: str) -> str:
    """Return the id of a thing that is given as an id, or as an object (work_item_get_expand)."""
    if isinstance(value, Mapping):
        return _id(value)
    return value if isinstance(value, str) and value else _unreadable(f"{name} is not an id")


def _moment(whole: Mapping[str, Any], name: str) -> datetime:
    text = _text(whole, name)
    try:
        # Plane gives times in the time zone of the key's owner.
        return in_utc(text)
    except ValueError as error:
        raise UnreadableReply(f"{name} is not a time") from error


def _day_or_none(whole: Mapping[str, Any], name: str) -> date | None:
    text = _text_or_none(whole, name)
    try:
        return None if text is None else date.fromisoformat(text[:10])
    except ValueError as error:
        raise UnreadableReply(f"{name} is not a day") from error
