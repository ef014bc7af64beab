"""What tasks and messages say, for merges that cite them: looked up in the services that are configured."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from knowledge.errors import SourceAway
from knowledge.pages.claim_source import source_kind
from mcp_server.absent import no_plane, no_zulip
from mcp_server.connectors.errors import ConnectorError, NoAnswer, ServiceLimited, Unreachable

if TYPE_CHECKING:
    from knowledge.writing.evidence.sources import Fetched
    from mcp_server.connectors.plane.board import Board
    from mcp_server.connectors.zulip.chat import Chat

KEPT_S = 60.0
"""A merge is planned, decided on and done, which is one look."""
AWAY_S = 15.0
"""Likewise, so that a service that does not answer is not waited for three times."""
MOST_KEPT = 200
SILENT = (Unreachable, NoAnswer, ServiceLimited)
"""What is wrong with a service as a whole, and not with what was asked."""


class EvidenceSources:
    """Sources of evidence: `plane:KB-12`, `zulip:channel/topic` and `zulip:channel/topic/message`."""

    def __init__(self, plane: Callable[[], Board], zulip: Callable[[], Chat], monotonic: Callable[[], float]) -> None:
        self._plane = None if plane is no_plane else plane
        self._zulip = None if zulip is no_zulip else zulip
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, Fetched | SourceAway]] = {}
        self._silent: dict[str, tuple[float, str]] = {}

    def knows(self, source: str) -> bool:
        """Return whether the service that it lies in is configured."""
        services = {"plane": self._plane, "zulip": self._zulip}
        return services.get(source_kind(source)) is not None

    async def fetch(self, source: str) -> Fetched:
        """Return what stands there; what was looked up within the last minute is not looked up again.

        Raises:
            NoSuchSource: nothing does, or nothing that may be read from here.
            SourceAway: it cannot be looked up now.
        """
        until, known = self._kept.get(source, (0.0, None))
        if known is None or self._monotonic() >= until:
            known = self._away_with_it(source) or await self._looked_up(source)
            self._keep(source, known)
        if isinstance(known, SourceAway):
            raise SourceAway(known.source, known.why)
        return known

    def _away_with_it(self, source: str) -> SourceAway | None:
        """Return that the whole service does not answer: whoever cites much of it waits for that once."""
        until, why = self._silent.get(source_kind(source), (0.0, ""))
        return SourceAway(source, why) if self._monotonic() < until else None

    async def _looked_up(self, source: str) -> Fetched | SourceAway:
        locator = source.partition(":")[2].strip()
        try:
            if source_kind(source) == "plane" and self._plane is not None:
                return await self._plane().evidence(locator)
            if self._zulip is not None:
                from mcp_server.connectors.zulip.evidence import fetched

                return await fetched(self._zulip(), locator)
        except SourceAway as away:
            if isinstance(away.__cause__, SILENT):
                self._silent[source_kind(source)] = self._monotonic() + AWAY_S, away.why
            return away
        except ConnectorError as error:  # its settings cannot be used
            return SourceAway(source, str(error))
        return SourceAway(source, "its service is not configured here")

    def _keep(self, source: str, known: Fetched | SourceAway) -> None:
        for_s = AWAY_S if isinstance(known, SourceAway) else KEPT_S
        self._kept.pop(source, None)
        self._kept[source] = self._monotonic() + for_s, known
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
