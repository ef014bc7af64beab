"""What a request says its client can do."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext


def can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client shows forms. One that names no mode shows them."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
