"""Finds the pages that link to a page, and the pages that a link may lead to."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from urllib.parse import quote

import anyio.to_thread

from knowledge.errors import KnowledgeError
from knowledge.merge.document.link_spans import links_in
from knowledge.merge.document.links import resolve, update_links
from knowledge.pages.document import parse
from knowledge.pages.links import LinkTargets
from knowledge.pages.markdown.inline import plain
from knowledge.pages.obsidian.canvas import is_canvas, read_canvas
from knowledge.pages.obsidian.canvases import Canvases
from knowledge.pages.paths import INDEX_NAME, ancestors, is_markdown, parent, without_suffix
from knowledge.pages.vault import Vault
from knowledge.state.document_names import files_by_name, keys_of_links_to, name_key
from knowledge.state.ports import IndexStore

MOST_PAGES_OF_A_NAME = 100
MOST_LINKING = 100_000


class Backlinks:
    """Asks the index first, and reads the pages that are not indexed yet."""

    def __init__(self, vault: Vault, index: IndexStore) -> None:
        self._vault, self._index, self._canvases = vault, index, Canvases(vault)

    async def names(
        self,
        texts: Iterable[str],
        *,
        known: Mapping[str, str] = {},
        comes: str | None = None,
        files: _FilesOnce | None = None,
    ) -> LinkTargets:
        """Return the pages to which the links in these texts may lead.

        `known` are pages with their texts, whose names count even if they are not indexed yet; `comes` is the new path of a page
        that is about to move, whose name other pages may have too. `files` saves a caller who asks often from listing them each time.
        """
        wanted = link_names(texts, ordinary=self._vault.is_obsidian())
        bearers = {name_key(name): [path] for path, text in known.items() for name in _own_names(path, text)}
        if comes is not None and wanted:
            name = _stem(comes)
            wanted.add(name)
            same_name = [path for path in await self._scanned() if name_key(_stem(path)) == name_key(name)]
            bearers.setdefault(name_key(name), []).extend(same_name)
        return names_in(self._vault, await self.called(wanted, bearers, files))

    async def called(
        self,
        wanted: Iterable[str],
        bearers: Mapping[str, Sequence[str]] = MappingProxyType({}),
        files: _FilesOnce | None = None,
    ) -> dict[str, Sequence[str]]:
        """Return the files that links with these names may mean, for `names_in`; `bearers` has further pages by their names."""
        called: dict[str, Sequence[str]] = {}
        files = files or _FilesOnce(self._vault)
        for name in dict.fromkeys(map(name_key, filter(None, wanted))):
            matches = await self._index.named(name, limit=MOST_PAGES_OF_A_NAME)
            indexed = [match.path for match in matches if match.by != "heading"]
            found = [*indexed, *bearers.get(name, ())]
            # Files other than pages are not indexed, nor are pages that were written just now.
            if "." in name or not any(match.by == "path" for match in matches):
                found += (await files.by_name()).get(name, ())
            called[name] = list(dict.fromkeys(found))
        return called

    async def to(self, path: str) -> list[str]:
        """Return the paths of the other pages, and of the canvases, that link to `path`, sorted."""
        own = await anyio.to_thread.run_sync(self._text, path)
        known = {} if own is None else {path: own}
        canvases = await anyio.to_thread.run_sync(self._canvases.all)
        found = [canvas for canvas, shown in canvases.items() if path in shown.files]
        files = _FilesOnce(self._vault)

        async def leads_here(page: str, text: str) -> bool:
            names = await self.names([text], known=known, files=files)
            return any(resolve(page, link, names) == path for link in links_in(text))

        for canvas, shown in canvases.items():
            if canvas not in found and shown.linking and await leads_here(canvas, shown.linking):
                found.append(canvas)
        for page in await self._candidates(path, _own_names(path, own) if own is not None else [_stem(path)]):
            text = await anyio.to_thread.run_sync(self._text, page)
            if page != path and text is not None and await leads_here(page, text):
                found.append(page)
        return sorted(found)

    async def mentioning(self, path: str) -> list[str]:
        """Return the pages that may link to `path`, sorted. There may no longer be a page at `path`."""
        return sorted(page for page in await self._candidates(path, [_stem(path)]) if is_markdown(page))

    async def captured(self, old: str, new: str) -> list[str]:
        """Return the pages whose links to other pages would lead to the page at `old` once that page is at `new`.

        Such a link is by name, and the page gets that name with its new path.
        """
        own = await anyio.to_thread.run_sync(self._text, old)
        if own is None:
            return []
        found, files = [], _FilesOnce(self._vault)
        rows = await self._index.linking(keys_of_links_to(new, ()), limit=MOST_LINKING)
        for page in sorted({row.page for row in rows} - {old}):
            text = await anyio.to_thread.run_sync(self._text, page)
            if text is not None:
                names = await self.names([text], known={old: own}, comes=new, files=files)
                if update_links(text, page=page, moves={old: new}, names=names) != text:
                    found.append(page)
        return found

    async def _candidates(self, path: str, own: Sequence[str]) -> set[str]:
        """Return the pages that mention a name of `path`, and those whose current state is not indexed."""
        # The index only narrows the search; whether a page really links is decided by parsing its text.
        mentioning = set(await self._index.mentioning(_spellings(path, own)))
        # Links in properties are in no text of the index.
        rows = await self._index.linking(keys_of_links_to(path, own), limit=MOST_LINKING)
        mentioning |= {row.page for row in rows}
        indexed = await self._index.stamps()
        scanned = await self._scanned()
        return mentioning | {page for page, stamp in scanned.items() if indexed.get(page, (None,))[0] != stamp}

    async def _scanned(self) -> Mapping[str, object]:
        """Return every page with its stamp."""
        return await anyio.to_thread.run_sync(lambda: {found.path: found.stamp for found in self._vault.scan()})

    def _text(self, page: str) -> str | None:
        try:
            return self._vault.read(page).raw.decode("utf-8")
        except (KnowledgeError, UnicodeDecodeError):
            return None


class _FilesOnce:
    """All files by the key of their names, listed when they are asked for first."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._found: Mapping[str, Sequence[str]] | None = None

    async def by_name(self) -> Mapping[str, Sequence[str]]:
        """Return the files by name."""
        if self._found is None:
            self._found = await anyio.to_thread.run_sync(lambda: files_by_name(self._vault.file_paths()))
        return self._found


def linking_text(path: str, text: str) -> str:
    """Return the part of a file's text in which its links are: all of a page, the text cards of a canvas."""
    canvas = read_canvas(text.encode()) if is_canvas(path) else None
    return text if canvas is None else canvas.linking


def link_names(texts: Iterable[str], *, ordinary: bool) -> set[str]:
    """Return the names, without their folders, that the wiki links in these texts use; with `ordinary` those of all links."""
    linking = [text for text in texts if "[" in text or (ordinary and "href" in text)]
    links = (link for text in linking for link in links_in(text) if link.wiki or ordinary)
    return {without_suffix(link.path.rpartition("/")[2]) for link in links}


def bearers_of(paths: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the files by the names that their paths give them, for `Backlinks.called`."""
    bearers: dict[str, list[str]] = {}
    for path in paths:
        bearers.setdefault(name_key(_stem(path)), []).append(path)
    return bearers


def names_in(
    vault: Vault,
    called: Mapping[str, Sequence[str]],
    *,
    made: Collection[str] = (),
    gone: Collection[str] = (),
) -> LinkTargets:
    """Return the targets of links in this knowledge base as it is now; `called` is from `Backlinks.called`.

    `made` are files that count as there, and `gone` those that count as removed, whatever is in the folder.
    """
    folders = {above for path in made for above in ancestors(path)}

    @cache  # the links of long lists are followed several times
    def exists(path: str) -> bool:
        return path in made or path in folders or (path not in gone and vault.exists(path))

    return LinkTargets(exists, lambda name: called.get(name_key(without_suffix(name)), ()), vault.is_obsidian())


def _stem(path: str) -> str:
    return without_suffix(path.rpartition("/")[2])


def _own_names(path: str, text: str) -> list[str]:
    """Return the names of a page: of its file, its title and its aliases."""
    page = parse(path, text.encode("utf-8", "replace"))
    return [_stem(path), page.title, *page.aliases]


def _spellings(path: str, own: Sequence[str]) -> set[str]:
    """Return how the names of a page may be spelled in a link to it."""
    names = [*own, parent(path).rpartition("/")[2]] if path.rpartition("/")[2] == INDEX_NAME else own
    spellings = {s for name in names for s in (name, plain(name), unicodedata.normalize("NFD", name))}
    encoded = {quote(s) for s in spellings} | {s.replace(" ", "%20") for s in spellings}
    return {s for s in spellings | encoded if s.strip()}
