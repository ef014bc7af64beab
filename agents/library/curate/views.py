"""The texts in prompts and lists about the recorded work of curating."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.events import Json, Note, QuestionAdded
from agents.engine.state import JourneyState
from agents.engine.work.gaps import listing, new_sources, short
from agents.library.curate.record import (
    ORIENT,
    ROUTE,
    TARGET,
    CurationRecord,
    Item,
)
from agents.prompts.prompt import bullets

LIST_TOKENS = 200
"""The token limit of a list in a prompt: even with the longest brief and all finished work, an answer fits its budget."""

PLACEHOLDERS = (
    "question",
    "place",
    "candidates",
    "pages",
    "evidence",
    "conclusion",
    "act",
    "acts",
    "changed",
    "unverified",
)


def values(state: JourneyState) -> Mapping[str, str]:
    """Return the values of the placeholders in this agent's prompts."""
    record = CurationRecord(state.works)
    place = state.work[ROUTE].content.get("place") if ROUTE in state.work else None
    return {
        "question": short(record.question, 400) or "nothing yet",
        "place": short(place, 200) if place else "none",
        "candidates": _listed(_place(item) for item in record.candidates),
        "pages": _listed(_place(item) for item in record.targets),
        "evidence": bullets([_evidence(item) for item in record.evidence], LIST_TOKENS) or "- none",
        "conclusion": short(record.question if record.small else record.conclusion, 400) or "nothing yet",
        "act": _chosen(record),
        "acts": _listed(_deed(act) for act in record.acts),
        "changed": _listed(f"{short(path, 120)} ({listing(tools)})" for path, tools in record.changed.items()),
        "unverified": _listed(short(path, 120) for path in record.changed if path not in record.verified),
    }


def _listed(told: Iterator[str]) -> str:
    items = list(told)
    more = f"; and {len(items) - 5} more" if len(items) > 5 else ""
    return "; ".join(items[:5]) + more if items else "none"


def _place(item: Item) -> str:
    return f"{item['id']} {short(item['path'], 100)}"


def _evidence(item: Item) -> str:
    citation = item["citation"]
    at = f"{citation['path']} > {citation['section']}" if citation["section"] else citation["path"]
    return f"{item['id']}: {short(item['says'])} ({short(at, 100)})"


def _chosen(record: CurationRecord) -> str:
    act = record.chosen
    if act is None:
        return "nothing yet"
    return f"{act['kind']}{f' at {short(path, 200)}' if (path := act.get('path')) else ''}: {short(act['why'], 300)}"


def _deed(act: Item) -> str:
    at = f" {short(act['path'], 100)}" if act.get("path") else ""
    return f"{act['id']} {act['tool']}{at}" + (f", proposal {act['proposal']}" if act.get("proposal") else "")


def done(state: JourneyState) -> Sequence[str]:
    """Return a summary of the work so far for another host to continue from, newest phases first."""
    record = CurationRecord(state.works)
    ended = [*_acts(record), *_conclusion(record)]
    found = [f"evidence {_evidence(item)}" for item in record.evidence]
    looked = [*_looked("page", record.targets), *_looked("candidate", record.candidates)]
    asked = [f"question: {short(record.question)}"] if record.question else []
    if state.phase in (ROUTE, ORIENT, TARGET):
        return [*asked, *looked, *found, *ended]
    return [*asked, *ended, *found, *looked]


def _acts(record: CurationRecord) -> Iterator[str]:
    for path, page in record.verified.items():
        yield f"verified: {short(path, 100)} " + (
            f"at revision {short(page['revision'], 60)}" if page["revision"] else "is gone"
        )
    for act in record.acts:
        yield f"act {_deed(act)}"
    if record.said:
        yield f"the person was told: {short(record.said)}"


def _conclusion(record: CurationRecord) -> Iterator[str]:
    if record.conclusion:
        yield f"conclusion: {short(record.conclusion, 300)} (rests on {listing(record.rests_on)})"
    if record.chosen is not None:
        yield f"chosen: {_chosen(record)}"


def _looked(kind: str, items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        yield f"{kind} {_place(item)}: {short(item['why'], 100)}"


def notes(phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return the question, if it is new or changed, and the sources that a work adds to its previous version."""
    notes = list[Note]()
    if phase == ROUTE and isinstance(after, dict):
        old = before.get("question") if isinstance(before, dict) else None
        if after.get("question") not in (None, old):
            notes.append(QuestionAdded("question", after["question"], str(after.get("mode", ""))))
    return [*notes, *new_sources(before, after)]


VIEWS = {"values": values, "done": done, "notes": notes}
