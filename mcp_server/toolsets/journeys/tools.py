"""The journeys toolset: work in phases whose state lives here, so that any host can go on with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from knowledge.errors import BadCursor
from knowledge.wire.cursors import question, seal, unseal
from mcp_server.gate.caller import Call
from mcp_server.gate.handles import require_handle, require_may_decide
from mcp_server.gate.policy import Trust
from mcp_server.ports import JourneyServices
from mcp_server.toolsets.journeys.answers import (
    MOST_TOLD,
    UNLISTED,
    Journey,
    JourneyItem,
    JourneyItems,
    JourneyView,
    _shortened,
    event_line,
    told,
)
from mcp_server.toolsets.spec import JOURNEYS, Arguments, Cursor, ToolSpec

if TYPE_CHECKING:
    from agents.engine.progress.position import JourneyPosition

LONGEST_REPORT = 24_000
LONGEST_NOTE = 4_000
BEGUN_ALREADY = (
    "You started this journey at {} with the same brief and inputs, and nothing has been submitted since. Continue it. To start "
    "another one, say in the brief what is different."
)

JourneyId = Annotated[str, Field(description="journey_id, as returned by journey_start or journey_list.")]
Version = Annotated[int, Field(ge=1, description="version in the last answer about this journey.")]


class StartArguments(Arguments):
    """Arguments of journey_start."""

    agent: Annotated[str, Field(description="Agent or skill, e.g. research, build, orchestrate, analysis, deliver.")]
    brief: Annotated[str, Field(description="The task, with everything the agent needs to know.")]
    inputs: Annotated[
        dict[str, Any],
        Field(
            description="Other inputs of the agent, by name. {fork_of: journey_id, at_version: 3} branches an existing journey."
        ),
    ] = Field(default_factory=dict)


class ReportedUsage(Arguments):
    """What a step cost the host."""

    tokens_in: Annotated[int, Field(ge=0)] = 0
    tokens_out: Annotated[int, Field(ge=0)] = 0
    model: str = ""
    conversation: str = ""


class SubmitArguments(Arguments):
    """Arguments of journey_submit."""

    journey_id: JourneyId
    version: Version
    work: Annotated[
        dict[str, Any], Field(description="Object of the form in work_schema; merged into the work already recorded.")
    ]
    signals: Annotated[
        list[str], Field(max_length=20, description="Hints for the next phase, if the prompt names any.")
    ] = Field(default_factory=list)
    usage: ReportedUsage | None = None
    confidence: Annotated[float | None, Field(ge=0, le=1, description="How sure you are of the work.")] = None
    reasoning: Annotated[str | None, Field(max_length=LONGEST_NOTE, description="Why you did it this way.")] = None


class DecideArguments(Arguments):
    """Arguments of journey_decide."""

    journey_id: JourneyId
    version: Version
    decision: Annotated[
        Literal["approve", "modify", "reject", "revisit", "answer", "cancel"],
        Field(description="reject needs a note; revisit returns to a phase; cancel ends the journey."),
    ]
    note: Annotated[str, Field(max_length=LONGEST_NOTE, description="The person's words.")] = ""
    changes: Annotated[
        dict[str, Any],
        Field(
            description="modify: a JSON merge patch of the work. answer: {question id: their words}. revisit: {phase: name}."
        ),
    ] = Field(default_factory=dict)


class JourneyStatusArguments(Arguments):
    """Arguments of journey_status."""

    journey_id: JourneyId
    view: Annotated[
        Literal["state", "events", "graph", "report"], Field(description="graph is Mermaid; report is Markdown.")
    ] = "state"


class ListArguments(Arguments):
    """Arguments of journey_list."""

    state: Literal["active", "waiting", "complete", "cancelled"] | None = None
    agent: Annotated[str | None, Field(description="Only journeys of this agent.")] = None
    limit: Annotated[int, Field(ge=1, le=100)] = 20
    cursor: Cursor = None


async def start(services: JourneyServices, call: Call, asked: StartArguments) -> Journey:
    """Begin a journey, or return the one that the caller began alike a moment ago, with a note that says so."""
    if isinstance(of := asked.inputs.get("fork_of"), str):
        require_handle(call.principal, of)
    who = call.principal
    position = await services.journeys.start(
        asked.agent, asked.brief, asked.inputs, by=who.id, repeatable=not who.by_handle
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


async def submit(services: JourneyServices, call: Call, asked: SubmitArguments) -> Journey:
    """Record work and go where it leads."""
    from agents.engine.events import StepUsage
    from agents.engine.runner import Submission

    usage = asked.usage or ReportedUsage()
    submission = Submission(
        asked.work,
        tuple(asked.signals),
        StepUsage(usage.tokens_in, usage.tokens_out, usage.model),
        usage.conversation,
        asked.confidence,
        asked.reasoning or "",
    )
    await _carried(services, call, asked.journey_id)
    position = await services.journeys.submit(asked.journey_id, asked.version, submission, by=call.principal.id)
    if position.state.status == "waiting":
        await services.want_review()
    return await told(services, position, after_submit=True)


async def _carried(services: JourneyServices, call: Call, journey: str) -> None:
    """Remember what the caller has read before they record anything; of a journey that there is not, nothing is remembered."""
    require_handle(call.principal, journey)
    await services.journeys.store.journey(journey)
    await services.taints.carry(call.principal.id, journey, run=call.run)


async def decide(services: JourneyServices, call: Call, asked: DecideArguments) -> Journey:
    """Record a person's word that the host relays."""
    from agents.engine.runner import JourneyDecision

    opinion = JourneyDecision(asked.decision, "relayed", asked.note, asked.changes)
    require_handle(call.principal, asked.journey_id)
    began = (await services.journeys.store.journey(asked.journey_id)).principal
    require_may_decide(call.principal, asked.journey_id, began)
    await _carried(services, call, asked.journey_id)
    position = await services.journeys.decide(asked.journey_id, asked.version, opinion, by=call.principal.id)
    return await told(services, position)


async def status(services: JourneyServices, call: Call, asked: JourneyStatusArguments) -> JourneyView:
    """Return where a journey stands, or one view of it; of one that cannot be led any more what is on record, and why."""
    from agents.errors import NoSuchAgent, PhaseGone

    require_handle(call.principal, asked.journey_id)
    events = await newest_events(services, asked.journey_id) if asked.view == "events" else ()
    try:
        position = await services.journeys.position(asked.journey_id)
        whole = await told(services, position, lean=asked.view != "state")
        text = await _text(services, position, asked)
    except (NoSuchAgent, PhaseGone) as error:
        whole, text = await _unled(services, asked.journey_id, str(error)), await _report(services, asked)
    return JourneyView(**{name: getattr(whole, name) for name in Journey.__slots__}, text=text, events=events)


async def _report(services: JourneyServices, asked: JourneyStatusArguments) -> str | None:
    """Return the report of a journey without its agent, if it is asked for."""
    if asked.view != "report":
        return None
    from agents.report.journey_report import whole

    store = services.journeys.store
    log = await store.events(asked.journey_id)
    return _bounded(whole(asked.journey_id, None, await store.journey(asked.journey_id), log, services.now()), asked)


def _bounded(text: str, asked: JourneyStatusArguments) -> str:
    rest = f"\n\n[cut: the whole report is at journey://{asked.journey_id}/report]"
    return text if len(text) <= LONGEST_REPORT else text[:LONGEST_REPORT] + rest


async def _unled(services: JourneyServices, journey: str, why: str) -> Journey:
    """Return a journey that nobody can go on with now."""
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


async def _text(services: JourneyServices, position: JourneyPosition, asked: JourneyStatusArguments) -> str | None:
    if asked.view == "graph":
        from agents.engine.graph import mermaid

        return mermaid(position.agent.graph, position.state.phase, position.state.phase_visits)
    if asked.view == "report":
        from agents.report.journey_report import report

        return _bounded(report(position, await services.journeys.store.events(position.journey), services.now()), asked)
    return None


async def newest_events(services: JourneyServices, journey: str) -> list[Mapping[str, Any]]:
    """Return the newest events, oldest first, without the works, which the report has, each field cut where it is long."""
    state = await services.journeys.store.journey(journey)
    log = await services.journeys.store.events(journey, after=max(0, state.seq - MOST_TOLD))
    return [{name: _shortened(value) for name, value in event_line(logged).items()} for logged in log]


async def journeys(services: JourneyServices, call: Call, asked: ListArguments) -> JourneyItems:
    """Return journeys, newest first; to a caller over HTTP without a token none, because their ids are all that it needs.

    Raises:
        BadCursor: the cursor belongs to another list.
    """
    if call.principal.by_handle:
        return JourneyItems([], None, await _agents(services), UNLISTED)
    key = question({"of": "journeys", "state": asked.state, "agent": asked.agent})
    before = await _behind(services, asked.cursor, key)
    lines = await services.journeys.store.journeys(
        status=asked.state, agent=asked.agent, limit=asked.limit + 1, before=before
    )
    shown = lines[: asked.limit]
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
        seal(key, (shown[-1].id,)) if len(lines) > asked.limit else None,
        [] if before else await _agents(services),
    )


async def _agents(services: JourneyServices) -> Sequence[Mapping[str, str]]:
    from mcp_server.toolsets.journeys.prompts import agent_lines

    return [{"agent": name, "summary": summary} for name, summary in await agent_lines(services)]


async def _behind(services: JourneyServices, cursor: str | None, key: str) -> str | None:
    """Return the id of the journey behind which the cursor goes on, None without one."""
    from agents.errors import NoSuchJourney

    if cursor is None:
        return None
    last = str(unseal(cursor, key, str)[0])
    try:
        await services.journeys.store.journey(last)
    except NoSuchJourney:
        raise BadCursor(cursor) from None
    return last


async def read_in(services: JourneyServices, answer: Journey) -> Sequence[str]:
    """Return where text of the journey comes from that nobody vouches for: its works may repeat it."""
    return tuple(await services.taints.of_journey(answer.journey_id))


JOURNEY_START = ToolSpec[JourneyServices, StartArguments, Journey](
    name="journey_start",
    title="Start a journey",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Starts a journey: longer work that an agent leads through phases. The server stores it, so any host can continue it. "
        "Call journey_list first: it names the agents, and the journey may already exist. Returns prompt (what to do now), "
        "work_schema (what to submit) and allowed_tools. Pass journey_id to the tools you call for it."
    ),
    arguments=StartArguments,
    result=Journey,
    answer=start,
    taints=read_in,
)

JOURNEY_SUBMIT = ToolSpec[JourneyServices, SubmitArguments, Journey](
    name="journey_submit",
    title="Submit work of a phase",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Records your work for the current phase and checks it. Returns the prompt of the next phase, what is still missing, "
        "or a question for the person. If you recognise the returned conversation, continue it; otherwise start fresh from "
        "the prompt."
    ),
    arguments=SubmitArguments,
    result=Journey,
    answer=submit,
    taints=read_in,
    idempotent=True,
)

JOURNEY_DECIDE = ToolSpec[JourneyServices, DecideArguments, Journey](
    name="journey_decide",
    title="Relay a person's decision",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Relays what the person said about a journey. Ask them, wait for their answer and pass it on; never decide yourself. "
        "Recorded as relayed. Where checkpoint.verified is true the person must decide elsewhere, and this call is refused."
    ),
    arguments=DecideArguments,
    result=Journey,
    answer=decide,
    taints=read_in,
    idempotent=True,
)

JOURNEY_STATUS = ToolSpec[JourneyServices, JourneyStatusArguments, JourneyView](
    name="journey_status",
    title="Status of a journey",
    level=Trust.READ,
    toolset=JOURNEYS,
    description=(
        "Returns everything needed to continue a journey: its prompt, work_schema, version and any open checkpoint. "
        "With view it returns the newest events, the graph of phases or a report instead. Changes nothing."
    ),
    arguments=JourneyStatusArguments,
    result=JourneyView,
    answer=status,
    taints=read_in,
    read_only=True,
    idempotent=True,
)

JOURNEY_LIST = ToolSpec[JourneyServices, ListArguments, JourneyItems](
    name="journey_list",
    title="Journeys and agents",
    level=Trust.READ,
    toolset=JOURNEYS,
    description="Lists journeys, newest first, whichever host started them, and the agents that journey_start accepts.",
    arguments=ListArguments,
    result=JourneyItems,
    answer=journeys,
    read_only=True,
    idempotent=True,
)

TOOLS = (JOURNEY_START, JOURNEY_SUBMIT, JOURNEY_DECIDE, JOURNEY_STATUS, JOURNEY_LIST)
