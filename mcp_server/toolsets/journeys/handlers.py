"""The handlers of the journey tools. Imported with the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agents.engine.events import StepUsage
from agents.engine.graph import mermaid
from agents.engine.runner import JourneyDecision, Submission
from agents.engine.work.form import blank
from agents.errors import NoSuchAgent, NoSuchJourney, PhaseGone, WaitsForPerson
from agents.report.journey_report import full_report, report
from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal
from mcp_server.approvals.reviewers.work_deciders import decide_on_journey
from mcp_server.gate.caller import Call
from mcp_server.gate.handles import require_handle, require_may_decide
from mcp_server.late_module import LateModule
from mcp_server.ports import AskingServices, JourneyServices
from mcp_server.toolsets.journeys.answers import MOST_EVENTS, UNLISTED, event_fields, journey_answer, shortened
from mcp_server.toolsets.journeys.choice import agents_with_costs, proposal, with_cost
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
    from mcp_server.approvals.zulip import topic_questions
    from mcp_server.approvals.zulip.topic_questions import AskedIn
else:
    # Few journeys ask in Zulip, and it loads its client.
    topic_questions = LateModule("mcp_server.approvals.zulip.topic_questions")

LONGEST_REPORT = 24_000
"""Characters of a report in an answer; the resource has all of it."""
BEGUN_ALREADY = (
    "You started this journey at {} with the same brief and inputs, and nothing has been submitted since. Continue it. To start "
    "another one, say in the brief what is different."
)


async def start(services: JourneyServices, call: Call, arguments: StartArguments) -> Journey:
    """Begin a journey and say what it costs; without an agent, propose one.

    If the caller began the same journey a moment ago, return that one, with a note in its prompt.
    """
    if isinstance(of := arguments.inputs.get("fork_of"), str):
        require_handle(call.principal, of)
    elif not arguments.agent.strip() and not blank(arguments.brief):
        return await proposal(services, arguments.brief)
    who = call.principal
    # Callers without a token share one principal, so the same brief may be another caller's journey.
    position = await services.journeys.start(
        arguments.agent, arguments.brief, arguments.inputs, by=who.id, repeatable=not who.by_handle
    )
    if position.state.forked_from:  # a fork takes the works along, so it also takes the untrusted sources behind them
        origins = await services.taints.of_journey(position.state.forked_from)
        await services.taints.note(who.id, position.journey, tuple(origins))
    await services.taints.carry(who.id, position.journey, run=call.run)
    answer = await journey_answer(services, position)
    if not position.state.forked_from:
        answer = await with_cost(services, position.agent, answer)
    if not position.repeated:
        return answer
    begun_at = position.state.started_at.isoformat(timespec="seconds")
    return replace(answer, prompt=f"{BEGUN_ALREADY.format(begun_at)}\n\n{answer.prompt}")


async def submit(services: AskingServices, call: Call, arguments: SubmitArguments) -> Journey:
    """Record work, and move the journey on if the work is enough."""
    usage = arguments.usage or ReportedUsage()
    submission = Submission(
        arguments.work,
        tuple(arguments.signals),
        StepUsage(usage.tokens_in, usage.tokens_out, usage.model),
        usage.conversation,
        arguments.confidence,
        arguments.reasoning or "",
    )
    require_handle(call.principal, arguments.journey_id)
    await services.journeys.store.journey(arguments.journey_id)  # raises if unknown, so nothing is carried to it
    # Before the work is recorded: if this process dies in between, no work is without its origins.
    await services.taints.carry(call.principal.id, arguments.journey_id, run=call.run)
    try:
        position = await services.journeys.submit(
            arguments.journey_id, arguments.version, submission, by=call.principal.id
        )
    except WaitsForPerson:
        # The answer may be there: then the next look at the journey shows it.
        await _asked_in(services, await services.journeys.position(arguments.journey_id))
        raise
    position, asked = await _asked_in(services, position)
    if position.state.status == "waiting":
        await services.want_review()
    return await journey_answer(services, position, after_submit=True, asked=asked)


async def _asked_in(services: AskingServices, position: JourneyPosition) -> tuple[JourneyPosition, AskedIn | None]:
    """Have the question of a checkpoint asked in the topic that its agent names, and apply an answer that was given there."""
    waits = position.state.checkpoint
    named = waits and any(phase.ask_in for phase in position.agent.graph.phases if phase.name == waits.phase)
    return await topic_questions.asked_in(services, position) if named else (position, None)


async def decide(services: JourneyServices, call: Call, arguments: DecideArguments) -> Journey:
    """Record a person's decision that the host relays."""
    decision = JourneyDecision(arguments.decision, "relayed", arguments.note, arguments.changes)
    require_handle(call.principal, arguments.journey_id)
    began = (await services.journeys.store.journey(arguments.journey_id)).principal
    require_may_decide(call.principal, arguments.journey_id, began)
    await services.taints.carry(call.principal.id, arguments.journey_id, run=call.run)
    position = await decide_on_journey(
        services,
        arguments.journey_id,
        arguments.version,
        decision,
        by=call.principal.id,
        principal=call.principal.id,
    )
    return await journey_answer(services, position)


async def status(services: AskingServices, call: Call, arguments: JourneyStatusArguments) -> JourneyView:
    """Return a journey's position, or one view of it; if it can no longer be continued, what is recorded, and why."""
    journey, store = arguments.journey_id, services.journeys.store
    require_handle(call.principal, journey)
    events = await newest_events(services, journey) if arguments.view == "events" else ()
    text: str | None = None
    try:
        position, asked = await _asked_in(services, await services.journeys.position(journey))
        answer = await journey_answer(services, position, lean=arguments.view != "state", asked=asked)
        if arguments.view == "graph":
            text = mermaid(position.agent.graph, position.state.phase, position.state.phase_visits)
        elif arguments.view == "report":
            text = report(position, await store.events(journey), services.now())
    except (NoSuchAgent, PhaseGone) as error:
        state = await store.journey(journey)
        answer = Journey(
            journey_id=journey,
            version=state.version,
            agent=state.agent,
            state=state.status,
            phase=state.phase,
            visit=state.visit,
            prompt=f"Nothing can be submitted now: {error}. To read what happened, use view='events' or 'report'.",
            work_schema=None,
            allowed_tools=[],
            checkpoint=None,
            conversation=state.conversation,
        )
        if arguments.view == "report":
            text = full_report(journey, None, state, await store.events(journey), services.now())
    if arguments.view == "report" and text is not None and len(text) > LONGEST_REPORT:
        text = f"{text[:LONGEST_REPORT]}\n\n[cut: the whole report is at journey://{journey}/report]"
    return JourneyView(**{name: getattr(answer, name) for name in Journey.__slots__}, text=text, events=events)


async def newest_events(services: JourneyServices, journey: str) -> list[Mapping[str, Any]]:
    """Return the newest events, oldest first, without their work and with long fields cut."""
    state = await services.journeys.store.journey(journey)
    log = await services.journeys.store.events(journey, after=max(0, state.seq - MOST_EVENTS))
    return [{name: shortened(value) for name, value in event_fields(logged).items()} for logged in log]


async def journeys(services: JourneyServices, call: Call, arguments: ListArguments) -> JourneyItems:
    """Return journeys, newest first, and with the first page the agents.

    A caller over HTTP without a token gets no journeys: to such a caller an id is the right to read the journey.

    Raises:
        BadCursor: the cursor belongs to another list.
    """
    if call.principal.by_handle:
        return JourneyItems([], None, await agents_with_costs(services), UNLISTED)
    store, key = (
        services.journeys.store,
        question({"of": "journeys", "state": arguments.state, "agent": arguments.agent}),
    )
    before: str | None = None
    if arguments.cursor is not None:
        before = str(unseal(arguments.cursor, key, str)[0])
        try:
            await store.journey(before)
        except NoSuchJourney:
            raise BadCursor(arguments.cursor) from None
    lines = await store.journeys(
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
    cursor = seal(key, (shown[-1].id,)) if len(lines) > arguments.limit else None
    return JourneyItems(items, cursor, [] if before else await agents_with_costs(services))


async def read_in(services: JourneyServices, _call: Call, answer: Journey) -> Sequence[str]:
    """Return the untrusted origins that were read in the journey: the work that it records may repeat their text."""
    return tuple(await services.taints.of_journey(answer.journey_id)) if answer.journey_id else ()
