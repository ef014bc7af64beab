"""Which pages link to a page, and what there is to link to."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import quote

import anyio.to_thread

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath
from knowledge.merge.document.link_spans import links_in
from knowledge.merge.document.links import LinkTargets, resolve
from knowledge.pages.document import parse
from knowledge.pages.markdown.inline import plain
from knowledge.pages.paths import INDEX_NAME, parent, without_suffix
from knowledge.pages.vault import Vault
from knowledge.state.ports import IndexStore

MOST_OF_A_NAME = 20


class Linking:
    """Asks the index first; what the index has not come to yet is read."""

    def __init__(self, vault: Vault, index: IndexStore) -> None:
        self._vault, self._index = vault, index

    async def names(
        self, texts: Iterable[str], *, known: Mapping[str, str] = {}, comes: str | None = None
    ) -> LinkTargets:
        """Return what the links in these texts may lead to.

        `known` are pages with their texts, whose names hold although the index may not have come to them; `comes` is a path
        that a page is about to have, whose name others may bear already.
        """
        wanted = wiki_names(texts)
        bearers = {_key(name): [path] for path, text in known.items() for name in _own_names(path, text)}
        if comes is not None and wanted:
            wanted.add(_stem(comes))
            bearers.setdefault(_key(_stem(comes)), []).extend(await self._files_called(_stem(comes)))
        return names_in(self._vault, await self.called(wanted, bearers))

    async def called(
        self, wanted: Iterable[str], bearers: Mapping[str, Sequence[str]] = MappingProxyType({})
    ) -> dict[str, Sequence[str]]:
        """Return the pages that wiki links of these names may mean, as `names_in` takes them; `bearers` are more of them."""
        called: dict[str, Sequence[str]] = {}
        for name in wanted:
            if name and "/" not in name:
                called[_key(name)] = list(dict.fromkeys([*await self._called(name), *bearers.get(_key(name), ())]))
        return called

    async def _called(self, name: str) -> list[str]:
        found = await self._index.named(name, limit=MOST_OF_A_NAME)
        return list(dict.fromkeys(match.path for match in found if match.by != "heading"))

    async def _files_called(self, name: str) -> list[str]:
        there = await anyio.to_thread.run_sync(lambda: list(self._vault.scan()))
        return [found.path for found in there if _key(_stem(found.path)) == _key(name)]

    async def to(self, path: str) -> list[str]:
        """Return the other pages that have a link to `path`, by path."""
        found = []
        own = await anyio.to_thread.run_sync(self._text, path)
        known = {} if own is None else {path: own}
        for page in await self._candidates(path, _own_names(path, own) if own is not None else [_stem(path)]):
            text = await anyio.to_thread.run_sync(self._text, page)
            if page != path and text is not None and await self._links(page, text, path, known):
                found.append(page)
        return sorted(found)

    async def _links(self, page: str, text: str, path: str, known: Mapping[str, str]) -> bool:
        names = await self.names([text], known=known)
        return any(resolve(page, link, names) == path for link in links_in(text))

    async def _candidates(self, path: str, own: Sequence[str]) -> set[str]:
        """Return the pages in which a name of `path` occurs, and those of which the index does not know what they say."""
        mentioning = set(await self._index.mentioning(_spellings(path, own)))
        indexed = await self._index.stamps()
        there = await anyio.to_thread.run_sync(lambda: list(self._vault.scan()))
        unknown = {found.path for found in there if indexed.get(found.path, (None,))[0] != found.stamp}
        return mentioning | unknown

    def _text(self, page: str) -> str | None:
        try:
            return self._vault.read(page).raw.decode("utf-8")
        except (KnowledgeError, UnicodeDecodeError):
            return None


def wiki_names(texts: Iterable[str]) -> set[str]:
    """Return the names that wiki links in these texts lead to."""
    spoken = [text for text in texts if "[[" in text]
    return {without_suffix(link.path) for text in spoken for link in links_in(text) if link.wiki}


def names_in(vault: Vault, called: Mapping[str, Sequence[str]]) -> LinkTargets:
    """Return what there is in the knowledge base to lead to; `called` is from `Linking.called`."""

    def exists(path: str) -> bool:
        try:
            vault.resolve(path)
        except (InvalidPath, NoSuchPath):
            return False
        return True

    return LinkTargets(exists, lambda name: called.get(_key(without_suffix(name)), ()))


def _stem(path: str) -> str:
    return without_suffix(path.rpartition("/")[2])


def _own_names(path: str, text: str) -> list[str]:
    """Return what a page is called by its file, title and aliases."""
    page = parse(path, text.encode("utf-8", "replace"))
    return [_stem(path), page.title, *page.aliases]


def _spellings(path: str, own: Sequence[str]) -> set[str]:
    """Return how the names of a page may be written in a link to it."""
    names = [*own, parent(path).rpartition("/")[2]] if path.rpartition("/")[2] == INDEX_NAME else own
    forms = {form for name in names for form in (name, plain(name), unicodedata.normalize("NFD", name))}
    encoded = {quote(form) for form in forms} | {form.replace(" ", "%20") for form in forms}
    return {form for form in forms | encoded if form.strip()}


def _key(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())
