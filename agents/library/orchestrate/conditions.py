"""The conditions of orchestrate's transitions. They check the record, never a model's claims about itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.agent import NOT_MET, Called, ConditionFinding, JourneySpent, Look, SubmitFacts
from agents.engine.evidence.shown import READ
from agents.engine.evidence.substance import emptiness, idle_texts
from agents.engine.graph import FeedbackKind
from agents.engine.work.form import field_path, ids, items_in
from agents.engine.work.gaps import citations_in, finding, listing, missing_pages, short, unresolved_citations
from agents.library.orchestrate.record import (
    IMPLEMENTING,
    JUDGING,
    PLANNING,
    SAME_FAILURES,
    VALIDATING,
    Item,
    Undertaking,
    WorkLimits,
    list_in,
    of_facts,
    only_said,
    text_in,
)
from agents.library.orchestrate.scores import score_range

DETAIL_CHARS, FEEDBACK_CHARS = 300, 700
CARRIED_OUT = frozenset({"done", "partial", "unchanged"})
"""The statuses of an act that took effect. Calls that only read have no status."""


# --- planning ---------------------------------------------------------------------------------------------------------


async def planned(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """There is a plan to validate, and it answers the judge's objections to the previous plan."""
    u = of_facts(facts)
    if facts.work.get("cannot"):
        return NOT_MET
    if facts.work.get("draft"):
        return finding(["it is recorded as a draft: submit the rest, the last part without draft"])
    missing = [] if u.steps else ["there is no step yet: submit a plan"]
    if u.given_requirements and (own := ids(items_in(u.plan, "requirements"))):
        missing.append(f"the requirements came with the brief, so the plan adds none: drop {listing(own)}")
    missing += [
        f"the judge's issue {issue['id']} is not answered ({short(issue['text'])}): say in `answers` what this plan changes"
        for issue in u.open_issues(PLANNING)
    ]
    if (goal := text_in(u.plan, "goal")) and (why := emptiness(goal, name="goal", told=facts.told)):
        missing.append(f"`goal` {why}")
    missing += idle_texts(items_in(u.plan, "requirements"), "text", told=facts.told)
    missing += idle_texts(items_in(u.plan, "left_out"), "why", told=facts.told)
    missing += idle_texts(u.steps, "step", "done_when", told=facts.told)
    return finding(missing)


async def goal_cannot_be_met(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The planner names a requirement that cannot be met, with the reason and the evidence. A person decides whether to agree."""
    cannot = facts.work.get("cannot")
    if not isinstance(cannot, Mapping):
        return NOT_MET
    u = of_facts(facts)
    missing = [
        f"{field_path(facts.work, ('cannot', *loc))}: {why}"
        for loc, citation in citations_in(cannot)
        if (why := await look.cited(citation))
    ]
    if cannot["requirement"] not in ids(u.requirements):
        missing.append(
            f"`cannot` names none of the requirements: name one of {listing(ids(u.requirements)) or 'those you submit'}"
        )
    if not list_in(cannot, "shown_by") and not list_in(cannot, "tried"):
        missing.append(
            "nothing shows that it cannot be met: quote a page that says so in `shown_by`, or say in `tried` what was tried"
        )
    # No feedback: if the person agrees, the work ends, and no later attempt could use it.
    return finding(missing)


# --- validating -------------------------------------------------------------------------------------------------------


async def plan_invalid(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The plan breaks rules, and the planner may try again."""
    u = of_facts(facts)
    # With the same failures again and again, or without budget, other transitions end the work.
    if not u.errors or u.same_failures >= SAME_FAILURES or used_up(facts.spent, u.limits, failed=True):
        return NOT_MET
    return ConditionFinding(met=True, detail=_broken(u), feedback=_validation(u))


async def plan_valid(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The plan breaks no rule."""
    u = of_facts(facts)
    return NOT_MET if u.errors else ConditionFinding(met=True, feedback=_validation(u))


def _broken(u: Undertaking) -> str:
    again = f", the same as before: {u.same_failures} times in a row" if u.same_failures > 1 else ""
    count = len(u.broken)
    return f"the plan breaks {count} {'rule' if count == 1 else 'rules'}{again}"


def _validation(u: Undertaking) -> tuple[str, ...]:
    """Return the feedback on a validation for later attempts. The full errors are in the validator's own work."""
    told = [f"{_broken(u)}: {listing(u.broken)}"] if u.errors else []
    if u.warnings:
        told.append(f"warnings: {short('; '.join(item['text'] for item in u.warnings), DETAIL_CHARS)}")
    if u.rule_mistakes:
        lost = short("; ".join(u.rule_mistakes), DETAIL_CHARS)
        told.append(f"these rules could not be read, and do not apply until somebody fixes them: {lost}")
    return tuple(told)


# --- implementing -----------------------------------------------------------------------------------------------------


async def implemented(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Every step is done and shown, or named as undone with a reason; every issue of the judge is answered."""
    u = of_facts(facts)
    idle = [
        *idle_texts(items_in(facts.work, "done"), "result", "observed", "said", told=facts.told),
        *idle_texts(items_in(facts.work, "undone"), "why", told=facts.told),
        *idle_texts(items_in(facts.work, "answers"), "how", told=facts.told),
    ]
    plain = [*_done_lacking(u), *_unanswered(u, facts.work), *idle]
    # Each check costs a read: while anything else is missing, only this submission's items are checked.
    given = frozenset(ids(items_in(facts.given, "done"))) if plain else None
    shown = [item for item in u.done.values() if given is None or item["id"] in given]
    looked = await unresolved_citations(facts.work, "done", look, given)
    return finding([*looked, *await missing_pages(shown, "done", look), *await _calls_missing(shown, look), *plain])


def _done_lacking(u: Undertaking) -> Iterator[str]:
    there = ids(u.steps)
    if unknown := [id_ for id_ in (*u.done, *u.undone) if id_ not in there]:
        yield f"these are not steps of the plan: {listing(unknown)}; drop them or use the step's id"
    if both := [id_ for id_ in u.undone if id_ in u.done]:
        yield f"these are submitted as done and as undone: {listing(both)}; drop the id, then submit what is true"
    for id_, item in u.done.items():
        if only_said(item) and not text_in(item, "said"):
            yield (
                f"nothing shows yet that {id_} is done: quote a page in `shown_by`, name `artefacts` with what you observed, "
                "name `calls`, or say in `said` who said so"
            )
    for step in u.steps:
        waits = [one for one in list_in(step, "depends_on") if one in u.undone]
        if step["id"] in u.done and waits:
            yield f"{step['id']} is done, but it depends on steps that are not: {listing(waits)}"
    if u.to_do:
        yield f"not done yet: {listing(ids(u.to_do))}"


def _unanswered(u: Undertaking, work: Item) -> Iterator[str]:
    for issue in u.open_issues(IMPLEMENTING):
        yield (
            f"the judge's issue {issue['id']} is not answered ({short(issue['text'])}): change the step, send it in full, and "
            "say in `answers` what changed, or why nothing did"
        )
    for answer in items_in(work, "answers"):
        if answer["id"] in ids(u.issues) and answer["step"] not in (*u.done, *u.undone):
            yield f"answers[{answer['id']}] names the step {short(answer['step'], 60)}, which is neither done nor undone"


async def _calls_missing(items: Sequence[Item], look: Look) -> list[str]:
    """Return a sentence for each named call that no tool answered in this phase, or that has changed nothing yet."""
    if not any(list_in(item, "calls") for item in items):
        return []
    # Of all visits: a step that was done before the judge sent the work back stays done.
    calls = await look.calls(of_all_visits=True)
    checked = [(item["id"], await _uncalled(one, calls, look)) for item in items for one in list_in(item, "calls")]
    return [f"done[{id_}]: {why}" for id_, why in checked if why]


async def _uncalled(wanted: Item, calls: Sequence[Called], look: Look) -> str:
    """Return why a call does not show that something is done; "" if it does."""
    tool, path = wanted["tool"], text_in(wanted, "path")
    about = f"{tool} {path}".strip()
    same = [call for call in calls if call.tool == tool and path in ("", call.facts.get("path"))]
    if not same:
        return f"no call of {about} was answered in this phase with this journey_id"
    # A tool that only reads has no status, and its answer is all that it does.
    if any(call.facts.get("status", "done") in CARRIED_OUT for call in same):
        return ""
    proposals = [str(call.facts["proposal"]) for call in same if call.facts.get("proposal")]
    fates = {id_: await look.proposal(id_) for id_ in dict.fromkeys(proposals)}
    if any(fate is not None and fate.state == "done" for fate in fates.values()):
        return ""
    if waiting := [id_ for id_, fate in fates.items() if fate is not None and fate.state == "pending"]:
        return f"{about} waits for the person's decision on proposal {listing(waiting)}: tell them, then submit again"
    return f"{about} changed nothing: its status is {short(same[-1].facts.get('status'), 40)}; do it again"


# --- judging ----------------------------------------------------------------------------------------------------------


async def passed(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The verdict is complete, agrees with itself, and its score passes."""
    u = of_facts(facts)
    if missing := await _verdict_lacking(u, look, facts.told):
        return finding(missing)
    return finding([]) if u.score is not None and u.score >= u.pass_score else NOT_MET


async def soft_failure(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The verdict is complete, and its score nearly passes: the implementation is refined."""
    u = of_facts(facts)
    return await _failed(u, facts, look, "soft_failure", at=u.soft_score, below=u.pass_score)


async def hard_failure(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The verdict is complete, and its score is far from passing: the work is planned again."""
    u = of_facts(facts)
    return await _failed(u, facts, look, "hard_failure", at=0, below=u.soft_score)


async def _failed(
    u: Undertaking, facts: SubmitFacts, look: Look, kind: FeedbackKind, *, at: int, below: int
) -> ConditionFinding:
    if u.score is None or not at <= u.score < below or used_up(facts.spent, u.limits, failed=True):
        return NOT_MET
    if await _verdict_lacking(u, look, facts.told):
        return NOT_MET
    detail, feedback = _verdict(u, DETAIL_CHARS), (_verdict(u, FEEDBACK_CHARS),)
    return ConditionFinding(met=True, detail=detail, feedback=feedback, kind=kind)


def _verdict(u: Undertaking, most: int) -> str:
    issues = "; ".join(f"{i['id']} ({i['severity']}, {i['about']}) {short(i['text'])}" for i in u.issues)
    return short(f"{u.score} of 100: {issues}. {text_in(u.verdict, 'reasons')}", most)


async def _verdict_lacking(u: Undertaking, look: Look, told: str) -> list[str]:
    """Return what a verdict lacks, or where it contradicts its own basis. `told` is the judge's instructions."""
    # The score can be checked only against complete judgements.
    plain = list(_judgements_lacking(u)) or list(_score_wrong(u))
    idle = [
        *idle_texts(items_in(u.verdict, "judged"), "why", "observed", told=told),
        *idle_texts(u.issues, "text", told=told),
    ]
    if why := emptiness(text_in(u.verdict, "reasons") or "as found", name="reasons", told=told):
        idle.append(f"`reasons` {why}")
    cited = await unresolved_citations(u.verdict, "judged", look)
    return [*cited, *plain, *idle, *await _unread(u, look)]


async def _unread(u: Undertaking, look: Look) -> list[str]:
    """Return a sentence for each requirement that is called met because of pages that the judge has not read itself."""
    read = {call.facts.get("path") for call in await look.calls() if call.tool == READ}
    missing = []
    for one in items_in(u.verdict, "judged"):
        steps = [u.done[id_] for id_ in list_in(one, "steps") if id_ in u.done]
        pages = dict.fromkeys(path for step in steps for path in _pages_of(step))
        if one["met"] == "yes" and pages and not list_in(one, "shown_by") and read.isdisjoint(pages):
            missing.append(
                f"{one['id']} rests on pages that you have not read: kb_read {listing(list(pages))} with this journey_id, then judge"
            )
    return missing


def _pages_of(step: Item) -> Iterator[str]:
    """Yield the pages that are named as proof that a step is done: quoted ones, and those of calls that write pages."""
    yield from (citation.path for _, citation in citations_in(step))
    for call in list_in(step, "calls"):
        if call["tool"] in ("kb_read", "kb_merge") and (path := text_in(call, "path")):
            yield path


def _judgements_lacking(u: Undertaking) -> Iterator[str]:
    judged, issues = items_in(u.verdict, "judged"), u.issues
    there, steps = ids(u.requirements), ids(u.steps)
    if lost := [id_ for id_ in there if id_ not in ids(judged)]:
        yield f"not judged yet: {listing(lost)}; send the complete verdict"
    if unknown := [id_ for id_ in ids(judged) if id_ not in there]:
        yield f"these are not requirements: {listing(unknown)}; name {listing(there)}"
    for one in judged:
        yield from _unproved(u, one)
    elsewhere = [f"{one['id']} ({short(one['about'], 60)})" for one in issues if one["about"] not in (*there, *steps)]
    if elsewhere:
        yield f"these issues are about neither a requirement nor a step: {listing(elsewhere)}"
    if open_ := [id_ for id_ in u.left_undone if id_ not in [issue["about"] for issue in issues]]:
        yield f"these steps are not done: {listing(open_)}; name an issue about each that says what that means"
    # An answer is recorded by the issue's id, so an old id would make the new issue look answered.
    if used := [id_ for id_ in ids(issues) if id_ in u.answered_issues]:
        yield f"these ids belong to issues that were answered: {listing(used)}; give what is still wrong a new id"
    if again := [id_ for id_ in ids(issues) if id_ in (*there, *steps)]:
        yield f"these ids are already used for something else: {listing(again)}; give each issue an id of its own"
    if not text_in(u.verdict, "reasons"):
        yield "there are no reasons: explain the score in `reasons`"
    if u.score is None:
        yield "there is no score; give a whole number from 0 to 100"


def _unproved(u: Undertaking, one: Item) -> Iterator[str]:
    """Yield the faults of a judgement: a met requirement needs evidence, any other an issue."""
    about = [issue for issue in u.issues if issue["about"] == one["id"]]
    if one["met"] == "partly" and not about:
        yield f"{one['id']} is met partly: name an issue about {one['id']} that says what is missing"
    if one["met"] == "no" and not any(issue["severity"] != "minor" for issue in about):
        yield f"{one['id']} is not met: name a major or blocking issue about {one['id']}"
    steps, quotes = list_in(one, "steps"), list_in(one, "shown_by")
    covering = {step["id"] for step in u.steps if step["id"] in u.done and one["id"] in list_in(step, "covers")}
    if wrong := [id_ for id_ in steps if id_ not in covering]:
        yield f"{one['id']} is not shown by {listing(wrong)}: name steps that are done and cover it"
    if one["met"] == "yes" and not steps and not quotes:
        yield f"nothing shows that {one['id']} is met: name steps that are done and cover it, or quote a page"
    hearsay = all(only_said(u.done[id_]) for id_ in steps if id_ in u.done)
    if one["met"] == "yes" and steps and hearsay and not quotes and not text_in(one, "observed"):
        yield f"{one['id']} rests on steps that are only said to be done: look yourself, and say what you observed"


def _score_wrong(u: Undertaking) -> Iterator[str]:
    judged, score = items_in(u.verdict, "judged"), u.score
    allowed = score_range(judged, u.issues, u.left_undone, len(u.requirements), u.pass_score)
    if score is None or allowed.least <= score <= allowed.most:
        return
    between = f"{allowed.least}" if allowed.least == allowed.most else f"between {allowed.least} and {allowed.most}"
    barred = f"; it cannot pass: {allowed.barred}" if allowed.barred and score > allowed.most else ""
    yield f"the score {score} does not agree with what you found: {allowed.why}, so it must be {between}{barred}"


# --- the budget -------------------------------------------------------------------------------------------------------


async def budget_exhausted(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """Tokens or seconds are used up, or the last allowed attempt failed."""
    u = of_facts(facts)
    judged = facts.phase == JUDGING and u.score is not None
    # Only a sound verdict ends an attempt: a faulty one is submitted again first.
    sound = judged and not await _verdict_lacking(u, look, facts.told)
    failed = bool(u.errors) if facts.phase == VALIDATING else sound
    gone = used_up(facts.spent, u.limits, failed=failed)
    if not gone:
        return NOT_MET
    verdict = [_verdict(u, FEEDBACK_CHARS)] if judged else []
    kind: FeedbackKind = "soft_failure" if (-1 if u.score is None else u.score) >= u.soft_score else "hard_failure"
    return ConditionFinding(met=True, feedback=(*verdict, f"the budget is used up: {', '.join(gone)}"), kind=kind)


def used_up(spent: JourneySpent, limits: WorkLimits, *, failed: bool) -> list[str]:
    """Return which parts of the budget are used up, each in a few words; nothing if the work may continue.

    Tokens and seconds always count. Iterations count only after an attempt that `failed`, because only then would another begin.
    """
    told = list[str]()
    if spent.tokens >= limits.tokens:
        told.append(f"{spent.tokens:,} of {limits.tokens:,} tokens")
    if spent.seconds >= limits.seconds:
        digits = 0 if limits.seconds >= 60 else 2
        told.append(f"{spent.seconds:,.{digits}f} of {limits.seconds:,.{digits}f} seconds")
    if failed and spent.iteration >= limits.iterations:
        told.append(f"{spent.iteration} of {limits.iterations} iterations")
    return told
