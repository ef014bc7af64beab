"""Joining ranked lists into one, and dropping what says the same twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
        for hit in ranked:
            docs.setdefault(hit.seq, hit.doc)
        for rank, seq in enumerate(dict.fromkeys(hit.seq for hit in ranked), start=1):
            ranks.setdefault(seq, [None] * len(lists))[number] = rank
    fused = [Fused(seq, docs[seq], _score(places, k), tuple(places)) for seq, places in ranks.items()]
    return sorted(fused, key=lambda hit: (-hit.score, hit.seq))


def _score(places: Iterable[int | None], k: int) -> float:
    # Sorted, because floating-point addition in another order may break a tie that is one.
    return sum(1 / (k + rank) for rank in sorted(rank for rank in places if rank is not None))


def collapse(ranked: Sequence[tuple[int, int, str]], *, alike: float = ALIKE) -> list[int]:
    """Return the `seq` of each `(seq, doc, text)` that a better one of the same document does not already say.

    Two texts say the same if the words they share are at least `alike` of all the words in either (Jaccard); case,
    spacing and order of lines are ignored. The order is kept.
    """
    kept: list[int] = []
    seen: dict[int, list[frozenset[str]]] = {}
    for seq, doc, text in ranked:
        said = frozenset(text.casefold().split())
        others = seen.setdefault(doc, [])
        if not any(_same(said, other, alike) for other in others):
            others.append(said)
            kept.append(seq)
    return kept


def _same(one: frozenset[str], other: frozenset[str], alike: float) -> bool:
    if min(len(one), len(other)) < alike * max(len(one), len(other)):
        return False  # too different in size to be alike; saves most intersections
    union = len(one | other)
    return not union or len(one & other) >= alike * union
