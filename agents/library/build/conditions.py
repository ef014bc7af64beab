"""The conditions under which building moves forward, or back.

Each looks only at the record and the knowledge base.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agents.engine.agent import ConditionFinding, Look, QuotedStatement, SubmitFacts
from agents.engine.evidence.substance import emptiness, idle_texts, same_words, unsupported
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import (
    citations_in,
    finding,
    listing,
    missing_pages,
    repeated_texts,
    shared_ids,
    short,
    unresolved_citations,
)
from agents.library.build.plan import BuildRecord, Item


async def grounded(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """There is a goal and a plan, and each step of the plan rests on concepts whose quotes hold."""
    plan = BuildRecord(facts.works)
    plain = [*_ground_lacking(plan), *_plan_lacking(plan), *_gap_left(plan)]
    # Each check reads a page: while anything else is missing, only the concepts of this submission are checked.
    given = frozenset(ids(items_in(facts.given, "concepts"))) if plain else None
    idle = [
        *idle_texts(plan.concepts, "text", told=facts.told),
        *idle_texts(plan.steps, "step", "done_when", told=facts.told),
    ]
    if plan.goal and (why := emptiness(plan.goal, name="goal", told=facts.told)):
        idle.append(f"`goal` {why}")
    statements, wrong = await _compared_concepts(plan, look)
    missing = [*await unresolved_citations(facts.work, "concepts", look, given), *idle, *wrong, *plain]
    return finding(missing, statements=statements)


async def _compared_concepts(plan: BuildRecord, look: Look) -> tuple[list[QuotedStatement], list[str]]:
    """Return the concepts with quotes, and a sentence for each that says nothing about the subject of its quoted passages."""
    statements, wrong = list[QuotedStatement](), list[str]()
    for concept in plan.concepts:
        # A concept sums up more than the quoted words, so it is compared with the sections that they are in.
        place, cited = f"the text of {concept['id']}", [one for _, one in citations_in(concept)]
        around = [await look.passage(one) for one in cited]
        quotes = tuple(one.quote for one in cited)
        if quotes:
            statements.append(QuotedStatement(place, concept["text"], quotes, around="\n".join(around)))
        passages = [f"{quote}\n{passage}" for quote, passage in zip(quotes, around, strict=True)]
        if why := unsupported(concept["text"], passages):
            wrong.append(f"{place} {why}")
    return statements, wrong


def _ground_lacking(plan: BuildRecord) -> Iterator[str]:
    if not plan.goal:
        yield "there is no goal: say in `goal` what should exist at the end"
    if not plan.concepts:
        yield "there is no concept: name at least one that the plan rests on, with a quote"
    if bare := [concept["id"] for concept in plan.concepts if not concept["citations"]]:
        yield f"these concepts have no citation: {listing(bare)}; quote the page that they come from"
    yield from repeated_texts(plan.concepts, "text")


def _plan_lacking(plan: BuildRecord) -> Iterator[str]:
    if not plan.steps:
        yield "there is no step: submit a plan"
    yield from shared_ids(plan.concepts, plan.steps)
    yield from repeated_texts(plan.steps, "step")
    there = set(ids(plan.concepts))
    for step in plan.steps:
        if lost := [id_ for id_ in step["rests_on"] if id_ not in there]:
            yield f"the step {step['id']} rests on concepts that do not exist: {listing(lost)}"
        elif not step["rests_on"]:
            yield f"the step {step['id']} rests on no concept: name one of {listing(ids(plan.concepts))}"


def _gap_left(plan: BuildRecord) -> Iterator[str]:
    """Yield the open points of the gap that brought the work back here."""
    if plan.open_gap is not None:
        yield (
            f"the concept {plan.open_gap['concept']} is missing, for which step {plan.open_gap['step']} waits: add it with a "
            "quote, or name its id in `left_out` with why"
        )
    # The concept was added. It closes the gap only if a step rests on it: otherwise the waiting step is as stuck as before.
    elif plan.gap is not None:
        new = ids(plan.concepts_of(plan.gap))
        if new and not any(set(new) & set(step["rests_on"]) for step in plan.steps):
            yield f"no step rests on {listing(new)}, for which step {plan.gap['step']} waited: name it in `rests_on` of that step"


async def everything_made(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Every step is made and proven, by quotes that hold or by its result and the outcome of its check."""
    plan = BuildRecord(facts.works)
    made = list(plan.made.values())
    plain = [*_making_lacking(plan), *idle_texts(made, "result", told=facts.told), *_idly_observed(made)]
    # As in `grounded`: while something plain is missing, only this submission's results are looked up.
    given = frozenset(ids(items_in(facts.given, "made"))) if plain else None
    shown = [item for id_, item in plan.made.items() if given is None or id_ in given]
    looked = [*await unresolved_citations(facts.work, "made", look, given), *await missing_pages(shown, "made", look)]
    return finding([*looked, *plain])


def _idly_observed(made: Sequence[Item]) -> Iterator[str]:
    """Yield a sentence for each result whose observation says nothing, or is the result or the check once more."""
    for item in made:
        observed = str(item.get("observed", ""))
        if not observed.strip():
            continue
        if why := emptiness(observed, name="observed"):
            yield f"{item['id']}: `observed` {why}"
        elif same_words(observed, item["result"]) and not re.search(r"\d", observed):
            yield f"{item['id']}: `observed` repeats `result`: say what you saw when you checked"


def _making_lacking(plan: BuildRecord) -> Iterator[str]:
    if unknown := [id_ for id_ in plan.made if id_ not in ids(plan.steps)]:
        yield f"these belong to no step of the plan: {listing(unknown)}; drop them or use the step's id"
    for id_, item in plan.made.items():
        observed, artefacts = bool(item.get("observed", "").strip()), bool(item.get("artefacts"))
        if not item.get("shown_by") and not (artefacts and observed):
            wanted = (
                "say in `observed` what you saw when you checked `done_when`"
                if artefacts
                else "name `artefacts`, and say in `observed` what you saw"
            )
            yield f"nothing shows yet that {id_} is made: {wanted}, or quote a page in `shown_by`"
    if plan.to_make:
        yield f"not made yet: {listing(ids(plan.to_make))}"


async def conceptual_gap_discovered(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """This submission names a concept that the plan lacks, and a step that cannot be made without it."""
    plan = BuildRecord(facts.works)
    # From this submission: a gap on record has already led back once.
    gap = facts.given.get("gap")
    if not isinstance(gap, dict):
        return finding(["`gap` names no concept"])
    wrong = list(_no_gap(plan, gap))
    return finding(wrong, f"step {gap['step']} needs the concept {gap['concept']}: {short(gap['text'], 300)}")


def _no_gap(plan: BuildRecord, gap: Item) -> Iterator[str]:
    if gap["step"] not in ids(plan.steps):
        yield f"`gap` names the step {short(gap['step'], 60)}, which is not in the plan: name one of {listing(ids(plan.steps))}"
    elif gap["step"] in plan.made:
        yield f"`gap` names the step {gap['step']}, which is made: drop it first if it does not hold"
    if there := ids(plan.concepts_of(gap)):
        yield f"the plan rests on that concept already: {listing(there)}; read its pages again"
    elif gap["concept"] in ids(plan.left_out):
        yield f"the concept {gap['concept']} was left out of the plan: make the step without it"
