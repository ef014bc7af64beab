"""What must be so for orchestrating to go on, back, or to an end: by what is recorded, never by a model's word on itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.agent import Called, Condition, ConditionFinding, Look, SubmitFacts
from agents.engine.graph import FeedbackKind
from agents.engine.work.form import citations_in, ids, listed, place
from agents.engine.work.gaps import found, named, short, unfounded
from agents.library.orchestrate.budget import limits_of, used_up
from agents.library.orchestrate.record import (
    IMPLEMENTING,
    JUDGING,
    PLANNING,
    SAME_FAILURES,
    VALIDATING,
    Item,
    Undertaking,
    all_in,
    of_facts,
    said_in,
)
from agents.library.orchestrate.scores import score_range
from knowledge.pages.claim_source import source_kind

NOT = ConditionFinding(met=False)
"""Not met, and nothing has to be said about it: the condition asks for something that nobody tried to give."""
TOLD, MOST_FEEDBACK = 300, 700
CARRIED_OUT = frozenset({"done", "partial", "unchanged"})
"""How an act ended that is on record; calls that only look have no status."""


# --- planning ---------------------------------------------------------------------------------------------------------


async def planned(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """There is a plan to validate, which answers what the judge found wrong with the one before."""
    u = of_facts(facts)
    if facts.work.get("cannot"):
        return NOT
    if facts.work.get("draft"):
        return found(["it is recorded as a draft: submit the rest, the last part without draft"])
    return found(list(_plan_lacking(u)))


def _plan_lacking(u: Undertaking) -> Iterator[str]:
    if not u.steps:
        yield "there is no step yet: submit a plan"
    if u.given_requirements and (own := ids(listed(u.plan, "requirements"))):
        yield f"the requirements came with the brief, there are no others: drop {named(own)}"
    for issue in u.open_issues(PLANNING):
        yield (
            f"the issue {issue['id']} of the judge is not answered ({short(issue['text'])}): say in answers what is different in "
            "this plan"
        )


async def goal_cannot_be_met(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The planner names a requirement that cannot be met, why, and what shows it. A person decides whether that is so."""
    cannot = facts.work.get("cannot")
    if not isinstance(cannot, Mapping):
        return NOT
    u = of_facts(facts)
    missing = [
        f"{place(facts.work, ('cannot', *loc))}: {why}"
        for loc, citation in citations_in(cannot)
        if (why := await look.cited(citation))
    ]
    if cannot["requirement"] not in ids(u.requirements):
        missing.append(f"cannot names no requirement: name one of {named(ids(u.requirements)) or 'those you submit'}")
    if not all_in(cannot, "shown_by") and not all_in(cannot, "tried"):
        missing.append("nothing shows that it cannot be met: quote what says so in shown_by, or say what was tried")
    # It is no failure before a person agrees, and then nobody tries again: there is nothing to tell those who come later.
    return found(missing)


# --- validating -------------------------------------------------------------------------------------------------------


async def plan_invalid(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The plan breaks rules, and the planner may try again."""
    u = of_facts(facts)
    if not u.errors or u.same_failures >= SAME_FAILURES or _used_up(facts, failed=True):
        return NOT
    return ConditionFinding(met=True, detail=_detail(u), feedback=_validation(u))


def _detail(u: Undertaking) -> str:
    again = f", the same as before: {u.same_failures} times in a row" if u.same_failures > 1 else ""
    count = len(u.broken)
    return f"the plan breaks {count} {'rule' if count == 1 else 'rules'}{again}"


def _validation(u: Undertaking) -> tuple[str, ...]:
    """Return what a validation tells those who come later. What is wrong now is in the work of the validator, whole."""
    told = [f"{_detail(u)}: {named(u.broken)}"] if u.errors else []
    if u.warnings:
        told.append(f"warnings: {short('; '.join(item['text'] for item in u.warnings), TOLD)}")
    if u.rule_mistakes:
        lost = short("; ".join(u.rule_mistakes), TOLD)
        told.append(f"these rules could not be read, and do not hold until somebody mends them: {lost}")
    return tuple(told)


async def plan_valid(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The plan breaks no rule."""
    u = of_facts(facts)
    return NOT if u.errors else ConditionFinding(met=True, feedback=_validation(u))


# --- implementing -----------------------------------------------------------------------------------------------------


async def implemented(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Every step is done and shown, or named as undone with why; every issue of the judge is answered."""
    u = of_facts(facts)
    plain = [*_done_lacking(u), *_unanswered(u, facts.work)]
    # Looking costs reads: what this submit brought is looked at now, all else once it is what counts.
    given = frozenset(ids(listed(facts.given, "done"))) if plain else None
    shown = [item for item in u.done.values() if given is None or item["id"] in given]
    looked = await unfounded(facts.work, "done", look, given)
    return found([*looked, *await _pages_missing(shown, look), *await _calls_missing(shown, look), *plain])


def _done_lacking(u: Undertaking) -> Iterator[str]:
    there = ids(u.steps)
    if unknown := [id_ for id_ in (*u.done, *u.undone) if id_ not in there]:
        yield f"these are no steps of the plan: {named(unknown)}; drop them or use the step's id"
    if both := [id_ for id_ in u.undone if id_ in u.done]:
        yield f"these are said to be done and not to be done: {named(both)}; drop the id, then submit what holds"
    for id_, item in u.done.items():
        if not _shown(item):
            yield (
                f"nothing shows yet that {id_} is done: quote a page in shown_by, name artefacts with what you observed, name "
                "calls, or put who said so into said"
            )
    for step in u.steps:
        waits = [one for one in all_in(step, "depends_on") if one in u.undone]
        if step["id"] in u.done and waits:
            yield f"{step['id']} is done, but what it depends on is not: {named(waits)}"
    if u.to_do:
        yield f"not done yet: {named(ids(u.to_do))}"


def _shown(item: Item) -> bool:
    """Return whether something is named that shows a step to be done, be it that somebody said so."""
    return not only_said(item) or bool(said_in(item, "said"))


def only_said(item: Item) -> bool:
    """Return whether nothing shows a step to be done but somebody's word."""
    seen = all_in(item, "artefacts") and said_in(item, "observed")
    return not (all_in(item, "shown_by") or all_in(item, "calls") or seen)


def _unanswered(u: Undertaking, work: Item) -> Iterator[str]:
    for issue in u.open_issues(IMPLEMENTING):
        yield (
            f"the issue {issue['id']} of the judge is not answered ({short(issue['text'])}): change the step, send it whole, and "
            "say in answers what is different, or why nothing is"
        )
    for answer in listed(work, "answers"):
        if answer["id"] in ids(u.issues) and answer["step"] not in (*u.done, *u.undone):
            yield f"answers[{answer['id']}] names the step {short(answer['step'], 60)}, of which nothing is on record"


async def _pages_missing(items: Sequence[Item], look: Look) -> list[str]:
    """Return a sentence for each artefact that is said to lie in the knowledge base and does not."""
    missing = []
    for item in items:
        for locator in all_in(item, "artefacts"):
            path = locator.partition(":")[2].partition("#")[0].strip()
            if source_kind(locator) == "kb" and not await look.place(path):
                missing.append(f"done[{item['id']}]: nothing lies at {short(path, 200)} in the knowledge base")
    return missing


async def _calls_missing(items: Sequence[Item], look: Look) -> list[str]:
    """Return a sentence for each call that no tool answered in this phase, or that changed nothing yet."""
    if not any(all_in(item, "calls") for item in items):
        return []
    calls = await look.calls(of_all_visits=True)
    found_out = [
        (item["id"], await _uncalled(wanted, calls, look)) for item in items for wanted in all_in(item, "calls")
    ]
    return [f"done[{id_}]: {why}" for id_, why in found_out if why]


async def _uncalled(wanted: Item, calls: Sequence[Called], look: Look) -> str:
    """Return why a call does not show that something is done; "" if it does."""
    tool, path = wanted["tool"], said_in(wanted, "path")
    about = f"{tool} {path}".strip()
    same = [call for call in calls if call.tool == tool and path in ("", call.facts.get("path"))]
    if not same:
        return f"no call of {about} was answered here with this journey_id"
    if any(call.facts.get("status", "done") in CARRIED_OUT for call in same):
        return ""
    proposals = [str(call.facts["proposal"]) for call in same if call.facts.get("proposal")]
    fates = {id_: await look.proposal(id_) for id_ in dict.fromkeys(proposals)}
    if any(fate is not None and fate.state == "done" for fate in fates.values()):
        return ""
    if waiting := [id_ for id_, fate in fates.items() if fate is not None and fate.state == "pending"]:
        return f"{about} waits for the person's decision about proposal {named(waiting)}: tell them, then submit again"
    return f"{about} changed nothing: its status is {short(same[-1].facts.get('status'), 40)}; do it again"


# --- judging ----------------------------------------------------------------------------------------------------------


async def passed(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The verdict is whole, agrees with itself, and its score passes."""
    u = of_facts(facts)
    if missing := await _verdict_lacking(u, look):
        return found(missing)
    return found([]) if _score(u) >= u.pass_score else NOT


async def soft_failure(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The verdict is whole, and its score nearly passes: the implementation is refined."""
    u = of_facts(facts)
    return await _failed(u, facts, look, "soft_failure", at=u.soft_score, below=u.pass_score)


async def hard_failure(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The verdict is whole, and its score is far from passing: the work is planned anew."""
    u = of_facts(facts)
    return await _failed(u, facts, look, "hard_failure", at=0, below=u.soft_score)


async def _failed(
    u: Undertaking, facts: SubmitFacts, look: Look, kind: FeedbackKind, *, at: int, below: int
) -> ConditionFinding:
    if u.score is None or not at <= u.score < below or _used_up(facts, failed=True):
        return NOT
    if await _verdict_lacking(u, look):
        return NOT
    return ConditionFinding(met=True, detail=_told(u, TOLD), feedback=(_told(u, MOST_FEEDBACK),), kind=kind)


def _told(u: Undertaking, most: int) -> str:
    """Return a verdict in a few words, for those who come later."""
    issues = "; ".join(f"{i['id']} ({i['severity']}, {i['about']}) {short(i['text'])}" for i in u.issues)
    return short(f"{u.score} of 100: {issues}. {said_in(u.verdict, 'reasons')}", most)


def _score(u: Undertaking) -> int:
    return -1 if u.score is None else u.score


async def _verdict_lacking(u: Undertaking, look: Look) -> list[str]:
    """Return what a verdict lacks, or where it does not agree with what it rests on."""
    plain = list(_judgements_lacking(u)) or list(_score_wrong(u))
    return [*await unfounded(u.verdict, "judged", look), *plain]


def _judgements_lacking(u: Undertaking) -> Iterator[str]:
    judged, issues = listed(u.verdict, "judged"), u.issues
    there, steps = ids(u.requirements), ids(u.steps)
    if lost := [id_ for id_ in there if id_ not in ids(judged)]:
        yield f"not judged yet: {named(lost)}; send the verdict whole"
    if unknown := [id_ for id_ in ids(judged) if id_ not in there]:
        yield f"these are no requirements: {named(unknown)}; name {named(there)}"
    for one in judged:
        yield from _unproved(u, one)
    if unknown := [
        f"{issue['id']} ({short(issue['about'], 60)})" for issue in issues if issue["about"] not in (*there, *steps)
    ]:
        yield f"these issues are about no requirement and no step: {named(unknown)}"
    if open_ := [id_ for id_ in u.left_undone if id_ not in [issue["about"] for issue in issues]]:
        yield f"these steps are not done: {named(open_)}; name an issue about each, which says what that means"
    if used := [id_ for id_ in ids(issues) if id_ in u.answers_to_judge]:
        yield f"these ids are those of issues that were answered: {named(used)}; give what is still wrong a new id"
    if again := [id_ for id_ in ids(issues) if id_ in (*there, *steps)]:
        yield f"these ids are used for something else already: {named(again)}; give each issue an id of its own"
    if not said_in(u.verdict, "reasons"):
        yield "there are no reasons: say in `reasons` what the score comes from"
    if u.score is None:
        yield "there is no score: a number from 0 to 100"


def _unproved(u: Undertaking, one: Item) -> Iterator[str]:
    """Yield what a judgement lacks: what is met needs something that shows it, what is not needs an issue."""
    about = [issue for issue in u.issues if issue["about"] == one["id"]]
    if one["met"] == "partly" and not about:
        yield f"{one['id']} is met partly: name an issue about {one['id']} that says what is missing"
    if one["met"] == "no" and not any(issue["severity"] != "minor" for issue in about):
        yield f"{one['id']} is not met: name a major or blocking issue about {one['id']}"
    wrong = [id_ for id_ in all_in(one, "steps") if not _covers(u, id_, one["id"])]
    if wrong:
        yield f"{one['id']} is not shown by {named(wrong)}: name steps that are done and cover it"
    steps, quotes = all_in(one, "steps"), all_in(one, "shown_by")
    if one["met"] == "yes" and not steps and not quotes:
        yield f"nothing shows that {one['id']} is met: name steps that are done and cover it, or quote a page"
    elif one["met"] == "yes" and not quotes and not said_in(one, "observed") and _all_only_said(u, steps):
        yield f"{one['id']} rests on steps that are only said to be done: look for yourself, and say what you observed"


def _covers(u: Undertaking, step: str, requirement: str) -> bool:
    """Return whether the step is done, and serves that requirement by itself."""
    return step in u.done and any(one["id"] == step and requirement in all_in(one, "covers") for one in u.steps)


def _all_only_said(u: Undertaking, steps: Sequence[str]) -> bool:
    return all(only_said(u.done[id_]) for id_ in steps if id_ in u.done)


def _score_wrong(u: Undertaking) -> Iterator[str]:
    judged = listed(u.verdict, "judged")
    allowed = score_range(judged, u.issues, u.left_undone, len(u.requirements), u.pass_score)
    score = _score(u)
    if allowed.least <= score <= allowed.most:
        return
    between = f"{allowed.least}" if allowed.least == allowed.most else f"between {allowed.least} and {allowed.most}"
    barred = f"; it cannot pass: {allowed.barred}" if allowed.barred and score > allowed.most else ""
    yield f"the score {score} does not agree with what you found: {allowed.why}, so it lies {between}{barred}"


# --- the budget -------------------------------------------------------------------------------------------------------


async def budget_exhausted(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Tokens or seconds are used up; or an attempt failed, and it was the last one."""
    gone = _used_up(facts, failed=await _has_failed(facts, look))
    if not gone:
        return NOT
    verdict = of_facts(facts)
    judged = [_told(verdict, MOST_FEEDBACK)] if facts.phase == JUDGING and verdict.score is not None else []
    kind: FeedbackKind = "soft_failure" if _score(verdict) >= verdict.soft_score else "hard_failure"
    return ConditionFinding(met=True, feedback=(*judged, f"the budget is used up: {', '.join(gone)}"), kind=kind)


async def _has_failed(facts: SubmitFacts, look: Look) -> bool:
    u = of_facts(facts)
    if facts.phase == VALIDATING:
        return bool(u.errors)
    return facts.phase == JUDGING and u.score is not None and not await _verdict_lacking(u, look)


def _used_up(facts: SubmitFacts, *, failed: bool) -> list[str]:
    return used_up(facts.spent, limits_of(facts.inputs), failed=failed)


CONDITIONS: Mapping[str, Condition] = {
    condition.__name__: condition
    for condition in (
        planned,
        goal_cannot_be_met,
        plan_valid,
        plan_invalid,
        implemented,
        passed,
        soft_failure,
        hard_failure,
        budget_exhausted,
    )
}
