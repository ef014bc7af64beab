"""Information scent: does an answer suffice, and what to do next if not. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["sufficient", "partial", "lost"]


@dataclass(frozen=True, slots=True)
class Scent:
    """Whether the shown chunks are likely to hold the answer, why, and the next step, which names a real path."""

    level: Level
    reason: str
    next: str


@dataclass(frozen=True, slots=True)
class ScentSigns:
    """What is known of an answer. `coverage`: the share of asked words on the best shown page, weighed by rarity.

    `agreement`: how high both engines have the first chunk, 1 for first in both. `nearness`: how far the nearest passage
    stands out from the tenth to twentieth. `substance`: how much the first chunk says, 1 for an ordinary one; a stub rarely
    answers. `exact`: something bears the very name that was asked. `missing`: asked words
    that no shown chunk has, rarest first. `asked`: the words of the question that mean something. All shares are 0..1.
    """

    coverage: float
    agreement: float
    nearness: float
    substance: float
    exact: bool
    missing: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownChunk:
    """A shown chunk, as far as the next step needs it; `short`: its page is so short that it is read whole."""

    path: str
    section: str
    short: bool = False


BIAS, COVERAGE, AGREEMENT, NEARNESS, SUBSTANCE = -5.5, 3.9, 2.0, 3.0, 1.1
SUFFICIENT_FROM = 0.84
LOST_BELOW = 0.24
"""Weights of a logistic model and where the level changes; `python -m tests.benchmarks.scent --fit` fits them."""
ENOUGH_COVERAGE = 0.87
"""A page that lacks so much of what was asked does not suffice: one rare word of five or six, or two ordinary ones."""

FULL, HALF = 0.95, 0.5
LONGEST_STEP = 150
MOST_WORDS = 4
SHORTEST_WORD = 4
MOST_MISSING = 3
_WORD = re.compile(rf"[^\W\d_]{{{SHORTEST_WORD},}}")


def chance(signs: ScentSigns) -> float:
    """Return how likely it is that the shown chunks hold the answer, 0..1, as far as these signs tell."""
    weighed = BIAS + COVERAGE * signs.coverage + AGREEMENT * signs.agreement
    weighed += NEARNESS * signs.nearness + SUBSTANCE * signs.substance
    return 1 / (1 + math.exp(-weighed))


def level_of(signs: ScentSigns) -> Level:
    """Return the level that `signs` speak for.

    Likely is not enough for `sufficient`: a page without one of the rare words is about something else, however near. A page
    with none of the words may be near by its meaning, but nothing speaks for it.
    """
    if signs.exact:
        return "sufficient"
    likely = chance(signs)
    if likely >= SUFFICIENT_FROM and signs.coverage >= ENOUGH_COVERAGE:
        return "sufficient"
    return "partial" if likely >= LOST_BELOW and signs.coverage else "lost"


def judge(signs: ScentSigns, places: Sequence[ShownChunk], *, indexed: bool, directory: str) -> Scent:
    """Return the scent of an answer whose chunks lie at `places`, best first, searched for in `directory`."""
    if not places:
        waiting = "" if indexed else "; indexing is not finished, so ask again soon"
        return Scent("lost", f"nothing matches{waiting}", f"kb_map({_directory_of(directory)!r}) shows what exists")
    level = level_of(signs)
    if level == "sufficient":
        return Scent(level, "a page or section bears this name" if signs.exact else _reason(signs), _read(places[0]))
    if level == "partial":
        return Scent(level, _reason(signs), _look_inside(places[0], signs.asked, directory))
    return Scent(level, _reason(signs), _look_around(places))


def _reason(signs: ScentSigns) -> str:
    said = [_coverage_in_words(signs), _agreement_in_words(signs)]
    if signs.missing:
        said.append("no hit has " + ", ".join(repr(word) for word in signs.missing[:MOST_MISSING]))
    return "; ".join(said)


def _coverage_in_words(signs: ScentSigns) -> str:
    if signs.coverage >= FULL:
        return "one page has all the words asked for"
    share = "most" if signs.coverage >= HALF else "few" if signs.coverage else "none"
    return f"the best page has {share} of the words asked for"


def _agreement_in_words(signs: ScentSigns) -> str:
    if signs.agreement >= HALF:
        return (
            "keyword and semantic search agree"
            if signs.agreement > HALF
            else "only one of keyword and semantic search ranks it first"
        )
    return "keyword and semantic search disagree"


def _read(place: ShownChunk) -> str:
    """Return the call that reads the section, by the end of its heading path if the whole would be too long."""
    whole = f"kb_read({place.path!r})"
    if place.short or not place.section:
        return whole
    headings = place.section.split(" > ")
    calls = (f"kb_read({place.path!r}, section={' > '.join(headings[i:])!r})" for i in range(len(headings)))
    return next((call for call in calls if len(call) <= LONGEST_STEP), whole)


def _look_inside(place: ShownChunk, asked: Sequence[str], directory: str) -> str:
    """Return the call that finds more on the page: a short one is read, a long one searched, unless it was just that."""
    step = f"kb_search({' '.join(asked)!r}, path={place.path!r})"
    return _read(place) if place.short or not asked or place.path == directory or len(step) > LONGEST_STEP else step


def _look_around(places: Sequence[ShownChunk]) -> str:
    """Return the call for the map of the directory where most hits lie, with words that its pages use."""
    directories = Counter(_directory_of(place.path) for place in places)
    best = max(directories, key=lambda directory: directories[directory])  # of equals the one that was hit first
    step = f"kb_map({best!r})"
    used = _heading_words(place for place in places if _directory_of(place.path) == best)
    for count in range(len(used), 0, -1):
        told = f"{step}; its pages mention {', '.join(used[:count])}"
        if len(told) <= LONGEST_STEP:
            return told
    return step


def _heading_words(places: Iterable[ShownChunk]) -> list[str]:
    counted = Counter(
        word for place in places for word in dict.fromkeys(_WORD.findall(place.section.rpartition(" > ")[2].lower()))
    )
    return [word for word, _ in counted.most_common(MOST_WORDS)]


def _directory_of(path: str) -> str:
    return path.rpartition("/")[0] if path.endswith((".md", ".markdown", ".mdx")) else path
