"""A process that writes each line into two stored pages at once, until it is killed.

`python -m tests.crash.stored_writer HOME URL SCHEMA NAME` prints each line once it is acknowledged.
"""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path

import anyio

from tests.support.state.ledgers import open_shared
from tests.support.writing.acts import adapting
from tests.support.writing.stored import stored_world

PAGES = ("one.md", "deep/two.md")


async def main(home: Path, url: str, schema: str, name: str) -> None:
    store = await open_shared(url, schema)
    async with stored_world(home, store) as world:
        for number in count():
            line = f"{name} {number}".encode()
            await world.acts.run(
                adapting(PAGES, lambda seen: {path: (seen[path] or b"") + line + b"\n" for path in PAGES})  # noqa: B023  run at once
            )
            print(line.decode(), flush=True)  # noqa: T201 - the acknowledgement


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4])
