"""A host whose server asks a language model, for tests: the model is a double, on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from mcp_server.app.composition import App
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.values import LanguageModelName
from tests.doubles.provider import KEY, Model
from tests.doubles.provider_turns import Script
from tests.doubles.serving import Served, served
from tests.support.hosts.writers import Writer, let_in
from tests.support.knowledge_bases.folders import write
from tests.support.roads.road import connect, opened


@dataclass(frozen=True)
class RunHost:
    """A connected host, and the model that its server asks."""

    writer: Writer
    model: Model
    served: Served
    settings: Settings

    @property
    def app(self) -> App:
        return self.writer.app

    def will(self, goal: str, *script: Script) -> None:
        """Set the model's answers, step by step, in runs whose goal contains these words."""
        self.model.will(goal, *script)

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        return await self.writer.call(tool, **arguments)

    async def refused(self, tool: str, **arguments: object) -> str:
        """Return the call's error."""
        return await self.writer.refused(tool, **arguments)


async def at_once(_seconds: float) -> None:
    """Wait for nothing."""
    await anyio.lowlevel.checkpoint()


def asking(settings: Settings, place: Served, vendor: str = "openai") -> Settings:
    """Return settings that name the model there."""
    if vendor == "anthropic":
        more: dict[str, Any] = {"anthropic_api_key": KEY, "anthropic_base_url": place.address}
    else:
        more = {"openai_api_key": KEY, "openai_base_url": f"{place.address}/v1"}
    return replace(settings, model=LanguageModelName(vendor, "some-model"), **more)


@asynccontextmanager
async def run_host(
    folder: Path, *, level: float = 3, vendor: str = "openai", mode: str = "auto", **more: Any
) -> AsyncIterator[RunHost]:
    """Yield a host of that level; `more` are settings."""
    settings = Settings(kb=write(folder / "kb"), state_dir=folder / "state", open_browser=False, **more)
    settings = await let_in(settings, "desktop", level, forms=True)
    model = Model()
    async with served(model) as place:
        settings = asking(settings, place, vendor)
        async with opened(settings, indexing=False, sleep=at_once) as app, connect(app, mode=mode) as client:
            yield RunHost(Writer(client, app, settings.kb), model, place, settings)
