"""What a work asks a person, and what of it they answered. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agents.events import Json
from agents.saying import blank


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
