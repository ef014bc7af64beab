"""The client of Plane on a bad network, with an exhausted rate limit, a strange server, and a list whose pages loop."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mcp_server.connectors.errors import (
    ConnectorError,
    Denied,
    NoAnswer,
    ReplyLost,
    ServiceLimited,
    Unreachable,
    WrongAddress,
)
from mcp_server.connectors.http import RequestLimits, Sender, ServiceAddress, make_clients
from mcp_server.connectors.plane import wire
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.plane.model import PlaneTask, TaskFields
from mcp_server.connectors.plane.pagination import read_all
from tests.doubles import serving
from tests.doubles.plane import ADA, GUS, MEL, OTTO, WORKSPACE, Account, Plane, plane_served, seeded
from tests.doubles.serving import Fault, Plan, Served, for_requests, in_turn

QUICK = RequestLimits(silence_s=0.5, reply_s=1.0, connect_s=1.0)
DRAFT = TaskFields(name="Once")


@dataclass
class Here:
    """A double, its client, and how long the client waited."""

    running: Served
    double: Plane
    plane: PlaneClient
    waits: list[float] = field(default_factory=list)

    @property
    def kb(self) -> str:
        """Return the id of the project KB."""
        return str(self.double.project("KB").row["id"])

    @staticmethod
    def running_soon(done: threading.Event) -> None:
        """Set the event once the server has begun to act."""
        asyncio.get_running_loop().call_soon(done.set)

    def once(self) -> list[str]:
        """Return the ids of the tasks made from the draft."""
        return [task["id"] for task in self.double.tasks("KB") if task["name"] == "Once"]


@asynccontextmanager
async def here(
    plan: Plan = serving.no_fault, *, double: Plane | None = None, who: Account = ADA, workspace: str = WORKSPACE
) -> AsyncIterator[Here]:
    """Yield a client with the key of `who`."""
    clients = make_clients(None)
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async with plane_served(double, plan=plan) as (running, trust_record):
        place = ServiceAddress(
            wire.SERVICE, running.address, wire.ADDRESS_SETTING, wire.headers_of(who.key), (who.key,)
        )
        sender = Sender(place, clients.kept, fresh=clients.fresh, sleep=sleep, monotonic=time.monotonic, bounds=QUICK)
        try:
            yield Here(running, trust_record, PlaneClient(sender, workspace), waits)
        finally:
            await clients.aclose()


LOST: list[tuple[str, Fault, bool]] = [
    ("cut after it acted", serving.after(), True),
    ("cut before it acted", serving.before(), False),
    ("500 after it acted", serving.status(500, body="{}", acts=True), True),
    ("503 before it acted", serving.status(503, {"retry-after": "1"}), False),
    ("HTML after it acted", serving.html(), True),
    ("half a reply", serving.truncated(), True),
    ("too large a reply", serving.oversized(9_000_000), True),
    ("a list where a task was due", serving.body('{"results": [], "next_page_results": false}'), True),
    ("a task without an id", serving.body('{"name": "Once"}'), True),
    ("nothing at all", serving.status(201, acts=True), True),
]


@pytest.mark.parametrize(("fault", "acted"), [entry[1:] for entry in LOST], ids=[entry[0] for entry in LOST])
async def test_a_create_without_a_usable_reply_is_sent_once_and_found_by_its_key(fault: Fault, *, acted: bool) -> None:
    """It is never reported as failed, and never sent again automatically.

    Plane's check of the key and its write are not atomic.
    """
    async with here(for_requests("POST", "/work-items/", fault)) as at:
        with pytest.raises(ReplyLost):
            await at.plane.create_task(at.kb, DRAFT, "kf-1")
        assert at.running.count("POST", "/work-items/") == 1
        assert len(at.once()) == int(acted)
        found = await at.plane.task_by_external(at.kb, "kf-1")
        assert (found is not None) == acted


async def test_two_concurrent_creates_with_one_key_are_two_tasks() -> None:
    """A gap of Plane's that we pin: it checks the key before it writes.

    That is why a create is never sent again at once.
    """
    async with here() as at:
        both = threading.Barrier(2)

        async def pause() -> None:
            await asyncio.to_thread(both.wait, 5)

        at.double.pause = pause
        made = await asyncio.gather(
            at.plane.create_task(at.kb, DRAFT, "kf-1"), at.plane.create_task(at.kb, DRAFT, "kf-1")
        )
        assert {type(one) for one in made} == {PlaneTask}
        assert len(at.once()) == 2


async def test_a_create_that_is_written_after_its_reply_was_given_up_is_found_then() -> None:
    """A request whose reply was lost may still be in progress: at first nothing is found, later it exists once."""
    async with here() as at:
        done, go_on = threading.Event(), threading.Event()

        async def pause() -> None:
            await asyncio.to_thread(go_on.wait, 5)
            at.running_soon(done)

        at.double.pause = pause
        with pytest.raises(ReplyLost):
            await at.plane.create_task(at.kb, DRAFT, "kf-1")
        assert await at.plane.task_by_external(at.kb, "kf-1") is None
        go_on.set()
        await asyncio.to_thread(done.wait, 5)
        found = await at.plane.task_by_external(at.kb, "kf-1")
        assert found is not None
        assert at.once() == [found.id]


async def test_a_comment_without_a_usable_reply_is_sent_once_and_found_by_its_key() -> None:
    """Plane can't look up a comment by its key, so the comments are read."""
    async with here(for_requests("POST", "/comments/", serving.after())) as at:
        task = at.double.task("KB-2")["id"]
        with pytest.raises(ReplyLost):
            await at.plane.create_comment(at.kb, task, "<p>Seen</p>", "kf-2")
        assert at.running.count("POST") == 1
        found = await at.plane.comment_by_external(at.kb, task, "kf-2")
        assert found is not None
        assert [row["id"] for row in at.double.comments("KB-2")] == [found.id]


async def test_a_change_without_a_reply_is_sent_once_because_someone_may_build_on_it() -> None:
    """Setting the same values twice is harmless only if nobody else writes in between."""
    async with here(for_requests("PATCH", "/", serving.after())) as at:
        task = at.double.task("KB-2")["id"]
        with pytest.raises(ReplyLost):
            await at.plane.update_task(at.kb, task, TaskFields(priority="urgent"))
        assert (at.double.task("KB-2")["priority"], at.running.count("PATCH"), at.waits) == ("urgent", 1, [])


async def test_a_question_is_retried_when_the_network_stumbles() -> None:
    """Reads may be retried."""
    async with here(in_turn(serving.before(), serving.status(502), None)) as at:
        assert len((await at.plane.tasks(at.kb)).items) == 4
        assert at.running.count("GET") == 3


async def test_a_used_up_allowance_says_for_how_long() -> None:
    """Source: err_429. It asks to be left alone for the rest of the minute, which nobody waits for here."""
    async with here(double=seeded(allowance=2, monotonic=lambda: 0.0)) as at:
        await at.plane.me()
        await at.plane.me()
        for call in (at.plane.me(), at.plane.create_task(at.kb, DRAFT, "kf-1")):
            with pytest.raises(ServiceLimited) as caught:
                await call
            assert caught.value.wait_s == 60
        assert (at.once(), at.waits) == ([], [])


async def test_a_short_wait_is_waited_for() -> None:
    """`Retry-After` may be an integer or missing."""
    limited = serving.status(
        429, {"retry-after": "1.5"}, '{"error_code": 5900, "error_message": "RATE_LIMIT_EXCEEDED"}'
    )
    async with here(in_turn(limited, None)) as at:
        assert (await at.plane.me()).name == "ada"
        assert at.waits == [1.5]


async def test_a_guest_reads_and_writes_nothing() -> None:
    """Source: guest_list, err_guest_create_403."""
    async with here(who=GUS) as at:
        assert len((await at.plane.tasks(at.kb)).items) == 4
        with pytest.raises(Denied, match="guests can only read"):
            await at.plane.create_task(at.kb, DRAFT, "kf-1")
        assert at.once() == []


async def test_a_project_is_listed_for_non_members_and_says_so() -> None:
    """Source: err_nonmember_project_403. All of the workspace can see a public project."""
    async with here(who=MEL) as at:
        listed = {project.key: project for project in (await at.plane.projects()).items}
        assert (listed["KB"].member, listed["OPS"].member) == (True, False)
        with pytest.raises(Denied):
            await at.plane.tasks(listed["OPS"].id)
        assert await at.plane.search("ops") == ()


async def test_someone_outside_the_workspace_is_told_so() -> None:
    """Source: err_other_workspace."""
    async with here(who=OTTO) as at:
        with pytest.raises(Denied, match="there is no workspace acme"):
            await at.plane.projects()


async def test_people_who_may_not_be_assigned_are_dropped_and_the_reply_shows_it() -> None:
    """Source: work_item_create_badassignee; guests cannot be assigned either."""
    async with here() as at:
        draft = TaskFields(name="For whom", assignee_ids=(MEL.id, GUS.id, OTTO.id))
        made = await at.plane.create_task(at.kb, draft, "kf-3")
        assert isinstance(made, PlaneTask)
        assert made.assignee_ids == (MEL.id,)


@pytest.mark.parametrize("base", ["/nowhere", "/api/v1"])
async def test_an_address_without_plane_is_reported(base: str) -> None:
    """Plane answers unknown paths with its own 404; another server with an HTML page."""
    async with here(in_turn(*[serving.html(404)] * 4) if base == "/nowhere" else serving.no_fault) as at:
        place = ServiceAddress(
            wire.SERVICE, f"{at.running.address}{base}", wire.ADDRESS_SETTING, wire.headers_of(ADA.key), ()
        )
        clients = make_clients(None)
        sender = Sender(place, clients.kept, fresh=clients.fresh, sleep=_never, monotonic=time.monotonic)
        with pytest.raises(ConnectorError, match="PLANE_BASE_URL"):
            await PlaneClient(sender, WORKSPACE).projects()
        await clients.aclose()


async def test_a_create_that_is_redirected_is_not_followed_and_says_where_it_led() -> None:
    """Many clients follow with a GET, which gets a 200: nothing was created and nothing complained."""
    async with here(for_requests("POST", "/", serving.redirected("https://elsewhere.example/", 301))) as at:
        with pytest.raises(WrongAddress, match=r"elsewhere\.example"):
            await at.plane.create_task(at.kb, DRAFT, "kf-1")
        assert (at.running.count("POST"), at.running.count("GET"), at.once()) == (1, 0, [])


async def test_nobody_listens_and_that_is_said() -> None:
    """Nothing was sent, so nothing happened."""
    async with here() as at:
        clients = make_clients(None)
        place = ServiceAddress(
            wire.SERVICE, "http://127.0.0.1:9", wire.ADDRESS_SETTING, wire.headers_of(ADA.key), (ADA.key,)
        )
        sender = Sender(
            place, clients.kept, fresh=clients.fresh, sleep=_no_wait, monotonic=time.monotonic, bounds=QUICK
        )
        with pytest.raises(Unreachable):
            await PlaneClient(sender, WORKSPACE).create_task(at.kb, DRAFT, "kf-1")
        await clients.aclose()


async def test_1200_tasks_are_listed_in_few_requests_without_their_texts() -> None:
    """A key has only 60 requests a minute."""
    async with here(double=many(1200)) as at:
        walked = await read_all(lambda cursor: at.plane.tasks(at.kb, cursor))
        assert (len(walked.items), walked.note) == (1200, None)
        assert {task.number for task in walked.items} == set(range(1, 1201))
        assert at.running.count("GET", "/work-items/") == 2
        assert all(task.html is None for task in walked.items)


@pytest.mark.parametrize(
    ("cursor", "goes_on", "rows", "read", "why"),
    [
        ("250:2:0", True, True, 750, "circle"),
        ("250:0:0", True, True, 750, "nothing new"),
        ("250:3:0", True, False, 500, "nothing new"),
        ("250:3:0", False, True, 750, "ended early"),
    ],
)
async def test_1200_tasks_behind_a_cursor_that_leads_nowhere_end_and_it_is_said(
    cursor: str, *, goes_on: bool, rows: bool, read: int, why: str
) -> None:
    """The third page leads to itself, to the first one, is empty, or claims to be the last."""
    async with here(double=many(1200)) as at:
        asked = f"per_page=250&order_by=-created_at&fields={wire.LEAN}&cursor=250:2:0"
        path = f"/api/v1/workspaces/{WORKSPACE}/projects/{at.kb}/work-items/"
        page = at.double.answered("GET", path, asked, {"x-api-key": ADA.key}, b"").body
        page |= {"next_cursor": cursor, "next_page_results": goes_on, "results": page["results"] if rows else []}
        at.running.plan = in_turn(None, None, serving.body(json.dumps(page)))
        walked = await read_all(lambda cursor: at.plane.tasks(at.kb, cursor, 250, order_by="-created_at"))
        assert len(walked.items) == len({task.id for task in walked.items}) == read
        assert walked.note is not None
        assert why in walked.note
        assert f"{read} of 1200" in walked.note


async def test_a_list_that_stays_unreadable_is_no_answer() -> None:
    """A malformed page is not an empty one."""
    async with here(in_turn(*[serving.body("{}")] * 4)) as at:
        with pytest.raises(NoAnswer, match="whether it is the last"):
            await at.plane.tasks(at.kb)


def many(number: int) -> Plane:
    """Return a workspace with this many tasks in KB."""
    plane = Plane()
    plane.add_project("KB", "Knowledge Base")
    for at in range(number):
        plane.add_task("KB", f"Task {at}", description_html="<p>Text</p>")
    return plane


async def _never(_seconds: float) -> None:
    raise AssertionError("nothing was to be waited for")


async def _no_wait(_seconds: float) -> None:
    return None
