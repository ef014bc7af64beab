"""`mutations`: changes functions of a room in small ways and reports the changes that none of its tests notices."""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.bench.mutations.calls import CALLERS_FILE
from tests.bench.mutations.contained import contained
from tests.bench.mutations.mutants import Mutant, functions, mutant

ROOT = Path(__file__).parents[3]
COPIED = ("knowledge", "agents", "mcp_server", "tests", "kb", "pyproject.toml", "README.md")
BASE_LIMIT_S = 1_800.0
OPTIONS = ("-q", "--tb=no", "-rfE", "--no-header", "-p", "no:cacheprovider")


def add(programs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the program and its options."""
    parser = programs.add_parser(
        "mutations", help="change functions of a room in small ways and list the changes that no test of it notices"
    )
    parser.add_argument(
        "room", metavar="ROOM", type=Path, help="a folder or file of the product, such as knowledge/merge"
    )
    parser.add_argument("--tests", nargs="+", metavar="PATH", help="tests to run, if not the room's own in tests/unit")
    parser.add_argument("--count", type=int, default=20, help="how many mutants to try (20)")
    parser.add_argument("--seed", type=int, default=0, help="which ones are drawn (0)")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds that one mutant's tests may take (120)")
    parser.add_argument(
        "--contained",
        action="store_true",
        help="list the cases that kill and call no more than another one of their file: to be read, not a verdict",
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Try the drawn mutants in a copy of the project and print the survivors; 1 if the tests fail without a mutant."""
    tests = given.tests or [own_tests(given.room)]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, copy / name)
        failed = pytest(copy, tests, BASE_LIMIT_S, "-p", "tests.bench.mutations.calls")
        if failed is None or failed:
            print(f"without a mutant: {failed or 'not done in time'}", file=sys.stderr)
            return 1
        callers: dict[str, list[str]] = json.loads((copy / "callers.json").read_text(encoding="utf-8"))
        every = list(all_mutants(given.room))
        called = [(path, number) for path, number, function in every if f"{copy / path}:{function}" in callers]
        print(f"{len(called):,} of {len(every):,} mutants are in functions that {' '.join(tests)} calls", flush=True)
        drawn = random.Random(given.seed).sample(called, min(given.count, len(called)))  # noqa: S311 - no secret
        kills: list[set[str]] = []
        for number, (path, place) in enumerate(drawn, start=1):
            began = time.monotonic()
            changed = mutant((copy / path).read_text(encoding="utf-8"), place)
            killers = tried(copy / path, changed, callers[f"{copy / path}:{changed.function}"], copy, given.limit)
            kills.append(killers)
            outcome = f"killed by {len(killers)}" if killers else "SURVIVED"
            took = time.monotonic() - began
            print(f"{number:3} {outcome:14} {took:5.1f} s  {path}:{changed.line}  {changed.change}", flush=True)
    report(kills)
    if given.contained:
        report_contained(callers, kills, copy)
    return 0


def own_tests(room: Path) -> str:
    """Return the folder of tests that mirrors the room: knowledge/merge and mcp_server/gate are merge and gate there."""
    parts = room.with_suffix("").parts
    return Path("tests/unit", *(parts if parts[0] == "agents" else parts[1:])).as_posix()


def all_mutants(room: Path) -> Iterator[tuple[str, int, int]]:
    """Yield each mutant of the room's files: the file's path, its number there, and the line of its function."""
    at = ROOT / room
    for file in [at] if at.is_file() else sorted(at.rglob("*.py")):
        for number, function in enumerate(functions(file.read_text(encoding="utf-8"))):
            yield file.relative_to(ROOT).as_posix(), number, function


def tried(file: Path, changed: Mutant, callers: Sequence[str], copy: Path, limit_s: float) -> set[str]:
    """Return the failing tests with the mutant: of those that call its function, or else of all in the same files.

    A fixture that several tests share calls functions only once, before the first of them.
    """
    original = file.read_bytes()
    file.write_text(changed.source, encoding="utf-8")
    try:
        killers = pytest(copy, callers, limit_s)
        if killers == set():
            killers = pytest(copy, sorted({test.split("::")[0] for test in callers}), limit_s, "-x")
    finally:
        file.write_bytes(original)
    return {"(took too long)"} if killers is None else killers


def pytest(copy: Path, tests: Sequence[str], limit_s: float, *options: str) -> set[str] | None:
    """Run tests in the copy; return those that failed, or None if they took too long."""
    # In a file, because thousands of tests do not fit on a command line.
    (copy / "tests.txt").write_text("\n".join(tests), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        CALLERS_FILE: str(copy / "callers.json"),
        # Only the first run, of no mutant, writes what it compiles. The others read that, and compile the file that changed.
        "PYTHONDONTWRITEBYTECODE": "" if "tests.bench.mutations.calls" in options else "1",
    }
    command = [sys.executable, "-m", "pytest", *OPTIONS, *options, "@tests.txt"]
    try:
        ended = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return None
    lines = [line.partition(" ") for line in ended.stdout.splitlines()]
    failed = {rest.split(" - ")[0] for word, _, rest in lines if word in {"FAILED", "ERROR"}}
    return failed or ({"(collection)"} if ended.returncode else set())


def report(kills: Sequence[set[str]]) -> None:
    """Print how many survived, and for each test file how many mutants it killed, and how many no other file did."""
    print(f"\n{sum(not killers for killers in kills)} of {len(kills)} mutants survived\n")
    files = [{test.split("::")[0] for test in killers} for killers in kills]
    killed = Counter(file for one in files for file in one)
    alone = Counter(file for one in files if len(one) == 1 for file in one)
    print("killed  alone  test file")
    for file, count in sorted(killed.items(), key=lambda one: -one[1]):
        print(f"{count:6}  {alone[file]:5}  {file}")
    only = Counter(test for killers in kills if len(killers) == 1 for test in killers)
    print("\ntests that killed a mutant alone:", *(f"  {count} {test}" for test, count in only.most_common()), sep="\n")


def report_contained(callers: Mapping[str, Sequence[str]], kills: Sequence[set[str]], copy: Path) -> None:
    """Print the cases that the sample does not tell from another of their file, test by test, each with how many of its cases."""
    calls: defaultdict[str, set[str]] = defaultdict(set)
    for function, cases in callers.items():
        # A test's own functions are not compared: each test has others.
        for case in cases if not function.startswith(f"{copy}/tests/") else ():
            calls[case].add(function)
    of = Counter(case.partition("[")[0] for case in calls)
    found = contained(calls, kills)
    print(
        f"\n{sum(map(len, found.values())):,} of {len(calls):,} cases kill and call no more than another of their file:"
    )
    for first, within in found.items():
        print(f"  {first}")
        for test, count in Counter(case.partition("[")[0] for case in within).items():
            print(f"    {count:4} of {of[test]:4}  {test.partition('::')[2]}")
