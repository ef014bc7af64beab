"""The measurements, one function for each promise. Each returns plain numbers with their units in their names."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import anyio

from tests.benchmarks.corpus import TWENTY, Corpus, Query
from tests.benchmarks.processes import ROOT, Served, bare, cpu_s, first_listing, memory_mb, ours, served

STARTS = 7
MAP_CALLS = 1_000
SEARCHES = 240
COLD_SEARCHES = 5
CHANGES = 25
SETTLE_S = 3.0
CHANGE_WITHIN_S = 10.0
QUIET_S = 0.5


@dataclass(frozen=True, slots=True)
class Base:
    """A knowledge base under measurement: its pages, the location of its state, and its questions."""

    kb: Path
    state_dir: Path
    corpus: Corpus

    @property
    def serve(self) -> list[str]:
        """The arguments that serve it."""
        return ours(self.kb, self.state_dir)


@dataclass(frozen=True, slots=True)
class Indexing:
    """A first index, from the process's start to its end."""

    documents: int
    chunks: int
    seconds: float
    chunks_per_s: float


def index(base: Base) -> Indexing:
    """Rebuild the index of `base` in a process of its own, and return its cost."""
    began = time.perf_counter()
    said = subprocess.run(
        [sys.executable, "-m", "mcp_server", "index", "--kb", base.kb, "--state-dir", base.state_dir, "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    outcome: dict[str, Any] = json.loads(said.stdout)
    chunks = int(outcome["embedded_chunks"])  # from nothing, every chunk is embedded
    return Indexing(int(outcome["documents"]), chunks, seconds, chunks / seconds)


@dataclass(frozen=True, slots=True)
class StartUp:
    """Medians of starts that alternate with the bare server's, and their ratios."""

    seconds: float
    bare_seconds: float
    seconds_ratio: float
    peak_mb: float
    bare_peak_mb: float
    peak_ratio: float


def start_up(base: Base) -> StartUp:
    """Start the server on an indexed knowledge base and the bare one alternately."""
    first_listing(base.serve, 0)  # byte code and the file cache are warm for both
    first_listing(bare(), 0)
    taken = [(first_listing(base.serve, SETTLE_S), first_listing(bare(), 0)) for _ in range(STARTS)]
    seconds, bare_seconds = (statistics.median(pair[i].seconds for pair in taken) for i in (0, 1))
    peak, bare_peak = (statistics.median(pair[i].peak_mb for pair in taken) for i in (0, 1))
    return StartUp(seconds, bare_seconds, seconds / bare_seconds, peak, bare_peak, peak / bare_peak)


@dataclass(frozen=True, slots=True)
class MapCost:
    """Server processor time of one `kb_map` call, beside the bare tool that returns the same result."""

    children: int
    cpu_ms: float
    bare_cpu_ms: float
    above_ms: float


async def map_cost(base: Base, folder: Path) -> MapCost:
    """Call `kb_map` on a directory of 20 pages, and the bare tool, alternating every hundred calls."""
    async with served(base.serve) as server:
        _, view = await server.timed("kb_map", {"path": TWENTY})
        answer = folder / "map.json"
        answer.write_text(json.dumps(view), encoding="utf-8")
        async with served(bare(answer)) as plain:
            used = {server.pid: 0.0, plain.pid: 0.0}
            for side in (server, plain):
                await _calls(side, 50)
            await anyio.sleep(SETTLE_S)
            for _ in range(MAP_CALLS // 100):
                for side in (server, plain):
                    began = cpu_s(side.pid)
                    await _calls(side, 100)
                    used[side.pid] += cpu_s(side.pid) - began
            own, other = (used[side.pid] / MAP_CALLS * 1000 for side in (server, plain))
            return MapCost(len(view["children"]), own, other, own - other)


async def _calls(side: Served, count: int) -> None:
    for _ in range(count):
        await side.timed("kb_map", {"path": TWENTY})


@dataclass(frozen=True, slots=True)
class SearchTimes:
    """A client's wait for `kb_search`, and the same without the wire: less the p50 of a no-op call."""

    noop_p50_ms: float
    p50_above_ms: float
    p95_above_ms: float
    first_s: float
    memory_after_mb: float
    found_first: dict[str, float]
    found_in_five: dict[str, float]


async def searches(base: Base) -> SearchTimes:
    """Ask the labelled questions, each after a no-op call of the bare server."""
    first = statistics.median([await _first_search(base, query) for query in base.corpus.queries[:COLD_SEARCHES]])
    questions = _questions(base.corpus.queries)
    empty = base.state_dir.parent / "empty-map.json"
    empty.write_text(json.dumps(EMPTY_MAP), encoding="utf-8")
    async with served(base.serve) as server, served(bare(empty)) as plain:
        for query in questions[:20]:
            await server.timed("kb_search", {"query": query.text})
            await plain.timed("noop", {})
        noops, times, ranks = [], [], []
        for query in questions:
            noops.append((await plain.timed("noop", {}))[0])
            seconds, answer = await server.timed("kb_search", {"query": query.text})
            times.append(seconds)
            ranks.append((query.kind, _rank(answer, query.path)))
        noop = statistics.median(noops)
        return SearchTimes(
            noop * 1000,
            (statistics.median(times) - noop) * 1000,
            (_p95(times) - noop) * 1000,
            first,
            memory_mb(server.pid, "VmRSS"),
            _share(ranks, 1),
            _share(ranks, 5),
        )


EMPTY_MAP: dict[str, Any] = {
    **dict.fromkeys(("path", "title", "summary"), ""),
    "derived": True,
    "children": [],
    "count": 0,
    "modified": None,
    "truncated": False,
    "note": None,
}


async def _first_search(base: Base, query: Query) -> float:
    async with served(base.serve) as server:
        seconds, _ = await server.timed("kb_search", {"query": query.text})
        return seconds


def _questions(queries: Sequence[Query]) -> list[Query]:
    """Return the requested number of queries, repeating them if there are fewer."""
    return [queries[number % len(queries)] for number in range(SEARCHES)]


def _rank(answer: dict[str, Any], path: str) -> int:
    """Return the place, from 1, of the expected page among the pages found; 0 if it is missing."""
    pages = list(dict.fromkeys(hit["path"] for hit in answer["hits"]))
    return pages.index(path) + 1 if path in pages else 0


def _share(ranks: Sequence[tuple[str, int]], within: int) -> dict[str, float]:
    by_kind: dict[str, list[bool]] = defaultdict(list)
    for kind, rank in ranks:
        by_kind[kind].append(0 < rank <= within)
    return {kind: sum(hits) / len(hits) for kind, hits in sorted(by_kind.items())}


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[18]


@dataclass(frozen=True, slots=True)
class Freshness:
    """From the save of a file to its first appearance in a search, and the server's work for one such change.

    `search_ms` is how much longer a question waits right after a change than without one, at the median.
    """

    p50_ms: float
    p95_ms: float
    cpu_ms: float
    search_ms: float


async def freshness(base: Base) -> Freshness:
    """Change pages under a running server; search until the new word is found.

    Then measure the work without searches.
    """
    pages = [base.kb / query.path for query in base.corpus.queries if query.kind == "title"]
    before = {page: page.read_bytes() for page in pages[:CHANGES]}
    try:
        async with served(base.serve) as server:
            await server.timed("kb_search", {"query": "warm"})
            await anyio.sleep(SETTLE_S)
            waits = [await _until_found(server, pages[n % len(pages)], n) for n in range(CHANGES)]
            longer = await _after_changes(server, pages[:CHANGES], base.corpus.queries)
            spent = await _work(server, pages[:CHANGES])
    finally:
        for page, said in before.items():
            page.write_bytes(said)
    return Freshness(statistics.median(waits) * 1000, _p95(waits) * 1000, spent * 1000, longer * 1000)


async def _until_found(server: Served, page: Path, number: int) -> float:
    word = f"zq{time.time_ns():x}x{number}"
    saved = _save(page, word)
    until = saved + CHANGE_WITHIN_S
    while time.perf_counter() < until:
        _, answer = await server.timed("kb_search", {"query": word})
        if any(word in hit["snippet"] for hit in answer["hits"]):
            return time.perf_counter() - saved
    raise TimeoutError(f"a change of {page.name} was not searchable within {CHANGE_WITHIN_S} s")


async def _after_changes(server: Served, pages: Sequence[Path], queries: Sequence[Query]) -> float:
    """Return the median wait of a question that follows an indexed change, less that of one that follows none."""
    waits: dict[bool, list[float]] = {False: [], True: []}
    for number, query in enumerate(queries[: 2 * CHANGES]):
        changed = bool(number % 2)
        if changed:
            _save(pages[number // 2 % len(pages)], f"zs{time.time_ns():x}x{number}")
        await anyio.sleep(QUIET_S)
        waits[changed].append((await server.timed("kb_search", {"query": query.text}))[0])
    return statistics.median(waits[True]) - statistics.median(waits[False])


async def _work(server: Served, pages: Sequence[Path]) -> float:
    """Return the processor seconds of one change, less those of an idle server in the same time."""
    await anyio.sleep(SETTLE_S)
    idle = cpu_s(server.pid)
    await anyio.sleep(CHANGES * QUIET_S)
    idle = cpu_s(server.pid) - idle
    busy = cpu_s(server.pid)
    for number in range(CHANGES):
        _save(pages[number % len(pages)], f"zw{time.time_ns():x}x{number}")
        await anyio.sleep(QUIET_S)
    return (cpu_s(server.pid) - busy - idle) / CHANGES


def _save(page: Path, word: str) -> float:
    """Add a line with `word` to `page` and return the time of that."""
    with page.open("a", encoding="utf-8") as file:
        file.write(f"\nThe word {word} was added.\n")
    return time.perf_counter()


def plain(result: Any) -> dict[str, Any]:
    """Return a result as JSON."""
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(result).items()}
