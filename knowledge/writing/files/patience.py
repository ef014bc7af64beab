"""How long an act retries while other programs keep saving its page."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from knowledge.errors import KeepsChanging

KEEPS_TRYING_S = 10.0
"""Seconds for which an act keeps trying. Others wait longer than this for the page (`page_locks.LONGEST_WAIT_S`), so
that they still get a turn after the act has given up."""
LEAST_TRIES = 5
"""Tries that are made in any case: if each takes seconds, the time limit alone would end the act after the first."""


class ActPatience:
    """The patience of one act, from now on; it ends when both the time and the least number of tries are used up.

    A limit on tries alone is not enough: a burst of saves, or an editor that saves twenty times a second, can defeat several tries
    in a row. Given a few seconds, one try falls between two saves.
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
