"""Which recorded origin belongs to which unit of a page that anybody may have edited meanwhile. Pure.

Equal text in the same section first, then equal text elsewhere, then text that is nearly the same. What fits two places
equally well fits none: an origin is found or unknown, never guessed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge.merge.claims.contradiction import compare
from knowledge.merge.evidence.confidence import DEFAULT_RULES, UNKNOWN, Rules
from knowledge.merge.model import Origin, Unit, unit_digest
from knowledge.pages.claim_source import UNKNOWN_AUTHORITY
from knowledge.search.query.analysis import words

NEAR = 0.7
"""How much two texts share, 0..1, to be one text before and after an edit: below, it is another text."""
CLEARER_BY = 0.05
"""By how much the nearest must be nearer than the next."""
SAME_SECTION = 0.03
FEW_WORDS = 6
"""Up to so many words, letters are compared: one word of three is not a third of what is said."""
RARE = 24
"""Texts that share a word with at most so many others are looked at because of it."""
MOST_CANDIDATES = 24
LONGEST_COMPARED = 20_000


@dataclass(frozen=True, slots=True)
class PageFacts:
    """What is known of a page as a whole, for units without an origin of their own.

    `source` is the page's own, `tracked` whether it was ever written through us: then a unit without origin is somebody
    else's, and nobody knows whose.
    """

    path: str
    source: str
    modified: datetime
    tracked: bool


def trace(units: Sequence[Unit], known: Sequence[Origin], before: Sequence[Unit] | None) -> list[Origin | None]:
    """Return the origin of each unit, None where it is not known.

    `known` are the origins of the page when it was last written through us, `before` its units then. Each origin is
    given to at most one unit. A unit that says another value than before has no origin any more: its source never said so.
    """
    here = [unit_digest(unit.text) for unit in units]
    there = [origin.digest for origin in known]
    placed = [(digest, unit.section) for digest, unit in zip(here, units, strict=True)]
    were = [(origin.digest, origin.section) for origin in known]
    if placed == were:
        return list(known)  # nobody wrote in between, as a rule
    first, last, end = _differing(placed, were)
    tracing = _Tracing(units, known, first, last, end)
    tracing.pair(placed, were)
    tracing.pair(here, there)
    if before is not None and not tracing.settled():
        _pair_near(tracing, _texts_before(known, before))
    inner = [
        None if (index := tracing.of_unit.get(number)) is None else _at(known[index], units[number])
        for number in range(first, last)
    ]
    return [*known[:first], *inner, *known[end:]]


def _differing(
    placed: Sequence[tuple[bytes, tuple[str, ...]]], were: Sequence[tuple[bytes, tuple[str, ...]]]
) -> tuple[int, int, int]:
    """Return the first unit that is not where it was, the one after the last such, and the origin after the last such.

    Everything, if a text at one of the ends that stayed stands in between as well: then it may be either of them.
    """
    most = min(len(placed), len(were))
    same = tail = 0
    while same < most and placed[same] == were[same]:
        same += 1
    while tail < most - same and placed[-1 - tail] == were[-1 - tail]:
        tail += 1
    last, end = len(placed) - tail, len(were) - tail
    between = {digest for digest, _ in (*placed[same:last], *were[same:end])}
    if any(digest in between for digest, _ in (*placed[:same], *placed[last:])):
        return 0, len(placed), len(were)
    return same, last, end


def presumed(unit: Unit, page: PageFacts, rules: Rules = DEFAULT_RULES) -> Origin:
    """Return the origin that a unit without one counts with: the page's own, or unknown on a page that we keep track of."""
    source = UNKNOWN if page.tracked else page.source
    authority = UNKNOWN_AUTHORITY if page.tracked else rules.authority_of(source)
    return Origin(unit_digest(unit.text), unit.section, source, authority, page.modified, revision="")


def origins_after(
    after: Sequence[Unit],
    *,
    before: Sequence[Unit],
    origins: Sequence[Origin | None],
    new: Origin,
    page: PageFacts,
    rules: Rules = DEFAULT_RULES,
) -> list[Origin]:
    """Return the origin of every unit of a text that was edited: `new` where its text is new, otherwise what it was.

    `origins` belong to `before`, the units of the text that the edit was made to. Where a unit of it had no origin, it
    counts with the one that is presumed of it.
    """
    settled = [origin or presumed(unit, page, rules) for unit, origin in zip(before, origins, strict=True)]
    placed = [_at(origin, unit) for unit, origin in zip(before, settled, strict=True)]
    kept = trace(after, placed, None)
    return [origin or _at(new, unit) for unit, origin in zip(after, kept, strict=True)]


def _at(origin: Origin, unit: Unit) -> Origin:
    """Return `origin` as that of `unit`."""
    digest = unit_digest(unit.text)
    if origin.digest == digest and origin.section == unit.section:
        return origin
    return replace(origin, digest=digest, section=unit.section)


class _Tracing:
    """Units and origins of which those from `first` to `last`, and to `end`, still look for each other."""

    def __init__(self, units: Sequence[Unit], known: Sequence[Origin], first: int, last: int, end: int) -> None:
        self.units, self.known = units, known
        self.numbers, self.indexes = range(first, last), range(first, end)
        self.of_unit: dict[int, int] = {}
        self.taken: set[int] = set()

    def settled(self) -> bool:
        """Return whether none is left of the units, or of the origins."""
        return len(self.of_unit) in (len(self.numbers), len(self.indexes))

    def pair(self, unit_keys: Sequence[object], origin_keys: Sequence[object]) -> None:
        """Pair those of the same key, in order where there are as many of one as of the other, or where it does not matter."""
        waiting: defaultdict[object, list[int]] = defaultdict(list)
        for index in self.indexes:
            if index not in self.taken:
                waiting[origin_keys[index]].append(index)
        asking: defaultdict[object, list[int]] = defaultdict(list)
        for number in self.numbers:
            if number not in self.of_unit and (key := unit_keys[number]) in waiting:
                asking[key].append(number)
        for key, numbers in asking.items():
            indexes = waiting[key]
            if len(numbers) == len(indexes) or _same_origin(self.known[index] for index in indexes):
                for number, index in zip(numbers, indexes, strict=False):
                    self.settle(number, index)

    def settle(self, number: int, index: int) -> None:
        self.of_unit[number] = index
        self.taken.add(index)


def _same_origin(origins: Iterable[Origin]) -> bool:
    said = {(one.source, one.authority, one.observed_at, one.corroborated_by, one.by) for one in origins}
    return len(said) == 1


def _texts_before(known: Sequence[Origin], before: Sequence[Unit]) -> dict[int, Unit]:
    """Return the unit, as it was, of each origin by its index."""
    digests = [unit_digest(unit.text) for unit in before]
    if len(before) == len(known) and all(one == origin.digest for one, origin in zip(digests, known, strict=True)):
        return dict(enumerate(before))
    waiting: defaultdict[bytes, list[Unit]] = defaultdict(list)
    for unit, digest in zip(reversed(before), reversed(digests), strict=True):
        waiting[digest].append(unit)
    return {index: waiting[origin.digest].pop() for index, origin in enumerate(known) if waiting.get(origin.digest)}


def _pair_near(tracing: _Tracing, texts: dict[int, Unit]) -> None:
    """Pair what is left where one text is the nearest of the other, and clearly so, on both sides."""
    old = {at: _ComparedWords(texts[at]) for at in tracing.indexes if at in texts and at not in tracing.taken}
    new = {at: _ComparedWords(tracing.units[at]) for at in tracing.numbers if at not in tracing.of_unit}
    scores: dict[tuple[int, int], float] = {}
    for number, index in _candidates(tracing, old, new):
        score = _alike(old[index], new[number])
        if score >= NEAR - CLEARER_BY:
            scores[number, index] = score + (SAME_SECTION if old[index].section == new[number].section else 0.0)
    by_unit, by_origin = _rivals(scores, 0), _rivals(scores, 1)
    for (number, index), score in scores.items():
        nearest = score >= NEAR and all(
            score - rival >= CLEARER_BY for rival in (by_unit[number, index], by_origin[number, index])
        )
        if nearest and compare(texts[index].text, tracing.units[number].text).relation != "contradict":
            tracing.settle(number, index)


def _rivals(scores: dict[tuple[int, int], float], side: int) -> dict[tuple[int, int], float]:
    """Return, for each pair, the best score that its member on that side has with anybody else; 0 with none."""
    best: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for pair, score in scores.items():
        first, second = best[pair[side]]
        best[pair[side]] = [score, first] if score > first else [first, max(second, score)]
    return {pair: best[pair[side]][1 if score == best[pair[side]][0] else 0] for pair, score in scores.items()}


class _ComparedWords:
    """What a text is compared by: its words, or the runs of three letters in them where it has few."""

    def __init__(self, unit: Unit) -> None:
        self.kind, self.section = unit.kind, unit.section
        found = words(unit.text[:LONGEST_COMPARED])
        self.few = len(found) <= FEW_WORDS
        self.words = Counter(found)
        self.size = len(found)

    def letters(self) -> Counter[str]:
        return Counter(
            padded[at : at + 3]
            for word in self.words.elements()
            for padded in (f" {word} ",)
            for at in range(len(padded) - 2)
        )


def _alike(old: _ComparedWords, new: _ComparedWords) -> float:
    """Return how much of both texts is in both, 0..1 (the coefficient of Dice)."""
    if old.kind != new.kind:
        return 0.0
    if old.few or new.few:
        return _dice(old.letters(), new.letters())
    return _dice(old.words, new.words)


def _dice(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


def _candidates(
    tracing: _Tracing, old: dict[int, _ComparedWords], new: dict[int, _ComparedWords]
) -> Iterable[tuple[int, int]]:
    """Yield the pairs worth comparing: what shares a rare word, and what stands between the same neighbours."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, text in old.items():
        for word in text.words:
            holders[word].append(index)
    between = _between(tracing, old)
    for number, text in new.items():
        shared: Counter[int] = Counter()
        for word in text.words:
            if len(found := holders.get(word, ())) <= RARE:
                shared.update(found)
        near = dict.fromkeys(index for index, _ in shared.most_common(MOST_CANDIDATES))
        near.update(dict.fromkeys(between.get(number, ())))
        yield from ((number, index) for index in near)


def _between(tracing: _Tracing, old: dict[int, _ComparedWords]) -> dict[int, list[int]]:
    """Return, for units without origin, the origins without unit that followed the same neighbour."""
    found: dict[int, list[int]] = {}
    after = tracing.indexes.start - 1
    for number in tracing.numbers:
        if (index := tracing.of_unit.get(number)) is not None:
            after = index
            continue
        run: list[int] = []
        following = after + 1
        while following in old and len(run) < MOST_CANDIDATES:
            run.append(following)
            following += 1
        found[number] = run
    return found
