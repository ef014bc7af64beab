"""Whether a host can ask a person: its client must show forms, and a person must have allowed forms there."""

from __future__ import annotations

import logging
from typing import Any

from mcp.server.context import ServerRequestContext

from knowledge.errors import StorageError
from knowledge.state.ports import StateStore
from mcp_server.gate.host_registration import Principal, forms_count

logger = logging.getLogger("knowledge_forge.gate")


def can_ask(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether the client shows forms."""
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities is not None else None
    # Clients older than the modes send an empty object and show forms.
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


async def may_ask(ctx: ServerRequestContext[Any, Any], who: Principal, state: StateStore) -> bool:
    """Return whether the client shows forms and an answer in one would count. A client could answer its own form."""
    try:
        return can_ask(ctx) and await forms_count(state, who)
    except StorageError:
        logger.warning(
            "cannot read whether forms in %s count as approval, so no form is shown there", who.id, exc_info=True
        )
        return False
