"""The cost of writing and what it preserves: `python -m tests.benchmarks.writing [--write-doc]`.

Many hosts on one note beside an editor, the core alone on a page of 2,000 lines, and how well contradictions are found.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import anyio

from tests.benchmarks import contradictions
from tests.benchmarks.handbook import write_section
from tests.benchmarks.merge_core import MergeCosts, merge_costs
from tests.benchmarks.merging import scenes, table
from tests.support.writing.many_writers import Played, play

INTRODUCTION = """
## Writing

The outcome of edits, and their cost (`python -m tests.benchmarks.writing --write-doc`; {when}, {cores} cores, load {load:.1f}
before). Every host has its own server process and client, all on the same cores; the editor takes no locks, and half of its
saves come from an outdated buffer. *Lost*, *doubled* and *refused* count edits that do not overlap,
*unrecoverable* the editor's saves. *Processor* is the time of all servers together.

The promise is a p50 of at most 100 ms for 8 hosts and an editor. When edits follow each other without a pause, the load exceeds
two cores: most merges are answered soon, and the earliest wait for up to about two seconds
([decision 25](../decisions/0025-how-a-file-is-written.md)).
"""


def lines(played: Sequence[tuple[str, Played]], core: MergeCosts, *, load: float) -> list[str]:
    """Return the section of the handbook."""
    when, cores = datetime.now(UTC).date().isoformat(), len(os.sched_getaffinity(0))
    return [
        *INTRODUCTION.strip().format(when=when, cores=cores, load=load).split("\n"),
        "",
        *table(played).split("\n"),
        "",
        _core(core),
        "",
        "Contradictions, against labelled pairs from public documentation (promised: precision 0.9, recall 0.75):",
        "",
        "| pairs | | precision | recall | baseline: precision | recall |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {name} | {ours.pairs} | {ours.precision:.2f} | {ours.recall:.2f} | {trivial.precision:.2f} | {trivial.recall:.2f} |"
            for name, ours, trivial in contradictions.rows()
        ),
    ]


def _core(core: MergeCosts) -> str:
    worst = max(core.worst_s, key=lambda name: core.worst_s[name])
    return (
        f"The core alone, one merge into a page of {core.lines:,} lines, CPU: {core.cut_already_ms:.1f} ms when base and "
        f"current are parsed already (promised: 25), {core.nothing_cut_ms:.1f} ms when not (promised: 60). Among texts designed to "
        f"be slow, the slowest was {worst}: {core.worst_s[worst]:.1f} s."
    )


async def _played(seed: int) -> list[tuple[str, Played]]:
    found = []
    for scene in scenes(seed):
        with tempfile.TemporaryDirectory() as folder:
            found.append((scene.name, await play(Path(folder), scene.load)))
        print(scene.name, "-", found[-1][1].in_words(), file=sys.stderr)
    return found


def main() -> int:
    """Measure and print; 1 if anything was lost, doubled, refused or cannot be restored."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.writing", description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6), help="by which places are drawn")
    parser.add_argument("--write-doc", action="store_true", help="write the section of the handbook")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    core = merge_costs()
    played = anyio.run(_played, args.seed)
    found = lines(played, core, load=load)
    print("\n".join(found))
    if args.write_doc:
        write_section("writing", found)
    return 1 if any(one.lost or one.doubled or one.refused or one.unrecoverable for _, one in played) else 0


if __name__ == "__main__":
    sys.exit(main())
