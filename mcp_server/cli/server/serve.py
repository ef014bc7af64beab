"""`serve`: serve a knowledge base to MCP hosts."""

from __future__ import annotations

import argparse
import gc
import logging
import sys
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING

import anyio

from knowledge.cycles import look_for_cycles_rarely
from knowledge.errors import StorageError
from mcp_server.app.allocator import return_freed_memory
from mcp_server.app.settings.settings import Settings
from mcp_server.app.settings.several import endpoint_path, served_bases
from mcp_server.cli.terminal.output import say
from mcp_server.late_module import LateModule
from mcp_server.telemetry.log_lines import write_log
from mcp_server.telemetry.monitors import monitored, require_packages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp

    from mcp_server.app import composition
    from mcp_server.app.composition import App
    from mcp_server.app.settings.access import HttpAccess
    from mcp_server.transport import http, several, stdio, supervisor
    from mcp_server.transport.http import Parts
    from mcp_server.transport.shared_port import SharedPort
    from mcp_server.transport.sign_in import start
    from mcp_server.web.sign_in import beside_mcp
else:
    # --help and a mistyped option need not wait 0.6 s for the composition, and each way of serving needs only some of the others.
    # `prepare` comes before they are loaded: looking for cycles among 600 modules would take a tenth of the start.
    composition = LateModule("mcp_server.app.composition")
    http = LateModule("mcp_server.transport.http")
    several = LateModule("mcp_server.transport.several")
    stdio = LateModule("mcp_server.transport.stdio")
    supervisor = LateModule("mcp_server.transport.supervisor")
    start = LateModule("mcp_server.transport.sign_in.start")
    beside_mcp = LateModule("mcp_server.web.sign_in.beside_mcp")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this verb's arguments."""
    parser.add_argument("--http", metavar="HOST:PORT", help="serve Streamable HTTP instead of stdio")
    parser.add_argument(
        "--workers", "--http-workers", dest="http_workers", metavar="N", help="serve HTTP with N processes on one port"
    )
    parser.add_argument("--toolsets", metavar="A,B", help="list only these toolsets (trust is always listed)")
    parser.add_argument("--read-only", action="store_const", const="true", help="list only tools that read")


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Serve until the host disconnects."""
    prepare(settings)
    if settings.file is not None:
        logging.getLogger("knowledge_forge").info("settings from %s", settings.file)
    if settings.http is None and sys.stdin is not None and sys.stdin.isatty():
        say(
            f"serving {settings.kb} over stdio, as an MCP host starts it; nothing is to be typed here, and Ctrl-C stops it"
        )
    if settings.http is not None and settings.http_workers > 1:
        return supervisor.supervise(settings, settings.http)
    serve(settings)
    return 0


def prepare(settings: Settings) -> None:
    """Set up logging and memory of a process that serves.

    Raises:
        BadSetting: packages that the settings need are missing.
    """
    logging.getLogger("knowledge_forge").setLevel(logging.INFO)
    write_log(settings)
    require_packages(settings)
    look_for_cycles_rarely()
    return_freed_memory()


def serve(settings: Settings, port: SharedPort | None = None) -> None:
    """Serve until the host disconnects, or over HTTP until a signal.

    `port` is the port that several processes share; None if there is only one process.
    """
    anyio.run(_serve_several if settings.knowledge_bases else _serve, settings, port)


async def _serve(settings: Settings, port: SharedPort | None) -> None:
    async with composition.open_app(settings) as app, AsyncExitStack() as stack:
        server = app.server
        await stack.enter_async_context(monitored(settings, {"": (server, app.services)}))
        gc.freeze()  # modules loaded by now stay, so the collector need not look through them again
        if settings.http is not None:
            access, state = settings.http_access, app.base.state
            await start.require_sign_in(settings.http, access, state, app.services.now)
            served = await _with_sites(stack, http.http_app(server, access, _parts(app)), {"": (app, settings)}, access)
            await http.serve_app(served, settings.http, access, port=port)
            return
        # A wrong secret must not start a server, not even one for an unregistered host. If the state can't be read now,
        # it cannot be checked: calls are refused until it can.
        with suppress(StorageError):
            await app.callers.named(settings.enrolment)
        await stdio.serve_stdio(server)


async def _serve_several(settings: Settings, port: SharedPort | None) -> None:
    """Serve every knowledge base that the settings name at one address, each with its own state, trust, tokens and keys."""
    address, bases = served_bases(settings)
    async with AsyncExitStack() as stack:
        apps: dict[str, App] = {}
        for name, one in bases.items():
            for note in one.notes:
                logging.getLogger("knowledge_forge").info("%s: %s", name, note)
            app = apps[name] = await stack.enter_async_context(composition.open_app(one))
            await start.require_sign_in(address, one.http_access, app.base.state, app.services.now)
        monitors = {name: (app.server, app.services) for name, app in apps.items()}
        await stack.enter_async_context(monitored(settings, monitors))
        gc.freeze()
        parts = {name: _parts(app) for name, app in apps.items()}
        served = {name: http.http_app(app.server, bases[name].http_access, parts[name]) for name, app in apps.items()}
        paths = [endpoint_path(name) for name in bases]
        access = settings.http_access
        sites = {name: (app, bases[name]) for name, app in apps.items()}
        outer = await _with_sites(stack, several.several_app(served, parts), sites, access)
        await http.serve_app(outer, address, access, paths, port=port)


async def _with_sites(
    stack: AsyncExitStack, served: ASGIApp, bases: Mapping[str, tuple[App, Settings]], access: HttpAccess
) -> ASGIApp:
    """Return the application and, beside it, the sites at which people log in with a sign-in server.

    Raises:
        BadSetting: two sites have the same host name.
    """
    with_site = {name: one for name, (_, one) in bases.items() if one.site_access is not None}
    if not with_site:
        return served
    beside_mcp.require_different_hosts(with_site)
    sites: dict[str, ASGIApp] = {}
    for name, one in with_site.items():
        app, _ = bases[name]
        sites[beside_mcp.host_of(one)] = await stack.enter_async_context(
            beside_mcp.team_site(app.site_services, app.approvals, one)
        )
        logging.getLogger("knowledge_forge").info("the site is at %s", one.public_url)
    return beside_mcp.BesideMcp(served, sites, shared=(access.origin or "").partition("://")[2])


def _parts(app: App) -> Parts:
    """Return the parts that a process needs to serve this knowledge base, each with a cheap read that shows whether it works."""
    return {"state": app.base.state.last_event, "index": app.base.index.progress}
