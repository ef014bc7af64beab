"""Labels from use: which pages were used after a question, and how much each use counts as evidence. Pure.

The less a use was caused by the ranking, the more it says about the page. Hits at the top are read because they are at
the top, so a use at rank r counts sqrt(r): the inverse of the chance that the rank is looked at, if that falls with the
square root of the rank. For people it falls faster, but a model gets all hits in one answer. A page counts most if it
was the first one used and was not shown at all: somebody found it in spite of the ranking.

| what happened | counts |
|---|---|
| the page at rank r was used | sqrt(r), at most `NOT_SHOWN` |
| a page that was not shown was the first one used | `NOT_SHOWN` |
| a page that was not shown was used after a shown one | 1: it may have been a link in that one |
| nothing was used, and a similar question followed within `REWORDED`: the uses of that question | as for this one |
| a similar question followed within `DOUBTED` of the use | half: the page was probably not enough |
| a merge named the page | twice, and never half |

The counts of a page are averaged over all times that the same question was asked. Questions about a place are left out: their
answer is a map and not a ranking.

Source: Joachims, Swaminathan, Schnabel, "Unbiased learning-to-rank with biased feedback", WSDM 2017 (inverse propensity);
Radlinski, Joachims, "Query chains: learning to rank from implicit feedback", KDD 2005 (rewording).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from knowledge.search.query.analysis import is_stop_word, words
from knowledge.search.use.events import AskedQuestion, PageUse, PageUseKind, SearchedFor, UsingSession

WITHIN = timedelta(minutes=10)
REWORDED = timedelta(minutes=2)
DOUBTED = timedelta(minutes=1)
NOT_SHOWN = 5.0
"""The weight of a page that was not shown: more than that of the last hit an answer usually shows. Measured with simulated
readers (kb/decisions/0058)."""
SIMILAR_SHARE = 0.5
"""The share of the shorter question's content words that a similar question must have."""


@dataclass(frozen=True, slots=True)
class UseLabel:
    """A question, and the pages that were used after it, each with the weight of its use.

    `ranks` has the best rank at which the page was shown when it was used; None if it was not shown. `asked` is how
    often the question was asked, and `at` is when it was last asked. `untrusted` are pages whose text is from an
    untrusted source.
    """

    asked_for: SearchedFor
    grades: Mapping[str, float]
    ranks: Mapping[str, int | None]
    asked: int
    at: datetime
    untrusted: frozenset[str] = frozenset()

    @property
    def weight(self) -> float:
        """The weight of the question among all questions: that of its best page."""
        return max(self.grades.values())

    @property
    def page(self) -> str:
        """The page whose use counts most; of equal ones the first by path."""
        return min(self.grades, key=lambda path: (-self.grades[path], path))

    @property
    def below_first(self) -> bool:
        """Whether a page that was not ranked first was used: only then does the use tell more than the ranking itself."""
        return any(rank != 1 for rank in self.ranks.values())


@dataclass(slots=True)
class _Occurrence:
    """One time that a question was asked: what was shown, the first use of each page, and the question after it."""

    question: AskedQuestion
    shown: list[str]
    uses: dict[str, PageUse] = field(default_factory=dict)
    following: _Occurrence | None = None
    counts: dict[str, float] = field(default_factory=dict)

    @property
    def at(self) -> datetime:
        return self.question.at

    def add(self, use: PageUse) -> None:
        known = self.uses.get(use.path)
        how: PageUseKind = "merge" if "merge" in (use.how, known.how if known else "") else "read"
        first = known or use
        untrusted = use.untrusted or first.untrusted
        self.uses[use.path] = PageUse(first.at, first.session, first.path, how, untrusted=untrusted)

    def rank(self, path: str) -> int | None:
        return self.shown.index(path) + 1 if path in self.shown else None


def labels(questions: Iterable[AskedQuestion], uses: Iterable[PageUse]) -> list[UseLabel]:
    """Return a label for each question after which a page was used, the latest question first."""
    found: dict[tuple[str, str, str], list[_Occurrence]] = defaultdict(list)
    for session in _by_session(questions, uses).values():
        for occurrence in _occurrences(session):
            if occurrence.question.route == "discovery":
                asked = occurrence.question.asked
                found[_same(asked.query), asked.path, repr(asked.filters)].append(occurrence)
    made = [label for same in found.values() if (label := _label(same)) is not None]
    return sorted(made, key=lambda label: label.at, reverse=True)


def _by_session(
    questions: Iterable[AskedQuestion], uses: Iterable[PageUse]
) -> Mapping[UsingSession, list[AskedQuestion | PageUse]]:
    sessions: dict[UsingSession, list[AskedQuestion | PageUse]] = defaultdict(list)
    for question in questions:
        sessions[question.session].append(question)
    for use in uses:
        sessions[use.session].append(use)
    for events in sessions.values():
        events.sort(key=lambda event: event.at)  # stable: of equal times, the question comes before the use
    return sessions


def _occurrences(events: Sequence[AskedQuestion | PageUse]) -> list[_Occurrence]:
    """Return the questions of one session in their order, each with its uses and their counts."""
    found: list[_Occurrence] = []
    for event in events:
        last = found[-1] if found else None
        if isinstance(event, PageUse):
            if last is not None and event.at - last.at <= WITHIN:
                last.add(event)
        elif (
            event.asked.continued and last is not None and _same(event.asked.query) == _same(last.question.asked.query)
        ):
            # The next page of the same answer: its hits rank after those already shown.
            last.shown += [path for path in event.shown if path not in last.shown]
        else:
            made = _Occurrence(event, list(event.shown))
            if last is not None:
                last.following = made
            found.append(made)
    # Backwards, so that a question that was reworded twice gets the uses after the last wording.
    for occurrence in reversed(found):
        _count(occurrence)
    return found


def _count(occurrence: _Occurrence) -> None:
    following = occurrence.following
    similar = following is not None and _similar(occurrence.question.asked.query, following.question.asked.query)
    if not occurrence.uses and similar and following is not None and following.at - occurrence.at <= REWORDED:
        occurrence.uses = following.uses
        occurrence.counts = {path: _worth(occurrence.rank(path), first=True) for path in following.counts}
        return
    shown_before = False
    for path, use in sorted(occurrence.uses.items(), key=lambda pair: pair[1].at):
        rank = occurrence.rank(path)
        count = _worth(rank, first=not shown_before)
        if use.how == "merge":
            count *= 2
        elif similar and following is not None and following.at - use.at <= DOUBTED:
            count /= 2
        shown_before = shown_before or rank is not None
        occurrence.counts[path] = count


def _worth(rank: int | None, *, first: bool) -> float:
    if rank is None:
        return NOT_SHOWN if first else 1.0
    return min(math.sqrt(rank), NOT_SHOWN)


def _label(same: Sequence[_Occurrence]) -> UseLabel | None:
    """Combine all occurrences of one question into its label; None if no page was used after any of them."""
    counts: dict[str, float] = defaultdict(float)
    ranks: dict[str, int | None] = {}
    untrusted: set[str] = set()
    for occurrence in same:
        for path, count in occurrence.counts.items():
            counts[path] += count
            rank = occurrence.rank(path)
            known = ranks.setdefault(path, rank)
            ranks[path] = min((r for r in (known, rank) if r is not None), default=None)
            if occurrence.uses[path].untrusted:
                untrusted.add(path)
    if not counts:
        return None
    grades = {path: count / len(same) for path, count in counts.items()}
    last = max(same, key=lambda occurrence: occurrence.at)
    return UseLabel(last.question.asked, grades, ranks, len(same), last.at, frozenset(untrusted))


def _same(query: str) -> str:
    return " ".join(query.casefold().split())


def _similar(one: str, other: str) -> bool:
    """Return whether the shorter of two questions shares at least `SIMILAR_SHARE` of its content words with the other."""
    first, second = _content(one), _content(other)
    fewest = min(len(first), len(second))
    return fewest > 0 and len(first & second) >= SIMILAR_SHARE * fewest


def _content(query: str) -> frozenset[str]:
    every = frozenset(words(query))
    # A question of stop words alone ("who is it") is compared by them, or it would be similar to none.
    return frozenset(word for word in every if not is_stop_word(word, ())) or every
