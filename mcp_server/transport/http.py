"""Streamable HTTP on loopback, for both protocol eras, with Host and Origin checked."""

from __future__ import annotations

import logging
import socket
import sys
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskStatus
from mcp.server.transport_security import TransportSecuritySettings

from mcp_server.app.settings.settings import BadSetting
from mcp_server.app.settings.values import HttpAddress
from mcp_server.transport.signals import ending_signals
from mcp_server.transport.tokens import KnownTokens

if TYPE_CHECKING:
    import uvicorn
    from starlette.applications import Starlette

    from mcp_server.protocol.server import ForgeServer

logger = logging.getLogger("knowledge_forge")

PATH = "/mcp"
BACKLOG = 2048
"""So many connections wait to be taken up, as uvicorn has it."""
ENDING_S = 3
"""So long requests that are under way have when the server is stopped. A run, or a question to a person, may take an hour."""
CLOSING_S, LOOK_S = 6.0, 0.02
"""So long what is cut off then may take to put on record that it was, as runs do, and how often it is looked whether it did."""
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
    if server.named is None:
        raise TypeError("nobody would know whose a token is")
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security())
    app.add_middleware(KnownTokens, named=server.named)
    return app


async def serve_http(server: ForgeServer, address: HttpAddress) -> None:
    """Serve until a signal that ends programs; say on stderr where."""
    import uvicorn

    from mcp_server.transport.http_limits import MCP, bounded

    with bound(address) as listening:
        config = bounded(http_app(server), MCP, log_level="warning", timeout_graceful_shutdown=ENDING_S)
        running = uvicorn.Server(config)
        said = f"serving http://{HttpAddress(address.host, listening.getsockname()[1])}{PATH}"
        if sys.platform == "win32":
            logger.info(said)
            await running.serve(sockets=[listening])
            return
        async with anyio.create_task_group() as tasks:
            await tasks.start(stop_on_signal, running)
            logger.info(said)
            # `serve` is this, and then has the signal end the process before anything is closed.
            await running._serve(sockets=[listening])  # noqa: SLF001 - as above
            with anyio.move_on_after(CLOSING_S):
                while running.server_state.tasks:  # noqa: ASYNC110 - uvicorn tells nobody
                    await anyio.sleep(LOOK_S)
            tasks.cancel_scope.cancel()


async def stop_on_signal(running: uvicorn.Server, *, task_status: TaskStatus[None]) -> None:
    """Let requests end for a moment; at a second signal for none."""
    with anyio.open_signal_receiver(*ending_signals()) as signals:
        task_status.started()
        async for _ in signals:
            # It would say a traceback for each request that is cut off.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            if running.should_exit:  # its own `force_exit` closes nothing, and leaves what is under way to itself
                for task in running.server_state.tasks:
                    task.cancel()
            running.should_exit = True


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
