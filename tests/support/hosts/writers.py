"""A client of the real server that a person allowed to write."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mcp import Client
from mcp_types import TextContent

from knowledge.state.ports import StateStore
from knowledge.trust.ports import Note
from mcp_server.app.composition import App
from mcp_server.app.knowledge_base import utc_now
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.review.review import open_review
from mcp_server.cli.trust.acts import enrol_host
from mcp_server.gate.host_registration import Principal, os_user
from mcp_server.gate.trust.scores import grant
from tests.support.roads.road import connect, opened


class Refused(Exception):
    """The tool answered with an error; the text is the message to the caller."""


@dataclass(frozen=True)
class Writer:
    """A connected host."""

    client: Client
    app: App
    root: Path

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        result = await self.client.call_tool(tool, dict(arguments))
        first = result.content[0]
        assert isinstance(first, TextContent)
        if result.is_error:
            raise Refused(first.text)
        assert result.structured_content == json.loads(first.text)
        return dict(result.structured_content or {})

    async def refused(self, tool: str, **arguments: object) -> str:
        """Return the call's error."""
        try:
            answer = await self.call(tool, **arguments)
        except Refused as error:
            return str(error)
        raise AssertionError(f"{tool} was not refused: {answer}")

    async def merge(self, path: str, content: str, **more: object) -> dict[str, Any]:
        return await self.call("kb_merge", path=path, content=content, **more)

    async def revision(self, path: str) -> str:
        return str((await self.call("kb_read", path=path))["revision"])

    def text(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()


async def let_in(settings: Settings, host: str = "writer", level: float = 5, *, forms: bool = False) -> Settings:
    """Return the settings of a host that a person registered and granted `level`; `forms`: its forms count."""
    async with open_review(settings) as review:
        secret = await enrol_host(review, host, forms=forms)
        await grant(review.state, Principal(os_user(), host).id, level, by="ann", now=utc_now())
    return replace(settings, enrolment=secret)


@asynccontextmanager
async def writing(
    settings: Settings, *, host: str = "writer", level: float = 5, mode: str = "auto"
) -> AsyncIterator[Writer]:
    """Connect as a host that may write."""
    allowed = await let_in(settings, host, level)
    async with opened(allowed) as app, connect(app, mode=mode) as client:
        yield Writer(client, app, settings.kb)


async def allow_forms(state: StateStore, host: str) -> None:
    """Let the host's forms count, as a person does who trusts it to show them."""
    note = Note("ann", "host.forms", host, utc_now())
    (digest,) = [one.secret_digest for one in await state.enrolments() if one.host == host]
    assert await state.trust.allow_forms(host, digest, allowed=True, note=note)
