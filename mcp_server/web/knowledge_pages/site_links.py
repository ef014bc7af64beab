"""Where the links of a page lead on this site: pages, folders, attachments, and the texts that it embeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import anyio.from_thread
import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.pages.document import Document, parse
from knowledge.pages.links import LinkTargets, called_by
from knowledge.pages.obsidian.canvas import is_canvas
from knowledge.pages.paths import PageLink, clean_path, is_markdown, joined, parent
from knowledge.search.maps.linked_pages import led_to
from knowledge.state.document_names import name_key
from mcp_server.ports import HasPages
from mcp_server.web.knowledge_pages.named_parts import anchor_named, part_named
from mcp_server.web.markdown.known_links import KnownLinks, WrittenTargets
from mcp_server.web.text.site_addresses import file_address, folder_address, page_address

MOST_KNOWN = 200
"""Links that are looked up together, before the page is rendered; the others one by one."""
LONGEST_EMBEDDED = 100_000
"""Characters of a page that can be embedded."""


class SiteLinks:
    """The links of one page, as `PageLinks` of the renderer. Its methods are called in a thread of anyio, where they may wait."""

    def __init__(self, services: HasPages, document: Document, led: Mapping[PageLink, str]) -> None:
        self._services, self._path = services, document.path
        self._wiki = {link.path for link in document.page_links if link.wiki}
        self._led = dict(led)
        self._texts: dict[str, Document | None] = {}
        self._inside: dict[str, SiteLinks] = {}
        self._files: dict[str, str | None] = {}
        self._named: Mapping[str, Sequence[str]] | None = None

    @classmethod
    async def of(cls, services: HasPages, document: Document) -> SiteLinks:
        """Return the links of the page, those of its own text already looked up."""
        links = document.page_links[:MOST_KNOWN]
        led = await led_to(services.index, document.path, links, by_name=services.tiers.links_by_name)
        return cls(services, document, {**dict.fromkeys(links, ""), **led})

    def page(self, target: str) -> str | None:
        """Return the address of the page or folder that the target means; None if there is none."""
        path, _, anchor = target.partition("#")
        found = self._found(path.strip()) if path.strip() else self._path
        if not found:
            return None
        return page_address(found, anchor_named(anchor)) if is_markdown(found) else folder_address(found.rstrip("/"))

    def file(self, target: str) -> str | None:
        """Return the address of an attachment or canvas, None if there is none."""
        if target not in self._files:
            self._files[target] = anyio.from_thread.run(self._file, target)
        found = self._files[target]
        if found is None:
            return None
        return page_address(found) if is_canvas(found) else file_address(found)

    def embedded(self, target: str) -> str | None:
        """Return the text of the page, section or block; None if there is none."""
        document = self._embedded_page(target)
        return None if document is None else part_named(document, target.partition("#")[2])

    def inside(self, target: str) -> SiteLinks:
        """Return the links of the embedded page. They are looked up one by one, since an embedded section mostly has few."""
        document = self._embedded_page(target)
        if document is None or document.path == self._path:
            return self
        if document.path not in self._inside:
            self._inside[document.path] = SiteLinks(self._services, document, {})
        return self._inside[document.path]

    def _embedded_page(self, target: str) -> Document | None:
        path = target.partition("#")[0].strip()
        found = self._found(path) if path else self._path
        if not found or not is_markdown(found):
            return None
        if found not in self._texts:
            self._texts[found] = anyio.from_thread.run(self._document, found)
        return self._texts[found]

    async def known(self, targets: WrittenTargets) -> KnownLinks:
        """Return the addresses and texts that the targets lead to, for a page that another process renders."""
        return await anyio.to_thread.run_sync(self.all_of, targets)

    def all_of(self, targets: WrittenTargets) -> KnownLinks:
        """Return the addresses and texts that the targets lead to, with those of embedded pages."""
        return KnownLinks(
            {target: self.page(target) for target in targets.pages},
            {target: self.file(target) for target in targets.files},
            {target: self.embedded(target) for target in targets.embedded},
            {target: self.inside(target).all_of(asked) for target, asked in targets.inner.items()},
        )

    def _found(self, path: str) -> str:
        """Return the path of the page, or of the folder with a slash at its end; "" if there is neither."""
        # Which of the two forms a target was written in is known only for links of the page's own text.
        link = PageLink(path, path in self._wiki)
        if link not in self._led:
            by_name = self._services.tiers.links_by_name
            following = partial(led_to, self._services.index, self._path, [link], by_name=by_name)
            self._led.update(anyio.from_thread.run(following))
        if not self._led.get(link):
            self._led[link] = anyio.from_thread.run(self._unindexed, path)
        return self._led[link]

    async def _unindexed(self, path: str) -> str:
        """Return a page that the index does not know yet, or a folder; "" if there is neither."""
        places = _places(self._path, path)
        files = await self._services.tiers.files([f"{place}.md" for place in places] + places)
        for place in places:
            for candidate in (place, f"{place}.md"):
                if candidate in files and is_markdown(candidate):
                    return candidate
            if place and await self._services.index.directory(place):
                return f"{place}/"
        return ""

    async def _file(self, target: str) -> str | None:
        places = [place for place in _places(self._path, target) if not is_markdown(place)]
        found = await self._services.tiers.files(places)
        if place := next((place for place in places if place in found), None):
            return place
        # In a vault an attachment is known by its name, or the end of its path.
        if not self._services.tiers.links_by_name:
            return None
        if self._named is None:
            self._named = await self._services.tiers.files_by_name()
        named = self._named
        names = LinkTargets(lambda _: False, lambda name: named.get(name_key(name), ()))
        return next((one for one in called_by(self._path, target, names) if not is_markdown(one)), None)

    async def _document(self, path: str) -> Document | None:
        try:
            file = await self._services.tiers.file(path)
        except KnowledgeError:
            return None
        return parse(path, file.raw) if len(file.raw) <= LONGEST_EMBEDDED else None


def _places(page: str, path: str) -> list[str]:
    """Return the paths that a written path may mean: beside the page, then from the root."""
    found = []
    for directory in (parent(page), ""):
        place = joined(directory, path)
        try:
            if place is not None and clean_path(place) == place:
                found.append(place)
        except KnowledgeError:
            continue
    return list(dict.fromkeys(found))
