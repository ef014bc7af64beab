"""The cost of recording acts, in time and space: `python -m tests.benchmarks.ledger [acts]`."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import apsw

from knowledge.history.audit.inspection import inspect
from knowledge.history.codec import pack, packed_origins, unpacked_origins
from knowledge.history.ports import Ledger
from knowledge.merge.model import Origin
from knowledge.state.sqlite.store import SqliteStateStore
from tests.support.state.ledgers import MINUTE, NOW, change, entry, intent, origin

ROOT = Path(__file__).parents[2]
PROCESSES = 8
PAGE_BYTES, LONG_PAGE_BYTES = 10_000, 100_000
UNITS, MANY_UNITS = 60, 5_000
EDITS = 1_000


def page(size: int) -> list[str]:
    """Return this many bytes of the handbook's lines: real prose, tables and code."""
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "kb").rglob("*.md")))
    return text.encode()[:size].decode("utf-8", "ignore").splitlines(keepends=True)


def edited(lines: Sequence[str], draw: random.Random) -> list[str]:
    """Return the page with one line changed, as a person or a model does."""
    made = list(lines)
    made[draw.randrange(len(made))] = f"On day {draw.randrange(1000)} it took {draw.randrange(10_000)} ms instead.\n"
    return made


def origins(count: int) -> tuple[Origin, ...]:
    """Return this many units' origins: some dozens of places, a few sources."""
    return tuple(origin(f"unit {n}", section=("A", str(n % 40)), source=f"zulip:a/{n % 7}") for n in range(count))


async def acts(ledger: Ledger, path: str, count: int, units: Sequence[Origin]) -> tuple[list[float], list[float]]:
    """Return the milliseconds of each intend and of each commit of this many edits of one page."""
    draw, lines = random.Random(path), page(PAGE_BYTES)
    begun, ended = [], []
    for n in range(count):
        before, lines = "".join(lines).encode(), edited(lines, draw)
        after = "".join(lines).encode()
        made, at = change(path, before, after, lines_added=1, lines_removed=1), NOW + n * MINUTE
        started = time.perf_counter()
        await ledger.intend(intent(f"{path} {n}", made, at=at, origins={path: units}), [before, after])
        halfway = time.perf_counter()
        await ledger.commit(entry(made, at=at, origins={path: units}), intent_id=f"{path} {n}")
        begun.append((halfway - started) * 1000)
        ended.append((time.perf_counter() - halfway) * 1000)
    return begun, ended


def told(name: str, spent: Sequence[float]) -> None:
    """Print the median and the 95th percentile."""
    print(f"{name:34} p50 {median(spent):7.2f} ms   p95 {sorted(spent)[int(len(spent) * 0.95)]:7.2f} ms")


async def alone(folder: Path, count: int) -> None:
    """Print one process's cost of an act, and the cost of verifying them all."""
    store = await SqliteStateStore.open(folder / "alone.db")
    begun, ended = await acts(store.ledger, "a.md", count, origins(UNITS))
    told("intend, alone", begun)
    told("commit, alone", ended)
    told("both, alone", [one + other for one, other in zip(begun, ended, strict=True)])
    _, ended = await acts(store.ledger, "long.md", 50, origins(MANY_UNITS))
    told(f"commit, {MANY_UNITS:,} units, alone", ended)
    started = time.perf_counter()
    found = await inspect(store.ledger)
    spent = time.perf_counter() - started
    print(f"{'verify':34} {found.records / spent:,.0f} records/s, {len(found.broken)} broken")
    await store.close()


def _writer(path: Path, name: str, count: int, barrier: Any, answers: Any) -> None:
    async def run() -> tuple[list[float], list[float]]:
        store = await SqliteStateStore.open(path)
        barrier.wait(60)
        spent = await acts(store.ledger, f"{name}.md", count, origins(UNITS))
        await store.close()
        return spent

    answers.put(asyncio.run(run()))


def at_once(folder: Path, count: int) -> None:
    """Print the cost for each of several processes that write as fast as they can."""
    spawn = multiprocessing.get_context("spawn")
    barrier, answers = spawn.Barrier(PROCESSES + 1), spawn.Queue()
    path = folder / "shared.db"
    workers = [spawn.Process(target=_writer, args=(path, f"w{n}", count, barrier, answers)) for n in range(PROCESSES)]
    for worker in workers:
        worker.start()
    barrier.wait(60)
    started = time.perf_counter()
    spent = [answers.get() for _ in workers]
    seconds = time.perf_counter() - started
    for worker in workers:
        worker.join()
    begun = [one for some, _ in spent for one in some]
    ended = [one for _, some in spent for one in some]
    told(f"intend, {PROCESSES} processes", begun)
    told(f"commit, {PROCESSES} processes", ended)
    told(f"both, {PROCESSES} processes", [one + other for one, other in zip(begun, ended, strict=True)])
    print(f"{'acts of all together':34} {len(begun) / seconds:,.0f} per second")


async def space(folder: Path) -> None:
    """Print the size of a long page's revision, with each level of compression, and in the database."""
    draw, lines = random.Random(1), page(LONG_PAGE_BYTES)
    raw = "".join(lines).encode()
    for level in (1, 2, 3, 6, 9):
        started = time.perf_counter()
        for _ in range(20):
            packed = zlib.compress(raw, level)
        spent = (time.perf_counter() - started) / 20 * 1000
        print(f"zlib level {level}: {len(packed):,} of {len(raw):,} bytes in {spent:.1f} ms")
    store = await SqliteStateStore.open(folder / "space.db")
    before = None
    for n in range(EDITS):
        after = "".join(lines).encode()
        await store.ledger.intend(intent(f"{n}", change("a.md", before, after)), [after])
        await store.ledger.commit(entry(change("a.md", before, after)), intent_id=f"{n}")
        before, lines = after, edited(lines, draw)
    await store.close()
    with closing(apsw.Connection(str(folder / "space.db"))) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        rows: Any = connection.execute("SELECT sum(length(packed)) / count(*) FROM content").fetchall()
    whole = (folder / "space.db").stat().st_size
    print(f"{EDITS:,} revisions of {len(raw):,} bytes: {rows[0][0]:,} bytes of content each, {whole:,} in the file")


def units() -> None:
    """Print the size of a very long page's origins."""
    many = origins(MANY_UNITS)
    started = time.perf_counter()
    packed = packed_origins(many)
    halfway = time.perf_counter()
    unpacked_origins(packed)
    print(
        f"origins of {MANY_UNITS:,} units: {len(packed):,} bytes, packed in {(halfway - started) * 1000:.1f} ms, "
        f"unpacked in {(time.perf_counter() - halfway) * 1000:.1f} ms"
    )
    raw = "".join(page(PAGE_BYTES)).encode()
    started = time.perf_counter()
    pack(raw)
    print(f"a page of {len(raw):,} bytes: packed in {(time.perf_counter() - started) * 1000:.2f} ms")


def main(count: int) -> None:
    """Measure everything in a temporary folder; name one on a real disk with TMPDIR."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(alone(folder, count))
        at_once(folder, count)
        asyncio.run(space(folder))
        units()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
