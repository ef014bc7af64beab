"""Finds the thing that a person means by a name. Case, accents, punctuation, abbreviations and typos are tolerated. Pure.

The rules are tried from the strictest to the loosest, and the first that matches anything decides. If it matches one thing, that
is the one; if it matches several, the caller has to choose. Nothing is ever guessed: addresses and ids are not completed or
corrected, and numbers never are.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

from mcp_server.connectors.errors import AmbiguousServiceName, UnknownName
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from rapidfuzz.distance import OSA
else:
    # Loading it takes 20 ms, which only a process that meets a misspelt name pays.
    OSA = LateModule("rapidfuzz.distance.OSA")

SHORTEST_BEGINNING = 2
ONE_EDIT_FROM = 5
TWO_EDITS_FROM = 9
"""Names of this many letters or more may differ by two edits, as in search: too many shorter words are that close to each other."""

CACHED_NAMES = 32_768
"""The number of names whose forms are cached: an organisation has thousands of people, and every look-up compares with all of them."""

IDENTIFIER = re.compile(r"[0-9]+|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}", re.IGNORECASE)

Thing = TypeVar("Thing")
Rule = Callable[[str, str], bool]


def chosen(
    service: str,
    kind: str,
    asked: str,
    things: Iterable[Thing],
    names_of: Callable[[Thing], Sequence[str]],
    *,
    near: bool = True,
) -> Thing:
    """Return the one thing that `asked` names.

    `names_of` returns every name of a thing (names, keys, addresses, ids); people are shown the first. Without `near` only case,
    spacing and accents may differ. Acts always use that: a message sent to the wrong channel cannot be made unread.

    Raises:
        UnknownName: nothing matches; its candidates are all things, the most similar first.
        AmbiguousServiceName: several match; its candidates tell them apart.
    """
    candidates = [_Candidate(thing, tuple(name for name in names_of(thing) if name)) for thing in things]
    wanted = asked.strip()
    for rule in _rules_for(wanted, near=near):
        matches = [one for one in candidates if any(rule(wanted, name) for name in one.names)]
        if len(matches) == 1:
            return matches[0].thing
        if matches:
            raise AmbiguousServiceName(service, kind, asked, _labels(matches, wanted))
    raise UnknownName(service, kind, asked, _labels(candidates, wanted))


@lru_cache(maxsize=CACHED_NAMES)
def folded(name: str) -> str:
    """Return the name in a form without differences in case, width and spacing: `In PROGRESS` becomes `in progress`."""
    # Folding case can undo the normal form (NFKC), so NFKC is applied before and after.
    return " ".join(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).split())


@lru_cache(maxsize=CACHED_NAMES)
def unaccented(name: str) -> str:
    """Return the folded name without accents of Latin and Greek letters and the Cyrillic yo: `Zoë  Müller` is `zoe muller`.

    In other scripts a mark makes a different letter or tone: バス is a bus and ハス a lotus, ไม้ is wood and ไม่ is not.
    """
    kept: list[str] = []
    bare = False
    for letter in unicodedata.normalize("NFKD", folded(name)):
        if not unicodedata.combining(letter):
            bare = letter == "е" or unicodedata.name(letter, "").startswith(("LATIN", "GREEK"))  # noqa: RUF001 - Cyrillic
        elif bare:
            continue
        kept.append(letter)
    return unicodedata.normalize("NFC", "".join(kept))


@lru_cache(maxsize=CACHED_NAMES)
def loosened(name: str) -> str:
    """Return the words of the name, letters and digits only and without any marks: `🚀 In-Progrèss` is `in progress`."""
    letters = (one for one in unicodedata.normalize("NFKD", folded(name)) if not unicodedata.combining(one))
    return " ".join("".join(letter if letter.isalnum() else " " for letter in letters).split())


@dataclass(frozen=True, slots=True)
class _Candidate(Generic[Thing]):
    thing: Thing
    names: tuple[str, ...]

    @property
    def shown(self) -> str:
        return self.names[0] if self.names else ""


def _rules_for(wanted: str, *, near: bool) -> Sequence[Rule]:
    if not wanted:
        return ()
    strict: tuple[Rule, ...] = (_is_exact, _is_folded)
    # An address or id that is nearly right belongs to somebody else. "@" at the front is only how people are mentioned.
    if "@" in wanted[1:] or IDENTIFIER.fullmatch(wanted):
        return strict
    return (*strict, _is_unaccented, *((_is_loosened, _is_beginning, _is_typo) if near else ()))


def _is_exact(wanted: str, name: str) -> bool:
    return wanted == name.strip()


def _is_folded(wanted: str, name: str) -> bool:
    return folded(wanted) == folded(name)


def _is_unaccented(wanted: str, name: str) -> bool:
    """Return whether `wanted` is the name with some accents left out. Other accents make another word: `año` is not `anó`."""
    asked, full = folded(wanted), folded(name)
    if asked == unaccented(name):
        return True
    return len(asked) == len(full) and all(
        one in (other, unaccented(other)) for one, other in zip(asked, full, strict=True)
    )


def _is_loosened(wanted: str, name: str) -> bool:
    # "!!!" and "???" both loosen to nothing, and are not the same name.
    return bool(loosened(wanted)) and loosened(wanted) == loosened(name)


def _is_beginning(wanted: str, name: str) -> bool:
    """Return whether the name or one of its words begins with `wanted`. `Sprint 1` does not begin `Sprint 12`."""
    loose = loosened(wanted)
    if len(loose) < SHORTEST_BEGINNING or IDENTIFIER.fullmatch(name):
        return False
    rest = "(?![0-9])" if loose[-1].isdigit() else ""
    return re.search(rf"(?:^| ){re.escape(loose)}{rest}", loosened(name)) is not None


def _is_typo(wanted: str, name: str) -> bool:
    """Return whether the names are one or two edits apart. First letters and numbers must be equal: people rarely mistype those."""
    one, other = loosened(wanted), loosened(name)
    if not one or not other or one[0] != other[0] or "@" in name or IDENTIFIER.fullmatch(name):
        return False
    if re.findall(r"\d+", one) != re.findall(r"\d+", other):
        return False
    shorter = min(len(one), len(other))
    most = 2 if shorter >= TWO_EDITS_FROM else 1 if shorter >= ONE_EDIT_FROM else 0
    return bool(most) and OSA.distance(one, other, score_cutoff=most) <= most


def _labels(candidates: Sequence[_Candidate[Thing]], wanted: str) -> tuple[str, ...]:
    """Return the names to show, the most similar first. Where two would be equal, a name that only one has is added."""
    pairs = _letter_pairs(wanted)

    def distance(one: _Candidate[Thing]) -> tuple[float, str]:
        similar = [_similarity(pairs, _letter_pairs(name)) for name in one.names]
        return -max(similar, default=0.0), folded(one.shown)

    shown = Counter(one.shown for one in candidates)
    known = Counter(name for one in candidates for name in set(one.names))
    labels = []
    for one in sorted(candidates, key=distance):
        unique = next((name for name in one.names if known[name] == 1), None) if shown[one.shown] > 1 else None
        labels.append(f"{one.shown} ({unique})" if unique and unique != one.shown else one.shown)
    return tuple(labels)


def _letter_pairs(name: str) -> Counter[str]:
    padded = f" {loosened(name)} "
    return Counter(padded[at : at + 2] for at in range(len(padded) - 1))


def _similarity(one: Counter[str], other: Counter[str]) -> float:
    """Return the share of letter pairs that two names have in common, 0 to 1.

    Source: Dice's coefficient (Sørensen 1948, Dice 1945).
    """
    return 2 * (one & other).total() / (one.total() + other.total())
