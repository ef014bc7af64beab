"""The first two circles: the map of a directory, and one document as a territory."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import anyio.to_thread

from knowledge.errors import AmbiguousName, InvalidPath, KnowledgeError, NoSuchPath, UnknownRevision, UnreadableDocument
from knowledge.history.past_states import Past
from knowledge.index.preparation.page_rows import DirectoryTrust
from knowledge.offload import Aside, Here
from knowledge.pages.claim_source import FETCHED_KINDS, authority_of, source_kind
from knowledge.pages.document import Document, find_section, parse, section_text, section_tokens
from knowledge.pages.map_view import EMPTY_SUMMARY, MapEntry, entry_tokens, readable, within_tokens
from knowledge.pages.paths import INDEX_NAME, MARKDOWN_SUFFIXES, clean_path, is_markdown, parent
from knowledge.pages.vault import FileRead, Vault
from knowledge.search.answers import MapView, OutlineLine, PageReading
from knowledge.search.map_lines import Entries, Made, derived_summary, join, plain_entry, when
from knowledge.state.ports import DocumentRecord, IndexStore
from knowledge.tokens import count_tokens

MOST_CHILDREN = 200
"""Entries of one map; what is left out is said by `truncated`."""
MAP_TOKENS = 2000
"""What a map of several levels may cost, and from where a long list of children goes without summaries."""
LIST_TOKENS = 4000
"""What a list of children may cost even so; those beyond are left to search."""
WHOLE_TOKENS = 1000
"""A document of at most so many tokens is returned whole, whatever the view."""
PAGE_CHARACTERS = 16_000
LEAD_CHARACTERS = 1_200
MOST_OUTLINE = 300
LONGEST_RESOURCE = 400_000
READ_LIKE_ONE = 2
"""Bytes of a page that is only read that cost as much as one character of a merge."""


class Tiers:
    """Looks at the files (the truth) with what the index knows of them (titles, summaries, counts).

    `made` tells of lines that a model made for maps, where nobody wrote one.
    """

    def __init__(
        self,
        vault: Vault,
        index: IndexStore,
        *,
        map_tokens: int = MAP_TOKENS,
        past: Past | None = None,
        made: Made | None = None,
        aside: Aside | None = None,
    ) -> None:
        self._vault, self._index, self._map_tokens, self._past = vault, index, map_tokens, past
        self._entries, self._aside = Entries(index, made), aside or Here()

    async def map(self, path: str = "", depth: int = 1) -> MapView:
        """Return the map of the directory at `path`, children by name, up to `depth` levels of them, parents first.

        What lies right below is always shown (up to `MOST_CHILDREN`), without summaries if there is much of it; deeper
        levels are opened directory by directory while the budget of tokens lasts.

        Raises:
            InvalidPath, NoSuchPath: there is no such directory.
        """
        directory = clean_path(path)
        if directory and is_markdown(directory):
            raise InvalidPath(
                path, f"it is a document; read it with kb_read({directory!r}), or map {parent(directory)!r}"
            )
        record = await self._index.directory(directory)
        complete = await self._is_complete()
        if (record is None or not complete) and not self._is_directory(directory):
            raise NoSuchPath(directory, await self._nearest(directory))
        own = await self._children(directory, complete=complete)
        shown, truncated = await self._opened_up(own, depth, complete=complete)
        title, summary, derived = await self._described(directory, own)
        return MapView(
            path=directory,
            title=title,
            summary=summary,
            derived=derived,
            children=shown,
            count=record.documents if record else len(own),
            modified=when(record.modified_ns) if record and record.modified_ns else None,
            truncated=truncated,
            note=_left_out(directory, own, shown) if truncated else None,
        )

    async def _opened_up(self, own: list[MapEntry], depth: int, *, complete: bool) -> tuple[list[MapEntry], bool]:
        """Return `own` and what lies below, as much of it as the budget holds, and whether anything was left out."""
        shown = within_tokens(own[:MOST_CHILDREN], self._map_tokens, most=LIST_TOKENS)
        truncated = len(shown) < len(own)
        room = self._map_tokens - sum(map(entry_tokens, shown))
        below: dict[str, list[MapEntry]] = {}
        level = [entry.path for entry in shown if entry.kind == "directory"]
        for _ in range(depth - 1):
            deeper: list[str] = []
            for path in level:
                children = await self._children(path, complete=complete)
                cost = sum(map(entry_tokens, children))
                if cost > room:
                    truncated = True  # a smaller directory further on may still fit
                    continue
                room -= cost
                below[path] = children
                deeper += [child.path for child in children if child.kind == "directory"]
            level = deeper
        return _parents_first(shown, below), truncated

    async def _described(self, directory: str, own: Sequence[MapEntry]) -> tuple[str, str, bool]:
        name = readable(directory.rpartition("/")[2]) if directory else self._vault.root.name
        title, summary, derived = await self._entries.described(directory, name)
        # What the index has not come to yet is known from the files alone.
        return title, derived_summary(own) if summary == EMPTY_SUMMARY and own else summary, derived

    async def _children(self, directory: str, *, complete: bool) -> list[MapEntry]:
        folders, documents = await self._index.children(directory, limit=MOST_CHILDREN + 2)
        entries = {entry.path: entry for entry in await self._entries.listed(folders, documents)}
        if not complete:
            self._add_unindexed(directory, entries)
        entries.pop(join(directory, INDEX_NAME), None)
        return [entries[path] for path in sorted(entries, key=lambda p: (entries[p].kind != "directory", p))]

    def _add_unindexed(self, directory: str, entries: dict[str, MapEntry]) -> None:
        """Show what lies there although the index has not come to it: the files are the truth."""
        try:
            there = self._vault.list_dir(directory)
        except (InvalidPath, NoSuchPath, UnreadableDocument):
            return  # one folder that is gone or closed by now must not cost the map of those above it
        for name in there.directories[:MOST_CHILDREN]:
            entries.setdefault(join(directory, name), plain_entry(join(directory, name), "directory"))
        for name in there.documents[:MOST_CHILDREN]:
            entries.setdefault(join(directory, name), plain_entry(join(directory, name), "document"))

    def _is_directory(self, path: str) -> bool:
        try:
            self._vault.list_dir(path)
        except (NoSuchPath, UnreadableDocument):
            return False
        return True

    async def _is_complete(self) -> bool:
        progress = await self._index.progress()
        return 0 < progress.total <= progress.done

    async def read(
        self,
        path: str,
        *,
        section: str | None = None,
        view: Literal["outline", "full"] = "outline",
        revision: str | None = None,
        offset: int = 0,
    ) -> PageReading:
        """Return the document at `path` as it is on disk now, or as it was at `revision`.

        `path` may leave out the suffix, or be a title, alias or file name that only one document bears.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName, NoSuchSection, UnknownRevision: with what there is instead.
        """
        found, raw, shown = await self._at(path, revision)
        look = _Look(found, raw, section, view, offset)
        seen = await self._aside.run(_seen, look, size=len(raw) // READ_LIKE_ONE, what=f"reading {found}")
        known = await self._index.document(found)
        return PageReading(
            path=found,
            title=seen.title,
            revision=shown,
            metadata=seen.metadata,
            outline=seen.outline,
            text=seen.text,
            next_offset=seen.next_offset,
            source=seen.source,
            authority=authority_of(seen.source),
            tainted=is_tainted(seen.source, untrusted=seen.untrusted or await self._untrusted(found, known)),
            note=seen.note,
        )

    async def tainted(self, path: str) -> str | None:
        """Return the source of the page at exactly `path` if nobody vouches for its text; None if somebody does, or there is none."""
        known = await self._index.document(path)
        if known is not None:
            return known.source if is_tainted(known.source, untrusted=known.untrusted) else None
        try:
            reading = await self.read(path)
        except KnowledgeError:
            return None
        return reading.source if reading.tainted else None

    async def _untrusted(self, path: str, known: DocumentRecord | None) -> bool:
        """Return whether the page lies under a directory marked untrusted; of one not indexed yet the files say so."""
        if known is not None:
            return known.untrusted
        return await anyio.to_thread.run_sync(DirectoryTrust(self._vault).untrusted, parent(path))

    async def _at(self, asked: str, revision: str | None) -> tuple[str, bytes, str]:
        """Return path, bytes and revision of what is to be read; what is shown of today is kept as a base for writes."""
        try:
            found, file = await self._open(asked)
        except NoSuchPath:
            path = clean_path(asked)
            raw = await self._past.content(path, revision) if self._past and revision else None
            if raw is None or revision is None:
                raise
            return path, raw, revision
        if revision in (None, file.revision):
            if self._past is not None:
                await self._past.shown(found, file.raw, file.revision)
            return found, file.raw, file.revision
        raw = await self._past.content(found, revision) if self._past else None
        if raw is None:
            raise UnknownRevision(found, revision, file.revision)
        return found, raw, revision

    async def _parsed(self, path: str, raw: bytes) -> Document:
        return await self._aside.run(_parse, (path, raw), size=len(raw) // READ_LIKE_ONE, what=f"reading {path}")

    async def whole(self, path: str) -> str:
        """Return the text of the document at exactly `path`, cut at `LONGEST_RESOURCE` characters, which is then said.

        Raises:
            InvalidPath, NoSuchPath: with what there is instead.
        """
        found, file = await self._open(path)
        text = (await self._parsed(found, file.raw)).text
        if len(text) <= LONGEST_RESOURCE:
            return text
        return (
            text[:LONGEST_RESOURCE]
            + f"\n\n[cut after {LONGEST_RESOURCE} of {len(text)} characters: read on with kb_read]\n"
        )

    async def _open(self, asked: str) -> tuple[str, FileRead]:
        """Return the document that `asked` names, and its bytes."""
        path = clean_path(asked)
        for candidate in _spellings(path):
            try:
                return candidate, await anyio.to_thread.run_sync(self._vault.read, candidate)
            except NoSuchPath:
                continue
        found = await self._by_name(path)
        return found, await anyio.to_thread.run_sync(self._vault.read, found)

    async def document(self, asked: str) -> Document:
        """Return the document that `asked` names, as it is on disk now.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName, UnreadableDocument: with what there is instead.
        """
        found, file = await self._open(asked)
        return await self._parsed(found, file.raw)

    async def vouched(self, path: str, *, plain: bool = False) -> Document | None:
        """Return the page at exactly `path` as it is on disk now; None if there is none, or nobody vouches for its text.

        What the page and its directories say today counts, not what the index knows of them. `plain`: a link counts as none.
        """
        try:
            file = await anyio.to_thread.run_sync(partial(self._vault.read, path, plain=plain))
        except (InvalidPath, NoSuchPath, UnreadableDocument):
            return None
        found = await self._parsed(path, file.raw)
        below = await anyio.to_thread.run_sync(DirectoryTrust(self._vault).untrusted, parent(path))
        return None if is_tainted(found.source, untrusted=found.untrusted or below) else found

    async def place(self, path: str) -> Literal["page", "directory", ""]:
        """Return what lies at exactly that path.

        Raises:
            InvalidPath: nothing can.
        """
        clean = clean_path(path)
        if await anyio.to_thread.run_sync(self._vault.look, clean) is not None:
            return "page"
        return "directory" if await anyio.to_thread.run_sync(self._is_directory, clean) else ""

    async def revision(self, path: str) -> str:
        """Return the present revision of the page at exactly that path.

        Raises:
            InvalidPath, NoSuchPath, UnreadableDocument: there is none.
        """
        return (await anyio.to_thread.run_sync(self._vault.read, clean_path(path))).revision

    async def locate(self, asked: str) -> str:
        """Return the path of the page that `asked` names: its path, with or without suffix, its title, alias or file name.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName: with what there is instead.
        """
        return (await self._open(asked))[0]

    async def _by_name(self, asked: str) -> str:
        matches = [m for m in await self._index.named(asked.partition("#")[0], limit=20) if m.by != "heading"]
        paths = list(dict.fromkeys(match.path for match in matches))
        if not paths:
            if self._is_directory(asked):
                raise NoSuchPath(asked, [f"the directory itself: kb_map({asked!r})"])
            raise NoSuchPath(asked, await self._nearest(asked))
        if len(paths) > 1 and matches[0].by == matches[1].by:
            raise AmbiguousName(asked, paths)
        return paths[0]

    async def _nearest(self, asked: str) -> list[str]:
        """Return up to three paths that look like `asked`."""
        word = asked.rpartition("/")[2].rpartition(".")[0] or asked.rpartition("/")[2]
        holding = await self._index.paths(contains=word, limit=50) if word else []
        pool = list(holding) or list(await self._index.paths(limit=5000))
        pool += sorted({parent(path) for path in pool} - {""})
        return difflib.get_close_matches(asked, pool, n=3, cutoff=0.5) or list(holding[:3])


def is_tainted(source: str, *, untrusted: bool) -> bool:
    """Return whether text is data that somebody else wrote: fetched, or lying under a path marked untrusted."""
    return untrusted or source_kind(source) in FETCHED_KINDS


def chunk_section(chunk_path: Sequence[str]) -> str:
    """Return a heading path as it is shown and asked for: `A > B`."""
    return " > ".join(chunk_path)


class _Look(NamedTuple):
    """What somebody wants to see of a page that holds `raw`."""

    path: str
    raw: bytes
    section: str | None
    view: str
    offset: int


class _Seen(NamedTuple):
    """What a page shows."""

    title: str
    metadata: Mapping[str, object]
    outline: list[OutlineLine]
    text: str
    next_offset: int | None
    source: str
    untrusted: bool
    note: str | None


def _seen(look: _Look) -> _Seen:
    """Return what is to be seen of a page; pure, as large pages are read in another process."""
    document = parse(look.path, look.raw)
    within, body, note = _asked_text(document, look.section, look.view)
    text, next_offset = _page(body, look.offset)
    # Who goes on reading has seen the outline; who asks for a section needs what lies in it.
    outline = [] if look.offset else _outline(document, within)
    return _Seen(
        document.title, document.metadata, outline, text, next_offset, document.source, document.untrusted, note
    )


def _parse(file: tuple[str, bytes]) -> Document:
    return parse(*file)


def _left_out(directory: str, own: Sequence[MapEntry], shown: Sequence[MapEntry]) -> str:
    """Return what a map did not show and how to get at it."""
    listed = sum(parent(entry.path) == directory for entry in shown)
    if listed == len(own):
        return "not every directory is opened: map the one you need"
    there = f"{listed} of {len(own)}" if len(own) <= MOST_CHILDREN else f"the first {listed}"
    return f"{there} entries are shown; kb_search(query, path={directory!r}) finds the others"


def _parents_first(entries: Sequence[MapEntry], below: Mapping[str, Sequence[MapEntry]]) -> list[MapEntry]:
    found: list[MapEntry] = []
    for entry in entries:
        found.append(entry)
        found += _parents_first(below.get(entry.path, ()), below)
    return found


def _spellings(path: str) -> list[str]:
    """Return the file names that `path` may stand for, likeliest first."""
    if not path:
        return [INDEX_NAME]
    if is_markdown(path):
        return [path]
    return [*(path + suffix for suffix in MARKDOWN_SUFFIXES), f"{path}/{INDEX_NAME}"]


def _asked_text(document: Document, section: str | None, view: str) -> tuple[range | None, str, str | None]:
    """Return the lines (None: all) and the text that are asked for, and what was left out of it, if anything."""
    if section is not None:
        first, last, text = section_text(document, find_section(document, section))
        return range(first, last + 1), text, None
    body = "\n".join(document.text.split("\n")[document.body_line - 1 :])
    tokens = count_tokens(body)
    if view == "full" or tokens <= WHOLE_TOKENS:
        return None, body, None
    first = document.headings[1].line if len(document.headings) > 1 else document.body_line + 30
    lead = "\n".join(document.text.split("\n")[document.body_line - 1 : first - 1]).strip()[:LEAD_CHARACTERS]
    note = f"the beginning of {tokens} tokens: ask for a section of the outline, or for view='full'"
    return None, lead, note


def _page(text: str, offset: int) -> tuple[str, int | None]:
    """Return at most a page of `text` from `offset`, ending at a line where there is one, and where to go on."""
    end = offset + PAGE_CHARACTERS
    if end >= len(text):
        return text[offset:], None
    line_end = text.rfind("\n", offset + PAGE_CHARACTERS // 2, end) + 1
    end = line_end or end
    return text[offset:end], end


def _outline(document: Document, within: range | None) -> list[OutlineLine]:
    lengths = section_tokens(document)
    headings = tuple(h for h in document.headings if within is None or h.line in within)
    level = 6
    while len(headings) > MOST_OUTLINE and level > 1:
        headings = tuple(h for h in headings if h.level < level)
        level -= 1
    return [OutlineLine(chunk_section(h.path), h.level, h.line, lengths[h.line]) for h in headings[:MOST_OUTLINE]]
