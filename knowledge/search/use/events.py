"""The events that are recorded about the use of search. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from knowledge.search.answers import RouteMode
from knowledge.state.ports import Filters

PageUseKind = Literal["read", "merge"]
"""A page was read, or a merge named it as its target."""


class UsingSession(NamedTuple):
    """The user of a search: the principal, its journey (`""` outside of one), and the server process, by a random name."""

    principal: str
    journey: str
    process: str


@dataclass(frozen=True, slots=True)
class SearchedFor:
    """A question with the part of the knowledge base that was searched. `continued` is a further page of one answer."""

    query: str
    path: str = ""
    filters: Filters = field(default_factory=Filters)
    continued: bool = False


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question, and the pages that its answer showed, best first, each once."""

    at: datetime
    session: UsingSession
    asked: SearchedFor
    route: RouteMode
    shown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageUse:
    """A page that was used by someone who had asked a question shortly before.

    `untrusted` says whether its text is from an untrusted source.
    """

    at: datetime
    session: UsingSession
    path: str
    how: PageUseKind = "read"
    untrusted: bool = False


@dataclass(frozen=True, slots=True)
class UseCounts:
    """How many events are stored, and the time of the oldest; None without any."""

    questions: int = 0
    uses: int = 0
    since: datetime | None = None
