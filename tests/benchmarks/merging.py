"""The outcome of edits when many hosts write one note: `python -m tests.benchmarks.merging [SEED]`.

Each host has its own server process and client; an editor that takes no locks saves the same file meanwhile, half of
the time from an old buffer. Prints a Markdown table.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio

from tests.support.writing.many_writers import Load, Played, play

HOSTS, EDITS, SAVES = 8, 25, 200
PAUSE_S = 1.5


@dataclass(frozen=True, slots=True)
class Scene:
    """A load with a name."""

    name: str
    load: Load


def scenes(seed: int) -> list[Scene]:
    """Return the loads, the lightest first."""
    return [
        Scene("one host", Load(1, EDITS, 0, seed)),
        Scene("8 hosts, an edit every 1.5 seconds each, an editor", Load(HOSTS, EDITS, SAVES, seed, PAUSE_S)),
        Scene("8 hosts, one edit right after the other", Load(HOSTS, EDITS, 0, seed)),
        Scene("8 hosts, one edit right after the other, an editor", Load(HOSTS, EDITS, SAVES, seed)),
    ]


def table(played: Sequence[tuple[str, Played]]) -> str:
    """Return the outcome of each scene, a row each."""
    head = (
        "acknowledged", "lost", "doubled", "refused", "saves", "unrecoverable", "overlaps answered",
        "p50, ms", "p95, ms", "merges a second", "processor each, ms",
    )  # fmt: skip
    lines = [f"| load | {' | '.join(head)} |", f"|---|{'---:|' * len(head)}"]
    for name, one in played:
        cells = (
            len(one.acknowledged), len(one.lost), len(one.doubled), len(one.refused), len(one.saves), len(one.unrecoverable),
            f"{one.overlaps - len(one.wrong_overlaps)} of {one.overlaps}", round(one.quantile(0.5)), round(one.quantile(0.95)),
            round(len(one.merges_s) / one.seconds, 1), round(one.cpu_ms),
        )  # fmt: skip
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


async def main(seed: int) -> None:
    """Play every scene and print the outcomes."""
    print(f"seed {seed}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} before")
    found = []
    for scene in scenes(seed):
        with tempfile.TemporaryDirectory() as folder:
            found.append((scene.name, await play(Path(folder), scene.load)))
        print(scene.name, "-", found[-1][1].in_words(), file=sys.stderr)
    print(table(found))


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else secrets.randbelow(10**6))
