"""The cost of a journey's step: `python -m tests.benchmarks.journeys [--langgraph PYTHON] [--write-doc] [STEPS...]`.

*Submit* is the whole path of a submit in the process, `Runner.submit`: key, state, form, conditions, record, answer.
*Store* is its part that reads the journey's state and appends. Every step is on disk before the next begins.
`--langgraph` names an interpreter that has `langgraph`, `langgraph-checkpoint-sqlite`, `langgraph-checkpoint-postgres`
and `psycopg[binary]`; it then does the same steps of an equal graph in the same run. All take turns, some steps each,
so that other load on the machine affects them alike.
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
from typing import Any, Protocol

import apsw
import psycopg

from agents.engine.agent import MET, Agent, ConditionFinding, Look, SubmitFacts
from agents.engine.decide import step_key, submit_steps
from agents.engine.events import Json
from agents.engine.graph import Phase, PhaseGraph, Transition
from agents.engine.runner import Runner, Submission
from agents.store.ports import JourneyStore
from knowledge.state.ports import StateStore
from mcp_server.app.factories.journey_store import journeys_in
from tests.benchmarks.handbook import write_section
from tests.support.agents.agent_harness import Pages
from tests.support.agents.model_form import ModelForm, PhaseWork
from tests.support.agents.small_agents import Only
from tests.support.journeys.graphs import ADA, begun, work
from tests.support.state.ledgers import open_shared
from tests.support.state.postgres import PostgresServer, programs

STEPS = (10, 100, 1_000)
BLOCK = 20
"""Steps of one turn."""
TEXT = "x" * 200
READS, WARM_UP = 20, 500
"""Preceding steps of another journey, to warm up.

The database's log grows to its usual size, and is then overwritten.
"""
GOAL = 3.0
"""The ratio to LangGraph's steps a second with its checkpointer for the same database."""
SUBMIT, STORE, LANGGRAPH = "submit", "store", "LangGraph"
BRIEF = "Go round."
Way = Callable[[JourneyStore, str, Json], Awaitable[None]]
"""Takes one step of a journey, with that content."""
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
"""Three phases in a circle."""


class Text(PhaseWork):
    """The work of a phase."""

    text: str


async def always(_facts: SubmitFacts, _look: Look) -> ConditionFinding:
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
    """The cost of this many steps of one kind: steps a second.

    Processor milliseconds (not the database server's) and bytes each.

    `resume_ms`: milliseconds to read the journey's state.
    """

    per_second: float
    cpu_ms: float
    bytes: float
    resume_ms: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The cost of each kind for this many steps in one database."""

    database: str
    steps: int
    costs: Mapping[str, Cost]

    def times(self, kind: str) -> float | None:
        """Return that kind's ratio to LangGraph's steps a second, if LangGraph was measured."""
        theirs = self.costs.get(LANGGRAPH)
        return self.costs[kind].per_second / theirs.per_second if theirs else None


class Contender(Protocol):
    """A stepper in its own database, whose warm-up steps don't count."""

    async def steps(self, count: int) -> tuple[float, float]:
        """Take this many more steps, and return their seconds and processor seconds."""
        ...

    async def end(self) -> tuple[int, float]:
        """Return the steps' bytes on disk, and the milliseconds to read the journey's state."""
        ...


class Ours:
    """Steps of this program; `way` takes one."""

    def __init__(self, state: StateStore, where: str, name: str, way: Way) -> None:
        self._state, self._where, self._name, self._way = state, where, name, way
        self._journeys, self._journey, self._taken, self._before = journeys_in(state), "", 0, 0

    @classmethod
    async def ready(cls, where: str, name: str, way: Way) -> Ours:
        """Return it after enough steps to make the database a used one."""
        made = cls(await open_shared(where, name), where, name, way)
        for journey, steps in (("before", WARM_UP), ("measured", 0)):
            made._journey = journey
            await made._journeys.start(
                journey, replace(begun(BRIEF), agent="three", phase="first"), by=ADA, at=datetime.now(UTC)
            )
            await made.steps(steps)
        made._before = size(where, name)
        return made

    async def steps(self, count: int) -> tuple[float, float]:
        """Take this many more steps."""
        began, cpu_began = time.perf_counter(), time.process_time()
        for _ in range(count):
            self._taken += 1
            await self._way(self._journeys, self._journey, {"text": f"{self._taken} {TEXT}"})
        return time.perf_counter() - began, time.process_time() - cpu_began

    async def end(self) -> tuple[int, float]:
        """Return the bytes and milliseconds afterwards."""
        await self._state.close()
        return size(self._where, self._name) - self._before, await resuming(self._where, self._name)


class Theirs:
    """Steps of LangGraph, in a process of an interpreter that has it."""

    def __init__(self, python: str, where: str, name: str) -> None:
        script = Path(__file__).with_name("journeys_langgraph.py")
        # -P: a module of ours beside the script has the name of one of the standard library.
        command = [python, "-P", str(script), where, name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.version = str(self._told()["version"])

    def _told(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"LangGraph ended with {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told

    def _ask(self, steps: int) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{steps}\n")
        self._process.stdin.flush()
        return self._told()

    async def steps(self, count: int) -> tuple[float, float]:
        """Take this many more steps."""
        told = self._ask(count)
        return told["seconds"], told["cpu_s"]

    async def end(self) -> tuple[int, float]:
        """Return the bytes and milliseconds afterwards."""
        told = self._ask(0)
        with self._process:
            return told["bytes"], told["resume_ms"]


async def stored(journeys: JourneyStore, journey: str, content: Json) -> None:
    """Take a step without runner."""
    state = await journeys.journey(journey)
    events = submit_steps(THREE, journey, state, work(content), {"again"})
    key = step_key(journey, state.version, ADA, content)
    await journeys.append(journey, events, expected=state.version, key=key, by=ADA, at=datetime.now(UTC), before=state)


class Led:
    """Takes steps as a server does; a host knows the version after the previous step."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}

    async def __call__(self, journeys: JourneyStore, journey: str, content: Json) -> None:
        runner = Runner(
            journeys,
            Only(AGENT),
            lambda _journey, _state: Pages(),
            now=lambda: datetime.now(UTC),
            chance=lambda: "",
        )
        here = await runner.submit(journey, self._versions.get(journey, 1), Submission(content), by=ADA)
        self._versions[journey] = here.state.version


async def resuming(where: str, name: str) -> float:
    """Return the milliseconds to read a journey's state."""
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


def size(where: str, name: str) -> int:
    """Return the size of the tables of journeys, indexes included, after a vacuum."""
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
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()  # its log stays and is overwritten
        return (Path(where) / name / "state.db").stat().st_size


class Comparison:
    """Lets all kinds take steps in one place by turns, and returns the results."""

    def __init__(self, python: str | None) -> None:
        self._python, self._names, self.version = python, count(1), ""

    async def measure(self, database: str, where: str, steps: int) -> Measured:
        """Return the cost of this many steps there, each kind in turn, block by block."""
        contenders: dict[str, Contender] = {
            SUBMIT: await Ours.ready(where, f"steps_{next(self._names)}", Led()),
            STORE: await Ours.ready(where, f"steps_{next(self._names)}", stored),
        }
        if self._python:
            contenders[LANGGRAPH] = theirs = Theirs(self._python, where, f"langgraph_{next(self._names)}")
            self.version = theirs.version
        seconds, cpu_s = dict.fromkeys(contenders, 0.0), dict.fromkeys(contenders, 0.0)
        for done in range(0, steps, BLOCK):
            for kind, contender in contenders.items():
                taken = await contender.steps(min(BLOCK, steps - done))
                seconds[kind] += taken[0]
                cpu_s[kind] += taken[1]
        costs = {}
        for kind, contender in contenders.items():
            left, resume_ms = await contender.end()
            costs[kind] = Cost(steps / seconds[kind], 1000 * cpu_s[kind] / steps, left / steps, resume_ms)
        measured = Measured(database, steps, costs)
        print("\n".join(rows(measured)), flush=True)
        return measured


def rows(measured: Measured) -> list[str]:
    """Return a row of a table for each kind."""
    told = []
    for kind, cost in measured.costs.items():
        times = measured.times(kind)
        told.append(
            f"| {measured.database} | {measured.steps:,} | {kind} | {cost.per_second:,.0f} | {f'{times:.1f}' if times else ''} "
            f"| {cost.cpu_ms:.1f} | {cost.bytes:,.0f} | {cost.resume_ms:.2f} |"
        )
    return told


def on_postgres(comparison: Comparison, counts: Sequence[int]) -> list[Measured]:
    """Return the cost with a real server that writes every commit to disk."""
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="forge-pg-")), programs())
    try:
        with (server.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write("fsync=on\n")  # the tests' server does not sync
        server.stop("fast")
        server.start()
        return [asyncio.run(comparison.measure("PostgreSQL", server.url(), steps)) for steps in counts]
    finally:
        server.close()


def section(all_measured: Sequence[Measured], version: str, load: float) -> list[str]:
    """Return the section of the handbook."""
    when, cores = datetime.now(UTC).date().isoformat(), len(os.sched_getaffinity(0))
    told = [
        "## Journeys",
        "",
        "The cost of a step of a journey (`python -m tests.benchmarks.journeys --langgraph PYTHON --write-doc`;",
        f"{when}, {cores} cores, load {load:.1f} before). Three phases repeat, with works of 200 characters;",
        "each step is on disk before the next begins, and the database has been in use for a while. *Submit* is the whole path",
        "in the process, from the key of the act to the answer; *store* only reads and appends; LangGraph",
        f'{version or "(left out)"} has the same graph, its checkpointer for the same database, and `durability="sync"`. All take',
        f"turns on the same disk and the same server, {BLOCK} steps each; *times* compares with LangGraph. Processor time excludes",
        "that of a database server.",
        "",
        "| database | steps | | steps a second | times | processor a step, ms | bytes a step | resume, ms |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    told += [row for measured in all_measured for row in rows(measured)]
    told += ["", *growth(all_measured)]
    return told


def growth(all_measured: Sequence[Measured]) -> list[str]:
    """Return how a journey's length affects resuming, and whether the goal was met, a sentence for each database."""
    told = []
    for database in dict.fromkeys(measured.database for measured in all_measured):
        some = sorted((one for one in all_measured if one.database == database), key=lambda one: one.steps)
        short, long = some[0], some[-1]
        slower = long.costs[SUBMIT].resume_ms / short.costs[SUBMIT].resume_ms
        sentence = f"{database}: resuming after {long.steps:,} steps takes {slower:.1f} times as long as after {short.steps:,}."
        if times := long.times(SUBMIT):
            sentence += (
                f" Over {long.steps:,} steps, there are {times:.1f} times as many submits a second as with LangGraph"
            )
            sentence += _verdict(times)
        told.append(sentence)
    return told


def _verdict(times: float) -> str:
    return f" (promised: {GOAL:g}; {'kept' if times >= GOAL else '**not kept**'})."


def main() -> None:
    """Measure in a temporary folder; name one on a real disk with TMPDIR."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--langgraph", metavar="PYTHON")
    asked.add_argument("--without-postgres", action="store_true")
    asked.add_argument("--write-doc", action="store_true")
    asked.add_argument("steps", nargs="*", type=int, default=STEPS)
    given = asked.parse_args()
    load, comparison = os.getloadavg()[0], Comparison(given.langgraph)
    with tempfile.TemporaryDirectory() as name:
        measured = [asyncio.run(comparison.measure("SQLite", name, steps)) for steps in given.steps]
    if not given.without_postgres:
        measured += on_postgres(comparison, given.steps)
    lines = section(measured, comparison.version, load)
    print("\n".join(["", *growth(measured)]))
    if given.write_doc:
        write_section("journeys", lines)


if __name__ == "__main__":
    main()
