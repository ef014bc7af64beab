"""MCP Apps (`io.modelcontextprotocol/ui`): which tools have a card, for clients that show cards.

Source: https://github.com/modelcontextprotocol/ext-apps, specification 2026-01-26.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID, client_supports_apps
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.mcpserver.resources import TextResource
from mcp_types import CallToolRequestParams, CallToolResult

from knowledge.errors import KnowledgeError
from mcp_server.ports import ProtocolServices
from mcp_server.protocol.cards.documents import TITLES, document
from mcp_server.protocol.server import ForgeServer

logger = logging.getLogger("knowledge_forge")

PREFIX: Final = "ui://knowledge-forge/"
ABOUT: Final = "io.github.knowledge-forge/card"
"""The key in a result's `_meta` with what a card shows beyond the result: the site's address, and the phases of a journey."""
CARDS: Final[Mapping[str, str]] = {
    "kb_search": "hits",
    **dict.fromkeys(("kb_merge", "kb_move", "kb_delete", "kb_revert", "proposal_status"), "proposal"),
    **dict.fromkeys(("journey_start", "journey_submit", "journey_decide", "journey_status"), "journey"),
}
"""The kind of card for each tool's result."""


def address_of(kind: str) -> str:
    """Return the address of a kind of card."""
    return f"{PREFIX}{kind}.html"


def add_cards(server: ForgeServer) -> None:
    """Serve the cards by their addresses."""
    for kind, title in TITLES.items():
        server.add_resource(
            TextResource(
                uri=address_of(kind), name=f"card_{kind}", title=title, mime_type=APP_MIME_TYPE, text=document(kind)
            )
        )


class CardsExtension(Extension):
    """Adds to a result what its card needs. Clients that show no cards get the same answers as without it."""

    identifier = EXTENSION_ID

    def __init__(self, services: ProtocolServices) -> None:
        self._services = services

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: ServerRequestContext[Any, Any], call_next: CallNext
    ) -> HandlerResult:
        """Return the call's answer with what its card needs in `_meta`, which models don't read."""
        answer = await call_next(ctx)
        kind = CARDS.get(params.name)
        if kind is None or not isinstance(answer, CallToolResult) or answer.is_error or not client_supports_apps(ctx):
            return answer
        try:
            about: dict[str, Any] = {"site": await self._services.review_address()}
            if kind == "journey":
                about["phases"] = await self._phases(str((answer.structured_content or {}).get("journey_id") or ""))
        except KnowledgeError:
            logger.warning("cannot add to the card of %s now", params.name, exc_info=True)
            return answer
        return answer.model_copy(update={"meta": {**(answer.meta or {}), ABOUT: about}})

    async def _phases(self, journey: str) -> list[dict[str, Any]]:
        """Return the phases of a journey in the order of its agent, each with its visits and whether it is done."""
        if not journey:
            return []
        position = await self._services.journeys.position(journey)
        graph, state = position.agent.graph, position.state
        phases = [phase.name for phase in graph.phases if phase.name not in graph.complete]

        def status(name: str) -> str:
            if name == state.phase and not state.over:
                return "now"
            return "done" if state.phase_visits.get(name) else "open"

        return [{"name": name, "visits": state.phase_visits.get(name, 0), "state": status(name)} for name in phases]


async def with_cards(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer a request for a list: name each tool's card for clients that show cards, and list no cards for others. A middleware."""
    result = await call_next(ctx)
    if ctx.method not in ("tools/list", "resources/list") or not isinstance(result, dict):
        return result
    shows = client_supports_apps(ctx)
    if ctx.method == "tools/list" and shows:
        return {**result, "tools": [_with_card(tool) for tool in result["tools"]]}
    if ctx.method == "resources/list" and not shows:
        left = [one for one in result["resources"] if not str(one["uri"]).startswith(PREFIX)]
        return {**result, "resources": left}
    return result


def _with_card(tool: dict[str, Any]) -> dict[str, Any]:
    kind = CARDS.get(str(tool["name"]))
    if kind is None:
        return tool
    return {**tool, "_meta": {**(tool.get("_meta") or {}), "ui": {"resourceUri": address_of(kind)}}}
