"""Measure everything that is promised.

python -m tests.benchmarks [--sizes 1000,10000,100000] [--json FILE] [--write-doc]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from tests.benchmarks import corpus, shapes, vocabulary
from tests.benchmarks.additions import additions
from tests.benchmarks.measures import Base, freshness, index, map_cost, plain, searches, start_up
from tests.benchmarks.processes import ROOT
from tests.benchmarks.report import page, promises

WORK = ROOT / ".bench"
DOC = ROOT / "kb" / "reference" / "benchmarks.md"
SEED = 1


def measure(sizes: Sequence[int]) -> dict[str, Any]:
    """Return all results, smallest knowledge base first."""
    results: dict[str, Any] = {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "cores": len(os.sched_getaffinity(0)),
            "platform": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "load": round(os.getloadavg()[0], 1),
        },
        "sizes": {},
    }
    base = None
    for size in sorted(sizes):
        base = prepared(size)
        say(f"{size:,} chunks: indexing")
        found: dict[str, Any] = {"indexing": plain(index(base))}
        say(f"{size:,} chunks: searching")
        found["search"] = plain(anyio.run(searches, base))
        say(f"{size:,} chunks: changing files")
        found["freshness"] = plain(anyio.run(freshness, base))
        results["sizes"][str(size)] = found
    if base is None:
        raise ValueError("no sizes given")
    say("starting and stopping")
    results["start_up"] = plain(start_up(base))
    say("adding up")
    results["additions"] = plain(anyio.run(additions, base))
    say("mapping")
    results["map"] = plain(anyio.run(map_cost, base, WORK))
    return results


def prepared(size: int, *, keep_index: bool = False) -> Base:
    """Return a knowledge base of about `size` chunks, without any index unless it is kept; pages are kept between runs."""
    generator = hashlib.sha256()
    for module in (corpus, shapes, vocabulary):
        generator.update(Path(str(module.__file__)).read_bytes())
    folder = WORK / f"{size}-{SEED}-{generator.hexdigest()[:8]}"
    state_dir = WORK / f"{folder.name}-state"
    if not keep_index:
        shutil.rmtree(state_dir, ignore_errors=True)
    if not (folder / corpus.BOOK).exists():
        shutil.rmtree(folder, ignore_errors=True)
        say(f"{size:,} chunks: writing pages")
        corpus.write(folder, size, SEED)
    return Base(folder, state_dir, corpus.load(folder))


def say(what: str) -> None:
    """Report on stderr what takes the time."""
    print(what, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print the promises, and return 1 if one is broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--sizes", default="1000,10000,100000", help="chunks of the knowledge bases to measure")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results there")
    parser.add_argument("--write-doc", action="store_true", help=f"write {DOC.relative_to(ROOT)}")
    args = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    results = measure([int(size.replace("_", "")) for size in args.sizes.split(",")])
    if args.json is not None:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if args.write_doc:
        DOC.write_text(page(results, DOC.read_text(encoding="utf-8")), encoding="utf-8")
    lines = promises(results)
    print("| promise | bound | measured | kept |\n| --- | --- | --- | --- |")
    print("\n".join(line.row() for line in lines))
    return 0 if all(line.met for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
