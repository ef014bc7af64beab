"""Leading journeys: the one place where agents, the record, and the data behind conditions come together.

Every answer can be computed from the record alone, so a lost answer can be asked for again, from any host and process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from agents.bounds import BACK_TO, MOST_BRIEF_CHARS, MOST_WORK_CHARS, changes_excess, json_excess, submit_excess
from agents.catalogue import Catalogue
from agents.engine.agent import Agent
from agents.engine.decide import change_problems, decision_steps, merge_patch, require_active, step_key, submit_steps
from agents.engine.evaluation import Judged, Looking, SubmissionJudge
from agents.engine.events import (
    Channel,
    CheckpointReached,
    Decided,
    Decision,
    FeedbackAdded,
    Json,
    Logged,
    Note,
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
from agents.engine.evidence.second_judge import SecondJudge, SubstanceJudge
from agents.engine.fold import fold
from agents.engine.graph import Phase, PhaseGraph, advance
from agents.engine.progress.automatic_phases import AutomaticPhases, placed, speaker_of
from agents.engine.progress.fork import fork
from agents.engine.progress.position import JourneyPosition, as_recorded
from agents.engine.state import JourneyState
from agents.engine.work.answers import refusals, repeated_questions, unanswerable, unanswered_in
from agents.engine.work.form import MOST_PROBLEMS, blank, duplicate_ids, joined
from agents.engine.work.several import Recorded, apart, by_phase, misplaced
from agents.engine.work.validation_errors import answers, budget_excess, other_phase
from agents.errors import AgentError, BadStart, BadWork, JourneyOver, NoSuchAgent, NotToDecide, StaleJourney
from agents.prompts.prompt import prompt
from agents.spec.schema.work_form import SchemaForm
from agents.store.codec import first_event, state_of_log
from agents.store.ports import Appended, JourneyStore
from knowledge.tokens import count_tokens

FORK_OF, AT_VERSION = "fork_of", "at_version"
PRESENT = "the present phase"
RETRY_WINDOW = timedelta(minutes=5)
"""A start that is repeated within this time may be a retry whose first answer was lost."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A host's submission. `work` is joined with the recorded work; `signals` are hints that a condition may confirm."""

    work: Mapping[str, Json]
    signals: tuple[str, ...] = ()
    usage: StepUsage = field(default_factory=StepUsage)
    conversation: str = ""
    confidence: float | None = None
    reasoning: str = ""
    follows: bool = False
    """Whether it is a later part of a submission by phases, which had no prompt of its own."""


@dataclass(frozen=True, slots=True)
class JourneyDecision:
    """A person's decision about a journey, and the channel by which it came. `changes` of a `revisit` name the phase."""

    decision: Decision
    channel: Channel
    note: str = ""
    changes: Mapping[str, Json] = field(default_factory=dict)


class Runner:
    """Leads the journeys of all agents. Each method answers from the record; a retry gets the same answer."""

    def __init__(
        self,
        store: JourneyStore,
        catalogue: Catalogue,
        looking: Looking,
        *,
        now: Callable[[], datetime],
        chance: Callable[[], str],
        handle: Callable[[], str] | None = None,
        substance: SubstanceJudge | None = None,
    ) -> None:
        """Lead journeys. `chance` returns the random end of the name of a conversation.

        `handle` returns the random end of the id of a journey; by default it is `chance`.

        `substance` is a model that is asked whether texts follow from their quotes.
        """
        self.store, self.catalogue = store, catalogue
        self._now, self._handle = now, handle or chance
        self._judge = SubmissionJudge(looking, now)
        self._second = SecondJudge(substance, store) if substance else None
        self._automatic = AutomaticPhases(self._judge, chance)

    async def position(
        self, journey: str, *, version: int | None = None, agent_gone_ok: bool = False
    ) -> JourneyPosition:
        """Return the position of the journey, now or at that version. `agent_gone_ok`: its agent may no longer exist.

        Raises:
            NoSuchJourney, NoSuchAgent: there is no such journey, or its agent no longer exists.
        """
        state = await self.store.journey(journey, version=version)
        return JourneyPosition(journey, await self._agent_of(state, agent_gone_ok=agent_gone_ok), state)

    async def _agent_of(self, state: JourneyState, *, agent_gone_ok: bool) -> Agent:
        try:
            return await self.catalogue.agent(state.agent)
        except NoSuchAgent:
            if not agent_gone_ok:
                raise
            graph = PhaseGraph(state.agent, (Phase(state.phase),), (), state.phase, ())
            return Agent(state.agent, state.agent, "", graph, forms={}, conditions={}, texts={}, origin="gone")

    # --- beginning --------------------------------------------------------------------------------------------------------

    async def start(
        self, agent: str, brief: str, inputs: Mapping[str, Json], *, by: str, repeatable: bool = True
    ) -> JourneyPosition:
        """Begin a journey. With `fork_of` in the inputs, continue that journey from version `at_version` (or now) as a new one.

        A retry within `RETRY_WINDOW` returns the journey of the first call if it has not moved since: the answer may have been
        lost. Every request for a fork starts one, and so does a start that is not `repeatable` because `by` may be several callers.

        Raises:
            NoSuchAgent, NoSuchJourney, BadStart: it cannot begin; nothing is recorded.
        """
        if FORK_OF in inputs:
            return await self._fork(agent, brief, inputs, by=by)
        chosen = await self.catalogue.agent(agent)
        problems = _start_problems(chosen, brief, inputs)
        if problems:
            raise BadStart(f"no {chosen.name} journey was started: {'; '.join(problems)}")
        journey = f"{chosen.name}-{self._handle()}"
        initial = chosen.graph.phase(chosen.graph.initial)
        conversation = self._automatic.conversation(initial.speaker or chosen.name, 1, ())
        begun = Started(chosen.name, brief, initial.name, by, dict(inputs), conversation)
        at = self._now()
        first = first_event(begun, by, at)
        log = [first]
        if initial.automatic:
            here = JourneyPosition(journey, chosen, fold(log))
            steps = await self._automatic.extend(here, (), first.version, at=at, by=by)
            log += [replace(logged, key="") for logged in placed(here.state, steps, first.version, by, at)]
        # A limit just after this moment finds no earlier start, so a journey always begins.
        since = at - RETRY_WINDOW if repeatable else at + timedelta(microseconds=1)
        there = await self.store.begin(journey, log, since=since)
        return replace(await self.position(there.journey), repeated=there.repeated)

    async def _fork(self, agent: str, brief: str, inputs: Mapping[str, Json], *, by: str) -> JourneyPosition:
        of, at_version = inputs[FORK_OF], inputs.get(AT_VERSION)
        # A bool is an int to Python, and `true` is no version.
        number = at_version is None or (isinstance(at_version, int) and not isinstance(at_version, bool))
        if not isinstance(of, str) or not number or set(inputs) - {FORK_OF, AT_VERSION}:
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
        state = origin.state if at == origin.state.version else await self.store.journey(of, version=at)
        # A new conversation, because the host's old one knows what happened later in the other journey.
        speaker = speaker_of(origin.agent.graph, state.phase) or origin.agent.name
        new = self._automatic.conversation(speaker, state.iteration, state.conversations.values())
        forked = await fork(self.store, of, at, journey=journey, by=by, at=self._now(), conversation=new)
        if brief.strip():
            # The brief stays the same. The new text is recorded as the person's request for a change.
            there = await self.store.journey(journey)
            word = Decided("answer", "relayed", there.phase, brief[:MOST_BRIEF_CHARS])
            key = step_key(journey, forked.version, by, brief)
            await self.store.append(journey, [word], expected=forked.version, key=key, by=by, at=self._now())
        return await self.position(journey)

    async def adopt(self, journey: str, log: Sequence[Logged]) -> Appended:
        """Take over the log of a journey from elsewhere. A journey whose agent is unknown here can only be read.

        Raises:
            BadStart: its agent here could not continue it. BadLog, JourneyExists: as the store says. Nothing is recorded.
        """
        state = state_of_log(log)
        try:
            forms = (await self.catalogue.agent(state.agent)).forms
        except NoSuchAgent:
            forms = {}
        problems = [
            f"its work on {phase}: {problem}"
            for phase, kept in state.work.items()
            if phase in forms
            for problem in forms[phase].problems(kept.content)
        ]
        if problems:
            raise BadStart(f"the journey cannot be led by {state.agent} here: {'; '.join(problems[:MOST_PROBLEMS])}")
        return await self.store.adopt(journey, log)

    # --- submitting work --------------------------------------------------------------------------------------------------

    async def submit(self, journey: str, version: int, submission: Submission, *, by: str) -> JourneyPosition:
        """Record work, move to where its conditions lead, and return the new position.

        Works by phase are judged and recorded one after the other, each as a step of its own. The submission ends with the first
        that does not fit, that does not move the journey forward, at which a person is asked, or that is followed by a phase worked
        on apart; `recorded_now` says how far it came.

        Retrying the same submission at the same version changes nothing and returns the same result.

        Raises:
            StaleJourney: somebody else moved the journey first.
            BadWork: the work does not fit; JourneyOver, WaitsForPerson: none can be submitted now. Nothing is recorded.
        """
        # First of all, because an oversized or deeply nested work would already be costly to hash for its key.
        excess = json_excess(submission.work, MOST_WORK_CHARS)
        excess += submit_excess(submission.signals, submission.usage, submission.conversation)
        if excess:
            raise BadWork(journey, PRESENT, excess)
        key = _key(journey, version, submission)
        recent = self.store.recent(journey, version)
        # Saves reading the journey: the append compares key and version with the record, in the transaction that records the step.
        # Whatever is refused is decided again from the record, because the recent state may be out of date.
        with suppress(AgentError):
            if recent is not None and not by_phase(agent := await self.catalogue.agent(recent.agent), submission.work):
                here = JourneyPosition(journey, agent, recent)
                return await self._submit_to(here, version, submission, key=key, by=by)
        here, repeated = await self._load(journey, key)
        if repeated:
            began = await self.store.journey(journey, version=version)
            came_from = _came_from(began, here.state, submission.conversation)
            return replace(here, recorded_now=Recorded((began.phase,)), came_from=came_from)
        if by_phase(here.agent, submission.work):
            return await self._submit_phases(journey, version, submission, by=by)
        return await self._submit_to(here, version, submission, key=key, by=by)

    async def _submit_phases(self, journey: str, version: int, submission: Submission, *, by: str) -> JourneyPosition:
        """Record the works of a submission that holds them by phase, until one of them ends it."""
        left, recorded, why, note = dict(submission.work), list[str](), "", ""
        phase, part = next(iter(left)), submission
        began: JourneyState | None = None
        while True:
            work = left[phase]
            part = replace(part, work=work if isinstance(work, dict) else {})
            key = _key(journey, version, part)
            there, repeated = await self._load(journey, key)
            wrong = () if repeated or recorded else misplaced(there.agent, there.state.phase, submission.work)
            if began is None:
                began = await self.store.journey(journey, version=version) if repeated else there.state
            try:
                here = (
                    there
                    if repeated
                    else await self._submit_to(
                        there, version, part, key=key, by=by, wrong=wrong, since=began.entered_seq, brought=left
                    )
                )
            except (BadWork, StaleJourney, JourneyOver) as error:
                if not recorded:
                    raise
                # The recorded works stay recorded, so this is an answer that says how far it came, and no error.
                why = str(error)
                break
            note = note or here.note
            recorded.append(phase)
            del left[phase]
            if here.state.phase not in left or _ends(here, phase):
                break
            # A reported cost is that of the whole call. It is recorded with the first part.
            phase, version = here.state.phase, here.state.version
            part = replace(submission, usage=StepUsage(model=submission.usage.model), follows=True)
        came_from = _came_from(began, here.state, submission.conversation)
        return replace(here, recorded_now=Recorded(tuple(recorded), tuple(left), why), came_from=came_from, note=note)

    async def _submit_to(
        self,
        here: JourneyPosition,
        version: int,
        submission: Submission,
        *,
        key: str,
        by: str,
        wrong: Sequence[str] = (),
        since: int | None = None,
        brought: Collection[str] = (),
    ) -> JourneyPosition:
        """Record work on the present phase and return where it leads.

        `wrong` lists faults because of which it is refused.

        Conditions see the calls after the event `since`; by default those of the present visit. The host does the phases `brought`
        itself, even if their work follows from the record.

        Raises:
            StaleJourney, BadWork, JourneyOver, WaitsForPerson: nothing is recorded.
        """
        await self._require_newest(here, version)
        require_active(here.journey, here.state)
        if wrong:
            raise BadWork(here.journey, here.state.phase, wrong)
        if here.phase.automatic:
            # The agent was changed while the journey was in this phase. The server does the work, whatever is submitted.
            return await self._record(here, (), (), key=key, by=by)
        seen = here if since is None else replace(here, state=replace(here.state, entered_seq=since))
        steps, notes, note = await self._phase_steps(seen, submission)
        there = await self._record(here, steps, notes, key=key, by=by, brought=brought)
        came_from = _came_from(here.state, there.state, submission.conversation)
        return replace(there, recorded_now=Recorded((here.state.phase,)), came_from=came_from, note=note)

    async def _phase_steps(
        self, here: JourneyPosition, submission: Submission
    ) -> tuple[Sequence[Step], Sequence[Note], str]:
        """Return the steps of work on the present phase, up to the move out of it.

        With them come the notes about the work for the record, and a note for the host ("" if there is none).

        Raises:
            BadWork: it does not fit.
        """
        # The server's own parts are added after the form and the budget of the host's work were checked.
        work = as_recorded(dict(here.agent.completes(here.state, self._joined(here, submission.work))))
        usage = _usage(here, submission)
        judged = await self._judge.judged(here, work, submission.work, submission.signals, usage)
        await self._check_questions(here, work, judged)
        if self._second:
            judged = await self._second.reviewed(here, judged)
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
        steps = submit_steps(here.agent.graph, here.journey, here.state, recorded, judged.met, detail=judged.detail)
        missing = [FeedbackAdded("validation", here.state.phase, text) for text in judged.missing]
        notes = here.agent.notes(here.state.phase, here.recorded, work)
        return [*steps, *judged.feedback, *missing], notes, judged.note

    def _joined(self, here: JourneyPosition, given: Mapping[str, Json]) -> dict[str, Json]:
        """Return the recorded work of the phase with the submission joined in.

        Raises:
            BadWork: it does not fit.
        """
        form = here.agent.forms.get(here.phase.name)
        if form is None:
            raise BadWork(here.journey, here.state.phase, ["this phase takes no work"])
        plain, before = as_recorded(dict(given)), here.recorded
        # An older version of the agent recorded work in another form: it is replaced, not joined.
        work = joined(None if before is not None and form.problems(before) else before, plain, form.asks)
        problems = form.problems(work) or duplicate_ids(plain) or json_excess(work, MOST_WORK_CHARS)
        if problems:
            raise BadWork(here.journey, here.state.phase, [*other_phase(here.agent, here.state, plain), *problems])
        if excess := budget_excess(here.agent, here.state, work):
            raise BadWork(here.journey, here.state.phase, excess)
        return work

    async def _check_questions(
        self, here: JourneyPosition, work: Json, judged: Judged, *, by_person: bool = False
    ) -> None:
        """Check that a person can answer the questions that the work asks, and has not rejected the same set before.

        Raises:
            BadWork: a question cannot be answered, or the whole set was rejected before.
        """
        phase = here.state.phase
        taken = advance(here.agent.graph, phase, judged.met)
        if taken is None or not taken.asks:
            return
        problems = unanswerable(work, taken.asks)
        # A person who changes the work themselves may leave a question in that they rejected before.
        if not problems and not by_person:
            asked = unanswered_in(work, taken.asks, here.state.answers.get(phase, {}))
            log = await self.store.events(here.journey) if asked else ()
            problems = repeated_questions(asked, refusals(log, phase))
        if problems:
            raise BadWork(here.journey, phase, problems[:MOST_PROBLEMS])

    # --- deciding ---------------------------------------------------------------------------------------------------------

    async def decide(self, journey: str, version: int, opinion: JourneyDecision, *, by: str) -> JourneyPosition:
        """Record a person's decision and its consequences; `by` is the person, or the host that relays it.

        A retry by `by` changes nothing. The same decision at the same version by anybody else comes too late.

        Raises:
            StaleJourney, NotToDecide, NeedsOwnHand, JourneyOver, BadWork: nothing is recorded.
        """
        if excess := changes_excess(opinion.decision, opinion.changes):
            raise NotToDecide(journey, opinion.decision, "; ".join(excess))
        key = step_key(journey, version, by, [opinion.decision, opinion.channel, opinion.note, opinion.changes])
        # A journey can be cancelled even if its agent no longer exists.
        here, repeated = await self._load(journey, key, agent_gone_ok=opinion.decision == "cancel")
        if repeated:
            began = await self.store.journey(journey, version=version)
            return replace(here, came_from=_came_from(began, here.state))
        await self._require_newest(here, version)
        state = here.state
        changes = as_recorded(dict(opinion.changes)) or None
        word = Decided(opinion.decision, opinion.channel, state.phase, opinion.note, changes)
        judged = Judged()
        if opinion.decision == "answer":
            word = replace(word, changes=None, answers=answers(journey, state, opinion.changes, opinion.note))
        elif opinion.decision == "modify" and changes is not None:
            judged = await self._judge_changes(here, changes)
        target = str(opinion.changes.get(BACK_TO, "")) if opinion.decision == "revisit" else ""
        steps = decision_steps(here.agent.graph, journey, state, word, judged.met, target=target)
        asked = state.checkpoint.phase if state.checkpoint else state.phase
        missing = [FeedbackAdded("validation", asked, text) for text in judged.missing]
        there = await self._record(here, [*steps, *judged.feedback, *missing], (), key=key, by=by)
        return replace(there, came_from=_came_from(state, there.state))

    async def _judge_changes(self, here: JourneyPosition, changes: Mapping[str, Json]) -> Judged:
        asked = here.state.checkpoint
        if asked is None or asked.phase not in here.state.work:
            return Judged()
        before = here.state.work[asked.phase].content
        work = merge_patch(before, changes)
        there = replace(here, state=replace(here.state, phase=asked.phase))
        form = here.agent.forms.get(asked.phase)
        problems = duplicate_ids(changes) or change_problems(before, changes) or (form.problems(work) if form else ())
        if problems:
            raise BadWork(here.journey, asked.phase, problems[:MOST_PROBLEMS])
        judged = await self._judge.judged(there, work, work, ())
        await self._check_questions(there, work, judged, by_person=True)
        return judged

    # --- the record -------------------------------------------------------------------------------------------------------

    async def _load(self, journey: str, key: str, *, agent_gone_ok: bool = False) -> tuple[JourneyPosition, bool]:
        """Return the position after the act with that key and True if it is already recorded, else the present position and False."""
        head = await self.store.head(journey, key)
        agent = await self._agent_of(head.state, agent_gone_ok=agent_gone_ok)
        state = head.state
        if head.kept is not None and head.kept != state.version:
            state = await self.store.journey(journey, version=head.kept)
        return JourneyPosition(journey, agent, state), head.kept is not None

    async def _require_newest(self, here: JourneyPosition, version: int) -> None:
        # The store compares again when it writes: another process may be faster.
        if here.state.version != version:
            missed = [e for e in await self.store.events(here.journey) if e.version > version]
            raise StaleJourney(here.journey, version, here.state.version, newest_steps(missed))

    async def _record(
        self,
        here: JourneyPosition,
        steps: Sequence[Step],
        notes: Sequence[Note],
        *,
        key: str,
        by: str,
        brought: Collection[str] = (),
    ) -> JourneyPosition:
        """Record the steps, those that follow by themselves, and the notes, as one version; return the new position."""
        at = self._now()
        steps = await self._automatic.extend(here, steps, here.state.version + 1, at=at, by=by, brought=brought)
        messages = [note for step in steps for note in _messages(here.agent, step)]
        done = await self.store.append(
            here.journey,
            [*steps, *notes, *messages],
            expected=here.state.version,
            key=key,
            by=by,
            at=at,
            before=here.state,
        )
        if done.state is None:  # another process recorded the same act at the same moment
            return await self.position(here.journey, version=done.version)
        return replace(here, state=done.state)


def _messages(agent: Agent, step: Step) -> Sequence[Note]:
    """Return the agent's text for a step: a note about a move back, or the question to a person."""
    if isinstance(step, PhaseChanged) and step.is_backward:
        why = step.reason + (f": {step.detail}" if step.detail else "")
        return (Thinking(f"returning to {step.target}, {why}"),)
    if isinstance(step, CheckpointReached):
        text = agent.questions.get(step.phase) or f"{step.phase} is done; next is {step.target}"
        return (Speaking(text),)
    return ()


def _came_from(before: JourneyState, after: JourneyState, conversation: str = "") -> JourneyState | None:
    """Return the state before an act if its host continues in the same conversation, so that its answer need not repeat anything.

    `conversation` is the host's own name for its conversation. A name that is new to the journey means that this host
    was told nothing yet.
    """
    used = {"", before.conversation, *(work.conversation for work in before.work.values())}
    return before if after.conversation == before.conversation and conversation in used else None


def _ends(here: JourneyPosition, phase: str) -> bool:
    """Return whether a submission by phases ends after work on `phase` that led here."""
    state = here.state
    back = bool(state.transition_history) and state.transition_history[-1].is_backward
    asked = state.status != "active" or state.checkpoint is not None
    return asked or back or apart(here.agent.graph, phase, state.phase)


def _usage(here: JourneyPosition, submission: Submission) -> StepUsage:
    """Return the reported cost of a submission, or else the tokens that the server counts."""
    usage = submission.usage
    if usage.tokens_in or usage.tokens_out:
        return usage
    shown = "" if submission.follows else prompt(here.agent, here.state)
    given = canonical(dict(submission.work))
    return StepUsage(count_tokens(shown), count_tokens(given), usage.model, counted=True)


def _key(journey: str, version: int, submission: Submission) -> str:
    # Without the caller: any host may continue a journey, so it may also retry work whose answer another one lost.
    # A retry names the version from before its first attempt, so it is answered before versions are compared.
    return step_key(journey, version, "", _content(submission))


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


def _start_problems(agent: Agent, brief: str, inputs: Mapping[str, Json]) -> list[str]:
    problems = []
    if blank(brief):
        problems.append("the brief is empty; say what the work is about")
    if len(brief) > MOST_BRIEF_CHARS:
        problems.append(f"the brief has {len(brief)} characters, at most {MOST_BRIEF_CHARS} are allowed")
    problems += [f"the inputs: {excess}" for excess in json_excess(inputs, MOST_BRIEF_CHARS)]
    known = agent.inputs.get("properties", {})
    takes = f"it takes {', '.join(known) or 'none'}, or fork_of and at_version"
    problems += [f"there is no input {name[:60]!r}; {takes}" for name in inputs if name not in known]
    problems += [f"the input {name!r} is missing" for name in agent.inputs.get("required", ()) if name not in inputs]
    if known and not problems:
        problems += [f"input {problem}" for problem in SchemaForm(agent.inputs).problems(dict(inputs))]
    return problems or [f"input {problem}" for problem in agent.refuses(inputs)]
