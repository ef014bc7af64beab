"""How many of the true nearest neighbours vector search finds: `python -m tests.benchmarks.recall KB STATE_DIR`.

The knowledge base must be indexed. The questions are headings of its own pages; the truth is an exact search of all
stored vectors.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import anyio
import numpy as np

from knowledge.index.engines import codes
from knowledge.state.ports import IndexPosition
from mcp_server.app.knowledge_base import KnowledgeBase, open_base
from mcp_server.app.settings.settings import Settings

QUESTIONS = 150
TRIED = (200, codes.RESCORED, 2_000)


async def headings(base: KnowledgeBase, seed: int = 1) -> list[str]:
    """Return the last part of a heading path from each of some pages."""
    chance = np.random.default_rng(seed)
    paths = list(await base.index.paths(limit=1_000_000))
    found = []
    for path in chance.permutation(paths)[:QUESTIONS]:
        record = await base.index.document(str(path))
        if record and record.sections:
            found.append(record.sections[chance.integers(len(record.sections))].rpartition(" > ")[2])
    return found


async def measure(kb: Path, state_dir: Path) -> None:
    """Print recall at 10 and the median time for several numbers of rescored vectors."""
    async with open_base(Settings(kb=kb, state_dir=state_dir)) as base:
        rows = (await base.index.delta(IndexPosition("", 0), limit=10**9, codes=True)).codes
        halves = await base.index.halves([row.seq for row in rows])
        stored = np.frombuffer(b"".join(halves), "<f2").reshape(len(rows), -1).astype(np.float32)
        stored /= np.maximum(np.linalg.norm(stored, axis=1, keepdims=True), 1e-9)
        engines = await base.engines()
        embedder = await engines.embedder((await base.index.space()).identity)
        vectors = [v for v in await embedder.embed(await headings(base)) if v.any()]
        for codes.RESCORED in TRIED:
            found, times = 0, []
            for vector in vectors:
                truth = np.sort(stored @ vector)[-10]
                started = time.perf_counter()
                hits = await engines.vectors.search(base.index, vector, limit=100)
                times.append(time.perf_counter() - started)
                found += sum(hit.score >= truth - 1e-3 for hit in hits[:10])
            recall, median = found / (10 * len(vectors)), float(np.median(times)) * 1000
            print(f"{len(rows):,} chunks, {codes.RESCORED:,} vectors read: recall@10 {recall:.3f}, {median:.1f} ms")


if __name__ == "__main__":
    anyio.run(measure, Path(sys.argv[1]), Path(sys.argv[2]))
