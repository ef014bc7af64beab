"""Vector search without an approximate index: 256-bit codes choose candidates, half-precision vectors rank them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.engines.threads import begin
from knowledge.index.ports import Scored
from knowledge.state.ports import CodeRow, Filters, IndexPosition, IndexStore

BITS = 256
CODE_BYTES = BITS // 8
LANES = BITS // 64
CANDIDATES = 2_500
"""The number of chunks chosen by comparing codes. The signs in their codes are then multiplied with the question's
own numbers (kb/decisions/0005)."""
RESCORED = 500
"""The number of chunks that are scored by their vectors, the costliest step. If the index has no more chunks than
this, the search is exact."""
BATCH = 50_000
MEMORY_BYTES = 64 << 20
"""Usual limit for half-precision vectors in memory: 131,072 chunks of 256 numbers. If there are more, all stay in the store."""
READ_AT_ONCE = 5_000
"""Vectors that are read without a pause for other tasks: about 6 ms."""
AT_ONCE_ROWS = 150_000
"""Up to this many rows a search runs on the event loop: it takes 1.4 ms for 100,000, and a thread would cost what it saves."""
BLOCK = 16_384
"""Rows compared at a time: four lanes of a block and its scratch space fit in a core's cache. With twice as many, that space is a
megabyte, and a server would ask the system for it three times in each search (kb/decisions/0060)."""
MOST_DEAD = 0.25
SAMPLE = 32
"""Each how many rows one is counted to guess the distance within which enough rows lie."""
_SIGN_AND_NUMBER, _EXPONENT = np.int32(0x0FFFFFFF - (1 << 31)), np.float32(2.0**112)
SEED = 256


def encode(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return 32 bytes for each vector: the signs of its 256 numbers, or of 256 fixed projections of them.

    Source: Charikar, "Similarity Estimation Techniques from Rounding Algorithms", STOC 2002.
    """
    return np.packbits(_signed(vectors) > 0, axis=1)


def _signed(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the 256 numbers whose signs are the code."""
    dimensions = vectors.shape[1]
    return vectors if dimensions == BITS else vectors @ _projection(dimensions)


@lru_cache(maxsize=4)
def _projection(dimensions: int) -> NDArray[np.float32]:
    """Return a `dimensions` x 256 matrix with orthogonal columns (or rows), the same on every machine."""
    # The legacy generator, because NumPy guarantees its stream will never change, and codes are stored.
    gaussian = np.random.RandomState(SEED).standard_normal((max(dimensions, BITS), BITS))
    # Orthogonalised by Cholesky, in half the time of a QR decomposition: the first search waits for it.
    orthogonal = np.linalg.solve(np.linalg.cholesky(gaussian.T @ gaussian), gaussian.T).T
    return np.ascontiguousarray(orthogonal[:dimensions], dtype=np.float32)


@dataclass(frozen=True, slots=True)
class _Table:
    """The chunks at one position. Rows below `size` never change except in `alive`, so a search needs no lock."""

    at: IndexPosition
    size: int
    dead: int
    seqs: NDArray[np.int64]
    docs: NDArray[np.int64]
    lanes: NDArray[np.uint64]
    alive: NDArray[np.bool_]
    vectors: NDArray[np.float16]
    """Vectors of the first `loaded` rows; zeros for a chunk without one."""
    loaded: int = 0

    def has_vectors(self, dimensions: int) -> bool:
        """Return whether the vectors of all rows are in memory."""
        return self.loaded == self.size and self.vectors.shape[1] == dimensions


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
    """Keeps 49 bytes a chunk in memory, and vectors up to `memory_bytes`; the first search reads them, later ones read what is new."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._lock = anyio.Lock()
        self._table = _empty(NOWHERE)

    async def search(
        self,
        store: IndexStore,
        vector: NDArray[np.float32],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,  # noqa: ARG002 - `docs` says the same
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks, best first, equal ones by `seq`; a chunk without a vector is never found."""
        length = float(np.linalg.norm(vector))
        if not length or limit <= 0:
            return []
        table = await self._current(store, len(vector))
        unit = (vector / length).astype(np.float32)
        if not table.has_vectors(len(vector)):
            rows = await begin(_candidates, table, unit, limit, docs)
            stored = _single(_unpacked(await store.halves(table.seqs[rows].tolist()), len(vector)))
            return await begin(_ranked, table, rows, stored, unit, limit)
        if table.size <= AT_ONCE_ROWS:
            return _found(table, unit, limit, docs)
        return await begin(_found, table, unit, limit, docs)

    @property
    def is_immediate(self) -> bool:
        """Whether a search is computed on the event loop: there are not many vectors, and all are in memory."""
        table = self._table
        return 0 < table.size <= AT_ONCE_ROWS and table.loaded == table.size

    def cosines(self, vector: NDArray[np.float32], seqs: Sequence[int]) -> Mapping[int, float]:
        """Return the cosines of the chunks whose vector is in memory."""
        table = self._table
        length = float(np.linalg.norm(vector))
        if not table.size or not table.has_vectors(len(vector)) or not length:
            return {}
        asked = np.asarray(seqs, np.int64)
        places = np.minimum(np.searchsorted(table.seqs[: table.size], asked), table.size - 1)
        known = table.seqs[places] == asked
        stored = _single(table.vectors[places[known]])
        found, _ = _measured(stored, (vector / length).astype(np.float32))
        return dict(zip(asked[known].tolist(), found.tolist(), strict=True))

    async def catch_up(self, store: IndexStore) -> int:  # noqa: ARG002 - the port's shape
        """Return 0: each search reads new rows itself."""
        return 0

    async def position(self) -> IndexPosition | None:
        """Return None: a search is always up to date with its store."""
        return None

    async def close(self) -> None:
        """Release the memory."""
        self._table = _empty(NOWHERE)

    async def _current(self, store: IndexStore, dimensions: int) -> _Table:
        """Return the table at the store's position; concurrent searches wait for one that loads it."""
        target = (await store.space()).position
        if self._table.at == target and (
            self._table.has_vectors(dimensions) or self._too_large(self._table, dimensions)
        ):
            return self._table
        async with self._lock:
            while self._table.at.generation != target.generation or self._table.at.seq < target.seq:
                delta = await store.delta(self._table.at, limit=BATCH, codes=True)
                table = self._table if delta.upto.generation == self._table.at.generation else _empty(delta.upto)
                if delta.upto == self._table.at:
                    break
                self._table = await anyio.to_thread.run_sync(_moved, table, delta.codes, delta.removed, delta.upto)
                target = IndexPosition(delta.upto.generation, target.seq)  # the store may have started over
            if self._too_large(self._table, dimensions):
                self._table = replace(self._table, vectors=np.zeros((0, 0), np.float16), loaded=0)
            else:
                self._table = await _with_vectors(store, self._table, dimensions)
        return self._table

    def _too_large(self, table: _Table, dimensions: int) -> bool:
        return table.size * dimensions * 2 > self._memory_bytes


async def _with_vectors(store: IndexStore, table: _Table, dimensions: int) -> _Table:
    """Return `table` with the vectors of all its rows."""
    if table.has_vectors(dimensions):
        return table
    fits = table.vectors.shape == (len(table.seqs), dimensions)
    vectors = table.vectors if fits else np.zeros((len(table.seqs), dimensions), np.float16)
    for start in range(table.loaded if fits else 0, table.size, READ_AT_ONCE):
        rows = slice(start, min(start + READ_AT_ONCE, table.size))
        vectors[rows] = _unpacked(await store.halves(table.seqs[rows].tolist()), dimensions)
        await anyio.lowlevel.checkpoint()
    # If vectors were exchanged in the meantime, these may come from two embedders: the next search reads them again.
    if (await store.space()).position.generation != table.at.generation:
        return table
    return replace(table, vectors=vectors, loaded=table.size)


def _found(table: _Table, unit: NDArray[np.float32], limit: int, docs: frozenset[int] | None) -> list[Scored]:
    """Return the best chunks of a table with vectors."""
    rows = _candidates(table, unit, limit, docs)
    return _ranked(table, rows, _single(table.vectors[rows]), unit, limit)


def _single(halves: NDArray[np.float16]) -> NDArray[np.float32]:
    """Return finite numbers in single precision, as `astype` does in six times the time: it converts them one by one.

    The bits of exponent and fraction move to their places, and the product corrects the exponent, whose zero is elsewhere.
    """
    bits = halves.view(np.int16).astype(np.int32)
    np.left_shift(bits, 13, out=bits)
    np.bitwise_and(bits, _SIGN_AND_NUMBER, out=bits)
    numbers = bits.view(np.float32)
    numbers *= _EXPONENT
    return numbers


def _unpacked(halves: Sequence[bytes], dimensions: int) -> NDArray[np.float16]:
    """Return each vector as a row of numbers; zeros for a vector of another length.

    A vector of another length comes from a new embedder; the caller compares generations and notices.
    """
    width = 2 * dimensions
    joined = b"".join([half if len(half) == width else bytes(width) for half in halves])
    return np.frombuffer(joined, "<f2").reshape(len(halves), dimensions)


def _moved(table: _Table, codes: Sequence[CodeRow], removed: Sequence[int], at: IndexPosition) -> _Table:
    """Return `table` with rows added and removed."""
    rows = sorted((row for row in codes if not table.size or row.seq > table.seqs[table.size - 1]), key=lambda r: r.seq)
    size = table.size + len(rows)
    grown = table
    if size > len(table.seqs):
        grown = _copied(table, np.arange(table.size), max(size, len(table.seqs) * 3 // 2))
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
    if dead <= MOST_DEAD * size:
        return moved
    alive = np.flatnonzero(moved.alive[:size])
    return _copied(moved, alive, max(1024, len(alive) * 5 // 4))


def _copied(table: _Table, rows: NDArray[np.intp], capacity: int) -> _Table:
    """Return a new table with these rows and room for `capacity`."""
    into = _empty(table.at, capacity, table.vectors.shape[1])
    size = len(rows)
    into.seqs[:size] = table.seqs[rows]
    into.docs[:size] = table.docs[rows]
    into.lanes[:, :size] = table.lanes[:, rows]
    into.alive[:size] = table.alive[rows]
    dead = size - int(np.count_nonzero(into.alive[:size]))
    loaded = rows[: np.searchsorted(rows, table.loaded)]
    # `clip` avoids a temporary copy.
    np.take(table.vectors, loaded, axis=0, out=into.vectors[: len(loaded)], mode="clip")
    return replace(into, size=size, dead=dead, loaded=len(loaded))


def _candidates(
    table: _Table, vector: NDArray[np.float32], limit: int, docs: frozenset[int] | None
) -> NDArray[np.intp]:
    """Return the rows whose vectors should be read, in order; all of them if there are few."""
    nearest = _nearest(table, vector, max(limit, CANDIDATES), docs)
    wanted = max(2 * limit, RESCORED)
    if len(nearest) <= wanted:
        return nearest
    estimates = _estimates(table.lanes[:, nearest], vector)
    return np.sort(nearest[np.argpartition(-estimates, wanted)[:wanted]])


def _estimates(lanes: NDArray[np.uint64], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of each column's signs with `vector` itself, which is more precise than counting signs.

    Source: Gordo, Perronnin, Gong, Lazebnik, "Asymmetric Distances for Binary Embeddings", 2014.
    """
    numbers = _signed(vector[np.newaxis])[0].reshape(CODE_BYTES, 8)
    # A table of what each of the 256 values of each of the 32 bytes contributes.
    table = numbers @ _signs_of_bytes().T  # so small that BLAS wakes no other core
    values = np.ascontiguousarray(lanes.T).astype("<u8", copy=False).view(np.uint8).T
    found = np.zeros(lanes.shape[1], np.float32)
    for sums, column in zip(
        table, np.ascontiguousarray(values), strict=True
    ):  # takes half the time of one large look-up
        found += sums.take(column)
    return found


@cache
def _signs_of_bytes() -> NDArray[np.float32]:
    """Return the bits of each value of a byte, as -1 and 1."""
    return np.unpackbits(np.arange(256, dtype=np.uint8)[:, np.newaxis], axis=1).astype(np.float32) * 2 - 1


def _nearest(table: _Table, vector: NDArray[np.float32], wanted: int, docs: frozenset[int] | None) -> NDArray[np.intp]:
    """Return the rows with the nearest codes, at least `wanted` if there are as many, and usually all ties at the largest distance."""
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
    nearest = np.flatnonzero(distances <= _furthest(distances, wanted))
    if len(nearest) <= 2 * wanted:
        return nearest
    order = np.argsort(distances[nearest], kind="stable")[:wanted]
    return np.sort(nearest[order])


def _furthest(distances: NDArray[np.uint16], wanted: int) -> int:
    """Return the least distance within which at least `wanted` rows lie."""
    # Counting all distances takes four times as long as counting a sample and then the rows within two or three distances.
    within = np.cumsum(np.bincount(distances[::SAMPLE], minlength=BITS + 2))
    found = int(np.searchsorted(within, wanted / SAMPLE))
    while np.count_nonzero(distances <= found) < wanted:
        found += 1
    while np.count_nonzero(distances <= found - 1) >= wanted:
        found -= 1
    return found


def _distances(lanes: NDArray[np.uint64], asked: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return the number of bits in which each column of `lanes` differs from `asked`."""
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
    """Return the best of `rows` by cosine, without those that have no vector."""
    scores, lengths = _measured(stored, vector)
    some = np.flatnonzero(lengths)
    scores, seqs, docs = scores[some], table.seqs[rows[some]], table.docs[rows[some]]
    best = np.lexsort((seqs, -scores))[:limit]
    found = zip(seqs[best].tolist(), docs[best].tolist(), scores[best].tolist(), strict=True)
    return list(map(Scored._make, found))


def _measured(
    stored: NDArray[np.float32], vector: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the cosine of each row with the unit `vector` (0 for zeros), and the length of each row."""
    lengths = np.sqrt(np.einsum("ij,ij->i", stored, stored))
    # Not `@`: BLAS would wake all cores for this and keep them spinning.
    cosines = np.einsum("ij,j->i", stored, vector)
    np.divide(cosines, lengths, out=cosines, where=lengths > 0)
    return cosines, lengths
