"""Processes that append to runs or lead them, to be killed.

`python -m tests.crash.leading append WHERE NAME WHO MANY` appends MANY frames to `run-1` and prints the id of each
recorded one. `python -m tests.crash.leading lead WHERE NAME WHO AT` continues `run-1`, a goal of several steps, and
dies before (`-3`) or after (`+3`) the frame with that number is recorded, or (`!kb_merge`) when that tool has done its
work and nothing is recorded yet. It prints the state of the run if the run ends.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from agents.loop.errors import NoSuchRun, StaleRun
from agents.loop.model.ports import FromModel, ModelReply, ModelRequest
from agents.loop.record.frames import Control, Frame
from agents.loop.record.run import Run
from agents.loop.store.ports import Hold
from agents.loop.store.sql import SqlRuns
from agents.loop.tools import CallOutcome
from mcp_server.runs.locations import runs_in
from tests.support.runs.records import SECOND, header
from tests.support.runs.scripts import ActsOnRecord, Led, Scripted, ask, said, use
from tests.support.state.ledgers import NOW, open_shared


async def append(where: str, name: str, who: str, many: str) -> None:
    state = await open_shared(where, name)
    runs = runs_in(state)
    for number in range(int(many)):
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


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Mortal:
    """Runs whose process dies before or after a frame is recorded."""

    def __init__(self, runs: SqlRuns, at: str) -> None:
        self._runs, self._at = runs, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runs, name)

    async def append(self, before: Run, frames: Sequence[Frame], hold: Hold | None) -> Run:
        numbers = [frame.number for frame in frames]
        if self._at[0] == "-" and int(self._at[1:]) in numbers:
            die()
        run = await self._runs.append(before, frames, hold)
        if self._at[0] == "+" and int(self._at[1:]) in numbers:
            die()
        return run


class MortalDeeds(ActsOnRecord):
    """Tools whose process dies when the call of that name has done its work, before that is recorded."""

    def __init__(self, file: Path, at: str) -> None:
        proposed = CallOutcome(success=True, text="A person decides: p-1.", proposal="p-1")
        super().__init__(file, plane_create_task=proposed)
        self._at = at

    async def call(self, name: str, arguments: Mapping[str, Any], key: str) -> CallOutcome:
        outcome = await super().call(name, arguments, key)
        if self._at == f"!{name}":
            die()
        return outcome


async def answer(asked: ModelRequest) -> ModelReply:
    """Answer by the number of questions so far.

    Search, read and merge in one go, ask, propose, and say that it is done.
    """
    steps = [
        said("I look.", use("kb_search")),
        said("", use("kb_read"), use("kb_merge")),
        said("", ask("Which team?")),
        said("", use("plane_create_task")),
        said("It is done."),
    ]
    return steps[sum(isinstance(message, FromModel) for message in asked.messages)]


async def lead(where: str, name: str, who: str, at: str) -> None:
    state = await open_shared(where, name)
    runs = runs_in(state)
    assert isinstance(runs, SqlRuns)
    deeds = MortalDeeds(Path(where) / "deeds", at)
    life = int(who) * 10_000_000  # each process starts about an hour after the one before
    led = Led(Scripted(*[answer] * 20), deeds, Mortal(runs, at), _looked=life, _ids=f"{int(who):02x}")
    run = await led_on(led)
    print(run.state)  # noqa: T201 - what the test reads
    await state.close()


async def led_on(led: Led) -> Run:
    """Do what the run needs until it ends."""
    try:
        run = await led.store.run("run-1")
    except NoSuchRun:
        run = await led.start(header())
    while not run.over:
        if run.ask is not None:
            run = await led.executor.answer("run-1", "Blue.", "ada@page")
        elif run.proposal:
            run = await led.executor.resume("run-1", run.proposal, "it was approved and is done")
        else:
            run = await led.executor.take_up("run-1")
    return run


if __name__ == "__main__":
    _, does, place, schema, name_, last = sys.argv
    anyio.run({"append": append, "lead": lead}[does], place, schema, name_, last)
