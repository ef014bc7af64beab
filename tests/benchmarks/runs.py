"""The cost of a run besides its model's time: `python -m tests.benchmarks.runs [--write-doc]`.

The model answers at once, without any network, so the rest is the server's: making messages, the gate, the frames on
disk. A bare call of the same tool through the same gate alternates with it. Then processes are started with a model
configured and without, alternating, and one with a model on a socket runs a goal.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from agents.loop.model.ports import JsonReply, ModelReply, ModelRequest, ModelUsage, Shape, ToolUse
from agents.loop.record.frames import Header, RunLimits
from mcp_server.app.composition import App, open_app
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LanguageModelName
from mcp_server.gate.caller import Call
from mcp_server.gate.host_registration import Principal, os_user
from tests.benchmarks.handbook import write_section
from tests.benchmarks.processes import first_listing, memory_mb, ours, served
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import said, uses
from tests.doubles.serving import serving
from tests.support.hosts.writers import let_in
from tests.support.knowledge_bases.folders import write

STEPS = (1, 5, 20)
ROUNDS, STARTS = 15, 9
SETTLE_S = 1.5
TOOL, ARGUMENTS = "kb_map", {"path": ""}
HOST = "bench"


class AtOnce:
    """A model that calls the tool this often, and then answers."""

    name, model = "openai", "some-model"

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def complete(self, asked: ModelRequest) -> ModelReply:
        done = sum(hasattr(message, "use") for message in asked.messages)
        calls = (ToolUse(f"use-{done}", TOOL, ARGUMENTS),) if done < self._steps else ()
        return ModelReply(
            "" if calls else "It is so.",
            calls,
            stop="tools" if calls else "end",
            usage=ModelUsage(100, 10),
            model=self.model,
            request="req",
        )

    async def complete_json(self, asked: ModelRequest, shape: Shape) -> JsonReply:
        raise NotImplementedError(f"a run asks for no {shape.name}: {asked.conversation}")

    async def aclose(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of wall time, and of processor time."""

    wall_ms: float
    processor_ms: float


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of one call through the gate, and of a run with this many steps; medians."""

    call: Times
    runs: dict[int, Times]
    bytes_a_step: float


@asynccontextmanager
async def opened(home: Path) -> AsyncIterator[App]:
    settings = Settings(kb=write(home / "kb"), state_dir=home / "state", openai_api_key=KEY, open_browser=False)
    settings = await let_in(replace(settings, model=LanguageModelName("openai", "some-model")), HOST, 3)
    async with open_app(settings, indexing=False, announcing=False) as app:
        yield app


async def costs(rounds: int = ROUNDS) -> Costs:
    """Return the cost of alternating calls and runs."""
    with tempfile.TemporaryDirectory() as home:
        async with opened(Path(home)) as app:
            calls: list[Times] = []
            runs: dict[int, list[Times]] = {steps: [] for steps in STEPS}
            for number in range(rounds + 1):  # the first is not counted
                calls.append(await _calls(app))
                for steps in STEPS:
                    runs[steps].append(await _run(app, steps, number))
            size = await _bytes(app)
    return Costs(_median(calls[1:]), {steps: _median(times[1:]) for steps, times in runs.items()}, size)


async def _calls(app: App, many: int = 20) -> Times:
    call = Call(Principal(os_user(), HOST), origin="inner", run="r-bench")
    began, used = time.perf_counter(), time.process_time()
    for _ in range(many):
        await app.gate.dispatch(TOOL, dict(ARGUMENTS), call)
    return Times((time.perf_counter() - began) * 1000 / many, (time.process_time() - used) * 1000 / many)


async def _run(app: App, steps: int, number: int) -> Times:
    runs: Any = app.services.runs
    runs.model._provider = AtOnce(steps)
    header = Header(
        id=f"r-{steps}-{number}",
        goal="Look around.",
        principal=Principal(os_user(), HOST).id,
        begun_at=utc_now(),
        model=runs.model.name,
        limits=RunLimits(iterations=steps + 1, tokens=None),
    )
    began, used = time.perf_counter(), time.process_time()
    run = await runs.carry(header)
    if run.state != "done":
        raise RuntimeError(run.why)
    return Times((time.perf_counter() - began) * 1000, (time.process_time() - used) * 1000)


async def _bytes(app: App) -> float:
    """Return the bytes of a step's frames."""
    from agents.loop.record.frames import frame_text

    run = await app.services.runs.store.run(f"r-{STEPS[-1]}-0")
    return sum(len(frame_text(frame).encode()) for frame in run.frames) / run.iterations


def _median(times: list[Times]) -> Times:
    return Times(statistics.median(one.wall_ms for one in times), statistics.median(one.processor_ms for one in times))


@dataclass(frozen=True, slots=True)
class Processes:
    """The cost of a configured model for a process: before its first use, and afterwards."""

    start_s: float
    start_without_s: float
    memory_mb: float
    memory_without_mb: float
    after_run_mb: float

    @property
    def start(self) -> float:
        """Return the start's slowdown, as a ratio."""
        return self.start_s / self.start_without_s


def processes(starts: int = STARTS) -> Processes:
    """Measure it with processes that are started alternately."""
    with tempfile.TemporaryDirectory() as home, serving(model := Model()) as place:
        where = Path(home)
        settings = Settings(kb=write(where / "kb"), state_dir=where / "state")
        settings = anyio.run(let_in, settings, HOST, 3)
        arguments = ours(settings.kb, where / "state")
        told = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{place.address}/v1"}
        asks = {**told, "FORGE_MODEL": "openai:some-model"}
        for environment in (told, asks):
            first_listing(arguments, SETTLE_S, environment)
        pairs = [
            (first_listing(arguments, SETTLE_S, asks), first_listing(arguments, SETTLE_S, told)) for _ in range(starts)
        ]
        model.will("Look", uses(TOOL, **ARGUMENTS), said("It is so."))
        after = anyio.run(_after_run, arguments, {**asks, "FORGE_ENROLMENT": settings.enrolment or ""})
    start, without = (statistics.median(pair[i].seconds for pair in pairs) for i in (0, 1))
    memory, memory_without = (statistics.median(pair[i].peak_mb for pair in pairs) for i in (0, 1))
    return Processes(start, without, memory, memory_without, after)


async def _after_run(arguments: list[str], environment: dict[str, str]) -> float:
    async with served(arguments, environment) as server:
        _, answer = await server.timed("agent_run", {"goal": "Look around."})
        if answer["status"] != "done":
            raise RuntimeError(answer["text"])
        return memory_mb(server.pid, "VmRSS")


def lines(found: Costs, process: Processes, *, load: float) -> list[str]:
    """Return the section of the handbook."""
    when, cores = datetime.now(UTC).date().isoformat(), len(os.sched_getaffinity(0))
    few, many = STEPS[0], STEPS[-1]
    step = (found.runs[many].processor_ms - found.runs[few].processor_ms) / (many - few)
    table = [
        f"| {steps} | {times.wall_ms:.1f} | {times.processor_ms:.1f} | {times.wall_ms / (steps * found.call.wall_ms):.1f} |"
        for steps, times in found.runs.items()
    ]
    return [
        "## Runs",
        "",
        f"The cost of a run of `agent_run`, without its model (`python -m tests.benchmarks.runs --write-doc`; {when}, {cores} cores,",
        f"load {load:.1f} before). The model answers at once and calls `{TOOL}` in each step; every frame is on disk before the next",
        f"step. The same call alone, through the same gate, takes {found.call.wall_ms:.2f} ms, and *times* compares with so many of",
        f"those. One more step costs **{step:.1f} ms** of the processor and {found.bytes_a_step:,.0f} bytes.",
        "",
        "| steps | run, ms | processor, ms | times |",
        "|---:|---:|---:|---:|",
        *table,
        "",
        f"A process with a model configured answers its first `tools/list` in {process.start_s:.2f} s, one without in",
        f"{process.start_without_s:.2f} s: **{process.start:.2f} times** as long, medians of {STARTS} starts by turns. A moment later",
        f"it has {process.memory_mb:.0f} MB instead of {process.memory_without_mb:.0f} MB, and after its first run, with the vendor's",
        f"package loaded, {process.after_run_mb:.0f} MB.",
    ]


def main() -> None:
    """Measure and tell."""
    load = os.getloadavg()[0]
    told = lines(anyio.run(costs), processes(), load=load)
    print("\n".join(told))
    if "--write-doc" in sys.argv[1:]:
        write_section("runs", told)


if __name__ == "__main__":
    main()
