"""`promises`: runs the long version of each proof, and writes the results to kb/reference/promises.md."""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "kb/reference/promises.md"
NOT_RUN = "not run yet"
HEAD = """\
---
title: Promises and their proofs
summary: "What the long tests prove, and how each of them ended when it was last run."
---

# Promises and their proofs

Default tests prove each promise with a few cases. The long versions run hundreds or thousands of kills, replays and random walks,
which takes about two hours on two cores. One command runs them, one file after another, and writes the results to this page:

```bash
python -m tests.bench promises
```

Name parts of paths to run only those files: `python -m tests.bench promises writer_kills replays`.

| What is proved | Tests | Result |
| --- | --- | --- |
"""


def add(programs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the program and its options."""
    parser = programs.add_parser(
        "promises", help="run the long tests and write their results to kb/reference/promises.md"
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help="only files whose path contains one of these")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the chosen files and update the page after each of them; 1 if a test failed or nothing was chosen."""
    chosen = [path for path in slow_tests() if not given.names or any(name in path for name in given.names)]
    if not chosen:
        print(f"no file with long tests has one of these in its path: {', '.join(given.names)}", file=sys.stderr)
        return 1
    results = read(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else {}
    failed = False
    for path in chosen:
        results[path], passed = prove(path)
        failed = failed or not passed
        print(f"{path}: {results[path]}", flush=True)
        PAGE.write_text(page(results), encoding="utf-8")
    return int(failed)


def slow_tests() -> Iterator[str]:
    """Yield the path of each file with tests that are marked slow, from the root of the repository."""
    for file in sorted(ROOT.glob("tests/**/test_*.py")):
        if "pytest.mark.slow" in file.read_text(encoding="utf-8"):
            yield file.relative_to(ROOT).as_posix()


def promise(path: str) -> str:
    """Return the first paragraph of the file's docstring, as one line."""
    told = ast.get_docstring(ast.parse((ROOT / path).read_text(encoding="utf-8"))) or ""
    return " ".join(told.split("\n\n")[0].split()).replace("|", r"\|")


def prove(path: str) -> tuple[str, bool]:
    """Run the file's slow tests; return their result in a few words, and whether all of them passed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "slow", f"--junitxml={report}", path]
        ended = subprocess.run(command, cwd=ROOT, env={**os.environ, "KF_REQUIRE_EXTERNAL": "1"}, check=False)
        if not report.exists():
            return f"pytest ended with exit code {ended.returncode} and no report", False
        suites = list(ET.parse(report).getroot().iter("testsuite"))  # noqa: S314 - written by the pytest that ran just now
    return outcome(suites), ended.returncode == 0


def outcome(suites: Iterable[ET.Element]) -> str:
    """Say how many tests passed, failed and were skipped, and how long they took."""
    total = {
        name: sum(float(suite.get(name, 0)) for suite in suites)
        for name in ("tests", "failures", "errors", "skipped", "time")
    }
    failed = total["failures"] + total["errors"]
    counts = {"passed": total["tests"] - failed - total["skipped"], "failed": failed, "skipped": total["skipped"]}
    told = ", ".join(f"{count:,.0f} {name}" for name, count in counts.items() if count or name == "passed")
    return f"{told} in {total['time']:,.0f} s"


def page(results: Mapping[str, str]) -> str:
    """Return the page: a row for each file that has slow tests now."""
    rows = (
        f"| {promise(path)} | [`{Path(path).stem}`](../../{path}) | {results.get(path, NOT_RUN)} |\n"
        for path in slow_tests()
    )
    return HEAD + "".join(rows)


def read(text: str) -> dict[str, str]:
    """Return the results that the page holds, by the path of the tests."""
    rows = [line.strip("| \n").split(" | ") for line in text.splitlines() if "](../../tests/" in line]
    return {row[-2].split("](../../")[1].rstrip(")"): row[-1] for row in rows}
