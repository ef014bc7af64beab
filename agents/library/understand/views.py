"""The texts in prompts and lists about the recorded work of understanding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.events import Json, Note, QuestionAdded
from agents.engine.state import JourneyState
from agents.engine.work.form import ids, items_in
from agents.engine.work.gaps import listing, new_sources, short
from agents.library.understand.course import CALIBRATE, DIAGNOSE, TEACH, Course, Item
from agents.prompts.prompt import bullets

LIST_TOKENS = 120
"""The token limit of a list in a prompt: even with the longest brief and all finished work, an answer fits its budget."""

PLACEHOLDERS = ("to_take_in", "objective", "source", "knows", "failed", "diagnosis", "lesson")


def values(state: JourneyState) -> Mapping[str, str]:
    """Return the values of the placeholders in this agent's prompts."""
    course = Course(state.works)
    objective = course.present if state.phase == TEACH else course.next
    known = [_known(entry) for entry in course.knows.values()]
    return {
        "to_take_in": bullets(list(_to_take_in(course)), LIST_TOKENS) or "- what the person says; nothing else",
        "objective": _objective(course, objective),
        "source": _source(course, objective),
        "knows": "; ".join(known[:8]) or "nothing is on record",
        "failed": _failed(course, objective),
        "diagnosis": _diagnosis(course, objective),
        "lesson": _lesson(course, objective),
    }


def _objective(course: Course, objective: str) -> str:
    if objective not in course.objectives:
        return "one that the person wants to go over again"
    return f"{objective}: {short(course.objectives[objective]['text'], 300)}"


def _source(course: Course, objective: str) -> str:
    if objective not in course.objectives:
        return "its source"
    source = course.objectives[objective]["source"]
    return short(f"{source['path']} > {source['section']}" if source["section"] else source["path"], 200)


def _known(entry: Item) -> str:
    return f"{entry['id']} {short(entry['topic'], 60)}: {entry['level']}"


def _to_take_in(course: Course) -> Iterator[str]:
    if asked := course.contradicted:
        yield f"{_known(course.knows[asked['knows']])}, but probe {asked['probe']} shows otherwise: {short(asked['why'])}"
    if gap := course.gap:
        yield f"missing before {course.present}: {short(gap['prerequisite'])} (check {gap['check']}): {short(gap['why'])}"


def _failed(course: Course, objective: str) -> str:
    wrong = [check for check in _checks(course, objective) if not check["correct"]]
    asked = "; ".join(short(check["question"], 100) for check in wrong[:3])
    return f"Answered wrongly after the lesson: {asked}" if wrong else ""


def _checks(course: Course, objective: str) -> Sequence[Item]:
    return items_in(course.lessons.get(objective, {}), "checks")


def _diagnosis(course: Course, objective: str) -> str:
    diagnosis = course.diagnoses.get(objective)
    if diagnosis is None:
        return "nothing yet"
    probes = items_in(diagnosis, "probes")
    right = [probe["id"] for probe in probes if probe["correct"]]
    mistaken = "; ".join(short(text, 160) for text in diagnosis.get("misconceptions", ())[:4])
    return f"{len(right)} of {len(probes)} probes right; misconceptions: {mistaken or 'none'}"


def _lesson(course: Course, objective: str) -> str:
    lesson = course.lessons.get(objective)
    if lesson is None:
        return "not this one"
    wrong = [check["id"] for check in _checks(course, objective) if not check["correct"]]
    return f"{short(lesson['taught'], 300)} (failed: {listing(wrong) or 'none'})"


def done(state: JourneyState) -> Sequence[str]:
    """Return a summary of the work so far for another host to continue from, beginning with the present phase's needs."""
    course = Course(state.works)
    objectives, knows = list(_objectives(course)), list(_knows(course))
    if state.phase == CALIBRATE:
        return [*_goal(course), *knows, *objectives]
    return [*_goal(course), *objectives, *knows]


def _goal(course: Course) -> Iterator[str]:
    if course.goal:
        yield f"goal: {short(course.goal)}"
    if course.passed:
        yield f"passed ({len(course.passed)} of {len(course.objectives)}): {listing(course.passed)}"


def _objectives(course: Course) -> Iterator[str]:
    """Yield the objectives with their progress, those that are not passed first."""
    for id_ in [*course.left, *course.passed]:
        told = f"objective {id_}: {short(course.objectives[id_]['text'], 100)} ({_source(course, id_)})"
        needs = [need for need in course.objectives[id_].get("needs", ()) if need in course.left]
        yield told + (f", after {listing(needs)}" if needs else "") + f"; {_progress(course, id_)}"


def _progress(course: Course, objective: str) -> str:
    if objective in course.passed:
        return "passed"
    if objective in course.lessons:
        wrong = [check["id"] for check in _checks(course, objective) if not check["correct"]]
        return f"taught, failed: {listing(wrong)}" if wrong else "taught, not passed"
    return "diagnosed" if objective in course.diagnoses else "not begun"


def _knows(course: Course) -> Iterator[str]:
    for entry in course.knows.values():
        yield f"{_known(entry)}; the learner said: {short(entry.get('learner_said', ''), 80)}"


_ASKED = {DIAGNOSE: ("diagnoses", "probes"), TEACH: ("lessons", "checks")}


def notes(phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return the sources that a work adds to its previous version, and the new questions to the learner."""
    outer, inner = _ASKED.get(phase, ("", ""))
    known = set(_asked(before, outer, inner))
    new = [asked for asked in _asked(after, outer, inner) if asked not in known]
    notes = [QuestionAdded(id_, question, objective) for objective, id_, question in new]
    return [*notes, *new_sources(before, after)]


def _asked(work: Json, outer: str, inner: str) -> Iterator[tuple[str, str, str]]:
    for item in items_in(work, outer) if isinstance(work, dict) else ():
        questions = items_in(item, inner)
        yield from (
            (item["id"], id_, question["question"]) for id_, question in zip(ids(questions), questions, strict=True)
        )


VIEWS = {"values": values, "done": done, "notes": notes}
