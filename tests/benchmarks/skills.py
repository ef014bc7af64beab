"""The cost of a step of a skill of six agents, early and late: `python -m tests.benchmarks.skills [--write-doc]`.

`deliver` is led to its end by its agents' scripts, in the process, on SQLite. A submit is the whole of `Runner.submit`
(form, conditions, automatic phases, record); the prompt is its answer. Each step is compared with a submit of a small
agent with one phase, alternating on the same disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from agents.catalogue import built_in
from agents.engine.agent import Called
from agents.engine.events import Json, canonical
from agents.engine.runner import Submission
from agents.engine.state import get_state, without_content
from agents.prompts.prompt import prompt
from agents.store.ports import JourneyStore
from tests.benchmarks.handbook import write_section
from tests.support.agents.agent_harness import Led, leading
from tests.support.agents.cognitive.cast import Cast, acts
from tests.support.agents.small_agents import noting
from tests.support.journeys.graphs import ADA
from tests.support.state.engines import journeys_in
from tests.support.state.ledgers import open_shared

CHAIN = {
    "clarify": "clarification",
    "research": "research-cognitive",
    "analyse": "analysis",
    "synthesise": "synthesis",
    "generate": "generation",
    "validate": "validation",
}
CAST = Cast.skill(CHAIN)


@dataclass(frozen=True)
class Taken:
    """One step: milliseconds of the submit, of the next prompt, and of the small agent's submit beside it.

    Bytes of state.
    """

    submit_ms: float
    told_ms: float
    beside_ms: float
    state_bytes: int


@asynccontextmanager
async def journeys_at(folder: Path) -> AsyncIterator[JourneyStore]:
    """Open a SQLite database of journeys in the folder."""
    state = await open_shared(str(folder), "journeys")
    try:
        yield journeys_in(state)
    finally:
        await state.close()


async def led_to_the_end(folder: Path) -> list[Taken]:
    """Return the cost of each step of the skill, in order."""
    taken = []
    async with (
        journeys_at(folder / "deliver") as store,
        journeys_at(folder / "noting") as other,
        leading(built_in("deliver"), store=store) as led,
        leading(noting(), store=other) as small,
    ):
        while (state := await led.state()).status != "complete":
            led.look.called_before, led.look.called = [*led.look.called_before, *led.look.called], []
            told = {"phase": state.phase, "journey_id": led.journey, "prompt": await led.told(), "visit": state.visit}
            for act in acts(CAST, told, {}):
                if act.kind == "call":
                    led.look.called.append(Called(act.content["tool"], state.phase, {"status": "done", **act.content}))
                elif act.kind == "answer":
                    await led.decide("answer", channel="relayed", changes=act.content)
                else:
                    taken.append(await _step(led, small, act.content))
    return taken


async def _step(led: Led, small: Led, work: Mapping[str, Json]) -> Taken:
    here = await led.state()
    began = time.perf_counter()
    after = await led.runner.submit(led.journey, here.version, Submission(work), by=ADA)
    submitted = time.perf_counter()
    prompt(after.agent, after.state)
    told = time.perf_counter()
    beside = await _beside(small)
    size = len(canonical(get_state(without_content(after.state))))
    return Taken((submitted - began) * 1e3, (told - submitted) * 1e3, beside, size)


async def _beside(small: Led) -> float:
    """Return the milliseconds of one submit that doesn't leave the phase of an agent with one phase."""
    here = await small.state()
    began = time.perf_counter()
    await small.runner.submit(small.journey, here.version, Submission({"notes": []}), by=ADA)
    return (time.perf_counter() - began) * 1e3


def rows(taken: list[Taken]) -> list[str]:
    """Return the table: the first, middle and last twenty steps."""
    middle = len(taken) // 2 - 10
    shown = [("first 20", taken[:20]), ("middle 20", taken[middle : middle + 20]), ("last 20", taken[-20:])]
    lines = [
        "| steps | submit, ms | prompt, ms | small agent's submit, ms | times | state row, bytes |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for name, part in shown:
        submit, told = median(one.submit_ms for one in part), median(one.told_ms for one in part)
        beside, size = median(one.beside_ms for one in part), median(one.state_bytes for one in part)
        lines.append(
            f"| {name} of {len(taken)} | {submit:.1f} | {told:.1f} | {beside:.1f} | {submit / beside:.1f} | {size:,.0f} |"
        )
    return lines


def main() -> None:
    """Measure, print, and write the section of the handbook if requested."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write-doc", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("deliver", "noting"):
            (Path(folder) / name).mkdir()
        table = rows(asyncio.run(led_to_the_end(Path(folder))))
    print("\n".join(table))
    if args.write_doc:
        when = f"{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
        said = [
            "## Steps of a skill",
            "",
            "The cost of a step of `deliver`, six agents with the memory agent after each",
            f"(`python -m tests.benchmarks.skills --write-doc`; {when}).",
            "*Submit* is the whole path in the process on SQLite, automatic phases included; *prompt* is its answer;",
            "*times* compares with a submit of an agent with one phase, taking turns on the same disk.",
            "",
        ]
        write_section("skills", [*said, *table])


if __name__ == "__main__":
    main()
