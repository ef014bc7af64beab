"""The prompt that a host gets at each point of a journey: a function of the agent and the journey's state. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from agents.engine.agent import Agent
from agents.engine.events import Json, canonical
from agents.engine.graph import Phase, checkpoint_on
from agents.engine.progress.feedback import feedback_list
from agents.engine.state import JourneyState, TransitionRecord
from agents.engine.work.answers import unanswered_in
from agents.engine.work.result import LEFT_OPEN, NO_RESULT, AgentResult, part_lines
from agents.prompts.context import Budget, PromptSection, fitted, whole
from knowledge.tokens import count_tokens

BRIEF_TOKENS, DETAIL_TOKENS, DONE_TOKENS, MISSING_TOKENS, VALUE_TOKENS = 250, 150, 500, 300, 400
FEEDBACK_TOKENS, ASKED_TOKENS, RESULT_TOKENS = 400, 900, 900
INPUT_TOKENS = 40
"""The most tokens of an input that is shown in the instructions for a phase ahead."""
MOST_TOKENS = 2_300
"""The most tokens of a prompt and its schema; the answer's other fields get the rest of 2,500."""
QUESTIONS_TOKENS = 800
"""The tokens of `MOST_TOKENS` that are kept for questions to a person: an answer has them once more outside the prompt."""
SHARES = (1.0, 0.7, 0.5, 0.35, 0.25)
"""The shares of its room that each filled-in text gets. They are tried in this order, until all texts fit together."""
COMMON = frozenset({"agent", "phase", "visit", "brief", "why", "detail", "done", "said"})
"""Placeholders for every template, in addition to `inputs.NAME` and those of its own agent."""
PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
CUT = " [...]"
OUTGROWN = (LookupError, TypeError, ValueError, AttributeError)
"""The exceptions that an agent raises on work that an older version recorded in another form."""

RETURNING = """\
You come back to {{ phase }}, visit {{ visit }}.
Why: {{ why }}
{{ detail }}
Recorded already, and kept:
{{ done }}

"""
ONLY = """

Do only what brought you back: recorded work stays as it is, and your submission is merged into it by `id`."""
TO_ANSWER = "A person must answer these questions before the work continues:"
ANSWERED = (
    "Ask the person these questions, wait, and relay their answers: call journey_decide with decision `answer` and changes "
    "{question id: their words}, or put one answer to all questions in note. If these are the wrong questions, use `reject` "
    "(note: why). Never answer yourself."
)
OWN_HAND = (
    "The person must decide this personally, in a form of this host, on the review page or with "
    "`knowledge-forge journeys`. You can't relay it."
)
ASKED_IN = "They are also asked in Zulip, in {}; call journey_status later to see whether they answered there."
DECIDED = (
    "Show the person the recorded work, ask the question, wait, and relay their answer with journey_decide: approve; modify "
    "(changes: the changed fields, list items by `id`, or a note); reject (note: why). Never decide yourself."
)
AS_BEFORE = "As before in this conversation: {}. journey_status repeats them."
INSTRUCTIONS = "Task Instructions"
"""The section with the text of the phase itself."""
BY_ITSELF = "The server does this phase itself. Submit an empty object as work to continue."
"""For a journey that was in a phase when a new version of its agent made the phase automatic. No other journey stays in
an automatic phase."""
INFORMED = "Tell the person, without waiting for an answer:"
MORE_MISSING = "({} more: journey_status(view='events') has them)"
OTHER_VERSION = (
    "the recorded work was made with another version of this agent; read it with journey_status(view='report')"
)
REASONS = {
    "reject": "the person rejected the submitted work",
    "modify": "the person asked for changes",
    "revisit": "the person asked to return to this phase",
}


def placeholders(text: str) -> set[str]:
    """Return the names of the placeholders in a template."""
    return set(PLACEHOLDER.findall(text))


def render(text: str, values: Mapping[str, str]) -> str:
    """Return the template with its placeholders filled in. Placeholders inside the values are left alone."""
    return PLACEHOLDER.sub(lambda found: values.get(found.group(1), ""), text)


def prompt(
    agent: Agent, state: JourneyState, *, before: JourneyState | None = None, known: Collection[str] = ()
) -> str:
    """Return everything that a host needs to continue the journey, whether it has seen it before or not.

    Texts of people and models are cut until the prompt and the schema that comes with it fit their budget together.
    With `before`, the host continues a conversation in which it was prompted at that state, and gets only what is new
    since then. It was given the instructions for the phases `known`.
    """
    room = _room(agent, state)
    text = ""
    for share in SHARES:
        text = _Prompt(agent, state, share, before, known).text(room)
        if count_tokens(text) <= room:
            break
    return text


def input_values(inputs: Mapping[str, Json]) -> Mapping[str, str]:
    """Return the values of the placeholders for a journey's inputs, complete."""
    texts = {name: value if isinstance(value, str) else canonical(value) for name, value in inputs.items()}
    return {f"inputs.{name}": text for name, text in texts.items()}


def as_before(agent: Agent, state: JourneyState, known: Collection[str]) -> bool:
    """Return whether a host that was given the instructions for the phases `known` has those for the present phase.

    It does not have them if they show values that came neither from the host nor with the start of the journey.
    """
    if state.status != "active" or state.phase not in known or _again(state):
        return False
    template = agent.texts.get(agent.graph.phase(state.phase).prompt, "")
    part = state.phase.rpartition(".")[0]
    inputs = input_values(state.inputs)

    def brought(name: str) -> bool:
        step = name.partition(".")[0]
        work = state.work.get(f"{part}.{step}" if part else step)
        if name.startswith("inputs."):
            # A long input is not in what was said of the phase ahead of time.
            return count_tokens(inputs.get(name, "")) <= INPUT_TOKENS
        return name in COMMON - {"said"} or (work is not None and not work.automatic)

    return all(map(brought, placeholders(template)))


def _room(agent: Agent, state: JourneyState) -> int:
    """Return the room for the prompt: the tokens of its phase, less those of the schema that comes with it."""
    form = agent.forms.get(state.phase) if state.status == "active" else None
    budget = agent.budgets.get(state.phase, Budget())
    room = (budget.tokens_in or MOST_TOKENS) - (count_tokens(canonical(dict(form.schema))) if form else 0)
    return min(room, MOST_TOKENS - QUESTIONS_TOKENS) if state.checkpoint and state.checkpoint.asks else room


@dataclass(frozen=True, slots=True)
class _Prompt:
    """The parts of a prompt, each cut to the share `share` of its room."""

    agent: Agent
    state: JourneyState
    share: float
    before: JourneyState | None = None
    known: Collection[str] = ()

    def cut(self, text: str, tokens: int) -> str:
        return cut(text, int(tokens * self.share))

    def text(self, room: int) -> str:
        agent, state = self.agent, self.state
        if state.status == "cancelled":
            note = f": {self.cut(state.word.note, DETAIL_TOKENS)}" if state.word and state.word.note else ""
            return f"{agent.title} was cancelled{note}. Nothing more can be submitted, but the journey can be forked."
        if state.status == "complete":
            done = f"Work done:\n{self.done()}"
            return _paragraphs(f"{agent.title} is complete.", self.result(), self.informed(), done, self.body())
        if state.status == "waiting":
            return self.waiting()
        phase = agent.graph.phase(state.phase)
        if phase.automatic:
            return f"{agent.title}: {phase.name}. {BY_ITSELF}"
        head = f"{agent.title}: {phase.name}" + (f" ({phase.purpose})" if phase.purpose else "")
        told = self.before is not None and as_before(agent, state, self.known)
        body, missing = "" if told else self.body(), _paragraphs(self.feedback(phase), _missing(state, self.share))
        try:
            sections = agent.sections(state, body)
        except OUTGROWN:
            sections = ()
        if sections:
            new = self.new(sections, told=told)
            left = [one.title for one in sections if one not in new and (one.text.strip() or one.title == INSTRUCTIONS)]
            last = PromptSection("", _paragraphs(self.informed(), self.word(), missing, _named_only(left)), bare=True)
            around = [PromptSection("", head, bare=True), *new, last]
            budget = agent.budgets.get(phase.name, Budget()).tokens_in or MOST_TOKENS
            return fitted(around, room, budget=budget)
        # The text for coming back already lists the finished work.
        done = "" if self.comes_back(phase) else self.done()
        done = f"Work done so far:\n{done}" if done else ""
        brief, named = self.brief(), ""
        if self.before is not None:
            brief, named = "", _named_only(["Brief", *([INSTRUCTIONS] if told else [])])
        return _paragraphs(head, self.informed(), brief, self.word(), done, body, missing, named)

    def new(self, sections: Sequence[PromptSection], *, told: bool) -> Sequence[PromptSection]:
        """Return the sections that the host does not have. `told`: it has the instructions."""
        if self.before is None:
            return sections
        then = replace(self.before, status="active", checkpoint=None)
        try:
            shown = whole(self.agent.sections(then, ""), _room(self.agent, then))
        except OUTGROWN:
            shown = {}
        known = [one for one in sections if one.once or (one.text and shown.get(one.title) == one.text)]
        known += [one for one in sections if told and one.title == INSTRUCTIONS]
        return [one for one in sections if one not in known]

    def result(self) -> str:
        """Return the result and what it leaves open, under their titles."""
        found = recorded_result(self.agent, self.state)
        most = int(RESULT_TOKENS * self.share) * 4
        parts, left_open = part_lines(found.parts, most), part_lines(found.left_open, most // 3)
        titled = ((found.title, parts), (LEFT_OPEN, left_open))
        return _paragraphs(*("\n".join([f"{title}:", *lines]) for title, lines in titled if lines))

    def waiting(self) -> str:
        checkpoint = self.state.checkpoint
        at = checkpoint.phase if checkpoint else self.state.phase
        asked, how = question(self.agent, self.state), DECIDED
        brief, done = self.brief(), f"Recorded:\n{self.done()}"
        if checkpoint and checkpoint.asks:
            asked, how = self.cut(asked, ASKED_TOKENS), ANSWERED
            # The host has just asked them.
            brief, done = (brief, done) if self.before is None else ("", "")
        if checkpoint and checkpoint.own_hand:
            phases = {phase.name: phase for phase in self.agent.graph.phases}
            place = phases[at].ask_in if at in phases else ""
            how = f"{OWN_HAND} {ASKED_IN.format(place)}" if place else OWN_HAND
        return _paragraphs(
            f"{self.agent.title}: a person must decide on {at} before anything else can be submitted.",
            brief,
            asked,
            done,
            how,
        )

    def comes_back(self, phase: Phase) -> bool:
        """Return whether the conversation has been in this phase before, or was sent back to it for a reason."""
        return _again(self.state) and not (phase.fresh and self.state.backward_trigger is None)

    def body(self) -> str:
        """Return the phase's own text: the one for a first visit, or for coming back."""
        phase = self.agent.graph.phase(self.state.phase)
        again = _again(self.state) and phase.name not in self.agent.graph.complete
        template = self.agent.texts.get(phase.prompt_again if again else phase.prompt, "")
        values = self.values()
        if not again or not self.comes_back(phase):
            return render(template, values).strip()
        return (render(RETURNING, values) + render(template, values).strip() + ONLY).strip()

    def values(self) -> dict[str, str]:
        """Return the value of each placeholder, cut to its share of the room."""
        state = self.state
        try:
            own = {name: self.cut(value, VALUE_TOKENS) for name, value in self.agent.values(state).items()}
        except OUTGROWN:
            own = {}
        return {
            **{name: self.cut(text, DETAIL_TOKENS) for name, text in input_values(state.inputs).items()},
            **own,
            "agent": self.agent.title,
            "phase": state.phase,
            "visit": str(state.visit),
            "brief": self.cut(state.brief, BRIEF_TOKENS),
            "why": _why_back(state),
            "detail": f"Detail: {self.cut(detail, DETAIL_TOKENS)}" if (detail := _detail(state)) else "",
            "done": self.done() or "- nothing",
            "said": self.word(),
        }

    def brief(self) -> str:
        return f"Brief: {self.cut(self.state.brief, BRIEF_TOKENS)}"

    def done(self) -> str:
        return bullets(done_lines(self.agent, self.state), int(DONE_TOKENS * self.share))

    def informed(self) -> str:
        """Return what the person learns from the move that led here; "" once work was recorded after it."""
        state = self.state
        kept = state.work.get(state.phase)
        fresh = kept is None or kept.visit != state.visit
        return information(self.agent, state.transition_history[-1:]) if fresh else ""

    def word(self) -> str:
        """Return the person's last words, unless they were a decision about moving on, which other parts of the prompt show."""
        state, word = self.state, self.state.word
        if word is None:
            return ""
        if word.decision == "reject" and word.phase == state.phase and word.note != _detail(state):
            # The journey went further back and has returned: the rejected work was submitted in this phase.
            why = f": {self.cut(word.note, DETAIL_TOKENS)}" if word.note else ""
            return f"The person rejected the work submitted in this phase{why}"
        return f"The person said: {self.cut(word.note, DETAIL_TOKENS)}" if word.decision == "answer" else ""

    def feedback(self, phase: Phase) -> str:
        if not phase.feedback:
            return ""
        # `_missing` shows the gaps of the newest submission. Here only validation by the server itself remains.
        validating = {one.name for one in self.agent.graph.phases if one.automatic}
        feedback = [one for one in self.state.feedback if not one.kept]
        found = [one for one in feedback if one.kind != "validation" or one.phase in validating]
        counts = [(key.partition("/"), count) for key, count in self.state.feedback_dropped.items()]
        dropped = sum(
            n for (kind, _, at), n in counts if kind in phase.feedback and (kind != "validation" or at in validating)
        )
        text = feedback_list(found, phase.feedback, int(FEEDBACK_TOKENS * self.share), dropped=dropped)
        return f"Feedback so far:\n{text}" if text else ""


def stayed(state: JourneyState) -> bool:
    """Return whether the newest step recorded work that does not suffice to move on."""
    kept = state.work.get(state.phase)
    # A step may leave a phase and come back to it: this visit has no work yet then.
    here = kept is not None and (kept.version, kept.visit) == (state.version, state.visit)
    return state.status == "active" and here and bool(_missing(state))


def incomplete(state: JourneyState) -> str:
    """Return the prompt after work that is recorded but not enough: the earlier instructions to the host still apply."""
    return f"Recorded. {state.phase} is not complete yet.\n{_missing(state)}"


def information(agent: Agent, moves: Sequence[TransitionRecord]) -> str:
    """Return the texts for the person at the informational checkpoints among the moves; "" if there are none."""
    graph = agent.graph
    ways = {(way.source, way.target, way.condition): way for way in graph.transitions}
    taken = [ways.get((move.source, move.target, move.reason)) for move in moves]
    shown = [way.source for way in taken if way and checkpoint_on(graph, way) == "informational"]
    texts = dict.fromkeys(agent.questions.get(phase) or f"{phase} is done." for phase in shown)
    return "\n".join(f"{INFORMED} {text}" for text in texts)


def question(agent: Agent, state: JourneyState) -> str:
    """Return the question to a person at the open checkpoint; "" if none is open."""
    if state.checkpoint is None:
        return ""
    if state.checkpoint.asks:
        return "\n".join([TO_ANSWER, *(f"- {id_}: {text}" for id_, text in questions_asked(state).items())])
    asked = agent.questions.get(state.checkpoint.phase)
    return asked or f"May the work continue from {state.checkpoint.phase} to {state.checkpoint.target}?"


def questions_asked(state: JourneyState) -> Mapping[str, str]:
    """Return the unanswered questions of the open checkpoint, by id; none if there is no such checkpoint."""
    asked = state.checkpoint
    if asked is None or not asked.asks or asked.phase not in state.work:
        return {}
    return unanswered_in(state.work[asked.phase].content, asked.asks, state.answers.get(asked.phase, {}))


def _named_only(titles: Sequence[str]) -> str:
    return AS_BEFORE.format(", ".join(titles)) if titles else ""


def _again(state: JourneyState) -> bool:
    return state.visit > 1 or state.backward_trigger is not None


def _why_back(state: JourneyState) -> str:
    """Return why the present phase is worked on again, as the name of the condition or in words; "" on a first visit."""
    trigger = state.backward_trigger
    if trigger is not None or state.visit <= 1:
        return REASONS.get(trigger or "", trigger or "")
    if (back := _redone_after(state)) is not None:
        return f"the work went back to {back.target}: {REASONS.get(back.reason, back.reason)}"
    return state.transition_history[-1].reason if state.transition_history else ""


def _redone_after(state: JourneyState) -> TransitionRecord | None:
    """Return the newest move back, if the present phase is redone because of that move; else None."""
    history = state.transition_history
    at = next((n for n in range(len(history) - 1, -1, -1) if history[n].is_backward), None)
    if at is None:
        return None
    # A phase is not redone because of that move if it was first visited after the move, or if a loop led forward to it
    # once more.
    since = sum(move.target == state.phase for move in history[at:])
    return history[at] if since == 1 < state.visit else None


def _missing(state: JourneyState, share: float = 1.0) -> str:
    """Return the gaps of the newest submission, if nothing has happened since; the first is always shown, cut if it is too long."""
    here = [f for f in state.feedback if f.version == state.version and f.phase == state.phase]
    texts = [f.text for f in here if not f.kept]
    most = room = int(MISSING_TOKENS * share)
    lines = ["Still missing:"] if texts else []
    for number, text in enumerate(texts):
        room -= count_tokens(text)
        if number and room < 0:
            lines.append(MORE_MISSING.format(len(texts) - number))
            break
        lines.append(cut(text, most))
    return "\n".join(lines)


def _detail(state: JourneyState) -> str:
    if state.backward_trigger is not None:
        return state.backward_trigger_detail or ""
    return state.transition_history[-1].detail if state.transition_history else ""


def recorded_result(agent: Agent | None, state: JourneyState) -> AgentResult:
    """Return what is recorded of the agent's result; nothing if the agent is gone or another version of it recorded the work."""
    try:
        return agent.result.of(state) if agent and agent.result else NO_RESULT
    except OUTGROWN:
        return NO_RESULT


def done_lines(agent: Agent, state: JourneyState) -> Sequence[str]:
    """Return the finished work, in short lines."""
    try:
        return agent.done(state)
    except OUTGROWN:
        return [OTHER_VERSION]


def bullets(lines: Sequence[str], tokens: int) -> str:
    """Return the lines that fit as a list, and the number of those that don't."""
    kept: list[str] = []
    most = tokens
    for number, line in enumerate(lines):
        item = f"- {' '.join(line.split())}"
        tokens -= count_tokens(item)
        # The first line is always shown, cut if it is too long: the most important work comes first.
        if kept and tokens < 0:
            more = f"- and {len(lines) - number} more; journey_status(view='report') lists everything"
            return "\n".join([*kept, more])
        kept.append(cut(item, most))
    return "\n".join(kept)


def cut(text: str, tokens: int) -> str:
    """Return the text, cut to this many tokens if it is longer."""
    # `count_tokens` estimates four characters to a token.
    return text if count_tokens(text) <= tokens else text[: tokens * 4 - len(CUT)].rstrip() + CUT


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part.strip())


def tools_at(phase: Phase, listed: Sequence[str]) -> list[str]:
    """Return the tools of the phase that the server lists."""
    return [name for name in phase.tools if name in listed]
