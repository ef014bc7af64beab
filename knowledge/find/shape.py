"""How an answer is laid out for a model: pages together, long snippets first, and never more tokens than allowed. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from knowledge.find.answers import Hit, PageLine
from knowledge.map import Entry

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

ANSWER_CHARACTERS = 420
"""Characters of an answer around its hits and pages, beside its scent, nudge, note and cursor: the fields' names, the route."""
HIT_CHARACTERS = 245
"""Characters of a hit beside its path, section, title, source and snippet."""
LINE_CHARACTERS = 60
LONGEST_LINE = 110
SHORTEST_SNIPPET = 250
MOST_SNIPPET = 900
"""Characters of a snippet: more is rarely needed to hold the sentence that answers and its neighbours."""
FADING = 0.7
"""How much less room each next snippet gets: the answer is most likely in the first."""


def grouped(ranked: Sequence[T], key: Iterable[K]) -> list[T]:
    """Return `ranked` with what has the same key side by side; groups by their best, order within a group kept."""
    groups: dict[K, list[T]] = {}
    for item, group in zip(ranked, key, strict=True):
        groups.setdefault(group, []).append(item)
    return [item for group in groups.values() for item in group]


def page_line(entry: Entry, tokens: int | None = None) -> PageLine:
    """Return the map line of `entry`, cut after a word; `tokens` is the size of its page, if known."""
    said = f"{entry.title}: {entry.summary}" if entry.summary else entry.title
    if len(said) > LONGEST_LINE:
        head = said[: LONGEST_LINE - 3]
        said = head[: head.rfind(" ") if " " in head else len(head)].rstrip(" ,;:-") + "..."
    return PageLine(entry.path, entry.kind, said, tokens)


def line_cost(line: PageLine) -> int:
    """Return the characters that a map line takes."""
    return LINE_CHARACTERS + _written(line.path) + _written(line.line)


def hit_cost(hit: Hit) -> int:
    """Return the characters that a hit takes without its snippet."""
    return HIT_CHARACTERS + sum(map(_written, (hit.path, hit.section, hit.title, hit.source)))


def snippet_cost(text: str) -> int:
    """Return the characters that a snippet takes."""
    return _written(text)


def most_that_fit(costs: Sequence[int], room: int) -> int:
    """Return how many hits fit with the shortest snippet each; at least one."""
    taken = 0
    for count, cost in enumerate(costs):
        taken += cost + SHORTEST_SNIPPET
        if taken > room and count:
            return count
    return len(costs)


def share(place: int, count: int, room: int) -> int:
    """Return the room for the snippet at `place` (from 0) when `room` is left for those from there up to `count`."""
    weights = [1 / (1 + FADING * at) for at in range(place, count)]
    return max(SHORTEST_SNIPPET, min(MOST_SNIPPET, int(room * weights[0] / sum(weights))))


def _written(text: str) -> int:
    """Return the length of `text` as JSON."""
    return len(text) + text.count("\n") + text.count('"') + text.count("\\") + text.count("\t")
