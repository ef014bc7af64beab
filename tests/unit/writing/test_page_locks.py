"""One writer of a page at a time, in one process and across processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from knowledge.errors import DocumentBusy
from knowledge.writing.locks.page_locks import POLLING_S, SLOTS, Locks, slot_of

ROOT = Path(__file__).parents[3]
HOLDER = """
import anyio, sys
from pathlib import Path
from knowledge.writing.locks.page_locks import Locks

async def main():
    async with Locks(Path(sys.argv[1])).held(sys.argv[2:]):
        print("held", flush=True)
        sys.stdin.read()

anyio.run(main)
"""
RACER = """
import anyio, sys, time
from pathlib import Path
from knowledge.writing.locks.page_locks import Locks

async def main():
    locks, counter = Locks(Path(sys.argv[1])), Path(sys.argv[2])
    sys.stdin.read()
    waits = []
    end = time.monotonic() + float(sys.argv[3])
    while time.monotonic() < end:
        began = time.monotonic()
        async with locks.held(["page.md"]):
            waits.append(time.monotonic() - began)
            number = int(counter.read_text())
            time.sleep(0.001)
            counter.write_text(str(number + 1))
    print(len(waits), max(waits))

anyio.run(main)
"""


def holder(folder: Path, *paths: str) -> subprocess.Popen[str]:
    """Start a process that holds these locks; it holds them when this returns."""
    command = [sys.executable, "-c", HOLDER, str(folder), *paths]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


async def test_tasks_of_one_process_hold_a_page_one_after_the_other_in_their_order(tmp_path: Path) -> None:
    locks, order, inside = Locks(tmp_path), [], 0

    async def write(number: int) -> None:
        nonlocal inside
        async with locks.held(["a.md"]):
            inside += 1
            await anyio.lowlevel.checkpoint()
            assert inside == 1
            order.append(number)
            inside -= 1

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(write, number)
    assert order == list(range(20))


async def test_two_views_of_one_folder_exclude_each_other(tmp_path: Path) -> None:
    async with Locks(tmp_path).held(["a.md"]):
        with pytest.raises(DocumentBusy, match=r"a\.md has been locked by another process"):
            async with Locks(tmp_path, longest_wait_s=0.05).held(["b.md", "a.md"]):
                raise AssertionError("it is held elsewhere")
    async with Locks(tmp_path).held(["b.md", "a.md"]):
        pass


async def test_other_pages_are_not_waited_for(tmp_path: Path) -> None:
    async with Locks(tmp_path).held(["a.md"]):
        assert slot_of("a.md") != slot_of("b.md")
        with anyio.fail_after(60):
            async with Locks(tmp_path).held(["b.md"]):
                pass


async def test_several_pages_taken_in_any_order_never_wait_for_each_other(tmp_path: Path) -> None:
    paths = [f"{number}.md" for number in range(6)]

    async def write(locks: Locks, turn: int) -> None:
        for number in range(15):
            async with locks.held([*paths[(turn + number) % 6 :], *paths[: turn % 3]]):
                await anyio.lowlevel.checkpoint()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            for turn in range(6):
                group.start_soon(write, Locks(tmp_path), turn)


async def test_pages_that_share_a_lock_file_can_be_held_together(tmp_path: Path) -> None:
    first = "0.md"
    other = next(path for n in range(1, 100 * SLOTS) if slot_of(path := f"{n}.md") == slot_of(first))
    async with Locks(tmp_path, longest_wait_s=1).held([first, other]):
        pass


async def test_a_cancelled_waiter_holds_nothing_afterwards(tmp_path: Path) -> None:
    mine, other = Locks(tmp_path), Locks(tmp_path)
    async with mine.held(["a.md"]):
        with anyio.move_on_after(0.02) as scope:
            async with other.held(["a.md", "b.md"]):
                raise AssertionError("it is held elsewhere")
        assert scope.cancelled_caught
    with anyio.fail_after(60):
        async with mine.held(["a.md", "b.md"]), Locks(tmp_path).held(["c.md"]):
            pass


async def test_a_free_lock_is_distinguished_from_a_held_one(tmp_path: Path) -> None:
    mine, other = Locks(tmp_path), Locks(tmp_path)
    async with mine.held(["a.md"]):
        async with other.held_if_free(["b.md", "a.md"]) as free:
            assert not free
        async with mine.held_if_free(["a.md"]) as free:
            assert not free
    async with other.held_if_free(["b.md", "a.md"]) as free:
        assert free
        with pytest.raises(DocumentBusy):
            async with Locks(tmp_path, longest_wait_s=0.02).held(["b.md"]):
                raise AssertionError("it is held elsewhere")


async def test_waiting_leaves_the_event_loop_to_others(tmp_path: Path) -> None:
    """A waiter that blocked it would wait for a lock of its own process, until it fails."""
    async with Locks(tmp_path).held(["a.md"]), anyio.create_task_group() as group:
        group.start_soon(_wait, Locks(tmp_path))
        for _ in range(20):
            await anyio.sleep(0.001)
        group.cancel_scope.cancel()


async def _wait(locks: Locks) -> None:
    async with locks.held(["a.md"]):
        raise AssertionError("it is held elsewhere")


@pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")
async def test_a_killed_holder_gives_its_locks_back(tmp_path: Path) -> None:
    """Released when its holder dies."""
    process = holder(tmp_path, "a.md", "b.md")
    locks = Locks(tmp_path, longest_wait_s=60)
    async with Locks(tmp_path).held_if_free(["b.md"]) as free:
        assert not free
    process.send_signal(signal.SIGKILL)
    async with locks.held(["a.md", "b.md"]):
        pass
    process.communicate()
    assert process.returncode == -signal.SIGKILL


async def test_the_folder_does_not_grow_with_the_pages(tmp_path: Path) -> None:
    locks = Locks(tmp_path)
    for number in range(2 * SLOTS):
        async with locks.held([f"page {number}.md"]):
            pass
    assert len(list(tmp_path.iterdir())) <= 2 * SLOTS  # noqa: ASYNC240  nothing else runs here
    assert not locks._queues


def _race(folder: Path, processes: int, seconds: float) -> list[tuple[int, float]]:
    """Let processes compete for one page and return how often each had it, and each one's longest wait."""
    (folder / "counter").write_text("0")
    command = [sys.executable, "-c", RACER, str(folder / "locks"), str(folder / "counter"), str(seconds)]
    racers = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    time.sleep(1)  # all have started; a late one waits less, which does no harm
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
        racer.stdin = None
    said = [racer.communicate()[0].split() for racer in racers]
    return [(int(turns), float(wait)) for turns, wait in said]


@pytest.mark.external
def test_eight_processes_on_one_page_count_right_and_none_starves(tmp_path: Path) -> None:
    """They release the lock and want it again at once."""
    raced = _race(tmp_path, 8, 4.0)
    turns = [count for count, _ in raced]
    assert int((tmp_path / "counter").read_text()) == sum(turns)
    print("turns:", turns, "longest wait:", [round(wait, 3) for _, wait in raced])  # noqa: T201 - measured, with -s
    assert min(turns) >= 2
    assert max(wait for _, wait in raced) < 2 * POLLING_S
