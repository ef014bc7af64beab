"""Map lines: what a directory or a page is, in one line each, written by its author or derived."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from knowledge.map import Entry, describe_directory, readable
from knowledge.paths import INDEX_NAME
from knowledge.storage.ports import DirectoryRecord, DocumentRecord, IndexStore

LOOKED_INTO = 4
"""Children by which a directory without an `_index.md` is described."""
FRONT_PAGES = ("readme", "index", "home", "overview")
"""Pages that speak for their directory where nobody wrote an `_index.md`, by their names without suffix."""
FEWEST_WORDS = 4
"""A sentence of fewer words ("See below.") says nothing about a directory."""


class Entries:
    """Makes map lines from the index."""

    def __init__(self, index: IndexStore) -> None:
        self._index = index

    async def folder(self, record: DirectoryRecord) -> Entry:
        """Return the line of a directory."""
        title, summary, _ = await self.described(record.path, readable(record.path.rpartition("/")[2]))
        return Entry(
            name=record.path.rpartition("/")[2],
            path=record.path,
            title=title,
            kind="directory",
            summary=summary,
            count=record.documents,
            modified=when(record.modified_ns),
        )

    async def described(self, directory: str, name: str) -> tuple[str, str, bool]:
        """Return title and summary of a directory, and whether they are derived; it is called `name` if nobody named it."""
        page = await self._index.document(join(directory, INDEX_NAME))
        if page and page.summary:
            return page.title, page.summary, False
        folders, documents = await self._index.children(directory, limit=LOOKED_INTO)
        front = next((d for d in documents if _bare(d.path) in FRONT_PAGES and d.summary), None)
        if page is None and front is not None:
            return front.title, front.summary, True
        children = [document_entry(record) for record in documents if record.path != join(directory, INDEX_NAME)]
        children += [plain_entry(record.path, "directory", record.documents) for record in folders]
        return (page.title if page else name), derived_summary(children), page is None


def derived_summary(children: Sequence[Entry]) -> str:
    """Return what a directory holds by number and names, and the first sentence among its pages that says something."""
    first = next((entry.summary for entry in children if len(entry.summary.split()) >= FEWEST_WORDS), "")
    counted = describe_directory(children)
    return f"{counted}. {first}" if first else counted


def document_entry(record: DocumentRecord) -> Entry:
    """Return the line of a page."""
    return Entry(
        name=record.path.rpartition("/")[2],
        path=record.path,
        title=record.title,
        kind="document",
        summary=record.summary,
        count=1,
        modified=when(record.stamp.mtime_ns),
    )


def plain_entry(path: str, kind: Literal["directory", "document"], count: int | None = None) -> Entry:
    """Return the line of something of which only the name is known."""
    name = path.rpartition("/")[2]
    known = int(kind == "document") if count is None else count
    return Entry(name=name, path=path, title=readable(name), kind=kind, summary="", count=known, modified=None)


def join(directory: str, name: str) -> str:
    """Return the path of `name` in `directory`."""
    return f"{directory}/{name}" if directory else name


def when(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _bare(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0].lower()
