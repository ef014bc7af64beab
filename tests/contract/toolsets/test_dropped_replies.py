"""Replies that are lost after a service has acted: no duplicates, and no act that was done is reported as failed.

The real gate and an MCP client, with doubles on real sockets. `FORGE_TEST_DROPS` sets how many for each service. With
-s it prints how the calls were answered.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.doubles.serving import (
    Fault,
    Served,
    after,
    before,
    html,
    malformed,
    oversized,
    status,
    truncated,
)
from tests.support.plane.hosts import PlaneHost, working
from tests.support.zulip.hosts import LEVELS, ZulipHost, chatting

FEW, MANY = 15, max(250, int(os.environ.get("FORGE_TEST_DROPS", "250")))
HOW_OFTEN = [FEW, pytest.param(MANY, marks=pytest.mark.slow)]
SEED = 8
LOST: Sequence[Callable[[], Fault]] = (
    *(after,) * 6,
    lambda: status(500, body="{}", acts=True),
    lambda: status(502, body="<html>Bad gateway</html>", acts=True),
    truncated,
    malformed,
    html,
    lambda: oversized(9_000_000),
)
"""How a reply is lost after the service has acted: mostly the connection is cut."""
STUMBLES = 0.2
"""How often a question about the outcome fails too, once."""
OTHER_WRITES = ("/register", "/events")
"""Requests that change nothing visible."""
REPEATABLE = ("plane_update_task", "zulip_react")
"""Requests that are harmless if sent twice, and so may be."""


class Host(Protocol):
    """A connected host and the service that it uses."""

    @property
    def served(self) -> Served: ...
    async def call(self, tool: str, **arguments: object) -> dict[str, Any]: ...


@dataclass
class Dropped:
    """A service whose next reply to a change is lost."""

    served: Served
    chance: random.Random
    lost: int = 0
    sent: int = 0
    stumbles: int = 0
    spared: int = 0
    """How many changing requests succeed before the one whose reply is lost."""
    armed: bool = False

    def __call__(self, method: str, path: str, _number: int) -> Fault | None:
        if method != "GET" and not path.endswith(OTHER_WRITES):
            self.sent += 1
            if self.armed and self.sent > self.spared:
                self.armed, self.lost = False, self.lost + 1
                return self.chance.choice(LOST)()
        elif not self.armed and self.stumbles:
            self.stumbles -= 1
            return before()
        return None

    def arm(self, requests: int) -> None:
        """Lose the reply to one of the next changing requests, and now and then to one that asks about its outcome."""
        self.armed, self.sent, self.spared = True, 0, self.chance.randrange(requests)
        self.stumbles = int(self.chance.random() < STUMBLES)


@dataclass
class Tally:
    """The requested effect, the answer, and what exists."""

    host: Host
    dropped: Dropped
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    async def act(self, tool: str, there: Callable[[], int], *, things: int = 1, **asked: object) -> None:
        """Make a call whose reply is lost, and the same call again: `there` counts the `things` that it made."""
        self.dropped.arm(things)
        for turn, expected in (("first", "done"), ("again", "unchanged")):
            answer = await self.host.call(tool, **asked)
            self.answers[f"{tool} {turn}: {answer['status']}"] += 1
            if answer["status"] != expected:
                self.wrong.append(f"{tool} {turn}: {answer['status']} ({answer['note']})")
            if there() != things or (tool not in REPEATABLE and self.dropped.sent != things):
                self.wrong.append(f"{tool} {turn}: {there()} there, {self.dropped.sent} times sent")
        if self.dropped.armed:
            self.wrong.append(f"{tool}: nothing was sent, so no reply was lost")


def tally(host: Host) -> Tally:
    dropped = Dropped(host.served, random.Random(SEED))  # noqa: S311  seeded, not secret
    host.served.plan = dropped
    return Tally(host, dropped)


@pytest.mark.parametrize("times", HOW_OFTEN)
async def test_plane_has_each_task_comment_and_change_once_whatever_happens_to_the_reply(
    times: int, tmp_path: Path
) -> None:
    """500 replies dropped after the server acted: 0 duplicates, and 0 wrong "failed"."""
    async with working(tmp_path) as host:
        told = tally(host)
        for n in range(times):
            await PLANE[n % len(PLANE)](told, host, f"number {n}")
        print(f"\n{told.dropped.lost} replies lost: {dict(told.answers)}")  # noqa: T201 - the histogram, with -s
        assert told.wrong == []
        assert told.dropped.lost == times


async def _create(told: Tally, host: PlaneHost, name: str) -> None:
    def there() -> int:
        return sum(task["name"] == name for task in host.plane.tasks("KB"))

    await told.act("plane_create_task", there, project="KB", name=name, description=f"About *{name}*.")


async def _comment(told: Tally, host: PlaneHost, text: str) -> None:
    def there() -> int:
        return sum(text in comment["comment_html"] for comment in host.plane.comments("KB-1"))

    await told.act("plane_comment_task", there, task="KB-1", text=f"Seen as *{text}*.")


async def _update(told: Tally, host: PlaneHost, name: str) -> None:
    def there() -> int:
        return sum(task["name"] == name for task in host.plane.tasks("KB"))

    await told.act("plane_update_task", there, task="KB-2", name=name)


PLANE = (_create, _comment, _update)


@pytest.mark.parametrize("times", HOW_OFTEN)
async def test_zulip_has_each_message_and_reaction_once_whatever_happens_to_the_reply(
    times: int, tmp_path: Path
) -> None:
    """The same; half of them in a current Zulip."""
    for level in LEVELS:
        async with chatting(tmp_path / str(level), feature_level=level) as host:
            told = tally(host)
            half = times // 2 + (level == LEVELS[0]) * (times % 2)
            for n in range(half):
                await ZULIP[n % len(ZULIP)](told, host, f"number {n}")
            print(f"\n{told.dropped.lost} replies lost at level {level}: {dict(told.answers)}")  # noqa: T201 - the histogram, with -s
            assert told.wrong == []
            assert told.dropped.lost == half


async def _send(told: Tally, host: ZulipHost, text: str) -> None:
    def there() -> int:
        return host.world.texts("drawing", "merge").count(text)

    await told.act("zulip_send_message", there, channel="drawing", topic="merge", text=text)


async def _send_long(told: Tally, host: ZulipHost, text: str) -> None:
    parts = [f"{text}, part {n} {'x' * 8_000}" for n in range(3)]

    def there() -> int:
        return sum(one in parts for one in host.world.texts("drawing", "merge"))

    asked = {"channel": "drawing", "topic": "merge", "text": "\n\n".join(parts)}
    await told.act("zulip_send_message", there, things=len(parts), **asked)


async def _react(told: Tally, host: ZulipHost, text: str) -> None:
    message = host.said(text)

    def there() -> int:
        return len(host.world.said[message].reactions)

    await told.act("zulip_react", there, message_id=message, emoji="eyes")


ZULIP = (_send, _send_long, _react)
