"""Worker processes: promises to callers that send large texts, and to the others (kb/decisions/0047)."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from knowledge.errors import NoSuchSection, TooMuchWaiting, TooMuchWork
from knowledge.offload import CALLER
from mcp_server.fair_use.turns import Turns
from mcp_server.workers.pool import MOST_WAITING, RETIRES_AT_BYTES, Workers
from tests.support.processes import worker_steps as slow_steps

LARGE = 1_000_000
LONGEST_S = 60.0


@asynccontextmanager
async def workers(**limits: float) -> AsyncIterator[Workers]:
    pool = Workers(**limits)  # type: ignore[arg-type]  # whole numbers where whole numbers belong
    try:
        yield pool
    finally:
        await pool.close()


async def until(happens: Callable[[], bool]) -> None:
    with anyio.fail_after(LONGEST_S):
        while not happens():  # noqa: ASYNC110  (another process tells of itself by a file)
            await anyio.sleep(0.005)


def runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_small_text_is_processed_immediately_and_a_large_one_in_another_process() -> None:
    async with workers() as pool:
        assert await pool.run(slow_steps.process, None, size=10, what="this") == os.getpid()
        first = await pool.run(slow_steps.process, None, size=LARGE, what="this")
        assert first != os.getpid()
        assert await pool.run(slow_steps.process, None, size=LARGE, what="this") == first
    await until(lambda: not runs(first))


async def test_a_call_whose_step_is_in_another_process_holds_no_turn(tmp_path: Path) -> None:
    started, turns = tmp_path / "started", Turns({"change": 1}, each=1)
    async with workers() as pool, anyio.create_task_group() as tasks:

        async def call() -> None:
            async with turns.turn("ann", "change"):
                await pool.run(slow_steps.endless, started, size=LARGE, what="this")

        tasks.start_soon(call)
        await until(started.exists)
        async with turns.turn("ann", "change"):
            tasks.cancel_scope.cancel()


async def test_a_worker_is_used_again_however_large_the_server_is() -> None:
    """The kernel may report the parent's peak memory for a new process."""
    ballast = bytearray(b"x") * (RETIRES_AT_BYTES + 2**20)
    async with workers() as pool:
        first = await pool.run(slow_steps.process, None, size=LARGE, what="this")
        await anyio.sleep(0.1)  # it would have ended by now
        assert await pool.run(slow_steps.process, None, size=LARGE, what="this") == first
    assert ballast


async def test_a_worker_that_used_much_memory_is_replaced_after_its_step() -> None:
    async with workers(retires_at_bytes=1) as pool:
        first = await pool.run(slow_steps.process, None, size=LARGE, what="this")
        assert await pool.run(slow_steps.process, None, size=LARGE, what="this") != first


async def test_a_caller_that_is_cancelled_stops_its_worker(tmp_path: Path) -> None:
    """Cancelling stops the work within 200 ms. Here it only has to stop: `tests.benchmarks.hostile` measures how fast."""
    started = tmp_path / "started"
    async with workers() as pool:
        async with anyio.create_task_group() as tasks:

            async def work() -> None:
                await pool.run(slow_steps.endless, started, size=LARGE, what="this")

            tasks.start_soon(work)
            await until(started.exists)
            process = int(started.read_text(encoding="utf-8"))
            assert runs(process)
            tasks.cancel_scope.cancel()
        assert not runs(process)
        assert await pool.run(slow_steps.process, None, size=LARGE, what="this") != process


async def test_closing_the_server_stops_its_workers(tmp_path: Path) -> None:
    started = tmp_path / "started"
    async with workers() as pool, anyio.create_task_group() as tasks:

        async def work() -> None:
            with pytest.raises(TooMuchWork):
                await pool.run(slow_steps.endless, started, size=LARGE, what="this")

        tasks.start_soon(work)
        await until(started.exists)
        await pool.close()
    assert not runs(int(started.read_text(encoding="utf-8")))


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on processor time there; the clock's is tested beside")
async def test_a_step_has_a_budget_of_processor_time_and_its_error_says_what_to_do(tmp_path: Path) -> None:
    async with workers(cpu_s=1) as pool:
        with pytest.raises(TooMuchWork) as told:
            await pool.run(
                slow_steps.endless, tmp_path / "started", size=LARGE, what="merging 24,000 characters into a.md"
            )
    assert str(told.value) == (
        "merging 24,000 characters into a.md is too much work for one call: it takes more than 1 s of processor time. "
        "Nothing was changed. Split the text or the page: fewer rows, keys, list items or levels of nesting in each part"
    )


async def test_a_step_has_a_budget_by_the_clock_too() -> None:
    async with workers(wall_s=0.5) as pool:
        with pytest.raises(TooMuchWork, match=r"it takes more than 0 s"):
            await pool.run(slow_steps.asleep, LONGEST_S, size=LARGE, what="this")


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the address space")
async def test_a_step_has_a_budget_of_memory() -> None:
    async with workers(memory_bytes=512 * 2**20) as pool:
        with pytest.raises(TooMuchWork, match=r"it takes more than 512 MiB of memory"):
            await pool.run(slow_steps.greedy, 600 * 2**20, size=LARGE, what="this")
        assert await pool.run(slow_steps.greedy, 2**20, size=LARGE, what="this") == 2**20


async def test_nesting_too_deep_for_the_interpreter_is_reported_as_that() -> None:
    async with workers() as pool:
        with pytest.raises(TooMuchWork, match=r"it is nested too deeply"):
            await pool.run(slow_steps.deep, 100_000, size=LARGE, what="this")


async def test_a_domain_error_comes_back_unchanged() -> None:
    async with workers() as pool:
        with pytest.raises(NoSuchSection, match=r"a\.md has no section 'Limits'; it has: One; Two") as told:
            await pool.run(slow_steps.wrong, "a.md", size=LARGE, what="this")
    assert told.value.sections == ("One", "Two")


async def test_each_caller_has_one_step_at_a_time_and_another_does_not_wait_for_it(tmp_path: Path) -> None:
    async with workers(most=2) as pool, anyio.create_task_group() as tasks:
        begun: list[Path] = [tmp_path / "first", tmp_path / "second"]

        async def work(caller: str, started: Path) -> None:
            CALLER.set(caller)
            await pool.run(slow_steps.endless, started, size=LARGE, what="this")

        tasks.start_soon(work, "mallory", begun[0])
        await until(begun[0].exists)
        tasks.start_soon(work, "mallory", begun[1])
        CALLER.set("ann")
        with anyio.fail_after(LONGEST_S):
            assert await pool.run(slow_steps.process, None, size=LARGE, what="this") != os.getpid()
        assert not begun[1].exists()
        tasks.cancel_scope.cancel()


async def test_a_caller_with_too_many_waiting_steps_is_refused(tmp_path: Path) -> None:
    async with workers(patience_s=LONGEST_S) as pool, anyio.create_task_group() as tasks:
        started = tmp_path / "started"

        async def work() -> None:
            await pool.run(slow_steps.endless, started, size=LARGE, what="this")

        for _ in range(MOST_WAITING):
            tasks.start_soon(work)
        await until(started.exists)
        with pytest.raises(TooMuchWaiting) as told:
            await work()
        tasks.cancel_scope.cancel()
    assert str(told.value) == (
        "this was not started: 4 of your large texts are still being processed. Nothing was changed. Send large texts one at a time, "
        "and try again"
    )


async def test_waiting_for_a_turn_has_an_end(tmp_path: Path) -> None:
    async with workers(patience_s=0.1) as pool, anyio.create_task_group() as tasks:
        started = tmp_path / "started"
        tasks.start_soon(lambda: pool.run(slow_steps.endless, started, size=LARGE, what="this"))
        await until(started.exists)
        with pytest.raises(TooMuchWaiting, match=r"it waited 0 s for its turn"):
            await pool.run(slow_steps.process, None, size=LARGE, what="this")
        tasks.cancel_scope.cancel()


async def test_a_worker_loads_nothing_from_the_folder_that_the_server_was_started_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cloned repository must not run code through a folder named `knowledge`."""
    (tmp_path / "knowledge").mkdir()
    for name in ("knowledge/__init__.py", "struct.py", "sitecustomize.py", "anyio.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'caught')!r}, 'w').close()\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PLANE_API_KEY", "a secret")
    monkeypatch.syspath_prepend("")
    async with workers() as pool:
        assert str(tmp_path) not in await pool.run(slow_steps.modules, "knowledge", size=LARGE, what="this")
    assert not (tmp_path / "caught").exists()
