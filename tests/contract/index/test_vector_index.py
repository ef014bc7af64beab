"""The promises of every vector index; memory is the specification."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from knowledge.index.engines.codes import CodesVectorIndex, encode
from knowledge.index.ports import VectorIndex
from knowledge.state.ports import IndexIdentity, Remove, Replace
from tests.contract.index.test_index_store import IDENTITY, page
from tests.support.index.memory_engines import MemoryVectorIndex
from tests.support.index.qdrant import PLACES, engine_at
from tests.support.state.memory.index import MemoryIndexStore

Vectors = NDArray[np.float32]


def some(count: int, seed: int = 0) -> Vectors:
    vectors = np.random.default_rng(seed).standard_normal((count, 256)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def embedded(path: str, vectors: Vectors) -> Replace:
    plain = page(path, *(f"{path} {i}" for i in range(len(vectors))))
    stored: Sequence[tuple[bytes, bytes]] = [
        (vector.astype("<f2").tobytes(), code.tobytes()) for vector, code in zip(vectors, encode(vectors), strict=True)
    ]
    chunks = (replace(chunk, half=half, code=code) for chunk, (half, code) in zip(plain.chunks, stored, strict=True))
    return replace(plain, chunks=tuple(chunks))


@pytest.fixture(params=["memory", "codes", *PLACES])
async def index(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[VectorIndex]:
    if request.param not in PLACES:
        yield MemoryVectorIndex() if request.param == "memory" else CodesVectorIndex()
        return
    async with PLACES[request.param](tmp_path) as place:
        opened = engine_at(place)
        yield opened
        await opened.close()


@pytest.fixture
async def store() -> MemoryIndexStore:
    made = MemoryIndexStore()
    await made.begin(IDENTITY)
    return made


async def brought(index: VectorIndex, store: MemoryIndexStore) -> None:
    """Let a remote engine catch up; an embedded one must not need it."""
    if await index.position() is not None:
        await index.catch_up(store)


async def test_the_nearest_come_first_with_their_cosine(index: VectorIndex, store: MemoryIndexStore) -> None:
    vectors = some(300)
    await store.apply([embedded("a.md", vectors)], fence=1)
    await brought(index, store)
    hits = await index.search(store, vectors[17] * 5, limit=10)
    expected = np.argsort(-(vectors @ vectors[17]))[:10]
    assert [hit.seq for hit in hits] == [int(i) + 1 for i in expected]
    assert hits[0].score == pytest.approx(1, abs=1e-3)
    assert [hit.score for hit in hits] == pytest.approx((vectors @ vectors[17])[expected].tolist(), abs=1e-3)


async def test_it_is_never_behind_its_store(index: VectorIndex, store: MemoryIndexStore) -> None:
    vectors = some(40)
    assert await index.search(store, vectors[0], limit=5) == []
    await store.apply([embedded("a.md", vectors[:20]), embedded("b.md", vectors[20:])], fence=1)
    await brought(index, store)
    assert len(await index.search(store, vectors[0], limit=99)) == 40
    await store.apply([Remove("a.md")], fence=1)
    await brought(index, store)
    assert len(await index.search(store, vectors[0], limit=99)) == 20
    await store.apply([embedded("a.md", vectors[:1])], fence=1)
    await brought(index, store)
    (best,) = await index.search(store, vectors[0], limit=1)
    assert best.score == pytest.approx(1, abs=1e-3)
    await store.begin(IndexIdentity(IDENTITY.embedder, IDENTITY.dimensions, 2))
    await brought(index, store)
    assert await index.search(store, vectors[0], limit=5) == []
    await store.apply([embedded("c.md", vectors[5:6])], fence=1)
    await brought(index, store)
    assert len(await index.search(store, vectors[5], limit=5)) == 1


async def test_only_admitted_documents_are_found(index: VectorIndex, store: MemoryIndexStore) -> None:
    vectors = some(30)
    await store.apply([embedded(f"{i}.md", vectors[i : i + 1]) for i in range(30)], fence=1)
    await brought(index, store)
    hits = await index.search(store, vectors[0], limit=30, docs=frozenset({2, 3, 999}))
    assert {hit.doc for hit in hits} == {2, 3}
    assert await index.search(store, vectors[0], limit=30, docs=frozenset()) == []


async def test_a_chunk_or_question_without_meaning_is_not_found(index: VectorIndex, store: MemoryIndexStore) -> None:
    nothing = np.zeros((1, 256), np.float32)
    await store.apply([embedded("a.md", np.concatenate([nothing, some(1)]))], fence=1)
    await brought(index, store)
    assert [hit.seq for hit in await index.search(store, some(1)[0], limit=5)] == [2]
    assert await index.search(store, nothing[0], limit=5) == []
    assert await index.search(store, some(1)[0], limit=0) == []


async def test_many_searches_at_once_agree(index: VectorIndex, store: MemoryIndexStore) -> None:
    vectors = some(200)
    await store.apply([embedded("a.md", vectors)], fence=1)
    await brought(index, store)
    first, *others = await asyncio.gather(*(index.search(store, vectors[3], limit=5) for _ in range(8)))
    for other in others:
        assert [hit.seq for hit in other] == [hit.seq for hit in first]
        assert [hit.score for hit in other] == pytest.approx([hit.score for hit in first])
    await index.close()


async def test_codes_lose_little_among_many() -> None:
    """Recall at 10 against the exact answer, where only candidates are read: questions near stored vectors."""
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    centres, noise = some(100, seed=1), some(6_000, seed=2)
    vectors = np.repeat(centres, 60, axis=0) + 0.8 * noise
    vectors = np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)
    await store.apply([embedded("a.md", vectors)], fence=1)
    index = CodesVectorIndex()
    kept = 0
    for asked in centres[:10] + 0.3 * some(10, seed=3):
        best = set((np.argsort(-(vectors @ asked))[:10] + 1).tolist())
        kept += len(best & {hit.seq for hit in await index.search(store, asked, limit=10)})
    assert kept >= 97


async def test_vectors_in_memory_say_the_same_as_those_in_the_store_and_as_on_another_thread(
    store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = some(60)
    held, read = CodesVectorIndex(), CodesVectorIndex(memory_bytes=0)
    for number in range(3):
        await store.apply([embedded(f"{number}.md", vectors[20 * number : 20 * number + 20])], fence=1)
        hits = await held.search(store, vectors[5], limit=60)
        with monkeypatch.context() as large:
            large.setattr("knowledge.index.engines.codes.AT_ONCE_ROWS", 0)
            assert await held.search(store, vectors[5], limit=60) == hits
        assert await read.search(store, vectors[5], limit=60) == hits
        assert read.cosines(vectors[5], [1]) == {}
        assert held.cosines(vectors[5], [hit.seq for hit in hits] + [999]) == {hit.seq: hit.score for hit in hits}
    await store.apply([Remove("1.md")], fence=1)
    assert len(await held.search(store, vectors[5], limit=60)) == 40
