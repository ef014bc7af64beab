"""Speed of the index at 100,000 chunks: `python -m tests.benchmarks.storage [documents]`."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from pathlib import Path

from knowledge.index.store.sqlite import SqliteIndexStore
from knowledge.state.ports import DocumentRecord, Filters, IndexedChunk, IndexIdentity, IndexPosition, Replace, Stamp

DRAW = random.Random(1)
WORDS = [f"w{DRAW.getrandbits(32):x}" for _ in range(30_000)]
ZIPF = list(itertools.accumulate(1 / (rank + 3) for rank in range(len(WORDS))))
BATCH = 64


def document(n: int) -> Replace:
    """Return one document of ten chunks of about 1 KB."""
    chunks = []
    for i in range(10):
        words = DRAW.choices(WORDS, cum_weights=ZIPF, k=110)
        text = " ".join(words)
        digest = blake2b(text.encode(), digest_size=16).digest()
        half, code = DRAW.randbytes(512), DRAW.randbytes(32)
        chunks.append(IndexedChunk(i, ("Head", f"Part {i}"), i, i + 9, text, digest, half, code, frozenset(words)))
    path, sections = f"area{n % 20}/topic{n % 200}/doc {n}.md", tuple(f"Head > Part {i}" for i in range(8))
    stamp = Stamp(1, 10**18 + n, 3)
    record = DocumentRecord(
        path, f"Title {n}", "About it.", "page", f"kb:{n}", "en", ("a", f"t{n % 30}"), (), sections,
        untrusted=False, revision=f"r{n}", stamp=stamp, tokens=300, indexed_at_ns=9,
    )  # fmt: skip
    return Replace(record, tuple(chunks))


async def timed(name: str, act: Callable[[], Awaitable[object]], times: int) -> None:
    """Print the median and the 95th percentile."""
    spent = []
    for _ in range(times):
        started = time.perf_counter()
        await act()
        spent.append((time.perf_counter() - started) * 1000)
    spent.sort()
    print(f"{name:24} p50 {spent[times // 2]:8.3f} ms   p95 {spent[int(times * 0.95)]:8.3f} ms")


async def main(documents: int) -> None:
    """Fill an index, then query it as a search does."""
    with tempfile.TemporaryDirectory() as folder:
        store = await SqliteIndexStore.open(Path(folder) / "index.db")
        await store.begin(IndexIdentity("bench", 256, 1))
        wall = cpu = 0.0
        for first in range(0, documents, BATCH):
            batch = [document(n) for n in range(first, min(first + BATCH, documents))]
            started, used = time.perf_counter(), time.process_time()
            await store.apply(batch, fence=1)
            wall, cpu = wall + time.perf_counter() - started, cpu + time.process_time() - used
        print(f"apply {documents * 10 / wall:,.0f} chunks/s ({documents * 10 / cpu:,.0f} per second of CPU)")
        everything = (await store.delta(IndexPosition("", 0), limit=10**9, codes=True)).codes
        seqs = [row.seq for row in everything]
        some, many = DRAW.sample(seqs, 20), [DRAW.sample(seqs, 2000) for _ in range(20)]
        turn = itertools.cycle(many)
        again = [document(n) for n in range(BATCH)]
        await timed("position", store.position, 2000)
        await timed("chunks of 20", lambda: store.chunks(some), 200)
        await timed("halves of 2,000", lambda: store.halves(next(turn)), 40)
        await timed("delta of all codes", lambda: store.delta(IndexPosition("", 0), limit=10**9, codes=True), 5)
        await timed("children of 20", lambda: store.children("area3/topic3", limit=20), 200)
        await timed("select by path", lambda: store.select(Filters(path="area3")), 50)
        await timed("select by tag", lambda: store.select(Filters(tags=("t3",))), 50)
        await timed("select by kind", lambda: store.select(Filters(kind="page")), 20)
        await timed("named, a common heading", lambda: store.named("part 3", limit=8), 200)
        await timed("paths containing", lambda: store.paths(contains="DOC 77", limit=50), 20)
        await timed("completions", lambda: store.completions("wa", limit=3), 50)
        await timed("stamps", store.stamps, 5)
        await timed("replace one document", lambda: store.apply(again[:1], fence=1), 20)
        await timed("replace 64 documents", lambda: store.apply(again, fence=1), 5)
        await store.close()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
