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
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

from starlette.types import Receive, Scope, Send

from tests.doubles.plane_rows import (
    ADA,
    ADMIN,
    GROUPS,
    GUEST,
    GUS,
    MEL,
    MEMBER,
    OTTO,
    PRIORITIES,
    RELATED,
    WORKSPACE,
    Account,
    Project,
    Row,
    Workspace,
)
from tests.doubles.plane_rules import wrong_fields, wrong_whole
from tests.doubles.serving import Plan, Served, no_fault, served

__all__ = [
    "ADA",
    "GUS",
    "MEL",
    "OTTO",
    "PRIORITIES",
    "WORKSPACE",
    "Account",
    "Answer",
    "Plane",
    "Project",
    "plane_served",
    "seeded",
]
MOST_A_PAGE = 1000
NO_PERMISSION = {"detail": "You do not have permission to perform this action."}
NO_SUCH = {"error": "The requested resource does not exist."}
NO_PAGE = {"error": "Page not found."}
BROKEN = {"error": "Something went wrong please try again later"}
REQUIRED = "This field is required."


class Answer(Exception):
    """A reply that ends the handling of a request."""

    def __init__(self, status: int, body: Any = None, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.body, self.headers = status, body, dict(headers or {})


class Paused(Exception):
    """A create that has looked for its key, and has not written yet; `write` goes on with it."""

    def __init__(self, write: Callable[[], Answer]) -> None:
        self.write = write


@dataclass(frozen=True)
class Asked:
    """A request as the handlers see it; `who` is its key's owner."""

    method: str
    query: Mapping[str, str]
    body: Any
    who: Account


class Plane(Workspace):
    """A workspace of Plane, as an ASGI application. Tests may look into it and change it as people would in their browser.

    `allowance` is how many requests a key may send in a minute. `pause` is awaited between the look for a create's key and
    its write, which are not one in the real program either. `now` must not go back.
    """

    def __init__(
        self,
        *,
        accounts: Iterable[Account] = (ADA, MEL, GUS, OTTO),
        now: Callable[[], datetime] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        allowance: int = 100_000,
    ) -> None:
        super().__init__(accounts, now)
        self.allowance = allowance
        self.pause: Callable[[], Awaitable[None]] | None = None
        self._monotonic = monotonic
        self._spent: dict[str, list[float]] = {}

    # The API

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        content = b""
        more = True
        while more:
            message = await receive()
            content += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            answer = self.answered(scope["method"], scope["path"], scope["query_string"].decode(), headers, content)
        except Paused as paused:
            if self.pause is not None:
                await self.pause()
            answer = paused.write()
        told = b"" if answer.body is None else json.dumps(answer.body, ensure_ascii=False).encode()
        sent = {"content-length": str(len(told))} | answer.headers
        if answer.body is not None:
            sent["content-type"] = "application/json"
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in sent.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": raw})
        await send({"type": "http.response.body", "body": told})

    def answered(self, method: str, path: str, query: str, headers: Mapping[str, str], content: bytes) -> Answer:
        """Return the reply to a request.

        Raises:
            Paused: it is a create, and `pause` is set.
        """
        limits: dict[str, str] = {}
        try:
            handler, parts = self._route(path, query)
            who = self._authenticated(headers)
            limits = self._within_limits(who)
            asked = Asked(method, {name: values[-1] for name, values in parse_qs(query).items()}, None, who)
            answer = self._handled(handler, asked, parts, headers, content)
        except Answer as made:
            answer = made
        except Paused:
            raise
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
        return self._written(lambda: self._created(project, asked))

    def _created(self, project: Project, asked: Asked) -> Answer:
        row = self._new_task(project, asked.body, asked.who)
        shown = self._shown_task(project, row, asked)
        # The times of the reply are those of the first of three writes; they are not what is kept.
        row.update(created_at=self._stamp(), updated_at=self._stamp())
        return Answer(201, shown)

    def _written(self, write: Callable[[], Answer]) -> Answer:
        if self.pause is not None:
            raise Paused(write)
        return write()

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
        return self._written(lambda: Answer(201, self._new_comment(project, task_id, asked.body, asked.who)))

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
        if wrong := wrong_fields(self, body):
            raise Answer(400, wrong)
        if whole := wrong_whole(project, body):
            raise Answer(400, {"non_field_errors": [whole]})


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


def _covers(cycle: Row, now: datetime) -> bool:
    starts, ends = cycle["start_date"], cycle["end_date"]
    return bool(starts and ends) and datetime.fromisoformat(starts) <= now <= datetime.fromisoformat(ends)


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
