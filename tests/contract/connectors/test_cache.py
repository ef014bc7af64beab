"""Answers of another service are cached; however many callers ask at once, one request is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from mcp_server.connectors.cache import ReplyCache
from mcp_server.connectors.errors import NoAnswer


class Asked:
    """A service that answers, with the number of the request, once it is allowed to."""

    def __init__(self) -> None:
        self.count = 0
        self.let = anyio.Event()
        self.fails = False

    async def __call__(self) -> int:
        self.count += 1
        number = self.count
        await self.let.wait()
        if self.fails:
            raise NoAnswer("Plane", "the connection was cut")
        return number


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def together(count: int, call: Callable[[], Awaitable[object]], then: Callable[[], None]) -> list[object]:
    """Return the results of this many simultaneous calls, errors included.

    `then` is called when all are in progress.
    """
    got: list[object] = []

    async def one() -> None:
        try:
            got.append(await call())
        except NoAnswer as error:
            got.append(error)

    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(one)
        await anyio.wait_all_tasks_blocked()
        then()
    return got


async def test_of_fifty_callers_one_asks_and_all_get_its_answer() -> None:
    asked, cache = Asked(), ReplyCache[int](Clock(), longest_s=30)
    assert await together(50, lambda: cache.get("a", asked), asked.let.set) == [1] * 50
    assert asked.count == 1


async def test_of_fifty_callers_one_asks_and_all_get_its_error_and_the_next_one_asks_again() -> None:
    asked, cache = Asked(), ReplyCache[int](Clock(), longest_s=30)
    asked.fails = True
    got = await together(50, lambda: cache.get("a", asked), asked.let.set)
    assert all(isinstance(one, NoAnswer) for one in got)
    assert asked.count == 1
    asked.fails = False
    assert await cache.get("a", asked) == 2


async def test_a_caller_that_leaves_passes_its_question_to_another() -> None:
    asked, cache = Asked(), ReplyCache[int](Clock(), longest_s=30)
    got: list[int] = []

    async def waits() -> None:
        got.append(await cache.get("a", asked))

    first = anyio.CancelScope()

    async def asks() -> None:
        with first:
            await cache.get("a", asked)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(asks)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(waits)
        tasks.start_soon(waits)
        await anyio.wait_all_tasks_blocked()
        first.cancel()
        await anyio.wait_all_tasks_blocked()
        asked.let.set()
    assert got == [2, 2]


async def test_a_cached_answer_is_valid_for_its_time_or_less_on_request() -> None:
    clock, asked = Clock(), Asked()
    asked.let.set()
    cache = ReplyCache[int](clock, longest_s=30)
    assert cache.age_s("a") is None
    assert await cache.get("a", asked) == 1
    clock.now = 29.0
    assert await cache.get("a", asked) == 1
    assert await cache.get("a", asked, at_most_s=5) == 2
    clock.now = 59.5
    assert await cache.get("b", asked) == 3
    assert list(cache.values()) == [3]


async def test_an_answer_in_progress_when_the_cache_was_cleared_is_not_kept() -> None:
    """A list requested before a task changed may lack the change."""
    asked, cache = Asked(), ReplyCache[int](Clock(), longest_s=30)

    def change() -> None:
        cache.forget("a")
        asked.let.set()

    assert await together(2, lambda: cache.get("a", asked), change) == [1, 1]
    assert await cache.get("a", asked) == 2
