"""Evidence that lies in other services: fetched before it counts, so that nobody can cite what is not there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Fetched:
    """What stands at a source now. `at` is when it was said, aware UTC; `title` and `url` are for people.

    `source` is its one name, however it was asked for: several names must not pass for several voices. Nothing of it was said
    after `latest`. `text` is what others wrote; `own` says that there is nothing but what was written from here.
    """

    text: str
    at: datetime
    title: str
    url: str
    source: str
    latest: datetime
    own: bool = False


class Sources(Protocol):
    """Fetches what a source names."""

    def knows(self, source: str) -> bool:
        """Return whether sources of that kind can be looked up here: their service is configured."""
        ...

    async def fetch(self, source: str) -> Fetched:
        """Return what stands there.

        Raises:
            NoSuchSource: nothing does, or nothing that this server may read. The message says what to do.
            SourceAway: it cannot be looked up now.
        """
        ...
