"""Builds the connectors of Plane and Zulip. Loaded with the first call that needs one. Nothing is contacted here."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from mcp_server.app.settings.services import PlaneAccess, ServiceAccess, ZulipAccess
from mcp_server.connectors.errors import ConnectorError
from mcp_server.connectors.http import Sender, ServiceAddress, make_clients
from mcp_server.connectors.plane import wire as plane_wire
from mcp_server.connectors.plane.board import Board
from mcp_server.connectors.plane.client import PlaneClient
from mcp_server.connectors.ports import Connector
from mcp_server.connectors.zulip import wire as zulip_wire
from mcp_server.connectors.zulip.chat import Chat
from mcp_server.connectors.zulip.client import ZulipClient
from mcp_server.gate.caller import Clock

Sleep = Callable[[float], Awaitable[None]]


def connector(access: ServiceAccess, stack: AsyncExitStack, now: Clock, sleep: Sleep) -> Connector:
    """Return the connector of a service. `sleep` waits between tries; its connections are closed with `stack`."""
    match access:
        case PlaneAccess():
            return board(access, stack, now, sleep)
        case ZulipAccess():
            return chat(access, stack, now, sleep)


def board(access: PlaneAccess, stack: AsyncExitStack, now: Clock, sleep: Sleep) -> Board:
    """Return the projects and tasks of Plane."""
    address = ServiceAddress(
        plane_wire.SERVICE,
        access.base_url.rstrip("/"),
        plane_wire.ADDRESS_SETTING,
        plane_wire.headers_of(access.api_key),
        (access.api_key,),
        ca_setting="PLANE_CA",
    )
    client = PlaneClient(_sender(address, access.ca, stack, sleep), access.workspace)
    return Board(client, access, now=now, monotonic=time.monotonic)


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


def _sender(address: ServiceAddress, ca: Path | None, stack: AsyncExitStack, sleep: Sleep) -> Sender:
    try:
        clients = make_clients(ca)
    except OSError as error:
        problem = f"{address.ca_setting} names {ca}, which is not a readable file of certificates"
        raise ConnectorError(address.service, problem) from error
    stack.push_async_callback(clients.aclose)
    return Sender(address, clients.kept, fresh=clients.fresh, sleep=sleep, monotonic=time.monotonic)
