"""The texts in prompts and lists about the recorded work of orchestrating."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.choice.proposal import by_class
from agents.engine.events import Json, Note
from agents.engine.state import JourneyState
from agents.engine.work.gaps import listing, new_sources, short
from agents.library.orchestrate.record import (
    BUDGET_EXHAUSTED,
    FAILED,
    IMPLEMENTING,
    ITERATIONS,
    JUDGING,
    PLANNING,
    SECONDS,
    TOKENS,
    VALIDATING,
    Item,
    Undertaking,
    list_in,
    of_state,
    only_said,
    text_in,
)
from agents.library.orchestrate.validator import refused, validated
from agents.prompts.context import Budget
from agents.prompts.prompt import bullets

LIST_TOKENS, DONE_TOKENS = 230, 300
"""The most tokens of a list in a prompt: even with the longest brief and all finished work, the prompt fits its budget."""
PROMPT_TOKENS = 2_150
"""The most tokens of a prompt with the schema of its work. An answer may have 2,500, including its other fields."""
LINE = 260
"""The most characters of a line that lists many things."""

PLACEHOLDERS = (
    *("requirements", "left_out", "limit", "steps", "errors", "warnings", "issues", "work"),
    *("pass_score", "soft_score", "budget", "ended", "agents"),
)


def values(state: JourneyState) -> Mapping[str, str]:
    """Return the text for each placeholder of this agent's prompts."""
    u = of_state(state)
    left_out = [f"'{short(text_in(item, 'words'))}': {short(text_in(item, 'why'))}" for item in u.left_out]
    tokens = sum(took.tokens_in + took.tokens_out for took in state.metrics.values())
    return {
        "requirements": bullets([_requirement(item) for item in u.requirements], LIST_TOKENS)
        or "- none yet: take them from the brief",
        # The planner may have left words out by mistake, so the judge sees them too.
        "left_out": f"\nLeft out of the brief by the planner, and why:\n{bullets(left_out, LIST_TOKENS // 2)}"
        if left_out
        else "",
        "limit": f"All steps together may take {u.limit.text}." if u.limit else "There is no time limit.",
        "steps": bullets([_step(step) for step in (u.to_do or u.steps)], LIST_TOKENS) or "- none",
        "errors": bullets([item["text"] for item in u.errors], LIST_TOKENS) or "- none",
        "warnings": bullets([*(w["text"] for w in u.warnings), *u.rule_mistakes], LIST_TOKENS // 2) or "- none",
        "issues": bullets([_issue(item) for item in u.open_issues(state.phase)], LIST_TOKENS) or "- none",
        "work": bullets([*_done(u)], DONE_TOKENS) or "- nothing",
        "pass_score": str(u.pass_score),
        "soft_score": str(u.soft_score),
        "budget": f"iteration {state.iteration} of {u.limits.iterations}, {tokens:,} of {u.limits.tokens:,} tokens",
        "ended": _ended(state, u),
        "agents": by_class(),
    }


def _requirement(item: Item) -> str:
    return f"{item['id']}: {short(text_in(item, 'text') or text_in(item, 'words'), 200)}"


def _step(step: Item) -> str:
    after, covers = listing(list_in(step, "depends_on")), listing(list_in(step, "covers"))
    told = f"{step['id']}: {short(text_in(step, 'step'))} ({text_in(step, 'duration') or 'no duration'})"
    told += f"; done when {short(text_in(step, 'done_when')) or '?'}"
    agent = (step.get("details") or {}).get("agent")
    told += f"; with {short(agent, 40)}" if agent else ""
    return told + (f"; after {short(after, 60)}" if after else "") + (f"; for {short(covers, 60)}" if covers else "")


def _issue(item: Item) -> str:
    return f"{item['id']} ({item['severity']}, about {item['about']}): {short(item['text'], 300)}"


def _done(u: Undertaking) -> Iterator[str]:
    covers = {step["id"]: list_in(step, "covers") for step in u.steps}
    for id_, item in u.done.items():
        yield f"{id_} (for {short(listing(covers.get(id_, [])), 60) or 'others'}): {short(item['result'])} [{_shown_by(item)}]"
    for id_, item in u.undone.items():
        yield f"{id_} is not done: {short(item['why'])}"


def _shown_by(item: Item) -> str:
    if only_said(item):
        return f"only said: {short(text_in(item, 'said'), 60)}"
    places = [
        *dict.fromkeys(quoted["path"] for quoted in list_in(item, "shown_by")),
        *list_in(item, "artefacts"),
        *dict.fromkeys(f"{call['tool']} {text_in(call, 'path')}".strip() for call in list_in(item, "calls")),
    ]
    return short(listing(places), 100)


def _ended(state: JourneyState, u: Undertaking) -> str:
    """Return why the work ended."""
    given_up = bool(state.transition_history) and state.transition_history[-1].source == PLANNING
    if state.phase == FAILED and not given_up:
        return f"the plan broke the same rules {u.same_failures} times in a row: {short(listing(u.broken), LINE)}"
    if state.phase == FAILED and (cannot := u.plan.get("cannot")):
        return f"{cannot['requirement']} cannot be met, and a person agreed: {short(cannot['why'], LINE)}"
    if state.phase == BUDGET_EXHAUSTED:
        # The condition `budget_exhausted` left the reason as feedback, beside the verdict.
        told = [one.text for one in state.feedback if one.text.startswith("the budget is used up")]
        return told[-1] if told else "the budget is used up"
    return f"{u.score} of 100" if u.score is not None else "it was not judged"


def done(state: JourneyState) -> Sequence[str]:
    """Return the finished work, starting with the parts that the present phase needs, so that another host can continue."""
    u = of_state(state)
    head = [f"goal: {short(goal, LINE)}"] if (goal := text_in(u.plan, "goal")) else []
    if u.score is not None:
        head.append(f"judged last: {u.score} of 100; {u.pass_score} pass")
    if state.phase in (PLANNING, VALIDATING):
        planned = [] if u.given_requirements else [f"requirement {_requirement(item)}" for item in u.requirements]
        planned += [f"step {_step(step)}" for step in u.steps]
        return [*head, *(_given_up(u) if state.status == "waiting" else ()), *planned, *_done(u)]
    if state.phase == JUDGING:
        return head  # the prompt shows the work to judge in a section of its own
    if state.phase == IMPLEMENTING:
        return [*head, *_done(u)]
    broken = [f"the plan breaks {short(listing(u.broken), LINE)}"] if u.errors else []
    return [*head, *_given_up(u), *broken, *(f"issue {_issue(issue)}" for issue in u.issues), *_done(u)]


def _given_up(u: Undertaking) -> Iterator[str]:
    if cannot := u.plan.get("cannot"):
        quotes = listing([f"{one['path']} > {one['section']}".strip(" >") for one in list_in(cannot, "shown_by")])
        tried = short("; ".join(list_in(cannot, "tried")), LINE)
        yield f"cannot be met: {cannot['requirement']}, {short(cannot['why'], LINE)}"
        yield f"shown by: {short(quotes, LINE) or 'nothing quoted'}; tried: {tried or 'nothing'}"


def notes(_phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return the sources that a work cites and its previous version did not."""
    return new_sources(before, after)


VIEWS = {
    "values": values,
    "done": done,
    "notes": notes,
    "refuses": refused,
    "provides": {VALIDATING: validated},
    "budgets": dict.fromkeys((PLANNING, IMPLEMENTING, JUDGING), Budget(tokens_in=PROMPT_TOKENS)),
    "profile": {
        "function": "ORCHESTRATION",
        "steps": [PLANNING, VALIDATING, IMPLEMENTING, JUDGING],
        "limits": f"{TOKENS:,} tokens, {ITERATIONS} iterations, {SECONDS:,} seconds, unless the inputs say otherwise",
    },
}
