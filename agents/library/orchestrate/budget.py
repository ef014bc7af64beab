"""What an undertaking may take, and whether that is used up. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agents.engine.agent import JourneySpent
from agents.engine.events import Json

TOKENS, ITERATIONS, SECONDS = 500_000, 6, 86_400
MINUTE = 60
"""Below it parts of seconds are told, too."""


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """The most that may be spent before the work ends. An iteration is an attempt: each way back begins another."""

    tokens: int = TOKENS
    iterations: int = ITERATIONS
    seconds: float = SECONDS


def limits_of(inputs: Mapping[str, Json]) -> WorkLimits:
    """Return the budget that the inputs name; what they do not name is as usual."""
    given = inputs.get("budget")
    named = given if isinstance(given, Mapping) else {}
    return WorkLimits(
        int(named.get("tokens", TOKENS)),
        int(named.get("iterations", ITERATIONS)),
        float(named.get("seconds", SECONDS)),
    )


def used_up(spent: JourneySpent, limits: WorkLimits, *, failed: bool) -> list[str]:
    """Return which parts of the budget are used up, each in a few words; nothing if the work may go on.

    Tokens and seconds are looked at always, iterations where an attempt has `failed`, so that another would begin.
    """
    told = []
    if spent.tokens >= limits.tokens:
        told.append(f"{spent.tokens:,} of {limits.tokens:,} tokens")
    if spent.seconds >= limits.seconds:
        digits = 0 if limits.seconds >= MINUTE else 2
        told.append(f"{spent.seconds:,.{digits}f} of {limits.seconds:,.{digits}f} seconds")
    if failed and spent.iteration >= limits.iterations:
        told.append(f"{spent.iteration} of {limits.iterations} iterations")
    return told
