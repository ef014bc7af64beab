"""Map lines: one line for each directory and page, written by its author, derived, or made by a model."""

from __future__ import annotations

import json
import logging
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Literal

from anyio.lowlevel import checkpoint

from knowledge.errors import StorageError
from knowledge.pages.claim_source import is_tainted
from knowledge.pages.document import shortened
from knowledge.pages.map_view import MapEntry, describe_directory, readable
from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.paths import HEADING_SEPARATOR, INDEX_NAME
from knowledge.search.summaries.ports import Summaries
from knowledge.state.ports import DirectoryRecord, DocumentRecord, IndexPosition, IndexStore, Progress

logger = logging.getLogger(__name__)

LOOKED_INTO = 4
"""Children whose lines describe a directory without an `_index.md`."""
FRONT_PAGES = ("readme", "index", "home", "overview")
"""Names (without suffix) of pages that describe their directory if it has no `_index.md`."""
FEWEST_WORDS = 4
"""A shorter sentence ("See below.") describes nothing."""
SAMPLED = 12
"""Children of each kind, of one directory, that are shown to a model."""
FEWEST_CHILDREN = 2
"""A directory with a single page is described by that page."""
MOST_CHILDREN = 200
"""Children of each kind, of one directory, for which a model writes lines."""
MOST_REMEMBERED_DIRECTORIES = 10_000
MOST_REMEMBERED_LINES = 20_000

Made = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""Returns the lines that a model wrote, by key, for the keys that have one. Never raises."""


class Entries:
    """Makes map lines from the index, and from `made`, if given, for pages and directories without a written line."""

    def __init__(self, index: IndexStore, made: Made | None = None) -> None:
        self._index, self._made = index, made
        self._remembered: dict[str, _KnownDirectory] = {}
        self._at: tuple[IndexPosition, Progress] | None = None

    async def listed(self, folders: Sequence[DirectoryRecord], documents: Sequence[DocumentRecord]) -> list[MapEntry]:
        """Return the lines of directories and pages, in that order."""
        await self._forget_old()
        known = [await self._known(record.path, readable(record.path.rpartition("/")[2])) for record in folders]
        keys = [page_key(record) if self._made else "" for record in documents]
        made = await self._made_lines([one.key for one in known] + keys)
        entries = [
            MapEntry(
                name=record.path.rpartition("/")[2],
                path=record.path,
                title=one.title,
                kind="directory",
                summary=one.with_made(made).summary,
                count=record.documents,
                modified=when(record.modified_ns),
            )
            for record, one in zip(folders, known, strict=True)
        ]
        return entries + [
            document_entry(record, made.get(key, "")) for record, key in zip(documents, keys, strict=True)
        ]

    async def folder(self, record: DirectoryRecord) -> MapEntry:
        """Return the line of a directory."""
        return (await self.listed([record], ()))[0]

    async def key_of(self, directory: str) -> str:
        """Return the key of the line that a model may write for a directory; "" if it has a line, or nothing to describe."""
        return (await self._looked_up(directory, "")).key

    async def described(self, directory: str, name: str) -> tuple[str, str, bool]:
        """Return title and summary of a directory, and whether they are derived.

        `name` is its title if nobody wrote one.
        """
        await self._forget_old()
        known = await self._known(directory, name)
        known = known.with_made(await self._made_lines([known.key]))
        return known.title, known.summary, known.derived

    async def _made_lines(self, keys: Sequence[str]) -> Mapping[str, str]:
        wanted = [key for key in keys if key]
        return await self._made(wanted) if self._made and wanted else {}

    async def _forget_old(self) -> None:
        """Drop entries cached before the index changed. Without a model's lines nothing is cached."""
        if not self._made:
            return
        at = await self._index.position(), await self._index.progress()
        if at != self._at or len(self._remembered) > MOST_REMEMBERED_DIRECTORIES:
            self._remembered, self._at = {}, at

    async def _known(self, directory: str, name: str) -> _KnownDirectory:
        if directory not in self._remembered:
            known = await self._looked_up(directory, name)
            if not self._made:
                return known
            self._remembered[directory] = known
        return self._remembered[directory]

    async def _looked_up(self, directory: str, name: str) -> _KnownDirectory:
        index_path = join(directory, INDEX_NAME)
        page = await self._index.document(index_path)
        if page and page.summary:
            return _KnownDirectory(page.title, page.summary, derived=False)
        folders, documents = await self._index.children(directory, limit=SAMPLED if self._made else LOOKED_INTO)
        first = documents[:LOOKED_INTO]
        names = {d.path: d.path.rpartition("/")[2].partition(".")[0].lower() for d in first}
        front = next((d for d in first if names[d.path] in FRONT_PAGES and d.summary), None)
        # An `_index.md` without a summary still gives the title, and the summary is derived.
        if page is None and front is not None:
            return _KnownDirectory(front.title, front.summary, derived=True)
        children = [document_entry(record) for record in first if record.path != index_path]
        children += [plain_entry(record.path, "directory", record.documents) for record in folders[:LOOKED_INTO]]
        key = directory_key(directory, folders, documents) if self._made and page is None else ""
        return _KnownDirectory(page.title if page else name, derived_summary(children), derived=page is None, key=key)


@dataclass(frozen=True, slots=True)
class _KnownDirectory:
    """What the index knows about a directory; `key` is that of a model's line, "" if a person wrote its line."""

    title: str
    summary: str
    derived: bool
    key: str = ""

    def with_made(self, made: Mapping[str, str]) -> _KnownDirectory:
        """Return this directory with the model's line as its summary, if there is one."""
        return replace(self, summary=made.get(self.key) or self.summary) if self.key else self


def derived_summary(children: Sequence[MapEntry]) -> str:
    """Return a summary of a directory: the names of its first children, and the first informative sentence of a page."""
    first = next((entry.summary for entry in children if len(entry.summary.split()) >= FEWEST_WORDS), "")
    named = describe_directory(children)
    return f"{named}. {first}" if first else named


def document_entry(record: DocumentRecord, made: str = "") -> MapEntry:
    """Return the line of a page; `made` is a model's line, which takes the place of its summary.

    A page without a sentence is described by its headings. They don't count as a summary: a model may still write its line.
    """
    return MapEntry(
        name=record.path.rpartition("/")[2],
        path=record.path,
        title=record.title,
        kind="document",
        summary=made or record.summary or _named_sections(record),
        count=1,
        modified=when(record.stamp.mtime_ns),
    )


def _named_sections(record: DocumentRecord) -> str:
    """Return the headings of a page without prose, such as a page of tables: the uppermost level below the title."""
    headings = [list(map(without_attributes, section.split(HEADING_SEPARATOR))) for section in record.sections]
    below = [path for path in headings if path != [record.title]]
    upper = min(map(len, below), default=0)
    return shortened(", ".join(path[-1] for path in below if len(path) == upper))


def plain_entry(path: str, kind: Literal["directory", "document"], count: int | None = None) -> MapEntry:
    """Return the line of a page or directory of which only the name is known."""
    name = path.rpartition("/")[2]
    known = int(kind == "document") if count is None else count
    return MapEntry(name=name, path=path, title=readable(name), kind=kind, summary="", count=known, modified=None)


def join(directory: str, name: str) -> str:
    """Return the path of `name` in `directory`."""
    return f"{directory}/{name}" if directory else name


@lru_cache(maxsize=1_024)
def when(time_ns: int) -> str:
    """Return a time as ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).isoformat()[: len("2026-01-31T00:00:00")] + "Z"


# --- lines that a model makes -----------------------------------------------------------------------------------------


class RememberedLines:
    """A cache of the lines in a store.

    A key is made from the content that its line describes, so the line of a key never changes and is read only once.
    """

    def __init__(self, summaries: Summaries, most: int = MOST_REMEMBERED_LINES) -> None:
        self._summaries, self._most = summaries, most
        self._known: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Return the lines of the keys that have one; only cached ones while the database is unavailable."""
        unknown = [key for key in keys if key not in self._known]
        if unknown:
            try:
                self._known |= await self._summaries.lines(unknown)
            except StorageError as error:
                logger.warning("maps are shown without the model's lines: %s", error)
        found = {key: self._known[key] for key in keys if key in self._known}
        # After `found` is made, because the oldest may be among the requested ones.
        while len(self._known) > self._most:
            self._known.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True)
class WantedLine:
    """A page or directory without a good line. `facts` are shown to the model; `revision` is that of a page."""

    key: str
    kind: Literal["page", "directory"]
    path: str
    facts: Mapping[str, Any]
    revision: str = ""


async def wanted_lines(index: IndexStore, entries: Entries) -> AsyncIterator[WantedLine]:
    """Yield every page and directory without a good line, upper levels first."""
    waiting = deque([""])
    while waiting:
        await checkpoint()  # there may be thousands; other tasks run in between
        directory = waiting.popleft()
        folders, documents = await index.children(directory, limit=MOST_CHILDREN)
        if key := await entries.key_of(directory):
            yield WantedLine(key, "directory", directory, facts_about(directory, folders, documents))
        for record in documents:
            if not record.path.endswith(INDEX_NAME) and (key := page_key(record)):
                facts = {"path": record.path, "title": record.title}
                yield WantedLine(key, "page", record.path, facts, record.revision)
        waiting += [record.path for record in folders]


def page_key(record: DocumentRecord) -> str:
    """Return the key of a model's line for a page; "" if the page has a summary, or is not trusted."""
    # By revision: an unchanged page keeps its line when it is moved.
    lacks_line = len(record.summary.split()) < FEWEST_WORDS
    return f"p:{record.revision}" if lacks_line and not is_tainted(record.source, untrusted=record.untrusted) else ""


def directory_key(path: str, folders: Sequence[DirectoryRecord], documents: Sequence[DocumentRecord]) -> str:
    """Return the key of a model's line for a directory without front page; "" if it has too few children.

    The key is a hash of all that the model is shown (`facts_about`), so it changes with the content.
    """
    facts = facts_about(path, folders, documents)
    if len(facts["folders"]) + len(facts["documents"]) < FEWEST_CHILDREN:
        return ""
    text = json.dumps(facts, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return f"d:{blake2b(text, digest_size=16).hexdigest()}"


def facts_about(
    path: str, folders: Sequence[DirectoryRecord], documents: Sequence[DocumentRecord]
) -> Mapping[str, Any]:
    """Return the model's input for a directory as plain data: names of folders, titles and summaries of pages.

    Untrusted pages are left out: otherwise their text would reach readers through the map.
    """
    sample = documents[:SAMPLED]
    trusted = [record for record in sample if not is_tainted(record.source, untrusted=record.untrusted)]
    return {
        "path": path,
        "folders": [record.path.rpartition("/")[2] for record in folders[:SAMPLED]],
        "documents": [[record.title, record.summary] for record in trusted],
    }
