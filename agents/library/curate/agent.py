"""Curate: from a question to a verified act, through the circles of the knowledge base. Its graph and its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.catalogue import texts_of
from agents.engine.agent import Agent
from agents.engine.decide import REJECTED
from agents.engine.events import Json, Note, QuestionAdded
from agents.engine.graph import Phase, PhaseGraph, Transition
from agents.engine.state import JourneyState
from agents.engine.work.form import ModelForm
from agents.engine.work.gaps import named, new_sources, short
from agents.library.curate.conditions import CONDITIONS
from agents.library.curate.record import (
    ACT,
    COMPLETE,
    DEEP_DIVE,
    KNOWLEDGE,
    MERGE,
    MESSAGES,
    ORIENT,
    REASON,
    ROUTE,
    TARGET,
    TASKS,
    CurationRecord,
    Item,
    record_of,
)
from agents.library.curate.work import Acted, Dived, Oriented, Reasoned, Routed, Targeted, Verified
from agents.prompts.prompt import lines

LIST_TOKENS = 200
"""What a list in a prompt may cost: with the longest brief and all that was done, an answer still fits its budget."""

GRAPH = PhaseGraph(
    "curate",
    (
        Phase(
            ROUTE,
            "Route",
            "say what is asked, and whether its place is known",
            "There is a brief.",
            "There is one question, and it is known whether a place is known for it.",
            tools=("kb_map",),
            prompt="route",
            prompt_again="route_again",
        ),
        Phase(
            ORIENT,
            "Orient",
            "first circle: find on the map where to look",
            "The place is known, or what was looked for was not found where it was looked for.",
            "The map was looked at, and the places that it names exist.",
            tools=("kb_map",),
            prompt="orient",
            prompt_again="orient_again",
        ),
        Phase(
            TARGET,
            "Target",
            "second circle: find the pages that should have it",
            "There are places to look at.",
            "There are pages, each of them read.",
            tools=("kb_read", "kb_map"),
            prompt="target",
            prompt_again="target_again",
        ),
        Phase(
            DEEP_DIVE,
            "Deep dive",
            "third circle: find the passages",
            "Pages were chosen, or no place is known.",
            "There is evidence, all of it stands where it says, and nothing is said to be missing.",
            tools=("kb_search", "kb_read"),
            prompt="deep_dive",
            prompt_again="deep_dive_again",
        ),
        Phase(
            REASON,
            "Reason",
            "say what follows, and choose what to do",
            "There is evidence.",
            "A conclusion rests on evidence, and one act is chosen that can be done.",
            tools=("kb_read", "kb_history", "kb_contradictions"),
            prompt="reason",
            prompt_again="reason_again",
        ),
        Phase(
            ACT,
            "Act",
            "do it, or have it decided",
            "One act is chosen.",
            "The act is on the server's own record, and no proposal of it waits.",
            tools=(*KNOWLEDGE, *TASKS, *MESSAGES, "kb_read"),
            prompt="act",
            prompt_again="act_again",
        ),
        Phase(
            MERGE,
            "Merge",
            "see what the changed pages say now",
            "The knowledge base was changed.",
            "Every changed page is as it is told to be, and says what was merged.",
            tools=("kb_read", "kb_history", "kb_contradictions"),
            prompt="merge",
            prompt_again="merge_again",
        ),
        Phase(COMPLETE, "Complete", "tell how it ended", "The act is on record, and verified.", prompt="complete"),
    ),
    (
        Transition(ROUTE, ORIENT, "known_place", priority=1),
        Transition(ROUTE, DEEP_DIVE, "unknown_place"),
        Transition(ORIENT, TARGET, "oriented"),
        Transition(TARGET, DEEP_DIVE, "targeted"),
        Transition(DEEP_DIVE, ORIENT, "missing_context", is_backward=True),
        Transition(DEEP_DIVE, REASON, "evidence_found"),
        Transition(REASON, ACT, "act_chosen"),
        Transition(ACT, REASON, REJECTED, is_backward=True),
        Transition(ACT, MERGE, "knowledge_changed", priority=1),
        Transition(ACT, COMPLETE, "acted"),
        Transition(MERGE, COMPLETE, "merged"),
    ),
    ROUTE,
    (COMPLETE,),
)


# --- what a prompt tells ----------------------------------------------------------------------------------------------


def values(state: JourneyState) -> Mapping[str, str]:
    """Return what stands for the placeholders of this agent's prompts."""
    record = record_of(state)
    place = state.work[ROUTE].content.get("place") if ROUTE in state.work else None
    return {
        "question": short(record.question, 400) or "nothing yet",
        "place": short(place, 200) if place else "none",
        "candidates": _listed(_place(item) for item in record.candidates),
        "pages": _listed(_place(item) for item in record.targets),
        "evidence": lines([_evidence(item) for item in record.evidence], LIST_TOKENS) or "- none",
        "conclusion": short(record.conclusion, 400) or "nothing yet",
        "act": _chosen(record),
        "acts": _listed(_deed(act) for act in record.acts),
        "changed": _listed(f"{short(path, 120)} ({named(tools)})" for path, tools in record.changed.items()),
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
    """Return what was done, the newest phases first, so that another host can go on."""
    record = record_of(state)
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
        yield f"conclusion: {short(record.conclusion, 300)} (rests on {named(record.rests_on)})"
    if record.chosen is not None:
        yield f"chosen: {_chosen(record)}"


def _looked(kind: str, items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        yield f"{kind} {_place(item)}: {short(item['why'], 100)}"


def told(phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return the question, when it is asked or changed, and the sources that a work has and the one before it had not."""
    notes = list[Note]()
    if phase == ROUTE and isinstance(after, dict):
        old = before.get("question") if isinstance(before, dict) else None
        if after.get("question") not in (None, old):
            notes.append(QuestionAdded("question", after["question"], str(after.get("mode", ""))))
    return [*notes, *new_sources(before, after)]


AGENT = Agent(
    name="curate",
    title="Curate",
    summary="From a question to a verified act: route, map, page, passages, a conclusion, the act, and what the page says then.",
    graph=GRAPH,
    forms={
        ROUTE: ModelForm(Routed),
        ORIENT: ModelForm(Oriented),
        TARGET: ModelForm(Targeted),
        DEEP_DIVE: ModelForm(Dived),
        REASON: ModelForm(Reasoned),
        ACT: ModelForm(Acted),
        MERGE: ModelForm(Verified),
    },
    conditions=CONDITIONS,
    texts=texts_of(__package__),
    values=values,
    done=done,
    told=told,
)
