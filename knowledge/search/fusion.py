"""Joining ranked lists into one, and dropping what says the same twice. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from knowledge.index.ports import Scored

ALIKE = 0.9
"""Share of common words from which two chunks of one document count as the same."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A chunk in the joined list. `ranks` has its place, from 1, in every list that went in; None where it is absent."""

    seq: int
    doc: int
    score: float
    ranks: tuple[int | None, ...]


def fuse(lists: Sequence[Sequence[Scored]], k: int = 60) -> list[Fused]:
    """Return every chunk of `lists` once, best first, by the sum of 1 / (k + rank); equal scores by `seq`.

    Only places count, never scores, so engines with different scales can be joined. A chunk that a list names twice
    keeps its better place there.

    Source: Cormack, Clarke, Buettcher, "Reciprocal rank fusion outperforms Condorcet and individual rank learning
    methods", SIGIR 2009.
    """
    ranks: dict[int, list[int | None]] = {}
    docs: dict[int, int] = {}
    for number, ranked in enumerate(lists):
        place = 0
        for hit in ranked:
            places = ranks.get(hit.seq)
            if places is None:
                places = ranks[hit.seq] = [None] * len(lists)
                docs[hit.seq] = hit.doc
            if places[number] is None:
                place += 1
                places[number] = place
    fused = [Fused(seq, docs[seq], _score(places, k), tuple(places)) for seq, places in ranks.items()]
    fused.sort(key=lambda hit: (-hit.score, hit.seq))
    return fused


def _score(places: Sequence[int | None], k: int) -> float:
    # Sorted, because floating-point addition in another order may break a tie that is one.
    found = [place for place in places if place is not None]
    return 1 / (k + found[0]) if len(found) == 1 else sum(1 / (k + place) for place in sorted(found))


def collapse(ranked: Sequence[tuple[int, int, str]], *, alike: float = ALIKE) -> list[int]:
    """Return the `seq` of each `(seq, doc, text)` that a better one of the same document does not already say.

    Two texts say the same if the words they share are at least `alike` of all the words in either (Jaccard); case,
    spacing and order of lines are ignored. The order is kept.
    """
    kept: list[int] = []
    seen: dict[int, list[frozenset[str]]] = {}
    several = {doc for doc, count in Counter(doc for _, doc, _ in ranked).items() if count > 1}
    for seq, doc, text in ranked:
        if doc not in several:
            kept.append(seq)
            continue
        said = frozenset(text.casefold().split())
        others = seen.setdefault(doc, [])
        if not any(_same(said, other, alike) for other in others):
            others.append(said)
            kept.append(seq)
    return kept


def _same(one: frozenset[str], other: frozenset[str], alike: float) -> bool:
    if min(len(one), len(other)) < alike * max(len(one), len(other)):
        return False  # too different in size to be alike; saves most intersections
    common = len(one & other)
    return common >= alike * (len(one) + len(other) - common)
