"""Handlers of the double of Plane, one for each path and method; the caller is known and permitted."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from uuid import uuid4

from tests.doubles.plane_answers import (
    BROKEN,
    NO_SUCH,
    REQUIRED,
    Answer,
    Asked,
    Paused,
    active,
    by_external,
    covers,
    newest_first,
    only,
    paged,
    there,
)
from tests.doubles.plane_rows import ADMIN, GROUPS, PRIORITIES, RELATED, WORKSPACE, Project, Row, Workspace
from tests.doubles.plane_rules import wrong_fields, wrong_whole

STORED_RELATIONS = {"blocking": "blocked_by", "start_after": "start_before", "finish_after": "finish_before"}
"""Kinds that the program stores from the other side."""
PROJECT_LITE = ("id", "identifier", "name", "cover_image", "icon_prop", "emoji", "description", "cover_image_url")


class Handlers(Workspace):
    """A workspace that answers: `_post_tasks` is POST on the path that `plane.ROUTES` calls `tasks`, and so on."""

    pause: Callable[[], Awaitable[None]] | None = None

    # People and projects

    def _get_me(self, asked: Asked) -> Answer:
        return Answer(200, asked.who.shown)

    def _get_people(self, _asked: Asked) -> Answer:
        people = [one.shown | {"role": one.role} for one in self.accounts.values() if one.role is not None]
        return Answer(200, sorted(people, key=lambda one: str(one["id"])))

    def _get_projects(self, asked: Asked) -> Answer:
        seen = [one for one in self.projects.values() if asked.who.id in one.roles or one.row["network"] == 2]
        return paged(asked, [self._listed_project(one, asked.who) for one in seen])

    def _post_projects(self, asked: Asked) -> Answer:
        body = asked.body
        missing = {name: [REQUIRED] for name in ("name", "identifier") if name not in body}
        if missing:
            raise Answer(400, missing)
        _check_project_names(body)
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
        _check_project_names(asked.body)
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
        return paged(asked, list(self.projects[project_id].states.values()))

    def _post_states(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        missing = {name: [REQUIRED] for name in ("name", "color") if name not in asked.body}
        if missing:
            raise Answer(400, missing)
        self._not_there(project.states, asked.body["name"], "State")
        return Answer(200, self._new_state(project, asked.body, asked.who))

    def _delete_state(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        if there(project.states, own_id)["default"]:
            raise Answer(400, {"error": "Default state cannot be deleted"})
        if any(task["state"] == own_id for task in project.tasks.values()):
            raise Answer(400, {"error": "The state is not empty, only empty states can be deleted"})
        del project.states[own_id]
        return Answer(204)

    def _get_labels(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects.get(project_id)
        mine = project is not None and asked.who.id in project.roles
        return paged(asked, newest_first(project.labels.values()) if project and mine else [])

    def _post_labels(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if "name" not in asked.body:
            raise Answer(400, {"name": [REQUIRED]})
        self._not_there(project.labels, asked.body["name"], "Label")
        return Answer(201, self._new_label(project, asked.body, asked.who))

    def _delete_label(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        there(project.labels, own_id)
        del project.labels[own_id]
        for task in project.tasks.values():
            task["labels"] = [label for label in task["labels"] if label != own_id]
        return Answer(204)

    def _get_cycles(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        rows = [self._counted(project, row, project.in_cycles) for row in newest_first(project.cycles.values())]
        if asked.query.get("cycle_view") == "current":
            now = self._now()
            return Answer(200, [row for row in rows if covers(row, now)])
        return paged(asked, rows)

    def _post_cycles(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if "name" not in asked.body:
            raise Answer(400, {"name": [REQUIRED]})
        if (asked.body.get("start_date") is None) != (asked.body.get("end_date") is None):
            raise Answer(400, {"error": "Both start date and end date are either required or are to be null"})
        return Answer(201, self._new_cycle(project, asked.body, asked.who))

    def _get_cycle(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        return Answer(200, self._counted(project, there(project.cycles, own_id), project.in_cycles))

    def _delete_cycle(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        there(project.cycles, own_id)
        del project.cycles[own_id]
        return Answer(204)

    def _get_cycle_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._held(asked, project_id, "in_cycles", "cycle", own_id)

    def _post_cycle_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._hold(asked, project_id, "in_cycles", "cycle", own_id)

    def _delete_cycle_task(self, _asked: Asked, project_id: str, own_id: str, task_id: str) -> Answer:
        return self._let_go(project_id, "in_cycles", "cycle", own_id, task_id)

    def _delete_module_task(self, _asked: Asked, project_id: str, own_id: str, task_id: str) -> Answer:
        return self._let_go(project_id, "in_modules", "module", own_id, task_id)

    def _get_modules(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        rows = [self._counted(project, row, project.in_modules) for row in newest_first(project.modules.values())]
        return paged(asked, rows)

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
        return Answer(200, self._counted(project, there(project.modules, own_id), project.in_modules))

    def _delete_module(self, _asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        there(project.modules, own_id)
        del project.modules[own_id]
        return Answer(204)

    def _get_module_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._held(asked, project_id, "in_modules", "module", own_id)

    def _post_module_tasks(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        return self._hold(asked, project_id, "in_modules", "module", own_id)

    def _get_intake(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        return paged(asked, newest_first(project.intake.values()) if project.row["intake_view"] else [])

    def _post_intake(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if not asked.body.get("issue", {}).get("name"):
            raise Answer(400, {"error": "Name is required"})
        if not project.row["intake_view"]:
            raise Answer(400, {"error": "Intake is not enabled for this project enable it through the project's api"})
        return Answer(201, self.add_to_intake(project.row["identifier"], by=asked.who, **asked.body["issue"]))

    # Tasks

    def _get_tasks(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        key, source = asked.query.get("external_id"), asked.query.get("external_source")
        if key and source:
            found = by_external(project.tasks, key, source)
            if found is None:
                raise Answer(404, NO_SUCH)
            return Answer(200, self._shown_task(project, found, asked))
        rows = self._ordered(project, active(project), asked.query.get("order_by", "-created_at"))
        return paged(asked, rows, lambda row: self._shown_task(project, row, asked))

    def _post_tasks(self, asked: Asked, project_id: str) -> Answer:
        project = self.projects[project_id]
        if "name" not in asked.body:
            raise Answer(400, {"name": [REQUIRED]})
        self._validated(project, asked.body)
        key, source = asked.body.get("external_id"), asked.body.get("external_source")
        if key and source and (first := by_external(project.tasks, key, source)):
            told = "Issue with the same external id and external source already exists"
            raise Answer(409, {"error": told, "id": first["id"]})
        return self._written(lambda: self._created(project, asked))

    def _created(self, project: Project, asked: Asked) -> Answer:
        row = self._new_task(project, asked.body, asked.who)
        shown = self._shown_task(project, row, asked)
        # The times in the reply are those of the first of three writes, not the stored ones.
        row.update(created_at=self._stamp(), updated_at=self._stamp())
        return Answer(201, shown)

    def _written(self, write: Callable[[], Answer]) -> Answer:
        if self.pause is not None:
            raise Paused(write)
        return write()

    def _get_task(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        return Answer(200, self._shown_task(project, there(active(project), own_id), asked))

    def _patch_task(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        row = there(project.tasks, own_id)
        self._validated(project, asked.body)
        self._change_task(project, row, asked.body, asked.who)
        return Answer(200, self._shown_task(project, row, asked))

    def _delete_task(self, asked: Asked, project_id: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        row = there(project.tasks, own_id)
        if row["created_by"] != asked.who.id and project.roles[asked.who.id] < ADMIN:
            raise Answer(403, {"error": "Only admin or creator can delete the work item"})
        del project.tasks[own_id]
        return Answer(204)

    def _get_by_key(self, asked: Asked, identifier: str, number: str) -> Answer:
        project = self.project(identifier)
        for row in active(project).values():
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
            for row in active(project).values()
            if text.casefold() in row["name"].casefold()
            or text.casefold() in project.row["identifier"].casefold()
            or row["sequence_id"] in numbers
        ]
        shown = [{name: value for name, value in row.items() if name != "created_at"} for row in newest_first(found)]
        return Answer(200, {"issues": shown[: int(asked.query.get("limit", "10"))]})

    # What hangs on a task

    def _get_comments(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        rows = [row for row in self.projects[project_id].comments.values() if row["issue"] == task_id]
        return paged(asked, newest_first(rows), lambda row: row | {"is_member": True, "updated_by": None})

    def _post_comments(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        project = self.projects[project_id]
        key, source = asked.body.get("external_id"), asked.body.get("external_source")
        if key and source and (first := by_external(project.comments, key, source)):
            told = "Work item comment with the same external id and external source already exists"
            raise Answer(409, {"error": told, "id": first["id"]})
        if task_id not in project.tasks:
            raise Answer(400, {"error": "The payload is not valid"})
        return self._written(lambda: Answer(201, self._new_comment(project, task_id, asked.body, asked.who)))

    def _get_comment(self, _asked: Asked, project_id: str, task_id: str, own_id: str) -> Answer:
        row = there(self.projects[project_id].comments, own_id)
        if row["issue"] != task_id:
            raise Answer(404, NO_SUCH)
        return Answer(200, row | {"is_member": True, "updated_by": None})

    def _patch_comment(self, asked: Asked, project_id: str, task_id: str, own_id: str) -> Answer:
        row = there(self.projects[project_id].comments, own_id)
        assert row["issue"] == task_id
        row.update({name: value for name, value in asked.body.items() if name in ("comment_html", "access")})
        row.update(updated_at=self._stamp(), updated_by=asked.who.id)
        return Answer(200, row)

    def _delete_comment(self, _asked: Asked, project_id: str, task_id: str, own_id: str) -> Answer:
        comments = self.projects[project_id].comments
        assert there(comments, own_id)["issue"] == task_id
        del comments[own_id]
        return Answer(204)

    def _get_links(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        rows = [row for row in self.projects[project_id].links.values() if row["issue"] == task_id]
        seen = {"created_by": None, "updated_by": None}
        return paged(asked, newest_first(rows), lambda row: row | seen)

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
        self._activity(project, there(project.tasks, task_id), asked.who, ("link", None, row["url"]))
        return Answer(201, row)

    def _delete_link(self, _asked: Asked, project_id: str, task_id: str, own_id: str) -> Answer:
        links = self.projects[project_id].links
        assert there(links, own_id)["issue"] == task_id
        del links[own_id]
        return Answer(204)

    def _get_attachments(self, _asked: Asked, project_id: str, task_id: str) -> Answer:
        assert project_id in self.projects
        return Answer(200, self.attachments.get(task_id, []))

    def _get_activities(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        rows = [row for row in self.projects[project_id].activities if row["issue"] == task_id]
        return paged(asked, rows)

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

    def _post_relations(self, asked: Asked, project_id: str, task_id: str) -> Answer:
        kind, others = asked.body.get("relation_type"), asked.body.get("issues")
        if kind not in RELATED:
            raise Answer(400, {"relation_type": [f'"{kind}" is not a valid choice.']})
        if not others:
            raise Answer(400, {"issues": ["This list may not be empty."]})
        stored = STORED_RELATIONS.get(kind, kind)
        known = {own_id for one in self.projects.values() for own_id in one.tasks}
        if task_id not in self.projects[project_id].tasks or not known.issuperset(others):
            raise Answer(400, {"error": "The payload is not valid"})
        for other in others:
            one, two = (task_id, other) if stored == kind else (other, task_id)
            # One row for each ordered pair, whatever its kind: a second one is ignored, and the answer is a 201 all the same.
            if not any((first, second) == (one, two) for first, _, second in self.relations):
                self.relations.append((one, stored, two))
        return Answer(201, [{"id": other, "relation_type": stored} for other in others])

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
        tasks = {key: row for key, row in active(project).items() if key in inside}
        rows = self._ordered(project, tasks, asked.query.get("order_by", "created_at"))
        return paged(asked, rows, lambda row: self._shown_task(project, row, asked))

    def _hold(self, asked: Asked, project_id: str, where: str, kind: str, own_id: str) -> Answer:
        project = self.projects[project_id]
        if not asked.body.get("issues"):
            raise Answer(400, {"error": "Issues are required"})
        held: dict[str, Row] = getattr(project, where)
        whole = there(getattr(project, f"{kind}s"), own_id)
        if kind == "cycle" and whole["end_date"] and datetime.fromisoformat(whole["end_date"]) < self._now():
            told = "The Cycle has already been completed so no new issues can be added"
            raise Answer(400, {"code": "CYCLE_COMPLETED", "message": told})
        for task in asked.body["issues"]:
            self._put_in(held, kind, whole, there(project.tasks, task), None if kind == "cycle" else asked.who)
        return Answer(200, [row for row in held.values() if row[kind] == own_id])

    def _let_go(self, project_id: str, where: str, kind: str, own_id: str, task_id: str) -> Answer:
        held: dict[str, Row] = getattr(self.projects[project_id], where)
        found = [key for key, row in held.items() if (row[kind], row["issue"]) == (own_id, task_id)]
        if not found:
            raise Answer(404, NO_SUCH)
        for key in found:
            del held[key]
        return Answer(204)

    def _counted(self, project: Project, row: Row, held: Mapping[str, Row]) -> Row:
        inside = {one["issue"] for one in held.values() if row["id"] in (one.get("cycle"), one.get("module"))}
        groups = [project.states[task["state"]]["group"] for key, task in active(project).items() if key in inside]
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
            elif name == "parent":
                # An empty object without one: the program serializes nothing.
                other = project.tasks.get(row["parent"] or "")
                lite = {
                    "id": row["parent"],
                    "sequence_id": other and other["sequence_id"],
                    "project_id": row["project"],
                }
                shown["parent"] = lite if other else {}
            elif name == "project":
                shown["project"] = {part: project.row[part] for part in PROJECT_LITE}
        return only(shown, asked)

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

    def _validated(self, project: Project, body: Row) -> None:
        """Check these fields of a task and return its project; errors of single fields come first."""
        if wrong := wrong_fields(self, body):
            raise Answer(400, wrong)
        if whole := wrong_whole(project, body):
            raise Answer(400, {"non_field_errors": [whole]})


def _check_project_names(body: Row) -> None:
    """Source: Project.FORBIDDEN_IDENTIFIER_CHARS_PATTERN and ProjectCreateSerializer of github.com/makeplane/plane 1.3.1."""
    for name in ("name", "identifier"):
        if set(str(body.get(name, ""))) & set("&+,:;$^}{*=?@#|'<>.()%!-"):
            raise Answer(400, {"non_field_errors": [f"Project {name} cannot contain special characters."]})
