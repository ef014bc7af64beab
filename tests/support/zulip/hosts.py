"""A host that uses a Zulip for tests, through the real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from mcp_server.app.composition import App
from mcp_server.app.settings.settings import Settings
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import NEWER_LEVEL, RECORDED_LEVEL, World
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened

BOT = "Zulip Default Bot"
HAMLET = "King Hamlet"
LEVELS = (RECORDED_LEVEL, NEWER_LEVEL)
SOON_S = 60.0
"""Far more than any answer of the double takes."""
BEGUN = datetime(2026, 11, 20, 12, tzinfo=UTC).timestamp()


@dataclass
class Clock:
    """The time of the double, in seconds; it advances by a minute with each message."""

    at: float = BEGUN

    def __call__(self) -> float:
        return self.at


@dataclass(frozen=True)
class ZulipHost:
    """A connected host, and its Zulip: as it is served, and as it is inside."""

    writer: Writer
    served: Served
    zulip: Zulip
    clock: Clock
    settings: Settings

    @property
    def app(self) -> App:
        return self.writer.app

    @property
    def world(self) -> World:
        return self.zulip.world

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return await self.writer.call(tool, **arguments)

    async def refused(self, tool: str, **arguments: object) -> str:
        """Return the call's error."""
        return await self.writer.refused(tool, **arguments)

    def said(self, text: str, *, channel: str = "drawing", topic: str = "merge", by: str = HAMLET) -> int:
        """Let a user write a message, a minute after the previous one."""
        self.clock.at += 60
        return self.world.say(by, channel, topic, text)

    @property
    def sent(self) -> int:
        """Return how many messages arrived."""
        return self.served.count("POST", "/api/v1/messages")


async def until(holds: Callable[[], object]) -> None:
    """Return once it holds; the double runs in a thread of its own."""
    with anyio.fail_after(SOON_S):
        while not holds():  # noqa: ASYNC110 - it comes in another thread
            await anyio.sleep(0.01)


async def until_dropped(here: ZulipHost) -> None:
    """Return once no queue of events is left."""
    await until(lambda: not here.world.queues)


async def at_once(_seconds: float) -> None:
    """Wait for nothing."""
    await anyio.lowlevel.checkpoint()


def zulip_settings(home: Path, address: str, zulip: Zulip, **more: Any) -> Settings:
    """Return the settings of a knowledge base whose bot belongs to the Zulip at `address`."""
    kb = home / "kb" if (home / "kb").exists() else write(home / "kb", None)
    bot = zulip.world.user(BOT)
    told = {"zulip_site": address, "zulip_email": bot.email, "zulip_api_key": bot.key}
    return Settings(kb=kb, state_dir=home / "state", **{**told, **more})


def furnished(level: int, clock: Clock) -> Zulip:
    """Return an organisation with channels that the bot has joined, one that it can only see, and one that it can't."""
    zulip = Zulip(level, modern=level == NEWER_LEVEL, now=clock)
    world = zulip.world
    world.channel("drawing", HAMLET, BOT, description="How things look and work")
    world.channel("team", HAMLET, BOT, description="The team")
    world.channel("lobby", HAMLET, description="Open to all, and the bot is not in it")
    world.channel("secret", HAMLET, private=True)
    return zulip


@asynccontextmanager
async def chatting(
    home: Path, *, level: float = 4, host: str = "writer", feature_level: int = RECORDED_LEVEL, **more: Any
) -> AsyncIterator[ZulipHost]:
    """Connect a host of that level to a server with its own Zulip; nothing waits before a retry."""
    clock = Clock()
    zulip = furnished(feature_level, clock)
    async with served(zulip) as double:
        settings = await let_in(zulip_settings(home, double.address, zulip, **more), host, level)
        async with (
            opened(settings, sleep=at_once, indexing=False, announcing=False) as app,
            connect(app) as client,
        ):
            yield ZulipHost(Writer(client, app, settings.kb), double, zulip, clock, settings)


@asynccontextmanager
async def held(hosting: AbstractAsyncContextManager[ZulipHost]) -> AsyncIterator[ZulipHost]:
    """Keep a host connected in a separate task: pytest ends a fixture in another task than the one it began in."""
    connected: list[ZulipHost] = []
    ready, over = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        try:
            async with hosting as host:
                connected.append(host)
                ready.set()
                await over.wait()
        finally:
            ready.set()

    task = asyncio.create_task(hold())
    await ready.wait()
    if not connected:
        await task
    try:
        yield connected[0]
    finally:
        over.set()
        await task
