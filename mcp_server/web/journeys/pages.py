"""The pages of journeys: which there are, one in full with its picture, a person's word on it, its events as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, get_args

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from agents.bounds import BACK_TO, MOST_WORK_CHARS
from agents.engine.agent import Agent
from agents.engine.events import Decision, Logged, WorkRecorded
from agents.engine.runner import JourneyDecision
from agents.engine.state import JourneyState, Status
from agents.errors import AgentError, StaleJourney
from agents.store.ports import JourneyLine, JourneyStore
from knowledge.errors import KnowledgeError, StorageError
from knowledge.trust.ports import Proposal
from mcp_server.toolsets.journeys.answers import event_line
from mcp_server.toolsets.journeys.schemas import LONGEST_NOTE
from mcp_server.web.access.sessions import Session
from mcp_server.web.journeys.response_views import answers_in
from mcp_server.web.journeys.views import JourneyPageData, address_of, journey_line, journey_view, proposals_in
from mcp_server.web.live_updates import BEAT, BEGINNING, Here
from mcp_server.web.page_context import Acting, Form, PageContext, see
from mcp_server.web.text.sanitize import sanitize_line, spelled_out

PAGE = 30
MOST_WAITING = 50
"""Journeys that wait for a person, of which a page names each."""
BLOCK = 500
MOST_PROPOSALS = 50
STATES: Mapping[Status, str] = {
    "waiting": "Waiting",
    "active": "Active",
    "complete": "Complete",
    "cancelled": "Cancelled",
}
DECISIONS: tuple[Decision, ...] = get_args(Decision)
NOTE_FOR: Mapping[str, str] = {
    "reject": "give a reason, so that the next attempt can differ",
    "answer": "say something",
    "revisit": "give a reason for sending it back",
}
"""What a person is told who says one of these without a word of their own."""


class UnclearWord(KnowledgeError):
    """What was typed says nothing that could be recorded."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Why nothing was done, in lines, and what was typed."""

    title: str
    lines: Sequence[str]
    typed: Form
    decision: str


# --- showing ----------------------------------------------------------------------------------------------------------


async def listed(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show journeys, newest first; above all others those that wait for a person."""
    now, store = page_context.services.now(), page_context.services.journeys.store
    asked, before = request.query_params.get("state", ""), request.query_params.get("before")
    status = next((one for one in STATES if one == asked), None)
    found = await store.journeys(status=status, limit=PAGE + 1, before=before)
    on_top = await waiting(page_context) if status is None and before is None else []
    shown, told = found[:PAGE], {line.id for line in on_top}
    rest = [line for line in shown if line.id not in told]
    return await page_context.show(
        "journeys.html",
        session,
        lambda: {
            "here": "/journeys",
            "states": STATES,
            "state": status or "",
            "waits": [journey_line(line, now) for line in on_top],
            "lines": [journey_line(line, now) for line in rest],
            "older": {"state": status or "", "before": shown[-1].id} if len(found) > PAGE else None,
            "beginning": before is None,
        },
    )


async def waiting(page_context: PageContext) -> Sequence[JourneyLine]:
    """Return the journeys that wait for a person, those that were put on record last first."""
    return await page_context.services.journeys.store.journeys(status="waiting", limit=MOST_WAITING)


async def one(page_context: PageContext, request: Request, session: Session) -> Response:
    """Show one journey: where it stands and how it came there."""
    return await _shown(page_context, request, session)


async def _shown(
    page_context: PageContext, request: Request, session: Session, notice: Notice | None = None, status: int = 200
) -> Response:
    seen = await _seen(page_context, request)
    return await page_context.show(
        "journey.html",
        session,
        lambda: {
            "view": journey_view(seen),
            "notice": notice and {"title": notice.title, "lines": [sanitize_line(line) for line in notice.lines]},
            "typed": notice.typed if notice else {},
            "typed_for": notice.decision if notice else "",
            "whole": seen.whole,
            "paged": seen.before is not None,
            "longest_note": LONGEST_NOTE,
        },
        status,
    )


async def _seen(page_context: PageContext, request: Request) -> JourneyPageData:
    """Return all that the page is made of.

    Raises:
        NoSuchJourney: there is none.
    """
    journey, runner = str(request.path_params["id"]), page_context.services.journeys
    newest = state = await runner.store.journey(journey)
    log = await _log(runner.store, journey)
    version = _number(request, "at")
    if version is not None and version != newest.version:
        state = await runner.store.journey(journey, version=version)
        log = [logged for logged in log if logged.version <= version]
    agent, trouble = await _agent(page_context, state)
    return JourneyPageData(
        journey=journey,
        state=state,
        agent=agent,
        trouble=trouble,
        log=log,
        proposals=await _proposals(page_context, journey, log),
        now=page_context.services.now(),
        whole=request.query_params.get("whole") == "1",
        before=_number(request, "before"),
        newest=newest.version if state is not newest else 0,
    )


def _number(request: Request, name: str) -> int | None:
    """Return the number that the address gives; None if it gives none."""
    text = request.query_params.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 19 else None


async def _agent(page_context: PageContext, state: JourneyState) -> tuple[Agent | None, str]:
    """Return the journey's agent; or why it cannot be had, which is no reason not to show the journey."""
    try:
        return await page_context.services.journeys.catalogue.agent(state.agent), ""
    except AgentError as error:
        return None, str(error)


async def _log(store: JourneyStore, journey: str) -> list[Logged]:
    """Return all events, without the works, which may be large: the newest are in the state."""
    found: list[Logged] = []
    while block := await store.events(journey, after=found[-1].seq if found else 0, limit=BLOCK):
        found += [
            replace(logged, event=replace(logged.event, work=None))
            if isinstance(logged.event, WorkRecorded)
            else logged
            for logged in block
        ]
    return found


async def _proposals(page_context: PageContext, journey: str, log: Sequence[Logged]) -> list[Proposal]:
    """Return the proposals that calls of this journey made, newest first, and what took their place."""
    trust, found = page_context.services.state.trust, dict[str, Proposal]()
    for proposal_id in proposals_in(log)[:MOST_PROPOSALS]:
        following: str | None = proposal_id
        while following and following not in found:
            proposal = await trust.proposal(following)
            if proposal is None or proposal.journey != journey:
                break
            found[following], following = proposal, proposal.successor
    return sorted(found.values(), key=lambda proposal: proposal.created_at, reverse=True)


# --- a person's word --------------------------------------------------------------------------------------------------


def deciding(decision: Decision) -> Acting:
    """Return what the form of this decision does: it records the word, if the journey stands where the form was shown."""

    async def decide(page_context: PageContext, request: Request, session: Session, form: Form) -> Response:
        journey = str(request.path_params["id"])
        try:
            version = _version(form)
            answers = await _answers(page_context, journey, version, form) if decision == "answer" else {}
            opinion = opinion_of(decision, form, answers)
            if decision == "revisit":
                opinion = await _by_name(page_context, journey, opinion)
            await page_context.services.journeys.decide(journey, version, opinion, by=session.user)
        except StaleJourney as error:
            return await _not_done(page_context, request, session, _moved(error, form, decision), 409)
        except UnclearWord as error:
            return await _not_done(page_context, request, session, _said(error, form, decision), 422)
        except AgentError as error:
            return await _not_done(page_context, request, session, _said(error, form, decision), 409)
        return see(address_of(journey))

    return decide


async def _answers(page_context: PageContext, journey: str, version: int, form: Form) -> Mapping[str, str]:
    """Return the answers to the questions that were asked where the form was shown."""
    return answers_in(await page_context.services.journeys.store.journey(journey, version=version), form)


async def _by_name(page_context: PageContext, journey: str, opinion: JourneyDecision) -> JourneyDecision:
    """Return the word with the phase that the form named as it is shown."""
    state = await page_context.services.journeys.store.journey(journey)
    named = {spelled_out(phase): phase for phase in state.phase_visits}
    typed = str(opinion.changes[BACK_TO])
    return replace(opinion, changes={BACK_TO: named.get(typed, typed)})


async def _not_done(
    page_context: PageContext, request: Request, session: Session, notice: Notice, status: int
) -> Response:
    return await _shown(page_context, request, session, notice, status)


def _moved(error: StaleJourney, form: Form, decision: str) -> Notice:
    first = f"You were looking at version {error.expected}; the journey is now at version {error.actual}. The page below is current."
    return Notice("The journey has changed; nothing was done", [first, *error.changed], form, decision)


def _said(error: KnowledgeError, form: Form, decision: str) -> Notice:
    return Notice("Nothing was changed", [str(error)[: AgentError.MOST_CHARS]], form, decision)


def opinion_of(decision: Decision, form: Form, answers: Mapping[str, str]) -> JourneyDecision:
    """Return what a person said with a form; `answers` are those to the questions in it.

    Raises:
        UnclearWord: nothing that could be recorded; says what is to be typed.
    """
    note = form.get("note", "").replace("\r\n", "\n").strip()
    if len(note) > LONGEST_NOTE:
        raise UnclearWord(f"your text has {len(note):,} characters; the limit is {LONGEST_NOTE:,}")
    if not note and not answers and decision in NOTE_FOR:
        raise UnclearWord(NOTE_FOR[decision])
    changes: Mapping[str, Any] = answers
    if decision == "modify":
        changes = changes_in(form.get("changes", ""))
        if not changes and not note:
            raise UnclearWord("write the changes as a JSON object, or describe them in the note")
    elif decision == "revisit":
        changes = {BACK_TO: form.get("phase", "")}
    elif decision == "cancel" and form.get("sure") != "1":
        raise UnclearWord("tick the box to confirm: a cancelled journey can't be resumed")
    return JourneyDecision(decision, "page", note, changes)


def changes_in(text: str) -> Mapping[str, Any]:
    """Return the changes of a work as they were typed: a JSON object, or nothing.

    Raises:
        UnclearWord: it is something else.
    """
    if not text.strip():
        return {}
    if len(text) > MOST_WORK_CHARS:
        raise UnclearWord(f"the changes have {len(text):,} characters; the limit is {MOST_WORK_CHARS:,}")
    try:
        found = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise UnclearWord("the changes are nested too deep") from None
    except ValueError as error:
        raise UnclearWord(f"the changes are not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnclearWord('the changes are not a JSON object; write them as {"field": new value}, null removes a field')
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _version(form: Form) -> int:
    text = form.get("version", "")
    if not text.isdecimal() or len(text) > 18:
        raise UnclearWord("the form is missing the journey's version; open the journey again")
    return int(text)


# --- events as a stream -----------------------------------------------------------------------------------------------


async def events(page_context: PageContext, request: Request, session: Session) -> Response:
    """Stream the journey's events: those after the one that the client had last, and each new one as it is recorded."""
    journey, store = str(request.path_params["id"]), page_context.services.journeys.store
    await store.journey(journey)

    stream = event_stream(
        store, page_context.live.heard(session.csrf), journey, _after(request), page_context.still(session)
    )
    return StreamingResponse(stream, media_type="text/event-stream")


def _after(request: Request) -> int:
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    return int(text) if text.isdecimal() and len(text) < 19 else 0


async def event_stream(
    store: JourneyStore, news: AsyncGenerator[Collection[str]], journey: str, after: int, here: Here
) -> AsyncIterator[str]:
    """Yield the events after that number as server-sent events, for as long as whoever listens is logged in (`here`)."""
    first = True
    async with aclosing(news) as heard:
        async for keys in heard:
            if not await here():
                return
            # The listener is there before the first look, so that nothing falls between the two.
            yield BEGINNING if first else "" if journey in keys else BEAT
            if first or journey in keys:
                try:
                    async for logged in _new_events(store, journey, after):
                        after = logged.seq
                        yield sent(logged)
                except StorageError:
                    return  # the client comes again, with the number of what it had last
            first = False


async def _new_events(store: JourneyStore, journey: str, after: int) -> AsyncIterator[Logged]:
    while block := await store.events(journey, after=after, limit=BLOCK):
        for logged in block:
            yield logged
        after = block[-1].seq


def sent(logged: Logged) -> str:
    """Return the event as it is sent. JSON in ASCII has no line end in it that could begin another field."""
    return f"id: {logged.seq}\nevent: {logged.event.TYPE}\ndata: {json.dumps(event_line(logged))}\n\n"
