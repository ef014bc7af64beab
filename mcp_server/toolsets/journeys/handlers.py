"""The handlers of the journey tools. Imported with the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.engine.events import StepUsage
from agents.engine.graph import mermaid
from agents.engine.runner import JourneyDecision, Submission
from agents.errors import NoSuchAgent, NoSuchJourney, PhaseGone
from agents.report.journey_report import full_report, report
from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal
from mcp_server.gate.caller import Call
from mcp_server.gate.handles import require_handle, require_may_decide
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.answers import MOST_TOLD, UNLISTED, _shortened, event_line, told
from mcp_server.toolsets.journeys.offers.prompts import agent_lines
from mcp_server.toolsets.journeys.schemas import (
    DecideArguments,
    Journey,
    JourneyItem,
    JourneyItems,
    JourneyStatusArguments,
    JourneyView,
    ListArguments,
    ReportedUsage,
    StartArguments,
    SubmitArguments,
)

if TYPE_CHECKING:
    from agents.engine.progress.position import JourneyPosition


LONGEST_REPORT = 24_000


BEGUN_ALREADY = (
    "You started this journey at {} with the same brief and inputs, and nothing has been submitted since. Continue it. To start "
    "another one, say in the brief what is different."
)


async def start(services: JourneyServices, call: Call, arguments: StartArguments) -> Journey:
    """Begin a journey, or return the one that the caller began alike a moment ago, with a note that says so."""
    if isinstance(of := arguments.inputs.get("fork_of"), str):
        require_handle(call.principal, of)
    who = call.principal
    position = await services.journeys.start(
        arguments.agent, arguments.brief, arguments.inputs, by=who.id, repeatable=not who.by_handle
    )
    if position.state.forked_from:  # the works came along, and so does what they rest on
        origins = await services.taints.of_journey(position.state.forked_from)
        await services.taints.note(call.principal.id, position.journey, tuple(origins))
    await services.taints.carry(call.principal.id, position.journey, run=call.run)
    answer = await told(services, position)
    if not position.repeated:
        return answer
    begun_at = position.state.started_at.isoformat(timespec="seconds")
    return replace(answer, prompt=f"{BEGUN_ALREADY.format(begun_at)}\n\n{answer.prompt}")


async def submit(services: JourneyServices, call: Call, arguments: SubmitArguments) -> Journey:
    """Record work and go where it leads."""
    usage = arguments.usage or ReportedUsage()
    submission = Submission(
        arguments.work,
        tuple(arguments.signals),
        StepUsage(usage.tokens_in, usage.tokens_out, usage.model),
        usage.conversation,
        arguments.confidence,
        arguments.reasoning or "",
    )
    await _carried(services, call, arguments.journey_id)
    position = await services.journeys.submit(arguments.journey_id, arguments.version, submission, by=call.principal.id)
    if position.state.status == "waiting":
        await services.want_review()
    return await told(services, position, after_submit=True)


async def _carried(services: JourneyServices, call: Call, journey: str) -> None:
    """Remember what the caller has read before anything is recorded; for a journey that does not exist, nothing."""
    require_handle(call.principal, journey)
    await services.journeys.store.journey(journey)
    await services.taints.carry(call.principal.id, journey, run=call.run)


async def decide(services: JourneyServices, call: Call, arguments: DecideArguments) -> Journey:
    """Record a person's word that the host relays."""
    opinion = JourneyDecision(arguments.decision, "relayed", arguments.note, arguments.changes)
    require_handle(call.principal, arguments.journey_id)
    began = (await services.journeys.store.journey(arguments.journey_id)).principal
    require_may_decide(call.principal, arguments.journey_id, began)
    await _carried(services, call, arguments.journey_id)
    position = await services.journeys.decide(arguments.journey_id, arguments.version, opinion, by=call.principal.id)
    return await told(services, position)


async def status(services: JourneyServices, call: Call, arguments: JourneyStatusArguments) -> JourneyView:
    """Return a journey's position, or one view of it; if it can no longer be continued, what is recorded, and why."""
    require_handle(call.principal, arguments.journey_id)
    events = await newest_events(services, arguments.journey_id) if arguments.view == "events" else ()
    try:
        position = await services.journeys.position(arguments.journey_id)
        whole = await told(services, position, lean=arguments.view != "state")
        text = await _text(services, position, arguments)
    except (NoSuchAgent, PhaseGone) as error:
        whole, text = await _unled(services, arguments.journey_id, str(error)), await _report(services, arguments)
    return JourneyView(**{name: getattr(whole, name) for name in Journey.__slots__}, text=text, events=events)


async def _report(services: JourneyServices, arguments: JourneyStatusArguments) -> str | None:
    """Return the report of a journey without its agent, if it is asked for."""
    if arguments.view != "report":
        return None
    store = services.journeys.store
    log = await store.events(arguments.journey_id)
    return _bounded(
        full_report(arguments.journey_id, None, await store.journey(arguments.journey_id), log, services.now()),
        arguments,
    )


def _bounded(text: str, arguments: JourneyStatusArguments) -> str:
    rest = f"\n\n[cut: the whole report is at journey://{arguments.journey_id}/report]"
    return text if len(text) <= LONGEST_REPORT else text[:LONGEST_REPORT] + rest


async def _unled(services: JourneyServices, journey: str, why: str) -> Journey:
    """Return a journey that cannot be continued now."""
    state = await services.journeys.store.journey(journey)
    return Journey(
        journey_id=journey,
        version=state.version,
        agent=state.agent,
        state=state.status,
        phase=state.phase,
        visit=state.visit,
        prompt=f"Nothing can be submitted now: {why}. To read what happened, use view='events' or 'report'.",
        work_schema=None,
        allowed_tools=[],
        checkpoint=None,
        conversation=state.conversation,
    )


async def _text(services: JourneyServices, position: JourneyPosition, arguments: JourneyStatusArguments) -> str | None:
    if arguments.view == "graph":
        return mermaid(position.agent.graph, position.state.phase, position.state.phase_visits)
    if arguments.view == "report":
        return _bounded(
            report(position, await services.journeys.store.events(position.journey), services.now()), arguments
        )
    return None


async def newest_events(services: JourneyServices, journey: str) -> list[Mapping[str, Any]]:
    """Return the newest events, oldest first, without the works, which the report has, each field cut where it is long."""
    state = await services.journeys.store.journey(journey)
    log = await services.journeys.store.events(journey, after=max(0, state.seq - MOST_TOLD))
    return [{name: _shortened(value) for name, value in event_line(logged).items()} for logged in log]


async def journeys(services: JourneyServices, call: Call, arguments: ListArguments) -> JourneyItems:
    """Return journeys, newest first; a caller over HTTP without a token gets none, because an id alone gives it access.

    Raises:
        BadCursor: the cursor belongs to another list.
    """
    if call.principal.by_handle:
        return JourneyItems([], None, await _agents(services), UNLISTED)
    key = question({"of": "journeys", "state": arguments.state, "agent": arguments.agent})
    before = await _behind(services, arguments.cursor, key)
    lines = await services.journeys.store.journeys(
        status=arguments.state, agent=arguments.agent, limit=arguments.limit + 1, before=before
    )
    shown = lines[: arguments.limit]
    items = [
        JourneyItem(
            line.id,
            line.agent,
            line.title,
            line.status,
            line.phase,
            line.version,
            line.moved_at.isoformat(timespec="seconds"),
        )
        for line in shown
    ]
    return JourneyItems(
        items,
        seal(key, (shown[-1].id,)) if len(lines) > arguments.limit else None,
        [] if before else await _agents(services),
    )


async def _agents(services: JourneyServices) -> Sequence[Mapping[str, str]]:
    return [{"agent": name, "summary": summary} for name, summary in await agent_lines(services)]


async def _behind(services: JourneyServices, cursor: str | None, key: str) -> str | None:
    """Return the id of the journey after which the cursor continues, or None."""
    if cursor is None:
        return None
    last = str(unseal(cursor, key, str)[0])
    try:
        await services.journeys.store.journey(last)
    except NoSuchJourney:
        raise BadCursor(cursor) from None
    return last


async def read_in(services: JourneyServices, answer: Journey) -> Sequence[str]:
    """Return the origins of the unverified text that was read in the journey: its works may repeat it."""
    return tuple(await services.taints.of_journey(answer.journey_id))
