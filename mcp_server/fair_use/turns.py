"""Turns: a few calls run at a time, and the callers take turns, however many calls each of them has sent."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
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
MOST_REMEMBERED = 1_000
"""Callers whose last turn is remembered. A forgotten one counts as new, which only helps it."""


@dataclass(slots=True, eq=False)
class _Ticket:
    """One call's place in the queue, and later its turn."""

    leave: Callable[[], None] = lambda: None
    granted: anyio.Event = field(default_factory=anyio.Event)
    running: bool = False
    over: bool = False


_MINE: ContextVar[_Ticket | None] = ContextVar("turn", default=None)
"""The turn of the current task. A call within a call must not wait for the turn that the outer one holds."""


def leave_turn() -> None:
    """Give the current call's turn to others. It goes on without one, because it now waits for a service that may take long.

    It gets no other turn: it may hold a lock that calls with a turn wait for.
    """
    ticket = _MINE.get()
    if ticket is not None and ticket.running:
        ticket.leave()


class Turns:
    """At most `places` calls run at a time, and at most `each` of one caller. The rest wait.

    A free place goes to the waiting caller with the fewest running calls, and among those to the one whose last turn was longest
    ago. So a caller that sends one call now and then waits for at most one call of a caller that has a hundred of them in the queue.
    """

    def __init__(
        self, places: int, *, each: int, most_waiting: int = MOST_WAITING, patience_s: float = PATIENCE_S
    ) -> None:
        self._free, self._each, self._most_waiting, self._patience_s = places, each, most_waiting, patience_s
        self._waiting: dict[str, deque[_Ticket]] = {}
        self._running: Counter[str] = Counter()
        self._last_turn: dict[str, int] = {}
        self._given = 0

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncIterator[None]:
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
        ticket = _Ticket()
        ticket.leave = partial(self._leave, who, ticket)
        self._waiting.setdefault(who, deque()).append(ticket)
        self._give()
        try:
            if not ticket.running:
                with anyio.move_on_after(self._patience_s):
                    await ticket.granted.wait()
            if not ticket.running:
                raise NoTurn(self.waiting, self._patience_s)
            token = _MINE.set(ticket)
            try:
                yield
            finally:
                _MINE.reset(token)
        finally:
            ticket.over = True  # tasks that the call has started live on with its context
            self._leave(who, ticket)

    def _leave(self, who: str, ticket: _Ticket) -> None:
        if ticket.running:
            ticket.running = False
            self._free += 1
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]
        elif not ticket.granted.is_set():
            self._waiting[who].remove(ticket)
            if not self._waiting[who]:
                del self._waiting[who]
        self._give()

    def _give(self) -> None:
        """Give free places to those whose turn it is."""
        while self._free and (ready := [who for who in self._waiting if self._running[who] < self._each]):
            who = min(ready, key=lambda one: (self._running[one], self._last_turn.get(one, 0)))
            ticket = self._waiting[who].popleft()
            if not self._waiting[who]:
                del self._waiting[who]
            self._free -= 1
            self._running[who] += 1
            self._given += 1
            self._last_turn.pop(who, None)
            self._last_turn[who] = self._given
            if len(self._last_turn) > MOST_REMEMBERED:
                del self._last_turn[next(iter(self._last_turn))]
            ticket.running = True
            ticket.granted.set()
