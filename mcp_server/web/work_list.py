"""The page that lists journeys or runs: those that wait for a person first, then all, newest first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from starlette.responses import Response

from agents.loop.store.ports import RunLine
from agents.store.ports import JourneyLine
from mcp_server.web.page_context import PageRequest

PAGE = 30
MOST_WAITING = 50
"""Journeys or runs waiting for a person that a page lists."""

Lines = Sequence[JourneyLine] | Sequence[RunLine]


async def waiting_journeys(request: PageRequest) -> Sequence[JourneyLine]:
    """Return the journeys that wait for a person, newest first."""
    return await request.services.journeys.store.journeys(status="waiting", limit=MOST_WAITING)


async def asking_runs(request: PageRequest) -> Sequence[RunLine]:
    """Return the runs that ask a person, newest first."""
    return await request.page.runs.runs(state="asking", limit=MOST_WAITING)


async def show_list(
    request: PageRequest,
    what: Literal["journeys", "runs"],
    *,
    states: Mapping[Any, str],
    find: Callable[[str, int, str | None], Awaitable[Lines]],
) -> Response:
    """Show a page of the list. `states` are the titles of states by name.

    `find(state, limit, before)` returns the lines in that state ("" for any) that are older than the one with the id `before`.
    """
    state, before = request.query.get("state", ""), request.query.get("before")
    state = state if state in states else ""
    found = await find(state, PAGE + 1, before)
    waits: Lines = []
    if not state and before is None:
        waits = await (waiting_journeys if what == "journeys" else asking_runs)(request)
    shown, above = found[:PAGE], {line.id for line in waits}
    values = {
        "here": f"/{what}",
        "what": what,
        "states": states,
        "state": state,
        "waits": waits,
        "lines": [line for line in shown if line.id not in above],
        "older": {"state": state, "before": shown[-1].id} if len(found) > PAGE else None,
        "beginning": before is None,
    }
    return await request.show("work_list.html", values)
