"""How long somebody who is to write a page goes on while others save it again and again."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic

from knowledge.errors import KeepsChanging

GOES_ON_S = 10.0
"""Less than others wait for the page (`locks.LONGEST_WAIT_S`): who waits behind one that is given up still has a turn."""
LEAST_TRIES = 5
"""So often it is tried whatever that takes: where one try takes seconds, the time alone would be over after the first."""


class ActPatience:
    """What an act has of it, from now on: it is over when both the time and the least number of tries are.

    A number alone would not do. An editor that saves twenty times a second, or a burst of saves, uses up any number of tries
    within the second in which a merge is worked out anew each time; given some seconds one of them comes in between.
    """

    def __init__(
        self, goes_on_s: float = GOES_ON_S, least_tries: int = LEAST_TRIES, clock: Callable[[], float] = monotonic
    ) -> None:
        self._clock, self._least_tries, self._tries = clock, least_tries, 0
        self._until = clock() + goes_on_s

    def spend(self, path: str) -> None:
        """Count a try that came to nothing because somebody saved the page at `path`.

        Raises:
            KeepsChanging: it was the last.
        """
        self._tries += 1
        if self._clock() >= self._until and self._tries >= self._least_tries:
            raise KeepsChanging(path, self._tries)
