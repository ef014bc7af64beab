"""Map lines: what a directory or a page is, in one line each, written by its author or derived."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Literal

from knowledge.pages.claim_source import FETCHED_KINDS, source_kind
from knowledge.pages.map_view import MapEntry, describe_directory, readable
from knowledge.pages.paths import INDEX_NAME
from knowledge.state.ports import DirectoryRecord, DocumentRecord, IndexPosition, IndexStore, Progress

LOOKED_INTO = 4
"""Children by which a directory without an `_index.md` is described."""
FRONT_PAGES = ("readme", "index", "home", "overview")
"""Pages that speak for their directory where nobody wrote an `_index.md`, by their names without suffix."""
FEWEST_WORDS = 4
"""A sentence of fewer words ("See below.") says nothing about a directory."""
SAMPLED = 12
"""Children of each kind by which a model is told what a directory holds."""
FEWEST_CHILDREN = 2
"""A directory of one page is described by that."""
MOST_REMEMBERED = 10_000

Made = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""Returns the lines that a model made, by key, of those keys of which there are any. Never raises."""


class Entries:
    """Makes map lines from the index, and from what a model said where nobody wrote one, if `made` tells that."""

    def __init__(self, index: IndexStore, made: Made | None = None) -> None:
        self._index, self._made = index, made
        self._remembered: dict[str, _KnownDirectory] = {}
        self._at: tuple[IndexPosition, Progress] | None = None

    async def listed(self, folders: Sequence[DirectoryRecord], documents: Sequence[DocumentRecord]) -> list[MapEntry]:
        """Return the lines of directories and pages, in that order."""
        await self._catch_up()
        known = [await self._known(record.path, readable(record.path.rpartition("/")[2])) for record in folders]
        said = await self._said([one.key for one in known] + [page_key(record) for record in documents])
        entries = [_folder_entry(record, one.told(said)) for record, one in zip(folders, known, strict=True)]
        return entries + [document_entry(record, said.get(page_key(record), "")) for record in documents]

    async def folder(self, record: DirectoryRecord) -> MapEntry:
        """Return the line of a directory."""
        return (await self.listed([record], ()))[0]

    async def key_of(self, directory: str) -> str:
        """Return the key of the line that a model may make of the directory; "" where there is one already, or nothing to tell."""
        return (await self._looked_at(directory, "")).key

    async def described(self, directory: str, name: str) -> tuple[str, str, bool]:
        """Return title and summary of a directory, and whether they are derived; it is called `name` if nobody named it."""
        await self._catch_up()
        known = await self._known(directory, name)
        told = known.told(await self._said([known.key]))
        return told.title, told.summary, told.derived

    async def _said(self, keys: Sequence[str]) -> Mapping[str, str]:
        asked = [key for key in keys if key]
        return await self._made(asked) if self._made and asked else {}

    async def _catch_up(self) -> None:
        """Forget what was remembered of an index that has moved on. Who asks for no lines of a model looks afresh each time."""
        if not self._made:
            return
        at = await self._index.position(), await self._index.progress()
        if at != self._at or len(self._remembered) > MOST_REMEMBERED:
            self._remembered, self._at = {}, at

    async def _known(self, directory: str, name: str) -> _KnownDirectory:
        if directory not in self._remembered:
            known = await self._looked_at(directory, name)
            if not self._made:
                return known
            self._remembered[directory] = known
        return self._remembered[directory]

    async def _looked_at(self, directory: str, name: str) -> _KnownDirectory:
        page = await self._index.document(join(directory, INDEX_NAME))
        if page and page.summary:
            return _KnownDirectory(page.title, page.summary, derived=False)
        folders, documents = await self._index.children(directory, limit=SAMPLED if self._made else LOOKED_INTO)
        front = next((d for d in documents[:LOOKED_INTO] if _bare(d.path) in FRONT_PAGES and d.summary), None)
        if page is None and front is not None:
            return _KnownDirectory(front.title, front.summary, derived=True)
        near = [record for record in documents[:LOOKED_INTO] if record.path != join(directory, INDEX_NAME)]
        children = [document_entry(record) for record in near]
        children += [plain_entry(record.path, "directory", record.documents) for record in folders[:LOOKED_INTO]]
        key = directory_key(directory, folders, documents) if self._made and page is None else ""
        return _KnownDirectory(page.title if page else name, derived_summary(children), derived=page is None, key=key)


@dataclass(frozen=True, slots=True)
class _KnownDirectory:
    """What the index knows of a directory; `key` is where a model may have said more, "" where somebody wrote it."""

    title: str
    summary: str
    derived: bool
    key: str = ""

    def told(self, said: Mapping[str, str]) -> _KnownDirectory:
        """Return it with what a model said, if it did."""
        return replace(self, summary=said.get(self.key) or self.summary) if self.key else self


def page_key(record: DocumentRecord) -> str:
    """Return the key of the line that a model may have made of a page; "" of one that says itself what it is, or is tainted."""
    return f"p:{record.revision}" if vouched(record) and len(record.summary.split()) < FEWEST_WORDS else ""


def directory_key(path: str, folders: Sequence[DirectoryRecord], documents: Sequence[DocumentRecord]) -> str:
    """Return the key of the line that a model may have made of a directory without front page; "" if it holds nothing to tell of.

    It names all that the model is told (`known_of`), so another content has another key.
    """
    told = known_of(path, folders, documents)
    if len(told["folders"]) + len(told["documents"]) < FEWEST_CHILDREN:
        return ""
    text = json.dumps(told, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return f"d:{blake2b(text, digest_size=16).hexdigest()}"


def known_of(path: str, folders: Sequence[DirectoryRecord], documents: Sequence[DocumentRecord]) -> Mapping[str, Any]:
    """Return what a model is told of a directory, as plain JSON: names of folders, titles and summaries of pages.

    Pages for whose text nobody vouches are left out: they must not speak through the map.
    """
    told = [record for record in documents[:SAMPLED] if vouched(record)]
    return {
        "path": path,
        "folders": [record.path.rpartition("/")[2] for record in folders[:SAMPLED]],
        "documents": [[record.title, record.summary] for record in told],
    }


def vouched(record: DocumentRecord) -> bool:
    """Return whether somebody of the team vouches for the text of the page."""
    return not record.untrusted and source_kind(record.source) not in FETCHED_KINDS


def _folder_entry(record: DirectoryRecord, told: _KnownDirectory) -> MapEntry:
    return MapEntry(
        name=record.path.rpartition("/")[2],
        path=record.path,
        title=told.title,
        kind="directory",
        summary=told.summary,
        count=record.documents,
        modified=when(record.modified_ns),
    )


def derived_summary(children: Sequence[MapEntry]) -> str:
    """Return what a directory holds by number and names, and the first sentence among its pages that says something."""
    first = next((entry.summary for entry in children if len(entry.summary.split()) >= FEWEST_WORDS), "")
    counted = describe_directory(children)
    return f"{counted}. {first}" if first else counted


def document_entry(record: DocumentRecord, said: str = "") -> MapEntry:
    """Return the line of a page; `said` is what a model made of it, "" if nothing."""
    return MapEntry(
        name=record.path.rpartition("/")[2],
        path=record.path,
        title=record.title,
        kind="document",
        summary=said or record.summary,
        count=1,
        modified=when(record.stamp.mtime_ns),
    )


def plain_entry(path: str, kind: Literal["directory", "document"], count: int | None = None) -> MapEntry:
    """Return the line of something of which only the name is known."""
    name = path.rpartition("/")[2]
    known = int(kind == "document") if count is None else count
    return MapEntry(name=name, path=path, title=readable(name), kind=kind, summary="", count=known, modified=None)


def join(directory: str, name: str) -> str:
    """Return the path of `name` in `directory`."""
    return f"{directory}/{name}" if directory else name


def when(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bare(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0].lower()
