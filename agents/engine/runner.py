"""Leading journeys: the one place where an agent, the record and what conditions look at meet.

Whatever is answered can be told from the record alone, so that a lost answer can be had again, by any host and process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from agents.bounds import BACK_TO, MOST_BRIEF_CHARS, MOST_WORK_CHARS, changes_excess, json_excess, submit_excess
from agents.catalogue import Catalogue
from agents.engine.agent import Agent
from agents.engine.decide import decided, modified, started, step_key, submitted
from agents.engine.evaluation import Judged, Looking, SubmissionJudge
from agents.engine.events import (
    Channel,
    CheckpointReached,
    Decided,
    Decision,
    Event,
    FeedbackAdded,
    Json,
    Logged,
    PhaseChanged,
    Speaking,
    Started,
    Step,
    StepUsage,
    Thinking,
    WorkRecorded,
    canonical,
    newest_steps,
)
from agents.engine.fold import fold
from agents.engine.graph import Phase, PhaseGraph, advance
from agents.engine.progress.automatic_phases import AutomaticPhases, placed, speaker_of
from agents.engine.progress.fork import fork
from agents.engine.progress.position import JourneyPosition, as_kept
from agents.engine.state import JourneyState
from agents.engine.work.answers import refusals, repeated_questions, unanswerable, unanswered_in
from agents.engine.work.form import MOST_PROBLEMS, blank, duplicate_ids, joined
from agents.engine.work.validation_errors import answers, elsewhere, over_budget
from agents.errors import (
    BadStart,
    BadWork,
    JourneyOver,
    NoSuchAgent,
    NotToDecide,
    StaleJourney,
    WaitsForPerson,
)
from agents.prompts.prompt import prompt
from agents.store.codec import first_event, state_of_log
from agents.store.ports import Appended, JourneyStore
from knowledge.tokens import count_tokens

FORK_OF, AT_VERSION = "fork_of", "at_version"
PRESENT = "the present phase"
ASKED_AGAIN = timedelta(minutes=5)
"""So long a start that is asked for again may be the same one, whose answer was lost."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What a host submits. `work` joins what is recorded already; `signals` are hints that a condition may confirm."""

    work: Mapping[str, Json]
    signals: tuple[str, ...] = ()
    usage: StepUsage = field(default_factory=StepUsage)
    conversation: str = ""
    confidence: float | None = None
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class JourneyDecision:
    """What a person says about a journey, and by which way it came here. `changes` of a `revisit` name the phase."""

    decision: Decision
    channel: Channel
    note: str = ""
    changes: Mapping[str, Json] = field(default_factory=dict)


class Runner:
    """Leads journeys of any agent. Every method is answered from the record; whoever asks again is answered the same."""

    def __init__(
        self,
        store: JourneyStore,
        catalogue: Catalogue,
        looking: Looking,
        *,
        now: Callable[[], datetime],
        chance: Callable[[], str],
        handle: Callable[[], str] | None = None,
    ) -> None:
        """Lead journeys. `chance` tells conversations apart, `handle` (if given, else `chance`) ends the id of a new journey."""
        self.store, self.catalogue = store, catalogue
        self._now, self._handle = now, handle or chance
        self._judge = SubmissionJudge(looking, now)
        self._onward = AutomaticPhases(self._judge, chance)

    async def position(self, journey: str, *, version: int | None = None, unled: bool = False) -> JourneyPosition:
        """Return where the journey stands, or stood at that version. `unled`: one whose agent is gone will do.

        Raises:
            NoSuchJourney, NoSuchAgent: there is none, or its agent is gone.
        """
        state = await self.store.journey(journey, version=version)
        return JourneyPosition(journey, await self._leading(state, unled=unled), state)

    async def _leading(self, state: JourneyState, *, unled: bool) -> Agent:
        try:
            return await self.catalogue.agent(state.agent)
        except NoSuchAgent:
            if not unled:
                raise
            return _remembered(state)

    async def start(
        self, agent: str, brief: str, inputs: Mapping[str, Json], *, by: str, repeatable: bool = True
    ) -> JourneyPosition:
        """Begin a journey; with `fork_of` in the inputs, where that one stood at version `at_version` (or stands).

        Whoever asks for the same within `ASKED_AGAIN` gets the journey that they began, while nobody has moved it, and not a
        second one: their answer may have been lost. A fork is begun as often as it is asked for, and so is any journey that is not
        `repeatable`, because `by` stands for several callers.

        Raises:
            NoSuchAgent, NoSuchJourney, BadStart: it cannot begin; nothing is recorded.
        """
        if FORK_OF in inputs:
            return await self._forked(agent, brief, inputs, by=by)
        chosen = await self.catalogue.agent(agent)
        problems = _start_problems(chosen, brief, inputs)
        if problems:
            raise BadStart(f"no {chosen.name} journey was started: {'; '.join(problems)}")
        journey = f"{chosen.name}-{self._handle()}"
        speaker = chosen.graph.phase(chosen.graph.initial).speaker or chosen.name
        conversation = self._onward.conversation(speaker, 1, ())
        begun = started(chosen.graph, Started(chosen.name, brief, "", by, dict(inputs), conversation))
        at = self._now()
        first = first_event(begun, by, at)
        log = [first]
        if chosen.graph.phase(begun.phase).automatic:
            here = JourneyPosition(journey, chosen, fold(log))
            more = await self._onward.after(here, (), first.version, at=at, by=by)
            log += [replace(logged, key="") for logged in placed(here.state, more, first.version, by, at)]
        since = at - ASKED_AGAIN if repeatable else at + timedelta(microseconds=1)
        there = await self.store.begin(journey, log, since=since)
        return replace(await self.position(there.journey), repeated=there.repeated)

    async def _forked(self, agent: str, brief: str, inputs: Mapping[str, Json], *, by: str) -> JourneyPosition:
        of, at_version = inputs[FORK_OF], inputs.get(AT_VERSION)
        extra = sorted(set(inputs) - {FORK_OF, AT_VERSION})
        if not isinstance(of, str) or not (at_version is None or _whole(at_version)) or extra:
            raise BadStart(
                "a fork takes `fork_of` (a journey's id) and `at_version` (a whole number), and keeps all other inputs"
            )
        origin = await self.position(of)
        if agent not in ("", origin.agent.name):
            raise BadStart(
                f"journey {of} is a journey of {origin.agent.name}, not of {agent[:60]!r}: a fork keeps its agent"
            )
        at = origin.state.version if at_version is None else at_version
        journey = f"{origin.agent.name}-{self._handle()}"
        stood = origin.state if at == origin.state.version else await self.store.journey(of, version=at)
        # Whoever goes on in the other journey's conversations would know what happens there.
        speaker = speaker_of(origin.agent.graph, stood.phase) or origin.agent.name
        new = self._onward.conversation(speaker, stood.iteration, stood.conversations.values())
        forked = await fork(self.store, of, at, journey=journey, by=by, at=self._now(), conversation=new)
        if brief.strip():
            # The brief stays what it was; what is to be different this time is the person's word on it.
            there = await self.store.journey(journey)
            said = Decided("answer", "relayed", there.phase, brief[:MOST_BRIEF_CHARS])
            key = step_key(journey, forked.version, brief)
            await self.store.append(journey, [said], expected=forked.version, key=key, by=by, at=self._now())
        return await self.position(journey)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over the log of a journey from elsewhere. Where its agent is not known here, it can be looked at and no more.

        Raises:
            BadLog, BadStart, JourneyExists: it is no journey that its agent here could go on with; nothing is recorded.
        """
        state = state_of_log(log)
        problems = await self._validation_errors(state)
        if problems:
            raise BadStart(f"the journey cannot be led by {state.agent} here: {'; '.join(problems[:MOST_PROBLEMS])}")
        return await self.store.adopt(journey, log)

    async def _validation_errors(self, state: JourneyState) -> list[str]:
        """Return which recorded works are not as the agent asks for them today."""
        try:
            forms = (await self.catalogue.agent(state.agent)).forms
        except NoSuchAgent:
            return []
        works = [(phase, forms[phase], kept.content) for phase, kept in state.work.items() if phase in forms]
        return [f"its work on {phase}: {told}" for phase, form, work in works for told in form.problems(work)]

    async def submit(self, journey: str, version: int, submission: Submission, *, by: str) -> JourneyPosition:
        """Record work, go where its conditions lead, and return where the journey stands then.

        The same submission at the same version again changes nothing and is answered with where it led.

        Raises:
            StaleJourney: somebody else moved it first.
            BadWork: the work does not fit; JourneyOver, WaitsForPerson: none can be submitted now. Nothing is recorded.
        """
        excess = json_excess(submission.work, MOST_WORK_CHARS)
        excess += submit_excess(submission.signals, submission.usage, submission.conversation)
        if excess:
            raise BadWork(journey, PRESENT, excess)
        key = step_key(journey, version, _content(submission))
        here, known = await self._asked(journey, key)
        if known:
            return here
        await self._require(here, version)
        if here.state.over:
            raise JourneyOver(journey, here.state.status)
        if here.state.status == "waiting":
            raise WaitsForPerson(journey, here.state.phase)
        if here.phase.automatic:
            # It was not when the journey came here. Whatever is submitted, the server does the work.
            return await self._record(here, (), (), key=key, by=by)
        work = self._fitting(here, submission.work)
        usage = submission.usage
        if not (usage.tokens_in or usage.tokens_out):
            usage = _counted(here, submission, usage.model)
        judged = await self._judge.judged(here, work, submission.work, submission.signals, usage)
        _require_askable(here, work, judged)
        await self._require_not_rejected(here, work, judged)
        recorded = WorkRecorded(
            here.state.phase,
            here.state.visit,
            work,
            submission.signals,
            usage,
            submission.confidence,
            submission.reasoning,
            submission.conversation,
        )
        steps = submitted(here.agent.graph, journey, here.state, recorded, judged.met, detail=judged.detail)
        feedback = [FeedbackAdded("validation", here.state.phase, text) for text in judged.missing]
        notes = here.agent.told(here.state.phase, here.before, work)
        return await self._record(here, [*steps, *judged.feedback, *feedback], notes, key=key, by=by)

    async def decide(self, journey: str, version: int, opinion: JourneyDecision, *, by: str) -> JourneyPosition:
        """Record a person's word and what follows from it; `by` is the person, or the host that relays it.

        Raises:
            StaleJourney, NotToDecide, NeedsOwnHand, JourneyOver, BadWork: nothing is recorded.
        """
        if excess := changes_excess(opinion.decision, opinion.changes):
            raise NotToDecide(journey, opinion.decision, "; ".join(excess))
        form = [opinion.decision, opinion.channel, opinion.note, opinion.changes]
        key = step_key(journey, version, form)
        # To end a journey nobody has to know its agent.
        here, known = await self._asked(journey, key, unled=opinion.decision == "cancel")
        if known:
            return here
        await self._require(here, version)
        changes = as_kept(dict(opinion.changes)) or None
        word = Decided(opinion.decision, opinion.channel, here.state.phase, opinion.note, changes)
        judged, target = Judged(), ""
        if opinion.decision == "answer":
            word = replace(word, changes=None, answers=answers(here.journey, here.state, opinion.changes, opinion.note))
        elif opinion.decision == "revisit":
            target = self._back_to(here, opinion)
        elif opinion.decision == "modify" and changes is not None and here.state.checkpoint is not None:
            judged = await self._modified(here, changes)
        steps = decided(here.agent.graph, journey, here.state, word, judged.met, target=target)
        at = here.state.checkpoint.phase if here.state.checkpoint else here.state.phase
        feedback = [FeedbackAdded("validation", at, text) for text in judged.missing]
        return await self._record(here, [*steps, *judged.feedback, *feedback], (), key=key, by=by)

    def _back_to(self, here: JourneyPosition, opinion: JourneyDecision) -> str:
        target = opinion.changes.get(BACK_TO)
        graph, been = here.agent.graph, here.state.phase_visits
        phases = [phase.name for phase in graph.phases if phase.name in been and phase.name not in graph.complete]
        if target not in phases:
            ways = ", ".join(name for name in phases if name != here.state.phase) or "none yet"
            raise NotToDecide(here.journey, "revisit", f"say where to in changes.{BACK_TO}: {ways}")
        return str(target)

    async def _modified(self, here: JourneyPosition, changes: Mapping[str, Json]) -> Judged:
        asked = here.state.checkpoint
        if asked is None or asked.phase not in here.state.work:
            return Judged()
        work = modified(here.state.work[asked.phase].content, changes)
        there = JourneyPosition(here.journey, here.agent, replace(here.state, phase=asked.phase))
        form = here.agent.forms.get(asked.phase)
        problems = (form.problems(work) if form else ()) or (duplicate_ids(work) if isinstance(work, dict) else ())
        if problems:
            raise BadWork(here.journey, asked.phase, problems)
        judged = await self._judge.judged(there, work, work, ())
        _require_askable(there, work, judged)
        return judged

    async def _asked(self, journey: str, key: str, *, unled: bool = False) -> tuple[JourneyPosition, bool]:
        """Return where the act with that key led, if it is on record, and else where the journey stands; and which of both.

        `unled`: a journey whose agent is gone will do.
        """
        found = await self.store.head(journey, key)
        agent = await self._leading(found.state, unled=unled)
        if found.kept is None or found.kept == found.state.version:
            return JourneyPosition(journey, agent, found.state), found.kept is not None
        return JourneyPosition(journey, agent, await self.store.journey(journey, version=found.kept)), True

    async def _require(self, here: JourneyPosition, version: int) -> None:
        """Return if the caller has seen the newest version; the store compares once more when it writes."""
        if here.state.version == version:
            return
        missed = [e for e in await self.store.events(here.journey) if e.version > version]
        raise StaleJourney(here.journey, version, here.state.version, newest_steps(missed))

    async def _require_not_rejected(self, here: JourneyPosition, work: Json, judged: Judged) -> None:
        """Return if what a person rejected, where the way leads past questions, changed before they are asked again.

        Raises:
            BadWork: it did not.
        """
        phase = here.state.phase
        taken = advance(here.agent.graph, phase, judged.met)
        asked = unanswered_in(work, taken.asks, here.state.answers.get(phase, {})) if taken and taken.asks else {}
        if asked and (told := repeated_questions(asked, refusals(await self.store.events(here.journey), phase))):
            raise BadWork(here.journey, phase, told[:MOST_PROBLEMS])

    def _fitting(self, here: JourneyPosition, given: Mapping[str, Json]) -> dict[str, Json]:
        """Return the phase's work with what was given.

        Raises:
            BadWork: it does not fit.
        """
        form = here.agent.forms.get(here.phase.name)
        if form is None:
            raise BadWork(here.journey, here.state.phase, ["this phase takes no work"])
        plain, before = as_kept(dict(given)), here.before
        if before is not None and form.problems(before):  # an older version of the agent took it: it begins anew
            before = None
        work = joined(before, plain, form.asks)
        problems = form.problems(work) or duplicate_ids(plain) or json_excess(work, MOST_WORK_CHARS)
        if problems:
            raise BadWork(here.journey, here.state.phase, [*elsewhere(here.agent, here.state, plain), *problems])
        if excess := over_budget(here.agent, here.state, work):
            raise BadWork(here.journey, here.state.phase, excess)
        return work

    async def _record(
        self, here: JourneyPosition, steps: Sequence[Step], notes: Sequence[Event], *, key: str, by: str
    ) -> JourneyPosition:
        at = self._now()
        onward = await self._onward.after(here, steps, here.state.version + 1, at=at, by=by)
        spoken = [note for step in onward for note in _spoken(here, step)]
        done = await self.store.append(
            here.journey,
            [*onward, *notes, *spoken],
            expected=here.state.version,
            key=key,
            by=by,
            at=at,
            before=here.state,
        )
        if done.state is None:  # somebody else sent the same at the same moment
            return await self.position(here.journey, version=done.version)
        return replace(here, state=done.state)


def _require_askable(here: JourneyPosition, work: Json, judged: Judged) -> None:
    """Return if a person can answer what the work asks them, where the way leads past questions.

    Raises:
        BadWork: they cannot.
    """
    taken = advance(here.agent.graph, here.state.phase, judged.met)
    if taken is not None and taken.asks and (told := unanswerable(work, taken.asks)):
        raise BadWork(here.journey, here.state.phase, told[:MOST_PROBLEMS])


def _remembered(state: JourneyState) -> Agent:
    """Return what is left of an agent that is gone: its name, and the phase in which the journey stands."""
    graph = PhaseGraph(state.agent, (Phase(state.phase),), (), state.phase, ())
    return Agent(state.agent, state.agent, "", graph, forms={}, conditions={}, texts={}, origin="gone")


def _spoken(here: JourneyPosition, step: Step) -> Sequence[Event]:
    """Return what the agent says about a step: that it returns, or what a person is asked or told."""
    if isinstance(step, PhaseChanged) and step.is_backward:
        why = step.reason + (f": {step.detail}" if step.detail else "")
        return (Thinking(f"returning to {step.target}, {why}"),)
    if isinstance(step, CheckpointReached):
        text = here.agent.questions.get(step.phase) or f"{step.phase} is done; next is {step.target}"
        return (Speaking(text),)
    return ()


def _content(submission: Submission) -> Json:
    s = submission
    return [
        dict(s.work),
        list(s.signals),
        [s.usage.tokens_in, s.usage.tokens_out, s.usage.model],
        s.conversation,
        s.confidence,
        s.reasoning,
    ]


def _counted(here: JourneyPosition, submission: Submission, model: str) -> StepUsage:
    shown = count_tokens(prompt(here.agent, here.state))
    return StepUsage(shown, count_tokens(canonical(dict(submission.work))), model, counted=True)


def _start_problems(agent: Agent, brief: str, inputs: Mapping[str, Json]) -> list[str]:
    problems = []
    if blank(brief):
        problems.append("the brief is empty; say what the work is about")
    if len(brief) > MOST_BRIEF_CHARS:
        problems.append(f"the brief has {len(brief)} characters, at most {MOST_BRIEF_CHARS} are taken")
    problems += [f"of the inputs, {told}" for told in json_excess(inputs, MOST_BRIEF_CHARS)]
    known = agent.inputs.get("properties", {})
    takes = f"it takes {', '.join(known) or 'none'}, or fork_of and at_version"
    problems += [f"there is no input {name[:60]!r}; {takes}" for name in inputs if name not in known]
    problems += [f"the input {name!r} is missing" for name in agent.inputs.get("required", ()) if name not in inputs]
    if known and not problems:
        from agents.spec.schema.work_form import SchemaForm  # what checks schemas is loaded where there is one

        problems += [f"input {told}" for told in SchemaForm(agent.inputs).problems(dict(inputs))]
    return problems or [f"input {told}" for told in agent.refuses(inputs)]


def _whole(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
