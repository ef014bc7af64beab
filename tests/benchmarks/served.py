"""A knowledge base behind the real server, called by an in-memory client: the exact text that a model would see."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp_types import TextContent

from knowledge.tokens import count_tokens
from mcp_server.app.composition import open_app
from mcp_server.app.settings.settings import Settings
from tests.benchmarks.processes import ROOT

STATES = ROOT / ".bench" / "states"
LOOK_S = 0.2
TIMES_COMPLETE = 6
"""How often in a row the index must be complete."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer: parsed, and its tokens for a model; an error's text is under `error`."""

    said: dict[str, Any]
    tokens: int


class Served:
    """Calls tools as a host would."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder

    async def call(self, tool: str, **arguments: object) -> Seen:
        """Return the answer of `tool`; the text is what counts, as not every host shows structured content."""
        result = await self.client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        said = {"error": text} if result.is_error else json.loads(text)
        return Seen(said, count_tokens(text))


@asynccontextmanager
async def served(folder: Path, state: Path | None = None) -> AsyncIterator[Served]:
    """Yield the server over `folder`, an absolute path, once everything is indexed.

    With `state` it is kept for later.
    """
    state = state or STATES / hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    async with open_app(Settings(kb=folder, state_dir=state)) as app, Client(app.server) as client:
        asker = Served(client, folder)
        complete = 0
        while complete < TIMES_COMPLETE:
            indexed = (await asker.call("kb_search", query="everything", limit=1)).said["indexed"]
            # An index of an older version looks complete until it is emptied, a moment after the start.
            complete = complete + 1 if indexed["done"] >= indexed["total"] > 0 else 0
            await anyio.sleep(LOOK_S)
        yield asker
