"""Which thing a person means by a name: tolerant of case, accents, punctuation, beginnings and typos, and never a guess. Pure.

Each rule is looser than the one before; the first that fits anything decides. One thing fits: that is it. Several fit: the
caller is asked which. What is an address or an id is never completed or corrected, and numbers never are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from mcp_server.connectors.errors import AmbiguousServiceName, UnknownName

SHORTEST_BEGINNING = 2
ONE_EDIT_FROM = 5
TWO_EDITS_FROM = 9
"""As in search: shorter words are too often one edit away from another word."""

KEPT_FORMS = 32_768

IDENTIFIER = re.compile(r"[0-9]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}", re.IGNORECASE)

Thing = TypeVar("Thing")
Rule = Callable[[str, str], bool]


def chosen(
    service: str, kind: str, asked: str, things: Iterable[Thing], names_of: Callable[[Thing], Sequence[str]]
) -> Thing:
    """Return the one thing that `asked` names.

    `names_of` gives all that a thing may be called by (names, keys, addresses, ids); the first is what people are shown.

    Raises:
        UnknownName: nothing fits; its candidates are what there is, nearest first.
        AmbiguousName: several fit; its candidates tell them apart.
    """
    named = [_Named(thing, tuple(name for name in names_of(thing) if name)) for thing in things]
    wanted = asked.strip()
    for rule in _rules(wanted):
        fitting = [one for one in named if any(rule(wanted, name) for name in one.names)]
        if len(fitting) == 1:
            return fitting[0].thing
        if fitting:
            raise AmbiguousServiceName(service, kind, asked, _labels(_nearest_first(wanted, fitting)))
    raise UnknownName(service, kind, asked, _labels(_nearest_first(wanted, named)))


@lru_cache(maxsize=KEPT_FORMS)
def folded(name: str) -> str:
    """Return the name as case, width and space do not matter: `In  PROGRESS` is `in progress`."""
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


@lru_cache(maxsize=KEPT_FORMS)
def loosened(name: str) -> str:
    """Return the letters and digits of the name in words, without accents: `🚀 In-Progrèss` is `in progress`."""
    plain = unicodedata.normalize("NFKD", folded(name))
    kept = (letter for letter in plain if not unicodedata.combining(letter))
    return " ".join("".join(letter if letter.isalnum() else " " for letter in kept).split())


@dataclass(frozen=True, slots=True)
class _Named(Generic[Thing]):
    thing: Thing
    names: tuple[str, ...]


def _rules(wanted: str) -> Sequence[Rule]:
    if not wanted:
        return ()
    strict = (_is_exactly, _is_folded)
    if "@" in wanted[1:] or IDENTIFIER.fullmatch(wanted):
        return strict
    return (*strict, _is_loosely, _begins, _is_mistyped)


def _is_exactly(wanted: str, name: str) -> bool:
    return wanted == name.strip()


def _is_folded(wanted: str, name: str) -> bool:
    return folded(wanted) == folded(name)


def _is_loosely(wanted: str, name: str) -> bool:
    loose = loosened(wanted)
    return bool(loose) and loose == loosened(name)


def _begins(wanted: str, name: str) -> bool:
    """Return whether the name, or a word of it, begins so. A number is whole or not the same: `Sprint 1` is not `Sprint 12`."""
    loose = loosened(wanted)
    if len(loose) < SHORTEST_BEGINNING or IDENTIFIER.fullmatch(name):
        return False
    rest = "(?![0-9])" if loose[-1].isdigit() else ""
    return re.search(rf"(?:^| ){re.escape(loose)}{rest}", loosened(name)) is not None


def _is_mistyped(wanted: str, name: str) -> bool:
    """Return whether few edits lie between; first letters and numbers are taken to be meant."""
    one, other = loosened(wanted), loosened(name)
    if not one or not other or one[0] != other[0] or "@" in name or IDENTIFIER.fullmatch(name):
        return False
    if re.findall(r"\d+", one) != re.findall(r"\d+", other):
        return False
    shorter = min(len(one), len(other))
    most = 2 if shorter >= TWO_EDITS_FROM else 1 if shorter >= ONE_EDIT_FROM else 0
    return bool(most) and abs(len(one) - len(other)) <= most and edits(one, other) <= most


def edits(one: str, other: str) -> int:
    """Return how many letters have to be put in, left out, replaced or swapped with their neighbour.

    Source: optimal string alignment, the restricted Damerau-Levenshtein distance.
    """
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, meant in enumerate(other, 1):
            cost = min(last[column] + 1, now[column - 1] + 1, last[column - 1] + (letter != meant))
            swapped = row > 1 and column > 1 and letter == other[column - 2] and one[row - 2] == meant
            now.append(min(cost, before[column - 2] + 1) if swapped else cost)
        before, last = last, now
    return last[-1]


def _nearest_first(wanted: str, named: Sequence[_Named[Thing]]) -> list[_Named[Thing]]:
    pairs = _pairs(wanted)

    def near(one: _Named[Thing]) -> tuple[float, str]:
        return -max((_alike(pairs, _pairs(name)) for name in one.names), default=0.0), folded(_shown(one))

    return sorted(named, key=near)


def _pairs(name: str) -> Counter[str]:
    padded = f" {loosened(name)} "
    return Counter(padded[at : at + 2] for at in range(len(padded) - 1))


def _alike(one: Counter[str], other: Counter[str]) -> float:
    """Return how many pairs of letters are shared, 0 to 1.

    Source: Dice's coefficient (Sørensen 1948, Dice 1945) over pairs of letters.
    """
    return 2 * (one & other).total() / (one.total() + other.total())


def _labels(named: Sequence[_Named[Thing]]) -> tuple[str, ...]:
    """Return what each is shown as; where that is the same for several, with what sets it apart."""
    shown = Counter(_shown(one) for one in named)
    known = Counter(name for one in named for name in set(one.names))
    labels = []
    for one in named:
        label = _shown(one)
        apart = next((name for name in one.names if known[name] == 1), None) if shown[label] > 1 else None
        labels.append(f"{label} ({apart})" if apart and apart != label else label)
    return tuple(labels)


def _shown(one: _Named[Thing]) -> str:
    return one.names[0] if one.names else ""
