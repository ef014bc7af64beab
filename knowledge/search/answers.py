"""What the three circles answer: frozen values, cheap to import, for they are part of every tool list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from knowledge.pages.map_view import MapEntry
from knowledge.search.result.scent import Scent
from knowledge.search.route.route_kind import QuestionRoute


@dataclass(frozen=True, slots=True)
class MapView:
    """Circle 1. `derived` says that no `_index.md` wrote this summary; `count` documents lie here and below.

    `note` says what was left out when `truncated`, and how to get at it.
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


@dataclass(frozen=True, slots=True)
class OutlineLine:
    """One heading: its path (`A > B`), level, line in the file, and the tokens of its whole section."""

    section: str
    level: int
    line: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Citing:
    """A task, or a thread of a channel, that names a page: `plane:KB-12`, `zulip:design`, and where it is seen."""

    origin: str
    url: str


@dataclass(frozen=True, slots=True)
class PageReading:
    """Circle 2. `text` is what was asked for, from `offset`; `next_offset` is where it goes on, None at the end.

    `cited_by`: what is known to name the page, newest first, where a service is configured in which anything could.
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
    cited_by: Sequence[Citing] = ()


@dataclass(frozen=True, slots=True)
class PageLine:
    """A page or directory in one line: what it is called and what it says.

    `tokens`: of the whole page, by which to choose between reading it and searching in it; None if not looked up.
    """

    path: str
    kind: Literal["directory", "document"]
    line: str
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that answers. `score` is 0..1, comparable within one answer only; lines count from 1.

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
    """Documents searchable now, of those there are."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class SearchAnswer:
    """Ranked chunks, the route taken, and whether this is enough. `note`: which engine was missing, if any.

    Navigation: `pages` are the places that were asked for, best first, and what lies in the first directory; the hits are
    few. Discovery: the hits of one page stand together, pages by their best hit, and `pages` has the map line of each.
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
