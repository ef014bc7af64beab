"""Fetches what tasks and messages say, for merges that cite them, from the configured services."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from knowledge.errors import SourceAway
from knowledge.pages.claim_source import source_kind
from mcp_server.connectors.errors import ConnectorError, NoAnswer, ServiceLimited, Unreachable

if TYPE_CHECKING:  # this is loaded at start-up, and they are not
    from knowledge.writing.evidence.sources import Fetched
    from mcp_server.connectors.ports import Connector

KEPT_S = 60.0
"""How long a fetched text is reused, so that planning a merge, deciding on it and executing it share one request."""
AWAY_S = 15.0
"""How long a service that did not answer is not asked again, so that a merge does not wait for it three times."""
MOST_KEPT = 200
SILENT = (Unreachable, NoAnswer, ServiceLimited)
"""Errors that mean that the whole service is unavailable, not only the requested thing."""


class EvidenceSources:
    """Sources of evidence: `plane:KB-12`, `zulip:channel/topic` and `zulip:channel/topic/message`."""

    def __init__(self, connectors: Mapping[str, Callable[[], Connector]], monotonic: Callable[[], float]) -> None:
        self._connectors, self._monotonic = connectors, monotonic
        self._kept: dict[str, tuple[float, Fetched | SourceAway]] = {}
        self._silent: dict[str, tuple[float, str]] = {}

    def knows(self, source: str) -> bool:
        """Return whether the service of the source is configured."""
        return source_kind(source) in self._connectors

    async def fetch(self, source: str) -> Fetched:
        """Return what the source says; a result of the last minute is reused.

        Raises:
            NoSuchSource: there is no such source, or none that may be read from here.
            SourceAway: it cannot be fetched now.
        """
        until, known = self._kept.get(source, (0.0, None))
        if known is None or self._monotonic() >= until:
            # A merge that cites many sources of one service waits only once for a service that does not answer.
            silent_until, why = self._silent.get(source_kind(source), (0.0, ""))
            known = SourceAway(source, why) if self._monotonic() < silent_until else await self._fetch(source)
            self._keep(source, known)
        if isinstance(known, SourceAway):
            # A new object: raising one twice would let its traceback grow.
            raise SourceAway(known.source, known.why)
        return known

    async def _fetch(self, source: str) -> Fetched | SourceAway:
        kind, locator = source_kind(source), source.partition(":")[2].strip()
        if kind not in self._connectors:
            return SourceAway(source, "its service is not configured here")
        # Imported with the first source: most merges cite pages only.
        evidence = import_module(f"mcp_server.connectors.{kind}.evidence")
        try:
            fetched: Fetched = await evidence.fetch(self._connectors[kind](), locator)
        except SourceAway as away:
            if isinstance(away.__cause__, SILENT):
                self._silent[kind] = self._monotonic() + AWAY_S, away.why
            return away
        except ConnectorError as error:  # its settings are unusable
            return SourceAway(source, str(error))
        return fetched

    def _keep(self, source: str, known: Fetched | SourceAway) -> None:
        for_s = AWAY_S if isinstance(known, SourceAway) else KEPT_S
        self._kept.pop(source, None)  # so that the renewed entry is the youngest
        self._kept[source] = self._monotonic() + for_s, known
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
