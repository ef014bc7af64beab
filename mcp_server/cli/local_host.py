"""Calls tools in this process as a host would, or as the person at the terminal, through the gate like every caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowledge.errors import KnowledgeError
from mcp_server.app.settings.settings import Settings
from mcp_server.cli.app import acting, opened_app
from mcp_server.gate.caller import Call
from mcp_server.gate.dispatch import CallFailed, UnknownTool
from mcp_server.gate.host_registration import Principal
from mcp_server.gate.policy import Refuse

if TYPE_CHECKING:
    from mcp_server.app.composition import App


class NotDone(KnowledgeError):
    """The tool refused or failed; the message is the tool's own."""

    MOST_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class LocalHost:
    """Calls tools as the host whose secret is in FORGE_ENROLMENT, the person at the terminal, or an unregistered host."""

    app: App
    who: Principal

    async def call(self, tool: str, **given: Any) -> dict[str, Any]:
        """Return the tool's answer.

        Raises:
            NotDone: it answered with an error.
        """
        try:
            outcome = await self.app.gate.dispatch(tool, given, Call(self.who))
        except UnknownTool as error:
            raise NotDone(f"{error} (FORGE_TOOLSETS, FORGE_READ_ONLY)") from error
        if isinstance(outcome, CallFailed):
            raise NotDone(outcome.why)
        return outcome.content

    async def require(self, tool: str) -> None:
        """Check that this process's host may call the tool. Raises: NotDone: it may not, or the tool is not available here."""
        spec = self.app.gate.spec(tool)
        if spec is None:
            raise NotDone(f"the tool {tool} is not available (FORGE_TOOLSETS, FORGE_READ_ONLY)")
        decision = await self.app.gate.decide(tool, spec.needs, self.who)
        if isinstance(decision, Refuse):
            raise NotDone(decision.why)


@asynccontextmanager
async def local_host(settings: Settings) -> AsyncIterator[LocalHost]:
    """Yield a host that calls tools in this process."""
    async with opened_app(settings) as app:
        yield LocalHost(app, await acting(app.base.state, settings))
