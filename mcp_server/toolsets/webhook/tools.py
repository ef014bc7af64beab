"""The webhook toolset: report an event to a receiver that a person configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_server.gate.policy import Trust
from mcp_server.late_module import LateModule
from mcp_server.toolsets.spec import ToolSpec
from mcp_server.toolsets.webhook import SEND, TOOLSET

if TYPE_CHECKING:
    from mcp_server.toolsets.webhook import handlers, schemas
else:
    handlers = LateModule("mcp_server.toolsets.webhook.handlers")
    schemas = LateModule("mcp_server.toolsets.webhook.schemas")

TOOLS = (
    ToolSpec(
        name=SEND,
        title="Send a webhook",
        level=Trust.ROUTINE,
        toolset=TOOLSET,
        description=(
            "Sends an event to a receiver that a person configured, signed. "
            "If status is unsure, the same call sends it again under the same webhook_id, so that the receiver can drop a copy."
        ),
        arguments=schemas.SendWebhookArguments,
        result=schemas.WebhookSent,
        plan=handlers.plan_send,
        recalled=handlers.recall_send,
        open_world=True,
    ),
)
