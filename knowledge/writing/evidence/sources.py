"""Evidence from other services. It is fetched before it counts, so that a source that does not exist can't be cited."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A text that somebody wrote in a source. `name` identifies it (`message 4711`); `url` leads to it, if it has an address.

    It is placed under the heading `under`. Without an author it is the source's own text, such as a task's description.
    """

    under: str
    name: str
    text: str
    author: str = ""
    at: datetime | None = None
    url: str = ""

    @property
    def written_at(self) -> str:
        """When it was written, formatted for people."""
        return f"{self.at:%Y-%m-%d %H:%M:%S} UTC" if self.at else ""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The current content of a source. `at` is when it was written, aware UTC; `title` and `url` are for people.

    `source` is its canonical name, whichever name it was requested by, so that one source never counts as several.
    Nothing in it was written after `latest`. `text` is what others wrote; `own` is true if this server wrote all of the
    source. `statements` is `text` without the names of its authors, which would otherwise become part of their first
    sentences; "" if `text` has no such names.

    `entries` are the parts that others wrote, oldest first. `kind` is the kind of the source, for people (`Task in
    Plane`). `single` is true if the source is one message, `truncated` if older entries were not fetched.
    """

    text: str
    at: datetime
    title: str
    url: str
    source: str
    latest: datetime
    own: bool = False
    statements: str = ""
    kind: str = ""
    entries: tuple[SourceEntry, ...] = ()
    single: bool = False
    truncated: bool = False


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
