"""Where the tests' Zulip is: the double, at the samples' level and at a newer one, or a real server."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import pytest

from mcp_server.connectors.http import RequestLimits, Sender, ServiceAddress, make_clients
from mcp_server.connectors.zulip import wire
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import Channel
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import NEWER_LEVEL, RECORDED_LEVEL

BOT = "Zulip Default Bot"
CHANNEL = "kb-test"
DOUBLES = ("double-247", "double-newer")
ALL = (*DOUBLES, pytest.param("real", marks=pytest.mark.external))
"""A real server is named by FORGE_TEST_ZULIP_SITE, _EMAIL and _KEY; FORGE_TEST_ZULIP_CHANNEL is the channel to write to."""


@dataclass(frozen=True, slots=True)
class Ground:
    """A client on a server, a channel in which tests may write, and an unused topic."""

    client: ZulipClient
    channel: Channel
    topic: str
    site: str
    zulip: Zulip | None = None
    double: Served | None = None


def zulip_of(kind: str, *, heartbeat_s: float = 45.0) -> Zulip:
    """Return the double of that kind, with a channel that its bot has joined and a private one that it hasn't."""
    newer = kind == "double-newer"
    zulip = Zulip(NEWER_LEVEL if newer else RECORDED_LEVEL, modern=newer, heartbeat_s=heartbeat_s)
    zulip.world.channel(CHANNEL, "Iago", BOT, description="Знания")
    zulip.world.channel("secret-kb", "Iago", private=True)
    return zulip


@asynccontextmanager
async def client_at(
    address: str, email: str, key: str, *, bounds: RequestLimits | None = None
) -> AsyncIterator[ZulipClient]:
    """Yield a client with that user's key; it doesn't wait between tries."""
    place = ServiceAddress(
        wire.SERVICE, address, wire.ADDRESS_SETTING, wire.headers_of(email, key), wire.secrets_of(email, key)
    )
    clients = make_clients(None)
    try:
        sender = Sender(
            place, clients.kept, fresh=clients.fresh, sleep=_at_once, monotonic=time.monotonic, bounds=bounds
        )
        yield ZulipClient(sender, monotonic=time.monotonic)
    finally:
        await clients.aclose()


@asynccontextmanager
async def ground(kind: str) -> AsyncIterator[Ground]:
    """Yield where to test: `double-247`, `double-newer` or `real`."""
    topic = f"test {secrets.token_hex(6)}"
    if kind == "real":
        site, email, key = (os.environ.get(f"FORGE_TEST_ZULIP_{name}") for name in ("SITE", "EMAIL", "KEY"))
        if not (site and email and key):
            pytest.skip("no Zulip server: FORGE_TEST_ZULIP_SITE, _EMAIL and _KEY are not set")
        wanted = os.environ.get("FORGE_TEST_ZULIP_CHANNEL", CHANNEL)
        async with client_at(site.rstrip("/"), email, key) as client:
            found = [channel for channel in await client.channels() if channel.name == wanted]
            if not found:
                pytest.skip(f"FORGE_TEST_ZULIP_CHANNEL names no channel that the bot sees: {wanted}")
            yield Ground(client, found[0], topic, site.rstrip("/"))
        return
    zulip = zulip_of(kind)
    bot = zulip.world.user(BOT)
    async with served(zulip) as double, client_at(double.address, bot.email, bot.key) as client:
        room = zulip.world.room(CHANNEL)
        channel = Channel(room.id, room.name, room.record["description"], private=False)
        yield Ground(client, channel, topic, double.address, zulip, double)


async def _at_once(_seconds: float) -> None:
    await anyio.lowlevel.checkpoint()
