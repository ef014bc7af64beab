"""The results of the three tiers as frozen values. Every tool list imports this file, so it imports nothing heavy. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from knowledge.pages.map_view import MapEntry

RouteMode = Literal["navigation", "discovery"]
"""A question about a place, or about an idea."""
SearchMode = Literal["auto", "navigation", "discovery"]
ROUTE_MODES: Final[tuple[RouteMode, ...]] = ("navigation", "discovery")
ScentLevel = Literal["sufficient", "partial", "lost"]


@dataclass(frozen=True, slots=True)
class MapView:
    """Tier 1: the map of a directory. `count` is the number of documents in it and below.

    `derived` is true if the summary was not written in an `_index.md`. `note` explains a `truncated` map, and `next_cursor`
    continues it.
    """

    path: str
    title: str
    summary: str
    derived: bool
    children: Sequence[MapEntry]
    count: int
    modified: str | None
    truncated: bool
    note: str | None = None
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class OutlineLine:
    """One heading: its path (`A > B`), level, line in the file, and the tokens of its whole section."""

    section: str
    level: int
    line: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Citing:
    """A task or a channel thread that cites a page: its origin (`plane:KB-12`, `zulip:design`) and its address."""

    origin: str
    url: str


@dataclass(frozen=True, slots=True)
class PageReading:
    """Tier 2: a page. `text` begins at the requested offset and continues at `next_offset`, which is None at the end.

    `links` are the paths of the pages that it links to, and `backlinks` those of the pages that link to it; `note`
    counts the paths left out. `cited_by` lists the newest citations first; it is empty if no connected service could
    cite a page.
    """

    path: str
    title: str
    revision: str
    metadata: Mapping[str, object]
    outline: Sequence[OutlineLine]
    text: str
    next_offset: int | None
    source: str
    authority: float
    tainted: bool
    note: str | None
    links: Sequence[str] = ()
    backlinks: Sequence[str] = ()
    cited_by: Sequence[Citing] = ()


@dataclass(frozen=True, slots=True)
class PageLine:
    """A page or directory in one line: title and summary. `tokens` is the size of the whole page, None if not looked up.

    A model uses `tokens` to choose between reading the page and searching in it.
    """

    path: str
    kind: Literal["directory", "document"]
    line: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching chunk. `score` is the probability, 0..1, that its page answers the question; lines count from 1.

    `modified` is when its page was last written, ISO 8601 in UTC.
    """

    path: str
    section: str
    title: str
    snippet: str
    score: float
    line_start: int
    line_end: int
    revision: str
    modified: str
    source: str
    authority: float
    tainted: bool


@dataclass(frozen=True, slots=True)
class IndexCoverage:
    """How many documents are searchable now, and how many there are in all."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class QuestionRoute:
    """Whether a question was taken as one about a place or an idea; `confidence` is 0..1, `reason` names the decisive sign."""

    mode: RouteMode
    confidence: float
    reason: str


@dataclass(frozen=True, slots=True)
class Scent:
    """Whether the shown chunks probably contain the answer, why, and the next call, which names an existing path."""

    level: ScentLevel
    reason: str
    next: str


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Tier 3: ranked chunks, the route taken, and the scent. `note` names engines that were unavailable.

    Navigation: `pages` lists the requested places, best first, then the contents of the first directory; there are few
    hits. Discovery: hits of one page are adjacent, pages ordered by their best hit, and `pages` has one line for each.
    `explanation` says why hits rank where they do, if that was requested.
    """

    pages: Sequence[PageLine]
    hits: Sequence[Hit]
    route: QuestionRoute
    scent: Scent
    nudge: str | None
    next_cursor: str | None
    indexed: IndexCoverage
    corrected: str | None
    note: str | None = None
    explanation: Mapping[str, object] | None = None
