"""A cache of what another service answered. However many callers ask at once, one request is sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

from mcp_server.connectors.errors import ConnectorError

T = TypeVar("T")


@dataclass(slots=True)
class _Fetch(Generic[T]):
    """A request under way. `values` holds its answer; it stays empty if the caller that sent it was cancelled."""

    finished: anyio.Event = field(default_factory=anyio.Event)
    values: list[T] = field(default_factory=list)
    error: ConnectorError | None = None


class ReplyCache(Generic[T]):
    """Answers by key, each for `longest_s` seconds."""

    def __init__(self, monotonic: Callable[[], float], *, longest_s: float) -> None:
        self._monotonic, self._longest_s = monotonic, longest_s
        self._entries: dict[str, tuple[T, float]] = {}
        self._fetches: dict[str, _Fetch[T]] = {}

    async def get(self, key: str, fetch: Callable[[], Awaitable[T]], *, at_most_s: float | None = None) -> T:
        """Return the cached answer if it is younger than `at_most_s` (by default `longest_s`), else what `fetch` returns.

        Raises:
            ConnectorError: the request failed; every caller that waited for it gets the same error.
        """
        longest_s = self._longest_s if at_most_s is None else at_most_s
        while True:
            entry = self._entries.get(key)
            if entry is not None and self._monotonic() - entry[1] < longest_s:
                return entry[0]
            under_way = self._fetches.get(key)
            if under_way is None:
                return await self._fetch(key, fetch)
            await under_way.finished.wait()
            if under_way.error is not None:
                raise under_way.error
            if under_way.values:
                return under_way.values[0]
            # The caller that sent the request was cancelled; one of the waiting callers sends the next.

    def age_s(self, key: str) -> float | None:
        """Return how long ago the cached answer was requested, or None."""
        entry = self._entries.get(key)
        return None if entry is None else self._monotonic() - entry[1]

    def kept(self, key: str) -> T | None:
        """Return the cached answer if it is younger than `longest_s`, without requesting anything."""
        entry = self._entries.get(key)
        return None if entry is None or self._monotonic() - entry[1] >= self._longest_s else entry[0]

    def values(self) -> Collection[T]:
        """Return all cached answers."""
        return [value for value, _at in self._entries.values()]

    def forget(self, prefix: str) -> None:
        """Drop the answers whose keys begin with `prefix`; a request under way for one of them is not cached when it ends.

        It may have been answered before the change that made the caller forget.
        """
        for key in [key for key in {*self._entries, *self._fetches} if key.startswith(prefix)]:
            self._entries.pop(key, None)
            self._fetches.pop(key, None)

    async def _fetch(self, key: str, fetch: Callable[[], Awaitable[T]]) -> T:
        own = self._fetches[key] = _Fetch[T]()
        # An answer is as old as its question: the service may have changed while it was on its way.
        asked_at = self._monotonic()
        try:
            value = await fetch()
        except ConnectorError as error:
            own.error = error
            raise
        else:
            own.values.append(value)
            if self._fetches.get(key) is own:
                # Expired answers are dropped here, so that keys nobody asks for again do not pile up.
                fresh = ((k, entry) for k, entry in self._entries.items() if asked_at - entry[1] < self._longest_s)
                self._entries = {**dict(fresh), key: (value, asked_at)}
            return value
        finally:
            if self._fetches.get(key) is own:
                del self._fetches[key]
            own.finished.set()
