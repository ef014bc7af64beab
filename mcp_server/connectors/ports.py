"""What every connected service offers to the rest of the server, besides its own tools."""

from __future__ import annotations

from typing import Protocol

from knowledge.outbox.ports import Mention
from knowledge.search.answers import Citing


class Connector(Protocol):
    """A service as the settings let it be used.

    Its folder here also has an `evidence.py`, whose `fetch(connector, locator)` returns what a source says that begins with the
    folder's name, such as `plane:KB-12`.
    """

    def citation(self, mention: Mention) -> Citing | None:
        """Return what may be shown of a mention to somebody who reads the page; None if the settings hide its place.

        Never a title: anybody may have written it, and reading the page must not count as reading that. Asks nothing of the
        service.
        """
        ...
