"""Files that are not pages: canvases, which are read as their cards, and attachments, of which only the name and size are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import anyio.to_thread

from knowledge.errors import AmbiguousName
from knowledge.index.page_rows import DirectoryTrust
from knowledge.pages.claim_source import authority_of
from knowledge.pages.obsidian.canvas import LONGEST_CANVAS, Canvas, is_canvas
from knowledge.pages.obsidian.canvases import Canvases
from knowledge.pages.paths import PageLink, is_markdown, parent
from knowledge.pages.vault import Vault
from knowledge.search.answers import PageReading
from knowledge.search.maps.linked_pages import LinkedPages, followed, linked_pages
from knowledge.state.document_names import files_by_name, keys_of_links_to, link_keys, name_key
from knowledge.state.ports import IndexStore, LinkRow

MOST_NAMES = 200
_LinkedCanvas = tuple[Canvas, Sequence[tuple[PageLink, frozenset[str]]]]
"""A canvas and the links in its cards, each with its keys (`link_keys`)."""


class OtherFiles:
    """Reads the files of a vault that are not pages, with the links from and to them."""

    def __init__(self, vault: Vault, index: IndexStore) -> None:
        self._vault, self._index, self._canvases = vault, index, Canvases(vault)
        self._known: Mapping[str, _LinkedCanvas] = {}

    async def read(self, asked: str) -> PageReading | None:
        """Return the file with the path or name `asked`, None if there is none; `asked` is a clean path.

        Raises:
            AmbiguousName: several files have that name.
        """
        files = await self.by_name()
        named = [path for path in files.get(name_key(asked.rpartition("/")[2]), ()) if not is_markdown(path)]
        found = [path for path in named if path == asked] or ([] if "/" in asked else named)
        if not found:
            return None
        if len(found) > 1:
            raise AmbiguousName(asked, found)
        return await self._reading(found[0], files)

    async def by_name(self) -> Mapping[str, Sequence[str]]:
        """Return all files, pages and others, by the key of their names."""
        return await anyio.to_thread.run_sync(lambda: files_by_name(self._vault.file_paths()))

    async def canvases_showing(self, path: str, names: Sequence[str]) -> list[str]:
        """Return the canvases that show the file at `path`, or link to it; `names` are its title and aliases."""
        canvases = await anyio.to_thread.run_sync(self._canvases_with_links)
        # In Obsidian an ordinary link may be a name, too.
        ordinary = [link_keys("", PageLink(name, wiki=False)) for name in names]
        wanted = keys_of_links_to(path, names).union(*ordinary)
        rows = [
            LinkRow(canvas, link)
            for canvas, (_, links) in canvases.items()
            for link, keys in links
            if not wanted.isdisjoint(keys)
        ]
        led = await followed(self._index, rows, most_names=MOST_NAMES, by_name=True) if rows else []
        linking = {row.page for row, target in zip(rows, led, strict=True) if target == path}
        return [canvas for canvas, (shown, _) in canvases.items() if path in shown.files or canvas in linking]

    def _canvases_with_links(self) -> Mapping[str, _LinkedCanvas]:
        known = self._known
        # Parsing the cards of 200 canvases takes 300 ms, so only those of canvases that have changed are parsed again.
        self._known = {
            path: known[path]
            if path in known and known[path][0] is canvas
            else (canvas, _with_keys(path, canvas.links))
            for path, canvas in self._canvases.all().items()
        }
        return self._known

    async def _reading(self, path: str, files: Mapping[str, Sequence[str]]) -> PageReading:
        stamp = await anyio.to_thread.run_sync(self._vault.file_stamp, path)
        size = stamp.size if stamp else 0
        name = path.rpartition("/")[2]
        canvas = None
        if is_canvas(path) and size <= LONGEST_CANVAS:
            canvas = await anyio.to_thread.run_sync(self._canvases.read, path)
        links: Sequence[PageLink] = ()
        if canvas is not None:
            shown = [PageLink(f"/{file}", wiki=True) for file in canvas.files]
            links = [*shown, *canvas.links]
        linked = await self._linked(path, links, files)
        kind = "canvas" if is_canvas(path) else "attachment"
        said = (
            "its cards from top to bottom"
            if canvas
            else "a file without text for you; only its name, size and links are read"
        )
        return PageReading(
            path=path,
            title=name,
            revision="",
            metadata={"kind": kind, "bytes": size},
            outline=(),
            text=canvas.markdown if canvas else "",
            next_offset=None,
            source="user",
            authority=authority_of("user"),
            tainted=await anyio.to_thread.run_sync(DirectoryTrust(self._vault).untrusted, parent(path)),
            note="; ".join(filter(None, (f"{kind}: {said}", linked.note))),
            links=linked.links,
            backlinks=linked.backlinks,
        )

    async def _linked(self, path: str, links: Sequence[PageLink], files: Mapping[str, Sequence[str]]) -> LinkedPages:
        name = path.rpartition("/")[2]
        return await linked_pages(
            self._index,
            path,
            (),
            links,
            by_name=True,
            files={name_key(name): files[name_key(name)]},
            canvases=await self.canvases_showing(path, (name,)),
        )


def _with_keys(path: str, links: Sequence[PageLink]) -> Sequence[tuple[PageLink, frozenset[str]]]:
    return [(link, link_keys(path, link)) for link in links]
