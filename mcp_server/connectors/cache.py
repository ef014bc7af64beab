"""Keeps what another service told for a while; of any number of callers at once, one asks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

from mcp_server.connectors.errors import ConnectorError

T = TypeVar("T")


@dataclass(slots=True)
class _Flight(Generic[T]):
    """One question under way. `told` has at most one answer; a caller that went away leaves none, and no error."""

    over: anyio.Event = field(default_factory=anyio.Event)
    told: list[T] = field(default_factory=list)
    error: ConnectorError | None = None


class Keeping(Generic[T]):
    """Answers by key. An answer that was under way when its key was forgotten is given to those who waited for it, and not kept."""

    def __init__(self, monotonic: Callable[[], float], *, longest_s: float) -> None:
        self._monotonic, self._longest_s = monotonic, longest_s
        self._kept: dict[str, tuple[T, float]] = {}
        self._flights: dict[str, _Flight[T]] = {}

    async def get(self, key: str, ask: Callable[[], Awaitable[T]], *, at_most_s: float | None = None) -> T:
        """Return what `ask` answers, or answered a short while ago (`at_most_s`, by default as long as answers are kept).

        Raises:
            ConnectorError: it was asked and failed; whoever waited for the same answer gets the same error.
        """
        longest = self._longest_s if at_most_s is None else at_most_s
        while True:
            kept = self._kept.get(key)
            if kept is not None and self._monotonic() - kept[1] < longest:
                return kept[0]
            flight = self._flights.get(key)
            if flight is None:
                return await self._asked(key, ask)
            await flight.over.wait()
            if flight.error is not None:
                raise flight.error
            if flight.told:
                return flight.told[0]

    def age_s(self, key: str) -> float | None:
        """Return how long ago the answer that is kept was asked for."""
        kept = self._kept.get(key)
        return None if kept is None else self._monotonic() - kept[1]

    def all(self) -> Mapping[str, T]:
        """Return all answers that are kept, by key."""
        return {key: told for key, (told, _at) in self._kept.items()}

    def forget(self, key: str) -> None:
        """Have the next caller ask anew."""
        self._kept.pop(key, None)
        self._flights.pop(key, None)

    def forget_under(self, beginning: str) -> None:
        """Have all be asked anew whose keys begin so."""
        for key in {*self._kept, *self._flights}:
            if key.startswith(beginning):
                self.forget(key)

    async def _asked(self, key: str, ask: Callable[[], Awaitable[T]]) -> T:
        flight: _Flight[T] = _Flight()
        self._flights[key] = flight
        asked_at = self._monotonic()
        try:
            told = await ask()
        except ConnectorError as error:
            flight.error = error
            raise
        else:
            flight.told.append(told)
            if self._flights.get(key) is flight:
                self._drop_old(asked_at)
                self._kept[key] = (told, asked_at)
            return told
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.over.set()

    def _drop_old(self, now: float) -> None:
        for key in [key for key, (_told, at) in self._kept.items() if now - at >= self._longest_s]:
            del self._kept[key]
