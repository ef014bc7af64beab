"""`kill -9` for a server acting in Plane and Zulip, or sending webhooks: each act exists once, and no done act is reported as failed.

The real program with doubles on real sockets, killed at the moment when a request arrives there, or a moment later. A
host asks again from another process; any process finishes what a person approved. `FORGE_TEST_KILLS` sets how many
kills. With -s the results are printed.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from starlette.types import ASGIApp, Receive, Scope, Send

from knowledge.history.audit.chain import verify
from knowledge.trust.ports import Proposal
from mcp_server.app.composition import open_app
from mcp_server.app.knowledge_base import open_state
from mcp_server.app.settings.services import WebhookTarget
from mcp_server.app.settings.settings import Settings
from mcp_server.approvals.proposal_executor import UNSURE, UNSURE_AT
from tests.crash.approving import LEASE_S
from tests.doubles.plane import ADA, WORKSPACE, Plane, seeded
from tests.doubles.receiver import Receiver
from tests.doubles.serving import Fault, Served, after, before, served
from tests.doubles.zulip import Zulip
from tests.support.hosts.writers import Writer, let_in
from tests.support.journeys.hosts import Gone, SdkHost, Site, over_stdio
from tests.support.knowledge_bases.folders import write
from tests.support.webhook.hosts import SECRET

ROOT = Path(__file__).parents[2]
FEW, MANY = 1, max(100, int(os.environ.get("FORGE_TEST_KILLS", "100")))
SEED = 8
BOT = "Zulip Default Bot"
CHANNEL = "acts"
BATCH = 4
"""Changes in a batch."""
LATEST_S = 1.5
"""How long after its sender's death a service may still process a request."""
ANSWERED_S = 0.03
"""The latest time after the reply at which a server is killed: while it records the act's outcome, or after that."""
KNOWN = UNSURE_AT.split("{", 1)[0]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="kills with a signal that Windows has not")


class Late:
    """A service that delays its next changing request, even if nobody waits for the reply."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self.seconds = app, 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.seconds and is_write(scope["method"], scope["path"]):
            wait_s, self.seconds = self.seconds, 0.0
            await asyncio.sleep(wait_s)
        await self._app(scope, receive, send)


def is_write(method: str, path: str) -> bool:
    return method != "GET" and not path.endswith(("/register", "/events"))


@dataclass
class Killer:
    """Kills a process when it reaches a stage of an act, as the services see it."""

    chance: random.Random
    late: tuple[Late, ...] = ()
    pid: int = 0
    stage: str = ""
    spared: int = 0

    def aim(self, stage: str, pid: int, spared: int = 0) -> None:
        """Kill that process at the stage; `spared` changing requests before it are carried out and answered."""
        self.stage, self.pid, self.spared = stage, pid, spared
        for service in self.late:
            service.seconds = self.chance.uniform(0.1, LATEST_S) if stage == "sent, acted late" else 0.0

    def __call__(self, method: str, path: str, _number: int) -> Fault | None:
        if self.spared and is_write(method, path):
            self.spared -= 1
            return None
        match self.stage:
            case "planned":
                return self._shoot(before())
            case "begun" if path.endswith("/register"):
                return self._shoot(before())
            case "sent, never acted" if is_write(method, path):
                return self._shoot(before())
            case "sent, acted" if is_write(method, path):
                return self._shoot(after())
            case "sent, acted late" if is_write(method, path):
                return self._shoot(None)
            case "answered" if is_write(method, path):
                self.stage = ""
                threading.Timer(self.chance.uniform(0.0, ANSWERED_S), kill, (self.pid,)).start()
        return None

    def _shoot(self, fault: Fault | None) -> Fault | None:
        self.stage = ""
        kill(self.pid)
        return fault


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


PLANE_STAGES: tuple[str, ...] = ("planned", "sent, never acted", "sent, acted", "sent, acted late", "answered")
ZULIP_STAGES: tuple[str, ...] = ("planned", "begun", "sent, never acted", "sent, acted", "sent, acted late", "answered")
UNKNOWABLE = ("zulip_send_message", "sent, never acted")
"""Zulip has no idempotency keys: for some minutes nobody can know that a message will not still arrive."""


@dataclass(frozen=True)
class Act:
    """A call, and how often its effect exists."""

    tool: str
    asked: dict[str, Any]
    there: Callable[[], int]
    stage: str
    spared: int = 0

    @property
    def may_be_unsure(self) -> bool:
        return (self.tool, self.stage) == UNKNOWABLE


@dataclass
class World:
    """A Plane, a Zulip, a receiver of webhooks, and a knowledge base whose hosts use them."""

    site: Site
    settings: Settings
    plane: Plane
    zulip: Zulip
    receiver: Receiver
    killer: Killer
    found: Counter[str] = field(default_factory=Counter)

    def act(self, number: int, stages: tuple[str, ...] = ()) -> Act:
        """Return the next act, cycling through tools and stages, with unique text, and where its process dies."""
        text = f"number {number}"
        first = self._create, self._send, self._comment, self._update
        makers = (*first, self._react, self._edit, self._resolve, self._several, self._hook)
        tool, asked, there = makers[number % len(makers)](text)
        own = ZULIP_STAGES if tool.startswith("zulip") else PLANE_STAGES
        if tool in ("zulip_react", "zulip_update"):
            own = tuple(stage for stage in own if stage != "begun")  # that needs no queue
        left = [stage for stage in own if stage in (stages or own)]
        # A process also dies between the parts of a batch.
        spared = number // len(makers) % BATCH if tool == "plane_change_tasks" else 0
        return Act(tool, asked, there, left[number // len(makers) % len(left)], spared)

    def _several(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        changes = [
            {"project": "KB", "name": f"{text} of several"},
            {"task": "KB-1", "text": f"{text} of several"},
            {"task": "KB-3", "name": f"{text} renamed"},
            {"project": "KB", "name": f"{text} the last", "cycle": "Draft"},
        ]

        def there() -> int:
            draft = next(row["id"] for row in self.plane.project("KB").cycles.values() if row["name"] == "Draft")
            inside = {row["issue"] for row in self.plane.project("KB").in_cycles.values() if row["cycle"] == draft}
            counts = {
                self._named(f"{text} of several"),
                sum(f"{text} of several<" in comment["comment_html"] for comment in self.plane.comments("KB-1")),
                self._named(f"{text} renamed"),
                sum(row["name"] == f"{text} the last" and row["id"] in inside for row in self.plane.tasks("KB")),
            }
            return counts.pop() if len(counts) == 1 else -1

        return "plane_change_tasks", {"changes": changes}, there

    def _create(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        return "plane_create_task", {"project": "KB", "name": text}, lambda: self._named(text)

    def _named(self, text: str) -> int:
        return sum(task["name"] == text for task in self.plane.tasks("KB"))

    def _comment(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        def there() -> int:
            return sum(f"{text}<" in comment["comment_html"] for comment in self.plane.comments("KB-1"))

        return "plane_comment_task", {"task": "KB-1", "text": text}, there

    def _update(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        return "plane_update_task", {"task": "KB-2", "name": text}, lambda: self._named(text)

    def _send(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        asked = {"channel": CHANNEL, "topic": "merge", "text": text}
        return "zulip_send_message", asked, lambda: self.zulip.world.texts(CHANNEL, "merge").count(text)

    def _react(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        message = self.zulip.world.say("Iago", CHANNEL, "other", text)
        there = self.zulip.world.said[message].reactions
        return "zulip_react", {"message_id": message, "emoji": "eyes"}, lambda: len(there)

    def _edit(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        message = self.zulip.world.say(BOT, CHANNEL, "edits", f"{text} before")
        said = self.zulip.world.said[message]
        return "zulip_update", {"message_id": message, "text": text}, lambda: said.text == text

    def _resolve(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        said = self.zulip.world.said[self.zulip.world.say("Iago", CHANNEL, text, "an open question")]
        asked = {"channel": CHANNEL, "topic": text, "resolved": True}
        return "zulip_update", asked, lambda: said.topic == f"✔ {text}"

    def _hook(self, text: str) -> tuple[str, dict[str, Any], Callable[[], int]]:
        asked = {"target": "releases", "event": "killed", "text": text}
        return "webhook_send", asked, lambda: sum(f'"{text}"'.encode() in body for body in self.receiver.taken.values())

    async def sound(self) -> bool:
        """Return whether the audit chain holds."""
        async with open_state(self.settings) as state:
            return not verify(await state.ledger.records(limit=10_000), await state.ledger.chain_end())


@asynccontextmanager
async def world(home: Path, level: float) -> AsyncIterator[World]:
    """Yield both services, and a host of that level."""
    killer = Killer(random.Random(SEED))  # noqa: S311  seeded, not secret
    plane, zulip, receiver = seeded(), Zulip(), Receiver(SECRET)
    zulip.world.channel(CHANNEL, "Iago", BOT)
    killer.late = Late(plane), Late(zulip), Late(receiver)
    bot = zulip.world.user(BOT)
    async with AsyncExitStack() as stack:
        at: list[Served] = [await stack.enter_async_context(served(service, plan=killer)) for service in killer.late]
        services = {
            "plane_base_url": at[0].address,
            "plane_api_key": ADA.key,
            "plane_workspace": WORKSPACE,
            "zulip_site": at[1].address,
            "zulip_email": bot.email,
            "zulip_api_key": bot.key,
        }
        targets = (WebhookTarget("releases", at[2].address, (SECRET,)),)
        settings = Settings(kb=write(home / "kb"), state_dir=home / "state", webhooks=targets, **services)  # type: ignore[arg-type]  # texts
        settings = await let_in(settings, "writer", level)
        environment = {name.upper(): value for name, value in services.items()}
        environment["FORGE_WEBHOOKS"] = f"releases={at[2].address} {SECRET}"
        environment["FORGE_ENROLMENT"] = settings.enrolment or ""
        yield World(Site(home / "kb", home / "state", environment), settings, plane, zulip, receiver, killer)


# --- a host that acts without approval --------------------------------------------------------------------------------


async def ask_again(own: World, act: Act, host: SdkHost, heard: dict[str, Any] | None) -> None:
    """Ask again for what may have been done before the process died.

    It exists once, and the answer says so if that can be known.
    """
    answer = await host.call(act.tool, **act.asked)
    if heard is not None:
        assert answer["status"] == "unchanged", (act, heard, answer)
    allowed = ("done", "unchanged", "unsure") if act.may_be_unsure else ("done", "unchanged")
    assert answer["status"] in allowed, (act, answer)
    assert act.there() == (answer["status"] != "unsure"), (act, answer)
    own.found[f"{act.tool}, {act.stage}: {answer['status']}"] += 1


async def lives(own: World, kills: int, stages: tuple[str, ...] = ()) -> None:
    """Kill servers one after the other, and repeat the call with each next one."""
    last: tuple[Act, dict[str, Any] | None] | None = None
    for number in range(1, kills + 2):  # the first is a message
        async with over_stdio(own.site) as host:
            if last is not None:
                await ask_again(own, last[0], host, last[1])
            if number > kills:
                return
            act, heard = own.act(number, stages), None
            own.killer.aim(act.stage, host.pid, act.spared)
            with suppress(Gone):
                heard = await host.call(act.tool, **act.asked)
                assert act.stage == "answered", (act, heard)
            last = act, heard


@pytest.mark.parametrize(
    ("kills", "stages"),
    [(FEW, ("sent, acted",)), pytest.param(MANY, (), marks=pytest.mark.slow)],
)
async def test_wherever_a_server_dies_during_an_act_it_exists_once_when_repeated(
    kills: int, stages: tuple[str, ...], tmp_path: Path
) -> None:
    """A send whose reply was lost is looked up before anything is sent again."""
    # The answer to a reaction in Zulip names a topic, after which an act in Plane needs a level more.
    async with world(tmp_path, level=5) as own:
        await lives(own, kills, stages)
        print(f"\n{kills} kills: {dict(sorted(own.found.items()))}")  # noqa: T201 - the histogram, with -s
        assert sum(own.found.values()) == kills
        assert await own.sound()


# --- a host of level 2, and an approval -------------------------------------------------------------------------------


async def yes_and_die(own: World, act: Act, proposal: str) -> None:
    """Let a process approve and execute, and kill it at the stage."""
    command = [sys.executable, "-m", "tests.crash.approving", proposal]
    environment = {**own.site.environment, "PYTHONPATH": str(ROOT)}
    log = own.site.state_dir.parent / "approving.log"
    with log.open("a", encoding="utf-8") as errors:
        process = await anyio.open_process(command, stdin=None, stderr=errors, cwd=ROOT, env=environment)
        async with process:
            own.killer.aim(act.stage, process.pid, act.spared)
            with anyio.fail_after(60):
                code = await process.wait()
    own.killer.aim("", 0)
    assert code in (0, -signal.SIGKILL), log.read_text(encoding="utf-8")[-2000:]


async def seen_to(host: Writer, proposal: str) -> Proposal:
    """Return how the proposal ended, once another process has finished it."""
    services = host.app.services
    with anyio.fail_after(60):
        while True:
            found = await services.state.trust.proposal(proposal)
            assert found is not None
            if not found.underway:
                return found
            await anyio.sleep(LEASE_S)  # until the dead process's claim ends
            await host.app.approvals._executor.resume()


async def ends_well(own: World, act: Act, ended: Proposal) -> None:
    """Check that the approved act exists once, or that its true state is reported."""
    if ended.state == "failed":
        assert act.may_be_unsure, (act, ended.error)
        assert (ended.error or "").startswith((UNSURE, KNOWN)), ended.error
        assert act.there() == 0
    else:
        assert (ended.state, ended.error) == ("executed", None), act
        assert json.loads(ended.result or "")["status"] in ("done", "unchanged"), (act, ended.result)
        assert act.there() == 1, act
    own.found[f"{act.tool}, {act.stage}: {ended.state}"] += 1


@pytest.mark.parametrize(
    ("kills", "stages"),
    [(FEW, ("sent, acted",)), pytest.param(MANY, (), marks=pytest.mark.slow)],
)
async def test_wherever_a_process_dies_over_an_approved_act_it_is_there_once(
    kills: int, stages: tuple[str, ...], tmp_path: Path
) -> None:
    """Approved acts: executed once, or reported as unknown."""
    async with (
        world(tmp_path, level=2) as own,
        open_app(replace(own.settings), indexing=False, announcing=False) as app,
        Client(app.server) as client,
    ):
        host = Writer(client, app, own.settings.kb)
        for number in range(kills):
            act = own.act(number, tuple(stage for stage in (stages or ZULIP_STAGES) if stage != "planned"))
            answer = await host.call(act.tool, **act.asked)
            assert answer["status"] == "proposed", answer
            assert act.there() == 0
            await yes_and_die(own, act, answer["proposal"]["id"])
            await ends_well(own, act, await seen_to(host, answer["proposal"]["id"]))
        print(f"\n{kills} kills: {dict(sorted(own.found.items()))}")  # noqa: T201 - the histogram, with -s
        assert sum(own.found.values()) == kills
        assert await own.sound()
