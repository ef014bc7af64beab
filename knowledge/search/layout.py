"""Fits an answer into its token limit: which hits are shown, and how long each snippet may be. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.pages.map_view import MapEntry
from knowledge.search.answers import PageLine

ANSWER_CHARACTERS = 290
"""The characters of the field names of an answer without hits, pages, reasons, nudge, note and cursor."""
HIT_CHARACTERS = 210
"""Characters of a hit's field names and fixed parts, without its path, section, title, source and snippet."""
LINE_CHARACTERS = 56
LONGEST_LINE, SHORT_LINE = 110, 50
MANY_LINES = 5
"""Up to this many pages have long lines."""
TELLING_SNIPPET, SHORTEST_SNIPPET = 250, 60
"""Characters of a snippet that usually holds the sentence with the answer, and of the shortest snippet that still
shows what a chunk is about."""
MOST_SNIPPET = 900
"""Longer snippets rarely help: this holds the sentence that answers and its neighbours."""
FADING = 0.7
"""How much less room each next snippet gets: the answer is most likely in the first."""


def page_line(entry: MapEntry, tokens: int | None = None, *, longest: int = LONGEST_LINE) -> PageLine:
    """Return the map line of `entry`, cut after a word; `tokens` is the size of its page, if known."""
    line = f"{entry.title}: {entry.summary}" if entry.summary else entry.title
    if len(line) > longest:
        head = line[: longest - 3]
        line = head[: head.rfind(" ") if " " in head else len(head)].rstrip(" ,;:-") + "..."
    return PageLine(entry.path, entry.kind, line, tokens)


def line_cost(line: PageLine) -> int:
    """Return the characters of a map line."""
    return LINE_CHARACTERS + json_length(line.path) + json_length(line.line)


def hit_cost(*texts: str) -> int:
    """Return the characters of a hit without its snippet; `texts` are its path, section, title and source."""
    return HIT_CHARACTERS + sum(map(json_length, texts))


def json_length(text: str) -> int:
    """Return the length of `text` in JSON.

    There, line feeds, quotes, backslashes and tabs take one more character each; other control characters are too rare
    to count.
    """
    return len(text) + text.count("\n") + text.count('"') + text.count("\\") + text.count("\t")


def most_that_fit(hits: Sequence[int], lines: Sequence[int], room: int, *, sure: int) -> int:
    """Return how many hits fit, at least one. `hits` are their costs, `lines` the cost of a map line that comes with each.

    The first `sure` hits count with the shortest snippets; more are added only while all can have a useful one.
    """
    taken = 0
    for count, (hit, line) in enumerate(zip(hits, lines, strict=True)):
        taken += hit + line
        each = SHORTEST_SNIPPET if count < sure else TELLING_SNIPPET
        if count and taken + (count + 1) * each > room:
            return count
    return len(hits)


def share(place: int, count: int, room: int, *, least: int = SHORTEST_SNIPPET) -> int:
    """Return the room for the snippet at `place` (from 0) of `count` snippets.

    `room` is what is left for this snippet and all later ones. Each snippet gets at least `least` if there is enough
    room for all.
    """
    # Recomputed for each snippet: what a short one leaves over goes to those after it.
    weights = [1 / (1 + FADING * at) for at in range(place, count)]
    faded = int(room * weights[0] / sum(weights))
    left = room - (count - place - 1) * least
    return max(SHORTEST_SNIPPET, min(MOST_SNIPPET, max(faded, least), left))
