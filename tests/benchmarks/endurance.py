"""Whether a server that works without pause keeps its memory and its open files.

    python -m tests.benchmarks.endurance [--minutes 60] [--chunks 10000] [--write-doc]

One client over stdio searches, opens maps, reads pages, edits them with a base, and merges statements without one, one call
right after the other. An edit replaces the line that an earlier one wrote, so the knowledge base keeps its size.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from mcp_server.app.settings.settings import Settings
from tests.benchmarks.corpus import Corpus, write
from tests.benchmarks.handbook import write_section
from tests.benchmarks.processes import Served, memory_mb, ours, served
from tests.support.hosts.writers import let_in

MINUTE_S = 60.0
SEED = 1
MOST_TIMES = 1.5
"""How many times the memory of the first minute may be used later."""
SHOWN = (1, 2, 3, 5, 7, 10, 15, 20, 30, 45, 60)
EDITED = 400
"""Pages that are edited in turn."""
COMMAND = "python -m tests.benchmarks.endurance --write-doc"


@dataclass(frozen=True, slots=True)
class Minute:
    """One minute's end: calls since the start, memory of the server and of its workers, and the server's open files."""

    minute: int
    calls: int
    server_mb: float
    workers_mb: float
    files: int

    @property
    def together_mb(self) -> float:
        """The memory of all processes."""
        return self.server_mb + self.workers_mb


def workers(pid: int) -> list[int]:
    """Return the processes that `pid` started, and theirs."""
    found = [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in _children_of(task)]
    return found + [below for one in found for below in workers(one)] if found else []


def _children_of(task: Path) -> list[str]:
    try:
        return (task / "children").read_text(encoding="ascii").split()
    except OSError:
        return []  # the thread ended while we looked


def weighed(minute: int, calls: int, pid: int) -> Minute:
    """Return what the kernel says of the server now."""
    others = 0.0
    for worker in workers(pid):
        try:
            others += memory_mb(worker, "VmRSS")
        except (OSError, LookupError):
            continue  # it ended while we looked
    return Minute(minute, calls, memory_mb(pid, "VmRSS"), others, len(list(Path(f"/proc/{pid}/fd").iterdir())))


class Work:
    """The calls of one client: each round finds a page, reads it and changes it."""

    def __init__(self, server: Served, corpus: Corpus) -> None:
        self._server, self._corpus = server, corpus
        self._draw = random.Random(SEED)
        self.calls = 0

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer of one call."""
        self.calls += 1
        return (await self._server.timed(tool, arguments))[1]

    async def round(self, number: int) -> None:
        """Search twice, open a map, read a page, edit it with its revision, and merge a statement that was seen without one."""
        for query in self._draw.sample(self._corpus.queries, 2):
            await self.call("kb_search", query=query.text)
        path = self._corpus.queries[number % min(EDITED, len(self._corpus.queries))].path
        await self.call("kb_map", path=path.rpartition("/")[0])
        parts = [await self.call("kb_read", path=path, view="full")]
        while (offset := parts[-1]["next_offset"]) is not None:
            parts.append(await self.call("kb_read", path=path, view="full", offset=offset))
        lines = "".join(part["text"] for part in parts).split("\n")
        text = "\n".join(line for line in lines if not line.startswith("Counted: ")).rstrip("\n")
        text += f"\n\nCounted: round {number}.\n"
        await self.call("kb_merge", path=path, content=text, base_revision=parts[0]["revision"])
        await self.call("kb_merge", path=path, content=f"Counted: round {number}.", source="code:counter.py")


async def run(minutes: int, chunks: int) -> list[Minute]:
    """Serve a knowledge base of about `chunks` chunks, and work for so many minutes without pause."""
    with tempfile.TemporaryDirectory() as folder:
        kb, state_dir = Path(folder) / "kb", Path(folder) / "state"
        corpus = write(kb, chunks, SEED)
        allowed = await let_in(Settings(kb=kb, state_dir=state_dir))
        async with served(ours(kb, state_dir), {"FORGE_ENROLMENT": allowed.enrolment or ""}) as server:
            await _indexed(server)
            work = Work(server, corpus)
            found: list[Minute] = []
            began = time.perf_counter()
            for number in itertools.count():
                await work.round(number)
                if time.perf_counter() - began >= MINUTE_S * (len(found) + 1):
                    found.append(weighed(len(found) + 1, work.calls, server.pid))
                    print(found[-1], file=sys.stderr, flush=True)
                    if len(found) == minutes:
                        return found
    raise AssertionError("unreachable")


async def _indexed(server: Served) -> None:
    while True:
        indexed = (await server.timed("kb_search", {"query": "everything", "limit": 1}))[1]["indexed"]
        if indexed["done"] >= indexed["total"] > 0:
            return
        await anyio.sleep(0.2)


def table(found: Sequence[Minute]) -> list[str]:
    """Return the rows of some minutes and of the last one."""
    lines = [
        "| minute | calls | server, MB | with its workers, MB | open files |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in found:
        if one.minute in SHOWN or one is found[-1]:
            cells = (one.minute, f"{one.calls:,}", round(one.server_mb), round(one.together_mb), one.files)
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines


def most_times(found: Sequence[Minute]) -> float:
    """Return the largest memory of all processes, in times that of the first minute."""
    return max(one.together_mb for one in found) / found[0].together_mb


def main() -> int:
    """Measure and print the table; 1 if memory grew more than was promised."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.endurance", description=__doc__)
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--write-doc", action="store_true", help="write the section of the handbook")
    args = parser.parse_args()
    found = anyio.run(run, args.minutes, args.chunks)
    files = [one.files for one in found]
    times = f"{most_times(found):.2f} times the memory of the first minute (bound {MOST_TIMES})"
    lines = [*table(found), "", f"At most {times}, and {min(files)} to {max(files)} open files."]
    print("\n".join(lines))
    if args.write_doc:
        done = "two searches, a map, a read, an edit with its revision, a statement without one"
        about = f"Memory and open files of a server that one client keeps busy with {done}, on {args.chunks:,} chunks (`{COMMAND}`)."
        write_section("endurance", ["## Without pause", "", about, "", *lines])
    return 0 if most_times(found) <= MOST_TIMES else 1


if __name__ == "__main__":
    sys.exit(main())
