"""Evidence from other services, fetched before it counts, so that nobody can cite what does not exist."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Fetched:
    """The current content of a source. `at` is when it was written, aware UTC; `title` and `url` are for people.

    `source` is its canonical name, whatever it was requested by: several names of one source must not count as several sources.
    Nothing in it was written after `latest`. `text` was written by others; `own`: this server wrote all of it. `statements` is the
    text without the names of those who wrote it, which would be a part of their first sentences; "" where it has none.
    """

    text: str
    at: datetime
    title: str
    url: str
    source: str
    latest: datetime
    own: bool = False
    statements: str = ""


class Sources(Protocol):
    """Fetches the content of sources."""

    def knows(self, source: str) -> bool:
        """Return whether sources of that kind can be looked up here, because their service is configured."""
        ...

    async def fetch(self, source: str) -> Fetched:
        """Return the source's content.

        Raises:
            NoSuchSource: it does not exist, or this server may not read it. The message says what to do.
            SourceAway: it can't be looked up now.
        """
        ...
