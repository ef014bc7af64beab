"""The pages of runs of `agent_run`: which there are, what one did and why, answering what it asks, and ending it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from agents.loop.record.run import Run, State
from agents.loop.store.ports import RunLine
from mcp_server.web.access.sessions import Session
from mcp_server.web.page_context import Form, House, see
from mcp_server.web.runs.views import address_of, run_line, run_view
from mcp_server.web.text.sanitize import inert_line

PAGE = 30
MOST_WAITING = 50
"""Runs that ask a person, of which a page names each."""
STATES: Mapping[str, tuple[State, str]] = {
    "asking": ("asking", "Asking"),
    "proposed": ("suspended", "Proposed"),
    "running": ("running", "Running"),
    "done": ("done", "Done"),
    "failed": ("failed", "Failed"),
    "cancelled": ("cancelled", "Cancelled"),
}
LONGEST_ANSWER = 8_000
NOTHING_SAID = "the answer is empty; “I don't know” is a valid answer"
TOO_LONG = f"the answer is longer than {LONGEST_ANSWER:,} characters"


async def listed(house: House, request: Request, session: Session) -> Response:
    """Show runs, newest first; above all others those that ask a person."""
    now = house.services.now()
    asked, before = request.query_params.get("state", ""), request.query_params.get("before")
    state = STATES[asked][0] if asked in STATES else None
    found = await house.runs.runs(state=state, limit=PAGE + 1, before=before)
    on_top = await asking(house) if state is None and before is None else []
    shown, told = found[:PAGE], {line.id for line in on_top}
    older = {"state": asked, "before": shown[-1].id} if len(found) > PAGE else None
    return await house.show(
        "runs.html",
        session,
        lambda: {
            "here": "/runs",
            "states": {name: title for name, (_, title) in STATES.items()},
            "state": asked if state else "",
            "waits": [run_line(line, now) for line in on_top],
            "lines": [run_line(line, now) for line in shown if line.id not in told],
            "older": older,
            "beginning": before is None,
        },
    )


async def asking(house: House) -> Sequence[RunLine]:
    """Return the runs that ask a person, those that were put on record last first."""
    return await house.runs.runs(state="asking", limit=MOST_WAITING)


async def one(house: House, request: Request, session: Session) -> Response:
    """Show one run: each step and why, and how it stands."""
    run, whole = await _run(house, request), request.query_params.get("whole") == "1"
    now = house.services.now()
    return await house.show("run.html", session, lambda: {"here": "/runs", "view": run_view(run, now, whole=whole)})


async def answering(house: House, request: Request, session: Session) -> Response:
    """Show what the run asks, with room for the answer."""
    run = await _run(house, request)
    if run.ask is None:
        return see(address_of(run.id))
    return await _asked(house, session, run)


async def answer(house: House, request: Request, session: Session, form: Form) -> Response:
    """Record the person's answer to the question that they were shown. The run goes on here, or in a server that leads such runs."""
    run, text = await _run(house, request), form.get("answer", "").replace("\r\n", "\n").strip()
    if not text or len(text) > LONGEST_ANSWER:
        if run.ask is None:  # a form about nothing would answer whatever is asked next
            return see(address_of(run.id))
        return await _asked(house, session, run, TOO_LONG if text else NOTHING_SAID, typed=text)
    from mcp_server.runs.interventions import answer as answered

    await answered(house.services, house.runs, run, text, session.user, ask=form.get("ask", ""))
    return see(address_of(run.id))


async def cancel(house: House, request: Request, session: Session, _form: Form) -> Response:
    """End the run, and show how it ended."""
    from mcp_server.runs.interventions import cancel as cancelled

    run, services = await _run(house, request), house.services
    why = f"cancelled by {session.user} on the review page"
    await cancelled(services.state, house.runs, run.id, why, now=services.now)
    return see(address_of(run.id))


async def _run(house: House, request: Request) -> Run:
    return await house.runs.run(str(request.path_params["id"]))


async def _asked(house: House, session: Session, run: Run, problem: str = "", *, typed: str = "") -> Response:
    """Show the form; with a `problem`, what was typed stands in it again."""
    now = house.services.now()
    return await house.show(
        "run_answer.html",
        session,
        lambda: {
            "here": "/runs",
            "view": run_view(run, now),
            "problem": inert_line(problem),
            "longest": LONGEST_ANSWER,
            "typed": typed,
        },
        422 if problem else 200,
    )
