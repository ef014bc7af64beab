"""Admits calls within the limits of their caller, when it is the caller's turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from knowledge.errors import TooManyAtOnce
from knowledge.state.quota.bounds import Kind
from mcp_server.fair_use.counts import CallCounts
from mcp_server.fair_use.limits import Lane
from mcp_server.fair_use.turns import Turns

AT_ONCE, OF_ONE = 4, 1
"""The most calls that run at a time in each lane, and the most of one caller."""


class FairUse:
    """Decides when a call begins.

    At most `most_at_once` calls of one caller are in progress, and `counts` limits those of a minute; None for either sets no limit.
    Of a caller's calls, `of_one` run at a time in each lane; the others wait.
    """

    def __init__(
        self, counts: CallCounts | None = None, most_at_once: int | None = None, *, of_one: int = OF_ONE
    ) -> None:
        self._counts, self._most_at_once = counts, most_at_once
        self._turns = Turns({"read": AT_ONCE, "change": AT_ONCE}, each=of_one)
        self._in_progress: Counter[str] = Counter()

    @asynccontextmanager
    async def admitted(self, principal: str, lane: Lane, kinds: Sequence[Kind] = ()) -> AsyncIterator[None]:
        """Count the call, wait for its turn, and hold the turn.

        Raises:
            OverQuota, TooManyAtOnce, NoTurn: it is beyond a limit, or the server has too much to do. Nothing was done.
        """
        held = self._in_progress[principal]
        if self._most_at_once is not None and held >= self._most_at_once:
            raise TooManyAtOnce(principal, self._most_at_once)
        if self._counts is not None:
            # Only now: a call that was refused does not count.
            self._counts.count(principal, kinds)
        self._in_progress[principal] += 1
        try:
            if lane == "none":
                yield
            else:
                async with self._turns.turn(principal, lane):
                    yield
        finally:
            self._in_progress[principal] -= 1
            if not self._in_progress[principal]:
                del self._in_progress[principal]
