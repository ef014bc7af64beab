"""What the lines to all search servers have alike: nobody waits for one that is away."""

from __future__ import annotations

import time

from knowledge.errors import EngineUnavailable


class Away:
    """Whether a server is known to be away: for a while after a failure searches fail at once, instead of each waiting for it."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._until = float("-inf")
        self._problem = ""

    def require_back(self) -> None:
        """Return unless the server is known to be away.

        Raises:
            EngineUnavailable: it is; says why.
        """
        if time.monotonic() < self._until:
            raise EngineUnavailable(self._engine, self._problem)

    def begins(self, problem: str, *, for_s: float) -> EngineUnavailable:
        """Note that the server is away, and return the error that says so."""
        self._problem, self._until = problem, time.monotonic() + for_s
        return EngineUnavailable(self._engine, problem)

    def ends(self) -> None:
        """Note that the server answered."""
        self._until = float("-inf")
