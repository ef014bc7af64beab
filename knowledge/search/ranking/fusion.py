"""Joins the ranked lists of two engines, drops near-duplicates, and spreads an answer over several pages. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from knowledge.index.ports import Scored

RRF_K = 60
"""The constant of reciprocal rank fusion; 60 is the value of the paper below."""
SAME_SHARE = 0.9
"""Share of common words from which two chunks of one document count as duplicates."""
BEST = 2
"""Chunks of the best document in each part of an answer; of another document there is one."""


class Fused(NamedTuple):
    """A chunk in the joined list. `ranks` has its place, from 1, in every list that was joined by rank; None where it is absent."""

    seq: int
    doc: int
    score: float
    ranks: tuple[int | None, ...] = ()


def fuse(lists: Sequence[Sequence[Scored]]) -> list[Fused]:
    """Return every chunk of `lists` once, best first, by the sum of 1 / (`RRF_K` + rank); equal scores by `seq`.

    Only places count, never scores, so engines with different scales can be joined. If a list names a chunk twice, its
    better place counts.

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
    # Sorted, because floating-point addition in another order may break a real tie.
    scores = {seq: sum(1 / (RRF_K + p) for p in sorted(filter(None, places))) for seq, places in ranks.items()}
    fused = [Fused(seq, docs[seq], scores[seq], tuple(places)) for seq, places in ranks.items()]
    fused.sort(key=lambda hit: (-hit.score, hit.seq))
    return fused


def collapse(ranked: Sequence[tuple[int, int, str]]) -> list[int]:
    """Return the `seq` of each `(seq, doc, text)` without those that repeat a better one of the same document.

    Two texts repeat each other if at least `SAME_SHARE` of all their words are common (Jaccard); case, spacing and the
    order of lines are ignored. The order is kept.
    """
    kept: list[int] = []
    words_of_kept: dict[int, list[frozenset[str]]] = {}
    docs = [doc for _, doc, _ in ranked]
    several = {doc for doc in docs if docs.count(doc) > 1} if len(set(docs)) < len(docs) else set[int]()
    for seq, doc, text in ranked:
        if doc in several:
            words = frozenset(text.casefold().split())
            better = words_of_kept.setdefault(doc, [])
            # Only sets of nearly the same size can be the same; this saves most comparisons.
            size = len(words)
            near = [other for other in better if SAME_SHARE * size <= len(other) and SAME_SHARE * len(other) <= size]
            if any(_same(words, other) for other in near):
                continue
            better.append(words)
        kept.append(seq)
    return kept


def spread(ranked: Sequence[tuple[int, int]], *, window: int) -> list[int]:
    """Return the `seq` of each `(seq, doc)`, reordered so that each `window` has its first document `BEST` times and others once.

    A page with many good passages would otherwise fill an answer and hide the page that was meant. The first document has one, too, if
    its others are not among the next `window`. Where too few documents are left, a window is filled with more chunks of the same ones.
    """
    order: list[int] = []
    left = list(ranked)
    while left:
        best = [seq for seq, doc in left[:window] if doc == left[0][1]][:BEST]
        firsts: dict[int, int] = {}
        for seq, doc in left:
            firsts.setdefault(doc, seq)
        wanted = frozenset([*dict.fromkeys((*best, *firsts.values()))][:window])
        chosen = [seq for seq, _ in left if seq in wanted]
        chosen += [seq for seq, _ in left if seq not in wanted][: window - len(chosen)]
        order += chosen
        shown = frozenset(chosen)
        left = [one for one in left if one[0] not in shown]
    return order


def _same(one: frozenset[str], other: frozenset[str]) -> bool:
    common = len(one & other)
    return common >= SAME_SHARE * (len(one) + len(other) - common)
