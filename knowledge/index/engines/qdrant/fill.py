"""Filling a Qdrant collection from the store. Imports the client's package, so it is imported with the first request.

A collection contains one generation of one knowledge base. Its point 0 is its mark: no chunk has that number, and it
has no vectors, so no search finds it. The mark says up to which of the store's rows the collection is complete. It is
written after them, so whatever a killed process left behind is beyond the mark, and the next process deletes it.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import anyio
import anyio.to_thread
import numpy as np
from qdrant_client import AsyncQdrantClient, models

from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.engines.qdrant.points import (
    INDEXED,
    MARK,
    MEANING,
    CollectionMark,
    QdrantOptions,
    payload,
)
from knowledge.index.engines.qdrant.server import QdrantLine, read_mark
from knowledge.index.engines.server_line import MissingIndex
from knowledge.state.ports import CodeRow, DocumentRecord, IndexPosition, IndexStore
from knowledge.task_groups import first_error

ROWS = 2_000
"""Rows written between two updates of the mark."""
POINTS = 256
BYTES = 2_000_000
"""The most points, and roughly the most bytes, of a request."""
AT_ONCE = 4
"""Parallel requests; waiting for their answers adapts our speed to the server's."""


class Filling:
    """Brings one collection up to date with the store. Only the holder of the lock does it."""

    def __init__(self, line: QdrantLine, name: str, options: QdrantOptions) -> None:
        self._line, self._name, self._options = line, name, options

    async def begun(self, store: IndexStore, generation: str) -> CollectionMark:
        """Return the mark of a collection for this generation, either begun before or created now."""
        dimensions = await _dimensions(store)
        # The name follows from what the collection is for, so that a later process finds it and continues.
        identity = "\0".join((self._options.shape, generation, str(dimensions)))
        collection = f"{self._name}-{hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()}"
        try:
            mark = await self._line.do(lambda client: read_mark(client, collection))
        except MissingIndex:
            mark = None
        if mark is None:
            mark = CollectionMark(collection, self._options.shape, dimensions, generation, 0)
            # A collection without a mark was left by a process that was killed right here.
            await self._line.do(lambda client: client.delete_collection(collection))
            await self._line.do(lambda client: _create(client, mark, self._options))
            await self._line.do(lambda client: _create_indexes(client, collection))
            await self._write_mark(mark)
        return mark

    async def take(self, store: IndexStore, mark: CollectionMark) -> tuple[CollectionMark, int]:
        """Return the final mark of the collection and the number of rows that were taken in.

        Ends early if the store starts over in the meantime, or gets its first vector: then the mark no longer fits.
        """
        taken = 0
        await self._delete_beyond(mark)
        while True:
            at = IndexPosition(mark.generation, mark.seq)
            delta = await store.delta(at, limit=ROWS, codes=True)
            if delta.upto == at or delta.upto.generation != mark.generation:
                return mark, taken
            halves = await store.halves([row.seq for row in delta.codes])
            if not mark.dimensions and any(halves):
                # A mark that never fits, so that a collection for vectors of this length is filled instead.
                return replace(mark, shape=""), taken
            records = await store.records({row.doc for row in delta.codes})
            rows = _PointSources(mark.dimensions, delta.codes, halves, records)
            await self._send(mark.collection, await anyio.to_thread.run_sync(_batches, rows))
            await self._delete(mark.collection, delta.removed)
            mark = replace(mark, seq=delta.upto.seq)
            await self._write_mark(mark)
            taken += len(delta.codes) + len(delta.removed)

    async def _send(self, collection: str, batches: Sequence[list[models.PointStruct]]) -> None:
        room = anyio.CapacityLimiter(AT_ONCE)

        async def send(points: list[models.PointStruct]) -> None:
            async with room:
                await self._line.do(lambda client: client.upsert(collection, points=points, wait=True))

        async with first_error() as tasks:
            for points in batches:
                tasks.start_soon(send, points)

    async def _delete_beyond(self, mark: CollectionMark) -> None:
        """Delete points that a killed process wrote beyond the mark.

        The store may have removed their rows since; it reports only removals of rows before the mark.
        """
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
        point = models.PointStruct(id=MARK, vector={}, payload=asdict(mark))
        await self._line.do(lambda client: client.upsert(mark.collection, points=[point], wait=True))

    async def serve(self, mark: CollectionMark) -> None:
        """Let the alias name this collection, in one step."""
        aliases = (await self._line.do(lambda client: client.get_aliases())).aliases
        known = {alias.alias_name: alias.collection_name for alias in aliases}
        if known.get(self._name) == mark.collection:
            return
        alias = models.CreateAlias(collection_name=mark.collection, alias_name=self._name)
        steps: list[Any] = [models.CreateAliasOperation(create_alias=alias)]
        if self._name in known:
            steps.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=self._name)))
        await self._line.do(lambda client: client.update_collection_aliases(change_aliases_operations=steps))

    async def sweep(self, mark: CollectionMark) -> None:
        """Delete all other collections of this knowledge base: earlier ones, and unfinished ones."""
        ours = re.compile(re.escape(self._name) + "-[0-9a-f]{16}")
        there = (await self._line.do(lambda client: client.get_collections())).collections
        for collection in there:
            if ours.fullmatch(collection.name) and collection.name != mark.collection:
                await self._line.do(lambda client, name=collection.name: client.delete_collection(name))  # type: ignore[misc]  # the default binds the name


async def _create(client: AsyncQdrantClient, mark: CollectionMark, options: QdrantOptions) -> None:
    quantization: Any = {
        "none": None,
        "scalar": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
    }[options.quantization]
    meaning = models.VectorParams(
        # A size is required even while the store has no vector.
        size=mark.dimensions or 1,
        distance=models.Distance.COSINE,
        # Half precision loses nothing: the store's vectors have it too.
        datatype=models.Datatype.FLOAT16,
        on_disk=options.on_disk or None,
        quantization_config=quantization,
    )
    try:
        await client.create_collection(
            mark.collection,
            vectors_config={MEANING: meaning},
            shard_number=options.shards,
            replication_factor=options.replicas,
            write_consistency_factor=options.write_consistency,
        )
    except Exception:
        # A repeated request whose first answer was lost finds its own collection.
        if not await client.collection_exists(mark.collection):
            raise


async def _create_indexes(client: AsyncQdrantClient, collection: str) -> None:
    """Index every filtered field before there is data: filtered search graphs are built with these indexes."""
    kinds: Mapping[object, Any] = {"integer": models.IntegerIndexParams, "keyword": models.KeywordIndexParams}
    for field, index in INDEXED.items():
        schema = kinds[index["type"]].model_validate(index)
        await client.create_payload_index(collection, field_name=field, field_schema=schema, wait=True)


async def _dimensions(store: IndexStore) -> int:
    """Return the length of the store's vectors; 0 while it has none."""
    at = NOWHERE
    while True:
        delta = await store.delta(at, limit=ROWS, codes=True)
        halves = await store.halves([row.seq for row in delta.codes])
        if found := next(filter(None, halves), None):
            return len(found) // 2
        if delta.upto == at or not delta.codes:
            return 0
        at = delta.upto


@dataclass(frozen=True, slots=True)
class _PointSources:
    """The parts of points: read from the store, then assembled in a worker thread."""

    dimensions: int
    rows: Sequence[CodeRow]
    halves: Sequence[bytes]
    records: Mapping[int, DocumentRecord]


def _batches(sources: _PointSources) -> list[list[models.PointStruct]]:
    """Return the points in batches of at most `POINTS` and about `BYTES`."""
    most = max(1, min(POINTS, BYTES // (500 + 10 * sources.dimensions)))
    points = list(_points(sources))
    return [points[start : start + most] for start in range(0, len(points), most)]


def _points(sources: _PointSources) -> Iterator[models.PointStruct]:
    """Yield a point for each chunk; a chunk whose document was removed is left out."""
    for row, half in zip(sources.rows, sources.halves, strict=True):
        record = sources.records.get(row.doc)
        if record is None:
            continue
        # A chunk without a vector is not found by vectors.
        values = _normalised(half) if len(half) == 2 * sources.dimensions else None
        vector: Any = {} if values is None else {MEANING: values}
        # Built without validation: these are our own numbers, and there are 300 in each of thousands of points.
        yield models.PointStruct.model_construct(id=row.seq, vector=vector, payload=payload(row.doc, record))


def _normalised(half: bytes) -> list[float] | None:
    """Return the vector with length 1, or None if its length is zero or not finite.

    Six decimals are enough: the store's numbers have three.
    """
    values = np.frombuffer(half, dtype="<f2").astype(np.float64)
    with np.errstate(all="ignore"):
        length = float(np.linalg.norm(values))
    return np.round(values / length, 6).tolist() if 0 < length < math.inf else None
