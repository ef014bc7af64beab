"""The texts in prompts and lists about the recorded work of building."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.events import Json, Note
from agents.engine.state import JourneyState
from agents.engine.work.form import ids
from agents.engine.work.gaps import citations_in, listing, new_sources, short
from agents.library.build.plan import GROUNDING, MAKING, BuildRecord, Item
from agents.prompts.prompt import bullets

STEPS_TOKENS = 250
"""The token limit of a prompt's list of steps to make: even with the longest brief and all finished work, the prompt
fits its budget.
"""
LINE = 260
"""The most characters of a line that lists many things."""

PLACEHOLDERS = ("steps", "gap")


def values(state: JourneyState) -> Mapping[str, str]:
    """Return the values of the placeholders in this agent's prompts."""
    plan = BuildRecord(state.works)
    gap = plan.open_gap
    return {
        "steps": bullets([_step(step) for step in plan.to_make], STEPS_TOKENS) or "- none",
        "gap": f"- {gap['concept']}, for step {gap['step']}: {short(gap['text'], 300)}" if gap else "- none",
    }


def done(state: JourneyState) -> Sequence[str]:
    """Return a summary of the work so far for another host to continue from, beginning with the present phase's needs."""
    plan = BuildRecord(state.works)
    goal = [f"goal: {short(plan.goal, LINE)}"] if plan.goal else []
    if state.phase == GROUNDING:
        steps = [_step(step) for step in plan.steps]
        return [*goal, *_concepts(plan), *steps, *_left_out(plan), *_counted(plan)]
    if state.phase == MAKING:
        return [*goal, *_counted(plan), *_concepts(plan), *_made(plan)]
    return [*goal, *_made(plan), *_concepts(plan)]


def _step(step: Item) -> str:
    told = f"{step['id']}: {short(step['step'])}; done when {short(step['done_when'])}"
    return f"{told}; rests on {short(listing(step['rests_on']), 80)}"


def _concepts(plan: BuildRecord) -> Iterator[str]:
    for concept in plan.concepts:
        where = dict.fromkeys(f"{quoted.path} > {quoted.section}".strip(" >") for _, quoted in citations_in(concept))
        yield f"concept {concept['id']}: {short(concept['text'], 120)} ({short(listing(list(where)), 120)})"


def _left_out(plan: BuildRecord) -> Iterator[str]:
    for item in plan.left_out:
        yield f"left out: {item['id']}, {short(item['why'])}"


def _counted(plan: BuildRecord) -> Iterator[str]:
    of_plan = [step["id"] for step in plan.steps if step["id"] in plan.made]
    if of_plan:
        yield f"made ({len(of_plan)} of {len(plan.steps)}): {short(listing(of_plan, 60), LINE)}"
    if gone := [id_ for id_ in plan.made if id_ not in ids(plan.steps)]:
        yield f"made, but no longer a step of the plan: {short(listing(gone, 60), LINE)}"


def _made(plan: BuildRecord) -> Iterator[str]:
    for id_, item in plan.made.items():
        artefacts = f" ({short(listing(item.get('artefacts', [])), 120)})" if item.get("artefacts") else ""
        yield f"made {id_}: {short(item['result'])}{artefacts}"


def notes(_phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return the sources that a work adds to its previous version."""
    return new_sources(before, after)


VIEWS = {"values": values, "done": done, "notes": notes}
