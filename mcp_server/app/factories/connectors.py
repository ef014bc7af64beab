"""Chooses the connectors that the settings configure. Nothing is contacted here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from mcp_server.absent import no_plane, no_zulip
from mcp_server.app.settings.settings import Settings
from mcp_server.gate.caller import Clock
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from mcp_server.app.factories import services
    from mcp_server.connectors.plane.board import Board
    from mcp_server.connectors.ports import Connector
    from mcp_server.connectors.zulip.chat import Chat
else:
    # A server without services does not load their clients.
    services = LateModule("mcp_server.app.factories.services")


@dataclass(frozen=True, slots=True)
class Connected:
    """The connectors, each built at its first use. Without its settings a connector raises `NotConfigured`."""

    plane: Callable[[], Board] = no_plane
    zulip: Callable[[], Chat] = no_zulip

    @property
    def services(self) -> Mapping[str, Callable[[], Connector]]:
        """The configured ones, by the name that their sources begin with (`plane:KB-12`)."""
        named: Mapping[str, Callable[[], Connector]] = {"plane": self.plane, "zulip": self.zulip}
        return {name: load for name, load in named.items() if load not in (no_plane, no_zulip)}


@asynccontextmanager
async def connecting(
    settings: Settings, now: Clock, sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[Connected]:
    """Yield the connectors that the settings configure, and close their connections afterwards. `sleep` waits between tries."""
    async with AsyncExitStack() as stack:
        plane, zulip = settings.plane, settings.zulip
        yield Connected(
            no_plane if plane is None else cache(lambda: services.board(plane, stack, now, sleep)),
            no_zulip if zulip is None else cache(lambda: services.chat(zulip, stack, now, sleep)),
        )
