"""Labelled examples of questions: the shipped ones, and those that a team writes into its front matter."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

from knowledge.search.answers import ROUTE_MODES, RouteMode

MOST_TEAM_EXAMPLES: Final = 400
"""Examples of a team that are used, of both modes together."""
LONGEST_EXAMPLE: Final = 200
_MARKS = " \t\n\"'`¿?¡!.…"


@dataclass(frozen=True, slots=True)
class Example:
    """A question and its route."""

    query: str
    mode: RouteMode


@dataclass(frozen=True, slots=True)
class Examples:
    """Examples in their given order, and one sentence for each entry that was rejected."""

    examples: tuple[Example, ...] = ()
    problems: tuple[str, ...] = ()


def plain(query: str) -> str:
    """Return `query` without differences in case, spacing and surrounding marks, for comparison."""
    return " ".join(query.casefold().strip(_MARKS).split())


@cache
def shipped_examples() -> tuple[Example, ...]:
    """Return the examples that come with the package."""
    lines = files("knowledge.search.route").joinpath("route_examples.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(Example(entry["query"], entry["mode"]) for entry in map(json.loads, lines))


def team_examples(metadata: Mapping[str, object]) -> Examples:
    """Return the examples under `router` in the front matter; an invalid entry is left out and reported.

    `router: {navigation: [question, ...], discovery: [question, ...]}`; a single string is one question. A question
    under both modes is left out.
    """
    router = metadata.get("router")
    if router is None:
        return Examples()
    if not isinstance(router, Mapping):
        return Examples(problems=("`router` is not a mapping: write `router: {navigation: [...], discovery: [...]}`",))
    expected = " and ".join(ROUTE_MODES)
    problems = [f"`router.{key}` is unknown: use {expected}" for key in router if key not in ROUTE_MODES]
    found: dict[str, Example] = {}
    twice: set[str] = set()
    for mode in ROUTE_MODES:
        listed = router.get(mode)
        entries = listed if isinstance(listed, list | tuple) else () if listed is None else (listed,)
        for entry in entries:
            problem = _problem(entry)
            if problem or not isinstance(entry, str):
                problems.append(f"an entry of `router.{mode}` is left out: {problem}")
                continue
            key = plain(entry)
            if key in found and found[key].mode != mode:
                twice.add(key)  # which one is meant can't be known
            found[key] = Example(" ".join(entry.split()), mode)
    problems += [f"`{found[key].query}` is under both modes and is left out" for key in sorted(twice)]
    kept = [example for key, example in found.items() if key not in twice]
    if len(kept) > MOST_TEAM_EXAMPLES:
        problems.append(f"`router` has {len(kept)} examples; only the first {MOST_TEAM_EXAMPLES} are used")
    return Examples(tuple(kept[:MOST_TEAM_EXAMPLES]), tuple(problems))


def _problem(entry: object) -> str:
    """Return why `entry` is not a valid example, or an empty string. The entry is not quoted: it may be long."""
    if not isinstance(entry, str):
        return f"it is not text but a {type(entry).__name__}"
    if not plain(entry):
        return "it has no words"
    if len(entry) > LONGEST_EXAMPLE:
        return f"it has {len(entry)} characters, more than {LONGEST_EXAMPLE}"
    return ""
