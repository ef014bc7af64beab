"""What a host is told at each point of a journey: a function of the agent and of where the journey stands. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agents.engine.agent import Agent
from agents.engine.events import canonical
from agents.engine.graph import Phase
from agents.engine.progress.feedback import feedback_list
from agents.engine.state import Feedback, JourneyState, TransitionRecord
from agents.engine.work.answers import unanswered_in
from agents.prompts.context import Budget, PromptSection, fitted
from knowledge.tokens import count_tokens

BRIEF_TOKENS, DETAIL_TOKENS, DONE_TOKENS, MISSING_TOKENS, VALUE_TOKENS = 250, 150, 500, 300, 400
FEEDBACK_TOKENS, ASKED_TOKENS = 400, 900
MOST_TOKENS = 2_300
"""Of a prompt and the schema beside it; what else an answer says has the rest of 2,500."""
QUESTIONS_TOKENS = 800
"""Of these for questions to a person, which an answer tells beside the prompt, too."""
SHARES = (1.0, 0.7, 0.5, 0.35, 0.25)
"""How much of its room each filled-in text gets, until all of them fit together."""
COMMON = frozenset({"agent", "phase", "visit", "brief", "why", "detail", "done", "said"})
"""Placeholders that every template may use, beside `inputs.NAME` and those of its own agent."""
PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]+)\s*\}\}")
CUT = " [...]"
OUTGROWN = (LookupError, TypeError, ValueError, AttributeError)
"""What is raised by an agent that meets work of another form: one that an older version of it took."""

RETURNING = """\
You come back to {{ phase }}, visit {{ visit }}.
Why: {{ why }}
{{ detail }}
Recorded already, and kept:
{{ done }}

"""
ONLY = """

Do only what brought you back: what is recorded stays as it is, and what you submit joins it by `id`."""
TO_ANSWER = "A person must answer these questions before the work continues:"
ANSWERED = (
    "Ask the person these questions, wait, and relay their answers: call journey_decide with decision `answer` and changes "
    "{question id: their words}, or put one answer to all questions in note. If these are the wrong questions, use `reject` "
    "(note: why). Never answer yourself."
)
BY_ITSELF = "The server does this phase itself. Submit an empty object as work to continue."
"""Told where an agent was changed while a journey stood there: no other journey rests in such a phase."""
REASONS = {
    "reject": "the person rejected the submitted work",
    "modify": "the person asked for changes",
    "revisit": "the person asked to return to this phase",
}


def placeholders(text: str) -> set[str]:
    """Return the names of the placeholders in a template."""
    return set(PLACEHOLDER.findall(text))


def render(text: str, values: Mapping[str, str]) -> str:
    """Return the template with its placeholders filled in, once: what is filled in is not looked at again."""
    return PLACEHOLDER.sub(lambda found: values.get(found.group(1), ""), text)


def prompt(agent: Agent, state: JourneyState) -> str:
    """Return all that a host needs to go on from here, whether it was here before or not.

    What people and models wrote is cut until it fits, together with the schema that comes with it.
    """
    form = agent.forms.get(state.phase) if state.status == "active" else None
    budget = agent.budgets.get(state.phase, Budget())
    room = (budget.tokens_in or MOST_TOKENS) - (count_tokens(canonical(dict(form.schema))) if form else 0)
    if state.checkpoint and state.checkpoint.asks:
        room = min(room, MOST_TOKENS - QUESTIONS_TOKENS)
    told = ""
    for share in SHARES:
        told = _prompt(agent, state, share, room)
        if count_tokens(told) <= room:
            break
    return told


def _prompt(agent: Agent, state: JourneyState, share: float, room: int) -> str:
    if state.status == "cancelled":
        return f"{agent.title} was cancelled{_said(state, ': ', share)}. Nothing more can be submitted, but the journey can be forked."
    if state.status == "complete":
        return _parts(
            f"{agent.title} is complete.", "Work done:\n" + _done(agent, state, share), _text(agent, state, share)
        )
    if state.status == "waiting":
        return _waiting(agent, state, share)
    phase = agent.graph.phase(state.phase)
    if phase.automatic:
        return f"{agent.title}: {phase.name}. {BY_ITSELF}"
    head = f"{agent.title}: {phase.name} ({phase.purpose})" if phase.purpose else f"{agent.title}: {phase.name}"
    body, missing = _text(agent, state, share), _missing(state, share)
    found = _found(agent, state) if phase.feedback else ()
    heard = feedback_list(found, phase.feedback, int(FEEDBACK_TOKENS * share))
    missing = _parts(f"Feedback so far:\n{heard}" if heard else "", missing)
    if sections := _sections(agent, state, body):
        around = [
            PromptSection("", head, bare=True),
            *sections,
            PromptSection("", _parts(_word(state, share), missing), bare=True),
        ]
        budget = agent.budgets.get(phase.name, Budget()).tokens_in or MOST_TOKENS
        return fitted(around, room, budget=budget)
    if not _again(state) or _anew(phase, state):
        done = _done(agent, state, share)
        return _parts(
            head, _brief(state, share), _word(state, share), done and f"Work done so far:\n{done}", body, missing
        )
    return _parts(head, _brief(state, share), _word(state, share), body, missing)


def stayed(state: JourneyState) -> bool:
    """Return whether the newest step was work that was not enough to go on."""
    kept = state.work.get(state.phase)
    # A step may leave a phase and come back to it: then this visit has no work yet.
    here = kept is not None and (kept.version, kept.visit) == (state.version, state.visit)
    return state.status == "active" and here and bool(_missing(state))


def short(state: JourneyState) -> str:
    """Return what a host is told whose submit was recorded and is not enough; what it was told before still holds."""
    return f"Recorded. {state.phase} is not complete yet.\n{_missing(state)}"


def question(agent: Agent, state: JourneyState) -> str:
    """Return what a person is asked at the open checkpoint; "" if none is open."""
    if state.checkpoint is None:
        return ""
    if state.checkpoint.asks:
        return "\n".join([TO_ANSWER, *(f"- {id_}: {text}" for id_, text in questions_asked(state).items())])
    asked = agent.questions.get(state.checkpoint.phase)
    return asked or f"May the work continue from {state.checkpoint.phase} to {state.checkpoint.target}?"


def answer_ways(state: JourneyState) -> str:
    """Return how the open checkpoint is answered, for the host's model."""
    if state.checkpoint is not None and state.checkpoint.own_hand:
        return (
            "The person must decide this personally, in a form of this host, on the review page or with "
            "`knowledge-forge journeys`. You can't relay it."
        )
    if state.checkpoint is not None and state.checkpoint.asks:
        return ANSWERED
    return (
        "Show the person the recorded work, ask the question, wait, and relay their answer with journey_decide: approve; modify "
        "(changes: a JSON merge patch of the work, or a note); reject (note: why). Never decide yourself."
    )


def _waiting(agent: Agent, state: JourneyState, share: float) -> str:
    at = state.checkpoint.phase if state.checkpoint else state.phase
    head = f"{agent.title}: a person must decide on {at} before anything else can be submitted."
    recorded = "Recorded:\n" + _done(agent, state, share)
    asked = question(agent, state)
    if state.checkpoint and state.checkpoint.asks:
        asked = cut(asked, int(ASKED_TOKENS * share))
    return _parts(head, _brief(state, share), asked, recorded, answer_ways(state))


def questions_asked(state: JourneyState) -> Mapping[str, str]:
    """Return the questions that a person is asked at the open checkpoint and did not answer yet, by id; none elsewhere."""
    asked = state.checkpoint
    if asked is None or not asked.asks or asked.phase not in state.work:
        return {}
    return unanswered_in(state.work[asked.phase].content, asked.asks, state.answers.get(asked.phase, {}))


def _found(agent: Agent, state: JourneyState) -> Sequence[Feedback]:
    """Return the feedback without what a submit merely lacked, which is told where it was lacking, for as long as it is new.

    What validates is a phase that nobody is asked in.
    """
    validating = {phase.name for phase in agent.graph.phases if phase.automatic}
    return [one for one in state.feedback if one.kind != "validation" or one.phase in validating]


def _sections(agent: Agent, state: JourneyState, body: str) -> Sequence[PromptSection]:
    try:
        return agent.sections(state, body)
    except OUTGROWN:
        return ()


def _again(state: JourneyState) -> bool:
    return state.visit > 1 or state.backward_trigger is not None


def _anew(phase: Phase, state: JourneyState) -> bool:
    """Return whether whoever works here now was not here before, and nobody sent the work back for a reason."""
    return phase.fresh and state.backward_trigger is None


def _text(agent: Agent, state: JourneyState, share: float) -> str:
    """Return the phase's own words: those of the first visit, or of coming back."""
    phase = agent.graph.phase(state.phase)
    again = _again(state) and phase.name not in agent.graph.complete
    template = agent.texts.get(phase.prompt_again if again else phase.prompt, "")
    values = values_of(agent, state, share)
    if not again or _anew(phase, state):
        return render(template, values).strip()
    return (render(RETURNING, values) + render(template, values).strip() + ONLY).strip()


def values_of(agent: Agent, state: JourneyState, share: float = 1.0) -> dict[str, str]:
    """Return what stands for each placeholder, each in its share of the room that it may take."""
    own = {name: cut(value, int(VALUE_TOKENS * share)) for name, value in _own(agent, state).items()}
    inputs = {f"inputs.{name}": cut(_plain(value), int(DETAIL_TOKENS * share)) for name, value in state.inputs.items()}
    return {
        **inputs,
        **own,
        "agent": agent.title,
        "phase": state.phase,
        "visit": str(state.visit),
        "brief": cut(state.brief, int(BRIEF_TOKENS * share)),
        "why": why_back(state),
        "detail": f"Detail: {cut(detail, int(DETAIL_TOKENS * share))}" if (detail := _detail(state)) else "",
        "done": _done(agent, state, share) or "- nothing",
        "said": _word(state, share),
    }


def why_back(state: JourneyState) -> str:
    """Return why the present phase is worked on again, as the name of the condition or in words; "" on a first visit."""
    trigger = state.backward_trigger
    if trigger is not None or state.visit <= 1:
        return REASONS.get(trigger or "", trigger or "")
    moved = _sent_back(state)
    if moved is None:
        return state.transition_history[-1].reason if state.transition_history else ""
    return f"the work went back to {moved.target}: {REASONS.get(moved.reason, moved.reason)}"


def _sent_back(state: JourneyState) -> TransitionRecord | None:
    """Return the newest way back, by which all that lies behind it is worked on again."""
    return next((moved for moved in reversed(state.transition_history) if moved.is_backward), None)


def _detail(state: JourneyState) -> str:
    if state.backward_trigger is not None:
        return state.backward_trigger_detail or ""
    return state.transition_history[-1].detail if state.transition_history else ""


def _brief(state: JourneyState, share: float) -> str:
    return f"Brief: {cut(state.brief, int(BRIEF_TOKENS * share))}"


def _word(state: JourneyState, share: float) -> str:
    """Return what the person said last, if it is no decision about going on that the rest tells anyway."""
    if state.word is None:
        return ""
    if state.word.decision == "reject" and state.word.phase == state.phase and state.word.note != _detail(state):
        # Whoever was sent back further is here again: what was not agreed with was submitted here.
        why = f": {cut(state.word.note, int(DETAIL_TOKENS * share))}" if state.word.note else ""
        return f"The person rejected the work submitted in this phase{why}"
    if state.word.decision != "answer":
        return ""
    return f"The person said: {cut(state.word.note, int(DETAIL_TOKENS * share))}"


def _said(state: JourneyState, before: str, share: float) -> str:
    return f"{before}{cut(state.word.note, int(DETAIL_TOKENS * share))}" if state.word and state.word.note else ""


def _missing(state: JourneyState, share: float = 1.0) -> str:
    """Return what the newest submit lacked, if nothing happened since."""
    told = [f.text for f in state.feedback if f.version == state.version and f.phase == state.phase]
    return "Still missing:\n" + cut("\n".join(told), int(MISSING_TOKENS * share)) if told else ""


def _own(agent: Agent, state: JourneyState) -> Mapping[str, str]:
    try:
        return agent.values(state)
    except OUTGROWN:
        return {}


def done_lines(agent: Agent, state: JourneyState) -> Sequence[str]:
    """Return what was done already, in short lines."""
    try:
        return agent.done(state)
    except OUTGROWN:
        return [
            "the recorded work was made with another version of this agent; read it with journey_status(view='report')"
        ]


def _done(agent: Agent, state: JourneyState, share: float) -> str:
    return lines(done_lines(agent, state), int(DONE_TOKENS * share))


def lines(told: Sequence[str], tokens: int) -> str:
    """Return the lines as a list, as many as fit, and how many more there are."""
    kept: list[str] = []
    most = tokens
    for number, line in enumerate(told):
        item = f"- {' '.join(line.split())}"
        tokens -= count_tokens(item)
        if kept and tokens < 0:
            return "\n".join(
                [*kept, f"- and {len(told) - number} more; journey_status(view='report') lists everything"]
            )
        kept.append(cut(item, most))
    return "\n".join(kept)


def cut(text: str, tokens: int) -> str:
    """Return the text, cut where it has more tokens than that."""
    if count_tokens(text) <= tokens:
        return text
    return text[: tokens * 4 - len(CUT)].rstrip() + CUT


def _plain(value: object) -> str:
    return value if isinstance(value, str) else canonical(value)


def _parts(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part.strip())


def tools_at(phase: Phase, listed: Sequence[str]) -> list[str]:
    """Return the tools that calls of the journey may use in the phase, of those that the server lists."""
    return [name for name in phase.tools if name in listed]
