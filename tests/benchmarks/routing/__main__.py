"""`python -m tests.benchmarks.routing` prints the report; `--write-doc` also puts it into the handbook; `fit` fits the weights."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from tests.benchmarks.routing.fit import fit_and_write
from tests.benchmarks.routing.report import report

DOC = Path(__file__).parents[3] / "kb" / "reference" / "benchmarks.md"
BEGIN, END = "<!-- routes: written by the command below, not by hand -->", "<!-- /routes -->"
HEAD = """## Routes

How often the router agrees with a person's label (`python -m tests.benchmarks.routing --write-doc`): English,
German and Spanish questions from public titles and question lists, split in halves by a hash of their ids. Rules, words,
examples and weights were made with the tuning half only. The trivial rule treats a path, or a question beginning with *where,
list, show, open, what's in*, as navigation and all else as discovery.
"""


async def main() -> None:
    """Run the program that the command line names."""
    if sys.argv[1:] == ["fit"]:
        await fit_and_write()
        return
    tables = await report()
    print(tables)
    if sys.argv[1:] == ["--write-doc"]:
        DOC.write_text(with_section(DOC.read_text(encoding="utf-8"), tables), encoding="utf-8")


def with_section(page: str, tables: str) -> str:
    """Return `page` with the tables in the section for routes, which is appended if it is missing."""
    head, _, rest = page.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head.rstrip()}\n\n{BEGIN}\n{HEAD}\n{tables}\n{END}{tail or chr(10)}"


if __name__ == "__main__":
    anyio.run(main)
