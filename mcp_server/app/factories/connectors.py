"""Builds the connectors of the configured services. Loaded with the first call that needs one. Nothing is contacted here."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, nullcontext
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from mcp_server.app.settings.services import PlaneAccess, ServiceAccess, WebhookAccess, ZulipAccess
from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.http import Sender, ServiceAddress, make_clients
from mcp_server.connectors.plane import wire as plane_wire
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.ports import Connector
from mcp_server.connectors.request.allowance import Allowance, LeaseRecord
from mcp_server.connectors.webhook import wire as webhook_wire
from mcp_server.connectors.webhook.receivers import Receivers
from mcp_server.connectors.zulip import wire as zulip_wire
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.gate.caller import Clock

Sleep = Callable[[float], Awaitable[None]]
KEY_DIGITS = 12


def connector(access: ServiceAccess, stack: AsyncExitStack, leases: LeaseRecord, now: Clock, sleep: Sleep) -> Connector:
    """Return the connector of a service. `sleep` waits between tries; its connections are closed with `stack`.

    Processes that share `leases` share the requests that a key may send.
    """
    match access:
        case PlaneAccess():
            return board(access, stack, leases, now, sleep)
        case ZulipAccess():
            return chat(access, stack, now, sleep)
        case WebhookAccess():
            return receivers(access, stack, now, sleep)


def board(access: PlaneAccess, stack: AsyncExitStack, leases: LeaseRecord | None, now: Clock, sleep: Sleep) -> Board:
    """Return the projects and tasks of Plane. Without `leases` the requests are not counted."""
    address = ServiceAddress(
        plane_wire.SERVICE,
        access.base_url.rstrip("/"),
        plane_wire.ADDRESS_SETTING,
        plane_wire.headers_of(access.api_key),
        (access.api_key,),
        ca_setting="PLANE_CA",
    )
    # A hash: names of leases are shown to people, and the key must not be.
    key_name = hashlib.sha256(f"{address.address}\0{access.api_key}".encode()).hexdigest()[:KEY_DIGITS]
    allowance = (
        None
        if leases is None
        else Allowance(plane_wire.SERVICE, f"plane:{key_name}", leases, now=now, monotonic=time.monotonic)
    )
    client = PlaneClient(_sender(address, access.ca, stack, sleep, allowance), access.workspace)
    reading_much = nullcontext if allowance is None else allowance.reading_much
    return Board(client, access, now=now, monotonic=time.monotonic, reading_much=reading_much)


def chat(access: ZulipAccess, stack: AsyncExitStack, now: Clock, sleep: Sleep) -> Chat:
    """Return the channels and messages of Zulip."""
    address = ServiceAddress(
        zulip_wire.SERVICE,
        access.site.rstrip("/"),
        zulip_wire.ADDRESS_SETTING,
        zulip_wire.headers_of(access.email, access.api_key),
        zulip_wire.secrets_of(access.email, access.api_key),
        ca_setting="ZULIP_CERT_BUNDLE",
    )
    client = ZulipClient(_sender(address, access.ca, stack, sleep), monotonic=time.monotonic)
    return Chat(client, access, now=now, monotonic=time.monotonic, sleep=sleep)


def receivers(access: WebhookAccess, stack: AsyncExitStack, now: Clock, sleep: Sleep) -> Receivers:
    """Return the receivers of webhooks."""
    senders, paths = dict[str, Sender](), dict[str, str]()
    for target in access.targets:
        parts = urlsplit(target.url)
        # Paths and queries of receivers often hold a key, so an address in a message ends with the host, and a receiver that
        # redirects must not bring them back.
        paths[target.name] = urlunsplit(("", "", parts.path or "/", parts.query, ""))
        words = sorted(re.split(r"[/?&=]", paths[target.name]), key=len, reverse=True)
        address = ServiceAddress(
            f"the receiver {target.name}",
            f"{parts.scheme}://{parts.netloc}",
            webhook_wire.SETTING,
            {},
            (*target.secrets, *words),
            ca_setting="FORGE_WEBHOOK_CA",
        )
        senders[target.name] = _sender(address, access.ca, stack, sleep)
    return Receivers(access, senders, paths, now=now)


def _sender(
    address: ServiceAddress,
    ca: Path | None,
    stack: AsyncExitStack,
    sleep: Sleep,
    allowance: Allowance | None = None,
) -> Sender:
    try:
        clients = make_clients(ca)
    except OSError as error:
        problem = f"{address.ca_setting} names {ca}, which is not a readable file of certificates"
        raise ConnectorError(address.service, problem) from error
    stack.push_async_callback(clients.aclose)
    return Sender(
        address, clients.kept, fresh=clients.fresh, sleep=sleep, monotonic=time.monotonic, allowance=allowance
    )
