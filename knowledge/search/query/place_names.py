"""Finds the directories and pages that a question names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from knowledge.pages.map_view import MapEntry
from knowledge.pages.paths import INDEX_NAME, ancestors, parent, within
from knowledge.search.map_lines import Entries, document_entry, join
from knowledge.search.query.analysis import is_stop_word, words
from knowledge.state.ports import IndexStore, NameMatch

LONGEST_NAME = 5
"""Words of a name within a question."""
MOST_LOOKUPS = 12
MOST_PLACES = 3
MOST_OPENED = 8
"""Children shown of the first directory."""
_BREAKS = re.compile(r"[\s_\-]+")
_PATH = re.compile(r"[\w.\-]+(?:/[\w.\-]+)*/?")


class Places:
    """Looks up the places that a question names."""

    def __init__(self, index: IndexStore) -> None:
        self._index, self._entries = index, Entries(index)

    async def find(
        self, query: str, names: Sequence[NameMatch], near: Sequence[str], *, directory: str, languages: Sequence[str]
    ) -> list[MapEntry]:
        """Return map lines: the places below `directory` that `query` names, best first, then the children of the first one.

        `names` are matches of the whole question. `near` are the paths of pages that search found: directories above
        them also match by their bare names.
        """
        found: dict[str, MapEntry] = {}
        for match in names:
            # A heading is a section and not a place; it is among the hits.
            if match.by != "heading":
                await self._take(match.path, found)
        known = {_plain(above.rpartition("/")[2]): above for page in near for above in ancestors(page) if above}
        for phrase in _phrases(query, languages):
            if len(found) >= MOST_PLACES:
                break
            await self._named(phrase, known, directory, found)
        places = [entry for path, entry in found.items() if within(path, directory)][:MOST_PLACES]
        inside: list[MapEntry] = []
        if opened := next((entry for entry in places if entry.kind == "directory"), None):
            folders, documents = await self._index.children(opened.path, limit=MOST_OPENED + 1)
            inside = [await self._entries.folder(record) for record in folders]
            inside += [document_entry(record) for record in documents if not _is_index(record.path)]
        return [*places, *(entry for entry in inside[:MOST_OPENED] if entry.path not in found)]

    async def _named(self, phrase: str, known: Mapping[str, str], directory: str, found: dict[str, MapEntry]) -> None:
        for path in dict.fromkeys((join(directory, phrase), known.get(_plain(phrase), phrase))):
            if record := await self._index.directory(path):
                found.setdefault(path, await self._entries.folder(record))
        for match in await self._index.named(phrase, limit=MOST_PLACES):
            if match.by != "heading":
                await self._take(match.path, found)

    async def _take(self, path: str, found: dict[str, MapEntry]) -> None:
        """Add the page at `path`; for an `_index.md`, its directory."""
        if _is_index(path):
            if record := await self._index.directory(parent(path)):
                found.setdefault(parent(path), await self._entries.folder(record))
        elif page := await self._index.document(path):
            found.setdefault(path, document_entry(page))


def _phrases(query: str, languages: Sequence[str]) -> Iterator[str]:
    """Yield the parts of `query` that may be names, likeliest first: paths, then runs of words, longest first."""
    given = [path.rstrip("/.") for path in _PATH.findall(query) if "/" in path]
    asked = words(query)
    runs = [
        asked[start : start + length]
        for length in range(min(LONGEST_NAME, len(asked)), 0, -1)
        for start in range(len(asked) - length + 1)
    ]
    # A name neither begins nor ends with a stop word: `the decisions folder` names `decisions folder`.
    telling = [run for run in runs if not is_stop_word(run[0], languages) and not is_stop_word(run[-1], languages)]
    # Folders are usually written with hyphens, titles with spaces.
    spelt = [form for run in telling for form in dict.fromkeys(("-".join(run), " ".join(run)))]
    yield from list(dict.fromkeys([*given, *spelt]))[:MOST_LOOKUPS]


def _is_index(path: str) -> bool:
    return path.rpartition("/")[2] == INDEX_NAME


def _plain(name: str) -> str:
    return _BREAKS.sub(" ", name.casefold())
