"""Vector search without an approximate index: 256-bit codes choose candidates, half-precision vectors rank them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from knowledge.index.ports import Scored
from knowledge.state.ports import CodeRow, Filters, IndexPosition, IndexStore

BITS = 256
CODE_BYTES = BITS // 8
LANES = BITS // 64
CANDIDATES = 2_500
"""Chunks whose signs are compared with the question itself, after comparing signs with signs chose them."""
RESCORED = 500
"""Chunks whose real vector is read, the costliest step. Where there are fewer, the search is exact."""
BATCH = 50_000
HELD_BYTES = 64 << 20
"""Of half-precision vectors kept in memory, 131,072 chunks of 256 numbers; where there are more, they stay in the store."""
READ_AT_ONCE = 5_000
"""Vectors read before others have their turn: some 6 ms."""
AT_ONCE_ROWS = 200_000
"""So many rows take some 3 ms. Handing them to a thread and back would take half as long again."""
BLOCK = 16_384
"""Rows compared at a time: four lanes and the scratch space of a block stay in a core's cache."""
MOST_DEAD = 0.25
SEED = 256


def encode(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return a row of 32 bytes for each vector: the signs of its 256 numbers, or of 256 fixed projections of them.

    Source: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002.
    """
    return np.packbits(_signed(vectors) > 0, axis=1)


def _signed(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the 256 numbers whose signs are the code."""
    dimensions = vectors.shape[1]
    return vectors if dimensions == BITS else vectors @ _projection(dimensions)


@lru_cache(maxsize=4)
def _projection(dimensions: int) -> NDArray[np.float32]:
    """Return the same `dimensions` x 256 matrix everywhere and always, its columns (or rows) at right angles."""
    # A legacy generator on purpose: NumPy promises its stream for ever, and codes are stored.
    gaussian = np.random.RandomState(SEED).standard_normal((max(dimensions, BITS), BITS))
    # Made upright by Cholesky, in half the time of a QR decomposition: the first search waits for it.
    turned = np.linalg.solve(np.linalg.cholesky(gaussian.T @ gaussian), gaussian.T).T
    return np.ascontiguousarray(turned[:dimensions], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _Table:
    """What is known at one position. Rows up to `size` never change but for `alive`, so a search needs no lock."""

    at: IndexPosition
    size: int
    dead: int
    seqs: NDArray[np.int64]
    docs: NDArray[np.int64]
    lanes: NDArray[np.uint64]
    alive: NDArray[np.bool_]
    vectors: NDArray[np.float16]
    """Of the first `held` rows; zeros where a chunk has none."""
    held: int = 0

    def holds(self, dimensions: int) -> bool:
        """Return whether every row's vector is here."""
        return self.held == self.size and self.vectors.shape[1] == dimensions


def _empty(at: IndexPosition, capacity: int = 1024, dimensions: int = 0) -> _Table:
    return _Table(
        at,
        0,
        0,
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros((LANES, capacity), np.uint64),
        np.zeros(capacity, np.bool_),
        np.zeros((capacity, dimensions), np.float16),
    )


class CodesVectorIndex:
    """Keeps 49 bytes a chunk in memory, and the vectors up to `HELD_BYTES`, read at the first search and as the store moves on."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._table = _empty(IndexPosition("", 0))

    async def search(
        self,
        store: IndexStore,
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,  # noqa: ARG002 - `docs` says the same, and is at hand here
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks, best first, equal ones by `seq`; a chunk without a vector is never found."""
        length = float(np.linalg.norm(vector))
        if not length or limit <= 0:
            return []
        table = await self._current(store, len(vector))
        asked = (vector / length).astype(np.float32)
        if table.size <= AT_ONCE_ROWS:
            rows = _candidates(table, asked, limit, docs)
            return _ranked(table, rows, await _stored(store, table, rows, len(vector)), asked, limit)
        rows = await anyio.to_thread.run_sync(_candidates, table, asked, limit, docs)
        stored = await _stored(store, table, rows, len(vector))
        return await anyio.to_thread.run_sync(_ranked, table, rows, stored, asked, limit)

    def cosines(self, vector: NDArray[np.float32], seqs: Sequence[int]) -> Mapping[int, float]:
        """Return the cosine of those of these chunks whose vector is in memory."""
        table = self._table
        length = float(np.linalg.norm(vector))
        if not table.size or not table.holds(len(vector)) or not length:
            return {}
        asked = np.asarray(seqs, np.int64)
        places = np.minimum(np.searchsorted(table.seqs[: table.size], asked), table.size - 1)
        there = table.seqs[places] == asked
        stored = table.vectors[places[there]].astype(np.float32)
        found, _ = _measured(stored, (vector / length).astype(np.float32))
        return dict(zip(asked[there].tolist(), found.tolist(), strict=True))

    async def catch_up(self, store: IndexStore) -> int:  # noqa: ARG002 - the port's shape
        """Return 0: searching takes in what is new."""
        return 0

    async def position(self) -> IndexPosition | None:
        """Return None: a search is always where its store is."""
        return None

    async def close(self) -> None:
        """Give the memory back."""
        self._table = _empty(IndexPosition("", 0))

    async def _current(self, store: IndexStore, dimensions: int) -> _Table:
        """Return the table as it is at the store's position; searches that come meanwhile wait for one loading."""
        target = (await store.space()).position
        if self._table.at == target and (self._table.holds(dimensions) or not _few_enough(self._table, dimensions)):
            return self._table
        async with self._lock:
            while self._table.at.generation != target.generation or self._table.at.seq < target.seq:
                delta = await store.delta(self._table.at, limit=BATCH, codes=True)
                table = self._table if delta.upto.generation == self._table.at.generation else _empty(delta.upto)
                if delta.upto == self._table.at:
                    break
                self._table = await anyio.to_thread.run_sync(_moved, table, delta.codes, delta.removed, delta.upto)
                target = IndexPosition(delta.upto.generation, target.seq) if _restarted(delta.upto, target) else target
            self._table = await _holding(store, self._table, dimensions)
        return self._table


def _few_enough(table: _Table, dimensions: int) -> bool:
    return table.size * dimensions * 2 <= HELD_BYTES


async def _holding(store: IndexStore, table: _Table, dimensions: int) -> _Table:
    """Return `table` with the vectors of all its rows; without any where they are too many."""
    if table.holds(dimensions):
        return table
    if not _few_enough(table, dimensions):
        return replace(table, vectors=np.zeros((0, 0), np.float16), held=0)
    fits = table.vectors.shape == (len(table.seqs), dimensions)
    vectors = table.vectors if fits else np.zeros((len(table.seqs), dimensions), np.float16)
    for start in range(table.held if fits else 0, table.size, READ_AT_ONCE):
        rows = slice(start, min(start + READ_AT_ONCE, table.size))
        vectors[rows] = _unpacked(await store.halves(table.seqs[rows].tolist()), dimensions)
        await anyio.lowlevel.checkpoint()
    # Exchanged while they were read, they are of two kinds: the next search reads them anew.
    if (await store.space()).position.generation != table.at.generation:
        return table
    return replace(table, vectors=vectors, held=table.size)


async def _stored(store: IndexStore, table: _Table, rows: NDArray[np.intp], dimensions: int) -> NDArray[np.float32]:
    """Return the vectors of `rows`; zeros for a chunk that has none, or vanished meanwhile."""
    if table.holds(dimensions):
        return table.vectors[rows].astype(np.float32)
    return _unpacked(await store.halves(table.seqs[rows].tolist()), dimensions).astype(np.float32)


def _unpacked(halves: Sequence[bytes], dimensions: int) -> NDArray[np.float16]:
    """Return a row for each. One of another length is another embedder's: exchanged this moment, the asker will notice."""
    width = 2 * dimensions
    whole = b"".join([half if len(half) == width else bytes(width) for half in halves])
    return np.frombuffer(whole, "<f2").reshape(len(halves), dimensions)


def _restarted(upto: IndexPosition, target: IndexPosition) -> bool:
    return upto.generation != target.generation


def _moved(table: _Table, codes: Sequence[CodeRow], removed: Sequence[int], at: IndexPosition) -> _Table:
    """Return `table` with rows added and removed."""
    rows = sorted((row for row in codes if not table.size or row.seq > table.seqs[table.size - 1]), key=lambda r: r.seq)
    grown = _grown(table, table.size + len(rows))
    size = table.size + len(rows)
    new = slice(table.size, size)
    grown.seqs[new] = [row.seq for row in rows]
    grown.docs[new] = [row.doc for row in rows]
    packed = np.frombuffer(b"".join(row.code for row in rows), dtype="<u8")
    grown.lanes[:, new] = packed.reshape(len(rows), LANES).T
    grown.alive[new] = True
    gone = np.asarray(removed, np.int64)
    places = np.searchsorted(grown.seqs[:size], gone)
    inside = places < size
    places = places[inside][grown.seqs[places[inside]] == gone[inside]]
    grown.alive[places] = False
    dead = size - int(np.count_nonzero(grown.alive[:size]))
    moved = replace(grown, at=at, size=size, dead=dead)
    return _compacted(moved) if dead > MOST_DEAD * size else moved


def _grown(table: _Table, needed: int) -> _Table:
    if needed <= len(table.seqs):
        return table
    bigger = _empty(table.at, max(needed, len(table.seqs) * 3 // 2), table.vectors.shape[1])
    return _copied(table, np.arange(table.size), bigger)


def _compacted(table: _Table) -> _Table:
    rows = np.flatnonzero(table.alive[: table.size])
    return _copied(table, rows, _empty(table.at, max(1024, len(rows) * 5 // 4), table.vectors.shape[1]))


def _copied(table: _Table, rows: NDArray[np.intp], into: _Table) -> _Table:
    size = len(rows)
    into.seqs[:size] = table.seqs[rows]
    into.docs[:size] = table.docs[rows]
    into.lanes[:, :size] = table.lanes[:, rows]
    into.alive[:size] = table.alive[rows]
    dead = size - int(np.count_nonzero(into.alive[:size]))
    held = rows[: np.searchsorted(rows, table.held)]
    np.take(table.vectors, held, axis=0, out=into.vectors[: len(held)], mode="clip")  # without a copy in between
    return replace(into, at=table.at, size=size, dead=dead, held=len(held))


def _candidates(
    table: _Table, vector: NDArray[np.float32], limit: int, docs: frozenset[int] | None
) -> NDArray[np.intp]:
    """Return the rows that are worth a look at their vectors, in order; all of them where there are few."""
    nearest = _nearest(table, vector, max(limit, CANDIDATES), docs)
    wanted = max(2 * limit, RESCORED)
    if len(nearest) <= wanted:
        return nearest
    estimates = _estimates(table.lanes[:, nearest], vector)
    return np.sort(nearest[np.argpartition(-estimates, wanted)[:wanted]])


def _estimates(lanes: NDArray[np.uint64], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return for each column of `lanes` the product of its signs with `vector` itself: finer than counting signs.

    Source: Gordo, Perronnin, Gong, Lazebnik, "Asymmetric Distances for Binary Embeddings", 2014.
    """
    asked = _signed(vector[np.newaxis])[0].reshape(CODE_BYTES, 8)
    signs = np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1).astype(np.float32) * 2 - 1
    # What each of the 256 values of each of the 32 bytes adds, looked up instead of multiplied.
    table = np.einsum("pk,bk->pb", asked, signs)
    values = np.ascontiguousarray(lanes.T).astype("<u8", copy=False).view(np.uint8).T
    found = np.zeros(lanes.shape[1], np.float32)
    for sums, column in zip(table, np.ascontiguousarray(values), strict=True):  # half the time of one large look-up
        found += sums.take(column)
    return found


def _nearest(table: _Table, vector: NDArray[np.float32], wanted: int, docs: frozenset[int] | None) -> NDArray[np.intp]:
    """Return the rows whose code is nearest: at least `wanted` where there are so many, all at the last distance."""
    admitted = table.alive[: table.size]
    if docs is not None:
        chosen = np.fromiter(docs, np.int64, len(docs))
        admitted = admitted & np.isin(table.docs[: table.size], chosen)
    count = np.count_nonzero(admitted)
    if count <= wanted:
        return np.flatnonzero(admitted)
    asked = encode(vector[np.newaxis])[0].view("<u8")
    distances = _distances(table.lanes[:, : table.size], asked)
    if count < table.size:
        distances[~admitted] = BITS + 1
    # Counting instead of partitioning: there are only 257 distances, and ties stay together.
    within = np.cumsum(np.bincount(distances, minlength=BITS + 2))
    furthest = int(np.searchsorted(within, wanted))
    nearest = np.flatnonzero(distances <= furthest)
    if len(nearest) <= 2 * wanted:
        return nearest
    order = np.argsort(distances[nearest], kind="stable")[:wanted]
    return np.sort(nearest[order])


def _distances(lanes: NDArray[np.uint64], asked: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return in how many bits each column of `lanes` differs from `asked`."""
    size = lanes.shape[1]
    distances = np.empty(size, np.uint16)
    for start in range(0, size, BLOCK):
        block = lanes[:, start : start + BLOCK]
        bits = np.bitwise_count(block ^ asked[:, np.newaxis])
        np.add.reduce(bits, axis=0, dtype=np.uint16, out=distances[start : start + BLOCK])
    return distances


def _ranked(
    table: _Table, rows: NDArray[np.intp], stored: NDArray[np.float32], vector: NDArray[np.float32], limit: int
) -> list[Scored]:
    """Return the best of `rows` by cosine; those without a vector are left out."""
    scores, lengths = _measured(stored, vector)
    meant = np.flatnonzero(lengths)
    scores, seqs, docs = scores[meant], table.seqs[rows[meant]], table.docs[rows[meant]]
    best = np.lexsort((seqs, -scores))[:limit]
    found = zip(seqs[best].tolist(), docs[best].tolist(), scores[best].tolist(), strict=True)
    return [Scored(seq, doc, score) for seq, doc, score in found]


def _measured(
    stored: NDArray[np.float32], vector: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the cosine of each row with `vector`, which is 1 long (0 for zeros), and how long each row is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", stored, stored))
    # Not `@`: the linear algebra library wakes all cores for this and keeps them spinning.
    cosines = np.einsum("ij,j->i", stored, vector)
    np.divide(cosines, lengths, out=cosines, where=lengths > 0)
    return cosines, lengths
