"""How an answer is laid out for a model: pages together, long snippets first, and never more tokens than allowed. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from knowledge.pages.map_view import MapEntry
from knowledge.search.answers import Hit, PageLine

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

ANSWER_CHARACTERS = 290
"""Characters of an answer without its hits and pages, beside its reasons, nudge, note and cursor: the fields' names."""
HIT_CHARACTERS = 210
"""Characters of a hit beside its path, section, title, source and snippet."""
LINE_CHARACTERS = 56
LONGEST_LINE, SHORT_LINE = 110, 50
MANY_LINES = 5
"""So many pages or fewer have long lines."""
TELLING_SNIPPET, SHORTEST_SNIPPET = 250, 60
"""What a snippet needs to hold the sentence that answers, and to show at least what a chunk is about."""
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


def page_line(entry: MapEntry, tokens: int | None = None, *, longest: int = LONGEST_LINE) -> PageLine:
    """Return the map line of `entry`, cut after a word; `tokens` is the size of its page, if known."""
    said = f"{entry.title}: {entry.summary}" if entry.summary else entry.title
    if len(said) > longest:
        head = said[: longest - 3]
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


def most_that_fit(hits: Sequence[int], lines: Sequence[int], room: int, *, sure: int) -> int:
    """Return how many hits fit; at least one. `lines` is what the map line costs that comes with each, 0 if there already.

    The first `sure` hits are content with the shortest snippet; one more must have room for a telling one each.
    """
    taken = 0
    for count, (hit, line) in enumerate(zip(hits, lines, strict=True)):
        taken += hit + line
        each = SHORTEST_SNIPPET if count < sure else TELLING_SNIPPET
        if count and taken + (count + 1) * each > room:
            return count
    return len(hits)


def share(place: int, count: int, room: int, *, least: int = SHORTEST_SNIPPET) -> int:
    """Return the room for the snippet at `place` (from 0) when `room` is left for those from there up to `count`.

    Each gets `least` or more, as long as there is so much for all.
    """
    weights = [1 / (1 + FADING * at) for at in range(place, count)]
    faded = int(room * weights[0] / sum(weights))
    left = room - (count - place - 1) * least
    return max(SHORTEST_SNIPPET, min(MOST_SNIPPET, max(faded, least), left))


def _written(text: str) -> int:
    """Return the length of `text` as JSON."""
    return len(text) + text.count("\n") + text.count('"') + text.count("\\") + text.count("\t")
