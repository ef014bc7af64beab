"""A host that uses a Plane for tests, through the real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from mcp_server.app.composition import App, open_app
from mcp_server.app.settings.settings import Settings
from tests.doubles.plane import ADA, WORKSPACE, Plane, plane_served
from tests.doubles.serving import Fault, Plan, Served, before
from tests.support.hosts.reviewers import Reviewer
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened


@dataclass(frozen=True)
class PlaneHost:
    """A connected host, and its Plane: as it is served, and as it is inside."""

    writer: Writer
    served: Served
    plane: Plane
    settings: Settings

    @property
    def app(self) -> App:
        return self.writer.app

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return await self.writer.call(tool, **arguments)

    async def refused(self, tool: str, **arguments: object) -> str:
        """Return the call's error."""
        return await self.writer.refused(tool, **arguments)

    @property
    def written(self) -> int:
        """Return how many changing requests arrived."""
        return sum(seen.method != "GET" for seen in self.served.seen)


async def at_once(_seconds: float) -> None:
    """Wait for nothing."""
    await anyio.lowlevel.checkpoint()


def plane_settings(home: Path, address: str, **more: Any) -> Settings:
    """Return the settings of a knowledge base that uses the Plane at `address`."""
    kb = home / "kb" if (home / "kb").exists() else write(home / "kb", None)
    told = {"plane_base_url": address, "plane_api_key": ADA.key, "plane_workspace": WORKSPACE}
    return Settings(kb=kb, state_dir=home / "state", **{**told, **more})


@asynccontextmanager
async def reviewing(settings: Settings) -> AsyncIterator[Reviewer]:
    """Open approvals in a separate server, which doesn't wait between tries either."""
    async with open_app(settings, sleep=at_once, indexing=False) as app:
        yield Reviewer(app)


@asynccontextmanager
async def working(home: Path, *, level: float = 4, host: str = "writer", **more: Any) -> AsyncIterator[PlaneHost]:
    """Connect a host of that level to a server with its own Plane; nothing waits before a retry."""
    async with plane_served() as (served, plane):
        settings = await let_in(plane_settings(home, served.address, **more), host, level)
        async with (
            opened(settings, sleep=at_once, indexing=False, announcing=False) as app,
            connect(app) as client,
        ):
            yield PlaneHost(Writer(client, app, settings.kb), served, plane, settings)


def named(plane: Plane, name: str) -> list[dict[str, Any]]:
    """Return the tasks of that name in KB."""
    return [task for task in plane.tasks("KB") if task["name"] == name]


def silent_from(method: str, path_ends: str, lost: Fault) -> Plan:
    """Return a plan that loses the first such request and cuts every other one from then on."""
    begun: list[str] = []

    def plan(asked: str, path: str, _number: int) -> Fault | None:
        if not begun and asked == method and path.endswith(path_ends):
            begun.append(path)
            return lost
        return before() if begun else None

    return plan
