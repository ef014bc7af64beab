"""Processes that add to runs or lead them, to be killed.

`python -m tests.crash.leading append WHERE NAME WHO MANY` adds so many frames to `run-1` and prints the id of each that is on record.
"""

from __future__ import annotations

import sys

import anyio

from agents.loop.errors import StaleRun
from agents.loop.frames import Control
from tests.ledgers import NOW, open_shared
from tests.runs import SECOND, runs_in


async def append(where: str, name: str, who: str, many: int) -> None:
    state = await open_shared(where, name)
    runs = runs_in(state)
    for number in range(many):
        while True:
            run = await runs.run("run-1")
            frame = Control(
                id=f"{who}-{number}",
                run=run.id,
                number=run.count,
                at=NOW + run.count * SECOND,
                iteration=0,
                signal="taken_up",
                detail=who,
            )
            try:
                await runs.append(run, [frame], None)
            except StaleRun:
                continue
            break
        print(frame.id, flush=True)  # noqa: T201 - what the test reads
    await state.close()


if __name__ == "__main__":
    _, _, place, schema, name_, many_ = sys.argv
    anyio.run(append, place, schema, name_, int(many_))
