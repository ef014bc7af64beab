"""What a step of a journey costs: `python -m tests.benchmarks.journeys [--langgraph PYTHON] [--write-doc] [STEPS...]`.

*Submit* is the whole path of a submit in the process, `Runner.submit`: key, state, form, conditions, record, answer. *Store* is its
part that reads where the journey stands and appends. Every step is on disk before the next begins. `--langgraph` names an interpreter
that has `langgraph`, `langgraph-checkpoint-sqlite`, `langgraph-checkpoint-postgres` and `psycopg[binary]`; it then does the same steps
of an equal graph in the same run. All take turns, in several rounds, so that what else the machine does meets them alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import psycopg

from agents.agent import MET, Agent, Facts, Finding, Look
from agents.graph import Phase, PhaseGraph, Transition
from agents.journey import step_key, submitted
from agents.running import Runner, Submission
from agents.store import JourneyStore
from agents.work import ModelForm, PhaseWork
from mcp_server.journeys import journeys_in
from tests.agents_at_work import Pages
from tests.benchmarks.handbook import write_section
from tests.journeys import ADA, begun, work
from tests.ledgers import NOW, open_shared
from tests.postgres import PostgresServer, programs
from tests.small_agents import Only

STEPS = (10, 100, 1_000)
ROUNDS = 3
TEXT = "x" * 200
READS, WARM_UP = 20, 500
"""The second: steps of another journey that come before: the database's log grows to its usual size, and is then written over."""
GOAL, PROMISED_ON = 3.0, "SQLite"
"""So many times LangGraph's steps a second, there."""
SUBMIT, STORE, LANGGRAPH = "submit", "store", "LangGraph"
BRIEF = "Go round."
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


class Text(PhaseWork):
    """The work of a phase."""

    text: str


async def always(_facts: Facts, _look: Look) -> Finding:
    """Be met."""
    return MET


AGENT = Agent(
    name="three",
    title="Three",
    summary="Goes round.",
    graph=THREE,
    forms={name: ModelForm(Text) for name in ("first", "second", "third")},
    conditions={"again": always, "enough": always},
    texts={},
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What so many steps of one kind cost: steps a second; processor milliseconds (not the database server's) and bytes each.

    `resume_ms`: milliseconds to read where the journey stands.
    """

    per_second: float
    cpu_ms: float
    bytes: float
    resume_ms: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The costs of each kind for so many steps in one database, one of each a round."""

    database: str
    steps: int
    costs: Mapping[str, Sequence[Cost]]

    def middle(self, kind: str) -> Cost:
        """Return the medians of the rounds."""
        costs = self.costs[kind]
        return Cost(*(median(getattr(cost, name) for cost in costs) for name in Cost.__slots__))

    def times(self, kind: str) -> Sequence[float]:
        """Return how many times LangGraph's steps a second that kind does in each round, least first."""
        pairs = zip(self.costs[kind], self.costs.get(LANGGRAPH, ()), strict=False)
        return sorted(ours.per_second / theirs.per_second for ours, theirs in pairs)


Way = Callable[[JourneyStore, str, int], Awaitable[tuple[float, float]]]
"""Takes so many steps of a new journey, and returns the seconds and processor seconds that they took."""


class Watch:
    """Seconds and processor seconds since it was made."""

    def __init__(self) -> None:
        self._began, self._cpu_began = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._began, time.process_time() - self._cpu_began


async def stored(journeys: JourneyStore, name: str, steps: int) -> tuple[float, float]:
    """Return what so many steps took, without runner."""
    await journeys.start(name, replace(begun(BRIEF), agent="three", phase="first"), by=ADA, at=NOW)
    watch = Watch()
    for n in range(steps):
        content = {"text": f"{n} {TEXT}"}
        state = await journeys.journey(name)
        events = submitted(THREE, name, state, work(content), {"again"})
        key = step_key(name, state.version, content)
        await journeys.append(name, events, expected=state.version, key=key, by=ADA, at=NOW, before=state)
    return watch.read()


async def led(journeys: JourneyStore, name: str, steps: int) -> tuple[float, float]:
    """Return what so many submits took."""
    runner = Runner(
        journeys, Only(AGENT), lambda _journey, _state: Pages(), now=lambda: datetime.now(UTC), chance=lambda: name
    )
    here = await runner.start("three", BRIEF, {}, by=ADA)
    watch = Watch()
    for n in range(steps):
        submission = Submission({"text": f"{n} {TEXT}"})
        here = await runner.submit(here.journey, here.state.version, submission, by=ADA)
    taken = watch.read()
    assert here.state.version == 1 + steps
    return taken


async def resuming(where: str, name: str) -> float:
    """Return the milliseconds of reading where a journey stands."""
    reads = []
    for _ in range(READS):
        state = await open_shared(where, name)
        (line,) = await journeys_in(state).journeys(limit=1)  # a connection is opened when it is first needed
        began = time.perf_counter()
        found = await journeys_in(state).journey(line.id)
        reads.append((time.perf_counter() - began) * 1000)
        assert found.work["first"].content["text"].endswith(TEXT)
        await state.close()
    return median(reads)


async def ours(where: str, name: str, steps: int, way: Way) -> Cost:
    """Return what so many steps cost in a database of their own."""
    state = await open_shared(where, name)
    await way(journeys_in(state), "before", WARM_UP)
    before = size(where, name)
    seconds, cpu_s = await way(journeys_in(state), "measured", steps)
    after = size(where, name)
    await state.close()
    return Cost(steps / seconds, 1000 * cpu_s / steps, (after - before) / steps, await resuming(where, name))


def size(where: str, name: str) -> int:
    """Return how large the tables of journeys are, indexes included, once everything is in its place."""
    if where.startswith("postgresql://"):
        with psycopg.connect(where, autocommit=True) as connection:
            tables = f"{name}.journey", f"{name}.journey_event"
            for table in tables:
                connection.execute(f"VACUUM FULL {table}".encode())
            row: Any = connection.execute(
                "SELECT sum(pg_total_relation_size(t)) FROM unnest(%s::regclass[]) t", (list(tables),)
            ).fetchone()
            return int(row[0])
    with closing(apsw.Connection(str(Path(where) / name / "state.db"))) as connection:
        connection.set_busy_timeout(5_000)
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # its log stays, to be written over
        return (Path(where) / name / "state.db").stat().st_size


def langgraph(python: str, where: str, name: str, steps: int) -> tuple[str, Cost]:
    """Return LangGraph's version, and what the same steps take with it and its checkpointer."""
    script = Path(__file__).with_name("journeys_langgraph.py")
    # -P: a module of ours beside the script has the name of one of the standard library.
    command = [python, "-P", str(script), where, name, str(steps)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{script.name} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    found = json.loads(ended.stdout)
    return found.pop("version"), Cost(**found)


class Comparison:
    """Measures kind after kind in one place, and tells what came of it."""

    def __init__(self, python: str | None, rounds: int) -> None:
        self._python, self._rounds, self._names = python, rounds, count(1)
        self.version = ""

    def measure(self, database: str, where: str, steps: int) -> Measured:
        """Return what so many steps cost there, each kind in turn, round by round."""
        costs: dict[str, list[Cost]] = {SUBMIT: [], STORE: []}
        for _ in range(self._rounds):
            for kind, way in ((SUBMIT, led), (STORE, stored)):
                costs[kind].append(asyncio.run(ours(where, f"steps_{next(self._names)}", steps, way)))
            if self._python:
                self.version, cost = langgraph(self._python, where, f"langgraph_{next(self._names)}", steps)
                costs.setdefault(LANGGRAPH, []).append(cost)
        measured = Measured(database, steps, costs)
        print("\n".join(rows(measured)), flush=True)
        return measured


def rows(measured: Measured) -> list[str]:
    """Return a row of a table for each kind."""
    told = []
    for kind in measured.costs:
        cost, times = measured.middle(kind), measured.times(kind)
        against = f"{times[0]:.1f} to {times[-1]:.1f}" if times and kind != LANGGRAPH else ""
        told.append(
            f"| {measured.database} | {measured.steps:,} | {kind} | {cost.per_second:,.0f} | {against} "
            f"| {cost.cpu_ms:.1f} | {cost.bytes:,.0f} | {cost.resume_ms:.2f} |"
        )
    return told


def on_postgres(comparison: Comparison, counts: Sequence[int]) -> list[Measured]:
    """Return what a real server takes that writes every commit to disk."""
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="forge-pg-")), programs())
    try:
        with (server.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("fsync=on\n")  # the tests' server does without
        server.stop("fast")
        server.start()
        return [comparison.measure("PostgreSQL", server.url(), steps) for steps in counts]
    finally:
        server.close()


def section(all_measured: Sequence[Measured], version: str, rounds: int, load: float) -> list[str]:
    """Return the section of the handbook."""
    when, cores = datetime.now(UTC).date().isoformat(), len(os.sched_getaffinity(0))
    told = [
        "## Journeys",
        "",
        "What a step of a journey costs (`python -m tests.benchmarks.journeys --langgraph PYTHON --write-doc`;",
        f"{when}, {cores} cores, load {load:.1f} before). Three phases go round and round, with works of 200 characters;",
        "each step is on disk before the next begins, and the database has been in use for a while. *Submit* is the whole path",
        "in the process, from the key of the act to the answer; *store* only reads and appends; LangGraph",
        f'{version or "(left out)"} has an equal graph, its checkpointer for the same database, and `durability="sync"`. All take',
        "turns on the same disk and the same server; the processor's time is without that of a database server. Medians of",
        f"{rounds} rounds; *times* compares with LangGraph in the same round, least to most.",
        "",
        "| database | steps | | steps a second | times | processor a step, ms | bytes a step | resume, ms |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    told += [row for measured in all_measured for row in rows(measured)]
    told += ["", *growth(all_measured)]
    return told


def growth(all_measured: Sequence[Measured]) -> list[str]:
    """Return what the length of a journey does to resuming, and whether the goal was met, a sentence for each database."""
    told = []
    for database in dict.fromkeys(measured.database for measured in all_measured):
        some = sorted((one for one in all_measured if one.database == database), key=lambda one: one.steps)
        short, long = some[0], some[-1]
        slower = long.middle(SUBMIT).resume_ms / short.middle(SUBMIT).resume_ms
        sentence = f"{database}: resuming after {long.steps:,} steps takes {slower:.1f} times as long as after {short.steps:,}."
        if times := long.times(SUBMIT):
            sentence += f" Of {long.steps:,} steps submits do {median(times):.1f} times as many a second as LangGraph"
            sentence += _verdict(median(times)) if database == PROMISED_ON else "."
        told.append(sentence)
    return told


def _verdict(times: float) -> str:
    return f" (promised: {GOAL:g}; {'kept' if times >= GOAL else '**not kept**'})."


def main() -> None:
    """Measure in a folder that is thrown away; name one on a real disk with TMPDIR."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--langgraph", metavar="PYTHON")
    asked.add_argument("--without-postgres", action="store_true")
    asked.add_argument("--write-doc", action="store_true")
    asked.add_argument("--rounds", type=int, default=ROUNDS)
    asked.add_argument("steps", nargs="*", type=int, default=STEPS)
    given = asked.parse_args()
    load, comparison = os.getloadavg()[0], Comparison(given.langgraph, given.rounds)
    with tempfile.TemporaryDirectory() as name:
        measured = [comparison.measure("SQLite", name, steps) for steps in given.steps]
    if not given.without_postgres:
        measured += on_postgres(comparison, given.steps)
    lines = section(measured, comparison.version, given.rounds, load)
    print("\n".join(["", *growth(measured)]))
    if given.write_doc:
        write_section("journeys", lines)


if __name__ == "__main__":
    main()
