"""Which of two kinds a question is: about a place (navigation) or about an idea (discovery). The clear cases. Pure.

`router.py` adds what a rule cannot say. This file is imported by everything that names a route, so it imports nothing
heavier than regular expressions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from knowledge.search.route.phrases import RouteSigns
from knowledge.search.route.words import CHANGE, CONDITION, GONE, HOW, LIST, PLACE, PROBLEM, THING, WHERE, WHETHER

Taken = Literal["navigation", "discovery"]
Mode = Literal["auto", "navigation", "discovery"]
MODES: Final[tuple[Taken, ...]] = ("navigation", "discovery")


@dataclass(frozen=True, slots=True)
class QuestionRoute:
    """The way a question was taken. `confidence` is 0..1; `reason` says by what sign."""

    mode: Taken
    confidence: float
    reason: str


NAMED: Final = QuestionRoute("navigation", 0.95, "a page or section bears this name")


def by_rules(seen: RouteSigns) -> QuestionRoute | None:
    """Return the route of a question whose wording leaves no doubt; None if it does."""
    if seen.is_path:
        return QuestionRoute("navigation", 0.97, "it is a path, a file name or a key")
    first, groups = seen.first, seen.groups
    unclear = groups & (PROBLEM | HOW)
    if first & WHERE and not unclear:
        return QuestionRoute("navigation", 0.96, "it asks where something is")
    if first & HOW and not groups & WHERE:
        return QuestionRoute("discovery", 0.97, "it asks how, why or what the difference is")
    if first & CONDITION and not groups & WHERE:
        return QuestionRoute("discovery", 0.93, "it asks when, or tells under what condition")
    if first & LIST and groups & (PLACE | THING) and not groups & (PROBLEM | HOW | CHANGE):
        return QuestionRoute("navigation", 0.93, "it wants something listed or opened")
    if seen.asks_inside and not unclear:
        return QuestionRoute("navigation", 0.95, "it asks what is in a place")
    if first & WHETHER and not seen.asks_existence and not groups & (WHERE | LIST):
        return QuestionRoute("discovery", 0.92, "it asks whether or what one can, should or must")
    if groups & PROBLEM and not groups & (PLACE | THING | LIST | WHERE | GONE):
        return QuestionRoute("discovery", 0.95, "it tells of something that goes wrong")
    return None
