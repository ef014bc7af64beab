"""The conditions under which teaching moves forward, or back.

Each looks only at the learner's answers and at the pages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.agent import ConditionFinding, Look, QuotedStatement, SubmitFacts
from agents.engine.evidence.substance import emptiness, idle_texts, unsupported
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import (
    citations_in,
    finding,
    folded,
    listing,
    repeated_texts,
    shared_ids,
    short,
    unresolved_citations,
)
from agents.library.understand.course import LEAST_CHECKS, LEAST_PROBES, Course, Item, answered

NOTHING_TO_LEARN = "no objective is left; keep at least one"
"""If a person let the work continue after a calibration that lost its objectives, it can only go back."""


# --- CALIBRATE --------------------------------------------------------------------------------------------------------


async def learner_calibrated(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The learner's knowledge is in their own words, objectives come from passages, and later findings are included."""
    course = Course(facts.works)
    looked = await unresolved_citations(facts.work, "objectives", look)
    idle = idle_texts(list(course.objectives.values()), "text", told=facts.told)
    return finding([*_knowledge_wrong(course), *_objectives_wrong(course), *looked, *idle, *_not_taken_in(course)])


def _knowledge_wrong(course: Course) -> Iterator[str]:
    if not course.goal:
        yield "there is no goal yet: ask what the learner wants to be able to do"
    if not course.knows:
        yield "`knows` is empty: ask what the learner knows already, and submit it with what they said"
    if silent := [id_ for id_, entry in course.knows.items() if not entry.get("learner_said", "").strip()]:
        yield f"without the learner's words these levels are guesses: {listing(silent)}; ask, and put the answer into `learner_said`"


def _objectives_wrong(course: Course) -> Iterator[str]:
    objectives = list(course.objectives.values())
    if not objectives:
        yield "there is no objective yet: submit at least one, with the passage it comes from"
    yield from shared_ids(list(course.knows.values()), objectives)
    yield from repeated_texts(objectives, "text")
    for id_, objective in course.objectives.items():
        if lost := [need for need in objective.get("needs", ()) if need not in course.objectives]:
            yield f"the objective {id_} needs objectives that do not exist: {listing(lost)}; add them or take them out of `needs`"
        elif id_ in course.before(id_):
            yield f"the objective {id_} needs itself, through objectives that it needs: take one of them out of `needs`"


def _not_taken_in(course: Course) -> Iterator[str]:
    """Yield the reasons that brought the work back here and still hold."""
    if asked := course.contradicted:
        level = course.knows[asked["knows"]]["level"]
        yield (
            f"{asked['knows']} says {level}, but the learner's answer to probe {asked['probe']} shows otherwise: send it with "
            "another level"
        )
    if gap := course.gap:
        yield (
            f"nothing teaches {short(gap['prerequisite'], 80)!r} yet: add an objective whose text has these words, and its id to the "
            "`needs` of the one that failed; or, if the learner knows it after all, an entry of `knows` with that topic and their "
            "words"
        )


# --- DIAGNOSE ---------------------------------------------------------------------------------------------------------


async def objective_diagnosed(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """This submit has the learner's answers to new questions about the objective that comes next."""
    course = Course(facts.works)
    # If all are passed, a person has sent the work back, so the host chooses which one to look at again.
    wanted = course.next or str(facts.given.get("objective"))
    if wanted not in course.objectives:
        return finding([f"there is no objective {wanted[:60]}: there are {listing(list(course.objectives))}"])
    if facts.given.get("objective") != wanted:
        return finding([f"{wanted} comes next: diagnose that one, and name it as `objective`"])
    # From this submit: the recorded diagnosis led to the lesson that failed, and new answers are needed.
    diagnosis = _of(facts.given, "diagnoses", wanted)
    if diagnosis is None:
        return finding([f"this submit has no diagnosis of {wanted}: ask the learner new questions about it"])
    return finding([*_probes_wrong(course, wanted, items_in(diagnosis, "probes"))])


def _probes_wrong(course: Course, objective: str, probes: Sequence[Item]) -> Iterator[str]:
    yield from _too_few(f"the diagnosis of {objective}", "probe", probes, LEAST_PROBES)
    yield from repeated_texts(probes, "question")
    if lost := [probe["id"] for probe in probes if probe.get("about") not in (None, *course.knows)]:
        there = listing(list(course.knows))
        yield f"these probes are about entries that `knows` does not have: {listing(lost)}; `about` is one of {there}, or null"
    asked = {folded(check["question"]): check["id"] for check in items_in(course.lessons.get(objective, {}), "checks")}
    for probe in probes:
        if check := asked.get(folded(probe["question"])):
            yield f"probe {probe['id']} asks what check {check} asked: ask something that the learner was not asked yet"


def _too_few(of: str, kind: str, questions: Sequence[Item], least: int) -> Iterator[str]:
    if len(questions) < least:
        yield f"{of} has {len(questions)} {kind}s: ask the learner at least {least}"
    there = ids(answered(questions))
    if silent := [question["id"] for question in questions if question["id"] not in there]:
        yield f"the learner has not answered {listing(silent)}: ask, wait, and put their words into `learner_answer`"


async def calibration_was_inaccurate(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """This submit names an assumed level, and an answer of the learner that contradicts it."""
    course, asked = Course(facts.works), facts.given.get("recalibrate")
    if not course.objectives:
        return finding((), NOTHING_TO_LEARN)
    if not isinstance(asked, dict):
        return finding(["`recalibrate` is missing: name the entry of `knows` and the probe that contradicts it"])
    entry, probe = str(asked.get("knows")), str(asked.get("probe"))
    if entry not in course.knows:
        return finding([f"`knows` has no entry {entry[:60]}: there are {listing(list(course.knows))}"])
    level = course.knows[entry]["level"]
    if probe not in list(course.against(entry)):
        wanted = "about it and answered wrongly where the level is solid, or correctly where it is none"
        return finding([f"probe {probe[:60]} does not contradict that {entry} is {level}: it has to be {wanted}"])
    topic = short(course.knows[entry]["topic"], 80)
    return finding((), f"{entry} ({topic}) says {level}, probe {probe} shows otherwise: {short(asked.get('why'))}")


# --- TEACH ------------------------------------------------------------------------------------------------------------


async def fundamental_prerequisite_gap(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """A check of this lesson failed because the learner lacks something that no objective teaches."""
    course, gap = Course(facts.works), facts.given.get("gap")
    if not course.objectives:
        return finding((), NOTHING_TO_LEARN)
    if not isinstance(gap, dict):
        return finding(["`gap` is missing: name the prerequisite and the failed check that shows it"])
    failed = _failed(course, facts.given)
    if str(gap.get("check")) not in ids(failed):
        there = listing(ids(failed)) or "none"
        return finding(
            [f"`gap.check` names no failed check of the lesson on {course.present} in this submit; failed: {there}"]
        )
    topic = str(gap.get("prerequisite"))
    if named_by := course.teaching(topic):
        return finding(
            [
                f"the objective {named_by[0]} names {short(topic, 80)!r} already: teach it again, or say what exactly is missing"
            ]
        )
    if known := course.knowing(topic):
        return finding(
            [f"{known[0]} says that the learner knows {short(topic, 80)!r}: let a new diagnosis show whether they do"]
        )
    return finding((), f"{short(topic)}, which check {gap['check']} of {course.present} shows: {short(gap.get('why'))}")


async def check_question_failed(facts: SubmitFacts, _look: Look) -> ConditionFinding:
    """The learner answered a check of this lesson wrongly."""
    course = Course(facts.works)
    failed = _failed(course, facts.given)
    if not failed:
        return finding(
            [f"the lesson on {course.present} in this submit has no check that the learner answered wrongly"]
        )
    return finding(
        (), "; ".join(f"{course.present}, check {check['id']}: {short(check['question'])}" for check in failed)
    )


def _failed(course: Course, given: Mapping[str, object]) -> list[Item]:
    lesson = _of(given, "lessons", course.present)
    return [check for check in answered(items_in(lesson or {}, "checks")) if not check["correct"]]


async def objective_passed(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """This submit has a lesson that rests on passages, its checks are all answered correctly, and other objectives are left."""
    wrong = await _lesson_wrong(facts, look)
    if wrong or Course(facts.works).left:
        return finding(wrong, statements=_lesson_statements(facts))
    return ConditionFinding(met=False)


async def all_objectives_passed(facts: SubmitFacts, look: Look) -> ConditionFinding:
    """The lesson is passed, no objective is left, and every lesson's quotes still hold."""
    wrong = await _lesson_wrong(facts, look)
    course = Course(facts.works)
    if wrong or course.left:
        # Objectives left for later are no fault of this lesson, so they are not reported.
        return ConditionFinding(met=False, missing=tuple(wrong))
    unresolved = await unresolved_citations(facts.work, "lessons", look, frozenset(course.objectives))
    return finding(unresolved, statements=_lesson_statements(facts))


async def _lesson_wrong(facts: SubmitFacts, look: Look) -> list[str]:
    course = Course(facts.works)
    objective, lesson = course.present, _of(facts.given, "lessons", course.present)
    # Passed lessons may be sent again, as a host that repeats its whole work does.
    others = [id_ for id_ in ids(items_in(facts.given, "lessons")) if id_ != objective and id_ not in course.passed]
    wrong = (
        [f"these lessons are not on {objective}, which is taught now: {listing(others)}; drop them"] if others else []
    )
    if lesson is None:
        return [*wrong, f"this submit has no lesson on {objective}: teach it, check, and submit the complete lesson"]
    checks = items_in(lesson, "checks")
    of = f"the lesson on {objective}"
    wrong += [*_too_few(of, "check", checks, LEAST_CHECKS), *repeated_texts(checks, "question")]
    if not lesson.get("citations"):
        wrong.append(f"{of} has no citation: quote the passages that it rests on")
    for said in _lesson_statements(facts):
        asked = f"{said.question}\n{course.goal}"
        idle = emptiness(said.text, name="taught", told=facts.told)
        if idle := idle or unsupported(said.text, said.quotes, question=asked):
            wrong.append(f"{of} {idle}")
    if failed := [check["id"] for check in answered(checks) if not check["correct"]]:
        wrong.append(f"the learner did not answer {listing(failed)} correctly")
    return [*wrong, *await unresolved_citations(facts.work, "lessons", look, frozenset([objective]))]


def _lesson_statements(facts: SubmitFacts) -> list[QuotedStatement]:
    """Return what this submit's lesson teaches with its quotes and its objective; nothing without a lesson."""
    course = Course(facts.works)
    lesson = _of(facts.given, "lessons", course.present)
    if lesson is None:
        return []
    quotes = tuple(one.quote for _, one in citations_in(lesson))
    objective = str(course.objectives.get(course.present, {}).get("text", ""))
    return [QuotedStatement(f"the lesson on {course.present}", lesson["taught"], quotes, objective)]


def _of(work: Mapping[str, object], name: str, id_: str) -> Item | None:
    """Return the item of that id in a list of a work."""
    return next((item for item in items_in(work, name) if item.get("id") == id_), None)
