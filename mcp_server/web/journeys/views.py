"""A journey as its page shows it: where it stands, the way it took, what was recorded, and what a person can say. Pure.

Models write briefs, works and phases of a team's agents: all of it is shown inert.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from agents.engine.agent import Agent
from agents.engine.events import (
    CheckpointReached,
    Completed,
    Decided,
    ErrorRaised,
    Event,
    FeedbackAdded,
    Forked,
    Logged,
    PhaseChanged,
    QuestionAdded,
    SourceFound,
    Speaking,
    Started,
    Thinking,
    ToolError,
    ToolStart,
    ToolSuccess,
    WorkRecorded,
)
from agents.engine.graph import ALWAYS, Phase, PhaseGraph
from agents.engine.progress.metrics import PhaseRow, costliest, lasting, slowest, table, waits
from agents.engine.state import JourneyState
from agents.prompts.prompt import TO_ANSWER, question
from agents.store.ports import JourneyLine
from knowledge.trust.ports import Proposal
from mcp_server.web.graph.parts import Pictures, pictures
from mcp_server.web.graph.svg import Move, Travelled
from mcp_server.web.journeys.response_views import (
    AnswerView,
    ConversationView,
    DocumentView,
    FeedbackView,
    QuestionView,
    WorkView,
    answer_views,
    conversation_views,
    document_views,
    feedback_views,
    question_views,
    response_facts,
    work_view,
)
from mcp_server.web.proposals.views import LineView
from mcp_server.web.proposals.views import line_of as proposal_line
from mcp_server.web.text.sanitize import sanitize_line, spelled_out
from mcp_server.web.text.values import Moment, ShownField, ShownText, fields_of, folded, moment

STEPS_SHOWN, CALLS_SHOWN = 40, 60
TITLE_CHARS = 120
CHANNELS: Mapping[str, str] = {
    "page": "on this page",
    "terminal": "in a terminal",
    "host": "in the host's form",
    "relayed": "relayed by the host",
}
ASKED: Mapping[str, str] = {
    "blocking": "A person must decide on {0} before work continues.",
    "optional": "A person can still comment on {0}; work has continued.",
    "informational": "A person was notified that {0} is done.",
}
TOOLS = (ToolStart, ToolSuccess, ToolError)


def address_of(journey: str) -> str:
    """Return where the journey's page is."""
    return f"/journeys/{quote(journey, safe='')}"


# --- in a list --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JourneyLineView:
    """A journey as one line of a list."""

    id: str
    address: str
    agent: Markup
    title: Markup
    status: str
    phase: Markup
    principal: Markup
    moved: Moment


def journey_line(line: JourneyLine, now: datetime) -> JourneyLineView:
    """Return the journey as one line."""
    return JourneyLineView(
        id=line.id,
        address=address_of(line.id),
        agent=sanitize_line(line.agent),
        title=sanitize_line(_titled(line.title)),
        status=line.status,
        phase=sanitize_line(line.phase),
        principal=sanitize_line(line.principal),
        moved=moment(line.moved_at, now),
    )


def _titled(brief: str) -> str:
    words = " ".join(brief[: 4 * TITLE_CHARS].split())
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1] + "…"


# --- on its page ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JourneyPageData:
    """All that the page is made of. `agent` is None where it is gone, which `trouble` then says; `log` has no works in it."""

    journey: str
    state: JourneyState
    agent: Agent | None
    trouble: str
    log: Sequence[Logged]
    proposals: Sequence[Proposal]
    now: datetime
    whole: bool = False
    before: int | None = None
    """Steps from this version on are not shown."""
    newest: int = 0
    """The version at which the journey stands, where an earlier one is shown; 0 where it is the newest itself."""

    @property
    def until(self) -> datetime:
        """Return when what is shown was so: now, or when the version that is shown was recorded."""
        return self.log[-1].at if self.newest and self.log else self.now


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """What a person is asked. `kind` is blocking or optional. `questions` are there where they are to answer in words."""

    phase: Markup
    target: Markup
    kind: str
    own_hand: bool
    question: ShownText
    questions: Sequence[QuestionView]
    since: Moment
    work: WorkView | None


@dataclass(frozen=True, slots=True)
class TimelineSentence:
    """One thing that happened, in a sentence, and what goes with it."""

    kind: str
    sentence: Markup
    text: ShownText | None = None
    fields: Sequence[ShownField] = ()


@dataclass(frozen=True, slots=True)
class VersionView:
    """What happened at one version. `took` is the time since the step before, "" for the first one; `calls` are those of tools."""

    version: int
    at: Moment
    by: Markup
    took: str
    said: Sequence[TimelineSentence]
    calls: int


@dataclass(frozen=True, slots=True)
class CallView:
    """A call of a tool for this journey. `outcome`: answered, failed, or under way."""

    tool: Markup
    phase: Markup
    at: Moment
    outcome: str
    took: str
    told: Markup
    arguments_hash: str


@dataclass(frozen=True, slots=True)
class RowView:
    """What a phase took."""

    phase: Markup
    row: PhaseRow
    time: str
    waited: str
    each: str
    automatic: bool
    slowest: bool
    costliest: bool


@dataclass(frozen=True, slots=True)
class JourneyPageView:
    """Everything that the page of one journey shows. `earlier`: the phases that it can be sent back to, spelled out."""

    id: str
    address: str
    title: Markup
    agent: Markup
    brief: ShownText
    inputs: Sequence[ShownField]
    status: str
    phase: Markup
    visit: int
    version: int
    principal: Markup
    started: Moment
    moved: Moment
    forked_from: JourneyFork | None
    trouble: Markup
    phase_gone: bool
    asked: CheckpointView | None
    missing: Sequence[ShownText]
    back: Markup
    pictures: Pictures
    conversation: Markup
    answers: Sequence[AnswerView]
    feedback: Sequence[FeedbackView]
    conversations: Sequence[ConversationView]
    documents: Sequence[DocumentView]
    newest: int
    works: Sequence[WorkView]
    steps: Sequence[VersionView]
    older: int
    calls: Sequence[CallView]
    calls_left_out: int
    rows: Sequence[RowView]
    proposals: Sequence[LineView]
    earlier: Sequence[str]
    folded: bool

    @property
    def over(self) -> bool:
        """Return whether nothing more can be submitted, unless a person sends it back."""
        return self.status in ("complete", "cancelled")

    @property
    def can_be_led(self) -> bool:
        """Return whether a person's word can be recorded: its agent is there to say what follows."""
        return self.status != "cancelled" and not self.trouble and not self.newest


@dataclass(frozen=True, slots=True)
class JourneyFork:
    """Where a journey was forked from."""

    name: Markup
    address: str
    version: int


def journey_view(seen: JourneyPageData) -> JourneyPageView:
    """Return everything that the page shows of the journey."""
    state, now = seen.state, seen.now
    works = _works(seen)
    brief, documents = folded(state.brief), document_views(seen.agent, state, whole=seen.whole)
    steps, older = _steps(seen)
    calls = list(_calls(seen))
    return JourneyPageView(
        id=seen.journey,
        address=address_of(seen.journey),
        title=sanitize_line(_titled(state.brief)),
        agent=sanitize_line(state.agent),
        brief=folded(state.brief, len(state.brief)) if seen.whole else brief,
        inputs=fields_of(state.inputs),
        status=state.status,
        phase=sanitize_line(state.phase),
        visit=state.visit,
        version=state.version,
        principal=sanitize_line(state.principal),
        started=moment(state.started_at, now),
        moved=moment(state.moved_at, now),
        forked_from=_fork(state),
        trouble=sanitize_line(seen.trouble),
        phase_gone=seen.agent is not None and all(phase.name != state.phase for phase in seen.agent.graph.phases),
        asked=_asked(seen),
        missing=[folded(f.text) for f in state.feedback if (f.version, f.phase) == (state.version, state.phase)],
        back=_why_back(state),
        pictures=pictures(_graph(seen), travelled(state, seen.log)),
        conversation=sanitize_line(state.conversation[:200]),
        answers=answer_views(state),
        feedback=feedback_views(state),
        conversations=conversation_views(state, seen.log),
        documents=documents,
        newest=seen.newest,
        works=works,
        steps=steps,
        older=older,
        calls=calls[:CALLS_SHOWN],
        calls_left_out=max(0, len(calls) - CALLS_SHOWN),
        rows=_rows(seen),
        proposals=[proposal_line(proposal, now) for proposal in seen.proposals],
        earlier=[spelled_out(name) for name in state.phase_visits if _can_return(seen, name)],
        folded=not seen.whole
        and (
            bool(brief.left_out)
            or any(work.content.folded for work in works)
            or any(one.text.left_out for one in documents)
        ),
    )


def _fork(state: JourneyState) -> JourneyFork | None:
    if not state.forked_from:
        return None
    return JourneyFork(sanitize_line(state.forked_from), address_of(state.forked_from), state.forked_at)


def _can_return(seen: JourneyPageData, phase: str) -> bool:
    there = seen.agent is None or any(phase == one.name for one in seen.agent.graph.phases)
    return there and phase != seen.state.phase


def _graph(seen: JourneyPageData) -> PhaseGraph:
    """Return the agent's graph; of an agent that is gone what the journey shows of it."""
    if seen.agent is not None:
        return seen.agent.graph
    first = next((logged.event.phase for logged in seen.log if isinstance(logged.event, Started)), seen.state.phase)
    return PhaseGraph(seen.state.agent, (Phase(first),), (), first, ())


def travelled(state: JourneyState, log: Iterable[Logged]) -> Travelled:
    """Return the way that the journey took through its phases."""
    moves: dict[Move, int] = {}
    for logged in log:
        if isinstance(event := logged.event, PhaseChanged):
            move = Move(event.source, event.target, event.reason, event.is_backward)
            moves[move] = moves.get(move, 0) + 1
    return Travelled(state.phase, state.status, state.phase_visits, moves)


def _asked(seen: JourneyPageData) -> CheckpointView | None:
    state, asked = seen.state, seen.state.checkpoint
    if asked is None:
        return None
    usual = f"Continue from {asked.phase} to {asked.target}?"
    return CheckpointView(
        phase=sanitize_line(asked.phase),
        target=sanitize_line(asked.target),
        kind=asked.kind,
        own_hand=asked.own_hand,
        question=folded(TO_ANSWER if asked.asks else question(seen.agent, state) if seen.agent else usual),
        questions=question_views(state),
        since=moment(asked.since, seen.now),
        work=work_view(state, asked.phase, whole=seen.whole) if asked.phase in state.work else None,
    )


def _works(seen: JourneyPageData) -> list[WorkView]:
    """Return what was recorded, newest first."""
    names = sorted(seen.state.work, key=lambda name: -seen.state.work[name].seq)
    return [work_view(seen.state, name, whole=seen.whole) for name in names]


def _why_back(state: JourneyState) -> Markup:
    if state.backward_trigger is None or state.over:
        return Markup("")
    detail = f": {state.backward_trigger_detail}" if state.backward_trigger_detail else ""
    return sanitize_line(f"{state.backward_trigger}{detail}"[:1_000])


# --- the timeline -----------------------------------------------------------------------------------------------------


def _steps(seen: JourneyPageData) -> tuple[list[VersionView], int]:
    """Return a page of steps, newest first, and the version below which to go on, 0 at the end."""
    versions = [(version, list(events)) for version, events in groupby(seen.log, key=lambda logged: logged.version)]
    shown, before = list[VersionView](), None
    for version, events in versions:
        if seen.before is None or version < seen.before:
            shown.append(_step(version, events, before, seen.now))
        before = events[0].at
    newest = shown[-STEPS_SHOWN:]
    return newest[::-1], newest[0].version if len(newest) < len(shown) else 0


def _step(version: int, events: Sequence[Logged], before: datetime | None, now: datetime) -> VersionView:
    first = events[0]
    return VersionView(
        version=version,
        at=moment(first.at, now),
        by=sanitize_line(first.by),
        took=lasting(max(0.0, (first.at - before).total_seconds())) if before else "",
        said=[said for logged in events if (said := said_of(logged.event)) is not None],
        calls=sum(isinstance(logged.event, ToolStart) for logged in events),
    )


def said_of(event: Event) -> TimelineSentence | None:
    """Return what happened in a sentence; None for calls of tools, which have a list of their own."""
    match event:
        case Started(phase=phase):
            return TimelineSentence("step", _told("Started in {0}.", phase))
        case Forked(of, at_version):
            return TimelineSentence("step", _told("Forked from {0} at version {1}.", of, str(at_version)))
        case WorkRecorded():
            return _recorded(event)
        case PhaseChanged():
            return _moved(event)
        case CheckpointReached(phase, kind=kind, asks=asks):
            return TimelineSentence(
                "person",
                _told("Asked a person questions from {0}." if asks else ASKED.get(kind, ASKED["blocking"]), phase),
            )
        case Decided():
            return _decided(event)
        case FeedbackAdded(kind, phase, text):
            return TimelineSentence(
                "missing", _told("Incomplete in {0} ({1}):", phase, kind.replace("_", " ")), _text(text)
            )
        case Completed():
            return TimelineSentence("move", Markup("The work is complete."))
        case _:
            return _noted(event)


def _noted(event: Event) -> TimelineSentence | None:
    match event:
        case Thinking(text):
            return TimelineSentence("note", Markup("Agent's reasoning:"), _text(text))
        case Speaking(text):
            return TimelineSentence("note", Markup("Told to the person:"), _text(text))
        case QuestionAdded(question_id, text, category):
            where = f"{question_id}, {category}" if category else question_id
            return TimelineSentence("note", _told("Question added ({0}):", where), _text(text))
        case SourceFound(source, title):
            return TimelineSentence("note", _told("Source found: {0}", f"{title} ({source})" if title else source))
        case ErrorRaised(error):
            return TimelineSentence("missing", Markup("Something failed:"), _text(error))
        case _:
            return None


def _moved(event: PhaseChanged) -> TimelineSentence:
    way = "Returned from {0} to {1}: {2}." if event.is_backward else "Moved from {0} to {1}: {2}."
    why = "no condition" if event.reason == ALWAYS else event.reason
    facts = {"conversation": event.conversation} if event.conversation else {}
    facts |= {"conversations": "all start again"} if event.anew else {}
    kind = "back" if event.is_backward else "move"
    return TimelineSentence(kind, _told(way, event.source, event.target, why), _text(event.detail), fields_of(facts))


def _decided(event: Decided) -> TimelineSentence:
    how = CHANNELS.get(event.channel, event.channel)
    sentence = _told("Response from a person: {0}, in {1}, {2}.", event.decision, event.phase, how)
    answers = {one.get("question", "")[:500]: one.get("answer", "") for one in event.answers.values()}
    return TimelineSentence("person", sentence, _text(event.note), fields_of({**_object(event.changes), **answers}))


def _recorded(event: WorkRecorded) -> TimelineSentence:
    facts = response_facts(event.usage, event.signals, event.confidence, event.reasoning, event.conversation)
    way = "The server ran {0}, visit {1}." if event.automatic else "Work on {0} was recorded, visit {1}."
    return TimelineSentence("work", _told(way, event.phase, str(event.visit)), None, fields_of(facts))


def _told(sentence: str, *parts: str) -> Markup:
    named = [Markup("<bdi><strong>{0}</strong></bdi>").format(sanitize_line(part[:500])) for part in parts]
    return Markup(sentence).format(*named)  # noqa: S704 - sentences of this file


def _text(text: str) -> ShownText | None:
    return folded(text) if text else None


def _object(value: Any) -> Mapping[str, Any]:
    return {str(name): part for name, part in value.items()} if isinstance(value, Mapping) else {}


# --- calls of tools ---------------------------------------------------------------------------------------------------


def _calls(seen: JourneyPageData) -> Iterable[CallView]:
    """Yield the calls, newest first."""
    ended = {
        logged.event.call: logged.event for logged in seen.log if isinstance(logged.event, ToolSuccess | ToolError)
    }
    started = {logged.event.call for logged in seen.log if isinstance(logged.event, ToolStart)}
    for logged in reversed(seen.log):
        event = logged.event
        if isinstance(event, ToolStart):
            yield _call(logged, event, ended.get(event.call), seen.now)
        elif isinstance(event, ToolError) and event.call not in started:
            refused = ToolStart(event.call, event.tool, "")
            yield _call(logged, refused, event, seen.now)


def _call(logged: Logged, begun: ToolStart, end: ToolSuccess | ToolError | None, now: datetime) -> CallView:
    told = begun.summary
    if isinstance(end, ToolError):
        told = end.error
    elif end is not None:
        told = "; ".join(part for part in (begun.summary, end.summary, _facts(end.facts)) if part)
    return CallView(
        tool=sanitize_line(begun.tool),
        phase=sanitize_line(begun.phase),
        at=moment(logged.at, now),
        outcome="under way" if end is None else "failed" if isinstance(end, ToolError) else "answered",
        took=f"{end.duration_ms:,.0f} ms" if end else "",
        told=sanitize_line(told[:1_000]),
        arguments_hash=begun.arguments_hash,
    )


def _facts(facts: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(facts.items()) if value not in (None, ""))


def proposals_in(log: Iterable[Logged]) -> list[str]:
    """Return the proposals that calls of the journey made, newest first."""
    found = [logged.event.facts.get("proposal") for logged in log if isinstance(logged.event, ToolSuccess)]
    return list(dict.fromkeys(str(one) for one in reversed(found) if one))


# --- what it took -----------------------------------------------------------------------------------------------------


def _rows(seen: JourneyPageData) -> list[RowView]:
    order = [phase.name for phase in seen.agent.graph.phases] if seen.agent else []
    rows = table(seen.state, seen.until, order=order, waited=waits(seen.log, seen.until))
    slow, dear = slowest(rows), costliest(rows)
    by_itself = {phase.name for phase in seen.agent.graph.phases if phase.automatic} if seen.agent else set[str]()
    return [
        RowView(
            phase=sanitize_line(row.phase),
            row=row,
            time=lasting(row.seconds),
            waited=lasting(row.waited_s) if row.waited_s else "",
            each=lasting(row.seconds_per_visit),
            automatic=row.phase in by_itself,
            slowest=len(rows) > 1 and row == slow,
            costliest=len(rows) > 1 and row == dear,
        )
        for row in rows
    ]
