"""The service that holds the lease: real files and the system's own events, stores in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from time import time_ns
from typing import TYPE_CHECKING

import anyio
import anyio.from_thread
import pytest

from knowledge.errors import CorruptDatabase
from knowledge.index import indexing_service
from knowledge.index.indexer import Indexer
from knowledge.index.indexing_service import IndexingService
from knowledge.pages.vault import Vault
from knowledge.search.query.analysis import words
from knowledge.state.ports import IndexIdentity, Lease
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.state.memory.index import MemoryIndexStore
from tests.support.state.memory.state import MemoryStateStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from knowledge.state.ports import StateStore

IDENTITY = IndexIdentity("hashed", 64, 1)


class Process:
    """The parts of one process among several."""

    def __init__(self, root: Path, state: StateStore, index: MemoryIndexStore, holder: str = "one") -> None:
        async def keyword() -> MemoryKeywordIndex:
            return MemoryKeywordIndex(lambda row: words(row.text))

        async def embedder(_: IndexIdentity) -> MemoryEmbedder:
            return MemoryEmbedder()

        self.index, self.rebuilt = index, list[str]()
        self.indexer = Indexer(Vault.open(root), index, keyword=keyword, embedder=embedder, now_ns=time_ns)
        self.service = IndexingService(
            state,
            self.indexer,
            wanted=lambda: IDENTITY,
            holder=holder,
            now=partial(datetime.now, UTC),
            rebuild=self._rebuild,
        )

    async def _rebuild(self, reason: str) -> None:
        self.rebuilt.append(reason)

    async def paths(self) -> set[str]:
        return set(await self.index.stamps())


@asynccontextmanager
async def running(*processes: Process) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        for process in processes:
            tasks.start_soon(process.service.run)
        yield
        tasks.cancel_scope.cancel()


async def until(holds: Callable[[], Awaitable[bool]], within_s: float = 10.0) -> None:
    with anyio.fail_after(within_s):
        while not await holds():  # noqa: ASYNC110  what is waited for happens in stores and files, which tell nobody
            await anyio.sleep(0.01)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "kb"
    root.mkdir()
    (root / "a.md").write_text("# A\n", encoding="utf-8")
    return root


async def test_a_file_that_changes_is_indexed_and_announced(root: Path) -> None:
    state = MemoryStateStore()
    process = Process(root, state, MemoryIndexStore())

    async def has(paths: set[str]) -> bool:
        return await process.paths() == paths

    async with running(process):
        await until(partial(has, {"a.md"}))
        (root / "new").mkdir()
        (root / "new" / "b.md").write_text("# B\n", encoding="utf-8")
        await until(partial(has, {"a.md", "new/b.md"}))
        (root / "new").rename(root / "moved")
        await until(partial(has, {"a.md", "moved/b.md"}))
        (root / "a.md").unlink()
        await until(partial(has, {"moved/b.md"}))

        async def announced() -> bool:
            return {"a.md", "new/b.md", "moved/b.md"} <= {
                e.key for e in await state.events_after(0) if e.topic == "doc"
            }

        await until(announced)
    assert process.service.problems == ()


async def test_many_changes_are_announced_as_one(root: Path) -> None:
    for number in range(indexing_service.MOST_EVENTS + 1):
        (root / f"{number}.md").write_text("text", encoding="utf-8")
    state = MemoryStateStore()
    async with running(Process(root, state, MemoryIndexStore())):

        async def announced() -> bool:
            return bool(await state.events_after(0))

        await until(announced)
    assert [(event.topic, event.key) for event in await state.events_after(0)] == [("map", "")]


async def test_one_of_two_indexes_and_the_other_takes_over(root: Path) -> None:
    state, index = MemoryStateStore(), MemoryIndexStore()
    one, two = Process(root, state, index, "one"), Process(root, state, index, "two")
    async with running(two):
        async with running(one):

            async def led() -> bool:
                return one.service.leading or two.service.leading

            await until(led)
            assert one.service.leading != two.service.leading

        async def two_leads() -> bool:
            return two.service.leading

        await until(two_leads)


async def test_a_lease_that_was_given_just_as_its_process_was_stopped_is_released(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who moves the state to another database would be told that a server still uses it."""
    state, given = MemoryStateStore(), anyio.Event()
    acquire = state.acquire_lease

    async def slow(name: str, holder: str, *, now: datetime, ttl_s: float) -> Lease | None:
        lease = await acquire(name, holder, now=now, ttl_s=ttl_s)
        given.set()
        await anyio.sleep_forever()
        return lease

    monkeypatch.setattr(state, "acquire_lease", slow)
    async with running(Process(root, state, MemoryIndexStore())):
        await given.wait()
    assert await state.lease(indexing_service.LEASE) is None


async def test_a_holder_whose_lease_was_taken_stops_and_asks_again(root: Path) -> None:
    state, index = MemoryStateStore(), MemoryIndexStore()
    process = Process(root, state, index)
    async with running(process):

        async def leads() -> bool:
            return process.service.leading

        await until(leads)
        await state.release_lease(indexing_service.LEASE, "one")
        await state.acquire_lease(indexing_service.LEASE, "thief", now=datetime.now(UTC), ttl_s=60)

        async def stopped() -> bool:
            return not process.service.leading

        await until(stopped)
        await state.release_lease(indexing_service.LEASE, "thief")
        await until(leads)


async def test_a_folder_that_goes_away_is_reported_and_comes_back(root: Path, tmp_path: Path) -> None:
    process = Process(root, MemoryStateStore(), MemoryIndexStore())

    async def has_b() -> bool:
        return "b.md" in await process.paths()

    async def has_a() -> bool:
        return "a.md" in await process.paths()

    async def reported() -> bool:
        return any("there is no such folder" in problem.reason for problem in process.service.problems)

    async def clean() -> bool:
        return process.service.problems == ()

    async with running(process):
        await until(has_a)
        root.rename(tmp_path / "away")  # noqa: ASYNC240  one rename
        await until(reported)
        assert await process.paths() == {"a.md"}, "what was indexed can still be found"
        (tmp_path / "away" / "b.md").write_text("# B\n", encoding="utf-8")
        (tmp_path / "away").rename(root)
        await until(has_b)
        await until(clean)


async def test_a_damaged_index_is_rebuilt(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = Process(root, MemoryStateStore(), MemoryIndexStore())
    begin, broken = process.index.begin, [CorruptDatabase("index.db", "malformed")]

    async def damaged(identity: IndexIdentity) -> bool:
        if broken:
            raise broken.pop()
        return await begin(identity)

    monkeypatch.setattr(process.index, "begin", damaged)

    async def has_a() -> bool:
        return "a.md" in await process.paths()

    async with running(process):
        await until(has_a)
    assert process.rebuilt == ["malformed"]


async def test_an_index_that_another_process_emptied_is_filled_again(root: Path) -> None:
    process = Process(root, MemoryStateStore(), MemoryIndexStore())

    async def has_a() -> bool:
        return "a.md" in await process.paths()

    async with running(process):
        await until(has_a)
        await process.index.begin(IndexIdentity("another", 1, 2))
        assert not await has_a()
        await until(has_a)


async def test_where_files_cannot_be_watched_they_are_compared(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's limit on watches is small by default on some distributions."""

    async def exhausted(*_: object) -> None:
        raise OSError(28, "OS file watch limit reached")

    monkeypatch.setattr(indexing_service, "follow", exhausted)
    monkeypatch.setattr(indexing_service, "LOOK_S", 0.1)
    monkeypatch.setattr(indexing_service, "HEARTBEAT_S", 0.05)
    process = Process(root, MemoryStateStore(), MemoryIndexStore())
    identity, beats = process.indexer.vault.identity, []

    def beat() -> tuple[int, int]:
        beats.append(anyio.from_thread.run_sync(anyio.current_time))
        return identity()

    monkeypatch.setattr(process.indexer.vault, "identity", beat)
    monkeypatch.setattr(process.indexer.vault, "check", lambda: None)  # it asks for the identity as well

    async def has(path: str) -> bool:
        return path in await process.paths()

    async with running(process):
        await until(partial(has, "a.md"))
        (root / "b.md").write_text("# B\n", encoding="utf-8")
        await until(partial(has, "b.md"))
        assert "files cannot be watched" in process.service.problems[0].reason
        assert len(beats) <= (beats[-1] - beats[0]) / 0.04 + 3, "it rests between looks"
