"""Streamable HTTP on loopback, for both protocol eras, with Host and Origin checked."""

from __future__ import annotations

import logging
import socket
import sys

import anyio
import uvicorn
from anyio.abc import TaskStatus
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette

from mcp_server.app.settings.loader import BadSetting
from mcp_server.app.settings.values import HttpAddress
from mcp_server.protocol.server import ForgeServer
from mcp_server.transport import http_limits
from mcp_server.transport.signals import ending_signals
from mcp_server.transport.tokens import KnownTokens

logger = logging.getLogger("knowledge_forge")

PATH = "/mcp"
BACKLOG = 2048
"""Connections that may wait to be accepted; uvicorn's own default."""
ENDING_S = 3
"""Time for open requests to finish when the server is stopped. A run, or a question to a person, may take an hour."""
CLOSING_S, LOOK_S = 6.0, 0.02
"""Time for requests that are cut off after that to record it, as runs do, and the interval between checks."""
_NAMES = ("127.0.0.1", "localhost", "[::1]")


def security() -> TransportSecuritySettings:
    """Return the checks that keep a web page in a browser from talking to this server (DNS rebinding)."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*_NAMES, *(f"{name}:*" for name in _NAMES)],
        allowed_origins=[f"http://{name}{port}" for name in _NAMES for port in ("", ":*")],
    )


def http_app(server: ForgeServer) -> Starlette:
    """Return the ASGI application that serves MCP at `/mcp`."""
    if server.named is None:
        raise TypeError("the server has no way to look up tokens")
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=security())
    app.add_middleware(KnownTokens, named=server.named)
    return app


async def serve_http(server: ForgeServer, address: HttpAddress) -> None:
    """Log the address and serve until a signal that ends programs."""
    with bound(address) as listening:
        config = http_limits.bounded(
            http_app(server), http_limits.MCP, log_level="warning", timeout_graceful_shutdown=ENDING_S
        )
        running = uvicorn.Server(config)
        where = f"http://{HttpAddress(address.host, listening.getsockname()[1])}{PATH}"
        if sys.platform == "win32":
            logger.info("serving %s", where)
            await running.serve(sockets=[listening])
            return
        async with anyio.create_task_group() as tasks:
            await tasks.start(stop_on_signal, running)
            # A program that reads the address may send a signal at once, so signals are handled before it is logged.
            logger.info("serving %s", where)
            # `serve` would raise the signal again after this, and that would end the process before anything is closed.
            await running._serve(sockets=[listening])  # noqa: SLF001 - as above
            with anyio.move_on_after(CLOSING_S):
                while running.server_state.tasks:  # noqa: ASYNC110 - uvicorn has no event for it
                    await anyio.sleep(LOOK_S)
            tasks.cancel_scope.cancel()


async def stop_on_signal(running: uvicorn.Server, *, task_status: TaskStatus[None]) -> None:
    """Give open requests a moment to finish; on a second signal, cancel them at once."""
    with anyio.open_signal_receiver(*ending_signals()) as signals:
        task_status.started()
        async for _ in signals:
            # uvicorn would log a traceback for each request that is cut off.
            logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
            if running.should_exit:  # uvicorn's `force_exit` closes nothing and leaves the requests running
                for task in running.server_state.tasks:
                    task.cancel()
            running.should_exit = True


def bound(address: HttpAddress) -> socket.socket:
    """Return a socket that listens at `address`; port 0 takes any free port.

    Raises:
        BadSetting: the port is in use or not permitted.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family)
    try:
        # A restarted server can bind the port while connections of the old one are in TIME_WAIT.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        # Listen before the address is logged, because clients may connect at once; and so two servers never share the port.
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise BadSetting(
            "--http", str(address), f"cannot listen there: {error.strerror}; choose another port"
        ) from error
    return listening
