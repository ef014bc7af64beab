"""The first two tiers: the map of a directory, and a page with its outline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache, partial
from typing import Literal, NamedTuple
from urllib.parse import unquote

import anyio.to_thread

from knowledge.errors import (
    AmbiguousName,
    BadCursor,
    InvalidPath,
    KnowledgeError,
    NoSuchPath,
    NoSuchTag,
    NotADirectory,
    UnknownRevision,
    UnreadableDocument,
)
from knowledge.history.past_states import PastStates
from knowledge.index.page_rows import DirectoryTrust
from knowledge.offload import InlineRunner, StepRunner
from knowledge.pages.claim_source import authority_of, is_tainted
from knowledge.pages.document import Document, find_section, parse, section_text, section_tokens
from knowledge.pages.map_view import EMPTY_SUMMARY, MapEntry, readable
from knowledge.pages.markdown.conflict_markers import conflict_lines
from knowledge.pages.markdown.inline import without_attributes
from knowledge.pages.obsidian.block_ids import block_of
from knowledge.pages.paths import (
    HEADING_SEPARATOR,
    INDEX_NAME,
    MARKDOWN_SUFFIXES,
    PageLink,
    clean_path,
    is_markdown,
    parent,
)
from knowledge.pages.vault import FileRead, Vault
from knowledge.search.answers import MapView, OutlineLine, PageReading
from knowledge.search.map_lines import Entries, Made, derived_summary, join, plain_entry, when
from knowledge.search.maps.gathered import map_of_page, map_of_tag, with_tags
from knowledge.search.maps.linked_pages import linked_pages
from knowledge.search.maps.other_files import OtherFiles
from knowledge.search.maps.parts import fitted
from knowledge.search.maps.walk import BATCH, After, MapPlace, MapWalk, after_place, before, cursor_of, place_in
from knowledge.state.document_names import number_key
from knowledge.state.ports import IndexStore
from knowledge.tokens import WHOLE_TOKENS, count_tokens

PAGE_CHARACTERS = 16_000
LEAD_CHARACTERS = 1_200
LEAD_LINES = 30
MOST_FOLDERS = 50
"""Directories with the same end of the path that are looked at for one in another case."""
MOST_OUTLINE = 300
LONGEST_RESOURCE = 400_000
BYTES_PER_UNIT = 2
"""Bytes of a page that cost as much to read as one character costs to merge: `StepRunner.run` takes its work in that unit."""


class Tiers:
    """Shows the files, which are the truth, with titles, summaries and counts from the index.

    `made` returns map lines that a model made, for places where nobody wrote one.
    """

    def __init__(
        self,
        vault: Vault,
        index: IndexStore,
        *,
        past: PastStates | None = None,
        made: Made | None = None,
        runner: StepRunner | None = None,
    ) -> None:
        self._vault, self._index, self._past = vault, index, past
        self._entries, self._runner = Entries(index, made), runner or InlineRunner()
        self._others = OtherFiles(vault, index)

    # --- the map of a directory ---------------------------------------------------------------------------------------

    async def map(self, path: str = "", depth: int = 1, *, cursor: str | None = None, indexed: bool = True) -> MapView:
        """Return the map of the directory at `path`, children by name, `depth` levels deep, parents first.

        All of it takes at most `MAP_TOKENS`; `next_cursor` continues it, even after files have changed. With `indexed`
        false, files that are not indexed yet are included, even if the index seems complete.

        Raises:
            InvalidPath, NoSuchPath: there is no such directory.
            BadCursor: `cursor` belongs to another map.
        """
        return await self._mapped(path, depth, cursor, indexed=indexed)

    async def _mapped(
        self,
        path: str,
        depth: int,
        cursor: str | None,
        *,
        indexed: bool = True,
        tags: dict[str, Sequence[str]] | None = None,
    ) -> MapView:
        """Return the map as `map` does; the tags of the pages that were considered are put into `tags`."""
        view, complete = await self._described(path, indexed=indexed)
        place = place_in(cursor, view.path, depth) if cursor else None
        listing = partial(self._children, complete=complete, tags=tags)
        walk = MapWalk(listing, partial(self._folders, complete=complete), self._has_directory)
        return await fitted(walk, view, depth, place)

    async def overview(self, path: str = "", depth: int = 1, *, cursor: str | None = None) -> MapView:
        """Return the map for a caller that pays for tokens: with the tags of pages where there is room.

        `path` may also be `#tag`, for the pages with that tag, or a page, for the pages around it.

        Raises:
            InvalidPath, NoSuchPath, BadCursor: as `map`.
        """
        if path.startswith("#") and not self._vault.has_directory(path):
            if (found := await map_of_tag(self._index, path.lstrip("#").strip("/ "), cursor)) is not None:
                return found
            raise NoSuchTag(path)
        path = await self.path_of_map(path)
        if is_markdown(path):
            if cursor is not None:
                raise BadCursor(cursor)  # the map of a page is given at once
            located, file = await self._open(path)
            record = await self._index.document(located)
            if record is not None:
                document = await self._parsed(located, file.raw)
                by_name = self._vault.is_obsidian()
                return await map_of_page(self._index, record, document.page_links, by_name=by_name)
        tags: dict[str, Sequence[str]] = {}
        return with_tags(await self._mapped(path, depth, cursor, tags=tags), tags)

    async def path_of_map(self, path: str) -> str:
        """Return the page that `path` means without its suffix, or the directory that it means in another case; otherwise `path`.

        Raises:
            NoSuchPath: several directories differ from `path` in case only; carries them.
        """
        asked = clean_path(path)
        if not asked or is_markdown(asked) or await self._has_directory(asked):
            return path
        for suffix in MARKDOWN_SUFFIXES:
            if await self._index.document(asked + suffix):
                return asked + suffix
        same = await folders_in_other_case(self._index, asked)
        if len(same) > 1:
            raise NoSuchPath(asked, same)
        return same[0] if same else path

    async def folder(self, path: str = "", *, cursor: str | None = None, first: str = "") -> MapView:
        """Return the directory at `path` with its next `BATCH` children, as a person browses it: no summary is shortened.

        They begin with the child at the path `first` if one is given.

        Raises:
            InvalidPath, NoSuchPath: there is no such directory.
            BadCursor: `cursor` belongs to another directory.
        """
        view, complete = await self._described(path, indexed=True)
        after = after_place(place_in(cursor, view.path, 1) if cursor else None, view.path)
        if first:
            after = After(None, before(first)) if is_markdown(first) else After(before(first))
        children = await self._children(view.path, after, complete=complete)
        more = len(children) == BATCH
        last = MapPlace(children[-1].kind, children[-1].path) if more else None
        return replace(
            view,
            children=children,
            truncated=more,
            next_cursor=cursor_of(last, view.path, 1) if last else None,
        )

    async def _described(self, path: str, *, indexed: bool) -> tuple[MapView, bool]:
        """Return the directory at `path` without its children, and whether all files are indexed."""
        directory = clean_path(path)
        if directory and is_markdown(directory):
            raise NotADirectory(directory)
        record = await self._index.directory(directory)
        progress = await self._index.progress()
        complete = indexed and 0 < progress.total <= progress.done
        # Until all files are indexed, the files decide whether the directory exists.
        if (record is None or not complete) and not self._vault.has_directory(directory):
            raise NoSuchPath(directory, await self._nearest(directory))
        name = readable(directory.rpartition("/")[2]) if directory else self._vault.root.name
        title, summary, derived = await self._entries.described(directory, name)
        count = record.documents if record else 0
        if not complete and (summary == EMPTY_SUMMARY or not count):
            own = await self._children(directory, After(), complete=complete)
            # Nothing is indexed yet, so the files' names make the summary.
            summary, count = derived_summary(own) if own else summary, count or len(own)
        view = MapView(
            path=directory,
            title=title,
            summary=summary,
            derived=derived,
            children=(),
            count=count,
            modified=when(record.modified_ns) if record and record.modified_ns else None,
            truncated=False,
        )
        return view, complete

    async def _children(
        self, directory: str, after: After, *, complete: bool, tags: dict[str, Sequence[str]] | None = None
    ) -> list[MapEntry]:
        """Return the next `BATCH` children of a directory, subdirectories first; the tags of its pages are put into `tags`."""
        # One more, because the `_index.md` is dropped.
        folders, documents = await self._index.children(
            directory, limit=BATCH + 1, folders_after=after.folder, documents_after=after.page
        )
        folders, index_page = folders[:BATCH], join(directory, INDEX_NAME)
        documents = [record for record in documents if record.path != index_page][: BATCH - len(folders)]
        if tags is not None:
            tags.update({record.path: record.tags for record in documents if record.tags})
        entries = {entry.path: entry for entry in await self._entries.listed(folders, documents)}
        if complete:
            return list(entries.values())
        await self._add_unindexed(directory, entries, after)
        entries.pop(index_page, None)
        return [entries[path] for path in sorted(entries, key=lambda p: (entries[p].kind != "directory", p))][:BATCH]

    async def _folders(self, directory: str, after: str, *, complete: bool) -> list[str]:
        """Return the paths of the next subdirectories of a directory, at most `BATCH`."""
        folders, _ = await self._index.children(directory, limit=BATCH, folders_after=after, documents_after=None)
        paths = {record.path for record in folders}
        if not complete:
            entries: dict[str, MapEntry] = {}
            await self._add_unindexed(directory, entries, After(after, None))
            paths |= entries.keys()
        return sorted(paths)[:BATCH]

    async def _has_directory(self, path: str) -> bool:
        return await self._index.directory(path) is not None or self._vault.has_directory(path)

    async def _add_unindexed(self, directory: str, entries: dict[str, MapEntry], after: After) -> None:
        """Add files and folders that are not indexed yet, the next `BATCH` of each at most."""
        try:
            there = await anyio.to_thread.run_sync(self._vault.list_dir, directory)
        except (InvalidPath, NoSuchPath, UnreadableDocument):
            return  # a folder that has just been deleted or locked must not make the map of its parent fail
        # One page more, because the `_index.md` is dropped.
        for path in _next(directory, there.directories, after.folder)[:BATCH]:
            entries.setdefault(path, plain_entry(path, "directory"))
        for path in _next(directory, there.documents, after.page)[: BATCH + 1]:
            entries.setdefault(path, plain_entry(path, "document"))

    # --- one page -----------------------------------------------------------------------------------------------------

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

        `path` may omit the suffix, or be a title, alias or file name that only one document has, and end in `#section`, as in links.
        `section` may be a block's `^id`.
        A canvas is read as its cards; of any other file only the name, the size and the links to it are read.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName, NoSuchSection, UnknownRevision: with the alternatives.
        """
        # A hit before the first heading has the section "".
        section = section or None
        if section is None and "#" in path:
            path, section = await self._page_and_section(path)
        try:
            found, raw, shown = await self._at(path, revision)
        except NoSuchPath:
            # By its whole name, since a page is found without its suffix.
            is_no_file = is_markdown(path) or revision or self._vault.has_directory(clean_path(path))
            other = None if is_no_file else await self._others.read(clean_path(path))
            if other is None:
                raise await self._without_page(path) from None
            text, next_offset = _text_page(other.text, offset)
            return replace(other, text=text, next_offset=next_offset)
        request = _ReadRequest(found, raw, shown, section, view, offset)
        reading, links = await self._runner.run(
            _reading, request, size=len(raw) // BYTES_PER_UNIT, what=f"reading {found}"
        )
        known = await self._index.document(found)
        # A caller that continues has seen the links already.
        if not offset:
            reading = await self._with_links(reading, known.aliases if known else (), links)
        if known is not None:
            untrusted = known.untrusted
        else:
            # A page that is not indexed yet has the trust of its directories, read from their files.
            untrusted = await anyio.to_thread.run_sync(DirectoryTrust(self._vault).untrusted, parent(found))
        return replace(reading, tainted=True) if untrusted else reading

    @property
    def links_by_name(self) -> bool:
        """Whether ordinary links, too, are found by name, because Obsidian keeps its settings in the folder."""
        return self._vault.is_obsidian()

    async def files_by_name(self) -> Mapping[str, Sequence[str]]:
        """Return all files, pages and others, by the key of their names."""
        return await self._others.by_name()

    async def _with_links(self, reading: PageReading, aliases: Sequence[str], links: Sequence[PageLink]) -> PageReading:
        names, by_name = (reading.title, *aliases), self.links_by_name
        canvases = await self._others.canvases_showing(reading.path, names) if by_name else ()
        linked = await linked_pages(self._index, reading.path, names, links, by_name=by_name, canvases=canvases)
        note = "; ".join(filter(None, (reading.note, linked.note))) or None
        return replace(reading, links=linked.links, backlinks=linked.backlinks, note=note)

    async def _page_and_section(self, path: str) -> tuple[str, str | None]:
        """Return the page and the section of a path as links write it: `guides/backup.md#restore`, `Backup#Restore`, `Backup#^id`.

        All of it is the page if one is called so: `C#.md`.
        """
        for end in (len(path), *(at for at in range(len(path) - 1, 0, -1) if path[at] == "#")):
            page, anchor = path[:end], unquote(path[end:]).strip("#")
            if await self._found(clean_path(page)) is None:
                continue
            if not anchor or anchor.startswith("^"):
                return page, anchor or None
            # Obsidian writes headings one below the other as `Page#Heading#Heading`.
            nested = "#" in anchor and HEADING_SEPARATOR not in anchor
            return page, HEADING_SEPARATOR.join(anchor.split("#")) if nested else f"#{anchor}"
        return path, None

    async def _at(self, asked: str, revision: str | None) -> tuple[str, bytes, str]:
        """Return path, bytes and revision of the page. The current version is kept as a base for later writes.

        Raises:
            NoSuchPath: without the alternatives, since `asked` may be another file, and they take time to find.
        """
        path = clean_path(asked)
        if (opened := await self._found(path)) is None:
            # A removed page can still be read at a stored revision.
            raw = await self._past.content(path, revision) if self._past and revision else None
            if raw is None or revision is None:
                raise NoSuchPath(path)
            return path, raw, revision
        found, file = opened
        if revision in (None, file.revision):
            # Stored, because the caller may base a write on this text even after the file has changed.
            if self._past is not None:
                await self._past.shown(found, file.raw, file.revision)
            return found, file.raw, file.revision
        raw = await self._past.content(found, revision) if self._past else None
        if raw is None:
            raise UnknownRevision(found, revision, file.revision)
        return found, raw, revision

    async def _open(self, asked: str) -> tuple[str, FileRead]:
        """Return the path and the bytes of the document with the path or name `asked`.

        Raises:
            NoSuchPath, AmbiguousName: with the alternatives.
        """
        if (found := await self._found(clean_path(asked))) is None:
            raise await self._without_page(asked)
        return found

    async def _without_page(self, asked: str) -> NoSuchPath:
        """Return the error for a path and name that no page has, with the directory there, or else similar paths."""
        path = clean_path(asked)
        if self._vault.has_directory(path):
            return NoSuchPath(path, [f"the directory itself: kb_map({path!r})"])
        return NoSuchPath(path, await self._nearest(path))

    async def _found(self, path: str) -> tuple[str, FileRead] | None:
        """Return the path and the bytes of the document with that path, suffix or not, or that name; None without one.

        Raises:
            AmbiguousName: several documents have the name.
        """
        if not path:
            spellings = [INDEX_NAME]
        elif is_markdown(path):
            spellings = [path]
        else:
            spellings = [*(path + suffix for suffix in MARKDOWN_SUFFIXES), f"{path}/{INDEX_NAME}"]
        for candidate in spellings:
            try:
                return candidate, await anyio.to_thread.run_sync(self._vault.read, candidate)
            except NoSuchPath:
                continue
        found = await self._by_name(path)
        return None if found is None else (found, await anyio.to_thread.run_sync(self._vault.read, found))

    async def _by_name(self, asked: str) -> str | None:
        named = await self._index.named(asked, limit=20, spellings=[number_key(asked)])
        matches = [match for match in named if match.by != "heading"]
        paths = list(dict.fromkeys(match.path for match in matches))
        if not paths:
            return None
        # A title is a better match than an alias; two of the same kind are ambiguous.
        if len(paths) > 1 and matches[0].by == matches[1].by:
            raise AmbiguousName(asked, paths)
        return paths[0]

    async def _nearest(self, asked: str) -> list[str]:
        """Return up to three existing paths similar to `asked`."""
        word = asked.rpartition("/")[2].rpartition(".")[0] or asked.rpartition("/")[2]
        holding = await self._index.paths(contains=word, limit=50) if word else []
        # Comparing is slow, so only a part of a very large knowledge base is compared.
        pool = list(holding) or list(await self._index.paths(limit=5000))
        pool += sorted({parent(path) for path in pool} - {""})
        return _most_similar(asked, pool) or list(holding[:3])

    async def _parsed(self, path: str, raw: bytes) -> Document:
        return await self._runner.run(_parse, (path, raw), size=len(raw) // BYTES_PER_UNIT, what=f"reading {path}")

    async def document(self, asked: str) -> Document:
        """Return the document with the path or name `asked`, as it is on disk now.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName, UnreadableDocument: with the alternatives.
        """
        found, file = await self._open(asked)
        return await self._parsed(found, file.raw)

    async def full_text(self, path: str) -> str:
        """Return the text of the document at `path`; a very long text is cut, with a note at the end.

        Raises:
            InvalidPath, NoSuchPath: with the alternatives.
        """
        text = (await self.document(path)).text
        if len(text) <= LONGEST_RESOURCE:
            return text
        note = f"[cut after {LONGEST_RESOURCE} of {len(text)} characters: continue with kb_read]"
        return f"{text[:LONGEST_RESOURCE]}\n\n{note}\n"

    async def tainted(self, path: str) -> str | None:
        """Return the source of the page at exactly `path` if its text is not trusted; None if it is, or there is no page."""
        known = await self._index.document(path)
        if known is not None:
            return known.source if is_tainted(known.source, untrusted=known.untrusted) else None
        try:
            reading = await self.read(path)
        except KnowledgeError:
            return None
        return reading.source if reading.tainted else None

    async def trusted_document(self, path: str, *, plain: bool = False) -> Document | None:
        """Return the page at exactly `path` from disk; None if it is missing or its text is not trusted.

        The page and its directories decide as they are now, not as they were indexed. With `plain` a symbolic link
        counts as no page.
        """
        try:
            file = await anyio.to_thread.run_sync(partial(self._vault.read, path, plain=plain))
        except (InvalidPath, NoSuchPath, UnreadableDocument):
            return None
        found = await self._parsed(path, file.raw)
        below = await anyio.to_thread.run_sync(DirectoryTrust(self._vault).untrusted, parent(path))
        return None if is_tainted(found.source, untrusted=found.untrusted or below) else found

    async def new_page(self, asked: str) -> tuple[str, bool]:
        """Return the path that a new page called `asked` would have (its suffix may be left out), and whether a page is there already.

        Raises:
            InvalidPath: it is a folder, or can't be a page.
        """
        path = clean_path(asked)
        kind = await self.place(path)
        if kind == "directory" or not path:
            raise InvalidPath(asked, "it is a folder; name a page in it")
        if not is_markdown(path):
            path += MARKDOWN_SUFFIXES[0]
            kind = await self.place(path)
        return path, kind == "page"

    async def file(self, path: str) -> FileRead:
        """Return the bytes of any file at exactly that path, also of one that is no page.

        Raises:
            InvalidPath, NoSuchPath, UnreadableDocument: as `Vault.read`.
        """
        return await anyio.to_thread.run_sync(self._vault.read, path)

    async def files(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of the paths at which there is a regular file that may be read. Opens none."""
        return await anyio.to_thread.run_sync(self._vault.files, paths)

    async def place(self, path: str) -> Literal["page", "directory", ""]:
        """Return whether a page or a directory is at exactly that path, "" if neither is.

        Raises:
            InvalidPath: it is not a valid path.
        """
        clean = clean_path(path)
        if await anyio.to_thread.run_sync(self._vault.find, clean) is not None:
            return "page"
        return "directory" if await anyio.to_thread.run_sync(self._vault.has_directory, clean) else ""

    async def revision(self, path: str) -> str:
        """Return the current revision of the page at exactly that path.

        Raises:
            InvalidPath, NoSuchPath, UnreadableDocument.
        """
        return (await anyio.to_thread.run_sync(self._vault.read, clean_path(path))).revision

    async def locate(self, asked: str) -> str:
        """Return the path of the page with the path (suffix optional), title, alias or file name `asked`.

        Raises:
            InvalidPath, NoSuchPath, AmbiguousName: with the alternatives.
        """
        return (await self._open(asked))[0]


def _most_similar(asked: str, paths: Sequence[str]) -> list[str]:
    """Return up to three of `paths` that have at least half of their characters in common with `asked`, most similar first."""
    # Loading the library takes 20 ms, which a process without a wrong path does not pay.
    from rapidfuzz.distance.Indel import normalized_similarity
    from rapidfuzz.process import extract

    return [path for path, *_ in extract(asked, paths, scorer=normalized_similarity, limit=3, score_cutoff=0.5)]


async def folders_in_other_case(index: IndexStore, path: str) -> list[str]:
    """Return the directories whose paths differ from `path` in case at most."""
    folders = await index.directories_ending([path], limit=MOST_FOLDERS)
    return [folder for folder in folders if folder.casefold() == path.casefold()]


def section_name(path: Sequence[str], sections: Iterable[str]) -> str:
    """Return a heading path in its written form, `A > B`, without the anchors that site generators read at the end of a heading.

    They stay where they tell it apart from another of the page's `sections`.
    """
    written = HEADING_SEPARATOR.join(path)
    if "{" not in written:
        return written
    bare = _without_anchors(path)
    alike = _by_bare_name(tuple(sections)).get(bare, frozenset()) - {written}
    return written if alike else bare


@lru_cache(maxsize=4)
def _by_bare_name(sections: tuple[str, ...]) -> Mapping[str, AbstractSet[str]]:
    """Return the headings of a page by their names without anchors, once for all headings that are shown."""
    found: dict[str, set[str]] = {}
    for one in sections:
        found.setdefault(_without_anchors(one.split(HEADING_SEPARATOR)), set()).add(one)
    return found


def _without_anchors(path: Iterable[str]) -> str:
    return HEADING_SEPARATOR.join(without_attributes(heading) or heading for heading in path)


def _next(directory: str, names: Sequence[str], after: str | None) -> list[str]:
    """Return the paths of `names` in a directory that come after the path `after`; none if `after` is None."""
    return [path for name in names if after is not None and (path := join(directory, name)) > after]


class _ReadRequest(NamedTuple):
    path: str
    raw: bytes
    revision: str
    section: str | None
    view: str
    offset: int


def _reading(request: _ReadRequest) -> tuple[PageReading, tuple[PageLink, ...]]:
    """Return the requested part of a page, and the links of all of it. Pure: large pages are read in another process."""
    document = parse(request.path, request.raw)
    lines, body, note = _requested_text(document, request.section, request.view, request.offset)
    text, next_offset = _text_page(body, request.offset)
    if request.offset and not text:
        note = f"offset {request.offset:,} is past the end of this text, which has {len(body):,} characters"
    if found := conflict_lines(document.text.split("\n"), document.blocks) if "<<<<<<<" in document.text else ():
        first, last = found[0]
        conflict = (
            f"lines {first} to {last} are an unresolved Git conflict: merges are refused until a person resolves it"
        )
        note = f"{conflict}; {note}" if note else conflict
    reading = PageReading(
        path=request.path,
        title=document.title,
        revision=request.revision,
        # With the tags in the text, where there are any.
        metadata={**document.metadata, "tags": list(document.tags)} if document.tags else document.metadata,
        # A caller that continues has the outline already; one that asks for a section needs the outline of that.
        outline=[] if request.offset else _outline(document, lines),
        text=text,
        next_offset=next_offset,
        source=document.source,
        authority=authority_of(document.source),
        tainted=is_tainted(document.source, untrusted=document.untrusted),
        note=note,
    )
    return reading, document.page_links


def _parse(file: tuple[str, bytes]) -> Document:
    return parse(*file)


def shown_text(document: Document, section: str | None, view: str, offset: int) -> str:
    """Return the text of a page that `Tiers.read` returns for these arguments.

    Raises:
        NoSuchSection, AmbiguousName: the page has no such section.
    """
    return _text_page(_requested_text(document, section, view, offset)[1], offset)[0]


def _requested_text(
    document: Document, section: str | None, view: str, offset: int
) -> tuple[range | None, str, str | None]:
    """Return the requested lines (None for all), their text, and a note if something is left out."""
    if section is not None:
        if "^" in section and (block := block_of(document, section)) is not None:
            named = document.text.split("\n")[block.first - 1 : block.last]
            return range(block.first, block.last + 1), "\n".join(named), None
        first, last, text = section_text(document, find_section(document, section))
        return range(first, last + 1), text, None
    lines = document.text.split("\n")
    body = "\n".join(lines[document.body_line - 1 :])
    tokens = count_tokens(body)
    # An offset continues the whole text: what is shown without a view ends before any.
    if view == "full" or offset or tokens <= WHOLE_TOKENS:
        return None, body, None
    first = document.headings[1].line if len(document.headings) > 1 else document.body_line + LEAD_LINES
    lead = "\n".join(lines[document.body_line - 1 : first - 1]).strip()[:LEAD_CHARACTERS]
    note = f"the beginning of a page of {tokens:,} tokens: pass a section of `outline`, or view='full'"
    return None, lead, note


def _text_page(text: str, offset: int) -> tuple[str, int | None]:
    """Return one page of `text` from `offset`, ending with a line if possible, and where the next one begins."""
    end = offset + PAGE_CHARACTERS
    if end >= len(text):
        return text[offset:], None
    line_end = text.rfind("\n", offset + PAGE_CHARACTERS // 2, end) + 1
    end = line_end or end
    return text[offset:end], end


def _outline(document: Document, lines: range | None) -> list[OutlineLine]:
    """Return the headings within `lines`; of very many, only the upper levels."""
    lengths = section_tokens(document)
    headings = tuple(h for h in document.headings if lines is None or h.line in lines)
    level = 6
    while len(headings) > MOST_OUTLINE and level > 1:
        headings = tuple(h for h in headings if h.level < level)
        level -= 1
    sections = tuple(HEADING_SEPARATOR.join(h.path) for h in document.headings)
    return [
        OutlineLine(section_name(h.path, sections), h.level, h.line, lengths[h.line]) for h in headings[:MOST_OUTLINE]
    ]
