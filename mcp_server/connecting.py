"""The composition root's part for other services: Plane and Zulip, as the settings reach them. Nothing is contacted here."""

from __future__ import annotations

import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from knowledge.storage.ports import StateStore
from mcp_server.services import Clock, no_plane, no_zulip
from mcp_server.settings import PlaneAccess, Settings, ZulipAccess

if TYPE_CHECKING:
    import httpx

    from mcp_server.plane.board import Board
    from mcp_server.zulip.chat import Chat


@dataclass(frozen=True, slots=True)
class Connected:
    """The services that are configured, each built at its first use; calling one that is not raises `NotConfigured`."""

    plane: Callable[[], Board] = no_plane
    zulip: Callable[[], Chat] = no_zulip


@asynccontextmanager
async def connecting(settings: Settings, state: StateStore, now: Clock) -> AsyncIterator[Connected]:
    """Yield what reaches the services that `settings` name; connections are closed afterwards."""
    async with AsyncExitStack() as stack:

        def client(ca: Path | None) -> httpx.AsyncClient:
            made = _client(ca)
            stack.push_async_callback(made.aclose)
            return made

        plane, zulip = settings.plane, settings.zulip
        yield Connected(
            no_plane if plane is None else cache(lambda: _board(plane, client(plane.ca), state, now)),
            no_zulip if zulip is None else cache(lambda: _chat(zulip, client(zulip.ca), state, now)),
        )


def _client(ca: Path | None) -> httpx.AsyncClient:
    import httpx

    # What the environment says of proxies counts, as for every other program; what it says of passwords (netrc) does not.
    verify = ssl.create_default_context(cafile=str(ca)) if ca else True
    return httpx.AsyncClient(verify=verify, follow_redirects=False)


def _board(access: PlaneAccess, client: httpx.AsyncClient, state: StateStore, now: Clock) -> Board:
    raise NotImplementedError


def _chat(access: ZulipAccess, client: httpx.AsyncClient, state: StateStore, now: Clock) -> Chat:
    raise NotImplementedError


_ = (anyio, time)
