"""How long an act keeps trying while others save its page again and again."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from knowledge.errors import KeepsChanging

KEEPS_TRYING_S = 10.0
"""Less than others wait for the page (`page_locks.LONGEST_WAIT_S`), so that those behind an act that gives up still get a turn."""
LEAST_TRIES = 5
"""Tries that are made however long they take: if one takes seconds, the time alone would be over after the first."""


class ActPatience:
    """The patience of one act, from now on; it ends when both the time and the least number of tries are used up.

    A number of tries alone is not enough. An editor that saves twenty times a second, or a burst of saves, uses up any number
    within the second that each new merge takes; given some seconds, one try gets in between.
    """

    def __init__(
        self,
        keeps_trying_s: float = KEEPS_TRYING_S,
        least_tries: int = LEAST_TRIES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._clock, self._least_tries, self._tries = clock, least_tries, 0
        self._until = clock() + keeps_trying_s

    def spend(self, path: str) -> None:
        """Count a try that failed because somebody saved the page at `path`.

        Raises:
            KeepsChanging: it was the last one.
        """
        self._tries += 1
        if self._clock() >= self._until and self._tries >= self._least_tries:
            raise KeepsChanging(path, self._tries)
