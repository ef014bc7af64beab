"""Matches recorded origins to the units of a page that may have been edited in the meantime. Pure.

Equal text in the same section is matched first, then equal text elsewhere, then text that is nearly the same. A text
that fits two origins equally well gets neither: an origin is found or unknown, never guessed (kb/decisions/0026).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from knowledge.merge.claims.contradiction import compare
from knowledge.merge.evidence.confidence import DEFAULT_RULES, UNKNOWN, Rules
from knowledge.merge.model import Origin, Unit, unit_digest
from knowledge.merge.three_way.line_join import common_ends
from knowledge.pages.claim_source import UNKNOWN_AUTHORITY
from knowledge.search.query.analysis import words

NEAR = 0.7
"""Likeness, 0..1, from which two texts count as one text before and after an edit."""
CLEARER_BY = 0.05
"""By how much the likeness of the most similar text must exceed that of the second most similar one."""
SAME_SECTION = 0.03
"""Bonus for staying in the same section."""
FEW_WORDS = 6
"""For texts of up to this many words, letters are compared, because one changed word of three is not a third of the text."""
RARE = 24
"""Two texts that share a word are compared only if at most this many texts have that word."""
MOST_CANDIDATES = 24
LONGEST_COMPARED = 20_000


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Facts about a whole page, for units without their own origin.

    `tracked` is true if this server ever wrote the page. A unit without an origin comes from `source` on an untracked
    page; on a tracked page, someone unknown wrote it.
    """

    path: str
    source: str
    modified: datetime
    tracked: bool


def presumed_origin(unit: Unit, page: PageFacts, rules: Rules = DEFAULT_RULES) -> Origin:
    """Return the origin assumed for a unit without one: the page's own, or unknown on a page that we track."""
    source = UNKNOWN if page.tracked else page.source
    authority = UNKNOWN_AUTHORITY if page.tracked else rules.authority_of(source)
    return Origin(unit_digest(unit.text), unit.section, source, authority, page.modified, revision="")


def trace_origins(units: Sequence[Unit], known: Sequence[Origin], before: Sequence[Unit] | None) -> list[Origin | None]:
    """Return the origin of each unit, None where it is not known.

    `known` are the origins that the page had when this server last wrote it, and `before` are the units that it had
    then. Each origin goes to at most one unit. A unit whose value changed loses its origin: its source never said that.
    """
    here = [unit_digest(unit.text) for unit in units]
    placed = [(digest, unit.section) for digest, unit in zip(here, units, strict=True)]
    were = [(origin.digest, origin.section) for origin in known]
    if placed == were:
        return list(known)  # as a rule nobody wrote in between
    first, last, end = _differing(placed, were)
    tracing = _Tracing(units, known, first, last, end)
    tracing.pair_equal(placed, were)
    tracing.pair_equal(here, [origin.digest for origin in known])
    # Comparing texts by words is the slow part, so only if both sides still have something to pair.
    if before is not None and len(tracing.of_unit) < min(last - first, end - first):
        _pair_near(tracing, _units_of(known, before))
    inner = [
        None if (index := tracing.of_unit.get(number)) is None else _at(known[index], units[number])
        for number in range(first, last)
    ]
    return [*known[:first], *inner, *known[end:]]


def origins_after(
    after: Sequence[Unit],
    *,
    before: Sequence[Unit],
    origins: Sequence[Origin | None],
    new: Origin,
    page: PageFacts,
    rules: Rules = DEFAULT_RULES,
) -> list[Origin]:
    """Return the origin of every unit of an edited text: `new` if its text is new, otherwise the origin that it had.

    `origins` belong to `before`, the units of the text that was edited. A unit of `before` whose origin is None keeps
    the presumed origin.
    """
    placed = [
        _at(origin or presumed_origin(unit, page, rules), unit) for unit, origin in zip(before, origins, strict=True)
    ]
    kept = trace_origins(after, placed, None)
    return [origin or _at(new, unit) for unit, origin in zip(after, kept, strict=True)]


def _at(origin: Origin, unit: Unit) -> Origin:
    """Return `origin` as the origin of `unit`."""
    digest = unit_digest(unit.text)
    if origin.digest == digest and origin.section == unit.section:
        return origin
    return replace(origin, digest=digest, section=unit.section)


def _differing(
    placed: Sequence[tuple[bytes, tuple[str, ...]]], were: Sequence[tuple[bytes, tuple[str, ...]]]
) -> tuple[int, int, int]:
    """Return the stretch where units and origins differ: its first index, its end in the units, its end in the origins.

    The stretch is everything if a text of an unchanged end also occurs in between: then nobody knows which copy has
    which origin.
    """
    same, tail = common_ends(placed, were)
    last, end = len(placed) - tail, len(were) - tail
    between = {digest for digest, _ in (*placed[same:last], *were[same:end])}
    # One line of "same, same" was removed: which of the two origins is left?
    if any(digest in between for digest, _ in (*placed[:same], *placed[last:])):
        return 0, len(placed), len(were)
    return same, last, end


class _Tracing:
    """Pairs units from `first` to `last` with origins from `first` to `end`; `of_unit` holds the pairs found so far."""

    def __init__(self, units: Sequence[Unit], known: Sequence[Origin], first: int, last: int, end: int) -> None:
        self.units, self.known = units, known
        self.numbers, self.indexes = range(first, last), range(first, end)
        self.of_unit: dict[int, int] = {}
        self.taken: set[int] = set()

    def pair_equal(self, unit_keys: Sequence[object], origin_keys: Sequence[object]) -> None:
        """Pair units and origins of equal key, in order.

        A key is left out if its units and its origins differ in number, unless all its origins are alike.
        """
        waiting: defaultdict[object, list[int]] = defaultdict(list)
        for index in self.indexes:
            if index not in self.taken:
                waiting[origin_keys[index]].append(index)
        asking: defaultdict[object, list[int]] = defaultdict(list)
        for number in self.numbers:
            if number not in self.of_unit and (key := unit_keys[number]) in waiting:
                asking[key].append(number)
        for key, numbers in asking.items():
            found = [self.known[index] for index in waiting[key]]
            sources = {(one.source, one.authority, one.observed_at, one.corroborated_by, one.by) for one in found}
            if len(numbers) == len(found) or len(sources) == 1:
                for number, index in zip(numbers, waiting[key], strict=False):
                    self.pair(number, index)

    def pair(self, number: int, index: int) -> None:
        self.of_unit[number] = index
        self.taken.add(index)


# Text that is nearly the same


class _ComparedWords:
    """The parts by which texts are compared: words, or runs of three letters if there are few words."""

    def __init__(self, unit: Unit) -> None:
        self.kind, self.section = unit.kind, unit.section
        found = words(unit.text[:LONGEST_COMPARED])
        self.few = len(found) <= FEW_WORDS
        self.words = Counter(found)

    def letters(self) -> Counter[str]:
        padded = [f" {word} " for word in self.words.elements()]
        return Counter(word[at : at + 3] for word in padded for at in range(len(word) - 2))

    def likeness(self, other: _ComparedWords) -> float:
        """Return the similarity of both texts, 0..1 (Dice coefficient)."""
        if self.kind != other.kind:
            return 0.0
        few = self.few or other.few
        one, two = (self.letters(), other.letters()) if few else (self.words, other.words)
        total = one.total() + two.total()
        return 2 * (one & two).total() / total if total else 0.0


def _units_of(known: Sequence[Origin], before: Sequence[Unit]) -> dict[int, Unit]:
    """Return the unit of the earlier page that each origin belongs to, by the origin's index."""
    digests = [unit_digest(unit.text) for unit in before]
    if digests == [origin.digest for origin in known]:
        return dict(enumerate(before))
    waiting: defaultdict[bytes, list[Unit]] = defaultdict(list)
    # Reversed, so that `pop` hands out equal texts in the order of the page.
    for unit, digest in zip(reversed(before), reversed(digests), strict=True):
        waiting[digest].append(unit)
    return {index: waiting[origin.digest].pop() for index, origin in enumerate(known) if waiting.get(origin.digest)}


def _pair_near(tracing: _Tracing, texts: Mapping[int, Unit]) -> None:
    """Pair texts that are clearly each other's nearest."""
    old = {at: _ComparedWords(texts[at]) for at in tracing.indexes if at in texts and at not in tracing.taken}
    new = {at: _ComparedWords(tracing.units[at]) for at in tracing.numbers if at not in tracing.of_unit}
    scores: dict[tuple[int, int], float] = {}
    for number, index in _candidates(tracing, old, new):
        score = old[index].likeness(new[number])
        if score >= NEAR - CLEARER_BY:
            scores[number, index] = score + (SAME_SECTION if old[index].section == new[number].section else 0.0)
    by_unit, by_origin = _rivals(scores, 0), _rivals(scores, 1)
    for (number, index), score in scores.items():
        rival = max(by_unit[number, index], by_origin[number, index])
        if score < NEAR or score - rival < CLEARER_BY:
            continue
        # Nearly the same words with another value: "32 MiB at most", "64 MiB at most".
        if compare(texts[index].text, tracing.units[number].text).relation != "contradict":
            tracing.pair(number, index)


def _rivals(scores: Mapping[tuple[int, int], float], side: int) -> dict[tuple[int, int], float]:
    """Return, for each pair, the best score that its member on `side` has with any text but its partner; 0 if there is none."""
    best: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for pair, score in scores.items():
        first, second = best[pair[side]]
        best[pair[side]] = [score, first] if score > first else [first, max(second, score)]
    # If the pair itself has the best score, its rival is the second best.
    return {pair: best[pair[side]][1 if score == best[pair[side]][0] else 0] for pair, score in scores.items()}


def _candidates(
    tracing: _Tracing, old: Mapping[int, _ComparedWords], new: Mapping[int, _ComparedWords]
) -> Iterable[tuple[int, int]]:
    """Yield the pairs worth comparing: texts that share a rare word, and texts that follow the same neighbour."""
    holders: defaultdict[str, list[int]] = defaultdict(list)
    for index, text in old.items():
        for word in text.words:
            holders[word].append(index)
    between = _following_same_neighbour(tracing, old)
    for number, text in new.items():
        shared: Counter[int] = Counter()
        for word in text.words:
            if len(found := holders.get(word, ())) <= RARE:
                shared.update(found)
        near = dict.fromkeys(index for index, _ in shared.most_common(MOST_CANDIDATES))
        near.update(dict.fromkeys(between.get(number, ())))
        yield from ((number, index) for index in near)


def _following_same_neighbour(tracing: _Tracing, old: Mapping[int, _ComparedWords]) -> dict[int, list[int]]:
    """Return, for each unit without origin, the origins without unit that followed the neighbour before it."""
    found: dict[int, list[int]] = {}
    after = tracing.indexes.start - 1
    for number in tracing.numbers:
        if (index := tracing.of_unit.get(number)) is not None:
            after = index
            continue
        run = found[number] = []
        while after + 1 + len(run) in old and len(run) < MOST_CANDIDATES:
            run.append(after + 1 + len(run))
    return found
