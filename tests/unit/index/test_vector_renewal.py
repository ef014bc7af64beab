"""Switching to another embedder while files change, the embedder fails, and searches continue."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import numpy as np
import pytest
from numpy.typing import NDArray

from knowledge.errors import EmbedderUnavailable
from knowledge.index import indexing_service as watch
from knowledge.index import vector_renewal as renewal
from knowledge.index.embed.ports import Embedder, KnownEmbedders
from knowledge.index.indexer import Indexer
from knowledge.index.indexing_service import IndexingService
from knowledge.index.vector_renewal import begin
from knowledge.pages.vault import Vault
from knowledge.state.ports import IndexIdentity, IndexPosition, Progress
from tests.support.index.memory_embedder import MemoryEmbedder
from tests.support.index.memory_engines import MemoryKeywordIndex
from tests.support.state.memory.index import MemoryIndexStore
from tests.support.state.memory.state import MemoryStateStore

OLD, NEW = IndexIdentity("hashed-words-64/1", 64, 1), IndexIdentity("hashed-words-96/1", 0, 1)


class Lab:
    """A folder, an index in memory, and embedders that can be broken or paused."""

    def __init__(self, root: Path) -> None:
        self.root, self.index = root, MemoryIndexStore()
        self.broken: set[str] = set()
        self.poison: str | None = None
        self.gate: anyio.Event | None = None
        self.asked: list[str] = []
        self.progress: list[Progress] = []
        self.indexer = Indexer(
            Vault.open(root),
            self.index,
            keyword=self._keyword,
            embedder=self._embedder,
            now_ns=time.time_ns,
            on_renewal=self.progress.append,
        )

    async def _keyword(self) -> MemoryKeywordIndex:
        return MemoryKeywordIndex(lambda row: row.text.split())

    async def _embedder(self, identity: IndexIdentity) -> Embedder:
        return _Watched(self, 96 if identity.same_vectors(NEW) else 64)

    def put(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, encoding="utf-8")

    async def lengths(self) -> dict[str, int]:
        """Return the length of the vector of each text."""
        rows = (await self.index.delta(IndexPosition("", 0), limit=10**6, texts=True)).texts
        halves = await self.index.halves([row.seq for row in rows])
        return {row.text: len(half) // 2 for row, half in zip(rows, halves, strict=True)}


class _Watched(MemoryEmbedder):
    def __init__(self, lab: Lab, dimensions: int) -> None:
        super().__init__(dimensions)
        self._lab = lab

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        lab = self._lab
        if lab.gate is not None and self.dimensions == 96:
            await lab.gate.wait()
        if self.name in lab.broken:
            raise EmbedderUnavailable(self.name, "it is down", "wait")
        if lab.poison is not None and any(lab.poison in text for text in texts):
            raise ValueError("cannot")
        lab.asked += texts
        return await super().embed(texts)


@pytest.fixture
async def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path)
    for number in range(5):
        made.put(f"{number}.md", f"text {number}")
    await made.index.begin(OLD)
    await made.indexer.reconcile(1)
    return made


async def test_files_that_change_meanwhile_serve_at_once_and_are_in_the_exchange(lab: Lab) -> None:
    await lab.index.begin(NEW)
    lab.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lab.indexer.renew, 1)
        await anyio.wait_all_tasks_blocked()
        lab.put("late.md", "late text")
        lab.put("0.md", "other text")
        (lab.root / "1.md").unlink()
        await lab.indexer.update(["late.md", "0.md", "1.md"], 1)
        assert (await lab.lengths())["late text"] == 64, "found by its meaning before the exchange"
        lab.gate.set()
    assert (await lab.index.space()).identity == IndexIdentity(NEW.embedder, 96, 1)
    assert await lab.lengths() == dict.fromkeys(["text 2", "text 3", "text 4", "other text", "late text"], 96)
    assert lab.progress[-1].done == lab.progress[-1].total


async def test_a_run_that_stores_old_vectors_is_over_before_the_exchange(lab: Lab) -> None:
    """The one danger within a process: a batch embedded before the exchange and stored after it."""
    lab.put("late.md", "late text")
    await lab.index.begin(NEW)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lab.indexer.update, ["late.md"], 1)
        tasks.start_soon(lab.indexer.renew, 1)
    assert set((await lab.lengths()).values()) == {96}
    assert "late text" in await lab.lengths()


async def test_what_was_embedded_stays_when_the_embedder_fails_halfway(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "BATCH", 2)
    await lab.index.begin(NEW)
    lab.asked.clear()
    supply = lab.index.supply

    async def once(*args: object, **other: object) -> bool:
        lab.broken.add("hashed-words-96/1")
        return await supply(*args, **other)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(lab.index, "supply", once)
    with pytest.raises(EmbedderUnavailable):
        await lab.indexer.renew(1)
    assert await lab.index.renewal() == Progress(2, 5)
    assert set((await lab.lengths()).values()) == {64}
    lab.broken.clear()
    monkeypatch.setattr(lab.index, "supply", supply)
    assert await lab.indexer.renew(1)
    assert len(lab.asked) == 5, "nothing is embedded twice"
    assert not await lab.indexer.renew(1), "there is nothing more to do"


async def test_pages_saved_while_the_embedder_is_down_are_found_by_words_and_get_vectors_later(lab: Lab) -> None:
    lab.broken.add("hashed-words-64/1")
    lab.put("late.md", "late text")
    lab.put("1.md", "---\ntitle: 0\n---\ntext 0")
    await lab.indexer.update(["late.md", "1.md"], 1)
    assert (await lab.lengths())["late text"] == 0
    assert (await lab.lengths())["text 0"] == 64, "what is known needs no embedder"
    with pytest.raises(EmbedderUnavailable):
        await lab.indexer.renew(1)
    lab.broken.clear()
    generation = (await lab.index.space()).position.generation
    assert await lab.indexer.renew(1)
    assert set((await lab.lengths()).values()) == {64}
    assert (await lab.index.space()).position.generation != generation


async def test_a_saved_page_does_not_wait_long_for_an_embedder_that_hangs(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.index.begin(NEW)
    await lab.indexer.renew(1)
    monkeypatch.setattr("knowledge.index.indexer.EMBED_S", 0.01)
    lab.gate = anyio.Event()
    lab.put("late.md", "late text")
    with anyio.fail_after(60):
        await lab.indexer.update(["late.md"], 1)
    assert (await lab.lengths())["late text"] == 0
    lab.gate.set()
    assert await lab.indexer.renew(1)
    assert (await lab.lengths())["late text"] == 96


async def test_a_passage_that_cannot_be_embedded_does_not_hold_up_the_others(lab: Lab) -> None:
    await lab.index.begin(NEW)
    lab.poison = "text 3"
    assert await lab.indexer.renew(1)
    rows = (await lab.index.delta(IndexPosition("", 0), limit=99, texts=True)).texts
    zeros = {
        row.text: not any(half) for row, half in zip(rows, await lab.index.halves([r.seq for r in rows]), strict=True)
    }
    assert zeros == {f"text {n}": n == 3 for n in range(5)}
    lab.poison = "text"
    await lab.index.begin(OLD)
    with pytest.raises(ValueError, match="cannot"):
        await lab.indexer.renew(1)
    assert (await lab.index.space()).identity.same_vectors(NEW)


async def test_whoever_wants_a_third_embedder_meanwhile_gets_it(lab: Lab) -> None:
    await lab.index.begin(NEW)
    lab.gate = anyio.Event()
    exchanged: list[bool] = []

    async def renew() -> None:
        exchanged.append(await lab.indexer.renew(1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(renew)
        await anyio.wait_all_tasks_blocked()
        await lab.index.begin(OLD)
        lab.gate.set()
    assert exchanged == [False]
    assert set((await lab.lengths()).values()) == {64}


async def test_an_empty_index_begins_with_the_embedder_that_is_there_at_once() -> None:
    index = MemoryIndexStore()
    await begin(index, NEW, OLD)
    assert (await index.space()).identity == OLD
    await index.begin(NEW)
    await begin(index, NEW, OLD)
    assert (await index.space()).identity == NEW, "nothing was ever in it, and the wanted one is recorded already"


async def test_a_filled_index_is_not_begun_with_another_embedder_again(lab: Lab) -> None:
    await begin(lab.index, NEW, OLD)
    space = await lab.index.space()
    assert (space.identity, space.coming) == (OLD, NEW)
    await begin(lab.index, NEW, OLD)
    assert await lab.index.space() == space


async def test_an_index_of_an_older_recipe_starts_over_with_the_embedder_that_is_quick(lab: Lab) -> None:
    """Decision 20: an empty index always starts with the static embedder, even if it had vectors of the wanted one."""
    lab.put("a.md", "some text")
    await begin(lab.index, replace(NEW, recipe=NEW.recipe - 1), None)
    await lab.indexer.reconcile(1)
    await begin(lab.index, NEW, OLD)
    assert (await lab.index.space()).identity == OLD
    await lab.indexer.reconcile(1)
    await begin(lab.index, NEW, OLD)
    space = await lab.index.space()
    assert (space.identity, space.coming) == (OLD, NEW)


async def test_an_embedder_is_loaded_once_and_again_only_after_a_failure() -> None:
    loads: list[str] = []

    def load(identity: IndexIdentity) -> Embedder:
        loads.append(identity.embedder)
        if len(loads) == 1:
            raise EmbedderUnavailable(identity.embedder, "not yet", "wait")
        return MemoryEmbedder()

    known = KnownEmbedders(load, rest_s=0)
    with pytest.raises(EmbedderUnavailable):
        await known.of(OLD)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(known.of, OLD)
    assert loads == [OLD.embedder] * 2


async def test_one_that_could_not_be_loaded_is_left_alone_for_a_moment() -> None:
    loads: list[str] = []

    def load(identity: IndexIdentity) -> Embedder:
        loads.append(identity.embedder)
        raise EmbedderUnavailable(identity.embedder, "down", "wait")

    known = KnownEmbedders(load, rest_s=60)
    for identity in (OLD, OLD, NEW, OLD):
        with pytest.raises(EmbedderUnavailable, match="down"):
            await known.of(identity)
    assert loads == [OLD.embedder, NEW.embedder]


async def test_whoever_indexes_takes_the_embedder_up_when_it_is_back_and_says_what_it_waits_for(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("RETRY_S", 0.02), ("LONGEST_RETRY_S", 0.05), ("RENEW_LOOK_S", 0.02), ("HEARTBEAT_S", 0.05)):
        monkeypatch.setattr(watch, name, seconds)
    lab.broken.add("hashed-words-96/1")
    service = IndexingService(
        MemoryStateStore(), lab.indexer, wanted=lambda: NEW, at_once=OLD, holder="one", now=partial(datetime.now, UTC)
    )

    async def until(holds: Callable[[], Awaitable[bool]]) -> None:
        with anyio.fail_after(60):
            while not await holds():  # noqa: ASYNC110  what is waited for happens in a store, which tells nobody
                await anyio.sleep(0.01)

    async def waits() -> bool:
        return any("have no vectors of the configured embedder" in problem.reason for problem in service.problems)

    async def lengths_are(length: int) -> bool:
        return set((await lab.lengths()).values()) == {length}

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(service.run)
        await until(waits)
        lab.put("late.md", "late text")

        async def late_serves() -> bool:
            return (await lab.lengths()).get("late text") == 64

        await until(late_serves)
        lab.broken.clear()
        await until(partial(lengths_are, 96))

        async def content() -> bool:
            return not service.problems

        await until(content)
        tasks.cancel_scope.cancel()
    assert (await lab.index.space()).identity.same_vectors(NEW)
