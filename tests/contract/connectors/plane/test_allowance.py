"""Plane's 60 requests a minute: what is answered within them, by one process and by several, on a Plane with its real throttle.

Time is virtual: each request takes a quarter of a second of it, and waiting takes none of ours.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest

from knowledge.state.ports import StateStore
from mcp_server.app.settings.services import PlaneAccess
from mcp_server.connectors.errors import ServiceLimited
from mcp_server.connectors.http import RequestLimits, Sender, ServiceAddress, make_clients
from mcp_server.connectors.plane import wire
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.plane.model import TaskFields
from mcp_server.connectors.request.allowance import Allowance
from mcp_server.toolsets.plane.schemas import QueryArguments, TaskList
from mcp_server.toolsets.plane.task_queries import query_tasks
from tests.doubles.plane import ADA, WORKSPACE, Plane, plane_served
from tests.doubles.serving import Served
from tests.support.state.memory.state import MemoryStateStore

BEGIN = datetime(2026, 11, 20, 21, tzinfo=UTC)
A_REQUEST_S = 0.25
MINUTE_S = 60.0


@dataclass
class Clock:
    """A clock that tests turn."""

    seconds: float = 1_000.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await anyio.lowlevel.checkpoint()


@dataclass
class Throttled:
    """A Plane that allows 60 requests a minute, and boards on it: each as in a process of its own."""

    plane: Plane
    served: Served
    clock: Clock
    state: StateStore = field(default_factory=MemoryStateStore)

    @asynccontextmanager
    async def board(self, bounds: RequestLimits | None = None) -> AsyncIterator[Board]:
        clients, clock = make_clients(None), self.clock
        place = ServiceAddress(
            wire.SERVICE, self.served.address, wire.ADDRESS_SETTING, wire.headers_of(ADA.key), (ADA.key,)
        )
        allowance = Allowance(wire.SERVICE, "plane:test", self.state, now=clock.now, monotonic=clock.monotonic)
        sender = Sender(
            place,
            clients.kept,
            fresh=clients.fresh,
            sleep=clock.sleep,
            monotonic=clock.monotonic,
            bounds=bounds,
            allowance=allowance,
        )
        access = PlaneAccess(self.served.address, ADA.key, WORKSPACE)
        client = PlaneClient(sender, WORKSPACE)
        try:
            yield Board(client, access, now=clock.now, monotonic=clock.monotonic, reading_much=allowance.reading_much)
        finally:
            await clients.aclose()

    def projects(self, count: int, tasks: int = 3, *, labelled: bool = True) -> None:
        """Make projects with some tasks each, of which one is Ada's, with a label."""
        for number in range(count):
            key = f"P{number:02}"
            self.plane.add_project(key, f"Project {number}")
            label = self.plane.add_label(key, "urgent-fix")
            for task in range(tasks):
                mine: dict[str, Any] = (
                    {"assignees": [ADA.id], "labels": [label["id"]] if labelled else []} if task == 0 else {}
                )
                self.plane.add_task(key, "Mine" if mine else f"Task {task}", **mine)

    def spend(self, count: int) -> None:
        """Send so many requests as another program with the same key."""
        for _ in range(count):
            self.plane._within_limits(ADA)


@asynccontextmanager
async def throttled(allowance: int = 60) -> AsyncIterator[Throttled]:
    clock = Clock()
    plane = Plane(now=clock.now, monotonic=clock.monotonic, allowance=allowance)

    def takes_time(_method: str, _path: str, _number: int) -> None:
        clock.seconds += A_REQUEST_S

    async with plane_served(plane, plan=takes_time) as (served, _):
        yield Throttled(plane, served, clock)


async def ask(board: Board, **arguments: Any) -> TaskList:
    return await query_tasks(board, QueryArguments(**arguments))


def keys(answers: Sequence[TaskList]) -> list[str]:
    return [line.key for answer in answers for line in answer.tasks]


async def test_my_tasks_in_33_projects_are_answered_within_the_first_minute_and_complete_at_the_second_try() -> None:
    """It took five tries, 263 requests and 195 seconds when names were requested for each project."""
    async with throttled() as world, world.board() as board:
        world.projects(33)
        began = world.clock.seconds
        first = await ask(board, limit=100, assignee="me", state="open", created_by="me", sort="due")
        assert (len(first.tasks), first.total, first.next_cursor) == (33, 33, None)
        assert {(line.state, *line.assignees) for line in first.tasks} == {("Backlog", "ada")}
        # The projects, the owner of the key, the tasks of each project, all people; the rest were spent on names of labels.
        assert 36 < len(world.served.seen) <= 60
        assert world.clock.seconds - began < MINUTE_S
        assert "some names of people or labels could not be read; call again to get them" in str(first.note)
        world.clock.seconds = began + MINUTE_S + 5
        second = await ask(board, limit=100, assignee="me", state="open", created_by="me", sort="due")
        assert (len(second.tasks), second.total, second.note) == (33, 33, None)
        assert {(line.state, *line.assignees, *line.labels) for line in second.tasks} == {
            ("Backlog", "ada", "urgent-fix")
        }
        # Every list was requested once in both tries.
        assert len(world.served.seen) == 1 + 1 + 33 + 1 + 33
        for wanted in (
            {"assignee": ["ada", "me"]},
            {"label": "Urgent-Fix"},
            {"state": ["backlog", "started"], "text": "mine"},
        ):
            answer = await ask(board, limit=100, count_by="label", **wanted)
            assert (answer.total, answer.note, answer.counts) == (33, None, {"urgent-fix": 33})
        assert len(world.served.seen) == 69 + 1
        assert world.plane.refused == 0


async def test_of_80_projects_as_many_as_a_minute_allows_are_answered_and_the_cursor_asks_for_the_others_only() -> None:
    async with throttled() as world, world.board() as board:
        world.projects(80, labelled=False)
        answers = [await ask(board, limit=100, assignee="me")]
        read = answers[0].total
        # The last ten of the minute are for single tasks and acts; requests under way when that is known may count among them.
        assert 40 <= read <= 50
        assert len(world.served.seen) == 3 + read
        assert f"{80 - read} projects are not searched yet, and total leaves them out" in str(answers[0].note)
        assert {name for line in answers[0].tasks for name in line.assignees} == {"ada"}
        with pytest.raises(ServiceLimited) as early:
            await ask(board, limit=100, assignee="me", cursor=answers[0].next_cursor)
        assert early.value.wait_s <= MINUTE_S
        world.clock.seconds += early.value.wait_s
        world.served.forget()
        answers.append(await ask(board, limit=100, assignee="me", cursor=answers[0].next_cursor))
        assert (answers[1].total, answers[1].note, answers[1].next_cursor) == (80 - read, None, None)
        assert len(world.served.seen) == 80 - read
        found = keys(answers)
        assert len(found) == len(set(found)) == 80
        # Without a cursor, everything is in one order again.
        assert (await ask(board, limit=100, assignee="me")).total == 80
        assert len(world.served.seen) == 80 - read


async def test_lists_that_cannot_be_requested_again_are_used_for_five_minutes_and_the_answer_says_so() -> None:
    async with throttled() as world, world.board() as board:
        world.projects(70, labelled=False)
        await ask(board, assignee="me")
        world.clock.seconds += MINUTE_S
        assert (await ask(board, assignee="me")).total == 70
        world.clock.seconds += 2 * MINUTE_S
        aged = await ask(board, assignee="me", limit=100)
        assert (aged.total, aged.next_cursor) == (70, None)
        assert "s ago, because Plane accepts no more requests for now" in str(aged.note)
        assert world.plane.refused == 0


async def test_processes_that_share_a_state_share_the_minute(store: StateStore) -> None:
    """Whatever engine has the state. Both begin before Plane has told either how much is left."""
    async with throttled() as world:
        world.projects(40)
        world.state = store
        async with world.board() as one, world.board() as other:
            answers: list[TaskList] = []

            late: list[ServiceLimited] = []

            async def query(board: Board) -> None:
                try:
                    answers.append(await ask(board, limit=100, assignee="me"))
                except ServiceLimited as limited:
                    late.append(limited)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(query, one)
                tasks.start_soon(query, other)
            assert world.plane.refused == 0
            assert len(world.served.seen) <= 60
            # On a slow machine one may take the whole minute before the other asks: that one is told how long to wait.
            assert len(answers) + len(late) == 2
            assert all(limited.wait_s > 0 for limited in late)
            assert 40 <= sum(answer.total for answer in answers) <= 50
            # A single task is still read, at once and by either.
            for board in (one, other):
                assert (await board.task("P00-1"))[1].name == "Mine"
            assert world.plane.refused == 0


async def test_a_process_that_died_in_a_large_reading_costs_the_others_minutes_at_most(store: StateStore) -> None:
    async with throttled() as world:
        world.projects(40)
        world.state = store
        now = world.clock.now
        # As a killed reading leaves them: taken, and never given back.
        for number in range(5):
            assert await store.acquire_lease(f"allowance:plane:test:{number}", "dead", now=now(), ttl_s=180.0)
        async with world.board() as board:
            with pytest.raises(ServiceLimited) as limited:
                await ask(board, assignee="me")
            assert limited.value.wait_s == MINUTE_S
            world.clock.seconds += 180
            assert (await ask(board, assignee="me")).total == 40


async def test_requests_of_programs_that_we_know_nothing_of_count_too() -> None:
    """Plane says with each reply how many are left, no matter which process sent the others."""
    async with throttled() as world, world.board() as board:
        world.projects(40)
        world.spend(35)
        first = await ask(board, limit=100, assignee="me")
        # How many fit depends on the order in which replies come back.
        assert (world.plane.refused, len(world.served.seen) <= 25, 0 < first.total < 40) == (0, True, True)
        world.clock.seconds += MINUTE_S
        assert (await ask(board, limit=100, assignee="me")).total == 40


async def test_a_higher_limit_is_used() -> None:
    """API_KEY_RATE_LIMIT of a server of one's own, or 300 for a service's key."""
    async with throttled(allowance=300) as world, world.board() as board:
        world.projects(150, tasks=1)
        assert (await ask(board, assignee="me")).total == 150


async def test_without_room_a_list_of_half_a_minute_ago_is_better_than_none_and_the_next_page_is_not_lost() -> None:
    async with throttled() as world, world.board() as board:
        world.projects(1, tasks=2_500)
        project = await board.project("P00")
        world.spend(57)
        world.clock.seconds += 20
        # Two of the three pages come; Plane refuses the third.
        with pytest.raises(ServiceLimited) as limited:
            await ask(board, project="P00")
        world.clock.seconds += limited.value.wait_s
        world.served.forget()
        assert (await ask(board, project="P00")).total == 2_500
        assert [seen.query["cursor"] for seen in world.served.seen] == ["1000:2:0"]
        world.clock.seconds += MINUTE_S
        world.spend(60)
        aged = await ask(board, project=project.key)
        assert (aged.total, str(aged.note)[:16]) == (2_500, "P00: data from 6")
        board.forget(project.id)
        with pytest.raises(ServiceLimited):
            await ask(board, project="P00")


async def test_a_server_that_is_too_slow_for_a_thousand_tasks_a_page_is_asked_for_fewer() -> None:
    async with throttled() as world, world.board(bounds=RequestLimits(reply_s=0.3, tries=1)) as board:
        world.projects(2, tasks=600)
        rightly = world.plane._get_tasks

        def slowly(asked: Any, project_id: str) -> Any:
            if asked.query["per_page"] == "1000":
                time.sleep(0.5)
            return rightly(asked, project_id)

        world.plane._get_tasks = slowly  # type: ignore[method-assign]  # a slow Plane
        assert (await ask(board, project="P00")).total == 600
        assert (await ask(board, project="P01")).total == 600
        sizes = [seen.query["per_page"] for seen in world.served.seen if seen.path.endswith("/work-items/")]
        assert sizes == ["1000", *["250"] * 6]


async def test_a_write_waits_a_few_seconds_for_plane() -> None:
    async with throttled() as world, world.board() as board:
        world.projects(1)
        project, task = await board.task("P00-1")
        world.spend(58)
        world.clock.seconds += MINUTE_S - 4
        world.served.forget()
        changed = await board.client.update_task(project.id, task.id, TaskFields(name="Renamed"))
        assert changed.name == world.plane.task("P00-1")["name"] == "Renamed"
        assert (len(world.served.seen), world.plane.refused) == (2, 1)


async def test_an_act_looks_names_up_again_that_are_older_than_ten_seconds() -> None:
    """Reading uses names for five minutes."""
    async with throttled() as world, world.board() as board:
        world.projects(1)
        project = await board.project("P00", near=False)
        for lookup in (
            partial(board.state, project, "Done"),
            partial(board.person, project, "ada"),
            partial(board.labels.named, project, "urgent-fix"),
            partial(board.project, "P00"),
        ):
            await lookup(near=False)
            asked = len(world.served.seen)
            await lookup(near=False)
            assert len(world.served.seen) == asked
            world.clock.seconds += 11
            await lookup()
            assert len(world.served.seen) == asked
            await lookup(near=False)
            assert len(world.served.seen) == asked + 1


async def test_a_few_tasks_are_read_one_by_one_and_many_at_once() -> None:
    """For relations and sub-tasks: however many there are, they cost at most two requests."""
    async with throttled() as world, world.board() as board:
        world.projects(1, tasks=30)
        project = await board.project("P00")
        ids = [row["id"] for row in world.plane.tasks("P00")]
        gone = "00000000-0000-4000-8000-000000000000"
        world.served.forget()
        assert set(await board.tasks_by_id(project, [ids[0], gone])) == {ids[0]}
        assert len(world.served.seen) == 2
        assert list((await board.tasks_by_id(project, [*ids[:20], gone])).keys() - set(ids[:20])) == []
        assert len(world.served.seen) == 3
        assert set(await board.tasks_by_id(project, [ids[7]])) == {ids[7]}
        assert len(world.served.seen) == 3
