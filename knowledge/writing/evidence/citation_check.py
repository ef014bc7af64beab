"""Whether what is cited says what is claimed: other pages, and what lies in services that can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio.to_thread

from knowledge.errors import KnowledgeError, SourceAway
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import lineage_of
from knowledge.merge.evidence.corroboration import says
from knowledge.merge.model import CutDocument
from knowledge.offload import Aside, Here
from knowledge.pages.claim_source import UNKNOWN_AUTHORITY, source_kind
from knowledge.pages.vault import Vault
from knowledge.search.tiers import chunk_section
from knowledge.writing.evidence.sources import Sources
from knowledge.writing.related.target_page import PageLookup, text_of
from knowledge.writing.requests import MergeRequest

PAGE = "kb"
"""The kind of a source that is another page."""
COMPARED_LIKE_ONE = 500
"""Pairs of characters of a source and of what cites it that cost as much as one that is only read."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A request as it counts: with the time when its source said so, or with less authority where that is not known.

    `verified` are the lineages, of the source and of those that are said to agree, that were found to say the same. `note`
    tells the caller what of that it could not expect.
    """

    request: MergeRequest
    verified: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Cited:
    """A source, or a section of it, and what is said to stand there."""

    text: str
    section: str
    content: str


class CitationCheck:
    """Looks at what is cited. Whoever cannot be asked has not said anything."""

    def __init__(self, vault: Vault, pages: PageLookup, sources: Sources, aside: Aside | None = None) -> None:
        self._vault, self._pages, self._sources, self._aside = vault, pages, sources, aside or Here()

    async def cited(self, request: MergeRequest) -> Cited:
        """Return the request as it counts once what it cites was looked up, where that can be.

        Raises:
            NoSuchSource: its source does not exist, so it is evidence of nothing.
        """
        if not self._sources.knows(request.source):
            return await self._counted(request)
        try:
            found = await self._sources.fetch(request.source)
        except SourceAway as away:
            return await self._counted(_weakened(request), f"{away}; it counts as from an unknown source")
        said_at = found.at if request.observed_at is None else min(request.observed_at, found.latest)
        request = replace(request, source=found.source, observed_at=said_at)
        if found.own:
            told = f"all of {found.source} was written from here; it counts as from an unknown source"
            return await self._counted(_weakened(request), told)
        cited = await self._counted(request)
        if lineage_of(request.source) in cited.verified:
            return cited
        return replace(cited, note=f"{request.source} was looked up; it does not say this in these words")

    async def _counted(self, request: MergeRequest, note: str = "") -> Cited:
        """Return the request with each source that can be looked up under its one name, and which of them say the same."""
        named = {source: await self._name_of(source) for source in (request.source, *request.corroboration)}
        found = [name for source, name in named.items() if await self._says(source, request)]
        request = replace(
            request, corroboration=tuple(dict.fromkeys(named[source] for source in request.corroboration))
        )
        return Cited(request, tuple(dict.fromkeys(map(lineage_of, found))), note)

    async def _name_of(self, source: str) -> str:
        if not self._sources.knows(source):
            return source
        try:
            return (await self._sources.fetch(source)).source
        except KnowledgeError:
            return source

    async def _says(self, source: str, request: MergeRequest) -> bool:
        try:
            found = await self._read(source, request.path)
        except KnowledgeError:
            return False
        if found is None:
            return False
        text, section = found
        read, new = len(text), len(request.content)
        size, what = max(read + new, read * new // COMPARED_LIKE_ONE), f"looking up {source}"
        return await self._aside.run(_is_said, _Cited(text, section, request.content), size=size, what=what)

    async def _read(self, source: str, written: str) -> tuple[str, str] | None:
        """Return the text at the source, and the section that is meant ("" for all).

        None if it is the page that is written, or nothing that can be looked at.
        """
        if source_kind(source) == PAGE:
            return await self._page(source.partition(":")[2], written)
        return ((await self._sources.fetch(source)).text, "") if self._sources.knows(source) else None

    async def _page(self, locator: str, written: str) -> tuple[str, str] | None:
        asked, _, section = locator.partition("#")
        path = await self._pages.existing(asked)
        if path == written:
            return None
        file = await anyio.to_thread.run_sync(self._vault.read, path)
        return text_of(path, file.raw), section


def _is_said(cited: _Cited) -> bool:
    """Return whether the source says all of the content."""
    page = cut(cited.text)
    if cited.section:
        page = CutDocument(page.text, tuple(piece for piece in page.pieces if _lies_in(piece.section, cited.section)))
    said = [unit.text for unit in units(cut(cited.content)) if unit.kind not in ("heading", "front")]
    return bool(said) and all(says(page, text) for text in said)


def _weakened(request: MergeRequest) -> MergeRequest:
    """Return the request with no more authority than an unknown source has."""
    least = UNKNOWN_AUTHORITY if request.authority is None else min(UNKNOWN_AUTHORITY, request.authority)
    return replace(request, authority=least)


def _lies_in(path: Sequence[str], asked: str) -> bool:
    """Return whether a heading path lies in the section that a source names: by heading, path or anchor."""
    wanted = asked.strip().casefold()
    names = [chunk_section(path[: end + 1]).casefold() for end in range(len(path))]
    return any(
        name == wanted or name.endswith(" > " + wanted) or slug(name.rpartition(" > ")[2]) == wanted for name in names
    )


def slug(title: str) -> str:
    """Return a file name, or an anchor, for a title: lower case, words joined by dashes."""
    words = "".join(c if c.isalnum() else " " for c in title.casefold()).split()
    return "-".join(words)[:80].strip("-") or "page"
