"""Measure the project or write its generated files: `python -m tests.bench NAME`; `--help` lists the names and their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.bench import generated, promises, sentences
from tests.bench.house import program as house
from tests.bench.journeys import program as journeys
from tests.bench.mutations import program as mutations


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program that is named first and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description="Measure the project, or write its generated files."
    )
    programs = parser.add_subparsers(required=True, metavar="NAME")
    generated.add(programs)
    house.add(programs)
    journeys.add(programs)
    mutations.add(programs)
    promises.add(programs)
    sentences.add(programs)
    given = parser.parse_args(arguments)
    return int(given.run(given))


if __name__ == "__main__":
    sys.exit(main())
