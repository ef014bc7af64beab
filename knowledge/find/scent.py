"""Information scent: does an answer suffice, and what to do next if not. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Scent:
    """Whether the shown chunks are likely to hold the answer, why, and the next step, which names a real path."""

    level: Literal["sufficient", "partial", "lost"]
    reason: str
    next: str


@dataclass(frozen=True, slots=True)
class Signs:
    """What is known of an answer. `coverage`: the share of asked words found in the best chunk, weighed by rarity.

    `agreement`: both engines have the best chunk among their first ten.
    `telling`: the question has enough words that mean something to be judged by.
    """

    coverage: float
    agreement: bool
    exact: bool
    telling: bool


@dataclass(frozen=True, slots=True)
class Place:
    """A shown chunk, as far as the next step needs it."""

    path: str
    section: str


STRONG_COVERAGE = 0.75
WEAK_COVERAGE = 0.4


def judge(signs: Signs, places: Sequence[Place], *, indexed: bool, directory: str) -> Scent:
    """Return the scent of an answer whose chunks lie at `places`, best first."""
    map_step = f"kb_map({directory!r}) shows what there is"
    if not places:
        waiting = "" if indexed else "; indexing is still under way, so ask again soon"
        return Scent("lost", f"nothing matches{waiting}", map_step)
    best = places[0]
    read_step = f"kb_read({best.path!r}" + (f", section={best.section!r})" if best.section else ")")
    if signs.exact:
        return Scent("sufficient", "a page or section bears this name", read_step)
    if signs.coverage >= STRONG_COVERAGE and signs.agreement and signs.telling:
        return Scent("sufficient", "the best chunk has the asked words and both engines agree on it", read_step)
    if signs.coverage >= WEAK_COVERAGE:
        return Scent("partial", f"the best chunk has asked words, but {_doubt(signs)}", read_step)
    return Scent(
        "lost", "few of the asked words occur together anywhere", f"{map_step}; or ask with the words its pages use"
    )


def _doubt(signs: Signs) -> str:
    if signs.coverage < STRONG_COVERAGE:
        return "not all of them"
    return "the engines do not agree on it" if not signs.agreement else "only one word of the question means something"
