"""Callers take turns, however many calls each of them has sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest

from knowledge.errors import NoTurn
from mcp_server.fair_use.turns import Turns, leave_turn


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def held(turns: Turns, who: str = "first", calls: int = 1, lane: str = "read") -> AsyncIterator[None]:
    """Have another client's calls hold their turns, or wait for them."""
    end = anyio.Event()

    async def hold() -> None:
        async with turns.turn(who, lane):
            await end.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(hold)
        await anyio.wait_all_tasks_blocked()
        yield
        end.set()


async def order_of(turns: Turns, calls: Sequence[str]) -> list[str]:
    """Send all calls while another caller holds the only place, and return the callers in the order of their turns."""
    order: list[str] = []

    async def call(who: str) -> None:
        async with turns.turn(who, "read"):
            order.append(who)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks, held(turns):
        for who in calls:
            tasks.start_soon(call, who)
        await anyio.wait_all_tasks_blocked()
        assert order == []
    return order


async def test_callers_take_turns_and_not_calls() -> None:
    """Decision 116."""
    assert await order_of(Turns({"read": 1}, each=1, clock=Clock()), [*["heavy"] * 4, "ann", "bob", "ann"]) == [
        *("heavy", "ann", "bob", "heavy", "ann", "heavy", "heavy"),
    ]


async def used(turns: Turns, clock: Clock, who: str, seconds: float, lane: str = "read") -> None:
    """Let a call of that caller take so long."""
    async with turns.turn(who, lane):
        clock.now += seconds


async def test_the_caller_that_used_the_least_time_lately_comes_first() -> None:
    clock = Clock()
    turns = Turns({"read": 1}, each=1, clock=clock)
    for who, seconds in (("heavy", 9), ("bob", 2), ("ann", 1)):
        await used(turns, clock, who, seconds)
    assert await order_of(turns, ["heavy", "bob", "ann"]) == ["ann", "bob", "heavy"]


@pytest.mark.parametrize(("later_s", "waits"), [(0.0, 1), (60.0, 0)])
async def test_a_caller_that_used_much_more_starts_no_call_while_another_ones_runs(later_s: float, waits: int) -> None:
    """Also in the other lane: calls share one interpreter. After a while that is forgotten."""
    clock = Clock()
    turns = Turns({"read": 2, "change": 2}, each=2, clock=clock)
    await used(turns, clock, "heavy", 5, "change")
    clock.now += later_s
    async with anyio.create_task_group() as tasks, held(turns, "ann"):
        tasks.start_soon(used, turns, clock, "heavy", 0)
        await anyio.wait_all_tasks_blocked()
        assert turns.waiting == waits
    assert turns.waiting == 0


async def test_a_caller_whose_call_runs_for_long_comes_to_have_used_as_much() -> None:
    clock = Clock()
    turns = Turns({"read": 1, "change": 1}, each=1, clock=clock)
    await used(turns, clock, "heavy", 3)
    begun, end = anyio.Event(), anyio.Event()

    async def call() -> None:
        async with turns.turn("heavy", "read"):
            begun.set()
            await end.wait()

    async with anyio.create_task_group() as tasks, held(turns, "ann", lane="change"):
        tasks.start_soon(call)
        await anyio.wait_all_tasks_blocked()
        assert turns.waiting == 1
        clock.now += 4
        await begun.wait()
        end.set()


async def test_one_caller_cannot_take_every_place() -> None:
    turns = Turns({"read": 3}, each=2)
    async with held(turns, "heavy", calls=10):
        assert turns.waiting == 8
        async with turns.turn("ann", "read"):
            pass
    assert turns.waiting == 0


async def test_a_call_within_a_call_takes_no_turn_and_a_task_that_outlives_its_call_takes_one() -> None:
    turns, later = Turns({"read": 1}, each=1), anyio.Event()
    got = []

    async def after_the_call() -> None:
        await later.wait()
        async with turns.turn("ann", "read"):
            got.append("a turn of its own")

    async with anyio.create_task_group() as tasks:
        async with turns.turn("ann", "read"), turns.turn("ann", "read"):
            tasks.start_soon(after_the_call)
        async with held(turns, "bob"):
            later.set()
            await anyio.wait_all_tasks_blocked()
            assert not got
    assert got == ["a turn of its own"]


async def test_a_call_that_waits_for_a_service_leaves_its_turn_to_others() -> None:
    turns, waits, end = Turns({"read": 1}, each=1), anyio.Event(), anyio.Event()

    async def call() -> None:
        async with turns.turn("ann", "read"):
            leave_turn()
            leave_turn()
            waits.set()
            await end.wait()
            async with turns.turn("ann", "read"):
                pass  # a call within it, while others hold every place

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call)
        await waits.wait()
        async with held(turns, "bob"):
            assert turns.waiting == 0
            end.set()
            await anyio.wait_all_tasks_blocked()
    assert await order_of(turns, ["ann"]) == ["ann"]


@pytest.mark.parametrize("calls", [1, 2])
async def test_a_caller_that_goes_away_leaves_its_place_whether_it_runs_or_waits(calls: int) -> None:
    turns = Turns({"read": 1}, each=1)
    async with anyio.create_task_group() as tasks:
        for _ in range(calls):
            tasks.start_soon(_forever, turns)
        await anyio.wait_all_tasks_blocked()
        assert turns.waiting == calls - 1
        tasks.cancel_scope.cancel()
    assert turns.waiting == 0
    assert await order_of(turns, ["ann"]) == ["ann"]


async def test_a_full_queue_and_a_long_wait_are_refused_with_the_reason() -> None:
    impatient = Turns({"read": 1}, each=1, patience_s=0.01)
    async with held(impatient):
        with pytest.raises(
            NoTurn, match=r"^the server is busy: this call waited 0 s .* Nothing was done\. Try again in 5 s$"
        ):
            await _once(impatient)
    full = Turns({"read": 1}, each=1, most_waiting=2)
    async with held(full, calls=3):
        with pytest.raises(NoTurn, match="2 calls wait for their turn"):
            await _once(full)


async def _once(turns: Turns) -> None:
    async with turns.turn("bob", "read"):
        pass


async def _forever(turns: Turns) -> None:
    async with turns.turn("heavy", "read"):
        await anyio.sleep_forever()
