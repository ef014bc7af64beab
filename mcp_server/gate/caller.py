"""Who makes the request that is being answered, for what the SDK calls without saying."""

from __future__ import annotations

from contextvars import ContextVar

from mcp_server.gate.host_registration import Principal

caller: ContextVar[Principal | None] = ContextVar("caller", default=None)
