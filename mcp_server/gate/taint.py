"""Taint: the sources of untrusted text that each caller has read."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from knowledge.errors import StorageError
from knowledge.pages.claim_source import FETCHED_KINDS, SERVICES, source_kind, vouched
from knowledge.state.ports import StateStore
from knowledge.state.retention.passages import MOST_PASSAGES, PASSAGES_KEPT
from mcp_server.late_module import LateModule

if TYPE_CHECKING:
    from knowledge.merge.evidence import confidence
    from knowledge.pages.markdown import passages as passage_digests
else:
    confidence = LateModule("knowledge.merge.evidence.confidence")
    passage_digests = LateModule("knowledge.pages.markdown.passages")

logger = logging.getLogger("knowledge_forge.gate")

TAINTED = timedelta(hours=1)
"""How long reading outside a journey counts."""
MOST_UNWRITTEN = 10_000
"""Records that may wait in memory for the database. With more, untrusted text is no longer shown."""
ANYBODY = ""
"""The reader under which reading in a journey is recorded a second time, because another host may continue the journey."""
PROPOSED = "proposed:"
"""Prefix of the reader under which a proposal's sources are recorded. No principal has such a name: it has no `@host`."""
KEPT = timedelta(days=30)
"""How long a proposal's sources are kept: longer than any proposal can wait, including one that superseded others."""


class Taints:
    """The untrusted text that callers have read.

    While the database is unreachable, reading continues: the records wait in memory and are written before the next decision that
    depends on them. Text from a place that a person trusts, in the settings (`trusted`) or on record, is recorded like any other and
    ignored when the records are looked up. So it counts again as soon as the person withdraws that trust.

    `shared`: a caller's next request may reach another process, so no records wait in memory. Such a process does not show untrusted
    text while the database is unreachable.
    """

    def __init__(
        self, state: StateStore, now: Callable[[], datetime], trusted: Sequence[str] = (), *, shared: bool = False
    ) -> None:
        self._state, self._now, self._trusted = state, now, tuple(trusted)
        self._most_unwritten = 0 if shared else MOST_UNWRITTEN
        self._unwritten: dict[tuple[str, str, str], datetime] = {}
        self._unwritten_passages: dict[str, dict[bytes, str]] = {}

    async def note(self, principal: str, journey: str, origins: Collection[str]) -> None:
        """Record that the caller is shown text from these sources.

        Reading in a journey also counts outside it: the model has the text in its context wherever it acts next.

        Raises:
            StorageError: the database is unreachable, and memory holds no more records. The text must not be shown.
        """
        now = self._now()
        read = [(principal, ""), (principal, journey), (ANYBODY, journey)] if journey else [(principal, "")]
        self._unwritten |= {(reader, where, origin): now for origin in origins for reader, where in read}
        try:
            await self._write()
        except StorageError:
            if len(self._unwritten) > self._most_unwritten:
                raise
            logger.warning("the database is unreachable: the sources that %s reads are recorded later", principal)

    async def saw(self, principal: str, texts: Iterable[tuple[str, str]]) -> None:
        """Record the sentences that the caller is shown. `texts` are pairs of source and text."""
        read = await anyio.to_thread.run_sync(_passages_of, tuple(texts))
        if read:
            self._unwritten_passages.setdefault(principal, {}).update(read)
        try:
            await self._write_passages()
        except StorageError:
            # Unlike `note`, this forgets rather than refuse to read: sentences only mark copied text, origins raise levels.
            self._unwritten_passages = {
                who: one for who, one in self._unwritten_passages.items() if len(one) <= MOST_UNWRITTEN
            }
            logger.warning("the database is unreachable: sentences that %s reads are recorded later", principal)

    async def repeated(self, principal: str, text: str) -> Mapping[bytes, str]:
        """Return the digests of sentences in `text` that an untrusted source showed the caller within a day, each with the source.

        Raises:
            StorageError: the database is unreachable.
        """
        await self._write_passages()
        since = self._now() - PASSAGES_KEPT
        # A caller that read nothing untrusted can repeat nothing, so the text need not be cut into sentences and looked up.
        if not await self._state.trust.taints(principal, "", since=since):
            return {}
        found = await self._state.trust.passages(
            principal, await anyio.to_thread.run_sync(passage_digests.passages, text), since=since
        )
        counted = await self.counted(dict.fromkeys(found.values(), self._now()))
        return {digest: origin for digest, origin in found.items() if origin in counted}

    async def _write_passages(self) -> None:
        for principal, read in list(self._unwritten_passages.items()):
            await self._state.trust.note_passages(principal, read, at=self._now())
            # The caller may have read more during the write.
            if self._unwritten_passages.get(principal) is read:
                del self._unwritten_passages[principal]

    async def of(self, principal: str, journey: str) -> Mapping[str, datetime]:
        """Return the untrusted sources that count for the caller now, each with the time when it was last read.

        These are the sources that the caller has read outside journeys within the last hour. With a `journey`, all sources that
        anybody has read in it are added.

        Raises:
            StorageError: the database is unreachable.
        """
        await self._write()
        own = await self._state.trust.taints(principal, journey, since=self._now() - TAINTED)
        return await self.counted({**await self._of_journey(journey), **own} if journey else own)

    async def of_journey(self, journey: str) -> Mapping[str, datetime]:
        """Return the untrusted sources that any caller has ever read in this journey: its work may repeat them.

        Raises:
            StorageError: the database is unreachable.
        """
        return await self.counted(await self._of_journey(journey))

    async def counted(self, origins: Mapping[str, datetime]) -> Mapping[str, datetime]:
        """Return the origins without those at trusted places.

        Raises:
            StorageError: the database is unreachable.
        """
        if not origins:
            return origins
        places = await self.trusted()
        return {origin: at for origin, at in origins.items() if not vouched(places, origin)}

    async def trusted(self) -> Sequence[str]:
        """Return the places that a person trusts.

        Raises:
            StorageError: the database is unreachable.
        """
        return (*self._trusted, *(one.place for one in await self._state.trust.trusted_places()))

    async def _of_journey(self, journey: str) -> Mapping[str, datetime]:
        await self._write()
        # `since` limits only reading outside journeys. What was read in a journey counts as long as the journey exists.
        return await self._state.trust.taints(ANYBODY, journey, since=self._now())

    async def note_shown(self, principal: str, journey: str) -> None:
        """Record that the caller is shown a journey or a run: its works may repeat everything that was read in it."""
        if origins := await self.of_journey(journey):
            await self.note(principal, "", tuple(origins))

    async def carry(self, principal: str, journey: str, *, run: str = "") -> None:
        """Record the caller's reading of the last hour for the journey: the work submitted there may repeat it.

        For a run that submits work, everything that it has read counts.

        Raises:
            StorageError: the database is unreachable.
        """
        own = await self._own(principal)
        await self._put(ANYBODY, journey, {**await self._of_journey(run), **own} if run else own)

    async def keep(self, principal: str, proposed: str) -> None:
        """Record the caller's reading of the last hour for its proposal: a person may approve it much later.

        Raises:
            StorageError: the database is unreachable.
        """
        await self._put(PROPOSED + proposed, "", await self._own(principal))

    async def kept(self, proposed: str) -> Collection[str]:
        """Return the untrusted sources that the caller of a proposal had read when it proposed.

        Raises:
            StorageError: the database is unreachable.
        """
        await self._write()
        found = await self._state.trust.taints(PROPOSED + proposed, "", since=self._now() - KEPT)
        return tuple(await self.counted(found))

    async def _own(self, principal: str) -> Mapping[str, datetime]:
        await self._write()
        return await self._state.trust.taints(principal, "", since=self._now() - TAINTED)

    async def _put(self, reader: str, where: str, origins: Collection[str]) -> None:
        self._unwritten |= {(reader, where, origin): self._now() for origin in origins}
        await self._write()

    async def _write(self) -> None:
        for read, at in list(self._unwritten.items()):
            principal, journey, origin = read
            await self._state.trust.note_taint(principal, journey, (origin,), at=at)
            # A newer time that was noted during the write still has to be written.
            if self._unwritten.get(read) == at:
                del self._unwritten[read]


def tainted_texts(answer: Any, toolset: str, origins: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the untrusted texts in an answer, each as source and text. Pure.

    A part of the answer that doesn't name its source has the first of `origins`.
    """
    waiting: list[tuple[Any, str]] = [(answer, "")]
    while waiting:
        node, origin = waiting.pop()
        if isinstance(node, str):
            if origin:
                yield origin, node
        elif isinstance(node, Mapping):
            if "tainted" in node:
                origin = _origin_in(node, toolset) or next(iter(origins), "") if node["tainted"] else ""
            elif origin:
                origin = _origin_in(node, toolset) or origin
            waiting += [(value, origin) for key, value in node.items() if key not in _OWN_FIELDS]
        elif isinstance(node, (list, tuple)):
            waiting += [(value, origin) for value in node]


_OWN_FIELDS = frozenset({"note", "url", "cited_by", "outline", "path", "pages"})
"""Fields that the server itself fills, even in an answer with untrusted text."""


def _origin_in(node: Mapping[str, Any], toolset: str) -> str:
    if isinstance(node.get("path"), str) and isinstance(node.get("source"), str):
        return origin_of(node["path"], node["source"])
    named = node.get(SERVICES[toolset].origin_field) if toolset in SERVICES else None
    return f"{toolset}:{named}" if isinstance(named, str) and named else ""


def _passages_of(texts: Sequence[tuple[str, str]]) -> dict[bytes, str]:
    found = ((digest, origin) for origin, text in texts for digest in passage_digests.passages(text))
    return dict(islice(found, MOST_PASSAGES))


def origin_of(path: str, source: str) -> str:
    """Return the source of untrusted text: the service and place it was fetched from, or else the page it is on."""
    return confidence.lineage_of(source) if source_kind(source) in FETCHED_KINDS else f"kb:{path}"
