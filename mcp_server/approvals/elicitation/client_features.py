"""Decides whether a person is asked in the host, from the client's declared features and what a person allowed this host."""

from __future__ import annotations

import logging
from typing import Any

from mcp.server.context import ServerRequestContext

from knowledge.errors import StorageError
from knowledge.state.ports import StateStore
from mcp_server.gate.host_registration import Principal, forms_count

logger = logging.getLogger("knowledge_forge.gate")


def can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client shows forms. One that names no mode shows them."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def may_ask(ctx: ServerRequestContext[Any, Any], who: Principal, state: StateStore) -> bool:
    """Return whether a person is asked in the host: the client shows forms, and an answer there would count.

    Elsewhere the call is answered as that of a client that shows none: a client could answer its own form.
    """
    try:
        return can_ask(ctx) and await forms_count(state, who)
    except StorageError:
        logger.warning("it is not known now whether forms of %s count, so none is shown there", who.id, exc_info=True)
        return False
