"""The pages of journeys: a list, one in full, a person's decision on it, and its events as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, get_args

from starlette.responses import Response, StreamingResponse

from agents.bounds import BACK_TO, MOST_WORK_CHARS
from agents.engine.events import Decision, Logged, WorkRecorded
from agents.engine.runner import JourneyDecision
from agents.engine.state import Status
from agents.errors import AgentError, StaleJourney
from agents.store.ports import JourneyLine, JourneyStore
from knowledge.errors import KnowledgeError, StorageError
from knowledge.trust.ports import Proposal
from mcp_server.approvals.approvers import CannotDecide
from mcp_server.approvals.reviewers.work_deciders import decide_on_journey
from mcp_server.approvals.views.askers import in_journey
from mcp_server.toolsets.journeys.answers import event_fields
from mcp_server.toolsets.journeys.schemas import LONGEST_NOTE
from mcp_server.web.journeys.views import JourneyPageData, answers_in, journey_values, proposals_in
from mcp_server.web.live_updates import BEAT, BEGINNING, Here
from mcp_server.web.page_context import Acting, Form, PageRequest, see
from mcp_server.web.text.sanitize import spelled_out
from mcp_server.web.text.site_addresses import page_address
from mcp_server.web.text.values import journey_address
from mcp_server.web.work_list import show_list

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
"""The error for a decision without a note."""


class UnclearWord(KnowledgeError):
    """The form does not say what to record."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Why nothing was done, in lines, and what was typed."""

    title: str
    lines: Sequence[str]
    typed: Form
    decision: str


# --- showing ----------------------------------------------------------------------------------------------------------


async def listed(request: PageRequest) -> Response:
    """Show journeys, newest first; above them those that wait for a person."""
    store = request.services.journeys.store

    async def find(state: str, limit: int, before: str | None) -> Sequence[JourneyLine]:
        status = next((status for status in STATES if status == state), None)
        return await store.journeys(status=status, limit=limit, before=before)

    return await show_list(request, "journeys", states=STATES, find=find)


async def one(request: PageRequest, notice: Notice | None = None, status: int = 200) -> Response:
    """Show one journey: its position, its path, and, if a decision was not recorded, the reason."""
    seen = await _seen(request)
    barred = await _barred(request, seen)
    return await request.show(
        "journey.html",
        lambda: {
            **journey_values(seen),
            "notice": notice,
            "typed": notice.typed if notice else {},
            "typed_for": notice.decision if notice else "",
            "paged": seen.before is not None,
            "longest_note": LONGEST_NOTE,
            "barred": barred,
        },
        status,
    )


async def _barred(request: PageRequest, seen: JourneyPageData) -> str:
    """Return why the person may not settle the open question, "" if they may or if no question is open."""
    waits = seen.state.checkpoint
    if waits is None or seen.newest:
        return ""
    decision: Decision = "answer" if waits.asks else "approve"
    return await request.services.work_reviewers.on_journey(seen.journey, decision, request.person().principal_id)


async def _seen(request: PageRequest) -> JourneyPageData:
    """Return the page's data. Raises: NoSuchJourney: there is no such journey, or it does not have that version."""
    journey, runner = request.id, request.services.journeys
    newest = state = await runner.store.journey(journey)
    log = await _log(runner.store, journey)
    version = request.number("at")
    if version is not None and version != newest.version:
        state = await runner.store.journey(journey, version=version)
        log = [logged for logged in log if logged.version <= version]
    agent, trouble = None, ""
    try:
        agent = await runner.catalogue.agent(state.agent)
    except AgentError as error:  # removed or broken: the record can still be shown
        trouble = str(error)
    return JourneyPageData(
        journey=journey,
        state=state,
        agent=agent,
        trouble=trouble,
        log=log,
        proposals=await _proposals(request, journey, log),
        now=request.now,
        whole=request.query.get("whole") == "1",
        before=request.number("before"),
        newest=newest.version if state is not newest else 0,
    )


async def _log(store: JourneyStore, journey: str) -> list[Logged]:
    """Return all events without the recorded work, which may be large. The journey's state has the newest work of each phase."""
    found: list[Logged] = []
    async for logged in _new_events(store, journey, 0):
        event = logged.event
        found.append(replace(logged, event=replace(event, work=None)) if isinstance(event, WorkRecorded) else logged)
    return found


async def _proposals(request: PageRequest, journey: str, log: Sequence[Logged]) -> list[Proposal]:
    """Return the proposals that calls of this journey made, with their successors, newest first."""
    trust, found = request.trust, dict[str, Proposal]()
    for proposal_id in proposals_in(log)[:MOST_PROPOSALS]:
        # A call's facts are only a tool's answer; the proposal itself records the journeys of those who ask for it.
        chain = await in_journey(trust, proposal_id, journey)
        found |= {one.id: one for one in takewhile(lambda one: one.journey == journey, chain)}
    return sorted(found.values(), key=lambda proposal: proposal.created_at, reverse=True)


# --- deciding ---------------------------------------------------------------------------------------------------------


def deciding(decision: Decision) -> Acting:
    """Return the handler of this decision's form: it records the decision if the journey is still at the version that was shown."""

    async def decide(request: PageRequest, form: Form) -> Response:
        journey, runner = request.id, request.services.journeys
        try:
            version = _version(form)
            answers: Mapping[str, str] = {}
            if decision == "answer":
                answers = answers_in(await runner.store.journey(journey, version=version), form)
            opinion = opinion_of(decision, form, answers)
            if decision == "revisit":
                # The form names the phase as it is shown, with marks for what is invisible.
                names = {spelled_out(name): name for name in (await runner.store.journey(journey)).phase_visits}
                typed = str(opinion.changes[BACK_TO])
                opinion = replace(opinion, changes={BACK_TO: names.get(typed, typed)})
            person = request.person()
            await decide_on_journey(
                request.services, journey, version, opinion, by=person.name, principal=person.principal_id
            )
        except StaleJourney as error:
            first = (
                f"You were looking at version {error.expected}; the journey is now at version {error.actual}. "
                "The page below is current."
            )
            title, lines, status = "The journey has changed; nothing was done", [first, *error.changed], 409
        except (UnclearWord, AgentError, CannotDecide) as error:
            title, lines = "Nothing was changed", [str(error)[: AgentError.MOST_CHARS]]
            status = 422 if isinstance(error, UnclearWord) else 409
        else:
            return see(journey_address(journey))
        return await one(request, Notice(title, lines, form, decision), status)

    return decide


async def keep(request: PageRequest, form: Form) -> Response:
    """Write the journey's result to the page that the form names, and show the page; if the gate makes a proposal of it, show that."""
    journey, path = request.id, form.get("path", "").strip()
    if not path:
        return await request.message(
            "Nothing was written", "Type the path of a page, such as results/hives.md.", journey_address(journey), 422
        )
    revision: str | None = None
    with suppress(KnowledgeError):  # a page that is new has no revision
        revision = await request.services.tiers.revision(path)
    answer = await request.page.approvals.keep(journey, path, revision, request.person())
    if proposal := answer.get("proposal"):
        return see(f"/proposals/{proposal['id']}")
    if answer["status"] == "done":
        return see(page_address(answer["path"]))
    said = {
        "partial": "A part of the result is on",
        "unchanged": "The result was already on",
    }
    text = said.get(answer["status"], "Nothing was written to")
    note = f" {answer['note']}" if answer.get("note") else ""
    return await request.message("Result", f"{text} {answer['path']}.{note}", journey_address(journey), 200)


def opinion_of(decision: Decision, form: Form, answers: Mapping[str, str]) -> JourneyDecision:
    """Return the decision in a form; `answers` are those to the questions in it.

    Raises:
        UnclearWord: something is missing; says what to type.
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
        raise UnclearWord("the changes are nested too deeply") from None
    except ValueError as error:
        raise UnclearWord(f"the changes are not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise UnclearWord('the changes are not a JSON object; write them as {"field": new value}, null removes a field')
    return found


def _no_number(name: str) -> Any:
    # Python's parser accepts NaN and Infinity, which are not JSON and which no database stores.
    raise ValueError(f"{name} is not a number")


def _version(form: Form) -> int:
    text = form.get("version", "")
    if not text.isdecimal() or len(text) > 18:  # so many digits fit a database's integer
        raise UnclearWord("the form is missing the journey's version; open the journey again")
    return int(text)


# --- events as a stream -----------------------------------------------------------------------------------------------


async def events(request: PageRequest) -> Response:
    """Stream the journey's events: those after the last one that the client has, and each new one as it is recorded."""
    journey, store = request.id, request.services.journeys.store
    await store.journey(journey)
    # A browser that reconnects sends the header, with the last event that it has.
    text = request.http.headers.get("last-event-id") or request.query.get("after", "")
    after = int(text) if text.isdecimal() and len(text) < 19 else 0
    news = request.page.live.heard(request.session.csrf, request.services.readable_changes)
    here = request.page.still(request.session)
    return StreamingResponse(event_stream(store, news, journey, after, here), media_type="text/event-stream")


async def event_stream(
    store: JourneyStore, news: AsyncGenerator[Collection[str]], journey: str, after: int, here: Here
) -> AsyncIterator[str]:
    """Yield the journey's events after the event with the number `after`, as server-sent events, until the listener is logged out.

    `news` yields the ids of changed journeys. `here` returns whether the listener is still logged in.
    """
    first = True
    async with aclosing(news) as heard:
        async for keys in heard:
            if not await here():
                return
            # `heard` listens before the first look at the store, so that no event falls between the two.
            yield BEGINNING if first else "" if journey in keys else BEAT
            if first or journey in keys:
                try:
                    async for logged in _new_events(store, journey, after):
                        after = logged.seq
                        # JSON in ASCII has no line end, which would begin another field of the stream.
                        yield f"id: {logged.seq}\nevent: {logged.event.TYPE}\ndata: {json.dumps(event_fields(logged))}\n\n"
                except StorageError:
                    return  # the client reconnects with the number of its last event
            first = False


async def _new_events(store: JourneyStore, journey: str, after: int) -> AsyncIterator[Logged]:
    while block := await store.events(journey, after=after, limit=BLOCK):
        for logged in block:
            yield logged
        after = block[-1].seq
