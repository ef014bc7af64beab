"""Streamable HTTP on loopback, for both protocol eras, with Host and Origin checked."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from mcp_server.server import ForgeServer
    from mcp_server.settings import HttpAddress

PATH = "/mcp"
_NAMES = ("127.0.0.1", "localhost", "[::1]")


def security() -> TransportSecuritySettings:
    """Return the checks that keep a web page in a browser from talking to a server on this machine (DNS rebinding)."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*_NAMES, *(f"{name}:*" for name in _NAMES)],
        allowed_origins=[f"http://{name}{port}" for name in _NAMES for port in ("", ":*")],
    )


def http_app(server: ForgeServer) -> Starlette:
    """Return the ASGI application that serves MCP at `/mcp`."""
    return server.streamable_http_app(streamable_http_path=PATH, transport_security=security())


async def serve_http(server: ForgeServer, address: HttpAddress) -> None:
    """Serve until SIGINT or SIGTERM; say on stderr where."""
    import uvicorn

    config = uvicorn.Config(
        http_app(server), host=address.host, port=address.port, log_level="warning", access_log=False, ws="none"
    )
    logging.getLogger("knowledge_forge").info("serving http://%s%s", address, PATH)
    await uvicorn.Server(config).serve()
