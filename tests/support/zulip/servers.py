"""Where the tests' Zulip is: the double, at the samples' level and at a newer one, or a real server."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import pytest

from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.http import RequestLimits, Sender, ServiceAddress, make_clients
from mcp_server.connectors.request.wire import ServiceRequest
from mcp_server.connectors.zulip import wire
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.connectors.zulip.model import Channel, ChatPlace
from tests.doubles.serving import Served, served
from tests.doubles.zulip import Zulip
from tests.doubles.zulip_world import NEWER_LEVEL, RECORDED_LEVEL

BOT = "Zulip Default Bot"
CHANNEL = "kb-test"
DOUBLES = ("double-247", "double-newer")
ALL = (*DOUBLES, pytest.param("real", marks=pytest.mark.external))
"""A real server is named by FORGE_TEST_ZULIP_SITE, _EMAIL and _KEY (a bot); FORGE_TEST_ZULIP_CHANNEL is the channel to write to.

FORGE_TEST_ZULIP_HAMLET_EMAIL and _KEY, and those of IAGO, are two people's accounts in that channel, whatever they are called.
"""
PEOPLE = {"King Hamlet": "HAMLET", "Iago": "IAGO"}


@dataclass(frozen=True, slots=True)
class Ground:
    """A client on a server, a channel in which tests may write, and an unused topic."""

    client: ZulipClient
    channel: Channel
    topic: str
    site: str
    email: str
    key: str
    zulip: Zulip | None = None
    double: Served | None = None
    people: Mapping[str, ZulipClient] = field(default_factory=dict)


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
    async with AsyncExitStack() as stack:
        if kind == "real":
            site, email, key = (os.environ.get(f"FORGE_TEST_ZULIP_{name}", "") for name in ("SITE", "EMAIL", "KEY"))
            if not (site and email and key):
                pytest.skip("no Zulip server: FORGE_TEST_ZULIP_SITE, _EMAIL and _KEY are not set")
            site = site.rstrip("/")
            client = await stack.enter_async_context(client_at(site, email, key))
            wanted = os.environ.get("FORGE_TEST_ZULIP_CHANNEL", CHANNEL)
            found = [channel for channel in await client.channels() if channel.name == wanted]
            if not found:
                pytest.skip(f"FORGE_TEST_ZULIP_CHANNEL names no channel that the bot sees: {wanted}")
            people = {}
            for name, short in PEOPLE.items():
                one = [os.environ.get(f"FORGE_TEST_ZULIP_{short}_{what}", "") for what in ("EMAIL", "KEY")]
                if all(one):
                    people[name] = await stack.enter_async_context(client_at(site, *one))
            try:
                yield Ground(client, found[0], topic, site, email, key, people=people)
            finally:
                await _without_messages(ChatPlace(found[0]), topic, client, *people.values())
            return
        zulip = zulip_of(kind)
        double = await stack.enter_async_context(served(zulip))
        bot, *others = [zulip.world.user(name) for name in (BOT, *PEOPLE)]
        client, *clients = [
            await stack.enter_async_context(client_at(double.address, one.email, one.key)) for one in (bot, *others)
        ]
        room = zulip.world.room(CHANNEL)
        channel = Channel(room.id, room.name, room.record["description"], private=False)
        people = dict(zip(PEOPLE, clients, strict=True))
        yield Ground(client, channel, topic, double.address, bot.email, bot.key, zulip, double, people)


async def _without_messages(where: ChatPlace, topic: str, *authors: ZulipClient) -> None:
    """Delete what these accounts wrote in the test's topics, as far as the organisation lets them."""
    for author in authors:
        with suppress(ConnectorError):
            window = await author.messages(where, before=200, sender=await author.me())
            for message in window.messages:
                if topic in message.topic:
                    gone = ServiceRequest("DELETE", f"/api/v1/messages/{message.id}")
                    await author._sender.send(gone)


async def _at_once(_seconds: float) -> None:
    await anyio.lowlevel.checkpoint()
