"""The work of a team's agent in words, for prompts, lists and events, whatever its form is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agents.engine.events import Json, Note, QuestionAdded, SourceFound, canonical
from agents.engine.state import JourneyState
from agents.engine.work.form import items_in
from agents.engine.work.gaps import citations_in
from agents.spec.yaml.field_path import says_something

LINE_CHARS = 220
QUESTIONS, ANSWERS = "questions", "answers"
SAYING = ("text", "what")
"""Fields that need no name before them."""


def values(state: JourneyState) -> Mapping[str, str]:
    """Return the texts for `{{ PHASE.field }}`, the recorded work of a phase as lines, and for `{{ answers }}`."""
    answers: Json = [
        f"{id_}: {one['question']} {one['answer']}"
        for of_phase in state.answers.values()
        for id_, one in of_phase.items()
    ]
    return {
        f"{phase}.{name}": shown(value)
        for phase, kept in state.work.items()
        if isinstance(kept.content, dict)
        for name, value in kept.content.items()
    } | {ANSWERS: shown(answers)}


def done(state: JourneyState, *, phases: Sequence[str]) -> Sequence[str]:
    """Return the finished work in short lines: the current phase first, then the others, the latest first."""
    order = [state.phase, *(phase for phase in reversed(phases) if phase != state.phase)]
    return [line for phase in order if phase in state.work for line in lines_of(phase, state.work[phase].content)]


def notes(_phase: str, before: Json, after: Json) -> Sequence[Note]:
    """Return notes on the sources that the work cites for the first time, and on its new questions."""
    known = {(c.path, c.section) for _, c in citations_in(before)}
    sources = dict.fromkeys((c.path, c.section) for _, c in citations_in(after))
    found: list[Note] = [
        SourceFound(f"kb:{path}#{section}" if section else f"kb:{path}")
        for path, section in sources
        if (path, section) not in known
    ]
    known_questions = {q.get("id") for q in _questions(before)}
    return [
        *found,
        *(QuestionAdded(str(q["id"]), str(q["text"])) for q in _questions(after) if q["id"] not in known_questions),
    ]


def _questions(work: Json) -> Sequence[Mapping[str, Json]]:
    items = items_in(work, QUESTIONS) if isinstance(work, dict) else []
    return [item for item in items if isinstance(item.get("id"), str) and isinstance(item.get("text"), str)]


def lines_of(phase: str, work: Json) -> Iterator[str]:
    """Yield the work of a phase in short lines, each with the names of phase and field."""
    if not isinstance(work, dict):
        return
    for name, value in work.items():
        if isinstance(value, list):
            yield from (_cut(f"{phase} {name}: {_item(item)}") for item in value)
        elif value not in (None, "", {}):
            yield _cut(f"{phase} {name}: {_item(value)}")


def shown(value: Json) -> str:
    """Return a value in words: a list as lines, long ones cut."""
    if isinstance(value, list):
        return "\n".join(f"- {_cut(_item(item))}" for item in value)
    return _item(value)


def _item(value: Json) -> str:
    """Return a value in one line: an object as its id, its text, then other fields; a citation as page and quote."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(_item(inside) for inside in value)
    if not isinstance(value, Mapping):
        return canonical(value)
    cited = next((citation for loc, citation in citations_in(value) if not loc), None)
    if cited is not None:
        return f'{cited.path} "{cited.quote}"'
    says = [_item(value[name]) for name in SAYING if says_something(value.get(name))]
    others = [name for name in value if name not in ("id", *SAYING) and says_something(value[name])]
    rest = sorted(others, key=lambda name: (isinstance(value[name], list | Mapping), name))
    words = "; ".join([*says, *(f"{name}: {_item(value[name])}" for name in rest)])
    return f"{value['id']}: {words}" if isinstance(value.get("id"), str) else words


def _cut(text: str) -> str:
    folded = " ".join(text.split())
    return folded if len(folded) <= LINE_CHARS else folded[: LINE_CHARS - 3] + "..."
