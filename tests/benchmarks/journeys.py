"""Steps a second, bytes a step and time to resume: `python -m tests.benchmarks.journeys [--langgraph PYTHON] [STEPS...]`.

A step here is all that a submit does in the process: read where the journey stands, work out what follows, append. Every
step is on disk before the next begins. `--langgraph` names an interpreter that has `langgraph` and
`langgraph-checkpoint-sqlite`, which then does the same steps in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import psycopg

from agents.graph import Phase, PhaseGraph, Transition
from agents.journey import step_key, submitted
from agents.store import JourneyStore
from knowledge.storage.ports import StateStore
from mcp_server.journeys import journeys_in
from tests.journeys import ADA, begun, work
from tests.ledgers import NOW, open_shared
from tests.postgres import PostgresServer, programs

STEPS = (10, 100, 1_000)
TEXT = "x" * 200
READS = 20
THREE = PhaseGraph(
    "three",
    (Phase("first"), Phase("second"), Phase("third"), Phase("done")),
    (
        Transition("first", "second"),
        Transition("second", "third"),
        Transition("third", "done", "enough"),
        Transition("third", "first", "again", is_backward=True),
    ),
    "first",
    ("done",),
)
"""Three phases, round and round."""


async def steps(journeys: JourneyStore, count: int) -> float:
    """Return the seconds that so many steps of a new journey took."""
    await journeys.start("j-1", replace(begun(), phase="first"), by=ADA, at=NOW)
    began = time.perf_counter()
    for n in range(count):
        state = await journeys.journey("j-1")
        events = submitted(THREE, "j-1", state, work(f"{n} {TEXT}"), {"again"})
        key = step_key("j-1", state.version, f"{n} {TEXT}")
        await journeys.append("j-1", events, expected=state.version, key=key, by=ADA, at=NOW)
    return time.perf_counter() - began


async def resuming(where: str, name: str) -> tuple[float, float]:
    """Return the milliseconds of reading where a journey stands, and those with opening the database."""
    reads, opened = [], []
    for _ in range(READS):
        began = time.perf_counter()
        state = await open_shared(where, name)
        await journeys_in(state).journeys(limit=1)  # a connection is opened when it is first needed
        halfway = time.perf_counter()
        found = await journeys_in(state).journey("j-1")
        ended = time.perf_counter()
        assert found.work["first"].content.endswith(TEXT)
        reads.append((ended - halfway) * 1000)
        opened.append((ended - began) * 1000)
        await state.close()
    return median(reads), median(opened)


async def measured(where: str, count: int) -> Mapping[str, float]:
    """Return what so many steps cost in a database of their own."""
    name = f"steps_{count}"
    state = await open_shared(where, name)
    before = _bytes(state, where, name)
    seconds = await steps(journeys_in(state), count)
    after = _bytes(state, where, name)
    await state.close()
    read, opened = await resuming(where, name)
    size = (after - before) / count
    return {"per_second": count / seconds, "bytes": size, "resume_ms": read, "opened_ms": opened}


def _bytes(_state: StateStore, where: str, name: str) -> int:
    """Return how large the tables of journeys are, indexes included, once everything is in its place."""
    if where.startswith("postgresql://"):
        with psycopg.connect(where, autocommit=True) as connection:
            connection.execute(f"VACUUM FULL {name}.journey".encode())
            sql = f"SELECT sum(pg_total_relation_size(t)) FROM unnest('{{{name}.journey,{name}.journey_event}}'::regclass[]) t"  # noqa: S608 - ours
            row: Any = connection.execute(sql.encode()).fetchone()
            return int(row[0])
    with closing(apsw.Connection(str(Path(where) / name / "state.db"))) as connection:
        connection.set_busy_timeout(5_000)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return (Path(where) / name / "state.db").stat().st_size


def told(name: str, count: int, cost: Mapping[str, float]) -> None:
    """Print what so many steps cost."""
    opened = f", {cost['opened_ms']:5.1f} with opening" if "opened_ms" in cost else ""
    print(
        f"{name:26} {count:5} steps: {cost['per_second']:6.0f} a second {cost['bytes']:7.0f} bytes a step "
        f" resume {cost['resume_ms']:5.2f} ms{opened}",
        flush=True,
    )


def postgres(folder: Path, counts: Sequence[int]) -> None:
    """Print what a real server takes that writes every commit to disk."""
    server = PostgresServer(folder, programs())
    try:
        with (server.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("fsync=on\n")  # the tests' server does without
        server.stop("fast")
        server.start()
        for count in counts:
            told("PostgreSQL", count, asyncio.run(measured(server.url(), count)))
    finally:
        server.close()


def langgraph(python: str, folder: Path, count: int) -> None:
    """Print what the same steps take with LangGraph and its SQLite checkpointer."""
    script = Path(__file__).with_name("journeys_langgraph.py")
    # -P: a module of ours beside the script has the name of one of the standard library.
    command = [python, "-P", str(script), str(folder), str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    told(f"LangGraph {found['version']}, SQLite", count, found)


def main() -> None:
    """Measure in a folder that is thrown away; name one on a real disk with TMPDIR."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--langgraph")
    asked.add_argument("--without-postgres", action="store_true")
    asked.add_argument("steps", nargs="*", type=int, default=STEPS)
    given = asked.parse_args()
    with tempfile.TemporaryDirectory() as name:
        # One after the other for each number: what else the machine does is then about the same for both.
        for count in given.steps:
            told("SQLite", count, asyncio.run(measured(name, count)))
            if given.langgraph:
                langgraph(given.langgraph, Path(name), count)
    if not given.without_postgres:
        postgres(Path(tempfile.mkdtemp(prefix="forge-pg-")), given.steps)


if __name__ == "__main__":
    main()
