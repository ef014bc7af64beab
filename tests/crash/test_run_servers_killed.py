"""`kill -9` for a server that leads a run: another one continues, the run ends, and its acts on pages and in Plane exist once.

The real program, killed before and after each frame is recorded, at requests to Plane, and at any moment; the model and
Plane are doubles on real sockets. `FORGE_TEST_KILLS` sets how many kills. With -s the results are printed.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from agents.loop.record.frames import Control, ToolResult
from agents.loop.record.run import Run
from knowledge.history.audit.chain import verify
from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LanguageModelName
from mcp_server.runs import resume as keeping
from mcp_server.runs import supervisor
from tests.crash.run_server import HOLD_S
from tests.crash.test_acts_killed import kill
from tests.doubles.plane import ADA, WORKSPACE, Plane, seeded
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Turn, said, uses
from tests.doubles.serving import Fault, Served, after, before, served
from tests.support.hosts.writers import let_in
from tests.support.journeys.hosts import Gone, Site, over_stdio
from tests.support.knowledge_bases.folders import write
from tests.support.runs.scripts import sound
from tests.support.state.postgres import PostgresServer

MANY = max(100, int(os.environ.get("FORGE_TEST_KILLS", "100")))
STEPS = 4
LAST = (1, 2, 4, 5, 7, 8, 10)
"""The frames that end a step, in a run where nothing dies."""
FRAMES = [f"{side}{number}" for number in LAST for side in "-+"]
AT_PLANE = ["plane, never acted", "plane, acted", "plane, answered"]
LONGEST_S = 0.15
"""About how long a run takes if its model answers at once."""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@dataclass(frozen=True)
class Dying(Site):
    """A site whose servers die at that frame, if any."""

    dies: str = ""

    def command(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "tests.crash.run_server", self.dies, "serve", *more]


@dataclass
class Killer:
    """Kills a process at a moment that Plane or the model sees."""

    pid: int = 0
    at: str = ""
    wait_s: float = 0.0

    def aim(self, at: str, pid: int, wait_s: float = 0.0) -> None:
        self.at, self.pid, self.wait_s = at, pid, wait_s

    def plane(self, method: str, _path: str, _number: int) -> Fault | None:
        if method == "GET" or not self.at.startswith("plane"):
            return None
        stage, self.at = self.at, ""
        if stage == "plane, answered":
            threading.Timer(0.005, kill, (self.pid,)).start()
            return None
        kill(self.pid)
        return after() if stage == "plane, acted" else before()

    def model(self, _method: str, _path: str, _number: int) -> Fault | None:
        if self.at == "some time":
            self.at = ""
            threading.Timer(self.wait_s, kill, (self.pid,)).start()
        return None


@dataclass
class World:
    """A knowledge base with servers, one of which stays alive, a Plane and a model."""

    site: Dying
    settings: Settings
    plane: Plane
    model: Model
    killer: Killer
    alive: App
    found: Counter[str] = field(default_factory=Counter)

    def page(self, number: int) -> Path:
        return self.settings.kb / f"notes/run{number}.md"

    def tasks(self, number: int) -> int:
        return sum(task["name"] == f"Task {number}." for task in self.plane.tasks("KB"))

    async def written(self, number: int) -> int:
        """Return how often the page was changed, according to the audit chain."""
        records = await self.alive.base.state.ledger.records(limit=10_000)
        return sum(f"notes/run{number}.md" in record.body for record in records)

    async def chain_holds(self) -> bool:
        ledger = self.alive.base.state.ledger
        return not verify(await ledger.records(limit=10_000), await ledger.chain_end())


def goal_of(number: int) -> str:
    return f"Goal number {number}."


def thinks(number: int) -> Any:
    """Return a model that follows the results, and repeats calls whose outcome is reported as unknown."""

    def answer(asked: Mapping[str, Any]) -> Turn:
        told = [message for message in asked["messages"] if message["role"] == "tool"]
        steps = [
            uses("kb_read", path="guides/deploy.md"),
            uses("kb_merge", path=f"notes/run{number}.md", content=f"# Run {number}\n\nIt was here.\n"),
            uses("plane_create_task", project="KB", name=f"Task {number}."),
        ]
        return steps[len(told)] if len(told) < len(steps) else said("It is done.")

    return answer


@asynccontextmanager
async def world(
    home: Path, monkeypatch: pytest.MonkeyPatch, database: Mapping[str, str] | None = None
) -> AsyncIterator[World]:
    """Yield everything.

    The server that stays alive checks often, and its claims on runs expire as soon as the others'.
    """
    monkeypatch.setattr(supervisor, "HOLD_S", HOLD_S)
    monkeypatch.setattr(keeping, "LOOK_S", HOLD_S / 2)
    plane, model, killer, database = seeded(), Model(), Killer(), dict(database or {})
    async with AsyncExitStack() as stack:
        at_plane: Served = await stack.enter_async_context(served(plane, plan=killer.plane))
        at_model: Served = await stack.enter_async_context(served(model, plan=killer.model))
        services = {
            "plane_base_url": at_plane.address,
            "plane_api_key": ADA.key,
            "plane_workspace": WORKSPACE,
            "openai_api_key": KEY,
            "openai_base_url": f"{at_model.address}/v1",
        }
        named = {name.removeprefix("FORGE_").lower(): value for name, value in database.items()}
        settings = Settings(
            kb=write(home / "kb"),
            state_dir=home / "state",
            model=LanguageModelName("openai", "some-model"),
            open_browser=False,
            **{**services, **named},  # type: ignore[arg-type]  # texts
        )
        settings = await let_in(settings, "writer", 5)
        environment = {name.upper(): value for name, value in services.items()} | database
        environment |= {"FORGE_ENROLMENT": settings.enrolment or "", "FORGE_MODEL": "openai:some-model"}
        alive = await stack.enter_async_context(open_app(settings, indexing=False))
        yield World(Dying(home / "kb", home / "state", environment), settings, plane, model, killer, alive)


async def ended(own: World, number: int) -> Run | None:
    """Return how the run ended, whichever server led it; None if it never began."""
    runs, state = own.alive.services.runs, own.alive.services.state
    lines = [line for line in await runs.store.runs(limit=1000) if line.title == goal_of(number)]
    if not lines:
        return None
    with anyio.fail_after(60):
        while True:
            seen = await state.last_event()
            run = await runs.store.run(lines[0].id)
            if run.over:
                return run
            with anyio.move_on_after(1.0):
                await state.changed(seen)


async def one_life(own: World, number: int, stage: str, chance: random.Random) -> None:
    """Let a server lead a run and die at that stage, and check the outcome."""
    own.model.will(goal_of(number), *[thinks(number)] * 20)
    site = replace(own.site, dies=stage if stage in FRAMES else "")
    async with over_stdio(site) as host:
        own.killer.aim(stage, host.pid, chance.uniform(0.0, LONGEST_S))
        with suppress(Gone):
            await host.call("agent_run", goal=goal_of(number), max_iterations=20)
    run = await ended(own, number)
    own.killer.aim("", 0)
    own.model.will(goal_of(number))
    if run is None:
        own.found[f"{stage}: never begun"] += 1
        return
    await ends_well(own, run, number, stage)


async def ends_well(own: World, run: Run, number: int, stage: str) -> None:
    assert run.state == "done", (stage, run.why)
    assert await sound(own.alive.services.runs.store, run.id) == run
    results = {frame.tool: frame for frame in run.frames if isinstance(frame, ToolResult)}
    there = {"kb_merge": await own.written(number), "plane_create_task": own.tasks(number)}
    for tool, times in there.items():
        result = results[tool]
        told = "unsure" if result.unsure else "done" if result.success else "failed"
        assert times <= 1, f"{stage}: {tool} was done {times} times"
        assert result.unsure or result.success == bool(times), (stage, tool, result.text)
        own.found[f"{tool}: {told}"] += 1
    assert own.page(number).exists() == bool(there["kb_merge"])
    taken = any(isinstance(frame, Control) and frame.signal == "taken_up" for frame in run.frames)
    own.found["another went on" if taken else "it came to its end before"] += 1


def stages(kills: int) -> list[str]:
    """Return MANY stages: each frame, each request to Plane, and random moments."""
    each = [*FRAMES, *AT_PLANE]
    return each + ["some time"] * (kills - len(each))


async def lives(own: World, told: list[str]) -> None:
    chance = random.Random(9)  # noqa: S311  seeded, not secret
    for number, stage in enumerate(told):
        await one_life(own, number, stage, chance)
    print(f"\n{len(told)} kills: {dict(sorted(own.found.items()))}")  # noqa: T201 - the histogram, with -s
    assert await own.chain_holds()


@pytest.mark.parametrize("told", [["plane, acted"], pytest.param(stages(MANY), marks=pytest.mark.slow)])
async def test_wherever_a_server_dies_during_a_run_another_continues_and_nothing_is_done_twice(
    told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kill at each step; the run resumes or ends as a recorded failure, no effect twice."""
    async with world(tmp_path, monkeypatch) as own:
        await lives(own, told)


@pytest.mark.external
async def test_so_it_is_with_two_servers_and_postgresql(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    database = {"FORGE_DATABASE_URL": str(postgres.url()), "FORGE_DATABASE_SCHEMA": "runs_killed"}
    async with world(tmp_path, monkeypatch, database) as own:
        await lives(own, ["-1", "+1", "+4", "-5", "plane, acted", "plane, never acted", "+8", "some time"])
