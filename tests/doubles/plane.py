"""A Plane for tests: the public API of a community edition 1.2.3 on loopback, which answers as the recorded one did.

It keeps what it is told. Where no reply was recorded (a field that is too long, a second project with a key) it does what
the program's code says. tests/contract/test_plane_double.py replays every recorded request against it.

Source: tests/samples/plane; https://developers.plane.so/api-reference/introduction; github.com/makeplane/plane
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID, uuid4

from starlette.types import Receive, Scope, Send

from tests.doubles.plane_html import cleaned
from tests.doubles.serving import Plan, Served, no_fault, served

GUEST, MEMBER, ADMIN = 5, 15, 20
WORKSPACE = "acme"
MOST_A_PAGE = 1000
PRIORITIES = ("urgent", "high", "medium", "low", "none")
GROUPS = ("backlog", "unstarted", "started", "completed", "cancelled")
STATES = (
    ("Backlog", "#60646C", "backlog"),
    ("Todo", "#60646C", "unstarted"),
    ("In Progress", "#F59E0B", "started"),
    ("Done", "#46A758", "completed"),
    ("Cancelled", "#9AA4BC", "cancelled"),
)
NO_PERMISSION = {"detail": "You do not have permission to perform this action."}
NO_SUCH = {"error": "The requested resource does not exist."}
NO_PAGE = {"error": "Page not found."}
BROKEN = {"error": "Something went wrong please try again later"}
REQUIRED = "This field is required."
RELATED = {
    "blocking": "blocked_by",
    "blocked_by": "blocking",
    "start_after": "start_before",
    "start_before": "start_after",
    "finish_after": "finish_before",
    "finish_before": "finish_after",
    "duplicate": "duplicate",
    "relates_to": "relates_to",
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Account:
    """Somebody with a key; `role` is the one in the workspace, None for who is not of it."""

    id: str
    first: str
    last: str
    key: str
    role: int | None

    @property
    def shown(self) -> Row:
        """Return what others are told of this person."""
        return {
            "id": self.id,
            "first_name": self.first,
            "last_name": self.last,
            "email": f"{self.last.lower()}@example.com",
            "avatar": "",
            "avatar_url": None,
            "display_name": self.first.lower(),
        }


ADA = Account("d430a76c-bfea-42c6-afdb-311a48e95ec9", "Ada", "Admin", "plane_api_ada", ADMIN)
MEL = Account("733a981c-7b7c-4c45-92cc-83c0335a34f4", "Mel", "Member", "plane_api_mel", MEMBER)
GUS = Account("11516be4-7a89-44b3-b768-c8b5d8239749", "Gus", "Guest", "plane_api_gus", GUEST)
OTTO = Account("1ea63d02-9b56-4186-b70d-b105cf080249", "Otto", "Outsider", "plane_api_otto", None)


class Answer(Exception):
    """A reply that ends the handling of a request."""

    def __init__(self, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body, dict(headers or {})


@dataclass
class Project:
    """A project with all that is in it, by id."""

    row: Row
    roles: dict[str, int]
    states: dict[str, Row] = field(default_factory=dict)
    labels: dict[str, Row] = field(default_factory=dict)
    cycles: dict[str, Row] = field(default_factory=dict)
    modules: dict[str, Row] = field(default_factory=dict)
    tasks: dict[str, Row] = field(default_factory=dict)
    comments: dict[str, Row] = field(default_factory=dict)
    links: dict[str, Row] = field(default_factory=dict)
    activities: list[Row] = field(default_factory=list)
    in_cycles: dict[str, Row] = field(default_factory=dict)
    in_modules: dict[str, Row] = field(default_factory=dict)
    numbers: int = 0


@dataclass(frozen=True)
class Asked:
    """A request as the handlers see it; `who` is its key's owner."""

    method: str
    query: Mapping[str, str]
    body: Any
    who: Account


class Plane:
    """A workspace of Plane, as an ASGI application. Tests may look into it and change it as people would in their browser.

    `allowance` is how many requests a key may send in a minute. `now` must not go back.
    """

    def __init__(
        self,
        *,
        accounts: Iterable[Account] = (ADA, MEL, GUS, OTTO),
        now: Callable[[], datetime] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        allowance: int = 100_000,
    ) -> None:
        self.accounts = {account.id: account for account in accounts}
        self.workspace_id = str(uuid4())
        self.projects: dict[str, Project] = {}
        self.relations: list[tuple[str, str, str]] = []
        self.allowance = allowance
        self._now = now or (lambda: datetime.now(UTC))
        self._monotonic = monotonic
        self._last = datetime.min.replace(tzinfo=UTC)
        self._spent: dict[str, list[float]] = {}

    # What tests use, besides the API

    def project(self, key: str) -> Project:
        """Return the project with that key (KB)."""
        return next(project for project in self.projects.values() if project.row["identifier"] == key)

    def task(self, key: str) -> Row:
        """Return the task that people call so (KB-1), as the API tells it."""
        name, number = key.rsplit("-", 1)
        return next(row for row in self.project(name).tasks.values() if row["sequence_id"] == int(number))

    def tasks(self, key: str) -> list[Row]:
        """Return the tasks of a project, first created first."""
        return list(self.project(key).tasks.values())

    def comments(self, key: str) -> list[Row]:
        """Return the comments on a task, first written first."""
        task = self.task(key)
        return [row for row in self.project(key.rsplit("-", 1)[0]).comments.values() if row["issue"] == task["id"]]

    def add_project(
        self, key: str, name: str, *, by: Account = ADA, public: bool = True, own_id: str | None = None
    ) -> Project:
        """Make a project, as a person does in a browser, and return it."""
        made = self._new_project({"identifier": key, "name": name, "cycle_view": True, "module_view": True}, by, own_id)
        made.row["network"] = 2 if public else 0
        return made

    def add_member(self, key: str, who: Account, role: int | None = None) -> None:
        """Add a person to a project, with their role in the workspace unless another is given."""
        self.project(key).roles[who.id] = role or who.role or MEMBER

    def add_label(self, key: str, name: str, *, by: Account = ADA) -> Row:
        """Make a label and return it."""
        return self._new_label(self.project(key), {"name": name}, by)

    def add_state(self, key: str, name: str, group: str, *, by: Account = ADA) -> Row:
        """Make a state and return it."""
        return self._new_state(self.project(key), {"name": name, "group": group, "color": "#3366ff"}, by)

    def add_task(self, key: str, name: str, *, by: Account = ADA, **fields: Any) -> Row:
        """Make a task with fields as the API names them, and return it."""
        return self._new_task(self.project(key), {"name": name, **fields}, by)

    def add_comment(self, key: str, html: str, *, by: Account = ADA, **fields: Any) -> Row:
        """Comment on a task and return the comment."""
        project = self.project(key.rsplit("-", 1)[0])
        return self._new_comment(project, self.task(key)["id"], {"comment_html": html, **fields}, by)

    def add_cycle(self, key: str, name: str, *tasks: str, starts: str | None = None, ends: str | None = None) -> Row:
        """Make a cycle with these tasks in it, and return it."""
        project = self.project(key)
        made = self._new_cycle(project, {"name": name, "start_date": starts, "end_date": ends}, ADA)
        for task in tasks:
            self._put_in(project.in_cycles, "cycle", made, self.task(task), ADA)
        return made

    def add_module(self, key: str, name: str, *tasks: str) -> Row:
        """Make a module with these tasks in it, and return it."""
        project = self.project(key)
        made = self._new_module(project, {"name": name}, ADA)
        for task in tasks:
            self._put_in(project.in_modules, "module", made, self.task(task), ADA)
        return made

    def relate(self, key: str, kind: str, other: str) -> None:
        """Tie a task to another: `relate("KB-1", "blocking", "KB-2")` says that the first blocks the second."""
        self.relations.append((self.task(key)["id"], kind, self.task(other)["id"]))

    def change_task(self, key: str, *, by: Account = ADA, **fields: Any) -> Row:
        """Change a task with fields as the API names them, and return it."""
        return self._change_task(self.project(key.rsplit("-", 1)[0]), self.task(key), fields, by)

    # The API

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        content = b""
        more = True
        while more:
            message = await receive()
            content += message.get("body", b"")
            more = message.get("more_body", False)
        answer = self.answered(
            scope["method"],
            scope["path"],
            scope["query_string"].decode(),
            {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]},
            content,
        )
        told = b"" if answer.body is None else json.dumps(answer.body, ensure_ascii=False).encode()
        headers = {"content-length": str(len(told))} | answer.headers
        if answer.body is not None:
            headers["content-type"] = "application/json"
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": told})

    def answered(self, method: str, path: str, query: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Return the reply to a request."""
        limits: dict[str, str] = {}
        try:
            handler, parts = self._route(path, query)
            who = self._authenticated(headers)
            limits = self._within_limits(who)
            asked = Asked(method, {name: values[-1] for name, values in parse_qs(query).items()}, None, who)
            answer = self._handled(handler, asked, parts, headers, content)
        except Answer as made:
            answer = made
        except Exception:  # noqa: BLE001  # as the program does: whatever goes wrong inside is a 500 without a reason
            answer = Answer(500, BROKEN)
        if answer.status != 429 and answer.body != NO_PERMISSION:
            answer.headers.update(limits)
        return answer

    def _route(self, path: str, query: str) -> tuple[str, Mapping[str, str]]:
        for pattern, name in ROUTES:
            if found := pattern.fullmatch(path):
                return name, found.groupdict()
        if not path.endswith("/") and any(pattern.fullmatch(path + "/") for pattern, _ in ROUTES):
            raise Answer(301, None, {"location": f"{path}/{'?' + query if query else ''}"})
        raise Answer(404, NO_PAGE)

    def _authenticated(self, headers: Mapping[str, str]) -> Account:
        key = headers.get("x-api-key")
        if not key:
            raise Answer(401, {"detail": "Authentication credentials were not provided."})
        found = next((account for account in self.accounts.values() if account.key == key), None)
        if found is None:
            raise Answer(403, {"detail": "Given API token is not valid"})
        return found

    def _within_limits(self, who: Account) -> dict[str, str]:
        now = self._monotonic()
        recent = [at for at in self._spent.get(who.key, []) if at > now - 60]
        if len(recent) >= self.allowance:
            wait_s = math.ceil(60 - (now - recent[-self.allowance]))
            raise Answer(
                429, {"error_code": 5900, "error_message": "RATE_LIMIT_EXCEEDED"}, {"retry-after": str(max(1, wait_s))}
            )
        self._spent[who.key] = [*recent, now][-self.allowance :]
        return {
            "x-ratelimit-remaining": str(self.allowance - len(recent) - 1),
            "x-ratelimit-reset": str(int(self._now().timestamp()) + 60),
        }

    def _handled(
        self, name: str, asked: Asked, parts: Mapping[str, str], headers: Mapping[str, str], content: bytes
    ) -> Answer:
        if parts.get("slug", WORKSPACE) != WORKSPACE:
            raise Answer(403, NO_PERMISSION)
        self._permitted(name, asked, parts)
        handler = getattr(self, f"_{asked.method.lower()}_{name}", None)
        if handler is None:
            raise Answer(405, {"detail": f'Method "{asked.method}" not allowed.'})
        if asked.method in ("POST", "PATCH"):
            asked = Asked(asked.method, asked.query, _parsed(headers, content), asked.who)
        answer = handler(asked, **{part: value for part, value in parts.items() if part != "slug"})
        assert isinstance(answer, Answer)
        return answer

    def _permitted(self, name: str, asked: Asked, parts: Mapping[str, str]) -> None:
        """Return where the key's owner may do this, by the permission classes of the program."""
        if name in ("me", "search"):
            return
        if asked.who.role is None:
            raise Answer(403, NO_PERMISSION)
        reads = asked.method == "GET"
        project = self.projects.get(parts.get("project_id", ""))
        if name == "by_key":
            project = next(
                (one for one in self.projects.values() if one.row["identifier"] == parts["identifier"]), None
            )
        role = project.roles.get(asked.who.id, 0) if project else 0
        if name in ("projects", "project", "people", "summary"):
            allowed = reads or (asked.who.role >= MEMBER if name == "projects" else role >= ADMIN)
        elif name in ("comments", "comment"):
            allowed = role >= GUEST
        elif name in ("labels", "members") and reads:
            allowed = any(asked.who.id in one.roles for one in self.projects.values())
        elif name == "members" or (name == "state" and asked.method == "DELETE"):
            allowed = role >= ADMIN
        else:
            allowed = role >= (GUEST if reads else MEMBER)
        if not allowed:
            raise Answer(403, NO_PERMISSION)

    # People and projects

    def _get_me(self, asked: Asked) -> Answer:
        return Answer(200, asked.who.shown)

    def _get_people(self, _asked: Asked) -> Answer:
        people = [one.shown | {"role": one.role} for one in self.accounts.values() if one.role is not None]
        return Answer(200, sorted(people, key=lambda one: str(one["id"])))

    def _get_projects(self, asked: Asked) -> Answer:
        seen = [one for one in self.projects.values() if asked.who.id in one.roles or one.row["network"] == 2]
        return self._paged(asked, [self._listed_project(one, asked.who) for one in seen])

    def _post_projects(self, asked: Asked) -> Answer:
        body = asked.body
        missing = {name: [REQUIRED] for name in ("name", "identifier") if name not in body}
        if missing:
            raise Answer(400, missing)
        if any(one.row["name"] == body["name"] for one in self.projects.values()):
            raise Answer(409, {"name": "The project name is already taken"})
        if any(one.row["identifier"] == body["identifier"].strip().upper() for one in self.projects.values()):
            raise Answer(409, {"identifier": "The project identifier is already taken"})
        made = self._new_project(body, asked.who)
        return Answer(201, self._shown_project(made, asked.who))

    def _get_project(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects.get(project_id)
        if project is None or (asked.who.id not in project.roles and project.row["network"] != 2):
            raise Answer(404, NO_SUCH)
        return Answer(200, self._shown_project(project, asked.who))

    def _patch_project(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        project.row.update({name: value for name, value in asked.body.items() if name in project.row})
        project.row.update(updated_at=self._stamp(), updated_by=asked.who.id)
        return Answer(200, self._shown_project(project, asked.who))

    def _delete_project(self, _asked: Asked, project_id: str) -> Answer:
        del self.projects[project_id]
        return Answer(204)

    def _get_summary(self, _asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        counts = {
            "states": len(project.states),
            "modules": len(project.modules),
            "cycles": len(project.cycles),
            "issues": len(project.tasks),
            "intakes": 0,
            "pages": 0,
            "members": len(project.roles),
            "labels": len(project.labels),
        }
        return Answer(200, {name: project.row[name] for name in ("id", "name", "identifier")} | {"counts": counts})

    def _get_members(self, _asked: Asked, project_id: str) -> Answer:
        project = self.projects.get(project_id)
        people = [self.accounts[own_id].shown for own_id in project.roles] if project else []
        return Answer(200, sorted(people, key=lambda one: str(one["id"])))

    def _post_members(self, asked: Asked, project_id: str) -> Answer:
        person, role = asked.body["member"], asked.body["role"]
        self.projects[project_id].roles[person] = role
        return Answer(201, {"id": str(uuid4()), "member": person, "role": role})

    # What a project has

    def _get_states(self, asked: Asked, project_id: str) -> Answer:
        return self._paged(asked, list(self.projects[project_id].states.values()))

    def _post_states(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        missing = {name: [REQUIRED] for name in ("name", "color") if name not in asked.body}
        if missing:
            raise Answer(400, missing)
        self._not_there(project.states, asked.body["name"], "State")
        return Answer(200, self._new_state(project, asked.body, asked.who))

    def _delete_state(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        if _there(project.states, own_id)["default"]:
            raise Answer(400, {"error": "Default state cannot be deleted"})
        if any(task["state"] == own_id for task in project.tasks.values()):
            raise Answer(400, {"error": "The state is not empty, only empty states can be deleted"})
        del project.states[own_id]
        return Answer(204)

    def _get_labels(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects.get(project_id)
        mine = project is not None and asked.who.id in project.roles
        return self._paged(asked, _newest_first(project.labels.values()) if project and mine else [])

    def _post_labels(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if "name" not in asked.body:
            raise Answer(400, {"name": [REQUIRED]})
        self._not_there(project.labels, asked.body["name"], "Label")
        return Answer(201, self._new_label(project, asked.body, asked.who))

    def _delete_label(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        _there(project.labels, own_id)
        del project.labels[own_id]
        for task in project.tasks.values():
            task["labels"] = [label for label in task["labels"] if label != own_id]
        return Answer(204)

    def _get_cycles(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        rows = [self._counted(project, row, project.in_cycles) for row in _newest_first(project.cycles.values())]
        if asked.query.get("cycle_view") == "current":
            now = self._now()
            return Answer(200, [row for row in rows if _covers(row, now)])
        return self._paged(asked, rows)

    def _post_cycles(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if "name" not in asked.body:
            raise Answer(400, {"name": [REQUIRED]})
        if (asked.body.get("start_date") is None) != (asked.body.get("end_date") is None):
            raise Answer(400, {"error": "Both start date and end date are either required or are to be null"})
        return Answer(201, self._new_cycle(project, asked.body, asked.who))

    def _get_cycle(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        return Answer(200, self._counted(project, _there(project.cycles, own_id), project.in_cycles))

    def _delete_cycle(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        _there(project.cycles, own_id)
        del project.cycles[own_id]
        return Answer(204)

    def _get_cycle_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._held(asked, project_id, "in_cycles", "cycle", own_id)

    def _post_cycle_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._hold(asked, project_id, "in_cycles", "cycle", own_id)

    def _get_modules(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        rows = [self._counted(project, row, project.in_modules) for row in _newest_first(project.modules.values())]
        return self._paged(asked, rows)

    def _post_modules(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if "name" not in asked.body:
            raise Answer(400, {"name": [REQUIRED]})
        for row in project.modules.values():
            if row["name"] == asked.body["name"]:
                told = "Module with this name already exists"
                code = "MODULE_NAME_ALREADY_EXISTS"
                raise Answer(400, {"id": row["id"], "code": code, "error": told, "message": told})
        return Answer(201, self._new_module(project, asked.body, asked.who))

    def _get_module(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        return Answer(200, self._counted(project, _there(project.modules, own_id), project.in_modules))

    def _delete_module(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        _there(project.modules, own_id)
        del project.modules[own_id]
        return Answer(204)

    def _get_module_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._held(asked, project_id, "in_modules", "module", own_id)

    def _post_module_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._hold(asked, project_id, "in_modules", "module", own_id)

    def _get_intake(self, asked: Asked, project_id: str) -> Answer:
        assert project_id in self.projects
        return self._paged(asked, [])

    # Tasks

    def _get_tasks(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        key, source = asked.query.get("external_id"), asked.query.get("external_source")
        if key and source:
            found = _by_external(project.tasks, key, source)
            if found is None:
                raise Answer(404, NO_SUCH)
            return Answer(200, self._shown_task(project, found, asked))
        rows = self._ordered(project, _active(project), asked.query.get("order_by", "-created_at"))
        return self._paged(asked, rows, lambda row: self._shown_task(project, row, asked))

    def _post_tasks(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if "name" not in asked.body:
            raise Answer(400, {"name": [REQUIRED]})
        self._validated(project, asked.body)
        key, source = asked.body.get("external_id"), asked.body.get("external_source")
        if key and source and (first := _by_external(project.tasks, key, source)):
            told = "Issue with the same external id and external source already exists"
            raise Answer(409, {"error": told, "id": first["id"]})
        row = self._new_task(project, asked.body, asked.who)
        shown = self._shown_task(project, row, asked)
        # The times of the reply are those of the first of three writes; they are not what is kept.
        row.update(created_at=self._stamp(), updated_at=self._stamp())
        return Answer(201, shown)

    def _get_task(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        return Answer(200, self._shown_task(project, _there(_active(project), own_id), asked))

    def _patch_task(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        row = _there(project.tasks, own_id)
        self._validated(project, asked.body)
        self._change_task(project, row, asked.body, asked.who)
        return Answer(200, self._shown_task(project, row, asked))

    def _delete_task(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        row = _there(project.tasks, own_id)
        if row["created_by"] != asked.who.id and project.roles[asked.who.id] < ADMIN:
            raise Answer(403, {"error": "Only admin or creator can delete the work item"})
        del project.tasks[own_id]
        return Answer(204)

    def _get_by_key(self, asked: Asked, identifier: str, number: str) -> Answer:
        project = self.project(identifier)
        for row in _active(project).values():
            if row["sequence_id"] == int(number):
                return Answer(200, self._shown_task(project, row, asked))
        raise Answer(404, NO_SUCH)

    def _get_search(self, asked: Asked) -> Answer:
        text = asked.query.get("search", "")
        if not text:
            return Answer(200, {"issues": []})
        numbers = {int(number) for number in re.findall(r"\b\d+\b", text)}
        only = asked.query.get("project_id") if asked.query.get("workspace_search", "false") == "false" else None
        found = [
            {
                "name": row["name"],
                "id": row["id"],
                "sequence_id": row["sequence_id"],
                "project__identifier": project.row["identifier"],
                "project_id": project.row["id"],
                "workspace__slug": WORKSPACE,
                "created_at": row["created_at"],
            }
            for project in self.projects.values()
            if asked.who.id in project.roles and only in (None, project.row["id"])
            for row in _active(project).values()
            if text.casefold() in row["name"].casefold()
            or text.casefold() in project.row["identifier"].casefold()
            or row["sequence_id"] in numbers
        ]
        shown = [{name: value for name, value in row.items() if name != "created_at"} for row in _newest_first(found)]
        return Answer(200, {"issues": shown[: int(asked.query.get("limit", "10"))]})

    # What hangs on a task

    def _get_comments(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        rows = [row for row in self.projects[project_id].comments.values() if row["issue"] == task_id]
        return self._paged(asked, _newest_first(rows), lambda row: row | {"is_member": True, "updated_by": None})

    def _post_comments(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        project = self.projects[project_id]
        key, source = asked.body.get("external_id"), asked.body.get("external_source")
        if key and source and (first := _by_external(project.comments, key, source)):
            told = "Work item comment with the same external id and external source already exists"
            raise Answer(409, {"error": told, "id": first["id"]})
        if task_id not in project.tasks:
            raise Answer(400, {"error": "The payload is not valid"})
        return Answer(201, self._new_comment(project, task_id, asked.body, asked.who))

    def _get_comment(self, _asked: Asked, project_id: str, task_id: str, own_id: str) -> Answer:
        row = _there(self.projects[project_id].comments, own_id)
        if row["issue"] != task_id:
            raise Answer(404, NO_SUCH)
        return Answer(200, row | {"is_member": True, "updated_by": None})

    def _patch_comment(self, asked: Asked, project_id: str, task_id: str, own_id: str) -> Answer:
        row = _there(self.projects[project_id].comments, own_id)
        assert row["issue"] == task_id
        row.update({name: value for name, value in asked.body.items() if name in ("comment_html", "access")})
        row.update(updated_at=self._stamp(), updated_by=asked.who.id)
        return Answer(200, row)

    def _delete_comment(self, _asked: Asked, project_id: str, task_id: str, own_id: str) -> Answer:
        comments = self.projects[project_id].comments
        assert _there(comments, own_id)["issue"] == task_id
        del comments[own_id]
        return Answer(204)

    def _get_links(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        rows = [row for row in self.projects[project_id].links.values() if row["issue"] == task_id]
        seen = {"created_by": None, "updated_by": None}
        return self._paged(asked, _newest_first(rows), lambda row: row | seen)

    def _post_links(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        project = self.projects[project_id]
        if any(row["issue"] == task_id and row["url"] == asked.body["url"] for row in project.links.values()):
            raise Answer(400, {"error": "URL already exists for this Issue"})
        row = self._dated(asked.who, updated_by=asked.who.id) | {
            "title": asked.body.get("title"),
            "url": asked.body["url"],
            "metadata": {},
            "project": project_id,
            "workspace": self.workspace_id,
            "issue": task_id,
        }
        project.links[row["id"]] = row
        self._activity(project, _there(project.tasks, task_id), asked.who, ("link", None, row["url"]))
        return Answer(201, row)

    def _get_activities(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        rows = [row for row in self.projects[project_id].activities if row["issue"] == task_id]
        return self._paged(asked, rows)

    def _get_relations(self, _asked: Asked, project_id: str, task_id: str) -> Answer:
        assert project_id in self.projects
        told: dict[str, list[Row]] = {kind: [] for kind in RELATED}
        homes = {own_id: one.row["id"] for one in self.projects.values() for own_id in one.tasks}
        for one, kind, other in self.relations:
            if one == task_id and other in homes:
                told[kind].append({"project_id": homes[other], "issue_id": other})
            if other == task_id and one in homes:
                told[RELATED[kind]].append({"project_id": homes[one], "issue_id": one})
        return Answer(200, told)

    # Making rows

    def _stamp(self) -> str:
        """Return a time that is later than every one before."""
        self._last = max(self._now(), self._last + timedelta(microseconds=10))
        return _told_time(self._last)

    def _dated(self, who: Account, **more: Any) -> Row:
        at = self._stamp()
        row = {"id": str(uuid4()), "created_at": at, "updated_at": at, "deleted_at": None}
        return row | {"created_by": who.id, "updated_by": None} | more

    def _new_project(self, body: Row, by: Account, own_id: str | None = None) -> Project:
        row = self._dated(by) | {
            "name": body["name"],
            "identifier": body["identifier"].strip().upper(),
            "description": body.get("description", ""),
            "cycle_view": body.get("cycle_view", False),
            "module_view": body.get("module_view", False),
            "logo_props": {"icon": {"name": "key", "color": "#f2be02"}, "in_use": "icon"},
            "workspace": self.workspace_id,
            **PROJECT_DEFAULTS,
        }
        row["id"] = own_id or row["id"]
        project = Project(row, {by.id: ADMIN})
        self.projects[row["id"]] = project
        for sequence, (name, color, group) in enumerate(STATES):
            self._new_state(project, {"name": name, "color": color, "group": group}, by, 15000.0 + 10000.0 * sequence)
        next(iter(project.states.values()))["default"] = True
        return project

    def _shown_project(self, project: Project, who: Account) -> Row:
        role = project.roles.get(who.id)
        return project.row | {
            "total_members": len(project.roles),
            "total_cycles": len(project.cycles),
            "total_modules": len(project.modules),
            "is_member": role is not None,
            "member_role": role,
        }

    def _listed_project(self, project: Project, who: Account) -> Row:
        return self._shown_project(project, who) | {"sort_order": 65535.0 if who.id in project.roles else None}

    def _new_state(self, project: Project, body: Row, by: Account, sequence: float = 70000.0) -> Row:
        row = self._dated(by) | {
            "name": body["name"],
            "description": "",
            "color": body["color"],
            "slug": "" if sequence < 70000 else re.sub(r"\W+", "-", body["name"].lower()),
            "sequence": sequence,
            "group": body.get("group", "backlog"),
            "is_triage": False,
            "default": False,
            "external_source": None,
            "external_id": None,
            "project": project.row["id"],
            "workspace": self.workspace_id,
        }
        project.states[row["id"]] = row
        return row

    def _new_label(self, project: Project, body: Row, by: Account) -> Row:
        row = self._dated(by) | {
            "name": body["name"],
            "description": "",
            "color": body.get("color", ""),
            "sort_order": 65535.0,
            "external_source": None,
            "external_id": None,
            "workspace": self.workspace_id,
            "project": project.row["id"],
            "parent": None,
        }
        project.labels[row["id"]] = row
        return row

    def _new_cycle(self, project: Project, body: Row, by: Account) -> Row:
        row = self._dated(by) | {
            "name": body["name"],
            "description": "",
            "start_date": self._from(body.get("start_date")),
            "end_date": body.get("end_date") and f"{body['end_date'][:10]}T23:59:00Z",
            "view_props": {},
            "sort_order": 65535.0 - 10000.0 * len(project.cycles),
            "external_source": None,
            "external_id": None,
            "progress_snapshot": {},
            "archived_at": None,
            "logo_props": {},
            "timezone": "UTC",
            "version": 1,
            "project": project.row["id"],
            "workspace": self.workspace_id,
            "owned_by": by.id,
        }
        project.cycles[row["id"]] = row
        return row

    def _from(self, day: str | None) -> str | None:
        """Return the first moment of a cycle: now, where it begins today."""
        if not day:
            return None
        now = self._now()
        return _told_time(now) if day[:10] == now.date().isoformat() else f"{day[:10]}T00:00:00Z"

    def _new_module(self, project: Project, body: Row, by: Account) -> Row:
        row = self._dated(by) | {
            "name": body["name"],
            "description": "",
            "description_text": None,
            "description_html": None,
            "start_date": None,
            "target_date": None,
            "status": body.get("status", "planned"),
            "view_props": {},
            "sort_order": 65535.0,
            "external_source": None,
            "external_id": None,
            "archived_at": None,
            "logo_props": {},
            "project": project.row["id"],
            "workspace": self.workspace_id,
            "lead": body.get("lead"),
            "members": [],
        }
        project.modules[row["id"]] = row
        return row

    def _new_task(self, project: Project, body: Row, by: Account) -> Row:
        default = next(row["id"] for row in project.states.values() if row["default"])
        state = body.get("state") or default
        project.numbers += 1
        orders = [row["sort_order"] for row in project.tasks.values() if row["state"] == state]
        row = self._dated(by) | {
            "type_id": None,
            "point": None,
            "name": "",
            "description_html": "<p></p>",
            "description_binary": None,
            "priority": "none",
            "start_date": None,
            "target_date": None,
            "sequence_id": project.numbers,
            "sort_order": max(orders) + 10000.0 if orders else 65535.0,
            "completed_at": None,
            "archived_at": None,
            "is_draft": False,
            "external_source": body.get("external_source"),
            "external_id": body.get("external_id"),
            "project": project.row["id"],
            "workspace": self.workspace_id,
            "parent": None,
            "state": state,
            "estimate_point": None,
            "type": None,
            "assignees": [],
            "labels": [],
        }
        self._set(project, row, body)
        if not row["assignees"] and project.row["default_assignee"] in project.roles:
            row["assignees"] = [project.row["default_assignee"]]
        project.tasks[row["id"]] = row
        self._activity(project, row, by, None)
        return row

    def _change_task(self, project: Project, row: Row, body: Row, by: Account) -> Row:
        for name in ("priority", "name", "state"):
            if name in body and body[name] != row[name]:
                self._activity(project, row, by, (name, row[name], body[name]))
        self._set(project, row, body)
        row.update(updated_at=self._stamp(), updated_by=by.id)
        return row

    def _set(self, project: Project, row: Row, body: Row) -> None:
        """Set what the body names, and drop what the program drops: people that may not be assigned, foreign labels."""
        for name in ("priority", "start_date", "target_date", "parent", "archived_at"):
            if name in body:
                row[name] = body[name]
        if "name" in body:
            row["name"] = body["name"].strip()
        if body.get("state"):
            row["state"] = body["state"]
        if body.get("description_html") is not None:
            row["description_html"] = cleaned(body["description_html"])
        if body.get("assignees") is not None:
            given = dict.fromkeys(body["assignees"])
            row["assignees"] = [own_id for own_id, role in project.roles.items() if own_id in given and role >= MEMBER]
        if body.get("labels") is not None:
            row["labels"] = [own_id for own_id in project.labels if own_id in body["labels"]]
        completed = project.states[row["state"]]["group"] == "completed"
        row["completed_at"] = (row["completed_at"] or self._stamp()) if completed else None

    def _new_comment(self, project: Project, task_id: str, body: Row, by: Account) -> Row:
        row = self._dated(by, updated_by=by.id) | {
            "comment_html": body.get("comment_html", "<p></p>"),
            "attachments": [],
            "access": "INTERNAL",
            "external_source": body.get("external_source"),
            "external_id": body.get("external_id"),
            "edited_at": None,
            "project": project.row["id"],
            "workspace": self.workspace_id,
            "description": str(uuid4()),
            "issue": task_id,
            "actor": by.id,
            "parent": None,
        }
        project.comments[row["id"]] = row
        return row

    def _activity(self, project: Project, task: Row, by: Account, changed: tuple[str, Any, Any] | None) -> None:
        row = self._dated(by)
        del row["created_by"], row["updated_by"]
        name, old, new = changed or (None, None, None)
        words = {None: "created the issue", "link": "created a link"}
        row |= {
            "verb": "created" if name in words else "updated",
            "field": name,
            "old_value": old,
            "new_value": new,
            "comment": words.get(name, f"updated the {name} to"),
            "attachments": [],
            "old_identifier": None,
            "new_identifier": None,
            "epoch": float(int(self._now().timestamp())),
            "project": project.row["id"],
            "workspace": self.workspace_id,
            "issue": task["id"],
            "issue_comment": None,
            "actor": by.id,
        }
        project.activities.append(row)

    def _put_in(self, held: dict[str, Row], kind: str, whole: Row, task: Row, by: Account | None) -> Row:
        row = self._dated(ADA) | {
            "created_by": by.id if by else None,
            "updated_by": by.id if by else None,
            "sub_issues_count": 0,
            "project": task["project"],
            "workspace": self.workspace_id,
            "issue": task["id"],
            kind: whole["id"],
        }
        if kind == "cycle":
            for own_id in [own_id for own_id, old in held.items() if old["issue"] == task["id"]]:
                del held[own_id]
        held[row["id"]] = row
        task["updated_at"] = self._stamp()
        return row

    # Parts

    def _not_there(self, rows: Mapping[str, Row], name: str, what: str) -> None:
        for row in rows.values():
            if row["name"] == name:
                raise Answer(
                    409, {"error": f"{what} with the same name already exists in the project", "id": row["id"]}
                )

    def _held(self, asked: Asked, project_id: str, where: str, kind: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        inside = {row["issue"] for row in getattr(project, where).values() if row[kind] == own_id}
        tasks = {key: row for key, row in _active(project).items() if key in inside}
        rows = self._ordered(project, tasks, asked.query.get("order_by", "created_at"))
        return self._paged(asked, rows, lambda row: self._shown_task(project, row, asked))

    def _hold(self, asked: Asked, project_id: str, where: str, kind: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        if not asked.body.get("issues"):
            raise Answer(400, {"error": "Issues are required"})
        held: dict[str, Row] = getattr(project, where)
        whole = _there(getattr(project, f"{kind}s"), own_id)
        for task in asked.body["issues"]:
            self._put_in(held, kind, whole, _there(project.tasks, task), None if kind == "cycle" else asked.who)
        return Answer(200, [row for row in held.values() if row[kind] == own_id])

    def _counted(self, project: Project, row: Row, held: Mapping[str, Row]) -> Row:
        inside = {one["issue"] for one in held.values() if row["id"] in (one.get("cycle"), one.get("module"))}
        groups = [project.states[task["state"]]["group"] for key, task in _active(project).items() if key in inside]
        counts = {f"{group}_issues": groups.count(group) for group in GROUPS}
        return row | {"total_issues": len(groups)} | counts

    def _shown_task(self, project: Project, row: Row, asked: Asked) -> Row:
        shown = dict(row)
        for name in filter(None, asked.query.get("expand", "").split(",")):
            if name == "state":
                state = project.states[row["state"]]
                shown["state"] = {part: state[part] for part in ("id", "name", "color", "group")}
            elif name == "labels":
                shown["labels"] = [project.labels[own_id] for own_id in row["labels"]]
            elif name == "assignees":
                shown["assignees"] = [self.accounts[own_id].shown for own_id in reversed(row["assignees"])]
            elif name == "project":
                shown["project"] = {part: project.row[part] for part in PROJECT_LITE}
        return _only(shown, asked)

    def _ordered(self, project: Project, tasks: Mapping[str, Row], by: str) -> list[Row]:
        name, last_first = by.removeprefix("-"), by.startswith("-")
        rows = list(tasks.values())
        if name == "priority":
            return sorted(rows, key=lambda row: PRIORITIES.index(row["priority"]), reverse=last_first)
        if name in ("state__name", "state__group"):
            groups = {row["id"]: GROUPS.index(project.states[row["state"]]["group"]) for row in rows}
            return sorted(rows, key=lambda row: groups[row["id"]], reverse=last_first)
        if name not in ("created_at", "updated_at", "name", "sequence_id", "sort_order", "start_date", "target_date"):
            raise Answer(500, BROKEN)
        return sorted(rows, key=lambda row: (row[name] is None, row[name]), reverse=last_first)

    def _paged(self, asked: Asked, rows: list[Row], shown: Callable[[Row], Row] = dict) -> Answer:
        try:
            size = int(asked.query.get("per_page", str(MOST_A_PAGE)))
        except ValueError:
            raise Answer(400, {"detail": "Invalid per_page parameter."}) from None
        if size > MOST_A_PAGE:
            raise Answer(400, {"detail": f"Invalid per_page value. Cannot exceed {MOST_A_PAGE}."})
        cursor = re.fullmatch(r"(\d+):(-?\d+):([01])", asked.query.get("cursor", f"{size}:0:0"))
        if not cursor:
            raise Answer(400, {"detail": "Invalid cursor parameter."})
        page = int(cursor[2])
        if page < 0:
            raise Answer(400, {"detail": "Error in parsing"})
        part = rows[page * size : (page + 1) * size]
        return Answer(
            200,
            {
                "grouped_by": None,
                "sub_grouped_by": None,
                "total_count": len(rows),
                "next_cursor": f"{size}:{page + 1}:0",
                "prev_cursor": f"{size}:{page - 1}:1",
                "next_page_results": len(rows) > (page + 1) * size,
                "prev_page_results": page > 0,
                "count": len(part),
                "total_pages": math.ceil(len(rows) / size),
                "total_results": len(rows),
                "extra_stats": None,
                "results": [_only(shown(row), asked) for row in part],
            },
        )

    def _validated(self, project: Project, body: Row) -> None:
        """Return where a task may have these fields; the errors of fields come before those of the whole."""
        if wrong := self._wrong_fields(body):
            raise Answer(400, wrong)
        if whole := _wrong_whole(project, body):
            raise Answer(400, {"non_field_errors": [whole]})

    def _wrong_fields(self, body: Row) -> Row:
        states = {key for one in self.projects.values() for key in one.states}
        labels = {key for one in self.projects.values() for key in one.labels}
        told: Row = {
            "name": _wrong_name(body["name"]) if "name" in body else None,
            "priority": _wrong_priority(body.get("priority", "none")),
            "state": _wrong_id(body["state"], states) if body.get("state") is not None else None,
            **{name: _wrong_day(body.get(name)) for name in ("start_date", "target_date")},
        }
        wrong: Row = {name: [said] for name, said in told.items() if said}
        for name, known in (("labels", labels), ("assignees", set(self.accounts))):
            each = {str(at): _wrong_id(one, known) for at, one in enumerate(body.get(name) or [])}
            if any(each.values()):
                wrong[name] = {at: [said] for at, said in each.items() if said}
        return wrong


def _parsed(headers: Mapping[str, str], content: bytes) -> Any:
    kind = headers.get("content-type", "").split(";")[0]
    if content and kind != "application/json":
        raise Answer(415, {"detail": f'Unsupported media type "{kind}" in request.'})
    try:
        body = json.loads(content or b"{}")
    except ValueError as wrong:
        raise Answer(400, {"detail": f"JSON parse error - {wrong}"}) from None
    if not isinstance(body, dict):
        told = f"Invalid data. Expected a dictionary, but got {type(body).__name__}."
        raise Answer(400, {"non_field_errors": [told]})
    return body


def _there(rows: Mapping[str, Row], own_id: str) -> Row:
    if own_id not in rows:
        raise Answer(404, NO_SUCH)
    return rows[own_id]


def _active(project: Project) -> dict[str, Row]:
    return {own_id: row for own_id, row in project.tasks.items() if row["archived_at"] is None}


def _by_external(rows: Mapping[str, Row], key: str, source: str) -> Row | None:
    return next((row for row in rows.values() if row["external_id"] == key and row["external_source"] == source), None)


def _newest_first(rows: Iterable[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(row["created_at"]), reverse=True)


def _only(row: Row, asked: Asked) -> Row:
    names = [name for name in asked.query.get("fields", "").split(",") if name]
    return {name: value for name, value in row.items() if name in names} if names else row


def _told_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _covers(cycle: Row, now: datetime) -> bool:
    starts, ends = cycle["start_date"], cycle["end_date"]
    return bool(starts and ends) and datetime.fromisoformat(starts) <= now <= datetime.fromisoformat(ends)


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


def _wrong_whole(project: Project, body: Row) -> str | None:
    if body.get("start_date") and body.get("target_date") and body["start_date"] > body["target_date"]:
        return "Start date cannot exceed target date"
    if body.get("description_html") is not None and cleaned(body["description_html"]) is None:
        return "Invalid HTML passed"
    if body.get("state") and body["state"] not in project.states:
        return "State is not valid please pass a valid state_id"
    if body.get("parent") and body["parent"] not in project.tasks:
        return "Parent is not valid issue_id please pass a valid issue_id"
    return None


PROJECT_DEFAULTS: Row = {
    "is_deployed": False,
    "cover_image_url": None,
    "description_text": None,
    "description_html": None,
    "network": 2,
    "emoji": None,
    "icon_prop": None,
    "issue_views_view": False,
    "page_view": True,
    "intake_view": False,
    "is_time_tracking_enabled": False,
    "is_issue_type_enabled": False,
    "guest_view_all_features": False,
    "cover_image": None,
    "archive_in": 0,
    "close_in": 0,
    "archived_at": None,
    "timezone": "UTC",
    "external_source": None,
    "external_id": None,
    "default_assignee": None,
    "project_lead": None,
    "cover_image_asset": None,
    "estimate": None,
    "default_state": None,
}
PROJECT_LITE = ("id", "identifier", "name", "cover_image", "icon_prop", "emoji", "description", "cover_image_url")
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def _route_of(path: str) -> re.Pattern[str]:
    return re.compile("/api/v1" + re.sub(r"(?<!P)<(\w+)>", rf"(?P<\1>{_UUID})", path))


_W = "/workspaces/(?P<slug>[^/]+)"
_P = f"{_W}/projects/<project_id>"
_T = f"{_P}/(?:work-items|issues)/<task_id>"
ROUTES = [
    (_route_of(path), name)
    for path, name in (
        ("/users/me/", "me"),
        (f"{_W}/members/", "people"),
        (f"{_W}/projects/", "projects"),
        (f"{_P}/", "project"),
        (f"{_P}/summary/", "summary"),
        (f"{_P}/members/", "members"),
        (f"{_P}/states/", "states"),
        (f"{_P}/states/<own_id>/", "state"),
        (f"{_P}/labels/", "labels"),
        (f"{_P}/labels/<own_id>/", "label"),
        (f"{_P}/cycles/", "cycles"),
        (f"{_P}/cycles/<own_id>/", "cycle"),
        (f"{_P}/cycles/<own_id>/cycle-issues/", "cycle_tasks"),
        (f"{_P}/modules/", "modules"),
        (f"{_P}/modules/<own_id>/", "module"),
        (f"{_P}/modules/<own_id>/module-issues/", "module_tasks"),
        (f"{_P}/intake-issues/", "intake"),
        (f"{_W}/(?:work-items|issues)/search/", "search"),
        (f"{_W}/(?:work-items|issues)/(?P<identifier>[^/]+)-(?P<number>[^/-]+)/", "by_key"),
        (f"{_P}/(?:work-items|issues)/", "tasks"),
        (f"{_P}/(?:work-items|issues)/<own_id>/", "task"),
        (f"{_T}/comments/", "comments"),
        (f"{_T}/comments/<own_id>/", "comment"),
        (f"{_T}/links/", "links"),
        (f"{_T}/activities/", "activities"),
        (f"{_T}/relations/", "relations"),
    )
]


def seeded(**given: Any) -> Plane:
    """Return a workspace much as it was when the samples were taken: projects KB (all but Otto) and OPS (Ada alone).

    KB has the states, the label `bug`, the cycles `Sprint 1` and `Draft`, the module `Indexing`, and four tasks.
    """
    plane = Plane(**given)
    plane.add_project("KB", "Knowledge Base", own_id="f31ca0e1-8bc5-415e-b30a-e6423eed5b32")
    plane.add_project("OPS", "Ops", own_id="a1a86881-2900-4854-b402-f1f399b5742f")
    plane.add_member("KB", MEL)
    plane.add_member("KB", GUS)
    plane.add_state("KB", "In Review", "started")
    bug = plane.add_label("KB", "bug")
    todo = next(row["id"] for row in plane.project("KB").states.values() if row["name"] == "Todo")
    plane.add_task(
        "KB",
        "Search returns stale rows",
        description_html="<p>After re-index the <b>old</b> rows stay.</p>",
        priority="high",
        state=todo,
        labels=[bug["id"]],
        assignees=[ADA.id, MEL.id],
        start_date="2026-11-20",
        target_date="2026-12-01",
    )
    plane.add_task("KB", "Minimal")
    plane.add_task(
        "KB",
        "Через старый путь: поиск по-русски",
        description_html="<div><p>Поисковый индекс</p></div>",
        external_id="zulip-42",
        external_source="zulip",
    )
    plane.add_task("KB", "assignee not in project")
    plane.add_comment("KB-1", "<p>Seen again on build 42.</p>")
    plane.add_cycle("KB", "Sprint 1", "KB-1", starts="2026-11-20", ends="2026-12-04")
    plane.add_cycle("KB", "Draft")
    plane.add_module("KB", "Indexing", "KB-1")
    return plane


@asynccontextmanager
async def plane_served(plane: Plane | None = None, *, plan: Plan = no_fault) -> AsyncIterator[tuple[Served, Plane]]:
    """Serve a workspace, `seeded()` unless another is given, on a free port."""
    standing = plane or seeded()
    async with served(standing, plan=plan) as running:
        yield running, standing
