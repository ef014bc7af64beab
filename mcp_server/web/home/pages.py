"""The first page of the site."""

from __future__ import annotations

from starlette.responses import Response

from mcp_server.web.access.sessions import HOME
from mcp_server.web.page_context import PageRequest
from mcp_server.web.work_list import asking_runs, waiting_journeys

MOST_LISTED = 5
"""Proposals, journeys and runs that are listed, of each kind; the page of what waits has all."""


async def home(request: PageRequest) -> Response:
    """Show what needs the person."""
    now = request.now
    found = await request.trust.lines(states=("pending",), limit=MOST_LISTED)
    return await request.show(
        "home.html",
        {
            "here": HOME,
            "proposals": [proposal for proposal in found if proposal.expires_at > now],
            "journeys": (await waiting_journeys(request))[:MOST_LISTED],
            "runs": (await asking_runs(request))[:MOST_LISTED],
        },
    )
