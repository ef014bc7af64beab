"""One writer of a page at a time, on any number of machines: two folders of locks represent two machines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from knowledge.errors import DocumentBusy
from knowledge.state.postgres.database import PostgresAddress
from knowledge.writing.locks.page_locks import Locks
from knowledge.writing.locks.postgres_locks import PostgresLocks
from tests.support.state.postgres import PostgresServer


@pytest.fixture
async def machines(tmp_path: Path, postgres: PostgresServer) -> AsyncIterator[list[PostgresLocks]]:
    server = PostgresAddress(postgres.url(), "locks")
    made = [PostgresLocks(Locks(tmp_path / name), server, "kb", longest_wait_s=0.3) for name in ("one", "two")]
    yield made
    for locks in made:
        await locks.close()


async def test_a_page_that_one_machine_writes_waits_on_the_other(machines: list[PostgresLocks]) -> None:
    one, two = machines
    async with one.held(["a.md", "b.md"]):
        async with two.held_if_free(["b.md"]) as free:
            assert not free
        async with two.held_if_free(["c.md"]) as free:
            assert free
        with pytest.raises(DocumentBusy, match=r"b\.md"):
            async with two.held(["b.md"]):
                raise AssertionError("held twice")
    async with two.held(["b.md"]):
        pass


async def test_many_on_two_machines_take_turns(machines: list[PostgresLocks]) -> None:
    inside, most = 0, 0

    async def write(locks: PostgresLocks) -> None:
        nonlocal inside, most
        async with locks.held(["a.md", "b.md"]):
            inside += 1
            most = max(most, inside)
            await anyio.lowlevel.checkpoint()
            inside -= 1

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(write, machines[number % 2])
    assert most == 1


async def test_other_knowledge_bases_in_the_same_database_are_not_waited_for(
    machines: list[PostgresLocks], tmp_path: Path, postgres: PostgresServer
) -> None:
    other = PostgresLocks(Locks(tmp_path / "other"), PostgresAddress(postgres.url(), "other"), "another")
    async with AsyncExitStack() as stack:
        stack.push_async_callback(other.close)
        await stack.enter_async_context(machines[0].held(["a.md"]))
        assert await stack.enter_async_context(other.held_if_free(["a.md"]))


async def test_a_lock_dies_with_its_holders_connection(machines: list[PostgresLocks], postgres: PostgresServer) -> None:
    one, two = machines
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(one.held(["a.md"]))
        connection = await PostgresAddress(postgres.url(), "locks").connect()
        stack.push_async_callback(connection.close)
        await connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        )
        async with two.held(["a.md"]):
            pass
