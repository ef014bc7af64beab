"""The page that a person sees while the state is replaced or moved. It loads itself again until the site is back."""

from __future__ import annotations

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from mcp_server.web.access.guard import Guard
from mcp_server.web.page_context import FOLDER
from mcp_server.web.whole_state.handover import Handover

HOLD_S = 3.0
"""How long a request waits for the end of the change: most changes take less, and then nobody sees this page."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="1">
<title>The state is being changed</title>
<link rel="stylesheet" href="/static/review.css">
</head>
<body>
<main>
<h1>The state is being changed</h1>
<p role="status">{progress}</p>
<p class="lead">The site is closed meanwhile, because nothing may use the state.
This page shows the result by itself; leave it open.</p>
</main>
</body>
</html>
"""


def waiting_page(handover: Handover) -> Response:
    """Return the page, which is the same for everybody and has nothing private in it."""
    return HTMLResponse(_PAGE.format(progress=handover.progress or "The site has closed the state."), 503)


def waiting_app(handover: Handover, done: anyio.Event, port: int, public_url: str | None) -> ASGIApp:
    """Return an application that answers every request with this page: after `HOLD_S`, or earlier if `done` is set."""

    async def answer(_request: Request) -> Response:
        with anyio.move_on_after(HOLD_S):
            await done.wait()
        return waiting_page(handover)

    async def style(_request: Request) -> Response:
        return FileResponse(FOLDER / "static" / "review.css", media_type="text/css")

    routes = [Route("/static/review.css", style), Route("/{path:path}", answer)]
    return Guard(Starlette(routes=routes), port, public_url)
