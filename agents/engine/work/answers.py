"""The questions of a work to a person, and their answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agents.engine.events import CheckpointReached, Decided, Json, Logged, WorkRecorded
from agents.engine.work.form import blank, items_in


@dataclass(frozen=True, slots=True)
class RefusedQuestions:
    """The words of questions that a person rejected together (`words`), and the person's reason (`why`)."""

    words: frozenset[str]
    why: str


def unanswered(questions: Sequence[Mapping[str, Json]], answers: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the words of the questions that were not answered with this wording, by id, in order."""
    words = {str(item.get("id", "")): str(item.get("question", "")) for item in questions}
    return {id_: text for id_, text in words.items() if answers.get(id_, {}).get("question") != text}


def unanswered_in(work: Json, field: str, answers: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the words of the unanswered questions in that list of a work, by id, in order."""
    return unanswered(items_in(work, field), answers) if isinstance(work, Mapping) else {}


def refusals(log: Iterable[Logged], phase: str) -> Sequence[RefusedQuestions]:
    """Return the questions of that phase that a person rejected, one entry for each time."""
    found, asked = list[RefusedQuestions](), frozenset[str]()
    work: Json = None
    answered: Mapping[str, Mapping[str, str]] = {}
    for event in (logged.event for logged in log):
        match event:
            case WorkRecorded(phase=worked) if worked == phase:
                work, asked = event.work, frozenset()
            case CheckpointReached(phase=at, asks=field) if at == phase and field:
                asked = frozenset(map(_words, unanswered_in(work, field, answered).values()))
            case Decided(phase=at) if at == phase:
                answered = {**answered, **event.answers}
                if event.decision == "reject" and asked:
                    found.append(RefusedQuestions(asked, event.note))
                    asked = frozenset()
            case _:
                pass
    return found


def repeated_questions(questions: Mapping[str, str], refused: Iterable[RefusedQuestions]) -> list[str]:
    """Return a sentence for each set of questions that the person rejected and that is asked again unchanged."""
    ids = {_words(text): id_ for id_, text in questions.items()}
    return [
        (
            f"the person rejected {', '.join(sorted(ids[words][:60] for words in one.words))} as worded"
            f"{f' ({one.why[:200]})' if one.why else ''}: reword them, or remove the ones that they do not want to answer"
        )
        for one in refused
        # A subset: adding further questions to a rejected set does not make it a new one.
        if one.words <= set(ids)
    ]


def _words(text: str) -> str:
    """Return the text for comparison: a question with other spacing or case is the same question."""
    return " ".join(text.casefold().split())


def unanswerable(work: Json, field: str) -> list[str]:
    """Return why a person could not answer the questions in that list of a work, one sentence for each question."""
    found = work.get(field) if isinstance(work, Mapping) else None
    problems, ids = list[str](), list[str]()
    for number, item in enumerate(found if isinstance(found, list) else ()):
        id_, text = (item.get("id"), item.get("question")) if isinstance(item, Mapping) else (None, None)
        if not isinstance(id_, str) or blank(id_):
            problems.append(f"{field}[{number}] has no `id`, so nobody could answer it")
        elif id_ in ids:
            problems.append(f"{field} has two questions {id_[:60]}; each needs its own id")
        elif not isinstance(text, str) or blank(text):
            problems.append(f"{field}[{id_[:60]}] has no `question`, which is what the person sees")
        ids.append(str(id_))
    return problems
