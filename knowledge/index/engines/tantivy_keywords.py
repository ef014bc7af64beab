"""Keyword search by tantivy. The folder is a cache of the store: if it is late, damaged or deleted, it is built again."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import anyio.to_thread
import tantivy
from tantivy import Occur, Query

from knowledge.index.engines.catch_up import NOWHERE, try_lock
from knowledge.index.ports import PageField, QueryTerm, Scored
from knowledge.private_files import private_folder
from knowledge.state.ports import Delta, Filters, IndexPosition, IndexStore, NameRow, TextRow

SHAPE = 2
"""Raise it when the schema changes; a folder of another shape is replaced."""
AT_ONCE = 500
"""A question with at most this many terms and documents runs without a thread: it takes half a millisecond, less
than a thread needs to wake."""
MOST_AT_ONCE = 1_000
"""Chunks or pages that may be asked for in such a search; explaining an answer asks for ten times as many."""
FEW_ADMITTED, SPARE, MOST_WIDER = 500, 2, 1_000
"""If more documents are admitted, more hits are taken and those of other documents dropped: as many more as are probably needed,
times `SPARE`, up to `MOST_WIDER`."""
BATCH = 5_000
ROWS_PER_COMMIT = 20_000
SMALL_COMMITS = 3
SMALL_ROWS = 600
"""After three small commits the next one writes their rows again, up to 600, and replaces them.

tantivy merges eight segments of less than 10,000 documents into one. Without this, every eighth changed file rewrote
the whole index of the pages: 435 ms of processor time at 11,788 pages.
"""
SMALL_HEAP_BYTES = 15_000_000
BULK_HEAP_BYTES = 48_000_000
_PAGES = "pages"
"""The subfolder with an index of whole pages. In one index with the chunks, each would distort the other's lengths."""
_TOKENIZER = "given"
_APPLIED = "applied.json"
_LOCK = "lock"


@dataclass(frozen=True, slots=True)
class _Applied:
    """The content of `applied.json`: which data folder is valid, and up to where it has the store's rows.

    The rows after `since` came in small commits: `commits` of them since they were last written together.
    """

    data: str
    at: IndexPosition
    since: int
    commits: int


@dataclass(frozen=True, slots=True)
class _Reading:
    stamp: tuple[int, int, int]
    applied: _Applied
    indexes: tuple[tantivy.Index, tantivy.Index]
    searcher: tantivy.Searcher
    pages: tantivy.Searcher


class TantivyKeywordIndex:
    """Indexes the terms that `terms` makes of a chunk, and `names` of a page's names, in `folder`, for any number of processes.

    One of them writes at a time, under a file lock. A data folder and its position are recorded only after its commit;
    the next writer deletes what a killed process left beyond that position.
    """

    def __init__(
        self, folder: Path, terms: Callable[[TextRow], Sequence[str]], names: Callable[[NameRow], Sequence[str]]
    ) -> None:
        self._folder, self._record, self._analysis = folder, folder / _APPLIED, _Analysis(terms, names)
        self._schemas = _schema("text"), _schema("text", "names")
        self._opening = threading.Lock()
        self._reading: _Reading | None = None
        self._searched = False
        """Whether anything was searched since the last catch-up."""

    async def catch_up(self, store: IndexStore) -> int:
        """Add the store's rows that this index lacks, and return how many were written or removed.

        Returns 0 if it lacks none, and at once while another process is doing it.
        """
        if await self._is_current(store):
            return 0
        with try_lock(self._folder / _LOCK) as mine:
            # Another process may have caught up meanwhile.
            if not mine or await self._is_current(store):
                return 0
            try:
                return await self._take_all(store, await anyio.to_thread.run_sync(self._applied))
            except _Damaged:
                # Nothing in the folder is worth repairing: the store has everything.
                return await self._take_all(store, None)

    async def _is_current(self, store: IndexStore) -> bool:
        applied = await anyio.to_thread.run_sync(self._applied)
        return applied is not None and applied.at == await store.position()

    async def _take_all(self, store: IndexStore, applied: _Applied | None) -> int:
        work = _TantivyCatchUp(self._folder, self._schemas, applied)
        # Rows that are stored meanwhile wait for the next time: tantivy merges segments of about equal size.
        target = await store.position()
        try:
            while work.at.generation != target.generation or work.at.seq < target.seq:
                delta = await store.delta(work.at, limit=BATCH, texts=True)
                if delta.upto == work.at:
                    break
                await anyio.to_thread.run_sync(work.take, delta, self._analysis)
            await anyio.to_thread.run_sync(work.finish)
        finally:
            work.abandon()
        if self._searched:
            # Now, because closing one searcher and opening another would make the next search 4 ms longer.
            self._searched = False
            await anyio.to_thread.run_sync(self._current)
        return work.taken

    async def position(self) -> IndexPosition:
        """Return the position up to which searches find the store's rows."""
        reading = self._reading
        if reading is None or reading.stamp != _stamp(self._record):
            reading = await anyio.to_thread.run_sync(self._current)
        return reading.applied.at if reading else NOWHERE

    async def search(
        self,
        terms: Sequence[QueryTerm],
        *,
        limit: int,
        docs: frozenset[int] | None = None,
        filters: Filters | None = None,  # noqa: ARG002 - `docs` says the same
    ) -> Sequence[Scored]:
        """Return at most `limit` chunks that have any of the terms, best first, equal ones by `seq`."""
        return await self._asked(terms, limit, docs, None)

    async def pages(
        self, terms: Sequence[QueryTerm], *, by: PageField, limit: int, docs: frozenset[int] | None = None
    ) -> Sequence[Scored]:
        """Return at most `limit` pages that have any of the terms in that field, best first, equal ones by `seq`."""
        return await self._asked(terms, limit, docs, by)

    async def _asked(
        self, terms: Sequence[QueryTerm], limit: int, docs: frozenset[int] | None, by: PageField | None
    ) -> Sequence[Scored]:
        if not terms or limit <= 0 or (docs is not None and not docs):
            return []
        asked = sum(len(term.alternatives) for term in terms) + len(docs or ())
        if asked <= AT_ONCE and limit <= MOST_AT_ONCE and self._reading is not None:
            return self._search(terms, limit, docs, by)
        return await anyio.to_thread.run_sync(self._search, terms, limit, docs, by)

    async def close(self) -> None:
        """Close the index."""
        self._reading = None

    def _search(
        self, terms: Sequence[QueryTerm], limit: int, docs: frozenset[int] | None, by: PageField | None
    ) -> list[Scored]:
        reading, self._searched = self._current(), True
        if reading is None:
            return []
        try:
            with _damage():
                return self._found(reading, terms, limit, docs, by)
        except _Damaged:
            # Without its record the next catch-up replaces the folder; until then nothing is found.
            self._reading = None
            self._record.unlink(missing_ok=True)
            return []

    def _found(
        self,
        reading: _Reading,
        terms: Sequence[QueryTerm],
        limit: int,
        docs: frozenset[int] | None,
        by: PageField | None,
    ) -> list[Scored]:
        schema, field = self._schemas[by is not None], by or "text"
        searcher = reading.pages if by else reading.searcher
        if docs is not None and len(docs) > FEW_ADMITTED:
            # Comparing each hit with thousands of admitted documents takes ten times as long as a few more hits.
            admitted = min(1.0, len(docs) / max(reading.pages.num_docs, 1))
            wider = math.ceil(SPARE * limit / admitted)
            if wider <= MOST_WIDER:
                every = _hits(searcher, _query(schema, field, terms, None), wider)
                hits = [hit for hit in every if hit.doc in docs]
                if len(hits) >= limit or len(every) < wider:
                    return hits[:limit]
        return _hits(searcher, _query(schema, field, terms, docs), limit)

    def _current(self) -> _Reading | None:
        """Return a searcher on the newest recorded commit, or None."""
        stamp = _stamp(self._record)
        reading = self._reading
        if stamp is None or (reading and reading.stamp == stamp):
            return reading if stamp else None
        with self._opening:
            self._reading = self._opened(stamp, self._reading) or self._reading
            return self._reading

    def _opened(self, stamp: tuple[int, int, int], known: _Reading | None) -> _Reading | None:
        applied = self._applied()
        if applied is None:
            return None
        try:
            with _damage():
                if known is not None and known.applied.data == applied.data:
                    indexes = known.indexes
                else:
                    data = self._folder / applied.data
                    indexes = _open(data, self._schemas[0]), _open(data / _PAGES, self._schemas[1])
                    for index in indexes:
                        index.config_reader("manual")
                for index in indexes:
                    index.reload()
                return _Reading(stamp, applied, indexes, indexes[0].searcher(), indexes[1].searcher())
        except _Damaged:
            # Perhaps it was just replaced; if not, the next catch-up notices the damage and repairs it.
            return None

    def _applied(self) -> _Applied | None:
        """Return the record; None if it is missing or from another version."""
        try:
            record = json.loads(self._record.read_text(encoding="utf-8"))
            shape, data, generation, seq = (record[key] for key in ("shape", "data", "generation", "seq"))
            # Folders of earlier versions lack the two.
            since, commits = int(record.get("since", seq)), int(record.get("commits", 0))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        known = shape == SHAPE and isinstance(data, str) and isinstance(seq, int) and (self._folder / data).is_dir()
        return _Applied(data, IndexPosition(str(generation), seq), since, commits) if known else None


@dataclass(frozen=True, slots=True)
class _Analysis:
    """How chunks and names become terms."""

    terms: Callable[[TextRow], Sequence[str]]
    names: Callable[[NameRow], Sequence[str]]


class _TantivyCatchUp:
    """One catch-up, by the holder of the lock."""

    def __init__(self, folder: Path, schemas: tuple[tantivy.Schema, tantivy.Schema], applied: _Applied | None) -> None:
        self._folder, self._schemas = folder, schemas
        self._data = applied.data if applied else ""
        self._writers: tuple[tantivy.IndexWriter, tantivy.IndexWriter] | None = None
        self._uncommitted = 0
        self.at = applied.at if applied else NOWHERE
        self._known = self.at.seq
        self._since, self._commits = (applied.since, applied.commits) if applied else (0, 0)
        self.taken = 0
        if self._commits >= SMALL_COMMITS:
            if self.at.seq - self._since <= SMALL_ROWS:
                # `_writer` deletes the rows after this position, and `take` adds them again with the new ones.
                self.at = IndexPosition(self.at.generation, self._since)
            else:
                self._since = self.at.seq
            self._commits = 0

    def take(self, delta: Delta, analysis: _Analysis) -> None:
        """Add and delete the rows of `delta`, and commit if there are many."""
        if delta.upto.generation != self.at.generation or not self._data:
            # A new folder: another process may be reading the old one, and Windows does not delete open files.
            self._writers = None
            self._data = f"data-{secrets.token_hex(4)}"
            private_folder(self._folder / self._data / _PAGES)
            self.at = IndexPosition(delta.upto.generation, 0)
            self._known = self._since = self._commits = 0
        writers = self._writers or self._begin(len(delta.texts))
        if delta.removed:
            for writer, schema in zip(writers, self._schemas, strict=True):
                # By query: deleting by term takes a Python int for a signed number, and silently finds nothing.
                writer.delete_documents_by_query(Query.term_set_query(schema, "seq", list(delta.removed)))
        names = {page.doc: " ".join(analysis.names(page)) for page in delta.names}
        # The chunks of a page have adjacent numbers. One that a batch cuts in two is there twice, each time with a part of
        # its text, and both parts go when it is replaced, because each has the number of a chunk.
        for doc, rows_of_page in groupby(delta.texts, key=attrgetter("doc")):
            texts: list[str] = []
            first = 0
            for row in rows_of_page:
                texts.append(" ".join(analysis.terms(row)))
                first = first or row.seq
                writers[0].add_document(_document(row.seq, doc, {"text": texts[-1]}))
            writers[1].add_document(_document(first, doc, {"text": " ".join(texts), "names": names.get(doc, "")}))
        self.at = delta.upto
        rows = len(delta.texts) + len(delta.removed)
        self.taken += rows
        self._uncommitted += rows
        if self._uncommitted >= ROWS_PER_COMMIT:
            self._commit(writers)

    def finish(self) -> None:
        """Commit the rest, wait for merges, and delete old data folders."""
        if self._writers is None:
            return
        self._commit(self._writers)
        for writer in self._writers:
            # Merges run in the writer's threads and would be thrown away with it.
            writer.wait_merging_threads()
        self._writers = None
        for other in self._folder.glob("data-*"):
            if other.name != self._data:
                shutil.rmtree(other, ignore_errors=True)

    def abandon(self) -> None:
        """Drop what was not committed."""
        self._writers = None

    def _begin(self, rows: int) -> tuple[tantivy.IndexWriter, tantivy.IndexWriter]:
        heap = BULK_HEAP_BYTES if rows == BATCH else SMALL_HEAP_BYTES
        data = self._folder / self._data
        with _damage():
            self._writers = (
                self._writer(data, self._schemas[0], heap),
                self._writer(data / _PAGES, self._schemas[1], heap),
            )
        return self._writers

    def _writer(self, data: Path, schema: tantivy.Schema, heap: int) -> tantivy.IndexWriter:
        writer = _open(data, schema, create=self.at.seq == 0).writer(heap, 1)
        # Otherwise the delete file of a killed commit makes the next commit fail.
        writer.garbage_collect_files()
        beyond = Query.range_query(
            schema, "seq", tantivy.FieldType.Unsigned, lower_bound=self.at.seq, include_lower=False
        )
        writer.delete_documents_by_query(beyond)
        return writer

    def _commit(self, writers: tuple[tantivy.IndexWriter, tantivy.IndexWriter]) -> None:
        with _damage():
            for writer in writers:
                writer.commit()
        self._uncommitted = 0
        if self.at.seq - self._known > SMALL_ROWS:
            self._since, self._commits = self.at.seq, 0
        else:
            self._commits += 1
        record = {
            "shape": SHAPE,
            "data": self._data,
            "generation": self.at.generation,
            "seq": self.at.seq,
            "since": self._since,
            "commits": self._commits,
        }
        path = self._folder / _APPLIED
        # Written beside it and moved, so that a reader sees the old or the new record, and never half of one.
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(json.dumps(record))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


class _Damaged(Exception):
    """The data folder cannot be used."""


@contextmanager
def _damage() -> Iterator[None]:
    """Raise `_Damaged` for any error that tantivy raises over a damaged folder."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise _Damaged from error
    except BaseException as error:
        # Rust code that panics over broken bytes raises a class that can't be imported and is not an Exception.
        if type(error).__name__ == "PanicException":
            raise _Damaged from error
        raise


def _schema(*fields: str) -> tantivy.Schema:
    builder = (
        tantivy.SchemaBuilder()
        .add_unsigned_field("seq", indexed=True, fast=True)
        .add_unsigned_field("doc", indexed=True, fast=True)
    )
    for field in fields:
        builder = builder.add_text_field(field, tokenizer_name=_TOKENIZER, index_option="freq")
    return builder.build()


def _document(seq: int, doc: int, fields: Mapping[str, str]) -> tantivy.Document:
    document = tantivy.Document()
    # Typed calls: keyword arguments would make signed numbers, which crash the writer.
    document.add_unsigned("seq", seq)
    document.add_unsigned("doc", doc)
    for field, terms in fields.items():
        document.add_text(field, terms)
    return document


def _query(schema: tantivy.Schema, field: str, terms: Sequence[QueryTerm], docs: frozenset[int] | None) -> Query:
    asked = Query.boolean_query([(Occur.Should, _best_of(schema, field, term)) for term in terms])
    if docs is None:
        return asked
    admitted = Query.term_set_query(schema, "doc", sorted(docs))
    return Query.boolean_query([(Occur.Must, asked), (Occur.Must, Query.const_score_query(admitted, 0.0))])


def _best_of(schema: tantivy.Schema, field: str, term: QueryTerm) -> Query:
    return Query.disjunction_max_query(
        [
            Query.boost_query(Query.term_query(schema, field, text, "freq"), weight)
            for text, weight in term.alternatives
            if _is_encodable(text)
        ]
    )


def _is_encodable(text: str) -> bool:
    """Return whether `text` has no lone surrogates: no chunk has one, and tantivy's refusal would look like damage."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open(data: Path, schema: tantivy.Schema, *, create: bool = False) -> tantivy.Index:
    if not create and not tantivy.Index.exists(str(data)):
        raise _Damaged
    index = tantivy.Index(schema, path=str(data))
    analyzer = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    index.register_tokenizer(_TOKENIZER, analyzer)
    return index


def _hits(searcher: tantivy.Searcher, query: Query, limit: int) -> list[Scored]:
    """Return the best hits, equal ones in the order of `seq`."""
    found = searcher.search(query, limit=limit, count=False).hits
    places = [place for _, place in found]
    # Fast fields: each stored document would have to be decompressed.
    seqs, docs = searcher.fast_field_values("seq", places), searcher.fast_field_values("doc", places)
    # The writer gives both numbers to every document.
    hits = list(map(Scored._make, zip(seqs, docs, (score for score, _ in found), strict=True)))
    hits.sort(key=attrgetter("seq"))
    hits.sort(key=attrgetter("score"), reverse=True)
    return hits


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - faster than Path.stat, and called five times in a search
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size
