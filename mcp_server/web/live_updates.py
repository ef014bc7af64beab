"""Send open pages an event when any process has changed something, and know whether a person is looking.

Source: WHATWG HTML, "Server-sent events".
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio

from knowledge.errors import StorageError
from knowledge.state.ports import Event, StateStore

logger = logging.getLogger("knowledge_forge.review")

BEAT_S = 15.0
"""Seconds between empty messages, with which a dead connection is noticed."""
LOOKED_S = 60.0
"""A person who opened a page within this time counts as looking, even without an open stream."""
MOST_LISTENERS = 50
MOST_OF_ONE = 20
"""The most streams of one session, so that others have room. Browsers open at most six to one server."""
AFTER_TROUBLE_S = 1.0
BEGINNING, BEAT = "retry: 2000\n\n", ": still here\n\n"

Clock = Callable[[], float]
Here = Callable[[], Awaitable[bool]]
Arrived = Callable[[Collection[Event]], Awaitable[None]]
Readable = Callable[[Collection[Event]], Awaitable[Collection[Event]]]
"""Returns, of the given changes, those that a listener may learn of."""


@dataclass(eq=False, slots=True)
class _Listener:
    """An open page of a session (`whose`), and the changes that it has not received yet."""

    whose: str = ""
    changes: dict[tuple[str, str], Event] = field(default_factory=dict)
    """By topic and key."""
    woken: anyio.Event = field(default_factory=anyio.Event)


class Live:
    """Follow the state database and pass on its changes."""

    def __init__(self, state: StateStore, clock: Clock = time.monotonic) -> None:
        self._state, self._clock = state, clock
        self._listeners: set[_Listener] = set()
        self._looked = float("-inf")
        self._closed = False

    def looked(self) -> None:
        """Record that a person has just opened a page."""
        self._looked = self._clock()

    @property
    def looking(self) -> bool:
        """Whether a person has the page open."""
        return bool(self._listeners) or self._clock() - self._looked < LOOKED_S

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        for listener in self._listeners:
            listener.woken.set()

    async def run(self, arrived: Arrived) -> None:
        """Follow changes until cancelled; `arrived` gets each batch too."""
        seen = await self._state.last_event()
        while True:
            try:
                await self._state.changed(seen)
                # If the counter went back, a backup was restored, and any of its events may be a change.
                events = await self._state.events_after(seen) or await self._state.events_after(0)
                seen = events[-1].seq if events else await self._state.last_event()
            except StorageError:
                logger.warning("the review page can't follow changes right now", exc_info=True)
                await anyio.sleep(AFTER_TROUBLE_S)
                continue
            for listener in self._listeners:
                listener.changes |= {(event.topic, event.key): event for event in events}
                listener.woken.set()
            await arrived(events)

    async def heard(self, whose: str, readable: Readable) -> AsyncGenerator[Collection[str]]:
        """Yield an empty collection at once, then the keys of the changes that `readable` returns.

        After `BEAT_S` without any, it yields an empty collection.

        Ends when the page is closed, and at once if there are too many listeners, or too many of this session.
        """
        of_one = sum(one.whose == whose for one in self._listeners)
        if len(self._listeners) >= MOST_LISTENERS or of_one >= MOST_OF_ONE:
            return
        listener = _Listener(whose)
        self._listeners.add(listener)
        try:
            yield ()
            # Only a message moves the time of the next empty one: changes that are not readable must leave no trace.
            beat = anyio.current_time() + BEAT_S
            while not self._closed:
                with anyio.CancelScope(deadline=beat):
                    await listener.woken.wait()
                listener.woken = anyio.Event()  # an anyio event can't be reset
                changes, listener.changes = listener.changes, {}
                keys = sorted({change.key for change in await readable(list(changes.values()))})
                if keys or self._closed or anyio.current_time() >= beat:
                    yield keys
                    beat = anyio.current_time() + BEAT_S
        except StorageError:
            logger.warning("an open page can't follow changes right now", exc_info=True)  # it connects again
        finally:
            self._listeners.discard(listener)
            # The page may be giving way to the next one: the person is still looking.
            self.looked()

    async def stream(self, whose: str, here: Here, readable: Readable) -> AsyncIterator[str]:
        """Yield an event `changed` with the keys of `readable` changes, for as long as the session is logged in (`here`)."""
        first = True
        async with aclosing(self.heard(whose, readable)) as heard:
            async for keys in heard:
                if not await here():
                    return
                yield BEGINNING if first else f"event: changed\ndata: {json.dumps(keys)}\n\n" if keys else BEAT
                first = False
