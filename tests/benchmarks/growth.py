"""How search time grows with the knowledge base, for the embedded engines and for the given server engines.

python -m tests.benchmarks.growth [--sizes 10000,...,1000000] [--qdrant URL] [--meili URL]
    [--index-only | --keep] [--json FILE] [--write-doc]

Drawing needs matplotlib. Results of engines and sizes that were not measured this time are kept from the last run.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio

from mcp_server.app.knowledge_base import open_base
from mcp_server.app.settings.loader import load
from tests.benchmarks.__main__ import WORK, prepared, say
from tests.benchmarks.measures import Base
from tests.benchmarks.processes import ROOT

SIZES = "10000,30000,100000,300000,1000000"
QUESTIONS, WARM_UP = 200, 20
TURNS = 3
"""How often each engine is measured, in turns with the others, so that a busy moment of the machine meets all of them."""
BUILDING_S = 3_600
"""How long a server may build its graphs."""
PAGE = ROOT / "kb" / "reference" / "growth.md"
PICTURE = PAGE.with_suffix(".svg")
KEPT = Path(__file__).with_suffix(".json")
COMMAND = "python -m tests.benchmarks.growth --write-doc"


@dataclass(frozen=True, slots=True)
class Point:
    """One engine at one size. Times are of one whole search within the server's process, without the wire."""

    engine: str
    chunks: int
    p50_ms: float
    p95_ms: float
    first_s: float
    indexing_s: float
    memory_mb: float
    disk_mb: float


def indexed(base: Base, engine: str, environment: Mapping[str, str]) -> float:
    """Index `base` in a process of its own, for a server after the embedded engines, and return the seconds.

    The servers are filled from the index of the embedded engines, so theirs are the seconds that filling takes.
    """
    say(f"{base.corpus.estimated_chunks:,} chunks, {engine}: indexing")
    began = time.perf_counter()
    command = ["index", "--kb", str(base.kb), "--state-dir", str(base.state_dir), "--json"]
    surroundings = {**os.environ, **environment}
    subprocess.run(
        [sys.executable, "-m", "mcp_server", *command], cwd=ROOT, env=surroundings, check=True, capture_output=True
    )
    if url := environment.get("FORGE_QDRANT_URL"):
        _wait_for_graphs(url)
    return round(time.perf_counter() - began, 1)


def all_indexed(base: Base, engines: Mapping[str, Mapping[str, str]], *, kept: bool) -> dict[str, float]:
    """Index `base` with all engines, and return the seconds of each; what an earlier run indexed is used if it is `kept`."""
    notes = base.state_dir.with_name(f"{base.state_dir.name}.json")
    if not kept:
        shutil.rmtree(base.state_dir, ignore_errors=True)
        notes.unlink(missing_ok=True)
    seconds: dict[str, float] = json.loads(notes.read_text(encoding="utf-8")) if notes.exists() else {}
    for engine, environment in engines.items():
        if engine not in seconds:
            seconds[engine] = indexed(base, engine, environment)
            notes.write_text(json.dumps(seconds), encoding="utf-8")
    return seconds


def _wait_for_graphs(url: str) -> None:
    """Return when Qdrant has built the graphs of all collections. Until then it compares a question with every vector."""

    def result(path: str) -> Any:
        return _read(f"{url}/collections{path}")["result"]

    ends = time.monotonic() + BUILDING_S
    names = [collection["name"] for collection in result("")["collections"]]
    while any(result(f"/{name}")["status"] != "green" for name in names):
        if time.monotonic() > ends:
            raise TimeoutError(f"Qdrant has not built its graphs within {BUILDING_S:,} s")
        time.sleep(1)


def measured(base: Base, engine: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Search the indexed `base` with these engines, in a process of its own, and return the measures of one search."""
    surroundings = {**os.environ, **environment}
    say(f"{base.corpus.estimated_chunks:,} chunks, {engine}: searching (load {os.getloadavg()[0]:.1f})")
    asked = [sys.executable, "-m", "tests.benchmarks.growth", "--ask", str(base.kb), str(base.state_dir)]
    said = subprocess.run(asked, cwd=ROOT, env=surroundings, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def middle(turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the median of each measure."""
    return {name: round(statistics.median(turn[name] for turn in turns), 2) for name in turns[0]}


def _disk_mb(folder: Path) -> float:
    return round(sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6, 1)


async def ask(kb: Path, state_dir: Path) -> dict[str, Any]:
    """Return how long the labelled questions of an indexed knowledge base take."""
    from tests.benchmarks.corpus import load as questions_of

    queries = [query.text for query in questions_of(kb).queries]
    texts = [queries[number % len(queries)] for number in range(QUESTIONS)]
    times = []
    async with open_base(load({"kb": str(kb), "state_dir": str(state_dir)})) as base:
        began = time.perf_counter()
        await base.finder.search(texts[0])
        first_s = time.perf_counter() - began
        for text in texts[:WARM_UP]:
            await base.finder.search(text)
        for text in texts:
            began = time.perf_counter()
            answer = await base.finder.search(text)
            times.append((time.perf_counter() - began) * 1000)
            if answer.note:
                raise RuntimeError(f"an engine was missing, so this measures nothing: {answer.note}")
        memory_mb = _resident_mb()
        position = await base.index.position()
        chunks = len((await base.index.delta(type(position)("", 0), limit=10**9, codes=True)).codes)
    return {
        "chunks": chunks,
        "p50_ms": round(statistics.median(times), 2),
        "p95_ms": round(statistics.quantiles(times, n=20, method="inclusive")[18], 2),
        "first_s": round(first_s, 2),
        "memory_mb": round(memory_mb, 1),
    }


def _resident_mb() -> float:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def _about(chunks: int) -> int:
    """Return the requested size: the generator's result is near it."""
    return int(float(f"{chunks:.0e}"))


def drawn(points: Sequence[Point], picture: Path) -> None:
    """Write the plot: search time over chunks, both axes logarithmic, p50 solid, p95 dashed, one colour an engine."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = "growth"  # the same numbers draw the same bytes
    from matplotlib import pyplot as plt
    from matplotlib import ticker

    figure, axes = plt.subplots(figsize=(8.5, 4))
    for engine in dict.fromkeys(point.engine for point in points):
        line = sorted((point for point in points if point.engine == engine), key=lambda point: point.chunks)
        chunks = [point.chunks for point in line]
        (median,) = axes.plot(chunks, [point.p50_ms for point in line], marker="o", label=f"{engine}, p50")
        axes.plot(chunks, [point.p95_ms for point in line], "--", marker=".", color=median.get_color(), label="p95")
    axes.set(xscale="log", yscale="log", xlabel="passages", ylabel="milliseconds a search")
    plain = ticker.FuncFormatter(lambda value, _place: f"{value:,.0f}")
    axes.xaxis.set_major_formatter(plain)
    axes.yaxis.set(major_formatter=plain, minor_formatter=plain)
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(picture, metadata={"Date": None})
    plt.close(figure)


def page(points: Sequence[Point]) -> str:
    """Return the handbook's page."""
    rows = "\n".join(
        f"| {p.engine} | {p.chunks:,} | {p.p50_ms} | {p.p95_ms} | {p.first_s} | {p.indexing_s:,} "
        f"| {p.memory_mb:,.0f} | {p.disk_mb:,.0f} |"
        for p in points
    )
    today, cores = datetime.now(UTC).date().isoformat(), len(os.sched_getaffinity(0))
    return f"""---
title: Growth
summary: How search time, memory and disk grow from ten thousand to a million passages.
tags: [performance, benchmarks, scaling]
kind: reference
---
# Growth

Written by `{COMMAND}`, not by hand ({today}, {cores} cores). One search is
measured within the server's process, without the wire, over {QUESTIONS} labelled questions on generated knowledge bases
(`tests/benchmarks/corpus.py`). The engines take turns; a figure is the median of at least {TURNS} turns.
A row that the last run did not measure is kept from an earlier run, perhaps of slower code.

![Search time over passages](growth.svg)

| engine | passages | p50 ms | p95 ms | first search s | indexing s | memory MB | disk MB |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
{rows}

With `--qdrant URL` and `--meili URL` the same program measures and draws those engines, here on the same machine and the same
cores. A row with Qdrant has its vectors there and its words in the embedded index; a row with Meilisearch has its words there
and its vectors in the embedded index. The servers are filled from the embedded index: their indexing time comes on top of that
of the embedded engines, and includes Qdrant's graphs. Disk is what lies in the state directory, and memory is that of our
process, with the parts of the index files that it has mapped. What a server itself uses is in neither.

See [Benchmarks](benchmarks.md) for what is promised, and [Large knowledge bases](../guides/large-knowledge-bases.md)
for what to choose.
"""


def _read(url: str) -> Any:
    with urlopen(url, timeout=BUILDING_S) as response:  # noqa: S310 - the address that the caller gave
        return json.load(response)


def _qdrant(url: str) -> str:
    """Return the name and version of the server, which may also be Qdrant's library behind our own."""
    about = _read(url)
    return f"{'Qdrant Edge' if 'Edge' in about['title'] else 'Qdrant'} {about['version']}"


def _meilisearch(url: str) -> str:
    return f"Meilisearch {_read(f'{url}/version')['pkgVersion']}"


def main() -> int:
    """Measure, keep, draw."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.growth", description=__doc__)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--qdrant", metavar="URL")
    parser.add_argument("--meili", metavar="URL")
    parser.add_argument("--keep", action="store_true", help="index only what no earlier run has indexed")
    parser.add_argument("--index-only", action="store_true", help="measure later, with --keep")
    parser.add_argument("--json", type=Path, default=WORK / "growth.json", metavar="FILE")
    parser.add_argument("--write-doc", action="store_true", help=f"write {PAGE.relative_to(ROOT)} and its picture")
    parser.add_argument("--ask", nargs=2, type=Path, metavar=("KB", "STATE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ask:
        print(json.dumps(anyio.run(ask, *args.ask)))
        return 0
    engines: dict[str, dict[str, str]] = {"embedded": {}}
    if args.qdrant:
        engines[_qdrant(args.qdrant)] = {"FORGE_QDRANT_URL": args.qdrant}
    if args.meili:
        engines[_meilisearch(args.meili)] = {"FORGE_MEILI_URL": args.meili}
    WORK.mkdir(exist_ok=True)
    kept = KEPT if KEPT.exists() else args.json
    known = [Point(**point) for point in json.loads(kept.read_text(encoding="utf-8"))] if kept.exists() else []
    points = {(point.engine, _about(point.chunks)): point for point in known}
    for size in sorted(int(size) for size in args.sizes.split(",")):
        base = prepared(size, keep_index=True)
        seconds = all_indexed(base, engines, kept=args.keep)
        if args.index_only:
            print(json.dumps({"size": size, "indexing_s": seconds}), flush=True)
            continue
        turns = [
            {engine: measured(base, engine, environment) for engine, environment in engines.items()}
            for _ in range(TURNS)
        ]
        for engine in engines:
            found = middle([turn[engine] for turn in turns])
            point = Point(engine, indexing_s=seconds[engine], disk_mb=_disk_mb(base.state_dir), **found)
            points[engine, _about(point.chunks)] = point
            print(json.dumps(asdict(point)), flush=True)
    if args.index_only:
        return 0
    ordered = [points[key] for key in sorted(points)]
    (KEPT if args.write_doc else args.json).write_text(
        json.dumps([asdict(point) for point in ordered], indent=1) + "\n", encoding="utf-8"
    )
    if args.write_doc:
        drawn(ordered, PICTURE)
        PAGE.write_text(page(ordered), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
