"""A work as JSON: its lists of items with ids, and how a submit joins the recorded work. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from agents.engine.events import Json

DROP = "drop"
"""The field of every work that names items to remove."""
MOST_PROBLEMS = 12


def first_problems(problems: Sequence[str]) -> Sequence[str]:
    """Return the first problems; if there are more, a last sentence says how many."""
    more = len(problems) - MOST_PROBLEMS
    return [*problems[:MOST_PROBLEMS], f"and {more} more"] if more > 0 else problems


def blank(text: str) -> bool:
    """Return whether a text shows nothing: it is empty, white space, or characters without a shape."""
    return not any(letter.isprintable() and not letter.isspace() for letter in text)


def items_in(work: Mapping[str, Json], name: str) -> Sequence[Mapping[str, Json]]:
    """Return the objects in a list of a work, or none if there is no such list."""
    found = work.get(name)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def ids(items: Sequence[Mapping[str, Json]]) -> list[str]:
    """Return the ids of the items, in order."""
    return [str(item.get("id", "")) for item in items]


def duplicates(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once, each once."""
    return [name for name, times in Counter(names).items() if times > 1]


def duplicate_ids(work: Mapping[str, Json]) -> list[str]:
    """Return a sentence for each id that two items of one list have, because it would be unclear which one counts."""
    return [
        f"two items of {name[:60]!r} have the id {id_}; each needs its own"
        for name in work
        for id_ in duplicates([item["id"][:60] for item in items_in(work, name) if isinstance(item.get("id"), str)])
    ]


def has_ids(value: Json) -> TypeGuard[list[dict[str, Json]]]:
    """Return whether a value is a list of objects, each with its own id."""
    if not isinstance(value, list) or not all(isinstance(v, dict) and isinstance(v.get("id"), str) for v in value):
        return False
    return len({item["id"] for item in value}) == len(value)


def field_path(work: Json, loc: Sequence[int | str]) -> str:
    """Return the path of a field in a work, as `answers[q4].citations[0].quote`: an item by its id if it has one."""
    path, inside = "", work
    for part in loc:
        try:
            inside = inside[part]
        except (KeyError, IndexError, TypeError):
            inside = None
        if isinstance(part, int):
            id_ = inside.get("id") if isinstance(inside, dict) else None
            path += f"[{id_[:60] if isinstance(id_, str) and id_ else part}]"
        else:
            path += f".{part}" if path else part
    return path or "work"


def joined(before: Json, given: Mapping[str, Json], asks: frozenset[str]) -> dict[str, Json]:
    """Return the recorded work with a submission merged in.

    A given field replaces the recorded one, but lists of objects with an `id` are joined: an object replaces the one with its id,
    and a new one is appended. `drop` removes objects by id from every list. The fields `asks` are not inherited.
    """
    old = before if isinstance(before, dict) else {}
    work = {name: value for name, value in old.items() if name not in asks and name != DROP}
    drop = given.get(DROP)
    dropped = {id_ for id_ in drop if isinstance(id_, str)} if isinstance(drop, list) else set()
    for name, value in work.items():
        if dropped and has_ids(value):
            work[name] = [item for item in value if item["id"] not in dropped]
    for name, value in given.items():
        recorded = work.get(name)
        if name == DROP and isinstance(drop, list):
            continue  # a `drop` of another type stays in the work, so that the form refuses it
        if recorded and has_ids(recorded) and has_ids(value):
            # A dict keeps the place of the first of two equal keys, so a changed item stays where it was.
            work[name] = list({item["id"]: item for item in [*recorded, *value]}.values())
        else:
            work[name] = value
    return work
