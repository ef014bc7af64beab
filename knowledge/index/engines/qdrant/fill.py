"""Filling a Qdrant collection from the store: how it is made, marked, written to, and put in the place of another.

A collection holds one generation of one knowledge base. Point 0 is its mark: no chunk has that number, it has no
vectors, so no search finds it, and it says up to where the store's rows are here. It is written after them, so whatever
a killed process left behind lies beyond the mark and is deleted by the next one.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.to_thread
import numpy as np

from knowledge.index.engines.qdrant.points import INDEXED, payload, weighed
from knowledge.index.engines.qdrant.server import Gone, QdrantLine
from knowledge.state.ports import CodeRow, DocumentRecord, IndexPosition, IndexStore, TextRow

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, models

LAYOUT = 1
"""Grows when a point holds something else; collections of another layout are made anew."""
MARK = 0
MEANING = "meaning"
WORDS = "words"
ROWS = 2_000
"""Rows between two marks."""
POINTS = 256
BYTES = 2_000_000
"""A request has at most so many points and, roughly, bytes."""
AT_ONCE = 4
"""Requests under way; the server's answer to them is what holds us back."""
LASTING = 2**62

Terms = Callable[[TextRow], Sequence[str]]


@dataclass(frozen=True, slots=True)
class QdrantOptions:
    """How collections are kept. Another choice makes a new collection, which then takes the old one's place."""

    shards: int = 1
    replicas: int = 1
    write_consistency: int = 1
    on_disk: bool = False
    quantization: Literal["none", "scalar", "binary"] = "none"


@dataclass(frozen=True, slots=True)
class CollectionMark:
    """What point 0 says of its collection. `generation` is that of the vectors, `texts` that of the texts."""

    collection: str
    shape: str
    dimensions: int
    generation: str
    texts: str
    seq: int
    mean_length: float
    """Mean number of terms in a chunk when the collection was begun: weights that were stored cannot follow it."""
    mean_until: int
    """Beyond this `seq` the mean is that of too few rows, and the collection is made anew."""

    def fits(self, shape: str, at: IndexPosition, texts: str) -> bool:
        """Return whether the collection can be brought up to `at` by adding and deleting."""
        return (self.shape, self.generation, self.texts) == (shape, at.generation, texts) and at.seq <= self.mean_until


def shape_of(options: QdrantOptions, *, words: bool) -> str:
    """Return what tells collections of other options or another layout apart."""
    return f"{LAYOUT} words={words} " + " ".join(f"{key}={value}" for key, value in asdict(options).items())


def parse_mark(said: Mapping[str, Any] | None) -> CollectionMark | None:
    """Return the mark that a payload holds; None if it is none, or another version's."""
    try:
        return CollectionMark(**(said or {}))
    except TypeError:
        return None


async def read_mark(client: AsyncQdrantClient, collection: str) -> CollectionMark | None:
    """Return the mark of a collection, or of the one behind an alias; None if it has none yet."""
    found = await client.retrieve(collection, ids=[MARK], with_payload=True)
    return parse_mark(found[0].payload) if found else None


class Filling:
    """Brings one collection up to the store. Only the holder of the lock does it."""

    def __init__(self, line: QdrantLine, name: str, options: QdrantOptions, terms: Terms | None) -> None:
        self._line, self._name, self._options, self._terms = line, name, options, terms
        self.shape = shape_of(options, words=terms is not None)

    async def begun(self, store: IndexStore, at: IndexPosition, texts: str, *, renewal: int) -> CollectionMark:
        """Return the mark of a collection for this generation that may be filled: one that was begun before, or a new one."""
        dimensions = await _dimensions(store)
        told = "\0".join((self.shape, at.generation, texts, str(dimensions), str(renewal)))
        collection = f"{self._name}-{hashlib.blake2b(told.encode(), digest_size=8).hexdigest()}"
        try:
            mark = await self._line.do(lambda client: read_mark(client, collection))
        except Gone:
            mark = None
        if mark is None:
            mean, until = await self._mean(store)
            mark = CollectionMark(collection, self.shape, dimensions, at.generation, texts, 0, mean, until)
            await self._create(mark)
        return mark

    async def _mean(self, store: IndexStore) -> tuple[float, int]:
        """Return the mean length of a chunk, and up to which `seq` that may be trusted."""
        if self._terms is None:
            return 0.0, LASTING
        delta = await store.delta(IndexPosition("", 0), limit=ROWS, texts=True)
        lengths = await anyio.to_thread.run_sync(_lengths, self._terms, delta.texts)
        mean = sum(lengths) / len(lengths) if lengths else 0.0
        return mean, LASTING if len(lengths) == ROWS else 10 * max(delta.upto.seq, 100)

    async def _create(self, mark: CollectionMark) -> None:
        # One without a mark was left by a process that was killed right here.
        await self._line.do(lambda client: client.delete_collection(mark.collection))
        await self._line.do(lambda client: _create(client, mark, self._options, words=self._terms is not None))
        await self._line.do(lambda client: _create_indexes(client, mark.collection))
        await self._write_mark(mark)

    async def take(self, store: IndexStore, mark: CollectionMark) -> tuple[CollectionMark, int]:
        """Return the mark that the collection has in the end and how many rows were taken in.

        Ends early when the store starts over meanwhile: then the mark does not fit any more.
        """
        taken = 0
        await self._delete_beyond(mark)
        while True:
            at = IndexPosition(mark.generation, mark.seq)
            delta = await store.delta(at, limit=ROWS, texts=self._terms is not None, codes=True)
            texts = (await store.position()).generation
            if delta.upto == at or (delta.upto.generation, texts) != (mark.generation, mark.texts):
                return mark, taken
            halves = await store.halves([row.seq for row in delta.codes])
            if not mark.dimensions and any(halves):
                return replace(mark, shape=""), taken
            records = await store.records({row.doc for row in delta.codes})
            work = _PointsWork(mark, self._terms, delta.codes, delta.texts, halves, records)
            await self._send(mark.collection, await anyio.to_thread.run_sync(_requests, work))
            await self._delete(mark.collection, delta.removed)
            mark = replace(mark, seq=delta.upto.seq)
            await self._write_mark(mark)
            taken += len(delta.codes) + len(delta.removed)

    async def _send(self, collection: str, requests: Sequence[list[models.PointStruct]]) -> None:
        room = anyio.CapacityLimiter(AT_ONCE)

        async def send(points: list[models.PointStruct]) -> None:
            async with room:
                await self._line.do(lambda client: client.upsert(collection, points=points, wait=True))

        if len(requests) == 1:
            await send(requests[0])
            return
        failures: list[Exception] = []

        async def sent(points: list[models.PointStruct]) -> None:
            try:
                await send(points)
            except Exception as error:  # noqa: BLE001 - raised below, as itself and not in a group
                failures.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for points in requests:
                tasks.start_soon(sent, points)
        if failures:
            raise failures[0]

    async def _delete_beyond(self, mark: CollectionMark) -> None:
        """Delete what a killed process wrote beyond the mark: the store may have removed it since, and never say so."""
        while True:
            beyond, _ = await self._line.do(
                lambda client: client.scroll(
                    mark.collection, offset=mark.seq + 1, limit=ROWS, with_payload=False, with_vectors=False
                )
            )
            await self._delete(mark.collection, [int(point.id) for point in beyond])
            if len(beyond) < ROWS:
                return

    async def _delete(self, collection: str, seqs: Sequence[int]) -> None:
        if seqs:
            ids: Any = list(seqs)
            await self._line.do(lambda client: client.delete(collection, points_selector=ids, wait=True))

    async def _write_mark(self, mark: CollectionMark) -> None:
        from qdrant_client import models

        point = models.PointStruct(id=MARK, vector={}, payload=asdict(mark))
        await self._line.do(lambda client: client.upsert(mark.collection, points=[point], wait=True))

    async def serve(self, mark: CollectionMark) -> None:
        """Let the alias name this collection, in one step."""
        from qdrant_client import models

        aliases = (await self._line.do(lambda client: client.get_aliases())).aliases
        known = {alias.alias_name: alias.collection_name for alias in aliases}
        if known.get(self._name) == mark.collection:
            return
        steps: list[Any] = [
            models.CreateAliasOperation(
                create_alias=models.CreateAlias(collection_name=mark.collection, alias_name=self._name)
            )
        ]
        if self._name in known:
            steps.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._name)))
        await self._line.do(lambda client: client.update_collection_aliases(change_aliases_operations=steps))

    async def sweep(self, mark: CollectionMark) -> None:
        """Delete every other collection of this knowledge base: the ones before, and those that were never finished."""
        ours = re.compile(re.escape(self._name) + "-[0-9a-f]{16}")
        there = (await self._line.do(lambda client: client.get_collections())).collections
        for collection in there:
            if ours.fullmatch(collection.name) and collection.name != mark.collection:
                await self._line.do(lambda client, name=collection.name: client.delete_collection(name))  # type: ignore[misc]  # the default binds the name


async def _create(client: AsyncQdrantClient, mark: CollectionMark, options: QdrantOptions, *, words: bool) -> None:
    from qdrant_client import models

    quantization: Any = {
        "none": None,
        "scalar": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    }[options.quantization]
    meaning = models.VectorParams(
        size=mark.dimensions or 1,
        distance=models.Distance.COSINE,
        # What the store has is no finer.
        datatype=models.Datatype.FLOAT16,
        on_disk=options.on_disk or None,
        quantization_config=quantization,
    )
    sparse = models.SparseVectorParams(
        modifier=models.Modifier.IDF, index=models.SparseIndexParams(on_disk=options.on_disk)
    )
    try:
        await client.create_collection(
            mark.collection,
            vectors_config={MEANING: meaning},
            sparse_vectors_config={WORDS: sparse} if words else None,
            shard_number=options.shards,
            replication_factor=options.replicas,
            write_consistency_factor=options.write_consistency,
        )
    except Exception:
        # A repeated request whose first answer was lost meets its own collection.
        if not await client.collection_exists(mark.collection):
            raise


async def _create_indexes(client: AsyncQdrantClient, collection: str) -> None:
    """Index every field that is filtered by, before there is data: filtered search graphs are built with them."""
    from qdrant_client import models

    kinds: Mapping[object, Any] = {"integer": models.IntegerIndexParams, "keyword": models.KeywordIndexParams}
    for field, said in INDEXED.items():
        await client.create_payload_index(
            collection, field_name=field, field_schema=kinds[said["type"]].model_validate(said), wait=True
        )


async def _dimensions(store: IndexStore) -> int:
    """Return the length of the store's vectors; 0 while it has none."""
    at = IndexPosition("", 0)
    while True:
        delta = await store.delta(at, limit=ROWS, codes=True)
        halves = await store.halves([row.seq for row in delta.codes])
        if found := next(filter(None, halves), None):
            return len(found) // 2
        if delta.upto == at or not delta.codes:
            return 0
        at = delta.upto


def _lengths(terms: Terms, rows: Sequence[TextRow]) -> list[int]:
    return [len(terms(row)) for row in rows]


@dataclass(frozen=True, slots=True)
class _PointsWork:
    """What points are made of; read from the store, then put together in a worker thread."""

    mark: CollectionMark
    terms: Terms | None
    rows: Sequence[CodeRow]
    texts: Sequence[TextRow]
    halves: Sequence[bytes]
    records: Mapping[int, DocumentRecord]


def _requests(work: _PointsWork) -> list[list[models.PointStruct]]:
    """Return the points in portions of at most so many and so many bytes."""
    portions: list[list[models.PointStruct]] = []
    room_bytes = 0
    for point, size_bytes in _points(work):
        if not portions or len(portions[-1]) == POINTS or size_bytes > room_bytes:
            portions.append([])
            room_bytes = BYTES
        portions[-1].append(point)
        room_bytes -= size_bytes
    return portions


def _points(work: _PointsWork) -> Iterator[tuple[models.PointStruct, int]]:
    """Make each chunk a point, with about how many bytes it is on the way. A chunk whose document is gone is left out."""
    from qdrant_client import models

    texts = {row.seq: row for row in work.texts}
    for row, half in zip(work.rows, work.halves, strict=True):
        record = work.records.get(row.doc)
        if record is None:
            continue
        vector: dict[str, Any] = {}
        # A chunk without meaning has no vector here, so that it is not found by one.
        if len(half) == 2 * work.mark.dimensions and (values := _unit(half)) is not None:
            vector[MEANING] = values
        if work.terms and row.seq in texts and (weights := weighed(work.terms(texts[row.seq]), work.mark.mean_length)):
            vector[WORDS] = models.SparseVector(indices=list(weights), values=list(weights.values()))
        words = len(vector[WORDS].indices) if WORDS in vector else 0
        # Built without validation: our own numbers, thousands of times 300 of them.
        point = models.PointStruct.model_construct(id=row.seq, vector=vector, payload=payload(row.doc, record))
        yield point, 500 + 10 * work.mark.dimensions + 32 * words


def _unit(half: bytes) -> list[float] | None:
    """Return the vector with length 1, or None if it has none. Six decimals: the store has three."""
    values = np.frombuffer(half, dtype="<f2").astype(np.float64)
    with np.errstate(all="ignore"):
        length = float(np.linalg.norm(values))
    return np.round(values / length, 6).tolist() if 0 < length < math.inf else None
