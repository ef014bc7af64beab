"""What we rely on in Plane: the same suite on the double, and on a real server if one is given.

A real one is named by FORGE_TEST_PLANE_URL, FORGE_TEST_PLANE_KEY and FORGE_TEST_PLANE_WORKSPACE (pytest -m external).
The key must belong to someone who may make projects: the suite makes one for itself and deletes it at the end.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

import anyio
import pytest

from mcp_server.connectors.errors import Denied, Missing, ServiceLimited, ServiceRefused
from mcp_server.connectors.http import Clients, Sender, ServiceAddress, make_clients
from mcp_server.connectors.plane import wire
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.plane.model import (
    CLEAR,
    KeyTaken,
    Label,
    Module,
    PlaneMember,
    PlaneTask,
    Project,
    State,
    TaskFields,
)
from mcp_server.connectors.plane.pagination import read_all
from mcp_server.connectors.request.wire import ServiceReply, ServiceRequest
from tests.doubles.plane import ADA, WORKSPACE, plane_served

NOBODY = "00000000-0000-4000-8000-000000000000"
NEEDED = ("FORGE_TEST_PLANE_URL", "FORGE_TEST_PLANE_KEY", "FORGE_TEST_PLANE_WORKSPACE")


class PatientSender(Sender):
    """Waits as long as a real server asks for: it allows 60 requests a minute."""

    async def send(self, request: ServiceRequest) -> ServiceReply:
        """Return the reply, once the server allows the request."""
        while True:
            try:
                return await super().send(request)
            except ServiceLimited as limited:
                await anyio.sleep(limited.wait_s)


@dataclass(frozen=True)
class Here:
    """A Plane with the suite's own project."""

    url: str
    workspace: str
    clients: Clients
    sender: Sender
    plane: PlaneClient
    me: PlaneMember
    project: Project

    def with_key(self, key: str, workspace: str) -> PlaneClient:
        """Return a client that uses another key."""
        return PlaneClient(sender_of(self.url, key, self.clients), workspace)

    async def states(self) -> Mapping[str, State]:
        """Return the project's states by group."""
        return {state.group: state for state in (await self.plane.states(self.project.id)).items}

    async def made(self, name: str = "A task", **fields: Any) -> PlaneTask:
        """Return a new task."""
        made = await self.plane.create_task(self.project.id, TaskFields(name=name, **fields), new_key())
        assert isinstance(made, PlaneTask)
        return made

    async def raw(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return Plane's answer to a request that the client never makes."""
        reply = await self.sender.send(ServiceRequest("POST", f"{self.at}{path}", json=body))
        assert reply.status in (200, 201), reply.body
        return reply.body

    @property
    def at(self) -> str:
        """Return the project's path."""
        return f"/api/v1/workspaces/{self.workspace}/projects/{self.project.id}"

    def key_of(self, task: PlaneTask) -> str:
        """Return a task's readable name."""
        return f"{self.project.key}-{task.number}"


def new_key() -> str:
    """Return an unused idempotency key."""
    return f"kf-{uuid4().hex}"


def sender_of(url: str, key: str, clients: Clients) -> Sender:
    """Return the credentials with that key."""
    place = ServiceAddress(wire.SERVICE, url, wire.ADDRESS_SETTING, wire.headers_of(key), (key,))
    return PatientSender(place, clients.kept, fresh=clients.fresh, sleep=anyio.sleep, monotonic=time.monotonic)


@asynccontextmanager
async def opened(url: str, key: str, workspace: str) -> AsyncIterator[Here]:
    """Yield a project of our own in that workspace; it is deleted afterwards."""
    clients = make_clients(None)
    try:
        sender = sender_of(url, key, clients)
        plane = PlaneClient(sender, workspace)
        projects = f"/api/v1/workspaces/{workspace}/projects/"
        letters = "".join(sign for sign in uuid4().hex.upper() if sign.isalpha())[:6]
        asked = {
            "name": f"Suite {uuid4().hex[:12]}",
            "identifier": f"T{letters}",
            "cycle_view": True,
            "module_view": True,
        }
        reply = await sender.send(ServiceRequest("POST", projects, json=asked))
        assert reply.status == 201, reply.body
        project = wire.read_project(reply.body)
        try:
            yield Here(url, workspace, clients, sender, plane, await plane.me(), project)
        finally:
            await sender.send(ServiceRequest("DELETE", f"{projects}{project.id}/"))
    finally:
        await clients.aclose()


@pytest.fixture(params=["double", pytest.param("real", marks=pytest.mark.external)])
async def here(request: pytest.FixtureRequest) -> AsyncIterator[Here]:
    """Yield a Plane; the suite doesn't know which one."""
    if request.param == "double":
        async with plane_served() as (running, _), opened(running.address, ADA.key, WORKSPACE) as found:
            yield found
        return
    given = [os.environ.get(name, "") for name in NEEDED]
    if not all(given):
        pytest.skip(f"no real Plane: set {', '.join(NEEDED)}")
    async with opened(given[0].rstrip("/"), given[1], given[2]) as found:
        yield found


async def test_the_owner_of_the_key_is_a_member_of_a_project_that_they_made(here: Here) -> None:
    """Source: users_me, projects_list, project_members_list."""
    listed = {project.id: project for project in (await here.plane.projects()).items}
    assert listed[here.project.id].key == here.project.key
    assert listed[here.project.id].member
    assert here.me.id in {person.id for person in (await here.plane.members(here.project.id)).items}


async def test_a_new_project_has_states_of_every_group_and_one_default(here: Here) -> None:
    """Source: states_list."""
    states = (await here.plane.states(here.project.id)).items
    assert {state.group for state in states} >= {"backlog", "unstarted", "started", "completed", "cancelled"}
    assert [state.default for state in states].count(True) == 1


async def test_a_task_is_stored_as_drafted(here: Here) -> None:
    """Source: work_item_create, work_item_get, work_item_by_identifier, work_item_by_external_id."""
    label = wire.read_label(await here.raw("/labels/", {"name": "bug", "color": "#ff0000"}))
    state = (await here.states())["unstarted"]
    key = new_key()
    draft = TaskFields(
        name="Search returns stale rows",
        html="<p>After re-index the <b>old</b> rows stay. Поиск.</p>",
        priority="high",
        state_id=state.id,
        assignee_ids=(here.me.id,),
        label_ids=(label.id,),
        starts=date(2026, 11, 20),
        due=date(2026, 12, 1),
    )
    made = await here.plane.create_task(here.project.id, draft, key)
    assert isinstance(made, PlaneTask)
    kept = await here.plane.task(here.project.id, made.id)
    assert (kept.name, kept.html, kept.priority) == (draft.name, draft.html, "high")
    assert (kept.state_id, kept.assignee_ids, kept.label_ids) == (state.id, (here.me.id,), (label.id,))
    assert (kept.starts, kept.due) == (draft.starts, draft.due)
    assert (kept.external_id, kept.external_source) == (key, "knowledge-forge")
    assert abs(kept.created_at - datetime.now(UTC)) < timedelta(hours=1)
    assert (await here.plane.task_by_key(here.key_of(kept).lower())).id == kept.id
    found = await here.plane.task_by_external(here.project.id, key)
    assert found is not None
    assert found.id == kept.id


async def test_a_task_with_a_name_alone_gets_the_default_state_and_no_text(here: Here) -> None:
    """Source: work_item_create_minimal."""
    made = await here.made()
    default = next(state for state in (await here.states()).values() if state.default)
    assert (made.state_id, made.priority, made.html) == (default.id, "none", "<p></p>")
    assert (made.assignee_ids, made.label_ids, made.starts, made.due) == ((), (), None, None)


async def test_a_second_create_with_a_key_creates_nothing_and_names_the_first(here: Here) -> None:
    """Source: work_item_create_external_dup_409."""
    draft, key = TaskFields(name="Once"), new_key()
    first = await here.plane.create_task(here.project.id, draft, key)
    assert isinstance(first, PlaneTask)
    assert await here.plane.create_task(here.project.id, draft, key) == KeyTaken(first.id)
    assert [task.id for task in (await here.plane.tasks(here.project.id)).items] == [first.id]
    assert await here.plane.task_by_external(here.project.id, new_key()) is None


async def test_a_tasks_html_comes_back_without_active_content(here: Here) -> None:
    """Source: work_item_create_alias_issues."""
    made = await here.made(
        html='<p onclick="x()">Safe</p><script>alert(1)</script><p><a href="javascript:x()">link</a></p>'
    )
    kept = (await here.plane.task(here.project.id, made.id)).html
    assert kept is not None
    assert "Safe" in kept
    assert "link" in kept
    assert not any(word in kept for word in ("script", "onclick", "alert"))


async def test_only_named_fields_change_and_a_date_can_be_cleared(here: Here) -> None:
    """Source: work_item_update."""
    made = await here.made(priority="high", html="<p>Stays</p>", starts=date(2026, 11, 20), due=date(2026, 12, 1))
    done = (await here.states())["completed"]
    changes = TaskFields(name="Renamed", state_id=done.id, assignee_ids=(here.me.id,), due=CLEAR)
    before = await here.plane.task(here.project.id, made.id)
    for _ in range(2):
        changed = await here.plane.update_task(here.project.id, made.id, changes)
        assert (changed.name, changed.state_id, changed.assignee_ids) == ("Renamed", done.id, (here.me.id,))
        assert (changed.priority, changed.html, changed.starts, changed.due) == (
            "high",
            "<p>Stays</p>",
            made.starts,
            None,
        )
    assert changed.updated_at > before.updated_at
    emptied = await here.plane.update_task(here.project.id, made.id, TaskFields(assignee_ids=(), starts=CLEAR))
    assert (emptied.assignee_ids, emptied.starts, emptied.name) == ((), None, "Renamed")


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 256}, "name"),
        ({"priority": "huge"}, "priority"),
        ({"state_id": NOBODY}, "state"),
        ({"label_ids": (NOBODY,)}, "labels"),
        ({"starts": date(2026, 12, 2), "due": date(2026, 12, 1)}, "date"),
        ({"html": ""}, "HTML"),
    ],
)
async def test_invalid_fields_are_refused_and_nothing_is_created(
    here: Here, fields: dict[str, Any], about: str
) -> None:
    """Source: work_item_create_badpriority_400, _badstate_400, _badlabel, _baddates_400, _noname_400."""
    draft = TaskFields(**({"name": "A task"} | fields))
    with pytest.raises(ServiceRefused, match=about) as caught:
        await here.plane.create_task(here.project.id, draft, new_key())
    assert NOBODY not in str(caught.value)
    assert (await here.plane.tasks(here.project.id)).items == ()


async def test_missing_things_are_missing_and_forbidden_ones_denied(here: Here) -> None:
    """Source: err_work_item_404, work_item_by_identifier_404, err_project_items_missing_project."""
    with pytest.raises(Missing):
        await here.plane.task(here.project.id, NOBODY)
    with pytest.raises(Missing, match=f"no task {here.project.key}-9999"):
        await here.plane.task_by_key(f"{here.project.key}-9999")
    with pytest.raises(Denied, match="there is no project"):
        await here.plane.tasks(NOBODY)
    with pytest.raises(Denied):
        await here.plane.task_by_key("NOSUCHPROJECT-1")
    with pytest.raises(Missing):
        await here.plane.update_task(here.project.id, NOBODY, TaskFields(name="x"))


async def test_a_wrong_key_and_a_wrong_workspace_say_what_to_do(here: Here) -> None:
    """Source: err_bad_key, err_workspace_missing."""
    with pytest.raises(Denied, match="PLANE_API_KEY") as caught:
        await here.with_key("plane_api_wrong0000", here.workspace).projects()
    assert "plane_api_wrong0000" not in str(caught.value)
    nowhere = f"nosuch{uuid4().hex}"
    with pytest.raises(Denied, match=nowhere):
        await PlaneClient(here.sender, nowhere).projects()


async def test_tasks_come_in_pages_in_the_order_that_was_asked_for(here: Here) -> None:
    """Source: work_items_list_page1, work_items_list_page2, work_items_list_cursor_past_end."""
    made = [await here.made(f"Task {number}") for number in range(7)]
    first = await here.plane.tasks(here.project.id, None, 3, "created_at")
    assert [task.id for task in first.items] == [task.id for task in made[:3]]
    assert first.total == 7
    assert all(task.html is None for task in first.items)
    second = await here.plane.tasks(here.project.id, first.next_cursor, 3, "created_at")
    assert [task.name for task in second.items] == ["Task 3", "Task 4", "Task 5"]
    last = await here.plane.tasks(here.project.id, second.next_cursor, 3, "created_at")
    assert ([task.name for task in last.items], last.next_cursor) == (["Task 6"], None)
    walked = await read_all(lambda cursor: here.plane.tasks(here.project.id, cursor, 2, "-created_at"))
    assert [task.number for task in walked.items] == [task.number for task in reversed(made)]
    assert walked.note is None


async def test_listed_tasks_show_their_state_and_one_task_also_its_people_and_labels_by_name(here: Here) -> None:
    """Source: work_items_list_expand2, work_item_get_expand; they spare requests for lists of names."""
    label = Label((await here.raw("/labels/", {"name": "bug"}))["id"], "bug")
    made = await here.made("Named", assignee_ids=(here.me.id,), label_ids=(label.id,))
    (listed,) = (await here.plane.tasks(here.project.id)).items
    state = (await here.states())["backlog"]
    assert listed.state is not None
    assert (listed.state.id, listed.state.name, listed.state.group) == (state.id, state.name, "backlog")
    assert (listed.assignee_ids, listed.label_ids, listed.created_by) == ((here.me.id,), (label.id,), here.me.id)
    single = await here.plane.task(here.project.id, made.id)
    assert (single.state, single.labels) == (listed.state, (label,))
    assert [person.id for person in single.assignees] == [here.me.id]
    assert here.me in (await here.plane.people()).items


async def test_tasks_in_intake_are_listed_apart_as_pending(here: Here) -> None:
    """Source: apps/api/plane/api/views/intake.py of github.com/makeplane/plane."""
    assert (await here.plane.intake(here.project.id)).items == ()
    reply = await here.sender.send(ServiceRequest("PATCH", f"{here.at}/", json={"intake_view": True}))
    assert reply.status == 200
    await here.raw("/intake-issues/", {"issue": {"name": "Crash at start", "priority": "high"}})
    (waiting,) = (await here.plane.intake(here.project.id)).items
    assert (waiting.name, waiting.priority, waiting.state) == (
        "Crash at start",
        "high",
        State("pending", "pending", "backlog"),
    )
    assert (await here.plane.tasks(here.project.id)).items == ()


async def test_the_last_changed_task_comes_first(here: Here) -> None:
    """That is the default order."""
    first, _ = await here.made("First"), await here.made("Second")
    await here.plane.update_task(here.project.id, first.id, TaskFields(priority="low"))
    assert [task.name for task in (await here.plane.tasks(here.project.id)).items] == ["First", "Second"]


async def test_a_search_finds_names_in_any_case_and_numbers(here: Here) -> None:
    """Source: search, search_russian, search_by_number, search_no_match."""
    word = uuid4().hex
    made = await here.made(f"Stale {word} rows")
    russian = await here.made("Через старый путь: поиск по-русски")
    assert [found.id for found in await here.plane.search(word.upper(), here.project.id)] == [made.id]
    (everywhere,) = await here.plane.search(word)
    assert (everywhere.number, everywhere.project_id, everywhere.project_key) == (
        made.number,
        here.project.id,
        here.project.key,
    )
    assert [found.id for found in await here.plane.search("Поиск", here.project.id)] == [russian.id]
    assert made.id in {found.id for found in await here.plane.search(str(made.number), here.project.id)}
    assert await here.plane.search(f"no{word}such", here.project.id) == ()
    assert len(await here.plane.search(here.project.key, here.project.id, 1)) == 1


async def test_a_comment_is_kept_once_under_its_key(here: Here) -> None:
    """Source: comment_create_external, comment_create_external_dup_409, comment_get, comments_list."""
    task, other, key = await here.made(), await here.made(), new_key()
    said = await here.plane.create_comment(here.project.id, task.id, "<p>Seen <em>again</em></p>", key)
    assert not isinstance(said, KeyTaken)
    assert (said.html, said.by, said.external_id) == ("<p>Seen <em>again</em></p>", here.me.id, key)
    assert await here.plane.create_comment(here.project.id, task.id, "<p>Seen</p>", key) == KeyTaken(said.id)
    # The key counts in the whole project: nothing is written on another task either.
    assert await here.plane.create_comment(here.project.id, other.id, "<p>Seen</p>", key) == KeyTaken(said.id)
    assert (await here.plane.comments(here.project.id, other.id)).items == ()
    kept = await here.plane.comment(here.project.id, task.id, said.id)
    assert (kept.id, kept.html, kept.external_id) == (said.id, said.html, key)
    found = await here.plane.comment_by_external(here.project.id, task.id, key)
    assert found is not None
    assert found.id == said.id
    assert await here.plane.comment_by_external(here.project.id, other.id, key) is None


async def test_comments_come_last_first_in_pages(here: Here) -> None:
    """Source: comments_list."""
    task = await here.made()
    for number in range(3):
        await here.plane.create_comment(here.project.id, task.id, f"<p>{number}</p>", new_key())
    first = await here.plane.comments(here.project.id, task.id, None, 2)
    assert [said.html for said in first.items] == ["<p>2</p>", "<p>1</p>"]
    last = await here.plane.comments(here.project.id, task.id, first.next_cursor, 2)
    assert ([said.html for said in last.items], last.next_cursor) == (["<p>0</p>"], None)


async def test_labels_cycles_and_modules_are_listed_and_cycles_and_modules_have_their_tasks(here: Here) -> None:
    """Source: labels_list, cycles_list, modules_list, cycle_issues_list, module_issues_list."""
    task, _ = await here.made("In both"), await here.made("In none")
    label = wire.read_label(await here.raw("/labels/", {"name": "docs", "color": "#00ff00"}))
    named = {"name": "Draft", "project_id": here.project.id}
    cycle = wire.read_cycle(await here.raw("/cycles/", named))
    module = wire.read_module(await here.raw("/modules/", {"name": "Indexing"}))
    await here.raw(f"/cycles/{cycle.id}/cycle-issues/", {"issues": [task.id]})
    await here.raw(f"/modules/{module.id}/module-issues/", {"issues": [task.id]})
    assert (await here.plane.labels(here.project.id)).items == (Label(label.id, "docs"),)
    assert [one.name for one in (await here.plane.cycles(here.project.id)).items] == ["Draft"]
    assert (await here.plane.modules(here.project.id)).items == (Module(module.id, "Indexing"),)
    for page in (
        await here.plane.group_tasks(here.project.id, "cycle", cycle.id),
        await here.plane.group_tasks(here.project.id, "module", module.id),
    ):
        assert [held.name for held in page.items] == ["In both"]


async def test_a_task_that_is_tied_to_nothing_has_no_relations(here: Here) -> None:
    """Source: relations_list. Some editions have no endpoint for it, and say so."""
    task = await here.made()
    try:
        assert await here.plane.relations(here.project.id, task.id) == ()
    except Missing:
        pytest.skip("this edition of Plane tells no relations")


async def ids_in(here: Here, kind: wire.TaskGroup, group: str) -> list[str]:
    """Return the ids of the tasks in a cycle or module."""
    return [task.id for task in (await here.plane.group_tasks(here.project.id, kind, group)).items]


async def test_a_task_moves_to_another_cycle_is_in_several_modules_and_leaves_both(here: Here) -> None:
    """Source: cycle_issue_add, module_issue_add; cycle.py and module.py in apps/api/plane/api/views of makeplane/plane."""
    plane, project, task = here.plane, here.project.id, await here.made()
    cycles = [
        wire.read_cycle(await here.raw("/cycles/", {"name": name, "project_id": project})) for name in ("One", "Two")
    ]
    modules = [wire.read_module(await here.raw("/modules/", {"name": name})) for name in ("One", "Two")]
    for _ in range(2):  # a second time changes nothing
        await plane.put_in_group(project, "cycle", cycles[0].id, task.id)
    await plane.put_in_group(project, "cycle", cycles[1].id, task.id)
    assert (await ids_in(here, "cycle", cycles[0].id), await ids_in(here, "cycle", cycles[1].id)) == ([], [task.id])
    for module in (*modules, modules[0]):
        await plane.put_in_group(project, "module", module.id, task.id)
    assert [await ids_in(here, "module", module.id) for module in modules] == [[task.id], [task.id]]
    assert {one.name: one.count for one in (await plane.modules(project)).items} == {"One": 1, "Two": 1}
    await plane.take_from_group(project, "cycle", cycles[1].id, task.id)
    await plane.take_from_group(project, "module", modules[0].id, task.id)
    assert (await ids_in(here, "cycle", cycles[1].id), await ids_in(here, "module", modules[0].id)) == ([], [])
    with pytest.raises(Missing):
        await plane.take_from_group(project, "cycle", cycles[1].id, task.id)
    with pytest.raises(Missing):
        await plane.take_from_group(project, "module", modules[0].id, task.id)


async def test_a_cycle_that_has_ended_takes_no_task(here: Here) -> None:
    """Source: `CycleIssueListCreateAPIEndpoint.post` of makeplane/plane."""
    task = await here.made()
    dates = {"start_date": "2020-01-01", "end_date": "2020-01-14"}
    cycle = wire.read_cycle(await here.raw("/cycles/", {"name": "Over", "project_id": here.project.id, **dates}))
    with pytest.raises(ServiceRefused):
        await here.plane.put_in_group(here.project.id, "cycle", cycle.id, task.id)


async def test_a_task_has_one_relation_with_another_one_in_each_direction(here: Here) -> None:
    """Source: `IssueRelationListCreateAPIEndpoint` of makeplane/plane."""
    plane, project = here.plane, here.project.id
    one, two = await here.made("One"), await here.made("Two")
    await plane.add_relation(project, one.id, "blocks", two.id)
    assert [(said.kind, said.task_id) for said in await plane.relations(project, one.id)] == [("blocks", two.id)]
    assert [(said.kind, said.task_id) for said in await plane.relations(project, two.id)] == [("blocked by", one.id)]
    # Plane stores `blocks` as `blocked by` of the other task, so this is the same relation and is ignored with a 201.
    await plane.add_relation(project, two.id, "relates to", one.id)
    assert [said.kind for said in await plane.relations(project, one.id)] == ["blocks"]
    with pytest.raises(ServiceRefused):
        await plane.add_relation(project, one.id, "relates to", NOBODY)


async def test_links_are_added_once_and_removed(here: Here) -> None:
    """Source: link_create, link_create_dup, links_list."""
    plane, project, task = here.plane, here.project.id, await here.made()
    await plane.add_link(project, task.id, "https://example.com/a", "A")
    with pytest.raises(ServiceRefused):
        await plane.add_link(project, task.id, "https://example.com/a", "B")
    (link,) = (await plane.links(project, task.id)).items
    assert (link.url, link.title) == ("https://example.com/a", "A")
    await plane.remove_link(project, task.id, link.id)
    assert (await plane.links(project, task.id)).items == ()
    with pytest.raises(Missing):
        await plane.remove_link(project, task.id, link.id)
    assert await plane.attachments(project, task.id) == ()


async def test_a_comment_is_changed_and_deleted_for_good(here: Here) -> None:
    """Source: comment_update; `IssueCommentDetailAPIEndpoint` of makeplane/plane."""
    plane, project, task = here.plane, here.project.id, await here.made()
    said = await plane.create_comment(project, task.id, "<p>Old</p>", new_key())
    who = f'<mention-component entity_identifier="{here.me.id}" entity_name="user_mention"></mention-component>'
    await plane.update_comment(project, task.id, said.id, f"<p>{who} New</p>")
    assert (await plane.comment(project, task.id, said.id)).html == f"<p>{who} New</p>"
    await plane.delete_comment(project, task.id, said.id)
    with pytest.raises(Missing):
        await plane.comment(project, task.id, said.id)
    with pytest.raises(Missing):
        await plane.delete_comment(project, task.id, said.id)


async def test_a_task_comes_with_its_parents_number_and_an_archived_one_not_at_all(here: Here) -> None:
    """Source: `IssueSerializer` and its `parent`, and `issue_objects`, of makeplane/plane."""
    plane, project = here.plane, here.project.id
    above = await here.made("Above")
    below = await here.made("Below", parent_id=above.id)
    read = await plane.task(project, below.id)
    assert (read.parent_id, read.parent_number) == (above.id, above.number)
    assert (await plane.task_by_key(here.key_of(below))).parent_number == above.number
    assert {task.name: task.parent_id for task in (await plane.tasks(project)).items} == {
        "Above": None,
        "Below": above.id,
    }
    await plane.update_task(project, below.id, TaskFields(parent_id=CLEAR))
    assert (await plane.task(project, below.id)).parent_id is None
    # In any state: only the program's own pages ask for a finished one.
    await plane.update_task(project, below.id, TaskFields(archived=date(2026, 11, 26)))
    with pytest.raises(Missing):
        await plane.task(project, below.id)
    await plane.update_task(project, below.id, TaskFields(archived=CLEAR))
    assert (await plane.task(project, below.id)).id == below.id
