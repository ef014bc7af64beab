"""The pages of runs of `agent_run`: which there are, what one did and why, answering what it asks, and ending it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from agents.loop.record.run import Run, State
from agents.loop.store.ports import RunLine
from mcp_server.runs.interventions import cancel as cancelled
from mcp_server.runs.local import answer as answered
from mcp_server.web.access.sessions import Session
from mcp_server.web.page_context import Form, PageContext, see
from mcp_server.web.runs.views import address_of, run_line, run_view
from mcp_server.web.text.sanitize import sanitize_line

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


async def listed(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show runs, newest first; above all others those that ask a person."""
    now = page_context.services.now()
    asked, before = request.query_params.get("state", ""), request.query_params.get("before")
    state = STATES[asked][0] if asked in STATES else None
    found = await page_context.runs.runs(state=state, limit=PAGE + 1, before=before)
    on_top = await asking(page_context) if state is None and before is None else []
    shown, told = found[:PAGE], {line.id for line in on_top}
    older = {"state": asked, "before": shown[-1].id} if len(found) > PAGE else None
    return await page_context.show(
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


async def asking(page_context: PageContext) -> Sequence[RunLine]:
    """Return the runs that ask a person, those that were put on record last first."""
    return await page_context.runs.runs(state="asking", limit=MOST_WAITING)


async def one(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show one run: each step and why, and how it stands."""
    run, whole = await _run(page_context, request), request.query_params.get("whole") == "1"
    now = page_context.services.now()
    return await page_context.show(
        "run.html", session, lambda: {"here": "/runs", "view": run_view(run, now, whole=whole)}
    )


async def answering(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show what the run asks, with room for the answer."""
    run = await _run(page_context, request)
    if run.ask is None:
        return see(address_of(run.id))
    return await _asked(page_context, session, run)


async def answer(page_context: PageContext, request: Request, session: Session, form: Form) -> Response:
    """Record the person's answer to the question that they were shown. The run goes on here, or in a server that leads such runs."""
    run, text = await _run(page_context, request), form.get("answer", "").replace("\r\n", "\n").strip()
    if not text or len(text) > LONGEST_ANSWER:
        if run.ask is None:  # a form about nothing would answer whatever is asked next
            return see(address_of(run.id))
        return await _asked(page_context, session, run, TOO_LONG if text else NOTHING_SAID, typed=text)
    await answered(page_context.services, page_context.runs, run, text, session.user, ask=form.get("ask", ""))
    return see(address_of(run.id))


async def cancel(page_context: PageContext, request: Request, session: Session, _form: Form) -> Response:
    """End the run, and show how it ended."""
    run, services = await _run(page_context, request), page_context.services
    why = f"cancelled by {session.user} on the review page"
    await cancelled(services.state, page_context.runs, run.id, why, now=services.now)
    return see(address_of(run.id))


async def _run(page_context: PageContext, request: Request) -> Run:
    return await page_context.runs.run(str(request.path_params["id"]))


async def _asked(
    page_context: PageContext, session: Session, run: Run, problem: str = "", *, typed: str = ""
) -> Response:
    """Show the form; with a `problem`, what was typed stands in it again."""
    now = page_context.services.now()
    return await page_context.show(
        "run_answer.html",
        session,
        lambda: {
            "here": "/runs",
            "view": run_view(run, now),
            "problem": sanitize_line(problem),
            "longest": LONGEST_ANSWER,
            "typed": typed,
        },
        422 if problem else 200,
    )
