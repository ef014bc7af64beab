"""The same three phases and the same steps in LangGraph, for `tests.benchmarks.journeys`, run by an interpreter that has it.

`python -P journeys_langgraph.py FOLDER STEPS` prints one JSON object. It imports nothing of ours.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found]  # not a dependency of ours
from langgraph.graph import START, StateGraph  # type: ignore[import-not-found]  # likewise
from langgraph.types import Command, interrupt  # type: ignore[import-not-found]  # likewise

TEXT = "x" * 200
READS = 20


class State(TypedDict, total=False):
    """The newest work of each phase."""

    first: str
    second: str
    third: str


def phase(name: str) -> Any:
    """Return a node that waits for work and records it."""

    def node(_state: State) -> dict[str, str]:
        return {name: interrupt(name)}

    return node


def opened(path: Path) -> tuple[Any, sqlite3.Connection]:
    """Return the graph over its checkpointer in that file."""
    connection = sqlite3.connect(path, check_same_thread=False)
    graph = StateGraph(State)
    names = ("first", "second", "third")
    for name in names:
        graph.add_node(name + "_phase", phase(name))
    graph.add_edge(START, "first_phase")
    for name, after in zip(names, (*names[1:], names[0]), strict=True):
        graph.add_edge(name + "_phase", after + "_phase")
    return graph.compile(checkpointer=SqliteSaver(connection)), connection


def measured(path: Path, steps: int) -> dict[str, float]:
    """Return what so many steps of one thread cost."""
    graph, connection = opened(path)
    config = {"configurable": {"thread_id": "j-1"}}
    graph.invoke({}, config, durability="sync")
    began = time.perf_counter()
    for n in range(steps):
        graph.invoke(Command(resume=f"{n} {TEXT}"), config, durability="sync")
    seconds = time.perf_counter() - began
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    reads = []
    for _ in range(READS):
        graph, connection = opened(path)
        connection.execute(
            "SELECT count(*) FROM sqlite_schema"
        ).fetchall()  # the file is opened when it is first needed
        began = time.perf_counter()
        assert graph.get_state(config).values["first"]
        reads.append((time.perf_counter() - began) * 1000)
        connection.close()
    return {"per_second": steps / seconds, "bytes": path.stat().st_size / steps, "resume_ms": median(reads)}


def main(folder: Path, steps: int) -> None:
    """Print what so many steps cost."""
    print(json.dumps({"version": version("langgraph"), **measured(folder / f"langgraph-{steps}.db", steps)}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
