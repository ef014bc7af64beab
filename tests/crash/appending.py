"""Processes that append to one journey and are killed meanwhile: each continues after the acknowledged steps, and dies.

`python -m tests.crash.appending HOME KILLS SEED` prints how each last append was found. A process that finds an
acknowledged step missing, doubled or at another version, or a gap, writes it to HOME/wrong and exits instead of dying.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import anyio

from agents.engine.events import PhaseChanged, Thinking, WorkRecorded
from agents.engine.fold import fold
from agents.store.ports import JourneyStore
from knowledge.state.sqlite.store import SqliteStateStore
from mcp_server.app.factories.journey_store import journeys_in
from tests.support.journeys.graphs import ADA, begun

LONGEST_LIFE_S = 0.03
JOURNEY = "j-1"
PHASES = ("DECOMPOSE", "ANSWER")


def acknowledged(home: Path) -> dict[str, int]:
    """Return the version at which each step was acknowledged, by its key; the last line may be incomplete."""
    told = (home / "acknowledged").read_text().splitlines(keepends=True)
    pairs = [line.split() for line in told if line.endswith("\n")]
    return {key: int(version) for key, version in pairs}


async def look(journeys: JourneyStore, home: Path) -> str:
    """Return how the unacknowledged step was found, or raise."""
    log = await journeys.events(JOURNEY)
    state = await journeys.journey(JOURNEY)
    assert fold(log) == state, "the state beside the log is not its fold"
    assert [e.seq for e in log] == list(range(1, len(log) + 1)), "a gap in the events"
    kept = {e.key: e.version for e in log if e.key}
    assert sorted(kept.values()) == list(range(2, state.version + 1)), "a gap in the versions, or a step twice"
    works = [e.version for e in log if isinstance(e.event, WorkRecorded)]
    moves = [e.version for e in log if isinstance(e.event, PhaseChanged)]
    assert works == moves == sorted(kept.values()), "half a step"
    told = acknowledged(home)
    assert told.items() <= kept.items(), f"acknowledged and not kept: {sorted(told.items() - kept.items())}"
    unheard = len(kept) - len(told)
    assert unheard in (0, 1), f"{unheard} steps that nobody was told of"
    return "kept, unheard" if unheard else "as acknowledged"


async def one_step(journeys: JourneyStore, home: Path) -> None:
    """Append the next step, and print it once it is acknowledged."""
    state = await journeys.journey(JOURNEY)
    target = PHASES[state.version % 2]
    work = WorkRecorded(state.phase, state.visit, {"n": state.version, "text": "x" * 2_000})
    move = PhaseChanged(state.phase, target, "always", is_backward=False)
    key = f"step-{state.version}"
    done = await journeys.append(JOURNEY, [work, move], expected=state.version, key=key, by=ADA, at=datetime.now(UTC))
    _say(home, key, done.version)
    await journeys.note(JOURNEY, [Thinking(key)], by=ADA, at=datetime.now(UTC))


def _say(home: Path, key: str, version: int) -> None:
    with (home / "acknowledged").open("a") as file:
        file.write(f"{key} {version}\n")


async def send_again(journeys: JourneyStore, home: Path) -> None:
    """Send the last step again, whose answer may have been lost: it gets the same answer."""
    state = await journeys.journey(JOURNEY)
    if state.version == 1:
        return
    key, again = f"step-{state.version - 1}", WorkRecorded(state.phase, state.visit, "another")
    done = await journeys.append(JOURNEY, [again], expected=state.version - 1, key=key, by=ADA, at=datetime.now(UTC))
    assert (done.version, done.repeated) == (state.version, True), done
    if key not in acknowledged(home):
        _say(home, key, done.version)


async def one_life(home: Path, number: int, seed: int) -> None:
    chance = random.Random(f"{seed}/{number}")  # noqa: S311 - when to die, not a secret
    state = await SqliteStateStore.open(home / "state.db")
    journeys = journeys_in(state)
    await journeys.start(JOURNEY, begun(), by=ADA, at=datetime.now(UTC))
    how = await look(journeys, home)
    with (home / "ends").open("a") as file:
        file.write(how + "\n")
    await send_again(journeys, home)
    threading.Thread(target=die_after, args=(chance.random() * LONGEST_LIFE_S,), daemon=True).start()
    while True:
        await one_step(journeys, home)


def die_after(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def main(home: Path, kills: int, seed: int) -> None:
    (home / "acknowledged").touch()
    for number in range(kills):
        child = os.fork()
        if not child:
            try:
                anyio.run(one_life, home, number, seed)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the parent tells it
                (home / "wrong").write_text(f"life {number}: {error!r}")
            os._exit(1)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            sys.exit(1)

    async def last() -> None:
        state = await SqliteStateStore.open(home / "state.db")
        journeys = journeys_in(state)
        how = await look(journeys, home)
        steps = (await journeys.journey(JOURNEY)).version - 1
        await state.close()
        with (home / "ends").open("a") as file:
            file.write(how + "\n")
        (home / "steps").write_text(str(steps))

    anyio.run(last)
    # The first process found nothing to check.
    print("".join((home / "ends").read_text().splitlines(keepends=True)[1:]), end="")  # noqa: T201 - what the test counts


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
