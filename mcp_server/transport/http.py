"""Streamable HTTP, for both protocol eras, with Host and Origin checked."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import uvicorn
from anyio.abc import TaskStatus
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mcp_server.app.settings.access import THIS_MACHINE, HttpAccess
from mcp_server.app.settings.values import HttpAddress
from mcp_server.protocol.server import ForgeServer
from mcp_server.transport import http_limits
from mcp_server.transport.shared_port import BACKLOG, SharedPort, bound
from mcp_server.transport.sign_in import resource_metadata
from mcp_server.transport.sign_in.bearer import KnownTokens
from mcp_server.transport.sign_in.step_up import StepUp
from mcp_server.transport.signals import ending_signals

logger = logging.getLogger("knowledge_forge")

Parts = Mapping[str, Callable[[], Awaitable[object]]]
"""The parts that the server needs in order to serve, by name. Each has a cheap read that fails if the part is unavailable."""

PATH = "/mcp"
ENDING_S = 3
"""Time for open requests to finish when the server is stopped. A run, or a question to a person, may take an hour."""
CLOSING_S, LOOK_S = 6.0, 0.02
"""How long requests that are still open after `ENDING_S`, and are cut off, may take to record that; and the interval of checks."""
OPEN_PATHS = ("/health", "/ready")
"""Paths that need no token. They tell a load balancer whether this process runs, and whether it can serve."""
READY_S = 5.0
"""How long the state database and the index may take to answer before the process counts as not ready."""


def security(access: HttpAccess = THIS_MACHINE) -> TransportSecuritySettings:
    """Return the checks that keep a web page in a browser from talking to this server (DNS rebinding)."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=access.allowed_hosts(),
        allowed_origins=access.allowed_origins(),
    )


def http_app(
    server: ForgeServer, access: HttpAccess = THIS_MACHINE, parts: Parts | None = None, **more: Any
) -> Starlette:
    """Return the ASGI application that serves MCP at `/mcp`. `parts` are read to tell whether the process is ready.

    `more` goes to the manager of its sessions.
    """
    if server.named is None:
        raise TypeError("the server has no way to look up tokens")
    app = server.over_http(PATH, security(access), **more)
    app.router.routes.extend([Route("/health", health), Route("/ready", ready(parts or {}))])
    open_paths: tuple[str, ...] = OPEN_PATHS
    challenge: tuple[str, ...] = ()
    if access.issuers and access.url is not None:
        about = resource_metadata.about(access.url, access.issuers, access.scopes)
        app.router.routes.extend(about.routes)
        open_paths, challenge = (*open_paths, *about.paths), about.challenge
        app.add_middleware(StepUp, scopes=access.scopes, spec_of=server.spec_of, metadata=about.url)
    # Added last, so it comes first.
    required = access.url is not None
    app.add_middleware(
        KnownTokens,
        named=server.named,
        required=required,
        but=open_paths,
        challenge=challenge,
        most_open=access.most_open,
    )
    return app


async def health(_request: Request) -> Response:
    """Answer 200: the process runs."""
    return PlainTextResponse("ok", headers={"cache-control": "no-store"})


def ready(parts: Parts, *, naming: bool = True) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers 200 if every part can be read, otherwise 503.

    With `naming`, the answer names the parts and says whether each is available. The reasons are only in the log.
    """

    async def answer(_request: Request) -> Response:
        answers = {}
        for name, read in parts.items():
            try:
                with anyio.fail_after(READY_S):
                    await read()
                answers[name] = "ok"
            except Exception:  # databases and engines have errors of their own, and each means not ready
                logger.warning("not ready: the %s cannot be read", name, exc_info=True)
                answers[name] = "unavailable"
        found = all(one == "ok" for one in answers.values())
        said = {"ready": found, **(answers if naming else {})}
        return JSONResponse(said, 200 if found else 503, {"cache-control": "no-store"})

    return answer


def log_addresses(addresses: str) -> None:
    """Log where clients reach the server."""
    logger.info("serving %s", addresses)


async def serve_app(
    app: ASGIApp,
    address: HttpAddress,
    access: HttpAccess,
    paths: Sequence[str] = (PATH,),
    *,
    port: SharedPort | None = None,
) -> None:
    """Log the address of each path, and serve the application until a signal that ends programs.

    One of several processes is given the `port` that it shares with the others.
    """
    begun = port.begun if port else log_addresses
    with port.own if port else bound(address) as listening:
        # One of several processes listens only once it can serve; until then connections go to the others.
        listening.listen(BACKLOG)
        config = http_limits.bounded(
            app,
            http_limits.MCP,
            log_level="warning",
            timeout_graceful_shutdown=ENDING_S,
            ssl_certfile=access.certificate,
            ssl_keyfile=access.key,
        )
        running = uvicorn.Server(config)
        scheme = "https" if access.certificate else "http"
        where = f"{scheme}://{HttpAddress(address.host, listening.getsockname()[1])}"
        addresses = ", ".join(f"{where}{path}" for path in paths)
        if sys.platform == "win32":
            begun(addresses)
            await running.serve(sockets=[listening])
            return
        async with anyio.create_task_group() as tasks:
            await tasks.start(stop_on_signal, running)
            # A program that reads the address may send a signal at once, so signals are handled before it is told.
            begun(addresses)
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
