"""Taint: whose text each caller has read that nobody vouches for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

import anyio.to_thread

from knowledge.errors import StorageError
from knowledge.pages.claim_source import FETCHED_KINDS, source_kind, vouched
from knowledge.pages.markdown.passages import passages
from knowledge.state.ports import StateStore
from knowledge.trust.forms import MOST_PASSAGES, PASSAGES_KEPT

logger = logging.getLogger("knowledge_forge.gate")

TAINTED = timedelta(hours=1)
"""How long it is remembered of a caller outside of a journey."""
MOST_UNTOLD = 10_000
ANYBODY = ""
"""In whose name it is noted once more what was read in a journey: another host may go on with it."""
PROPOSED = "proposed:"
"""Begins the name under which it is noted what was read before something was proposed. No principal is named so: it has no host."""
KEPT = timedelta(days=30)
"""How long that is remembered; a proposal waits for a shorter time, also one that took the place of another."""


class Taints:
    """What callers have read. While the database is away reading goes on: what was read then is written down before it counts.

    What comes from a place that a person vouches for, in the settings (`trusted`) or on record, is remembered like all else and
    does not count: it counts again once they take that back.
    """

    def __init__(self, state: StateStore, now: Callable[[], datetime], trusted: Sequence[str] = ()) -> None:
        self._state, self._now, self._trusted = state, now, tuple(trusted)
        self._untold: dict[tuple[str, str, str], datetime] = {}
        self._unsaid: dict[str, dict[bytes, str]] = {}

    async def note(self, principal: str, journey: str, origins: Collection[str]) -> None:
        """Remember that the caller is shown text from there.

        What is read in a journey counts outside of it as well: who has read it acts with it in mind wherever they act.

        Raises:
            StorageError: the database has been away for so long that no more can be remembered.
        """
        now = self._now()
        read = [(principal, ""), (principal, journey), (ANYBODY, journey)] if journey else [(principal, "")]
        self._untold |= {(reader, where, origin): now for origin in origins for reader, where in read}
        try:
            await self._tell()
        except StorageError:
            if len(self._untold) > MOST_UNTOLD:
                raise
            logger.warning("what %s reads is written down later: the database is away", principal)

    async def saw(self, principal: str, texts: Iterable[tuple[str, str]]) -> None:
        """Remember of each text, with where it comes from, the sentences that the caller is shown."""
        read = await anyio.to_thread.run_sync(_passages_of, tuple(texts))
        if read:
            self._unsaid.setdefault(principal, {}).update(read)
        try:
            await self._say()
        except StorageError:
            self._unsaid = {who: one for who, one in self._unsaid.items() if len(one) <= MOST_UNTOLD}
            logger.warning("what %s reads is known again later: the database is away", principal)

    async def repeated(self, principal: str, text: str) -> Mapping[bytes, str]:
        """Return the sentences of the text that the caller was shown within a day as somebody else's, with where they come from.

        Those of a place that a person vouches for are anybody's.

        Raises:
            StorageError: it cannot be known now.
        """
        await self._say()
        since = self._now() - PASSAGES_KEPT
        if not await self._state.trust.taints(principal, "", since=since):
            return {}
        found = await self._state.trust.passages(principal, await anyio.to_thread.run_sync(passages, text), since=since)
        counted = await self.counted(dict.fromkeys(found.values(), self._now()))
        return {digest: origin for digest, origin in found.items() if origin in counted}

    async def _say(self) -> None:
        for principal, read in list(self._unsaid.items()):
            await self._state.trust.note_passages(principal, read, at=self._now())
            if self._unsaid.get(principal) is read:
                del self._unsaid[principal]

    async def of(self, principal: str, journey: str) -> Mapping[str, datetime]:
        """Return where the text came from that the caller has read, in this journey or within the last hour, and when last.

        Raises:
            StorageError: it cannot be known now.
        """
        return await self.counted(await self._of(principal, journey))

    async def of_journey(self, journey: str) -> Mapping[str, datetime]:
        """Return where the text came from that anybody has read in this journey, at any time: its works may repeat it.

        Raises:
            StorageError: it cannot be known now.
        """
        return await self.counted(await self._of_journey(journey))

    async def counted(self, origins: Mapping[str, datetime]) -> Mapping[str, datetime]:
        """Return those of the origins that nobody vouches for.

        Raises:
            StorageError: it cannot be known now.
        """
        if not origins:
            return origins
        places = await self.trusted()
        return {origin: at for origin, at in origins.items() if not vouched(places, origin)}

    async def trusted(self) -> Sequence[str]:
        """Return the places that a person vouches for.

        Raises:
            StorageError: it cannot be known now.
        """
        return (*self._trusted, *(one.place for one in await self._state.trust.trusted_places()))

    async def _of(self, principal: str, journey: str) -> Mapping[str, datetime]:
        await self._tell()
        own = await self._state.trust.taints(principal, journey, since=self._now() - TAINTED)
        return {**await self._of_journey(journey), **own} if journey else own

    async def _of_journey(self, journey: str) -> Mapping[str, datetime]:
        await self._tell()
        return await self._state.trust.taints(ANYBODY, journey, since=self._now())

    async def carry(self, principal: str, journey: str, *, run: str = "") -> None:
        """Remember of the journey what the caller has read within the last hour: what they record there may repeat it.

        Of a caller that is a run, also what was read in that at any time.

        Raises:
            StorageError: it cannot be known now.
        """
        own = await self._own(principal)
        await self._put(ANYBODY, journey, {**await self._of_journey(run), **own} if run else own)

    async def keep(self, principal: str, proposed: str) -> None:
        """Remember of what the caller proposes what they have read within the last hour: a person may agree much later.

        Raises:
            StorageError: it cannot be known now.
        """
        await self._put(PROPOSED + proposed, "", await self._own(principal))

    async def kept(self, proposed: str) -> Collection[str]:
        """Return where text came from that was read before that was proposed, within the time for which proposals wait.

        Raises:
            StorageError: it cannot be known now.
        """
        await self._tell()
        found = await self._state.trust.taints(PROPOSED + proposed, "", since=self._now() - KEPT)
        return tuple(await self.counted(found))

    async def _own(self, principal: str) -> Mapping[str, datetime]:
        await self._tell()
        return await self._state.trust.taints(principal, "", since=self._now() - TAINTED)

    async def _put(self, reader: str, where: str, origins: Collection[str]) -> None:
        self._untold |= {(reader, where, origin): self._now() for origin in origins}
        await self._tell()

    async def _tell(self) -> None:
        for read, at in list(self._untold.items()):
            principal, journey, origin = read
            await self._state.trust.note_taint(principal, journey, (origin,), at=at)
            if self._untold.get(read) == at:
                del self._untold[read]


def tainted_texts(answer: Any, toolset: str, origins: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the texts of an answer that are marked as somebody else's, each with where it comes from. Pure.

    `origins` are where those of the answer come from; the first stands for what does not say it itself.
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
            waiting += [(value, origin) for key, value in node.items() if key not in _OURS]
        elif isinstance(node, (list, tuple)):
            waiting += [(value, origin) for value in node]


_OURS = frozenset({"note", "url", "cited_by", "outline", "path", "pages"})
"""What an answer says itself, whoever wrote the text in it."""
_SAYS = {"plane": "key", "zulip": "place"}


def _origin_in(node: Mapping[str, Any], toolset: str) -> str:
    if isinstance(node.get("path"), str) and isinstance(node.get("source"), str):
        return origin_of(node["path"], node["source"])
    named = node.get(_SAYS.get(toolset, ""))
    return f"{toolset}:{named}" if isinstance(named, str) and named else ""


def _passages_of(texts: Sequence[tuple[str, str]]) -> dict[bytes, str]:
    found = ((digest, origin) for origin, text in texts for digest in passages(text))
    return dict(islice(found, MOST_PASSAGES))


def origin_of(path: str, source: str) -> str:
    """Return where tainted text comes from: the place that it was fetched from, or the page that it lies in."""
    from knowledge.merge.evidence.confidence import lineage_of

    return lineage_of(source) if source_kind(source) in FETCHED_KINDS else f"kb:{path}"
