"""`python -m tests.benchmarks.routing` prints the report; `... fit` fits the weights first."""

from __future__ import annotations

import sys

import anyio

from tests.benchmarks.routing.fit import fit_and_write
from tests.benchmarks.routing.report import report


async def main() -> None:
    """Do what the command line says."""
    if sys.argv[1:] == ["fit"]:
        await fit_and_write()
        return
    print(await report())


if __name__ == "__main__":
    anyio.run(main)
