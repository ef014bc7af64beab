"""`kill -9` for the server while a host submits: acknowledged work is recorded once, and a repeated call gets the same answer.

The real program over stdio, with the SDK's client. `FORGE_TEST_KILLS` sets how many kills. With -s the results are
printed.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from agents.engine.events import Decided, Logged, WorkRecorded
from tests.support.journeys.hosts import Gone, SdkHost, Site, over_stdio
from tests.support.knowledge_bases.folders import write

FEW, MANY = 2, max(200, int(os.environ.get("FORGE_TEST_KILLS", "200")))
MOST_ACTS = 4
"""Of one life."""
PADDING = "x" * 500
PAGES = {"a.md": "# A\n\nThe cap is 20 calls an hour.\n"}
QUOTED = {"path": "a.md", "section": "A", "quote": "The cap is 20 calls an hour."}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


@dataclass(frozen=True)
class Act:
    """Work sent at a version; its text names the version."""

    tool: str
    version: int
    given: dict[str, Any]


@dataclass
class Lives:
    """A host whose server dies again and again, and the answers it got."""

    site: Site
    chance: random.Random
    journey: str = ""
    heard: list[tuple[Act, dict[str, Any]]] = field(default_factory=list)
    unheard: Act | None = None
    found: Counter[str] = field(default_factory=Counter)
    took_s: float = 0.0
    """How long the newest act took."""

    @property
    def newest(self) -> dict[str, Any]:
        return self.heard[-1][1]

    async def begin(self) -> None:
        """Make an undisturbed journey at version 2."""
        async with over_stdio(self.site) as host:
            told = await host.call("journey_start", agent="build", brief="A cap on calls.")
            self.journey = told["journey_id"]
            await self.do(host, next_act(told))

    async def live(self) -> None:
        """Let a server answer a few acts, and die at some point of the next."""
        async with over_stdio(self.site) as host:
            await self.send_again(host)
            enough = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.go_on, host, self.chance.randint(1, MOST_ACTS), enough)
                await enough.wait()
                await anyio.sleep(self.chance.random() * self.took_s)
                host.kill()

    async def go_on(self, host: SdkHost, few: int, enough: anyio.Event) -> None:
        """Act until the server is gone; report when there were `few` acts."""
        while True:
            self.unheard = next_act(self.newest)
            began = time.perf_counter()
            try:
                await self.do(host, self.unheard)
            except Gone:
                return
            self.took_s = time.perf_counter() - began
            few -= 1
            if not few:
                enough.set()

    async def do(self, host: SdkHost, act: Act) -> None:
        answer = await self.send(host, act)
        assert answer["version"] == act.version + 1
        self.heard.append((act, answer))
        self.unheard = None

    async def send(self, host: SdkHost, act: Act) -> dict[str, Any]:
        answer = await host.call(act.tool, journey_id=self.journey, version=act.version, **act.given)
        if answer["checkpoint"]:
            # Another process shows the page now, so it has another address.
            answer["checkpoint"].pop("review_url")
        return answer

    async def send_again(self, host: SdkHost) -> None:
        """Send the answered act once more, and the unanswered one twice: both get the normal answer."""
        act, answer = self.heard[-1]
        assert await self.send(host, act) == answer
        if (act_ := self.unheard) is not None:
            await self.do(host, act_)
            assert await self.send(host, act_) == self.newest

    async def look(self) -> None:
        """Check that each acknowledged act is recorded once, and at most one more."""
        state, log = await self.site.record(self.journey)
        acted = acts_in(log)
        acknowledged = [f"at {act.version}" for act, _ in self.heard]
        more = acted[len(acknowledged) :]
        assert acted[: len(acknowledged)] == acknowledged
        assert more in ([], [f"at {self.unheard.version}"] if self.unheard else [])
        assert state.version == 1 + len(acted)
        self.found["kept, unheard" if more else "as acknowledged"] += 1


def next_act(here: dict[str, Any]) -> Act:
    """Return the next work for an answer, in a loop.

    A concept and a plan, a person's approval, a gap that leads back.
    """
    version, mark = here["version"], f"at {here['version']}"
    if here["state"] == "waiting":
        return Act("journey_decide", version, {"decision": "approve", "note": mark})
    if here["phase"] == "MAKING":
        return Act("journey_submit", version, {"work": {"gap": {"concept": f"c{version}", "text": mark, "step": "s"}}})
    # The concept that the previous gap named; the one of the previous round is no longer needed.
    concept = {"id": f"c{version - 1}", "text": PADDING, "citations": [QUOTED]}
    step = {"id": "s", "step": "Write it.", "done_when": "It can be read.", "rests_on": [concept["id"]]}
    work = {"goal": mark, "concepts": [concept], "plan": [step], "drop": [f"c{version - 4}"]}
    return Act("journey_submit", version, {"work": work})


def acts_in(log: Sequence[Logged]) -> list[str]:
    """Return the mark of each recorded act, in order."""
    marks = []
    for logged in log:
        if isinstance(logged.event, Decided):
            marks.append(logged.event.note)
        elif isinstance(logged.event, WorkRecorded):
            work = logged.event.work
            marks.append(work["gap"]["text"] if logged.event.phase == "MAKING" else work["goal"])
    return marks


@pytest.mark.parametrize("kills", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.external
async def test_however_often_the_server_is_killed_each_acknowledged_submit_is_on_record_once(
    kills: int, tmp_path: Path
) -> None:
    """200 `kill -9` during submits: each acknowledged submit recorded once, versions without gaps."""
    site = Site(write(tmp_path / "kb", PAGES), tmp_path / "state")
    lives = Lives(site, random.Random(kills))  # noqa: S311 - when to kill, not a secret
    await lives.begin()
    for _ in range(kills):
        await lives.live()
        await lives.look()
    print(f"\n{kills} kills, {len(lives.heard)} acts acknowledged: {dict(lives.found)}")  # noqa: T201 - the histogram, with -s
    assert lives.found.total() == kills
    assert len(lives.heard) > kills
    if kills >= MANY:
        assert min(lives.found["kept, unheard"], lives.found["as acknowledged"]) > 0
