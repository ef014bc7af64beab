"""Labelled examples of questions: those that ship, and those that a team writes into its front matter."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from knowledge.search.route.route_kind import MODES, Taken

MOST_TEAM_EXAMPLES: Final = 400
"""Examples of a team that count, of both modes together."""
LONGEST_EXAMPLE: Final = 200
_MARKS = " \t\n\"'`¿?¡!.…"


@dataclass(frozen=True, slots=True)
class Example:
    """A question and the way it is to be taken."""

    query: str
    mode: Taken


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples in the order they were given, and one sentence for each entry that was not taken."""

    examples: tuple[Example, ...] = ()
    problems: tuple[str, ...] = ()


def plain(query: str) -> str:
    """Return `query` so that two questions that differ in case, blanks or the marks around them are the same text."""
    return " ".join(query.casefold().strip(_MARKS).split())


@cache
def shipped_examples() -> tuple[Example, ...]:
    """Return the examples that come with the package."""
    lines = files("knowledge.search.route").joinpath("route_examples.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Example(entry["query"], entry["mode"]) for entry in map(json.loads, lines))


def team_examples(metadata: Mapping[str, object]) -> Examples:
    """Return what the front matter says under `router`; an entry that cannot be used is left out and named.

    `router: {navigation: [question, ...], discovery: [question, ...]}`; one text instead of a list is one question. A
    question that stands under both is left out of both.
    """
    router = metadata.get("router")
    if router is None:
        return Examples()
    if not isinstance(router, Mapping):
        return Examples(problems=("`router` is no mapping: write `router: {navigation: [...], discovery: [...]}`",))
    problems = [f"`router.{key}` is not known: only {' and '.join(MODES)} are" for key in router if key not in MODES]
    found: dict[str, Example] = {}
    twice: set[str] = set()
    for mode in MODES:
        for entry in _entries(router.get(mode)):
            problem = _problem(entry)
            if problem or not isinstance(entry, str):
                problems.append(f"an entry of `router.{mode}` is left out: {problem}")
                continue
            key = plain(entry)
            if key in found and found[key].mode != mode:
                twice.add(key)
            found[key] = Example(" ".join(entry.split()), mode)
    problems += [f"`{found[key].query}` stands under both modes and counts for neither" for key in sorted(twice)]
    kept = [example for key, example in found.items() if key not in twice]
    if len(kept) > MOST_TEAM_EXAMPLES:
        problems.append(f"`router` has {len(kept)} examples, of which the first {MOST_TEAM_EXAMPLES} count")
    return Examples(tuple(kept[:MOST_TEAM_EXAMPLES]), tuple(problems))


def _entries(value: object) -> Sequence[object]:
    if value is None:
        return ()
    return value if isinstance(value, list | tuple) else (value,)


def _problem(entry: object) -> str:
    """Return why `entry` is no example; an empty text when it is one. Its words are not repeated: they may be long."""
    if not isinstance(entry, str):
        return f"it is no text but a {type(entry).__name__}"
    if not plain(entry):
        return "it has no words"
    if len(entry) > LONGEST_EXAMPLE:
        return f"it has {len(entry)} characters, more than {LONGEST_EXAMPLE}"
    return ""
