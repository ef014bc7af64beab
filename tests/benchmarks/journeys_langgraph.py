"""The same three phases and the same steps in LangGraph, for `tests.benchmarks.journeys`, run by an interpreter that has it.

`python -P journeys_langgraph.py FOLDER|URL NAME` uses its SQLite checkpointer in a file of that folder, or its Postgres
checkpointer in a database of that name on that server. It reads numbers of steps to take, a line each, and answers each
with their cost; 0 ends it, with the final sizes. Every answer is a JSON object on a line. It imports nothing of ours.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TypedDict

import psycopg
from langgraph.graph import START, StateGraph  # type: ignore[import-not-found]  # not a dependency of ours
from langgraph.types import Command, interrupt  # type: ignore[import-not-found]  # likewise

TEXT = "x" * 200
READS = 20
TABLES = ["checkpoints", "checkpoint_blobs", "checkpoint_writes"]
WARM_UP = 100
"""Warm-up steps of another thread: the first ones load and compile, and the database's log grows to its usual size."""


class State(TypedDict, total=False):
    """The newest work of each phase."""

    first: str
    second: str
    third: str


class Place(Protocol):
    """Where checkpoints are kept."""

    def saver(self) -> Any:
        """Return, as a context, the checkpointer over an open connection."""
        ...

    def size(self) -> int:
        """Return the bytes of its tables, after a vacuum."""
        ...


class Sqlite:
    """A file of its own."""

    def __init__(self, folder: str, name: str) -> None:
        self._path = Path(folder) / f"{name}.db"

    @contextmanager
    def saver(self) -> Iterator[Any]:
        """Open it."""
        from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]  # likewise

        with closing(sqlite3.connect(self._path, check_same_thread=False)) as connection:
            saver = SqliteSaver(connection)
            saver.setup()
            yield saver

    def size(self) -> int:
        """Return the size of the file after a checkpoint; the log's own file stays, to be overwritten."""
        with closing(sqlite3.connect(self._path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
        return self._path.stat().st_size


class Postgres:
    """A database of its own on a server."""

    def __init__(self, url: str, name: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        self._url = url.rpartition("/")[0] + f"/{name}"

    @contextmanager
    def saver(self) -> Iterator[Any]:
        """Open it."""
        from langgraph.checkpoint.postgres import PostgresSaver  # type: ignore[import-not-found]  # likewise

        with PostgresSaver.from_conn_string(self._url) as saver:
            saver.setup()
            yield saver

    def size(self) -> int:
        """Return the size of its tables, indexes included."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            for table in TABLES:
                connection.execute(f"VACUUM FULL {table}".encode())
            row = connection.execute(
                "SELECT sum(pg_total_relation_size(t)) FROM unnest(%s::regclass[]) t", (TABLES,)
            ).fetchone()
        assert row is not None
        return int(row[0])


def phase(name: str) -> Any:
    """Return a node that waits for work and records it."""

    def node(_state: State) -> dict[str, str]:
        return {name: interrupt(name)}

    return node


def graph_over(saver: Any) -> Any:
    """Return the graph over its checkpointer."""
    graph = StateGraph(State)
    names = ("first", "second", "third")
    for name in names:
        graph.add_node(name + "_phase", phase(name))
    graph.add_edge(START, "first_phase")
    for name, after in zip(names, (*names[1:], names[0]), strict=True):
        graph.add_edge(name + "_phase", after + "_phase")
    return graph.compile(checkpointer=saver)


def config(thread: str) -> dict[str, Any]:
    """Return the thread's configuration."""
    return {"configurable": {"thread_id": thread}}


class Thread:
    """A thread that circles through the graph."""

    def __init__(self, graph: Any, name: str) -> None:
        self._graph, self._config, self._taken = graph, config(name), 0
        graph.invoke({}, self._config, durability="sync")

    def steps(self, count: int) -> dict[str, float]:
        """Take this many more steps, and return their cost."""
        began, cpu_began = time.perf_counter(), time.process_time()
        for _ in range(count):
            self._taken += 1
            self._graph.invoke(Command(resume=f"{self._taken} {TEXT}"), self._config, durability="sync")
        return {"seconds": time.perf_counter() - began, "cpu_s": time.process_time() - cpu_began}


def resuming(place: Place) -> float:
    """Return the milliseconds to read a thread's state."""
    reads = []
    for _ in range(READS):
        with place.saver() as saver:
            graph = graph_over(saver)
            began = time.perf_counter()
            assert graph.get_state(config("j-1")).values["first"].endswith(TEXT)
            reads.append((time.perf_counter() - began) * 1000)
    return median(reads)


def say(**told: object) -> None:
    """Answer."""
    print(json.dumps(told), flush=True)


def main(where: str, name: str) -> None:
    """Take the requested steps."""
    place: Place = Postgres(where, name) if where.startswith("postgresql://") else Sqlite(where, name)
    with place.saver() as saver:
        graph = graph_over(saver)
        Thread(graph, "warm-up").steps(WARM_UP)
        before, thread = place.size(), Thread(graph, "j-1")
        say(version=version("langgraph"))
        for line in sys.stdin:
            if not int(line):
                break
            say(**thread.steps(int(line)))
    say(bytes=place.size() - before, resume_ms=resuming(place))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
