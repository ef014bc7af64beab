"""The pages of runs of `agent_run`: a list, one run with its steps, the form for its question, and cancelling it."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import anyio.to_thread
from starlette.responses import Response

from agents.loop.record.run import Run
from agents.loop.store.ports import RunLine
from mcp_server.presenters.run import STATES, present, present_step
from mcp_server.runs.interventions import cancel as cancelled
from mcp_server.runs.local import answer as answered
from mcp_server.web.journeys.work_views import work_html
from mcp_server.web.page_context import Form, PageRequest, see
from mcp_server.web.text.values import ANY_LENGTH, LONG_TEXT
from mcp_server.web.work_list import show_list

LONGEST_ANSWER = 8_000
NOTHING_SAID = "the answer is empty; “I don't know” is a valid answer"
TOO_LONG = f"the answer is longer than {LONGEST_ANSWER:,} characters"


async def listed(request: PageRequest) -> Response:
    """Show runs, newest first; those that ask a person come before all others."""

    async def find(status: str, limit: int, before: str | None) -> Sequence[RunLine]:
        state = next((state for known, state in STATES.items() if known == status), None)
        return await request.page.runs.runs(state=state, limit=limit, before=before)

    titles = {name: name.capitalize() for name in STATES}
    return await show_list(request, "runs", states=titles, find=find)


async def one(request: PageRequest) -> Response:
    """Show one run: its state, and each step with its reason."""
    run, whole = await _run(request), request.query.get("whole") == "1"
    longest = ANY_LENGTH if whole else LONG_TEXT
    shown, steps = present(run), [present_step(frame) for frame in run.frames]
    cards = await anyio.to_thread.run_sync(
        lambda: [work_html(step.value, whole=whole) if step.value else None for step in steps]
    )
    texts = (shown.goal, shown.context, shown.answer, *(step.text for step in steps))
    values = {
        "here": "/runs",
        "run": shown,
        "steps": list(zip(steps, cards, strict=True)),
        "longest": longest,
        "left_out": any(len(text) > longest for text in texts) or any(card.folded for card in cards if card),
    }
    return await request.show("run.html", values)


async def answering(request: PageRequest) -> Response:
    """Show the form for the run's question."""
    run = await _run(request)
    if run.ask is None:
        return _page_of(run)
    if why := await request.services.work_reviewers.on_run(run, request.person().principal_id):
        return await request.message("You can't answer this", f"You can't answer this run: {why}.", f"/runs/{run.id}")
    return await _form(request, run)


async def answer(request: PageRequest, form: Form) -> Response:
    """Record the person's answer to the question in the form. The run continues here, or in a server with its model."""
    run, text = await _run(request), form.get("answer", "").replace("\r\n", "\n").strip()
    if not text or len(text) > LONGEST_ANSWER:
        if run.ask is None:  # an empty form would be one for whatever the run asks next
            return _page_of(run)
        return await _form(request, run, TOO_LONG if text else NOTHING_SAID, typed=text)
    # With the id of the question that the person saw: the run may ask another one by now.
    await answered(request.services, request.page.runs, run, text, request.person(), ask=form.get("ask", ""))
    return _page_of(run)


async def cancel(request: PageRequest, _form: Form) -> Response:
    """Cancel the run, and show it."""
    run, services = await _run(request), request.services
    why = f"cancelled by {request.session.user} on the review page"
    await cancelled(services.state, request.page.runs, run.id, why, now=services.now)
    return _page_of(run)


async def _run(request: PageRequest) -> Run:
    return await request.page.runs.run(request.id)


def _page_of(run: Run) -> Response:
    return see(f"/runs/{quote(run.id, safe='')}")


async def _form(request: PageRequest, run: Run, problem: str = "", *, typed: str = "") -> Response:
    """Show the form; with a `problem`, it still has the text that was typed."""
    values = {"here": "/runs", "run": present(run), "problem": problem, "longest": LONGEST_ANSWER, "typed": typed}
    return await request.show("run_answer.html", values, 422 if problem else 200)
