"""Orchestrate: plan, validate, implement, judge, within a budget. Its graph and its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.catalogue import texts_of
from agents.engine.agent import Agent, ModelAdvice
from agents.engine.events import Json, Note
from agents.engine.graph import ALWAYS, Phase, PhaseGraph, Transition
from agents.engine.state import JourneyState
from agents.engine.work.form import ModelForm
from agents.engine.work.gaps import named, new_sources, short
from agents.library.orchestrate.budget import ITERATIONS, SECONDS, TOKENS, limits_of
from agents.library.orchestrate.conditions import CONDITIONS, only_said
from agents.library.orchestrate.inputs import refused
from agents.library.orchestrate.record import (
    BUDGET_EXHAUSTED,
    FAILED,
    IMPLEMENTING,
    JUDGING,
    PASS_SCORE,
    PLANNING,
    SOFT_SCORE,
    SUCCEEDED,
    VALIDATING,
    Item,
    Undertaking,
    all_in,
    of_state,
    said_in,
)
from agents.library.orchestrate.validator import validated
from agents.library.orchestrate.work import Implementation, OrchestrationPlan, OrchestrationVerdict
from agents.prompts.context import Budget
from agents.prompts.prompt import lines

LIST_TOKENS, DONE_TOKENS = 230, 300
"""What a list may cost in a prompt: with the longest brief and all that was done, it fits its budget."""
PROMPT_TOKENS = 2_150
"""Of a prompt with the schema of its work: what else an answer tells has room beside it in 2,500."""
LINE = 260
"""Characters of a line that names many things."""

LOOKING = ("kb_map", "kb_search", "kb_read", "kb_history", "kb_contradictions")
LOOKING_ELSEWHERE = ("plane_query_tasks", "plane_get_task", "zulip_search_messages", "zulip_read_messages")
DOING = (
    "kb_merge",
    "kb_move",
    "plane_create_task",
    "plane_update_task",
    "plane_comment_task",
    "zulip_send_message",
)

GRAPH = PhaseGraph(
    "orchestrate",
    (
        Phase(
            PLANNING,
            "Planning",
            "say what is asked for, and plan it",
            "There is a brief.",
            "There is a plan to validate, or a person agrees that the goal cannot be met.",
            tools=(*LOOKING, *LOOKING_ELSEWHERE),
            prompt="planning",
            prompt_again="planning_again",
            speaker="planner",
            feedback=("validation", "hard_failure"),
        ),
        Phase(
            VALIDATING,
            "Validating",
            "hold the plan to the rules; the server does it, no model",
            "There is a plan.",
            "It is known which rules the plan breaks.",
            automatic=True,
        ),
        Phase(
            IMPLEMENTING,
            "Implementing",
            "do it step by step, and show that each step is done",
            "The plan breaks no rule.",
            "Every step is done and shown, or named as undone.",
            tools=(*LOOKING, *LOOKING_ELSEWHERE, *DOING),
            prompt="implementing",
            prompt_again="implementing_again",
            speaker="implementer",
            feedback=("soft_failure",),
        ),
        Phase(
            JUDGING,
            "Judging",
            "judge what is there, requirement by requirement, with fresh eyes",
            "Every step is done and shown, or named as undone.",
            "There is a verdict that agrees with what it rests on.",
            tools=(*LOOKING, *LOOKING_ELSEWHERE),
            prompt="judging",
            prompt_again="judging_again",
            speaker="judge",
            fresh=True,
            feedback=("soft_failure", "hard_failure"),
        ),
        Phase(
            SUCCEEDED,
            "Succeeded",
            "hand over what was made",
            "The verdict passes.",
            tools=("kb_map", "kb_read", "kb_search", "kb_merge"),
            prompt="succeeded",
        ),
        Phase(
            FAILED,
            "Failed",
            "tell what could not be done, and why",
            "The goal cannot be met, or planning gets no further.",
            tools=("kb_map", "kb_read", "kb_search"),
            prompt="failed",
        ),
        Phase(
            BUDGET_EXHAUSTED,
            "Budget exhausted",
            "tell what is there, and what is missing",
            "Tokens, iterations or seconds are used up.",
            tools=("kb_map", "kb_read", "kb_search"),
            prompt="budget_exhausted",
        ),
    ),
    (
        Transition(PLANNING, FAILED, "goal_cannot_be_met", priority=3, checkpoint="blocking"),
        Transition(PLANNING, BUDGET_EXHAUSTED, "budget_exhausted", priority=2),
        Transition(PLANNING, VALIDATING, "planned", priority=1),
        Transition(VALIDATING, PLANNING, "plan_invalid", is_backward=True),
        Transition(VALIDATING, IMPLEMENTING, "plan_valid", priority=2),
        Transition(VALIDATING, BUDGET_EXHAUSTED, "budget_exhausted", priority=1),
        # The same failures for the third time: planning gets no further.
        Transition(VALIDATING, FAILED, ALWAYS),
        # What is whole is judged whatever it took: a verdict costs little, and one that passes counts.
        Transition(IMPLEMENTING, JUDGING, "implemented", priority=2),
        Transition(IMPLEMENTING, BUDGET_EXHAUSTED, "budget_exhausted", priority=1),
        Transition(JUDGING, IMPLEMENTING, "soft_failure", is_backward=True),
        Transition(JUDGING, PLANNING, "hard_failure", is_backward=True, anew=True),
        Transition(JUDGING, SUCCEEDED, "passed", priority=2),
        Transition(JUDGING, BUDGET_EXHAUSTED, "budget_exhausted", priority=1),
    ),
    PLANNING,
    (SUCCEEDED, FAILED, BUDGET_EXHAUSTED),
)

QUESTIONS = {
    PLANNING: (
        "The planner says that a requirement cannot be met, and why. Is that so? If you approve, the work ends here as failed; "
        "reject it if there is a way, and say which."
    ),
}

INPUTS: Mapping[str, Json] = {
    "type": "object",
    "properties": {
        "requirements": {
            "type": "array",
            "description": "What has to be met, if the brief alone does not say it: list of {id, text}.",
            "minItems": 1,
            "maxItems": 100,
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string", "minLength": 1, "maxLength": 60},
                    "text": {"type": "string", "minLength": 1, "maxLength": 1_000},
                },
                "required": ["id", "text"],
                "additionalProperties": False,
            },
        },
        "limit": {
            "type": "string",
            "description": "How long all steps together may take, such as 3 days.",
            "minLength": 1,
            "maxLength": 60,
        },
        "budget": {
            "type": "object",
            "description": f"The most that may be spent: tokens ({TOKENS}), iterations ({ITERATIONS}), seconds ({SECONDS}).",
            "properties": {
                "tokens": {"type": "integer", "minimum": 1, "maximum": 10**12},
                "iterations": {"type": "integer", "minimum": 1, "maximum": 10**6},
                "seconds": {"type": "number", "exclusiveMinimum": 0, "maximum": 10**9},
            },
            "additionalProperties": False,
        },
        "pass_score": {
            "type": "integer",
            "description": f"From this score on the work has succeeded ({PASS_SCORE}).",
            "minimum": 1,
            "maximum": 100,
        },
        "soft_score": {
            "type": "integer",
            "description": f"From this score on the implementation is refined, below it all is planned anew ({SOFT_SCORE}).",
            "minimum": 0,
            "maximum": 100,
        },
        "rules": {
            "type": "array",
            "description": "More rules for the plan, as in _agents/rules/orchestrate.yaml.",
            "maxItems": 20,
            "items": {"type": "object"},
        },
    },
    "additionalProperties": False,
}


# --- what prompts tell ------------------------------------------------------------------------------------------------


def values(state: JourneyState) -> Mapping[str, str]:
    """Return what stands for the placeholders of this agent's prompts."""
    u = of_state(state)
    return {
        "requirements": lines([_requirement(item) for item in u.requirements], LIST_TOKENS) or NO_REQUIREMENTS,
        "left_out": _left_out(u),
        "limit": f"All steps together may take {u.limit.told}." if u.limit else "No limit of time is set.",
        "steps": lines([_step(step) for step in (u.to_do or u.steps)], LIST_TOKENS) or "- none",
        "errors": lines([item["text"] for item in u.errors], LIST_TOKENS) or "- none",
        "warnings": lines([*(w["text"] for w in u.warnings), *u.rule_mistakes], LIST_TOKENS // 2) or "- none",
        "issues": lines([_issue(item) for item in u.open_issues(state.phase)], LIST_TOKENS) or "- none",
        "work": lines([*_done(u)], DONE_TOKENS) or "- nothing",
        "pass_score": str(u.pass_score),
        "soft_score": str(u.soft_score),
        "budget": _budget(state),
        "ended": _ended(state, u),
    }


NO_REQUIREMENTS = "- none yet: take them out of the brief"


def _requirement(item: Item) -> str:
    return f"{item['id']}: {short(said_in(item, 'text') or said_in(item, 'words'), 200)}"


def _left_out(u: Undertaking) -> str:
    """Return what the planner took for no requirement: whoever judges may see it otherwise."""
    told = [f"'{short(said_in(item, 'words'))}': {short(said_in(item, 'why'))}" for item in u.left_out]
    return f"\nLeft out of the brief by the planner, and why:\n{lines(told, LIST_TOKENS // 2)}" if told else ""


def _step(step: Item) -> str:
    after, covers = named(all_in(step, "depends_on")), named(all_in(step, "covers"))
    told = f"{step['id']}: {short(said_in(step, 'step'))} ({said_in(step, 'duration') or 'no duration'})"
    told += f"; done when {short(said_in(step, 'done_when')) or '?'}"
    return told + (f"; after {short(after, 60)}" if after else "") + (f"; for {short(covers, 60)}" if covers else "")


def _issue(item: Item) -> str:
    return f"{item['id']} ({item['severity']}, about {item['about']}): {short(item['text'], 300)}"


def _done(u: Undertaking) -> Iterator[str]:
    covers = {step["id"]: all_in(step, "covers") for step in u.steps}
    for id_, item in u.done.items():
        yield f"{id_} (for {short(named(covers.get(id_, [])), 60) or 'others'}): {short(item['result'])} [{_shown_by(item)}]"
    for id_, item in u.undone.items():
        yield f"{id_} is not done: {short(item['why'])}"


def _shown_by(item: Item) -> str:
    """Return what is named to show that a step is done."""
    if only_said(item):
        return f"only said: {short(said_in(item, 'said'), 60)}"
    places = [
        *dict.fromkeys(quoted["path"] for quoted in all_in(item, "shown_by")),
        *all_in(item, "artefacts"),
        *dict.fromkeys(f"{call['tool']} {said_in(call, 'path')}".strip() for call in all_in(item, "calls")),
    ]
    return short(named(places), 100)


def _budget(state: JourneyState) -> str:
    limits = limits_of(state.inputs)
    tokens = sum(took.tokens_in + took.tokens_out for took in state.metrics.values())
    return f"iteration {state.iteration} of {limits.iterations}, {tokens:,} of {limits.tokens:,} tokens"


def _ended(state: JourneyState, u: Undertaking) -> str:
    """Return why the work came to its end."""
    given_up = bool(state.transition_history) and state.transition_history[-1].source == PLANNING
    if state.phase == FAILED and not given_up:
        return f"the plan broke the same rules {u.same_failures} times in a row: {short(named(u.broken), LINE)}"
    if state.phase == FAILED and (cannot := u.plan.get("cannot")):
        return f"{cannot['requirement']} cannot be met, and a person agreed: {short(cannot['why'], LINE)}"
    if state.phase == BUDGET_EXHAUSTED:
        told = [one.text for one in state.feedback if one.text.startswith("the budget is used up")]
        return told[-1] if told else "the budget is used up"
    return f"{u.score} of 100" if u.score is not None else "it was not judged"


# --- what was done ----------------------------------------------------------------------------------------------------


def done(state: JourneyState) -> Sequence[str]:
    """Return what was done, what the present phase needs first, so that another host can go on."""
    u = of_state(state)
    head = [*_goal(u), *_scored(u)]
    if state.phase in (PLANNING, VALIDATING):
        return [*head, *(_given_up(u) if state.status == "waiting" else ()), *_planned(u), *_done(u)]
    if state.phase == JUDGING:
        return head  # what there is to judge has its own place in the prompt
    if state.phase == IMPLEMENTING:
        return [*head, *_done(u)]
    return [*head, *_given_up(u), *_broken(u), *_judged(u), *_done(u)]


def _goal(u: Undertaking) -> Iterator[str]:
    if goal := said_in(u.plan, "goal"):
        yield f"goal: {short(goal, LINE)}"


def _scored(u: Undertaking) -> Iterator[str]:
    if u.score is not None:
        yield f"judged last: {u.score} of 100; {u.pass_score} pass"


def _broken(u: Undertaking) -> Iterator[str]:
    if u.errors:
        yield f"the plan breaks {short(named(u.broken), LINE)}"


def _given_up(u: Undertaking) -> Iterator[str]:
    if cannot := u.plan.get("cannot"):
        quotes = named([f"{one['path']} > {one['section']}".strip(" >") for one in all_in(cannot, "shown_by")])
        tried = short("; ".join(all_in(cannot, "tried")), LINE)
        yield f"cannot be met: {cannot['requirement']}, {short(cannot['why'], LINE)}"
        yield f"shown by: {short(quotes, LINE) or 'nothing quoted'}; tried: {tried or 'nothing'}"


def _planned(u: Undertaking) -> Iterator[str]:
    if not u.given_requirements:
        yield from (f"requirement {_requirement(item)}" for item in u.requirements)
    yield from (f"step {_step(step)}" for step in u.steps)


def _judged(u: Undertaking) -> Iterator[str]:
    for issue in u.issues:
        yield f"issue {_issue(issue)}"


def told(_phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return the sources that a work has and the one before it had not."""
    return new_sources(before, after)


AGENT = Agent(
    name="orchestrate",
    title="Orchestrate",
    summary="Plans, holds the plan to rules, does it, and has it judged: refined or planned anew until it passes or the budget ends.",
    graph=GRAPH,
    forms={
        PLANNING: ModelForm(OrchestrationPlan),
        IMPLEMENTING: ModelForm(Implementation),
        JUDGING: ModelForm(OrchestrationVerdict),
    },
    conditions=CONDITIONS,
    texts=texts_of(__package__),
    questions=QUESTIONS,
    values=values,
    done=done,
    told=told,
    inputs=INPUTS,
    refuses=refused,
    provides={VALIDATING: validated},
    budgets=dict.fromkeys((PLANNING, IMPLEMENTING, JUDGING), Budget(tokens_in=PROMPT_TOKENS)),
    models={
        "planner": ModelAdvice("largest", "a plan decides what everything after it costs", "opus"),
        "implementer": ModelAdvice("balanced", "most of the work is done here, step by step", "sonnet"),
        "judge": ModelAdvice("largest", "a judge has to see what others did not", "opus"),
    },
    profile={
        "function": "ORCHESTRATION",
        "steps": [PLANNING, VALIDATING, IMPLEMENTING, JUDGING],
        "limits": f"{TOKENS:,} tokens, {ITERATIONS} iterations, {SECONDS:,} seconds, unless the inputs say otherwise",
    },
)
