"""What a work asks a person, and what of it they answered. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agents.engine.events import CheckpointReached, Decided, Json, Logged, WorkRecorded
from agents.engine.work.substance import blank


@dataclass(frozen=True, slots=True)
class RefusedQuestions:
    """Questions that a person did not want to be asked together, by their words, and why they said so."""

    words: frozenset[str]
    why: str


def listed(work: Mapping[str, Json], name: str) -> Sequence[Mapping[str, Json]]:
    """Return the objects in that list of a work; none if there is no such list."""
    found = work.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def unanswered(questions: Sequence[Mapping[str, Json]], answers: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the words of the questions that were not answered in these words, by id, in order."""
    asked = {str(item.get("id", "")): str(item.get("question", "")) for item in questions}
    return {id_: text for id_, text in asked.items() if answers.get(id_, {}).get("question") != text}


def open_in(work: Json, field: str, answers: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the words of the questions in that list of a work which are still to be answered, by id, in order."""
    return unanswered(listed(work, field), answers) if isinstance(work, Mapping) else {}


def refusals(log: Iterable[Logged], phase: str) -> Sequence[RefusedQuestions]:
    """Return which questions of that phase a person rejected, each time that they did."""
    found, asked = list[RefusedQuestions](), frozenset[str]()
    work: Json = None
    answered: Mapping[str, Mapping[str, str]] = {}
    for event in (logged.event for logged in log):
        match event:
            case WorkRecorded(phase=worked) if worked == phase:
                work, asked = event.work, frozenset()
            case CheckpointReached(phase=at, asks=field) if at == phase and field:
                asked = frozenset(map(_words, open_in(work, field, answered).values()))
            case Decided(phase=at) if at == phase:
                answered = {**answered, **event.answers}
                if event.decision == "reject" and asked:
                    found.append(RefusedQuestions(asked, event.note))
                    asked = frozenset()
            case _:
                pass
    return found


def asked_again(questions: Mapping[str, str], refused: Iterable[RefusedQuestions]) -> list[str]:
    """Return why these questions are not put to the person: all that they rejected before are among them, as they were."""
    ids = {_words(text): id_ for id_, text in questions.items()}
    return [
        (
            f"the person rejected {', '.join(sorted(ids[words][:60] for words in one.words))} as they are"
            f"{f' ({one.why[:200]})' if one.why else ''}: word them otherwise, or take out what they do not want to be asked"
        )
        for one in refused
        if one.words <= set(ids)
    ]


def _words(text: str) -> str:
    """Return the text as it is compared: what is only written otherwise is the same question."""
    return " ".join(text.casefold().split())


def unaskable(work: Json, field: str) -> list[str]:
    """Return why a person could not answer what that list of a work asks, one sentence for each question."""
    found = work.get(field) if isinstance(work, Mapping) else None
    told, ids = list[str](), list[str]()
    for number, item in enumerate(found if isinstance(found, list) else ()):
        id_, text = (item.get("id"), item.get("question")) if isinstance(item, Mapping) else (None, None)
        if not isinstance(id_, str) or blank(id_):
            told.append(f"{field}[{number}] has no `id`, by which it could be answered")
        elif id_ in ids:
            told.append(f"{field} has two questions {id_[:60]}; each needs an id of its own")
        elif not isinstance(text, str) or blank(text):
            told.append(f"{field}[{id_[:60]}] asks nothing: a person is shown its `question`")
        ids.append(str(id_))
    return told
