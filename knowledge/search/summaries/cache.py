"""Reading map lines for maps: what was read once is not read again, and a database that is away costs no map."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from knowledge.errors import StorageError
from knowledge.search.summaries.ports import Summaries

logger = logging.getLogger(__name__)

MOST_REMEMBERED = 20_000


class RememberedLines:
    """The lines of a store as maps want them. A content has one line for ever, so none goes out of date."""

    def __init__(self, summaries: Summaries, most: int = MOST_REMEMBERED) -> None:
        self._summaries, self._most = summaries, most
        self._known: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the lines that there are of these, as far as that can be known now."""
        unknown = [key for key in keys if key not in self._known]
        if unknown:
            try:
                self._known |= await self._summaries.lines(unknown)
            except StorageError as error:
                logger.warning("maps go without the lines of the model now: %s", error)
        said = {key: self._known[key] for key in keys if key in self._known}
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return said
