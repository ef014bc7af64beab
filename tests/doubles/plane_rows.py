"""The memory of the double of Plane: people, projects, tasks and everything in them, as rows of the API.

Tests inspect and change it as people would in a browser; the API over it is in `plane.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.doubles.plane_html import cleaned

SAMPLES = Path(__file__).parents[1] / "samples" / "plane"
GUEST, MEMBER, ADMIN = 5, 15, 20
WORKSPACE = "acme"
PRIORITIES = ("urgent", "high", "medium", "low", "none")
GROUPS = ("backlog", "unstarted", "started", "completed", "cancelled")
STATES = (
    ("Backlog", "#60646C", "backlog"),
    ("Todo", "#60646C", "unstarted"),
    ("In Progress", "#F59E0B", "started"),
    ("Done", "#46A758", "completed"),
    ("Cancelled", "#9AA4BC", "cancelled"),
)
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
    """A person with a key; `role` is their role in the workspace, None if they aren't a member."""

    id: str
    first: str
    last: str
    key: str
    role: int | None

    @property
    def shown(self) -> Row:
        """Return this person as others see them."""
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


@dataclass
class Project:
    """A project with all its contents, by id."""

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
    intake: dict[str, Row] = field(default_factory=dict)
    numbers: int = 0


class Workspace:
    """A workspace with all its contents. `now` must not go back."""

    def __init__(self, accounts: Iterable[Account], now: Callable[[], datetime] | None) -> None:
        self.accounts = {account.id: account for account in accounts}
        self.workspace_id = str(uuid4())
        self.projects: dict[str, Project] = {}
        self.relations: list[tuple[str, str, str]] = []
        self.attachments: dict[str, list[Row]] = {}
        self._now = now or (lambda: datetime.now(UTC))
        self._last = datetime.min.replace(tzinfo=UTC)

    # What tests use, besides the API

    def project(self, key: str) -> Project:
        """Return the project with that key (KB)."""
        return next(project for project in self.projects.values() if project.row["identifier"] == key)

    def task(self, key: str) -> Row:
        """Return the task with that key (KB-1), as the API returns it."""
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

    def add_to_intake(self, key: str, name: str, status: int = -2, *, by: Account = ADA, **fields: Any) -> Row:
        """Put a task into the intake of a project; it is in no list of tasks until somebody accepts it."""
        project = self.project(key)
        project.row["intake_view"] = True
        task = self._new_task(project, {"name": name, **fields}, by)
        del project.tasks[task["id"]]
        triage = {"id": str(uuid4()), "name": "Triage", "color": "#4E5355", "group": "triage"}
        row = self._dated(by) | {"status": status, "issue": task["id"], "issue_detail": task | {"state": triage}}
        project.intake[row["id"]] = row
        return row

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

    def attach(self, key: str, name: str, kind: str, size: int) -> None:
        """Attach a file to a task."""
        about = {"name": name, "type": kind, "size": size}
        row = self._dated(ADA) | {
            "attributes": about,
            "asset": f"acme/{name}",
            "size": float(size),
            "is_uploaded": True,
        }
        self.attachments.setdefault(self.task(key)["id"], []).append(row)

    def relate(self, key: str, kind: str, other: str) -> None:
        """Link a task to another: `relate("KB-1", "blocking", "KB-2")` says that the first blocks the second."""
        self.relations.append((self.task(key)["id"], kind, self.task(other)["id"]))

    def change_task(self, key: str, *, by: Account = ADA, **fields: Any) -> Row:
        """Change a task with fields as the API names them, and return it."""
        return self._change_task(self.project(key.rsplit("-", 1)[0]), self.task(key), fields, by)

    # Making rows

    def _stamp(self) -> str:
        """Return a time later than all before."""
        self._last = max(self._now(), self._last + timedelta(microseconds=10))
        return _told_time(self._last)

    def _dated(self, who: Account, **more: Any) -> Row:
        at = self._stamp()
        row = {"id": str(uuid4()), "created_at": at, "updated_at": at, "deleted_at": None}
        return row | {"created_by": who.id, "updated_by": None} | more

    def _row(self, sample: str, who: Account, **fields: Any) -> Row:
        """Return a new row: the recorded one, with its own id, times and fields."""
        return recorded(sample) | self._dated(who) | {"workspace": self.workspace_id} | fields

    def _new_project(self, body: Row, by: Account, own_id: str | None = None) -> Project:
        row = self._row(
            "project_create",
            by,
            name=body["name"],
            identifier=body["identifier"].strip().upper(),
            description=body.get("description", ""),
            cycle_view=body.get("cycle_view", False),
            module_view=body.get("module_view", False),
        )
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
        row = self._row(
            "state_create",
            by,
            name=body["name"],
            color=body["color"],
            slug="" if sequence < 70000 else re.sub(r"\W+", "-", body["name"].lower()),
            sequence=sequence,
            group=body.get("group", "backlog"),
            project=project.row["id"],
        )
        project.states[row["id"]] = row
        return row

    def _new_label(self, project: Project, body: Row, by: Account) -> Row:
        fields = {"name": body["name"], "color": body.get("color", ""), "project": project.row["id"]}
        row = self._row("label_create", by, **fields)
        project.labels[row["id"]] = row
        return row

    def _new_cycle(self, project: Project, body: Row, by: Account) -> Row:
        row = self._row(
            "cycle_create",
            by,
            name=body["name"],
            start_date=self._from(body.get("start_date")),
            end_date=body.get("end_date") and f"{body['end_date'][:10]}T23:59:00Z",
            sort_order=65535.0 - 10000.0 * len(project.cycles),
            project=project.row["id"],
            owned_by=by.id,
        )
        project.cycles[row["id"]] = row
        return row

    def _from(self, day: str | None) -> str | None:
        """Return the first moment of a cycle; now, if it begins today."""
        if not day:
            return None
        now = self._now()
        return _told_time(now) if day[:10] == now.date().isoformat() else f"{day[:10]}T00:00:00Z"

    def _new_module(self, project: Project, body: Row, by: Account) -> Row:
        fields = {"status": body.get("status", "planned"), "lead": body.get("lead"), "project": project.row["id"]}
        row = self._row("module_create", by, name=body["name"], **fields)
        project.modules[row["id"]] = row
        return row

    def _new_task(self, project: Project, body: Row, by: Account) -> Row:
        default = next(row["id"] for row in project.states.values() if row["default"])
        state = body.get("state") or default
        project.numbers += 1
        orders = [row["sort_order"] for row in project.tasks.values() if row["state"] == state]
        row = self._row(
            "work_item_create_minimal",
            by,
            sequence_id=project.numbers,
            sort_order=max(orders) + 10000.0 if orders else 65535.0,
            external_source=body.get("external_source"),
            external_id=body.get("external_id"),
            project=project.row["id"],
            state=state,
        )
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
        """Set the body's fields, and drop what the program drops: people that may not be assigned, foreign labels."""
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
        row = self._row(
            "comment_create",
            by,
            updated_by=by.id,
            comment_html=body.get("comment_html", "<p></p>"),
            external_source=body.get("external_source"),
            external_id=body.get("external_id"),
            project=project.row["id"],
            description=str(uuid4()),
            issue=task_id,
            actor=by.id,
        )
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


def _told_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def recorded(name: str) -> Row:
    """Return the body of a recorded reply."""
    row: Row = json.loads(_recorded(name))
    return row


@cache
def _recorded(name: str) -> str:
    reply = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))["response"]
    return json.dumps(reply["body"])
