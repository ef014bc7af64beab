"""`serve`: the main job."""

from __future__ import annotations

import argparse
import gc
import logging
from contextlib import suppress

import anyio

from knowledge.errors import StorageError
from mcp_server.app.settings.settings import Settings

YOUNG = 50_000
"""Objects after which new ones are looked through for garbage in circles, which is hardly ever there.

Of Python's 700 a merge makes so many that a fifth of its time went to looking.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add what only this verb takes."""
    parser.add_argument("--http", metavar="HOST:PORT", help="serve Streamable HTTP on loopback instead of stdio")
    parser.add_argument("--toolsets", metavar="A,B", help="list only these toolsets (trust is always listed)")
    parser.add_argument("--read-only", action="store_const", const="true", help="list only tools that read")


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Serve until the host goes away."""
    logging.getLogger("knowledge_forge").setLevel(logging.INFO)
    if settings.file is not None:
        logging.getLogger("knowledge_forge").info("settings from %s", settings.file)
    gc.set_threshold(YOUNG)
    anyio.run(_serve, settings)
    return 0


async def _serve(settings: Settings) -> None:
    from mcp_server.app.composition import open_app

    async with open_app(settings) as app:
        gc.freeze()  # what was loaded stays, and is not looked through again
        if settings.http is not None:
            from mcp_server.transport.http import serve_http

            await serve_http(app.server, settings.http)
        else:
            from mcp_server.transport.stdio import serve_stdio

            with suppress(StorageError):  # nobody can tell now: calls are refused until somebody can
                await app.callers.named(
                    settings.enrolment
                )  # a wrong secret starts nothing, not even an unregistered host
            await serve_stdio(app.server)
