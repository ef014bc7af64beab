"""Reading Plane through a real MCP client.

By the names that people use, within the allowed projects, and no page twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from knowledge.errors import NoSuchSource, SourceAway
from mcp_server.connectors.plane.board import board_of
from mcp_server.connectors.plane.evidence import fetch
from mcp_server.connectors.plane.wire import FEWER_A_PAGE
from tests.doubles.plane import ADA, GUS, MEL, OTTO, Account, Plane
from tests.doubles.serving import after, for_requests, in_turn, status
from tests.support.plane.hosts import PlaneHost, working

TASKS = "/work-items/"


def keys(answer: Mapping[str, Any]) -> list[str]:
    return [task["key"] for task in answer["tasks"]]


def many(plane: Plane, key: str, count: int) -> None:
    for number in range(count):
        plane.add_task(key, f"Bulk {number:04}")


async def paged(host: PlaneHost, **asked: Any) -> list[str]:
    """Return the keys on all pages of one query."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        answer = await host.call("plane_query_tasks", **asked, cursor=cursor)
        found += keys(answer)
        cursor = answer["next_cursor"]
        if cursor is None:
            return found
        assert answer["tasks"]


async def test_projects_are_listed_by_key_and_one_of_them_with_its_names(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        listed = await host.call("plane_list_projects")
        assert [(line["key"], line["name"]) for line in listed["projects"]] == [
            ("KB", "Knowledge Base"),
            ("OPS", "Ops"),
        ]
        assert listed["tainted"] is False
        (line,) = (await host.call("plane_list_projects", project="knowledge base"))["projects"]
        assert line["states"] == ["Backlog", "Todo", "In Progress", "Done", "Cancelled", "In Review"]
        assert (line["labels"], line["modules"]) == (["bug"], ["Indexing"])
        assert sorted(line["members"]) == ["ada", "gus", "mel"]
        assert sorted(line["cycles"]) == ["Draft", "Sprint 1"]


async def test_a_name_may_be_misspelt_and_an_unknown_one_gets_the_candidates(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        assert keys(await host.call("plane_query_tasks", project="Knowlege Base", state="todo")) == ["KB-1"]
        assert keys(await host.call("plane_query_tasks", project="KB", assignee="Mel Member")) == ["KB-1"]
        assert keys(await host.call("plane_query_tasks", project="KB", assignee="MEMBER@example.com")) == ["KB-1"]
        assert "KB" in await host.refused("plane_query_tasks", project="Zebra")
        assert "Todo" in await host.refused("plane_query_tasks", project="KB", state="Zebra")
        assert "bug" in await host.refused("plane_query_tasks", project="KB", label="Zebra")
        assert "mel" in await host.refused("plane_query_tasks", project="KB", assignee="Zebra")
        assert "Sprint 1" in await host.refused("plane_query_tasks", project="KB", cycle="Zebra")
        assert "Indexing" in await host.refused("plane_query_tasks", project="KB", module="Zebra")


async def test_tasks_matching_every_filter_are_listed_last_changed_first(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        host.plane.change_task("KB-2", name="Minimal, renamed")
        every = await host.call("plane_query_tasks", project="KB")
        assert keys(every) == ["KB-2", "KB-1", "KB-4", "KB-3"]
        (first,) = (await host.call("plane_query_tasks", project="KB", label="bug"))["tasks"]
        assert first | {"updated_at": ""} == {
            "key": "KB-1",
            "name": "Search returns stale rows",
            "state": "Todo",
            "priority": "high",
            "assignees": ["ada", "mel"],
            "labels": ["bug"],
            "due": "2026-12-01",
            "updated_at": "",
        }
        assert every["tainted"] is True
        for asked, found in (
            ({"text": "STALE search"}, ["KB-1"]),
            ({"text": "русски"}, ["KB-3"]),
            ({"text": "kb-4"}, ["KB-4"]),
            ({"state": "open"}, ["KB-2", "KB-1", "KB-4", "KB-3"]),
            ({"state": "unstarted"}, ["KB-1"]),
            ({"state": "completed"}, []),
            ({"assignee": "me"}, ["KB-1"]),
            ({"assignee": "none"}, ["KB-2", "KB-4", "KB-3"]),
            ({"priority": "high"}, ["KB-1"]),
            ({"cycle": "sprint 1"}, ["KB-1"]),
            ({"module": "indexing"}, ["KB-1"]),
            ({"cycle": "Sprint 1", "module": "Indexing", "priority": "low"}, []),
            ({"cycle": "Draft"}, []),
            ({"due": "2026-12-01"}, ["KB-1"]),
            ({"due": "2026-11-30"}, []),
            ({"updated_since": "2199-01-01"}, []),
            ({"updated_since": first["updated_at"]}, ["KB-2", "KB-1"]),
            ({"state": "todo", "label": "bug", "text": "minimal"}, []),
            ({"state": ["todo", "Done"], "priority": ["high", "low"]}, ["KB-1"]),
            ({"assignee": ["mel", "none"], "sort": "created"}, ["KB-4", "KB-3", "KB-2", "KB-1"]),
            ({"assignee": ["mel", "none"], "sort": "created", "reverse": True}, ["KB-1", "KB-2", "KB-3", "KB-4"]),
            ({"label": ["bug"], "created_by": "me"}, ["KB-1"]),
            ({"created_by": "gus"}, []),
            ({"sort": "priority", "limit": 1}, ["KB-1"]),
            ({"sort": "name"}, ["KB-4", "KB-2", "KB-1", "KB-3"]),
            ({"sort": "due", "limit": 1}, ["KB-1"]),
            ({"starts_by": "2026-11-20"}, ["KB-1"]),
            ({"starts_by": "2026-11-19"}, []),
            ({"parent": "none", "label": "bug"}, ["KB-1"]),
        ):
            assert keys(await host.call("plane_query_tasks", project="KB", **asked)) == found, asked


async def test_sub_tasks_totals_and_counts_are_told(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        bug = next(iter(host.plane.project("KB").labels))
        for number in range(30):
            more: dict[str, Any] = (
                {"assignees": [MEL.id]} if number % 3 else {"labels": [bug], "assignees": [ADA.id, MEL.id]}
            )
            host.plane.add_task("KB", f"Part {number:02}", parent=host.plane.task("KB-1")["id"], **more)
        parts = await host.call("plane_query_tasks", parent="kb-1", sort="name", limit=5, count_by="assignee")
        assert [line["name"] for line in parts["tasks"]] == [f"Part {number:02}" for number in range(5)]
        assert (parts["total"], parts["counts"]) == (30, {"mel": 30, "ada": 10})
        for asked, counts in (
            ("label", {"none": 23, "bug": 11}),
            ("state", {"Backlog": 33, "Todo": 1}),
            ("assignee", {"mel": 31, "ada": 11, "none": 3}),
        ):
            told = await host.call("plane_query_tasks", project="KB", limit=1, count_by=asked)
            assert (told["total"], told["counts"]) == (34, counts)
        assert "counts" not in await host.call("plane_query_tasks", project="KB")
        assert "no task KB-999" in await host.refused("plane_query_tasks", parent="KB-999")


@pytest.mark.security
async def test_counted_names_taint_with_their_project(tmp_path: Path) -> None:
    """They may be those of tasks that no line shows."""
    async with working(tmp_path, level=1) as host:
        host.plane.add_task("OPS", "Rotate the keys")
        await host.call("plane_query_tasks", text="rotate", count_by="state")
        principal = await _principal(host, "writer")
        assert set(await host.app.services.taints.of(principal, "")) == {"plane:OPS", "plane:OPS-1"}


async def test_tasks_in_intake_are_read_with_the_decision_about_them_as_their_state(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        bug = next(iter(host.plane.project("KB").labels))
        host.plane.add_to_intake("KB", "Crash at start", priority="urgent", labels=[bug], assignees=[MEL.id])
        host.plane.add_to_intake("KB", "Spam", -1)
        host.plane.add_to_intake("OPS", "New laptop", 0)
        told = await host.call("plane_query_tasks", intake=True, sort="name")
        assert [(line["name"], line["state"]) for line in told["tasks"]] == [
            ("Crash at start", "pending"),
            ("New laptop", "snoozed"),
            ("Spam", "rejected"),
        ]
        assert (told["tasks"][0]["assignees"], told["tasks"][0]["labels"]) == (["mel"], ["bug"])
        assert (await host.call("plane_query_tasks", intake=True, state="open"))["total"] == 2
        assert (await host.call("plane_query_tasks", project="KB", intake=True, state=["rejected"]))["total"] == 1
        assert "Crash at start" not in [line["name"] for line in (await host.call("plane_query_tasks"))["tasks"]]
        assert "pending" in await host.refused("plane_query_tasks", intake=True, state="zebra")


async def test_a_name_that_one_of_several_projects_has_exactly_is_not_guessed_in_the_others(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        host.plane.add_member("OPS", MEL)
        host.plane.accounts[OTTO.id] = Account(OTTO.id, "Melanie", "Outsider", OTTO.key, MEL.role)
        host.plane.add_member("OPS", OTTO)
        host.plane.add_task("OPS", "Melanie's", assignees=[OTTO.id])
        assert keys(await host.call("plane_query_tasks", assignee="mel")) == ["KB-1"]
        assert keys(await host.call("plane_query_tasks", assignee=["melan", "mel"])) == ["OPS-1", "KB-1"]
        assert "no member 'zebra'" in await host.refused("plane_query_tasks", assignee=["mel", "zebra"])
        # Nor in a later part of an answer, which has one project only.
        ops = host.plane.project("OPS").row["id"]
        board_of(host.app.services).forget(ops)
        host.served.plan = for_requests("GET", f"/projects/{ops}{TASKS}", *[status(503)] * 4)
        first = await host.call("plane_query_tasks", assignee="mel")
        rest = await host.call("plane_query_tasks", assignee="mel", cursor=first["next_cursor"])
        assert (keys(first), keys(rest), rest["next_cursor"]) == (["KB-1"], [], None)


async def test_overdue_tasks_were_due_before_today_and_are_not_closed(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        states = {row["name"]: row["id"] for row in host.plane.project("KB").states.values()}
        host.plane.add_task("KB", "Late", target_date="2020-01-01")
        host.plane.add_task("KB", "Late and done", target_date="2020-01-01", state=states["Done"])
        host.plane.add_task("KB", "Some day", target_date="2199-01-01")
        found = keys(await host.call("plane_query_tasks", project="KB", due="overdue"))
        assert "KB-5" in found
        assert not {"KB-6", "KB-7"} & set(found)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"due": "soon"}, "due 'soon' is not 'overdue' or an ISO date"),
        ({"updated_since": "31.12.2026"}, "updated_since '31.12.2026' is not an ISO date"),
        ({"cursor": "nonsense"}, "repeat the call without it"),
        ({"cursor": "W10"}, "repeat the call without it"),
    ],
)
async def test_an_impossible_filter_is_refused_before_plane_is_asked(
    tmp_path: Path, asked: Mapping[str, Any], told: str
) -> None:
    async with working(tmp_path, level=1) as host:
        assert told in await host.refused("plane_query_tasks", **asked)
        assert host.served.seen == []


async def test_pages_have_every_task_once_and_cost_one_listing(tmp_path: Path) -> None:
    """1,200 tasks take two requests for their list, however many pages are read within half a minute."""
    async with working(tmp_path, level=1) as host:
        many(host.plane, "KB", 1_196)
        found = await paged(host, project="KB", limit=100)
        assert len(found) == 1_200
        assert len(set(found)) == 1_200
        assert host.served.count("GET", TASKS) == 2
        assert len(host.served.seen) <= 5


async def test_a_cursor_belongs_to_its_question(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        cursor = (await host.call("plane_query_tasks", project="KB", limit=1))["next_cursor"]
        assert keys(await host.call("plane_query_tasks", project="KB", limit=2, cursor=cursor)) == ["KB-4", "KB-3"]
        assert "without it" in await host.refused("plane_query_tasks", project="OPS", cursor=cursor)
        assert "without it" in await host.refused("plane_query_tasks", project="KB", priority="high", cursor=cursor)


async def test_a_task_changed_between_two_pages_is_not_listed_twice_and_the_change_is_noted(tmp_path: Path) -> None:
    """It then moves to the front, to the first page, which has already been read."""
    async with working(tmp_path, level=1) as host:
        first = await host.call("plane_query_tasks", project="KB", limit=2)
        host.plane.change_task("KB-2", name="Changed meanwhile")
        board_of(host.app.services).forget(host.plane.project("KB").row["id"])
        second = await host.call("plane_query_tasks", project="KB", limit=2, cursor=first["next_cursor"])
        assert keys(first) + keys(second) == ["KB-1", "KB-4", "KB-3"]
        assert (first["note"], second["note"][:52]) == (None, "tasks changed or created since the first page, perha")
        assert "no page: 1; call without a cursor" in second["note"]


def same_page(query: dict[str, str], _body: dict[str, Any]) -> None:
    """A proxy that caches without the query string: whatever page is asked for, the first one comes."""
    query.pop("cursor", None)


def circle(query: dict[str, str], _body: dict[str, Any]) -> None:
    """The third page is the first one again, and so on."""
    size, number, way = query.get("cursor", "250:0:0").split(":")
    query["cursor"] = f"{size}:{int(number) % 2}:{way}"


def early_end(query: dict[str, str], body: dict[str, Any]) -> None:
    """The second page says that it is the last."""
    if body and query.get("cursor"):
        body["next_page_results"] = False


def emptiness(query: dict[str, str], body: dict[str, Any]) -> None:
    """From the second page on it is empty, and more is promised."""
    if body and query.get("cursor"):
        body.update(results=[], next_page_results=True)


@pytest.mark.parametrize(
    ("wrong", "read", "why"),
    [
        (same_page, 250, "250 of 1200"),
        (circle, 500, "500 of 1200"),
        (early_end, 500, "500 of 1200"),
        (emptiness, 250, "250 of 1200"),
    ],
)
async def test_pages_that_lead_astray_end_are_said_and_show_no_task_twice(
    tmp_path: Path, wrong: Callable[[dict[str, str], dict[str, Any]], None], read: int, why: str
) -> None:
    """1,200 tasks, some of which a broken Plane lists repeatedly, or never."""
    async with working(tmp_path, level=1) as host:
        board_of(host.app.services)._tasks_a_page = FEWER_A_PAGE
        many(host.plane, "KB", 1_196)
        rightly = host.plane._get_tasks

        def wrongly(asked: Any, project_id: str) -> Any:
            query = dict(asked.query)
            wrong(query, {})
            answer = rightly(type(asked)(asked.method, query, asked.body, asked.who), project_id)
            wrong(dict(asked.query), answer.body)
            return answer

        host.plane._get_tasks = wrongly  # type: ignore[method-assign]  # a Plane gone wrong
        answer = await host.call("plane_query_tasks", project="KB", limit=100)
        assert why in answer["note"]
        found = await paged(host, project="KB", limit=100)
        assert len(found) == len(set(found)) == read
        assert host.served.count("GET", TASKS) <= 4


async def test_a_name_unknown_to_all_projects_gets_the_candidates_of_any(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        host.plane.add_label("OPS", "outage")
        told = await host.refused("plane_query_tasks", label="zebra")
        assert "bug" in told
        assert "outage" in told


async def test_two_people_with_one_name_are_distinguished_by_address(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        twin = Account("aaaaaaaa-7b7c-4c45-92cc-83c0335a34f4", "Mel", "Twin", "plane_api_twin", MEL.role)
        host.plane.accounts[twin.id] = twin
        host.plane.add_member("KB", twin)
        told = await host.refused("plane_query_tasks", project="KB", assignee="mel")
        assert "ambiguous" in told
        assert "twin@example.com" in told or "Mel Twin" in told
        assert "member@example.com" in told or "Mel Member" in told
        assert keys(await host.call("plane_query_tasks", project="KB", assignee="mel member")) == ["KB-1"]


async def test_all_projects_are_searched_and_gaps_are_reported(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        host.plane.add_task("OPS", "Rotate the keys")
        assert keys(await host.call("plane_query_tasks", state="open")) == ["OPS-1", "KB-1", "KB-4", "KB-3", "KB-2"]
        one_name = await host.call("plane_query_tasks", cycle="Sprint 1")
        assert (keys(one_name), one_name["note"]) == (["KB-1"], "OPS: no such name")
        ops = host.plane.project("OPS").row["id"]
        board_of(host.app.services).forget(ops)
        host.served.plan = for_requests("GET", f"/projects/{ops}{TASKS}", *[status(503)] * 20)
        some = await host.call("plane_query_tasks", state="open")
        assert keys(some) == ["KB-1", "KB-4", "KB-3", "KB-2"]
        assert "OPS: not searched" in some["note"]
        assert "OPS is not searched yet, and total leaves them out: next_cursor continues with them" in some["note"]
        host.served.plan = in_turn()
        host.served.forget()
        rest = await host.call("plane_query_tasks", state="open", cursor=some["next_cursor"])
        assert (keys(rest), rest["next_cursor"], rest["note"]) == (["OPS-1"], None, None)
        assert host.served.count("GET", TASKS) == 1
        assert not [seen for seen in host.served.seen if ops not in seen.path]


async def test_a_text_is_first_searched_for_so_that_few_projects_are_listed(tmp_path: Path) -> None:
    """A key may send 60 requests a minute."""
    async with working(tmp_path, level=1) as host:
        for number in range(20):
            host.plane.add_project(f"P{number}", f"Project {number}")
            host.plane.add_task(f"P{number}", "Something else")
        assert keys(await host.call("plane_query_tasks", text="stale rows")) == ["KB-1"]
        assert len(host.served.seen) <= 7


async def test_concurrent_callers_share_one_request(tmp_path: Path) -> None:

    async with working(tmp_path, level=1) as host:
        answers: list[Mapping[str, Any]] = []

        async def ask() -> None:
            answers.append(await host.call("plane_query_tasks", project="KB", state="todo"))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(ask)
        assert [keys(answer) for answer in answers] == [["KB-1"]] * 10
        assert host.served.count("GET", TASKS) == 1
        assert host.served.count("GET", "/projects/") == 1


async def test_a_task_is_found_by_key_in_any_case_by_id_and_by_its_address(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        row, project = host.plane.task("KB-1"), host.plane.project("KB").row
        address = f"{host.served.address}/acme"
        for asked in (
            "KB-1",
            "kb-1",
            row["id"],
            row["id"].upper(),
            f"{address}/browse/KB-1/",
            f"{address}/browse/kb-1?peek=1#top",
            f"{address}/projects/{project['id']}/issues/{row['id']}/",
        ):
            told = await host.call("plane_get_task", task=asked)
            assert (told["key"], told["id"]) == ("KB-1", row["id"]), asked
            assert told["url"] == f"{address}/browse/KB-1/"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("KB-9999", "no task KB-9999"),
        ("ZEB-1", "no project 'ZEB'"),
        ("KBB-1", "no project 'KBB'"),
        ("00000000-0000-4000-8000-000000000000", "look for it with plane_query_tasks"),
        ("the stale one", "names no task"),
        ("https://evil.example.com/acme/browse/KB-1/", "an address on another site"),
        ("{address}@evil.example.com/acme/browse/KB-1/", "an address on another site"),
        ("{address}/other/browse/KB-1/", "an address in another workspace"),
        ("{address}/acme/settings/", "not the address of a task"),
        ("../../users/me", "names no task"),
        ("KB-1/../../../users/me", "names no task"),
    ],
)
async def test_a_name_of_no_task_in_this_workspace_is_refused(tmp_path: Path, asked: str, told: str) -> None:
    async with working(tmp_path, level=1) as host:
        assert told in await host.refused("plane_get_task", task=asked.format(address=host.served.address))
        assert all(seen.path.startswith("/api/v1/workspaces/acme/") for seen in host.served.seen)


async def test_a_task_is_shown_with_names_and_its_text_as_markdown(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        told = await host.call("plane_get_task", task="KB-1")
        assert told["text"] == "After re-index the **old** rows stay."
        assert (told["project"], told["state"], told["priority"]) == ("Knowledge Base", "Todo", "high")
        assert (told["assignees"], told["labels"]) == (["ada", "mel"], ["bug"])
        assert (told["start"], told["due"]) == ("2026-11-20", "2026-12-01")
        assert (told["comments"], told["relations"], told["tainted"]) == ([], [], True)
        assert told["updated_at"].rstrip("Z") in host.plane.task("KB-1")["updated_at"]


async def test_comments_are_shown_first_to_last_by_name_and_relations_by_key(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        host.plane.add_comment("KB-1", "<p>Ask <mention-component entity_identifier='" + MEL.id + "'/></p>", by=MEL)
        host.plane.add_comment("KB-1", "<p>I am gone</p>", by=OTTO)
        host.plane.relate("KB-1", "blocking", "KB-2")
        told = await host.call("plane_get_task", task="KB-1", include=["comments", "relations"])
        assert [(said["by"], said["text"]) for said in told["comments"]] == [
            ("ada", "Seen again on build 42."),
            ("mel", "Ask @mel"),
            ("somebody", "I am gone"),
        ]
        assert told["relations"] == [{"kind": "blocks", "key": "KB-2", "name": "Minimal"}]


async def test_a_long_task_is_shown_in_parts_that_omit_nothing(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        lines = [f"<p>Line {number} of the text</p>" for number in range(2_000)]
        host.plane.change_task("KB-1", description_html="".join(lines))
        for number in range(30):
            host.plane.add_comment("KB-1", f"<p>{number} {'word ' * 400}</p>")
        text, said, cursor, parts = "", "", None, 0
        while True:
            told = await host.call("plane_get_task", task="KB-1", include=["comments"], cursor=cursor)
            parts += 1
            assert len(told["text"]) + sum(len(one["text"]) for one in told["comments"]) <= 20_000
            text, said = text + told["text"], said + " ".join(one["text"] for one in told["comments"])
            cursor = told["next_cursor"]
            if cursor is None:
                break
        assert text.split("\n\n") == [f"Line {number} of the text" for number in range(2_000)]
        assert said.count("word") == 30 * 400
        assert parts >= 4


async def test_a_task_that_changed_is_not_read_on_from_where_it_was(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        host.plane.change_task("KB-1", description_html=f"<p>{'word ' * 6_000}</p>")
        cursor = (await host.call("plane_get_task", task="KB-1"))["next_cursor"]
        assert cursor
        assert "without it" in await host.refused("plane_get_task", task="KB-2", cursor=cursor)
        host.plane.change_task("KB-1", description_html="<p>short</p>")
        assert "without it" in await host.refused("plane_get_task", task="KB-1", cursor=cursor)


@pytest.mark.security
async def test_projects_outside_of_the_allow_list_do_not_exist(tmp_path: Path) -> None:
    async with working(tmp_path, level=1, plane_projects=("kb",)) as host:
        secret = host.plane.add_task("OPS", "Rotate the keys", description_html="<p>hunter2</p>")
        host.plane.relate("KB-1", "blocking", "OPS-1")
        assert [line["key"] for line in (await host.call("plane_list_projects"))["projects"]] == ["KB"]
        assert keys(await host.call("plane_query_tasks", text="keys")) == []
        assert not [key for key in keys(await host.call("plane_query_tasks")) if key.startswith("OPS")]
        address = f"{host.served.address}/acme"
        ops = host.plane.project("OPS").row["id"]
        for asked in ("OPS-1", f"{address}/browse/OPS-1/", f"{address}/projects/{ops}/issues/{secret['id']}/"):
            assert "PLANE_PROJECTS" in await host.refused("plane_get_task", task=asked)
        assert "look for it" in await host.refused("plane_get_task", task=secret["id"])
        assert "PLANE_PROJECTS" in await host.refused("plane_query_tasks", project="Ops")
        assert "PLANE_PROJECTS" in await host.refused("plane_list_projects", project="OPS")
        told = await host.call("plane_get_task", task="KB-1", include=["relations"])
        assert told["relations"] == []
        assert "relations not shown: 1" in told["note"]
        assert not [seen for seen in host.served.seen if ops in seen.path]


async def test_an_archived_project_and_one_without_us_cannot_be_used_and_say_why(tmp_path: Path) -> None:
    async with working(tmp_path, level=1, plane_api_key=MEL.key) as host:
        host.plane.add_project("OLD", "Old", by=MEL).row["archived_at"] = "2026-01-01T00:00:00Z"
        assert [line["key"] for line in (await host.call("plane_list_projects"))["projects"]] == ["KB"]
        assert "is archived" in await host.refused("plane_query_tasks", project="OLD")
        assert "among its members" in await host.refused("plane_get_task", task="OPS-1")


async def test_new_names_are_found_although_names_are_cached_for_minutes(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        board = board_of(host.app.services)
        moment = [0.0]
        for kept in (board._projects, board.labels._cache):
            kept._monotonic = lambda: moment[0]
        assert "no label" in await host.refused("plane_query_tasks", project="KB", label="urgent-fix")
        asked = host.served.count("GET", "/labels/")
        assert "no label" in await host.refused("plane_query_tasks", project="KB", label="urgent-fix")
        assert host.served.count("GET", "/labels/") == asked
        host.plane.add_label("KB", "urgent-fix")
        moment[0] = 60.0
        assert keys(await host.call("plane_query_tasks", project="KB", label="urgent-fix")) == []
        assert host.served.count("GET", "/labels/") == asked + 1
        host.plane.add_project("NEW", "New")
        assert keys(await host.call("plane_query_tasks", project="NEW")) == []


async def test_a_lost_reply_is_requested_again_and_a_limit_is_reported(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        host.served.plan = in_turn(after(), status(503), None)
        assert keys(await host.call("plane_query_tasks", project="KB", state="todo")) == ["KB-1"]
        board_of(host.app.services).forget(host.plane.project("KB").row["id"])
        host.served.plan = for_requests("GET", TASKS, *[status(429, {"retry-after": "42"})] * 9)
        assert "Try again in 42 s" in await host.refused("plane_query_tasks", project="KB")


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"plane_api_key": "plane_api_wrong"}, "PLANE_API_KEY"),
        ({"plane_workspace": "nowhere"}, "no workspace nowhere"),
    ],
)
async def test_a_wrong_setting_is_named(tmp_path: Path, more: Mapping[str, Any], told: str) -> None:
    async with working(tmp_path, level=1, **more) as host:
        error = await host.refused("plane_list_projects")
        assert told in error
        assert ADA.key not in error
        assert len(error) <= 280


async def test_a_guest_reads_what_a_guest_may(tmp_path: Path) -> None:
    async with working(tmp_path, level=1, plane_api_key=GUS.key) as host:
        assert [line["key"] for line in (await host.call("plane_list_projects"))["projects"]] == ["KB"]
        assert keys(await host.call("plane_query_tasks", project="KB", state="todo")) == ["KB-1"]


@pytest.mark.security
async def test_reading_tasks_counts_as_reading_untrusted_text(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        taints = host.app.services.taints
        principal = "writer"
        await host.call("plane_list_projects")
        assert not await taints.of(await _principal(host, principal), "")
        await host.call("plane_query_tasks", project="KB", state="todo")
        assert set(await taints.of(await _principal(host, principal), "")) == {"plane:KB-1"}
        await host.call("plane_get_task", task="KB-2")
        assert set(await taints.of(await _principal(host, principal), "")) == {"plane:KB-1", "plane:KB-2"}


async def _principal(host: PlaneHost, _name: str) -> str:
    return str((await host.call("trust_status"))["principal"])


async def test_pages_that_a_task_names_are_listed(tmp_path: Path) -> None:
    async with working(tmp_path, level=1) as host:
        (host.settings.kb / "guides").mkdir(exist_ok=True)
        (host.settings.kb / "guides" / "search.md").write_text("# Search\n\nHow it works.\n", encoding="utf-8")
        host.plane.add_comment("KB-1", "<p>See kb:guides/search and kb:guides/nowhere.</p>")
        assert (await host.call("plane_get_task", task="KB-1"))["pages"] == []
        assert (await host.call("plane_get_task", task="KB-1", include=["comments"]))["pages"] == ["guides/search.md"]


async def test_as_evidence_a_task_is_its_whole_text_and_as_old_as_its_last_part(tmp_path: Path) -> None:
    """A task's date changes with every change of its state, so it says nothing about its text."""
    async with working(tmp_path, level=1, plane_projects=("KB",)) as host:
        board = board_of(host.app.services)
        comment = host.plane.add_comment("KB-1", "<p>Mended in <b>43</b></p>", by=MEL)
        host.plane.change_task("KB-1", name="Search returned stale rows")
        found = await fetch(board, "kb-1")
        assert found.text.split("\n\n") == [
            "Search returned stale rows",
            "After re-index the **old** rows stay.",
            "Seen again on build 42.",
            "Mended in **43**",
        ]
        assert found.at == datetime.fromisoformat(comment["created_at"])
        assert (found.title, found.url) == (
            "KB-1 Search returned stale rows",
            f"{host.served.address}/acme/browse/KB-1/",
        )
        silent = await fetch(board, "KB-2")
        assert silent.at == datetime.fromisoformat(host.plane.task("KB-2")["created_at"])
        for nothing in ("KB-9999", "OPS-1", "nonsense", "ZEB-1"):
            with pytest.raises(NoSuchSource, match=f"plane:{nothing}"):
                await fetch(board, nothing)
        host.served.plan = for_requests("GET", "/KB-1/", *[status(503)] * 20)
        with pytest.raises(SourceAway, match="plane:KB-1"):
            await fetch(board, "KB-1")


async def test_where_no_project_may_be_used_it_is_said_why(tmp_path: Path) -> None:
    """Otherwise a misspelt PLANE_PROJECTS looks like an empty Plane."""
    async with working(tmp_path, level=1, plane_projects=("KBB",)) as host:
        for tool in ("plane_list_projects", "plane_query_tasks"):
            assert "PLANE_PROJECTS" in (await host.call(tool))["note"]


async def test_after_our_own_change_every_list_with_the_task_is_reloaded(tmp_path: Path) -> None:
    """Lists are cached for half a minute, and a task that has just changed must not be shown as it was."""
    async with working(tmp_path, level=4) as host:
        asked: list[Mapping[str, str]] = [{}, {"cycle": "Sprint 1"}, {"module": "Indexing"}]
        for more in asked:
            assert keys(await host.call("plane_query_tasks", project="KB", state="todo", **more)) == ["KB-1"]
        assert (await host.call("plane_update_task", task="KB-1", state="Done"))["status"] == "done"
        for more in asked:
            assert keys(await host.call("plane_query_tasks", project="KB", state="todo", **more)) == [], more


@pytest.mark.security
async def test_a_task_that_is_hidden_in_one_project_is_no_obstacle_to_those_in_others(tmp_path: Path) -> None:
    """A guest sees only some tasks of a project; for any other one Plane answers 403."""
    async with working(tmp_path, level=1) as host:
        task = host.plane.add_task("OPS", "Patch the hosts")
        hidden = host.plane.project("KB").row["id"]
        refused = status(403, body='{"error": "You are not allowed to view this issue"}')
        host.served.plan = lambda _method, path, _number: refused if f"/{hidden}/work-items/" in path else None
        assert (await host.call("plane_get_task", task=task["id"]))["name"] == "Patch the hosts"
