"""An index as plain Python: slow, obvious, the specification. An engine that disagrees with this file is wrong."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from knowledge.errors import LeaseLost
from knowledge.pages.paths import PageLink, ancestors, parent, within
from knowledge.state.document_names import BY, begins_in, link_keys, name_key, names_of
from knowledge.state.ports import (
    ChunkRow,
    CodeRow,
    Delta,
    DirectoryRecord,
    DocumentRecord,
    Filters,
    IndexChange,
    IndexedChunk,
    IndexedProperties,
    IndexIdentity,
    IndexPosition,
    LackingRow,
    LinkedDocument,
    LinkRow,
    NameMatch,
    NameRow,
    Period,
    Progress,
    PropertyLines,
    Remove,
    SourcedDocument,
    Space,
    Stamp,
    TaggedCount,
    TextRow,
    Touch,
)


@dataclass
class _StoredEntry:
    doc: int
    record: DocumentRecord
    chunks: dict[int, IndexedChunk]
    links: tuple[PageLink, ...] = ()
    properties: IndexedProperties | None = None
    period: Period | None = None


def _page_names(entry: _StoredEntry) -> NameRow:
    r = entry.record
    return NameRow(entry.doc, r.path, r.title, r.aliases, r.language)


class MemoryIndexStore:
    """An index that ends with the process."""

    def __init__(self) -> None:
        self._generation = self._space = secrets.token_hex(8)
        self._identity = IndexIdentity("", 0, 0)
        self._coming: IndexIdentity | None = None
        self._supplied: dict[bytes, tuple[bytes, bytes]] = {}
        self._entries: dict[str, _StoredEntry] = {}
        self._removals: list[tuple[int, int]] = []
        self._seq = self._doc = self._fence = self._total = 0

    async def position(self) -> IndexPosition:
        """Return the index's position."""
        return IndexPosition(self._generation, self._seq)

    async def begin(self, identity: IndexIdentity) -> bool:
        """Return whether the contents stay; if not, it is now empty and has another generation."""
        same, wanted = self._identity.same_vectors(identity), (await self.space()).wanted
        fits = same or wanted.same_vectors(identity) or self._entries
        if self._identity.recipe != identity.recipe or not fits:
            self._set_aside(identity)
            self._generation = self._space = secrets.token_hex(8)
            self._identity = identity
            self._entries, self._removals, self._total = {}, [], 0
            return False
        if not wanted.same_vectors(identity):
            self._coming, self._supplied = None if same else identity, {}
        return True

    def _set_aside(self, identity: IndexIdentity) -> None:
        wanted = self._coming or self._identity
        if (
            not (self._entries or self._coming)
            or not identity.embedder
            or not wanted.embedder
            or wanted.same_vectors(identity)
        ):
            self._coming, self._supplied = None, {}
            return
        if self._coming is None:
            chunks = [chunk for entry in self._entries.values() for chunk in entry.chunks.values()]
            self._supplied |= {chunk.digest: (chunk.half, chunk.code) for chunk in chunks if chunk.half}
        self._coming = replace(wanted, recipe=identity.recipe)

    async def space(self) -> Space:
        """Return the embedder of its vectors, and the wanted one."""
        return Space(self._identity, IndexPosition(self._space, self._seq), self._coming)

    def _lacks(self, chunk: IndexedChunk) -> bool:
        return chunk.digest not in self._supplied and (self._coming is not None or not chunk.half)

    async def lacking(self, after: int, *, limit: int) -> Sequence[LackingRow]:
        """Return at most `limit` chunks above `after`, by `seq`, without a vector of the wanted embedder."""
        stored = {seq: (e.record.title, chunk) for e in self._entries.values() for seq, chunk in e.chunks.items()}
        found = [(seq, *stored[seq]) for seq in sorted(stored) if seq > after and self._lacks(stored[seq][1])]
        return [LackingRow(seq, chunk.digest, title, chunk.section, chunk.text) for seq, title, chunk in found[:limit]]

    async def supply(self, vectors: Mapping[bytes, tuple[bytes, bytes]], *, of: IndexIdentity, fence: int) -> bool:
        """Keep these vectors beside the serving ones; False, and nothing kept, if `of` is not wanted."""
        self._require(fence)
        if not (await self.space()).wanted.same_vectors(of):
            return False
        self._supplied |= vectors
        return True

    async def swap(self, *, fence: int) -> bool:
        """Let the supplied vectors serve from now on; False, and nothing done, while a chunk lacks its vector."""
        self._require(fence)
        chunks = [chunk for entry in self._entries.values() for chunk in entry.chunks.values()]
        if any(self._lacks(chunk) for chunk in chunks):
            return False
        if self._coming is None and all(chunk.half for chunk in chunks):
            return True
        for entry in self._entries.values():
            entry.chunks = {seq: self._exchanged(chunk) for seq, chunk in entry.chunks.items()}
        if self._coming is not None:
            self._identity = replace(self._coming, dimensions=self._coming.dimensions or _dimensions(self._supplied))
        self._coming, self._supplied, self._space = None, {}, secrets.token_hex(8)
        return True

    def _exchanged(self, chunk: IndexedChunk) -> IndexedChunk:
        if chunk.half and self._coming is None:
            return chunk
        half, code = self._supplied[chunk.digest]
        return replace(chunk, half=half, code=code)

    async def renewal(self) -> Progress | None:
        """Return how many chunks have a vector of the wanted embedder, and how many there are; None if all do."""
        chunks = [chunk for entry in self._entries.values() for chunk in entry.chunks.values()]
        lacking = sum(self._lacks(chunk) for chunk in chunks)
        exchanging = self._coming is not None or not all(chunk.half for chunk in chunks)
        return Progress(len(chunks) - lacking, len(chunks)) if exchanging else None

    def _require(self, fence: int) -> None:
        if fence < self._fence:
            raise LeaseLost("index", fence)
        self._fence = fence

    async def apply(self, changes: Sequence[IndexChange], *, fence: int) -> IndexPosition:
        """Make all `changes` and return the new position."""
        self._require(fence)
        for change in changes:
            if isinstance(change, Touch):
                self._touch(change)
            elif isinstance(change, Remove):
                self._remove(change.path)
            else:
                doc = self._remove(change.record.path)
                if doc is None:
                    self._doc += 1
                    doc = self._doc
                self._entries[change.record.path] = _StoredEntry(
                    doc,
                    change.record,
                    {self._next_seq(): chunk for chunk in change.chunks},
                    change.links,
                    change.properties,
                    change.period,
                )
                self._next_seq()  # so that a new document without chunks is noticed as well
                halves = {chunk.digest: (chunk.half, chunk.code) for chunk in change.chunks}
                dimensions = self._identity.dimensions or _dimensions(halves)
                self._identity = replace(self._identity, dimensions=dimensions)
        return await self.position()

    def _next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def _touch(self, change: Touch) -> None:
        if entry := self._entries.get(change.path):
            entry.record = entry.record._replace(stamp=change.stamp, indexed_at_ns=change.indexed_at_ns)

    def _remove(self, path: str) -> int | None:
        entry = self._entries.pop(path, None)
        if entry is None:
            return None
        self._removals += [(self._next_seq(), gone) for gone in entry.chunks]
        self._next_seq()
        return entry.doc

    async def set_total(self, total: int) -> None:
        """Record how many documents are to be indexed."""
        self._total = total

    async def progress(self) -> Progress:
        """Return documents indexed, and to be indexed (at least `done`)."""
        return Progress(len(self._entries), max(self._total, len(self._entries)))

    async def stamps(self, paths: Sequence[str] | None = None) -> Mapping[str, tuple[Stamp, str, int]]:
        """Return stamp, revision and `indexed_at_ns` by path, for the documents among `paths`, or for every document."""
        records = {path: entry.record for path, entry in self._entries.items() if paths is None or path in paths}
        return {path: (r.stamp, r.revision, r.indexed_at_ns) for path, r in records.items()}

    async def vectors(self, digests: Sequence[bytes]) -> Mapping[bytes, tuple[bytes, bytes]]:
        """Return `(half, code)` of those chunk texts that have a serving vector."""
        chunks = [chunk for entry in self._entries.values() for chunk in entry.chunks.values()]
        known = {chunk.digest: (chunk.half, chunk.code) for chunk in chunks if chunk.half}
        return {digest: known[digest] for digest in digests if digest in known}

    async def delta(self, after: IndexPosition, *, limit: int, texts: bool = False, codes: bool = False) -> Delta:
        """Return at most `limit` rows and removals after `after`; all, if the generation differs."""
        generation = self._space if codes else self._generation
        start = after.seq if after.generation == generation else 0
        stored = {seq: (entry, chunk) for entry in self._entries.values() for seq, chunk in entry.chunks.items()}
        gone = dict(self._removals)
        happened = sorted(seq for seq in (*stored, *gone) if seq > start)
        upto = happened[limit - 1] if len(happened) > limit else self._seq
        kept = [(seq, *stored[seq]) for seq in happened if seq <= upto and seq in stored]
        return Delta(
            texts=[TextRow(s, e.doc, e.record.title, c.section, c.text, e.record.language) for s, e, c in kept]
            if texts
            else [],
            names=list({e.doc: _page_names(e) for _, e, _ in kept}.values()) if texts else [],
            codes=[CodeRow(s, e.doc, c.code) for s, e, c in kept] if codes else [],
            removed=[gone[seq] for seq in happened if seq <= upto and seq in gone and gone[seq] <= start],
            upto=IndexPosition(generation, upto),
        )

    async def halves(self, seqs: Sequence[int]) -> Sequence[bytes]:
        """Return the float16 vectors of these chunks in this order; empty bytes for one that is gone or has none yet."""
        known = {seq: chunk.half for entry in self._entries.values() for seq, chunk in entry.chunks.items()}
        return [known.get(seq, b"") for seq in seqs]

    async def chunks(self, seqs: Sequence[int]) -> Mapping[int, ChunkRow]:
        """Return the chunks that still exist."""
        known = {seq: (e, c) for e in self._entries.values() for seq, c in e.chunks.items()}
        return {seq: _chunk_row(seq, *known[seq]) for seq in seqs if seq in known}

    async def document(self, path: str) -> DocumentRecord | None:
        """Return the record of one document."""
        entry = self._entries.get(path)
        return entry.record if entry else None

    async def records(self, docs: Collection[int]) -> Mapping[int, DocumentRecord]:
        """Return the records of the documents that still exist."""
        return {entry.doc: entry.record for entry in self._entries.values() if entry.doc in docs}

    async def directory(self, path: str) -> DirectoryRecord | None:
        """Return the record of one directory; the root is `""` and always exists."""
        below = [e.record.stamp.mtime_ns for p, e in self._entries.items() if path in ancestors(p)]
        return DirectoryRecord(path, len(below), max(below, default=0)) if below or not path else None

    async def directories_ending(self, ends: Collection[str], *, limit: int) -> Sequence[str]:
        """Return the paths of directories that are, or end in, one of these paths (ASCII case ignored), by path."""
        paths = {folder for path in self._entries for folder in ancestors(path) if folder}
        suffixes = tuple(f"/{end}".lower() for end in ends if end)
        return sorted(path for path in paths if f"/{path}".lower().endswith(suffixes))[:limit]

    async def children(
        self, directory: str, *, limit: int, folders_after: str | None = "", documents_after: str | None = ""
    ) -> tuple[Sequence[DirectoryRecord], Sequence[DocumentRecord]]:
        """Return subdirectories and documents right below, each by path, at most `limit` of each."""
        above = {folder for path in self._entries for folder in ancestors(path)}
        below = [folder for folder in above if folder and parent(folder) == directory]
        folders = sorted(path for path in below if folders_after is not None and path > folders_after)[:limit]
        pages = [path for path in self._entries if parent(path) == directory]
        paths = sorted(path for path in pages if documents_after is not None and path > documents_after)[:limit]
        records = [await self.directory(folder) for folder in folders]
        return [record for record in records if record], [self._entries[path].record for path in paths]

    async def select(self, filters: Filters) -> frozenset[int] | None:
        """Return the document numbers that match `filters`; None if there are none set."""
        if filters == Filters():
            return None
        return frozenset(entry.doc for entry in self._entries.values() if _admits(filters, entry.record))

    async def named(self, name: str, *, limit: int, spellings: Sequence[str] = ()) -> Sequence[NameMatch]:
        """Return documents and sections with that `name`, or else the first of `spellings`, each once, by its best reason."""
        found = (self._named(name_key(one), limit) for one in (name, *spellings))
        return next(filter(None, found), [])

    def _named(self, key: str, limit: int) -> list[NameMatch]:
        matches = sorted(
            (n.rank, path, n.position, entry.doc, n.section)
            for path, entry in self._entries.items()
            for n in names_of(entry.record)
            if n.key == key
        )
        found: dict[tuple[int, str | None], NameMatch] = {}
        for rank, path, _, doc, section in matches:
            found.setdefault((doc, section), NameMatch(doc, path, section, BY[rank]))
        return list(found.values())[:limit]

    async def of_periods(self, periods: Sequence[Period], *, limit: int) -> Sequence[int]:
        """Return documents of one of these times, or of a longer time around one of them."""
        dated = [(entry.period, entry.doc) for entry in self._entries.values() if entry.period]
        # Sorting keeps the order of equals: by document, then longer times first, then by their first day.
        dated = sorted(dated, key=lambda one: one[1])
        dated = sorted(sorted(dated, key=lambda one: one[0].last, reverse=True), key=lambda one: one[0].first)
        found: list[int] = []
        for first, last in periods:
            docs = [doc for its, doc in dated if first <= its.first and its.last <= last]
            if found and len(found) + len(docs) > limit:
                break
            found += docs
        for first, last in () if found else periods:
            found = found or [doc for its, doc in dated if its.first <= first and last <= its.last]
        return found[:limit]

    async def having_properties(self, terms: Collection[str], *, most: int) -> Mapping[str, Sequence[int]]:
        """Return, for each term, the documents whose properties have it; terms that more than `most` have are left out."""
        entries = [entry for entry in self._entries.values() if entry.properties]
        found = {t: sorted(e.doc for e in entries if e.properties and t in e.properties.terms) for t in terms}
        return {term: docs for term, docs in found.items() if 0 < len(docs) <= most}

    async def properties(self, docs: Collection[int]) -> Mapping[int, PropertyLines]:
        """Return the property lines of those of the documents that have any."""
        return {e.doc: e.properties.lines for e in self._entries.values() if e.properties and e.doc in docs}

    async def first_chunk(self, doc: int, section: str | None) -> int | None:
        """Return the first chunk of the document or its section; None if there is none."""
        chunks = {seq: c for entry in self._entries.values() if entry.doc == doc for seq, c in entry.chunks.items()}
        ordered = sorted(chunks, key=lambda seq: chunks[seq].ordinal)
        return next((seq for seq in ordered if begins_in(chunks[seq].section, section)), None)

    async def first_chunks(self, docs: Collection[int]) -> Mapping[int, int]:
        """Return the first chunk of each of the documents that has one."""
        found = {doc: await self.first_chunk(doc, None) for doc in docs}
        return {doc: seq for doc, seq in found.items() if seq is not None}

    async def languages(self) -> Mapping[str, int]:
        """Return the number of documents in each language, most frequent first."""
        counts = Counter(entry.record.language for entry in self._entries.values())
        return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))

    async def tags(self, *, limit: int) -> Sequence[tuple[str, int]]:
        """Return tags with the number of documents that have them, most frequent first, then by tag."""
        counts = Counter(tag for entry in self._entries.values() for tag in set(entry.record.tags))
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]

    async def tagged(self, tags: Collection[str], *, after: str = "", limit: int) -> Sequence[DocumentRecord]:
        """Return the documents with one of the tags or one below it, by path, those after the path `after`."""
        found = [entry.record for path, entry in sorted(self._entries.items()) if path > after]
        return [record for record in found if any(_has_tag(record, tag) for tag in tags)][:limit]

    async def count_tagged(self, tags: Collection[str], *, after: str = "") -> TaggedCount:
        """Return how many documents `tagged` would return without a limit, and when the newest of their files was changed."""
        found = await self.tagged(tags, after=after, limit=len(self._entries))
        return TaggedCount(len(found), max((record.stamp.mtime_ns for record in found), default=0))

    async def newest(self, *, limit: int) -> Sequence[DocumentRecord]:
        """Return documents by the time at which their files were last changed, newest first, then by path."""
        records = [entry.record for entry in self._entries.values()]
        return sorted(records, key=lambda record: (-record.stamp.mtime_ns, record.path))[:limit]

    async def paths(self, *, prefix: str = "", contains: str = "", limit: int) -> Sequence[str]:
        """Return document paths that begin with `prefix` and contain `contains` (case ignored), by path."""
        head, part = prefix.casefold(), contains.casefold()
        keys = {path: path.casefold() for path in sorted(self._entries)}
        return [path for path, key in keys.items() if key.startswith(head) and part in key][:limit]

    async def mentioning(self, words: Collection[str]) -> Sequence[str]:
        """Return the paths of documents whose text has one of these strings (case ignored), by path."""
        keys = [word.casefold() for word in words]
        return sorted(
            path
            for path, entry in self._entries.items()
            if any(key in chunk.text.casefold() for chunk in entry.chunks.values() for key in keys)
        )

    def _counts(self) -> Counter[str]:
        entries = self._entries.values()
        of_properties = [w for entry in entries if entry.properties for w in entry.properties.words]
        return Counter(
            [*of_properties, *(w for entry in entries for chunk in entry.chunks.values() for w in chunk.words)]
        )

    async def linking(self, keys: Collection[str], *, limit: int) -> Sequence[LinkRow]:
        """Return at most `limit` links that have one of these keys, by page, each once."""
        found = {
            LinkRow(page, link)
            for page, entry in self._entries.items()
            for link in entry.links
            if not link_keys(page, link).isdisjoint(keys)
        }
        return sorted(found)[:limit]

    async def linked_documents(self, paths: Collection[str] | None = None) -> Sequence[LinkedDocument]:
        """Return the documents among `paths`, or all of them, with their links, by path."""
        found = self._entries if paths is None else self._entries.keys() & set(paths)
        entries = [self._entries[path] for path in sorted(found)]
        return [LinkedDocument(e.record.path, e.record.title, e.record.aliases, e.links) for e in entries]

    async def sourced_documents(self) -> Sequence[SourcedDocument]:
        """Return every document with its source and its file's time and size, by path."""
        records = [self._entries[path].record for path in sorted(self._entries)]
        return [SourcedDocument(r.path, r.source, r.untrusted, r.stamp.mtime_ns, r.stamp.size) for r in records]

    async def existing(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of the paths that are documents."""
        return frozenset(paths) & self._entries.keys()

    async def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the number of chunks with each known word."""
        counts = self._counts()
        return {word: counts[word] for word in words if word in counts}

    async def completions(self, prefix: str, *, limit: int) -> Sequence[str]:
        """Return known words that begin with `prefix`, most frequent first, then by word."""
        counts = self._counts()
        return sorted((w for w in counts if w.startswith(prefix)), key=lambda w: (-counts[w], w))[:limit]

    async def vocabulary(self) -> Sequence[tuple[str, int]]:
        """Return every known word with its frequency, by word."""
        return sorted(self._counts().items())

    async def close(self) -> None:
        """Close it: there is nothing to release."""


def _dimensions(vectors: Mapping[bytes, tuple[bytes, bytes]]) -> int:
    """Return the length of the vectors; 0 when there are none."""
    return max((len(half) // 2 for half, _ in vectors.values()), default=0)


def _chunk_row(seq: int, entry: _StoredEntry, chunk: IndexedChunk) -> ChunkRow:
    record = entry.record
    return ChunkRow(
        seq=seq,
        doc=entry.doc,
        ordinal=chunk.ordinal,
        section=chunk.section,
        line_start=chunk.line_start,
        line_end=chunk.line_end,
        text=chunk.text,
        path=record.path,
        title=record.title,
        revision=record.revision,
        source=record.source,
        untrusted=record.untrusted,
        language=record.language,
        modified_ns=record.stamp.mtime_ns,
    )


def _has_tag(record: DocumentRecord, tag: str) -> bool:
    return any(within(one, tag) for one in record.tags) if tag else tag in record.tags


def _admits(filters: Filters, record: DocumentRecord) -> bool:
    modified = record.stamp.mtime_ns
    source = filters.source
    return (
        within(record.path, filters.path)
        and all(_has_tag(record, tag) for tag in filters.tags)
        and filters.kind in (None, record.kind)
        and (source is None or record.source == source or record.source.startswith(source + ":"))
        and (filters.modified_after_ns is None or modified >= filters.modified_after_ns)
        and (filters.modified_before_ns is None or modified < filters.modified_before_ns)
        and (filters.paths is None or record.path in filters.paths)
    )
