"""Streamable HTTP on loopback, for both protocol eras, with Host and Origin checked."""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING

from mcp.server.transport_security import TransportSecuritySettings

from mcp_server.setting_values import HttpAddress
from mcp_server.settings import BadSetting

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from mcp_server.server import ForgeServer

PATH = "/mcp"
BACKLOG = 2048
"""So many connections wait to be taken up, as uvicorn has it."""
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

    with bound(address) as listening:
        config = uvicorn.Config(http_app(server), log_level="warning", access_log=False, ws="none")
        found = HttpAddress(address.host, listening.getsockname()[1])
        logging.getLogger("knowledge_forge").info("serving http://%s%s", found, PATH)
        await uvicorn.Server(config).serve(sockets=[listening])


def bound(address: HttpAddress) -> socket.socket:
    """Return a socket that listens at `address`; port 0 takes any free one.

    Raises:
        BadSetting: the port is taken or may not be used.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        # Whoever reads the address may connect at once, and a port that somebody else takes meanwhile is refused here.
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise BadSetting(
            "--http", str(address), f"cannot listen there: {error.strerror}; choose another port"
        ) from error
    return listening
