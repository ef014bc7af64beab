"""Which pages link to a page, and what there is to link to."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from urllib.parse import quote

import anyio.to_thread

from knowledge.errors import InvalidPath, KnowledgeError, NoSuchPath
from knowledge.inline import plain
from knowledge.merge.link_spans import links_in
from knowledge.merge.links import Names, resolve
from knowledge.paths import INDEX_NAME, parent
from knowledge.storage.names import without_suffix
from knowledge.storage.ports import IndexStore
from knowledge.vault import Vault

MOST_OF_A_NAME = 20


class Linking:
    """Asks the index first; what the index has not come to yet is read."""

    def __init__(self, vault: Vault, index: IndexStore) -> None:
        self._vault, self._index = vault, index

    async def names(self, texts: Iterable[str]) -> Names:
        """Return what the links in these texts may lead to."""
        wanted = {without_suffix(link.path) for text in texts for link in links_in(text) if link.wiki}
        called: dict[str, Sequence[str]] = {}
        for name in wanted:
            if name and "/" not in name:
                called[_key(name)] = await self._called(name)
        return Names(self._exists, lambda name: called.get(_key(without_suffix(name)), ()))

    async def _called(self, name: str) -> list[str]:
        found = await self._index.named(name, limit=MOST_OF_A_NAME)
        return list(dict.fromkeys(match.path for match in found if match.by != "heading"))

    def _exists(self, path: str) -> bool:
        try:
            self._vault.resolve(path)
        except (InvalidPath, NoSuchPath):
            return False
        return True

    async def to(self, path: str) -> list[str]:
        """Return the other pages that have a link to `path`, by path."""
        found = []
        for page in await self._candidates(path):
            text = await anyio.to_thread.run_sync(self._text, page)
            if page != path and text is not None and await self._links(page, text, path):
                found.append(page)
        return sorted(found)

    async def _links(self, page: str, text: str, path: str) -> bool:
        names = await self.names([text])
        return any(resolve(page, link, names) == path for link in links_in(text))

    async def _candidates(self, path: str) -> set[str]:
        """Return the pages in which a name of `path` occurs, and those of which the index does not know what they say."""
        mentioning = set(await self._index.mentioning(await self._spellings(path)))
        indexed = await self._index.stamps()
        there = await anyio.to_thread.run_sync(lambda: list(self._vault.scan()))
        unknown = {found.path for found in there if indexed.get(found.path, (None,))[0] != found.stamp}
        return mentioning | unknown

    async def _spellings(self, path: str) -> set[str]:
        record = await self._index.document(path)
        stem = without_suffix(path.rpartition("/")[2])
        own = [stem, *([record.title, *record.aliases] if record else [])]
        if path.rpartition("/")[2] == INDEX_NAME:
            own.append(parent(path).rpartition("/")[2])
        forms = {form for name in own for form in (name, plain(name), unicodedata.normalize("NFD", name))}
        encoded = {quote(form) for form in forms} | {form.replace(" ", "%20") for form in forms}
        return {form for form in forms | encoded if form.strip()}

    def _text(self, page: str) -> str | None:
        try:
            return self._vault.read(page).raw.decode("utf-8")
        except (KnowledgeError, UnicodeDecodeError):
            return None


def _key(name: str) -> str:
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())
