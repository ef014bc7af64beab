"""Which subscribers hear of a change: those that may read what changed."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import anyio.lowlevel
from mcp.server.subscriptions import ServerEvent, SubscriptionBus

from knowledge.state.ports import Event
from mcp_server.gate.caller import caller

logger = logging.getLogger("knowledge_forge.changes")

MayHear: TypeAlias = Callable[[str, Sequence[Event]], Awaitable[bool]]
"""Returns whether the principal with that id may learn that one of these changes happened."""
NOBODY = ""
"""The id of somebody of whom nothing is known."""


async def everybody_may(_principal: str, _changes: Sequence[Event]) -> bool:
    """Return True: without rules, every caller may learn of every change."""
    return True


def hearer() -> str:
    """Return the id of the caller of the present request."""
    who = caller.get()
    return NOBODY if who is None else who.id


class ReadersBus(SubscriptionBus):
    """The bus of the 2026 protocol's subscribers in this process. Each is told of a change if its caller may hear of it."""

    def __init__(self, may_hear: MayHear = everybody_may) -> None:
        self._may_hear = may_hear
        self._listeners: dict[object, tuple[str, Callable[[ServerEvent], None]]] = {}

    async def publish(self, event: ServerEvent, changes: Sequence[Event] = ()) -> None:
        """Deliver the event to every subscriber that may hear of the changes behind it; to all if there are none behind it."""
        allowed: dict[str, bool] = {}
        for who, listener in list(self._listeners.values()):
            try:
                if who not in allowed:
                    allowed[who] = not changes or await self._may_hear(who, changes)
                if allowed[who]:
                    listener(event)
            except Exception:  # one subscriber must not keep a change from the others
                logger.exception("a subscriber cannot be told of a change")
        await anyio.lowlevel.checkpoint()  # lets streams drain between the events of a burst

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Register the listener for the caller of the present request, and return a function that ends it."""
        token = object()
        self._listeners[token] = (hearer(), listener)

        def end() -> None:
            self._listeners.pop(token, None)

        return end
