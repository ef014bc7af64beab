"""The search that people use on the site. It ranks as for hosts, has longer answers, and says whether the index has every page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import anyio

from knowledge.history.ports import ActsWanted, Ledger
from knowledge.search.answers import SearchAnswer
from knowledge.search.canvas_search import FoundCanvas
from knowledge.search.finder import Finder
from knowledge.state.ports import Filters
from mcp_server.presenters.index_state import IndexState

MOST_HITS = 10
ANSWER_TOKENS = 6_000
"""Enough for ten hits with their longest snippets and explanations."""
WAIT_S = 2.0
"""How long a person waits for changed pages to be indexed before the answer."""
MOST_ACTS = 2_000
"""A filter by author finds the pages of at most this many of the newest changes by that host or person."""
MOST_REMEMBERED = 20
_WARMING = "a qzxvw"
"""A question with a word that no page has, which loads the vocabulary, too."""
TRUSTED_S = 5.0
"""How long a comparison of the index with all files is believed. It takes 0.2 s for 10,000 pages."""


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """An answer, the words to mark in it, what the index lacked when it was last compared with the files, and the canvases found.

    `state` is None if it has not been compared yet.
    """

    answer: SearchAnswer
    words: Sequence[str]
    state: IndexState | None
    canvases: Sequence[FoundCanvas] = ()


@dataclass
class PeopleSearch:
    """Answers people, and compares the index with the files no more often than every few seconds."""

    load_finder: Callable[[], Finder]
    freshen_index: Callable[[float], Awaitable[IndexState]]
    ledger: Ledger
    _changed: dict[str, tuple[float, tuple[str, ...]]] = field(default_factory=dict)
    """For each host or person: the time until which their list of pages is used, and the pages that they changed."""
    _state: IndexState | None = None
    _until: float = float("-inf")
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    @cached_property
    def _finder(self) -> Finder:
        return self.load_finder().for_people(answer_tokens=ANSWER_TOKENS, explained=MOST_HITS)

    async def answer(
        self, question: str, filters: Filters, *, cursor: str | None = None, explain: bool = False
    ) -> FoundPassages:
        """Return the passages that answer best, from the index as it is.

        Raises:
            InvalidPath, NoSuchPath: the folder of `filters` does not exist.
            BadCursor: `cursor` belongs to another question.
        """
        answer = await self._finder.search(
            question, path=filters.path, limit=MOST_HITS, filters=filters, cursor=cursor, explain=explain
        )
        words = await self._finder.searched_words(question)
        canvases = () if cursor else await self._finder.canvases(question, filters)
        return FoundPassages(answer, words, self._state, canvases)

    async def changed_by(self, who: str) -> tuple[str, ...]:
        """Return the pages that a host or person has changed lately, by path. `who` is "" for changes made in editors.

        The answer may be a few seconds old.
        """
        until, paths = self._changed.get(who, (float("-inf"), ()))
        if anyio.current_time() >= until:
            acts = await self.ledger.timeline(ActsWanted(who=who), limit=MOST_ACTS)
            paths = tuple(sorted({line.path for act in acts for line in act.lines}))
            if len(self._changed) >= MOST_REMEMBERED:
                self._changed.clear()
            self._changed[who] = anyio.current_time() + TRUSTED_S, paths
        return paths

    async def prepare(self) -> None:
        """Load the engines and bring the index up to date, while somebody begins to type."""
        await self._finder.search(_WARMING, limit=1, explain=True)
        await self.look_for_changes()

    async def look_for_changes(self) -> None:
        """Bring the index up to date with the files, unless that was just done; wait at most `WAIT_S` for it."""
        async with self._lock:
            if anyio.current_time() < self._until:
                return
            self._state = await self.freshen_index(WAIT_S)
            self._until = anyio.current_time() + TRUSTED_S
