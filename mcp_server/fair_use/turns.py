"""Turns: a few calls run at a time, and the callers take turns, however many calls each of them has sent."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

import anyio

from knowledge.errors import NoTurn

MOST_WAITING = 500
"""Calls of all callers that may wait. Each holds its arguments in memory."""
PATIENCE_S = 60.0
"""How long a call may wait for its turn."""
HALF_S = 5.0
"""After this time half of what a caller used is forgotten."""
ALIKE_S = 1.0
"""Callers whose use differs by less than this many seconds are alike: neither has to wait until all calls of the other have ended."""
LOOK_S = 0.25
MOST_REMEMBERED = 1_000
"""Callers whose use is remembered. A forgotten one counts as new, which only helps it."""


@dataclass(slots=True, eq=False)
class _Ticket:
    """One call's place in the queue, and later its turn."""

    lane: str
    leave: Callable[[], None] = lambda: None
    granted: anyio.Event = field(default_factory=anyio.Event)
    running: bool = False
    over: bool = False
    began: float = 0.0


_MINE: ContextVar[_Ticket | None] = ContextVar("turn", default=None)
"""The turn of the current task. A call within a call must not wait for the turn that the outer one holds."""


def leave_turn() -> None:
    """Give the current call's turn to others, before it waits for a service that may take long.

    The call continues without a turn, because it may hold a lock that calls with a turn wait for.
    """
    ticket = _MINE.get()
    if ticket is not None and ticket.running:
        ticket.leave()


class Turns:
    """Each lane runs at most as many calls at a time as it has places, and at most `each` of one caller. The others wait.

    A free place goes to the waiting caller that used the least time lately. A caller that used clearly more than another
    starts no call while one of the other's runs: calls share one interpreter, so each would slow down the other. So a caller that
    calls now and then waits for the calls that are running, not for the hundred that another caller has in the queue.
    """

    def __init__(
        self,
        places: Mapping[str, int],
        *,
        each: int,
        most_waiting: int = MOST_WAITING,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free, self._each, self._most_waiting, self._patience_s = dict(places), each, most_waiting, patience_s
        self._clock = clock
        self._waiting: dict[tuple[str, str], deque[_Ticket]] = {}
        self._running: dict[str, list[_Ticket]] = {}
        self._used: dict[str, tuple[float, float]] = {}

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, who: str, lane: str) -> AsyncIterator[None]:
        """Wait for a turn of that caller, and hold it.

        Raises:
            NoTurn: too many calls wait already, or this one has waited too long. It was not begun.
        """
        outer = _MINE.get()
        if outer is not None and not outer.over:
            yield
            return
        if self.waiting >= self._most_waiting:
            raise NoTurn(self.waiting)
        ticket = _Ticket(lane)
        ticket.leave = partial(self._leave, who, ticket)
        self._waiting.setdefault((lane, who), deque()).append(ticket)
        self._give()
        try:
            await self._granted(ticket)
            token = _MINE.set(ticket)
            try:
                yield
            finally:
                _MINE.reset(token)
        finally:
            ticket.over = True  # tasks that the call has started live on with its context
            self._leave(who, ticket)

    async def _granted(self, ticket: _Ticket) -> None:
        if ticket.running:
            return
        with anyio.move_on_after(self._patience_s):
            while not ticket.running:
                # Checked again now and then: the longer a call runs, the more time its caller has used.
                with anyio.move_on_after(LOOK_S):
                    await ticket.granted.wait()
                self._give()
        if not ticket.running:
            raise NoTurn(self.waiting, self._patience_s)

    def _leave(self, who: str, ticket: _Ticket) -> None:
        if ticket.running:
            ticket.running = False
            self._free[ticket.lane] += 1
            self._running[who].remove(ticket)
            if not self._running[who]:
                del self._running[who]
            now = self._clock()
            used = self._forgotten(who, now) + now - ticket.began
            self._used.pop(who, None)
            self._used[who] = (used, now)
            if len(self._used) > MOST_REMEMBERED:
                del self._used[next(iter(self._used))]
        elif not ticket.granted.is_set():
            self._waiting[ticket.lane, who].remove(ticket)
            if not self._waiting[ticket.lane, who]:
                del self._waiting[ticket.lane, who]
        self._give()

    def _give(self) -> None:
        """Give free places to those whose turn it is."""
        now = self._clock()
        while ready := [key for key in self._waiting if self._may_start(*key, now)]:
            lane, who = min(ready, key=lambda one: self._used_by(one[1], now))
            queue = self._waiting.pop((lane, who))
            ticket = queue.popleft()
            if queue:
                self._waiting[lane, who] = queue  # behind the others, for callers that used the same
            self._free[lane] -= 1
            ticket.running, ticket.began = True, now
            self._running.setdefault(who, []).append(ticket)
            ticket.granted.set()

    def _may_start(self, lane: str, who: str, now: float) -> bool:
        own = [one for one in self._running.get(who, ()) if one.lane == lane]
        if not self._free[lane] or len(own) >= self._each:
            return False
        used = self._used_by(who, now)
        return all(used <= self._used_by(other, now) + ALIKE_S for other in self._running if other != who)

    def _used_by(self, who: str, now: float) -> float:
        """Return the seconds for which the caller held turns lately, those that it holds now included."""
        return self._forgotten(who, now) + sum(now - one.began for one in self._running.get(who, ()))

    def _forgotten(self, who: str, now: float) -> float:
        """Return the seconds for which it held turns that are over; half of them are forgotten after `HALF_S`."""
        used, at = self._used.get(who, (0.0, now))
        return float(used * 0.5 ** ((now - at) / HALF_S))
