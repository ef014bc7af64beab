"""Checks whether cited sources say what is claimed: other pages, and services that can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import anyio.to_thread

from knowledge.errors import KnowledgeError, NoSuchSource, SourceAway
from knowledge.merge.document.units import cut, units
from knowledge.merge.evidence.confidence import lineage_of
from knowledge.merge.evidence.corroboration import corroborates
from knowledge.merge.model import CutDocument
from knowledge.offload import InlineRunner, StepRunner, comparison_size
from knowledge.pages.claim_source import UNKNOWN_AUTHORITY, authority_of, source_kind
from knowledge.pages.document import head
from knowledge.pages.paths import HEADING_SEPARATOR
from knowledge.pages.vault import Vault
from knowledge.writing.evidence.source_page import source_page
from knowledge.writing.evidence.sources import Sources
from knowledge.writing.related.target_page import PageLookup, slug, text_of
from knowledge.writing.requests import MergeRequest

PAGE = "kb"
"""The kind of a source that is another page."""


@dataclass(frozen=True, slots=True)
class Cited:
    """A request after its sources were looked up: with the time when its source was written, or with less authority.

    `verified` are the lineages, of the source and of corroborating ones, that were found to say the same. `note`
    tells the caller what differs from the request.
    """

    request: MergeRequest
    verified: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class _CitedText:
    """A source, the cited section ("" for all), and the content that cites it."""

    text: str
    section: str
    content: str


class CitationCheck:
    """Looks up cited sources. A source that can't be asked confirms nothing."""

    def __init__(self, vault: Vault, pages: PageLookup, sources: Sources, runner: StepRunner | None = None) -> None:
        self._vault, self._pages, self._sources, self._runner = vault, pages, sources, runner or InlineRunner()

    async def with_text(self, request: MergeRequest) -> MergeRequest:
        """Return the request; one without content gets what its source says.

        Raises:
            NoSuchSource: there is no such source, its content can't be fetched, or nobody else wrote anything there.
            SourceAway: it can't be fetched now.
        """
        if request.content:
            return request
        if not self._sources.knows(request.source):
            why = (
                "the server brings only the text of configured services, such as plane:KB-12; send the text as content"
            )
            raise NoSuchSource(request.source, why)
        found = await self._sources.fetch(request.source)
        if not found.entries:
            raise NoSuchSource(request.source, "nobody but this server has written anything there")
        origin = found.source.rpartition("/")[0] if found.single else found.source
        return replace(request, content=source_page(found), source=found.source, brought_from=(origin, found.url))

    async def cited(self, request: MergeRequest) -> Cited:
        """Return the request after looking up what it cites.

        Raises:
            NoSuchSource: its source does not exist, so it is evidence of nothing.
        """
        if source_kind(request.source) == PAGE:
            return await self._checked(*await self._inherited(request))
        if not self._sources.knows(request.source):
            return await self._checked(request)
        try:
            found = await self._sources.fetch(request.source)
        except SourceAway as away:
            return await self._checked(_weakened(request), f"{away}; it counts as from an unknown source")
        observed_at = found.at if request.observed_at is None else min(request.observed_at, found.latest)
        request = replace(request, source=found.source, observed_at=observed_at)
        if found.own:
            note = f"all of {found.source} was written by this server; it counts as from an unknown source"
            return await self._checked(_weakened(request), note)
        cited = await self._checked(request)
        if request.brought_from:
            return replace(cited, verified=tuple(dict.fromkeys((lineage_of(request.source), *cited.verified))))
        if lineage_of(request.source) in cited.verified:
            return cited
        return replace(cited, note=f"{request.source} was looked up; it does not say this in these words")

    async def _inherited(self, request: MergeRequest) -> tuple[MergeRequest, str]:
        """Return the request with the authority of the page that it cites.

        If that page does not say the same, the request counts as from an unknown source, and a note says so.
        """
        if not await self._says(request.source, request):
            note = f"{request.source} was looked up; it does not say this in these words, so it counts as from an unknown source"
            return _weakened(request), note
        path = await self._pages.existing(request.source.partition(":")[2].partition("#")[0])
        own = head((await anyio.to_thread.run_sync(self._vault.read, path)).raw).source
        claimed = 1.0 if request.authority is None else request.authority
        return replace(request, authority=min(claimed, authority_of(own))), ""

    async def _checked(self, request: MergeRequest, note: str = "") -> Cited:
        """Return the request with each source under its canonical name, and the lineages of those that say the same."""
        names: dict[str, str] = {}
        for source in (request.source, *request.corroboration):
            names[source] = source
            if self._sources.knows(source):
                with suppress(KnowledgeError):
                    # A source that can't be reached now keeps its name; whether it says the text is asked again below.
                    names[source] = (await self._sources.fetch(source)).source
        found = [name for source, name in names.items() if await self._says(source, request)]
        corroboration = tuple(dict.fromkeys(names[source] for source in request.corroboration))
        return Cited(replace(request, corroboration=corroboration), tuple(dict.fromkeys(map(lineage_of, found))), note)

    async def _says(self, source: str, request: MergeRequest) -> bool:
        section = ""
        try:
            if source_kind(source) == PAGE:
                name, _, section = source.partition(":")[2].partition("#")
                path = await self._pages.existing(name)
                if path == request.path:
                    return False  # a page can't corroborate itself
                text = text_of(path, (await anyio.to_thread.run_sync(self._vault.read, path)).raw)
            elif self._sources.knows(source):
                fetched = await self._sources.fetch(source)
                text = fetched.statements or fetched.text
            else:
                return False
        except KnowledgeError:
            return False
        size = comparison_size(len(text), len(request.content))
        cited = _CitedText(text, section, request.content)
        return await self._runner.run(_says_all, cited, size=size, what=f"looking up {source}")


def _says_all(cited: _CitedText) -> bool:
    """Return whether the source says all of the content."""
    page = cut(cited.text)
    if cited.section:
        page = CutDocument(page.text, tuple(p for p in page.pieces if _is_in_section(p.section, cited.section)))
    claims = [unit.text for unit in units(cut(cited.content)) if unit.kind not in ("heading", "front")]
    return bool(claims) and all(corroborates(page, text) for text in claims)


def _weakened(request: MergeRequest) -> MergeRequest:
    """Return the request with at most the authority of an unknown source."""
    least = UNKNOWN_AUTHORITY if request.authority is None else min(UNKNOWN_AUTHORITY, request.authority)
    return replace(request, authority=least)


def _is_in_section(path: Sequence[str], section: str) -> bool:
    """Return whether a heading path lies in the section that a source names: by heading, path or anchor."""
    wanted = section.strip().casefold()
    for end in range(1, len(path) + 1):
        name = HEADING_SEPARATOR.join(path[:end]).casefold()
        if f" > {name}".endswith(f" > {wanted}") or slug(name.rpartition(HEADING_SEPARATOR)[2]) == wanted:
            return True
    return False
