"""The composition root's part for other services: Plane and Zulip, as the settings reach them. Nothing is contacted here."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_server.absent import no_plane, no_zulip
from mcp_server.app.settings.access import PlaneAccess, ZulipAccess
from mcp_server.app.settings.settings import Settings
from mcp_server.connectors.errors import ConnectorError
from mcp_server.gate.caller import Clock

if TYPE_CHECKING:
    from mcp_server.connectors.http import Sender, ServiceAddress
    from mcp_server.connectors.plane.board import Board
    from mcp_server.connectors.ports import Connector
    from mcp_server.connectors.zulip.chat import Chat


@dataclass(frozen=True, slots=True)
class Connected:
    """The services, each built at its first use; calling one that is not configured raises `NotConfigured`."""

    plane: Callable[[], Board] = no_plane
    zulip: Callable[[], Chat] = no_zulip

    @property
    def services(self) -> Mapping[str, Callable[[], Connector]]:
        """Return the configured ones, by the name that their sources begin with (`plane:KB-12`)."""
        named: Mapping[str, Callable[[], Connector]] = {"plane": self.plane, "zulip": self.zulip}
        return {name: load for name, load in named.items() if load not in (no_plane, no_zulip)}


Senders = Callable[["ServiceAddress", Path | None], "Sender"]
"""Makes what sends requests to a service; the file holds the certificate authority to trust, None: those of the system."""


@asynccontextmanager
async def connecting(
    settings: Settings, now: Clock, sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[Connected]:
    """Yield what reaches the configured services; connections are closed afterwards. `sleep` waits between tries."""
    async with AsyncExitStack() as stack:

        def sender(place: ServiceAddress, ca: Path | None) -> Sender:
            from mcp_server.connectors.http import Sender, make_clients

            try:
                clients = make_clients(ca)
            except OSError as error:
                told = f"{place.ca_setting} names {ca}, which is no file of certificates that can be read"
                raise ConnectorError(place.service, told) from error
            stack.push_async_callback(clients.aclose)
            return Sender(place, clients.kept, fresh=clients.fresh, sleep=sleep, monotonic=time.monotonic)

        plane, zulip = settings.plane, settings.zulip
        yield Connected(
            no_plane if plane is None else cache(lambda: _board(plane, sender, now)),
            no_zulip if zulip is None else cache(lambda: _chat(zulip, sender, now, sleep)),
        )


def _board(access: PlaneAccess, sender: Senders, now: Clock) -> Board:
    from mcp_server.connectors.http import ServiceAddress
    from mcp_server.connectors.plane import wire
    from mcp_server.connectors.plane.board import Board
    from mcp_server.connectors.plane.client import PlaneClient

    place = ServiceAddress(
        wire.SERVICE,
        access.base_url.rstrip("/"),
        wire.ADDRESS_SETTING,
        wire.headers_of(access.api_key),
        (access.api_key,),
        ca_setting="PLANE_CA",
    )
    client = PlaneClient(sender(place, access.ca), access.workspace)
    return Board(client, access, now=now, monotonic=time.monotonic)


def _chat(access: ZulipAccess, sender: Senders, now: Clock, sleep: Callable[[float], Awaitable[None]]) -> Chat:
    from mcp_server.connectors.http import ServiceAddress
    from mcp_server.connectors.zulip import wire
    from mcp_server.connectors.zulip.chat import Chat
    from mcp_server.connectors.zulip.client import ZulipClient

    place = ServiceAddress(
        wire.SERVICE,
        access.site.rstrip("/"),
        wire.ADDRESS_SETTING,
        wire.headers_of(access.email, access.api_key),
        wire.secrets_of(access.email, access.api_key),
        ca_setting="ZULIP_CERT_BUNDLE",
    )
    client = ZulipClient(sender(place, access.ca), monotonic=time.monotonic)
    return Chat(client, access, now=now, monotonic=time.monotonic, sleep=sleep)
