"""Qdrant's promises beyond the ports: invisible swaps, filters in words, uncompressed answers, clear failures."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import methodcaller
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import AsyncQdrantClient

from knowledge.errors import EngineUnavailable
from knowledge.index.engines import server_line
from knowledge.index.engines.qdrant import engine as qdrant
from knowledge.index.engines.qdrant import fill as qdrant_fill
from knowledge.index.engines.qdrant import points as qdrant_points
from knowledge.index.engines.qdrant.client import GRAPH_CANDIDATES, nearest
from knowledge.index.engines.qdrant.engine import QdrantVectorIndex
from knowledge.index.engines.qdrant.points import QdrantOptions
from knowledge.index.engines.qdrant.server import QdrantAddress, QdrantLine
from knowledge.index.engines.server_line import MissingIndex
from knowledge.state.ports import Filters, IndexIdentity, IndexPosition, Remove, Replace, Stamp, Touch
from tests.contract.index.test_index_store import IDENTITY, page
from tests.contract.index.test_vector_index import embedded, some
from tests.support.index.memory_engines import MemoryVectorIndex
from tests.support.index.qdrant import NAME, PLACES, engine_at, line_to, server
from tests.support.state.memory.index import MemoryIndexStore

T = TypeVar("T")


@pytest.fixture(params=list(PLACES))
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with PLACES[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
async def on_server(tmp_path: Path) -> AsyncIterator[str]:
    async with PLACES["qdrant-server"](tmp_path) as opened:
        yield opened


@pytest.fixture
async def store() -> MemoryIndexStore:
    made = MemoryIndexStore()
    await made.begin(IDENTITY)
    return made


async def points_at(place: str) -> dict[int, dict[str, object]]:
    """Return every point behind the alias with its payload, without the mark."""
    line, name, _ = line_to(place)
    found, _ = await line.do(lambda client: client.scroll(name, limit=10_000, with_payload=True))
    await line.close()
    return {int(point.id): dict(point.payload or {}) for point in found if point.id != qdrant_points.MARK}


async def collections_at(place: str) -> list[str]:
    line, name, _ = line_to(place)
    there = (await line.do(lambda client: client.get_collections())).collections
    await line.close()
    return [collection.name for collection in there if collection.name.startswith(name)]


async def expected_at(store: MemoryIndexStore) -> set[int]:
    return {row.seq for row in (await store.delta(IndexPosition("", 0), limit=10_000, codes=True)).codes}


# --- filters ----------------------------------------------------------------------------------------------------------

TIMES = (1_000, 1_500, 1_000_000_000, 1_000_000_500, 1_700_000_000_123_456_789, 1_700_000_000_123_456_790)
SOURCES = ("user", "zulip", "zulip:design/merge", "zulip:design/merge:4711", "plane:PROJ-12", "kb", "")
PATHS = ("a.md", "notes/a.md", "notes/b.md", "notes/deep/c.md", "notes 2/d.md", "Ä b/ö.md")
FILTERS = st.builds(
    Filters,
    path=st.sampled_from(["", "notes", "notes/deep", "notes 2", "notes/a.md", "note", "Ä b"]),
    tags=st.lists(st.sampled_from(["x", "y", "Ü z", "x/Ü"]), max_size=2).map(tuple),
    kind=st.sampled_from([None, None, "page", "log"]),
    source=st.sampled_from([None, None, *SOURCES, "zulip:design"]),
    modified_after_ns=st.sampled_from([None, None, *TIMES]),
    modified_before_ns=st.sampled_from([None, None, *TIMES]),
)


@st.composite
def documents(draw: st.DrawFn, path: str) -> Replace:
    plain = embedded(path, some(1, seed=PATHS.index(path)))
    modified_ns = draw(st.sampled_from(TIMES))
    record = plain.record._replace(
        tags=tuple(draw(st.sets(st.sampled_from(["x", "y", "Ü z", "x/Ü"])))),
        kind=draw(st.sampled_from(["page", "log"])),
        source=draw(st.sampled_from(SOURCES)),
        stamp=Stamp(1, modified_ns, 1),
    )
    return replace(plain, record=record)


@dataclass(frozen=True, slots=True)
class Case:
    """Documents, files changed after the engine has seen them, and queries."""

    pages: list[Replace]
    touches: list[Touch]
    asked: list[Filters]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    pages = [draw(documents(path)) for path in draw(st.sets(st.sampled_from(PATHS), min_size=1))]
    touched = draw(st.sets(st.sampled_from([page.record.path for page in pages])))
    touches = [Touch(path, Stamp(1, draw(st.sampled_from(TIMES)), 1), 9) for path in sorted(touched)]
    return Case(pages, touches, draw(st.lists(FILTERS, min_size=1, max_size=8)))


@pytest.mark.parametrize("few", [0, 5_000])
@pytest.mark.parametrize("kind", list(PLACES))
def test_filters_admit_what_the_specification_admits(kind: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, by number, or fetched wider: also if a file was changed since, which the engine doesn't know."""
    monkeypatch.setattr(qdrant_points, "FEW", few)
    monkeypatch.setattr(qdrant, "WIDER", 1)
    if kind == "qdrant-server" and not os.environ.get("FORGE_TEST_QDRANT_URL"):
        pytest.skip("no Qdrant server: FORGE_TEST_QDRANT_URL is not set")

    @given(case=cases())
    @settings(max_examples=40 if kind == "qdrant-local" else 12, suppress_health_check=list(HealthCheck))
    def hold(case: Case) -> None:
        asyncio.run(compare(kind, case))

    hold()


async def compare(kind: str, case: Case) -> None:
    store = MemoryIndexStore()
    await store.begin(IDENTITY)
    with tempfile.TemporaryDirectory() as folder:
        async with PLACES[kind](Path(folder)) as place:
            engine = engine_at(place)
            await store.apply(case.pages, fence=1)
            await engine.catch_up(store)
            await store.apply(case.touches, fence=1)
            memory, question = MemoryVectorIndex(), some(1, seed=99)[0]
            for filters in case.asked:
                docs = await store.select(filters)
                for limit in (2, 50):
                    expected = await memory.search(store, question, limit=limit, docs=docs)
                    hits = await engine.search(store, question, limit=limit, docs=docs, filters=filters)
                    assert [hit.seq for hit in hits] == [hit.seq for hit in expected], (filters, limit)
            await engine.close()


async def test_the_filters_alone_are_enough(place: str, store: MemoryIndexStore) -> None:
    """To the microsecond where they give times."""
    late = embedded("n/b.md", some(1, seed=2)).record._replace(stamp=Stamp(1, 9_000_000, 1), source="plane:P-1")
    await store.apply([embedded("a.md", some(1)), replace(embedded("n/b.md", some(1, seed=2)), record=late)], fence=1)
    engine = engine_at(place)
    await engine.catch_up(store)
    for filters in (Filters(path="n"), Filters(source="plane"), Filters(modified_after_ns=5_000_000)):
        hits = await engine.search(store, some(1)[0], limit=5, filters=filters)
        assert [hit.doc for hit in hits] == [2]
    early = Filters(modified_before_ns=5_000_000)
    assert [hit.doc for hit in await engine.search(store, some(1)[0], limit=5, filters=early)] == [1]
    await engine.close()


# --- rebuilding -------------------------------------------------------------------------------------------------------


async def test_no_search_sees_half_of_a_rebuild(
    place: str, store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a collection is refilled, another engine answers from the old one, or says that it can't."""
    monkeypatch.setattr(qdrant_fill, "ROWS", 10)
    monkeypatch.setattr(server_line, "FRESH_S", 0.0)
    vectors = some(60)
    await store.apply([embedded("a.md", vectors)], fence=1)
    writing, reading = engine_at(place), engine_at(place)
    await writing.catch_up(store)
    counts: set[int] = set()
    done = asyncio.Event()

    async def look() -> None:
        while not done.is_set():
            with suppress(EngineUnavailable):
                counts.add(len(await reading.search(store, vectors[0], limit=99)))
            await asyncio.sleep(0)

    async def swap() -> None:
        for round_ in range(3):
            await store.begin(replace(IDENTITY, recipe=100 + round_))
            await store.apply([embedded("b.md", vectors[: 40 + round_])], fence=1)
            await writing.catch_up(store)
        done.set()

    await asyncio.gather(look(), swap())
    assert counts <= {60, 40, 41, 42}
    assert len(await reading.search(store, vectors[0], limit=99)) == 42
    assert len(await collections_at(place)) == 1, "those before are deleted"
    for engine in (writing, reading):
        await engine.close()


async def test_what_serves_another_generation_is_not_asked(place: str, store: MemoryIndexStore) -> None:
    """A new store numbers chunks from the start: old numbers would name other chunks."""
    vectors = some(5)
    await store.apply([embedded("a.md", vectors)], fence=1)
    engine = engine_at(place)
    await engine.catch_up(store)
    await store.begin(replace(IDENTITY, recipe=2))
    with pytest.raises(EngineUnavailable, match="being rebuilt"):
        await engine.search(store, vectors[0], limit=5)
    await engine.close()


async def test_another_length_of_vectors_or_other_options_make_a_new_collection(
    place: str, store: MemoryIndexStore
) -> None:
    await store.apply([page("a.md", "no vector here", "nor here")], fence=1)
    await store.apply(
        [replace(p, chunks=tuple(replace(c, half=b"") for c in p.chunks)) for p in [page("a.md", "x")]], fence=1
    )
    engine = engine_at(place)
    await engine.catch_up(store)
    assert await engine.search(store, some(4)[0], limit=5) == []
    await store.apply([embedded("b.md", some(4))], fence=1)
    await engine.catch_up(store)
    assert len(await engine.search(store, some(4)[0], limit=9)) == 4
    (before,) = await collections_at(place)
    other = engine_at(place, options=QdrantOptions(on_disk=True))
    assert await other.catch_up(store) == 5
    (after,) = await collections_at(place)
    assert before != after
    assert len(await engine.search(store, some(4)[0], limit=9)) == 4, "who knew the old one finds the new one"
    for one in (engine, other):
        await one.close()


# --- dying ------------------------------------------------------------------------------------------------------------


class Died(BaseException):
    """The process is gone. Not an error that any code handles."""


class Mortal(QdrantLine):
    """A connection whose process dies at its n-th writing request, before it is sent or after it was done."""

    def __init__(self, line: QdrantLine, at: int, *, after: bool) -> None:
        super().__init__(line._make, line.shown)
        self._left, self._after = at, after

    async def do(self, request: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Died
        answer = await super().do(request)
        if self._left == 0:
            raise Died
        return answer


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_dying_at_any_request_leaves_what_the_next_one_completes(
    place: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between any two requests: rows, deletions, marks, the making of a collection, the swap, the sweep."""
    monkeypatch.setattr(qdrant_fill, "ROWS", 4)
    store, vectors = MemoryIndexStore(), some(40)
    await store.begin(IDENTITY)
    for at in range(1, 40):
        # A new generation every few deaths, with changes and removals in between.
        if at % 5 == 1:
            await store.begin(replace(IDENTITY, recipe=100 + at))
        await store.apply([embedded(f"{at % 3}.md", vectors[: 3 + at % 4]), embedded("b.md", vectors[7:10])], fence=1)
        mortal = engine_at(place, through=partial(Mortal, at=1 + at % 23, after=moment == "after"))
        try:
            await mortal.catch_up(store)
        except* Died:
            pass
        await mortal.close()
        await store.apply([Remove("b.md")], fence=1)
        if at % 3 == 0:
            engine = engine_at(place)
            await engine.catch_up(store)
            assert set(await points_at(place)) == await expected_at(store)
            assert len(await collections_at(place)) == 1
            assert await engine.position() == (await store.space()).position
            await engine.close()


async def test_an_index_that_was_deleted_comes_back(place: str, store: MemoryIndexStore) -> None:
    await store.apply([embedded("a.md", some(5))], fence=1)
    engine = engine_at(place)
    await engine.catch_up(store)
    line, _, _ = line_to(place)
    for collection in await collections_at(place):
        await line.do(lambda client, one=collection: client.delete_collection(one))  # type: ignore[misc]  # the default binds the name
    assert await engine.search(store, some(1)[0], limit=9) == []
    assert await engine.catch_up(store) == 5
    assert len(await engine.search(store, some(1)[0], limit=9)) == 5
    await line.close()
    await engine.close()


class Robbed(QdrantLine):
    """A connection where someone else deletes every collection before its n-th writing request."""

    def __init__(self, line: QdrantLine, at: int, name: str) -> None:
        super().__init__(line._make, line.shown)
        self._left, self._name = at, name

    async def do(self, request: Callable[[AsyncQdrantClient], Awaitable[T]]) -> T:
        self._left -= 1
        if self._left == 0:
            for collection in (await super().do(lambda client: client.get_collections())).collections:
                if collection.name.startswith(self._name):
                    await super().do(methodcaller("delete_collection", collection.name))
        return await super().do(request)


async def test_a_collection_that_is_deleted_while_it_is_filled_is_made_anew(
    place: str, store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_fill, "ROWS", 4)
    for at in range(3, 16, 4):
        await store.begin(replace(IDENTITY, recipe=100 + at))
        await store.apply([embedded("a.md", some(20))], fence=1)
        engine = engine_at(place, through=partial(Robbed, at=at, name=place.partition("|")[2] or NAME))
        await engine.catch_up(store)
        assert await engine.caught_up(store)
        assert len(await engine.search(store, some(1)[0], limit=99)) == 20
        await engine.close()


async def test_while_one_fills_the_others_return_at_once(place: str, store: MemoryIndexStore) -> None:
    await store.apply([embedded("a.md", some(30))], fence=1)
    engines = [engine_at(place) for _ in range(4)]
    taken = await asyncio.gather(*(engine.catch_up(store) for engine in engines))
    assert sorted(taken) == [0, 0, 0, 30]
    for engine in engines:
        await engine.close()


# --- failures ---------------------------------------------------------------------------------------------------------


def nobody_there() -> QdrantVectorIndex:
    line = QdrantLine.to(QdrantAddress("http://somebody:hidden@127.0.0.1:9", "a-secret-key"))
    return QdrantVectorIndex(line, NAME, lock=Path(tempfile.gettempdir()) / "kf-no-qdrant.lock")


async def test_a_server_that_is_away_fails_plainly_and_then_at_once(
    store: MemoryIndexStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_line, "FIRST_PAUSE_S", 0.001)
    engine = nobody_there()
    with pytest.raises(EngineUnavailable, match=r"http://127\.0\.0\.1:9 does not answer") as raised:
        await engine.search(store, some(1)[0], limit=5)
    assert "hidden" not in str(raised.value)
    assert "a-secret-key" not in str(raised.value) + repr(QdrantAddress("http://x", "a-secret-key"))
    started = time.perf_counter()
    for _ in range(100):
        with pytest.raises(EngineUnavailable):
            await engine.search(store, some(1)[0], limit=5)
    assert time.perf_counter() - started < 0.5, "nobody waits for it again"
    with pytest.raises(EngineUnavailable):
        await engine.position()
    with pytest.raises(EngineUnavailable):
        await engine.catch_up(store)
    await engine.close()


async def test_a_search_is_one_small_request_for_an_uncompressed_answer() -> None:
    """A compressed answer arrives in several packets, of which Qdrant 1.19 delays the second by 40 ms."""
    encodings: list[str | None] = []
    bodies: list[dict[str, object]] = []

    class Answering(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            encodings.append(self.headers["accept-encoding"])
            bodies.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_error(404)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        line = QdrantLine.to(QdrantAddress(f"http://127.0.0.1:{listening.server_port}"))
        with pytest.raises(MissingIndex):
            await line.ask(lambda client: nearest(client, "any", [0.5, 0.5], (), limit=5, options=QdrantOptions()))
        await line.close()
        listening.shutdown()
    assert encodings == ["identity"]
    (sent,) = ({name: value for name, value in body.items() if value is not None} for body in bodies)
    assert sent == {
        "query": {"nearest": [0.5, 0.5]},
        "using": "meaning",
        "params": {"hnsw_ef": GRAPH_CANDIDATES},
        "limit": 5,
        "with_payload": ["doc"],
    }


async def test_a_wrong_key_is_said(on_server: str, store: MemoryIndexStore) -> None:
    if not os.environ.get("FORGE_TEST_QDRANT_KEY"):
        pytest.skip("the server has no key: FORGE_TEST_QDRANT_KEY is not set")
    line = QdrantLine.to(replace(server(), key="wrong"))
    engine = QdrantVectorIndex(line, on_server.partition("|")[2], lock=Path(on_server.partition("|")[0]) / "l")
    with pytest.raises(EngineUnavailable, match="refuses the key in FORGE_QDRANT_KEY") as raised:
        await engine.catch_up(store)
    assert "wrong" not in str(raised.value)
    await engine.close()


@pytest.mark.parametrize("quantization", ["scalar", "binary"])
async def test_quantized_vectors_find_the_same(on_server: str, store: MemoryIndexStore, quantization: str) -> None:
    """The client's local mode has no quantization."""
    vectors = some(300)
    await store.apply([embedded("a.md", vectors)], fence=1)
    options = QdrantOptions(shards=2, on_disk=True, quantization=quantization)  # type: ignore[arg-type]  # one of the two above
    engine = engine_at(on_server, options=options)
    await engine.catch_up(store)
    hits = await engine.search(store, vectors[17], limit=5)
    assert hits[0].seq == 18
    assert hits[0].score == pytest.approx(1, abs=2e-3)
    await engine.close()


async def test_every_filtered_field_has_its_index(on_server: str, store: MemoryIndexStore) -> None:
    await store.apply([embedded("a.md", some(3))], fence=1)
    engine = engine_at(on_server)
    await engine.catch_up(store)
    line, name, _ = line_to(on_server)
    info = await line.do(lambda client: client.get_collection(name))
    assert {field: said.data_type.value for field, said in info.payload_schema.items()} == {
        field: said["type"] for field, said in qdrant_points.INDEXED.items()
    }
    await line.close()
    await engine.close()


async def test_another_identity_of_the_embedder_swaps(place: str, store: MemoryIndexStore) -> None:
    """New vectors have a new generation: those of the old collection are not compared with them."""
    await store.apply([embedded("a.md", some(3))], fence=1)
    engine = engine_at(place)
    await engine.catch_up(store)
    wanted = IndexIdentity("other", 256, IDENTITY.recipe)
    assert await store.begin(wanted)
    lacking = await store.lacking(0, limit=99)
    fresh = embedded("a.md", some(3, seed=5)).chunks
    halves = {row.digest: (new.half, new.code) for row, new in zip(lacking, fresh, strict=True)}
    assert await store.supply(halves, of=wanted, fence=1)
    assert await store.swap(fence=1)
    with pytest.raises(EngineUnavailable):
        await engine.search(store, some(3, seed=5)[0], limit=9)
    assert await engine.catch_up(store) == 3
    hits = await engine.search(store, some(3, seed=5)[0], limit=9)
    assert hits[0].score == pytest.approx(1, abs=1e-3)
    await engine.close()
