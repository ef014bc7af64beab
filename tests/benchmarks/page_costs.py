"""What each page costs: disk, processor time, rows and bytes in PostgreSQL, the scan at a start, a backup.

python -m tests.benchmarks.page_costs [--sizes 8600,43000]

Each size is a number of passages of a generated knowledge base. Two sizes give the cost of one more page: the difference of both
figures by the difference of pages. kb/reference/sizing.md calculates with it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.benchmarks.corpus import write
from tests.benchmarks.processes import ROOT
from tests.support.state.postgres import PostgresServer, programs

SIZES = "8600,43000"
TIMES = 3
TABLES = """
SELECT c.relname, pg_total_relation_size(c.oid), pg_relation_size(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relkind = 'r' AND pg_total_relation_size(c.oid) > 65536 ORDER BY 2 DESC
"""


@dataclass(frozen=True)
class Cost:
    """What a command took."""

    wall_s: float
    processor_s: float
    printed: str


def run(environment: Mapping[str, str], *words: str) -> Cost:
    """Run a command of the program, and return its cost with that of its workers."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "mcp_server", *words]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True, capture_output=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, used, done.stdout.decode())


def size(folder: Path) -> int:
    """Return the bytes of all files."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def cheapest(environment: Mapping[str, str], *words: str) -> float:
    """Return the wall seconds of the quickest of several runs."""
    return min(run(environment, *words).wall_s for _ in range(TIMES))


def costs(folder: Path, url: str, chunks: int) -> dict[str, float]:
    """Measure a knowledge base of that size: in a folder, and with its pages in PostgreSQL."""
    kb = folder / "kb"
    corpus = write(kb, chunks)
    found: dict[str, float] = {"pages": corpus.documents, "markdown_mb": size(kb) / 1e6}
    here = {"FORGE_KB": str(kb), "FORGE_STATE_DIR": str(folder / "state"), "HOME": str(folder)}
    first = run(here, "index", "--json")
    found |= {"index_s": first.wall_s, "index_processor_s": first.processor_s}
    found["passages"] = float(json.loads(first.printed).get("chunks", 0))
    found["index_mb"] = size(folder / "state") / 1e6
    found["start_with_nothing_to_do_s"] = cheapest(here, "index", "--json")
    found["map_s"] = cheapest(here, "map", "--json")
    schema = f"t_{secrets.token_hex(6)}"
    copy = folder / "copy"
    copy.mkdir()
    there = {
        "FORGE_KB": str(copy),
        "FORGE_STATE_DIR": str(folder / "there"),
        "HOME": str(folder),
        "FORGE_DATABASE_URL": url,
        "FORGE_DATABASE_SCHEMA": schema,
        "FORGE_PAGES": "database",
    }
    run(there, "mirror", "--once")
    shutil.copytree(kb, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*"))
    found["into_postgresql_s"] = run(there, "mirror", "--once").wall_s
    found["compare_with_postgresql_s"] = cheapest(there, "mirror", "--once")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        for table, whole, _ in connection.execute(TABLES, (schema,)).fetchall():
            found[f"{table}_mb"] = whole / 1e6
    backup = folder / "backup.db"
    found["backup_s"] = run(there, "state", "backup", str(backup)).wall_s
    found["backup_mb"] = backup.stat().st_size / 1e6
    return found


def main() -> int:
    """Print each figure at both sizes, and for one more page."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.page_costs", description=__doc__)
    parser.add_argument("--sizes", default=SIZES)
    given = parser.parse_args()
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="forge-pg-")), programs())
    measured = []
    try:
        for number in sorted(map(int, given.sizes.split(","))):
            with tempfile.TemporaryDirectory() as folder:
                measured.append(costs(Path(folder), server.url(), number))
    finally:
        server.close()
    small, large = measured[0], measured[-1]
    pages = large["pages"] - small["pages"]
    print("| figure | " + " | ".join(f"{int(one['pages']):,} pages" for one in measured) + " | one more page |")
    print("|---|" + "---:|" * (len(measured) + 1))
    for name in large:
        cells = [f"{one.get(name, 0):,.3f}" for one in measured]
        more = (large[name] - small.get(name, 0)) / pages if pages else 0.0
        print(f"| {name} | {' | '.join(cells)} | {more:.6f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
