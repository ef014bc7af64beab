"""The index in SQLite. It is a cache: rebuilt when damaged, and every process that shares it notices when it is replaced."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import anyio.to_thread
import apsw

from knowledge.errors import CorruptDatabase, ForeignDatabase
from knowledge.index.store import sqlite_copies, sqlite_vectors, sqlite_write
from knowledge.index.store.sqlite_write import RECORD_COLUMNS, record_of
from knowledge.pages.paths import LONGEST_PATH, PageLink
from knowledge.state.document_names import BY, after_prefix, begins_in, name_key
from knowledge.state.ports import (
    LONGEST_PERIOD_DAYS,
    ChunkRow,
    CodeRow,
    Delta,
    DirectoryRecord,
    DocumentRecord,
    Filters,
    IndexChange,
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
    Replace,
    SourcedDocument,
    Space,
    Stamp,
    TaggedCount,
    TextRow,
)
from knowledge.state.sqlite.database import HEADER, Database, Value, load_schema, require_safe_engine

APPLICATION_ID = 0x4B464749  # "KFGI"

_CHUNK = """
SELECT c.seq, c.doc, c.ordinal, c.section, c.line_start, c.line_end, c.text,
       d.path, d.title, d.revision, d.source, d.untrusted, d.language, d.mtime_ns
FROM chunk c JOIN document d USING (doc) WHERE c.seq IN (SELECT value FROM carray(?))
"""
_LINKED = "SELECT path, title, lists, links FROM document LEFT JOIN document_links USING (doc)"
_SOURCED = "SELECT path, source, untrusted, mtime_ns, size FROM document ORDER BY path"
_HAPPENED = """
SELECT seq FROM (SELECT seq FROM code WHERE seq > ?1 UNION ALL SELECT seq FROM removal WHERE seq > ?1)
ORDER BY seq LIMIT 1 OFFSET ?2
"""


class SqliteIndexStore:
    """Documents, chunks, vectors and vocabulary in one file that several processes share."""

    def __init__(self, database: Database, rebuilt: str | None = None) -> None:
        self._database = database
        self.rebuilt = rebuilt
        """Why the index had to be rebuilt, when it was opened or later; None if it was not."""

    @classmethod
    async def open(cls, path: Path, *, engine: str | None = None) -> SqliteIndexStore:
        """Return the store at `path`. A damaged one is replaced by an empty one; `rebuilt` then says why.

        Raises:
            UnsafeDatabaseEngine, NewerDatabase, DatabaseUnavailable: nothing was changed.
            ForeignDatabase: the file may belong to another program.
        """

        def opened() -> SqliteIndexStore:
            require_safe_engine(engine or apsw.sqlite_lib_version())
            database = Database(path, load_schema("index", APPLICATION_ID, durable=False))
            return cls(database, _reopen_or_replace(database))

        return await anyio.to_thread.run_sync(opened)

    @property
    def path(self) -> Path:
        """The path of the database."""
        return self._database.path

    @property
    def damaged(self) -> bool:
        """Whether this store has found damage that is not repaired yet."""
        return self._database.damaged

    async def rebuild(self, reason: str) -> None:
        """Replace the index, in which this store found damage, by an empty one, unless another process did already."""
        await anyio.to_thread.run_sync(self._database.discard_damaged)
        await anyio.to_thread.run_sync(self._follow)
        self.rebuilt = reason

    def _follow(self) -> None:
        if self._database.replaced:
            self.rebuilt = _reopen_or_replace(self._database) or self.rebuilt

    async def position(self) -> IndexPosition:
        """Return the position; if another process has replaced the file, the new file's position."""
        self._follow()
        rows: Any = self._database.query("SELECT generation, seq FROM meta")
        return IndexPosition(*rows[0])

    async def begin(self, identity: IndexIdentity) -> bool:
        """Return whether the content was kept; if not, the store is now empty and has a new generation."""
        self._follow()
        return await self._database.write(partial(sqlite_write.begin, identity))

    async def space(self) -> Space:
        """Return which embedder's vectors are stored, and which are being made."""
        self._follow()
        return sqlite_vectors.space_of(self._database.query(sqlite_vectors.META))

    async def lacking(self, after: int, *, limit: int) -> Sequence[LackingRow]:
        """Return at most `limit` chunks above `after`, by `seq`, without a vector of the wanted embedder."""
        return await self._database.bulk(partial(sqlite_vectors.lacking, after, limit))

    async def supply(self, vectors: Mapping[bytes, tuple[bytes, bytes]], *, of: IndexIdentity, fence: int) -> bool:
        """Store these vectors beside those in use.

        Returns False and stores nothing if `of` is not the configured embedder.
        """
        return await self._database.write(partial(sqlite_vectors.supply, vectors, of, fence))

    async def swap(self, *, fence: int) -> bool:
        """Use the supplied vectors from now on.

        Returns False and does nothing while a chunk lacks one.
        """
        return await self._database.write(partial(sqlite_vectors.swap, fence))

    async def renewal(self) -> Progress | None:
        """Return the number of chunks with a vector of the wanted embedder, and of all chunks; None if all have one."""
        return await self._database.bulk(sqlite_vectors.renewal)

    async def apply(self, changes: Sequence[IndexChange], *, fence: int) -> IndexPosition:
        """Make all `changes`, or none, and return the new position.

        Raises:
            LeaseLost: a writer with a higher fence has been here.
            DatabaseUnavailable: the database failed, or its file was replaced: then the caller's knowledge is outdated.
        """
        return await self._database.write(partial(sqlite_write.apply, changes, fence))

    async def set_total(self, total: int) -> None:
        """Store how many documents are to be indexed."""
        await self._database.write(lambda c: c.execute("UPDATE meta SET total = ?", (total,)).fetchall())

    async def progress(self) -> Progress:
        """Return the number of documents indexed, and to be indexed (at least `done`)."""
        rows: Any = self._database.query("SELECT documents, total FROM directory, meta WHERE path = ''")
        done, total = rows[0]
        return Progress(done, max(done, total))

    async def stamps(self, paths: Sequence[str] | None = None) -> Mapping[str, tuple[Stamp, str, int]]:
        """Return stamp, revision and `indexed_at_ns` by path, for the documents among `paths`, or for every document."""
        # This index covers the query. Reading the wide rows of the table would make every start slow and large.
        sql = "SELECT path, size, mtime_ns, inode, revision, indexed_at_ns FROM document INDEXED BY document_stamp"
        if paths is None:
            rows: Any = await self._database.bulk(lambda c: c.execute(sql).fetchall())
        else:
            asked = [(path,) for path in paths]
            rows = await self._database.bulk(lambda c: c.executemany(f"{sql} WHERE path = ?", asked).fetchall())
        return {path: (Stamp(size, mtime, inode), revision, at) for path, size, mtime, inode, revision, at in rows}

    async def vectors(self, digests: Sequence[bytes]) -> Mapping[bytes, tuple[bytes, bytes]]:
        """Return `(half, code)` of the chunk texts that have a vector in use."""
        sql = "SELECT digest, half, code FROM code JOIN vector USING (seq) WHERE digest = ? AND half <> x'' LIMIT 1"
        asked = [(digest,) for digest in set(digests)]
        rows: Any = await self._database.bulk(lambda c: c.executemany(sql, asked).fetchall())
        return {digest: (half, code) for digest, half, code in rows}

    async def delta(self, after: IndexPosition, *, limit: int, texts: bool = False, codes: bool = False) -> Delta:
        """Return at most `limit` rows and removals after `after`; from the beginning if the generation differs."""
        return await self._database.bulk(partial(_delta, after, limit, texts, codes))

    async def halves(self, seqs: Sequence[int]) -> Sequence[bytes]:
        """Return the float16 vectors of these chunks in this order; empty bytes for a chunk that is removed or has none yet."""
        # A left join looks the numbers up in their order, so nothing needs sorting.
        sql = "SELECT half FROM carray(?) LEFT JOIN vector ON seq = value"
        rows: Any = self._database.query(sql, (numbers(seqs),)) if seqs else ()
        return [half or b"" for (half,) in rows]

    async def chunks(self, seqs: Sequence[int]) -> Mapping[int, ChunkRow]:
        """Return the chunks that still exist."""
        rows: Any = self._database.query(_CHUNK, (numbers(seqs),)) if seqs else ()
        return {row[0]: _chunk_row(row) for row in rows}

    async def document(self, path: str) -> DocumentRecord | None:
        """Return the record of one document."""
        rows = self._database.query(f"SELECT {RECORD_COLUMNS} FROM document WHERE path = ?", (path,))  # noqa: S608 - a constant
        return record_of(rows[0]) if rows else None

    async def records(self, docs: Collection[int]) -> Mapping[int, DocumentRecord]:
        """Return the records of the documents that still exist."""
        asked = json.dumps(sorted(docs))
        sql = f"SELECT doc, {RECORD_COLUMNS} FROM document WHERE doc IN (SELECT value FROM json_each(?))"  # noqa: S608 - a constant
        rows: Any = self._database.query(sql, (asked,))
        return {row[0]: record_of(row[1:]) for row in rows}

    async def directory(self, path: str) -> DirectoryRecord | None:
        """Return the record of one directory; the root is `""` and always exists."""
        rows: Any = self._database.query("SELECT path, documents, modified_ns FROM directory WHERE path = ?", (path,))
        return DirectoryRecord(*rows[0]) if rows else None

    async def directories_ending(self, ends: Collection[str], *, limit: int) -> Sequence[str]:
        """Return the paths of directories that equal one of these paths or end in it (ASCII case ignored), by path."""
        # All paths are read: 0.9 ms for 10,000 directories. With substr() in place of LIKE it takes 7 ms.
        # SQLite refuses patterns of 50,000 bytes, and no path is that long.
        patterns = [re.sub(r"([%_\\])", r"\\\1", end) for end in ends if 0 < len(end) <= LONGEST_PATH]
        if not patterns:
            return []
        where = " OR ".join(r"path LIKE ? ESCAPE '\' OR path LIKE '%/' || ? ESCAPE '\'" for _ in patterns)
        sql = f"SELECT path FROM directory WHERE {where} ORDER BY path LIMIT ?"  # noqa: S608 - constants, values are bound
        twice = [pattern for pattern in patterns for _ in range(2)]
        rows: Any = self._database.query(sql, (*twice, limit))
        return [path for (path,) in rows]

    async def children(
        self, directory: str, *, limit: int, folders_after: str | None = "", documents_after: str | None = ""
    ) -> tuple[Sequence[DirectoryRecord], Sequence[DocumentRecord]]:
        """Return subdirectories and documents right below, each by path, at most `limit` of each.

        Only subdirectories after the path `folders_after` and documents after the path `documents_after` are returned;
        none of a kind whose path is None.
        """

        def look(c: apsw.Connection) -> tuple[Any, Any]:
            where = "WHERE parent = ? AND path > ? ORDER BY path LIMIT ?"
            # Nothing is greater than NULL, so None finds no row.
            folders = f"SELECT path, documents, modified_ns FROM directory {where}"  # noqa: S608 - a constant
            files = f"SELECT {RECORD_COLUMNS} FROM document {where}"  # noqa: S608 - constants
            return (
                c.execute(folders, (directory, folders_after, limit)).fetchall(),
                c.execute(files, (directory, documents_after, limit)).fetchall(),
            )

        folders, files = self._database.read(look)
        return [DirectoryRecord(*row) for row in folders], [record_of(row) for row in files]

    async def select(self, filters: Filters) -> frozenset[int] | None:
        """Return the numbers of the documents that `filters` admit; None without filters."""
        where, args = _condition(filters)
        if not where:
            return None
        sql = f"SELECT doc FROM document WHERE {' AND '.join(where)}"  # noqa: S608 - made of constants, values are bound
        rows: Any = self._database.query(sql, args)
        return frozenset(chain.from_iterable(rows))  # there may be ten thousand

    async def named(self, name: str, *, limit: int, spellings: Sequence[str] = ()) -> Sequence[NameMatch]:
        """Return the documents and sections called `name`, or else the first of `spellings`, each once, by its best match."""
        return self._database.read(partial(_named, [*filter(None, map(name_key, (name, *spellings)))], limit))

    async def of_periods(self, periods: Sequence[Period], *, limit: int) -> Sequence[int]:
        """Return documents of one of these times, or of a longer time around one of them."""

        def look(c: apsw.Connection) -> list[int]:
            found: list[int] = []
            inside = (
                "SELECT doc FROM period WHERE first BETWEEN ?1 AND ?2 AND last <= ?2 "
                "ORDER BY first, last DESC, doc LIMIT ?3"
            )
            for period in periods:
                docs = [doc for (doc,) in c.execute(inside, (*period, limit + 1))]
                if found and len(found) + len(docs) > limit:
                    break
                found += docs
            # Without the first bound, all earlier documents would be looked through.
            around = (
                "SELECT doc FROM period WHERE first BETWEEN date(?1, ?4) AND ?1 AND last >= ?2 "
                "ORDER BY first, last DESC, doc LIMIT ?3"
            )
            for period in () if found else periods:
                found = [doc for (doc,) in c.execute(around, (*period, limit, f"-{LONGEST_PERIOD_DAYS} days"))]
                if found:
                    break
            return found[:limit]

        return self._database.read(look)

    async def having_properties(self, terms: Collection[str], *, most: int) -> Mapping[str, Sequence[int]]:
        """Return, for each term, the documents whose properties have it; terms that more than `most` have are left out."""
        if not terms:
            return {}

        def look(c: apsw.Connection) -> dict[str, list[int]]:
            # Few of the twenty terms of a question are in any property: one query for all of them takes a quarter of the time.
            some = "SELECT value FROM carray(?) WHERE EXISTS (SELECT 1 FROM property_term WHERE term = value)"
            known: Any = c.execute(some, (apsw.carray(tuple(terms)),)).fetchall()
            having = "SELECT doc FROM property_term WHERE term = ? LIMIT ?"
            found = {term: [doc for (doc,) in c.execute(having, (term, most + 1))] for (term,) in known}
            return {term: docs for term, docs in found.items() if len(docs) <= most}

        return self._database.read(look)

    async def properties(self, docs: Collection[int]) -> Mapping[int, PropertyLines]:
        """Return the property lines of those of the documents that have any."""
        sql = "SELECT doc, line_start, text FROM property WHERE doc IN (SELECT value FROM carray(?))"
        rows: Any = self._database.query(sql, (numbers(sorted(docs)),)) if docs else ()
        return {doc: PropertyLines(*lines) for doc, *lines in rows}

    async def first_chunk(self, doc: int, section: str | None) -> int | None:
        """Return the first chunk of the document or of its section, or None."""
        sql = "SELECT chunk.seq, section FROM code JOIN chunk USING (seq) WHERE code.doc = ? ORDER BY ordinal"
        rows: Any = self._database.query(sql, (doc,))
        return next((seq for seq, headings in rows if begins_in(json.loads(headings), section)), None)

    async def first_chunks(self, docs: Collection[int]) -> Mapping[int, int]:
        """Return the first chunk of each of the documents that has one."""
        sql = "SELECT doc, min(seq) FROM code WHERE doc IN (SELECT value FROM carray(?)) GROUP BY doc"
        return dict(self._database.query(sql, (numbers(sorted(docs)),)) if docs else ())  # type: ignore[arg-type]  # two numbers each

    async def languages(self) -> Mapping[str, int]:
        """Return the number of documents in each language, most frequent first."""
        rows: Any = self._database.query("SELECT language, documents FROM language ORDER BY documents DESC, language")
        return dict(rows)

    async def tags(self, *, limit: int) -> Sequence[tuple[str, int]]:
        """Return tags with the number of documents that have them, most frequent first, then by tag."""
        rows: Any = self._database.query(
            "SELECT tag, count(*) FROM tag GROUP BY tag ORDER BY 2 DESC, 1 LIMIT ?", (limit,)
        )
        return list(rows)

    async def tagged(self, tags: Collection[str], *, after: str = "", limit: int) -> Sequence[DocumentRecord]:
        """Return the documents with one of the tags or one below it, by path, those after the path `after`."""
        where, args = _tagged_with(tags)
        # Of all others only the narrow index is read: 3 instead of 5 ms if 10,000 have the tag.
        paths = f"SELECT path FROM document INDEXED BY document_stamp WHERE path > ? AND {where} ORDER BY path LIMIT ?"  # noqa: S608 - constants
        sql = f"SELECT {RECORD_COLUMNS} FROM document WHERE path IN ({paths}) ORDER BY path"  # noqa: S608 - constants, values are bound
        return [record_of(row) for row in self._database.query(sql, (after, *args, limit))]

    async def count_tagged(self, tags: Collection[str], *, after: str = "") -> TaggedCount:
        """Return how many documents `tagged` would return without a limit, and when the newest of their files was changed."""
        where, args = _tagged_with(tags)
        sql = f"SELECT count(*), max(mtime_ns) FROM document INDEXED BY document_stamp WHERE path > ? AND {where}"  # noqa: S608 - constants
        rows: Any = self._database.query(sql, (after, *args))
        documents, newest_ns = rows[0]
        return TaggedCount(documents, newest_ns or 0)

    async def newest(self, *, limit: int) -> Sequence[DocumentRecord]:
        """Return documents by the time at which their files were last changed, newest first, then by path."""
        # Only the narrow index is read and sorted: 5 ms for 10,000 documents.
        newest = "SELECT path FROM document INDEXED BY document_stamp ORDER BY mtime_ns DESC, path LIMIT ?"
        sql = f"SELECT {RECORD_COLUMNS} FROM document WHERE path IN ({newest}) ORDER BY mtime_ns DESC, path"  # noqa: S608 - constants
        return [record_of(row) for row in self._database.query(sql, (limit,))]

    async def paths(self, *, prefix: str = "", contains: str = "", limit: int) -> Sequence[str]:
        """Return document paths that begin with `prefix` and contain `contains` (case ignored), by path."""
        head, args = prefix.casefold(), [contains.casefold()]
        where = "instr(path_key, ?)" if contains else "? = ''"
        if head:
            where, args = where + " AND path_key >= ?", [*args, head]
            if end := after_prefix(head):
                where, args = where + " AND path_key < ?", [*args, end]
        sql = f"SELECT path FROM document WHERE {where} ORDER BY path LIMIT ?"  # noqa: S608 - constants, values are bound
        rows: Any = self._database.query(sql, (*args, limit))
        return [path for (path,) in rows]

    async def mentioning(self, words: Collection[str]) -> Sequence[str]:
        """Return the paths of documents whose text has one of these strings (case ignored), by path."""
        keys = [word.casefold() for word in words]

        def find(c: apsw.Connection) -> list[str]:
            # SQLite folds the case of ASCII only.
            rows: Any = c.execute("SELECT doc, text FROM chunk")
            docs = {doc for doc, text in rows if any(key in text.casefold() for key in keys)}
            sql = "SELECT path FROM document WHERE doc IN (SELECT value FROM json_each(?))"
            named: Any = c.execute(sql, (json.dumps(sorted(docs)),))
            return sorted(path for (path,) in named)

        return await self._database.bulk(find) if keys else []

    async def linking(self, keys: Collection[str], *, limit: int) -> Sequence[LinkRow]:
        """Return at most `limit` links that have one of these keys (`link_keys`), by page, each once."""
        # Each key for itself is read in the order of the table: a page with thousands of backlinks needs no sorting.
        sql = "SELECT page, path, wiki FROM link WHERE key = ? ORDER BY page, path, wiki LIMIT ?"
        asked = [(key, limit) for key in keys]
        rows: Any = self._database.read(lambda c: c.executemany(sql, asked).fetchall())
        return [LinkRow(page, PageLink(path, bool(wiki))) for page, path, wiki in sorted(set(rows))[:limit]]

    async def linked_documents(self, paths: Collection[str] | None = None) -> Sequence[LinkedDocument]:
        """Return the documents among `paths`, or all of them, with their links, by path."""
        if paths is None:
            return await self._database.bulk(lambda c: _linked(c.execute(f"{_LINKED} ORDER BY path").fetchall()))
        sql = f"{_LINKED} WHERE path IN (SELECT value FROM json_each(?)) ORDER BY path"  # noqa: S608 - a constant
        return _linked(self._database.query(sql, (json.dumps(list(paths)),))) if paths else []

    async def sourced_documents(self) -> Sequence[SourcedDocument]:
        """Return every document with its source and its file's time and size, by path."""
        rows: list[Any] = await self._database.bulk(lambda c: c.execute(_SOURCED).fetchall())
        return [SourcedDocument(path, source, bool(untrusted), *stamp) for path, source, untrusted, *stamp in rows]

    async def existing(self, paths: Collection[str]) -> frozenset[str]:
        """Return those of the paths that a document has."""
        sql = "SELECT path FROM document WHERE path IN (SELECT value FROM json_each(?))"
        rows: Any = self._database.query(sql, (json.dumps(list(paths)),)) if paths else ()
        return frozenset(path for (path,) in rows)

    async def frequencies(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the number of chunks with each known word."""
        sql = "SELECT word, chunks FROM carray(?) CROSS JOIN vocabulary ON word = value"
        rows: Any = self._database.query(sql, (apsw.carray(tuple(words)),)) if words else ()
        return dict(rows)

    async def completions(self, prefix: str, *, limit: int) -> Sequence[str]:
        """Return known words that begin with `prefix`, most frequent first, then by word."""
        end = after_prefix(prefix)
        args: tuple[Value, ...] = (prefix, end, limit) if end else (prefix, limit)
        bound = "AND word < ?" if end else ""
        sql = f"SELECT word FROM vocabulary WHERE word >= ? {bound} ORDER BY chunks DESC, word LIMIT ?"  # noqa: S608 - constants
        rows: Any = self._database.query(sql, args)
        return [word for (word,) in rows]

    async def vocabulary(self) -> Sequence[tuple[str, int]]:
        """Return every known word with the number of its chunks, by word."""
        sql = "SELECT word, chunks FROM vocabulary ORDER BY word"
        rows: Any = await self._database.bulk(lambda c: c.execute(sql).fetchall())
        found: list[tuple[str, int]] = rows
        return found

    async def copies(self, paths: Sequence[str]) -> Sequence[Replace]:
        """Return the existing documents among `paths`, as changes that store them in another index."""
        return await self._database.bulk(partial(sqlite_copies.copies, paths))

    async def check(self) -> Sequence[str]:
        """Return the faults of the file, if any. Reads all of it."""
        return await anyio.to_thread.run_sync(self._database.check)

    async def close(self) -> None:
        """Close the database."""
        await anyio.to_thread.run_sync(self._database.close)


def _linked(rows: Sequence[Any]) -> list[LinkedDocument]:
    """Return the documents in rows of `_LINKED`."""
    return [
        LinkedDocument(
            path,
            title,
            tuple(json.loads(lists)[1]),
            tuple(PageLink(target, bool(wiki)) for target, wiki in json.loads(links or "[]")),
        )
        for path, title, lists, links in rows
    ]


def _reopen_or_replace(database: Database) -> str | None:
    """Connect to the current file; return why it had to be replaced, or None if it is sound."""
    try:
        database.reopen()
    except CorruptDatabase as error:
        reason = error.reason
    except ForeignDatabase as error:
        if not database.path.is_file():
            raise
        with database.path.open("rb") as file:
            # A sound database may belong to another program. Anything else is probably ours, with its beginning damaged.
            if file.read(len(HEADER)) == HEADER:
                raise
        reason = error.reason
    else:
        return None
    database.discard_damaged()
    database.reopen()
    return reason


def _delta(after: IndexPosition, limit: int, texts: bool, codes: bool, c: apsw.Connection) -> Delta:  # noqa: FBT001 - bound by partial
    meta: Any = c.execute(f"SELECT {'space' if codes else 'generation'}, seq FROM meta").fetchall()  # noqa: S608 - constants
    generation, newest = meta[0]
    start, upto = (after.seq if after.generation == generation else 0), newest
    # Every row has its own seq, so few numbers mean few rows, which need no counting.
    if newest - start > limit:
        cut: Any = c.execute(_HAPPENED, (start, limit - 1)).fetchall()
        more: Any = c.execute(_HAPPENED, (start, limit)).fetchall()
        upto = cut[0][0] if more else newest
    span = (start, upto)
    found_texts: list[TextRow] = []
    if texts:
        rows: Any = c.execute(
            "SELECT c.seq, c.doc, d.title, c.section, c.text, d.language FROM chunk c JOIN document d USING (doc) "
            "WHERE c.seq > ? AND c.seq <= ? ORDER BY c.seq",
            span,
        )
        found_texts = [
            TextRow(seq, doc, title, tuple(json.loads(section)), text, lang)
            for seq, doc, title, section, text, lang in rows
        ]
    found_names: list[NameRow] = []
    if found_texts:
        docs = list(dict.fromkeys(row.doc for row in found_texts))
        rows = c.execute(
            "SELECT doc, path, title, lists, language FROM document WHERE doc IN (SELECT value FROM carray(?))",
            (numbers(docs),),
        )
        found_names = [
            NameRow(doc, path, title, tuple(json.loads(lists)[1]), lang) for doc, path, title, lists, lang in rows
        ]
    found_codes: list[CodeRow] = []
    if codes:
        rows = c.execute("SELECT seq, doc, code FROM code WHERE seq > ? AND seq <= ? ORDER BY seq", span)
        found_codes = [CodeRow(*row) for row in rows]
    # A row that was stored and removed within the span is not reported at all.
    rows = c.execute("SELECT gone FROM removal WHERE seq > ?1 AND seq <= ?2 AND gone <= ?1 ORDER BY seq", span)
    return Delta(found_texts, found_codes, [gone for (gone,) in rows], IndexPosition(generation, upto), found_names)


def numbers(values: Sequence[int]) -> object:
    """Return `values`, at least one, as a table for SQL; measured faster than JSON, or a query for each."""
    return apsw.carray(array("q", values))


def _named(keys: Sequence[str], limit: int, c: apsw.Connection) -> list[NameMatch]:
    return next((found for key in keys if (found := _named_by_key(key, limit, c))), [])


def _named_by_key(key: str, limit: int, c: apsw.Connection) -> list[NameMatch]:
    sql = "SELECT doc, section, rank, path FROM name WHERE key = ? ORDER BY rank, path, position"
    found: dict[tuple[int, str | None], NameMatch] = {}
    rows: Any = c.execute(sql, (key,))
    for doc, section, rank, path in rows:
        if len(found) >= limit:
            break
        found.setdefault((doc, section), NameMatch(doc, path, section, BY[rank]))
    return list(found.values())


_TAGGED = "doc IN (SELECT doc FROM tag WHERE tag = ? OR (tag >= ? AND tag < ?))"


def _tag_range(tag: str) -> tuple[str, str, str]:
    """Return the tag and the range of those below it: "0" follows "/"."""
    return tag, f"{tag}/", f"{tag}0"


def _tagged_with(tags: Collection[str]) -> tuple[str, Sequence[Value]]:
    """Return the condition that a document has one of the tags or one below it, and its arguments."""
    return f"({' OR '.join([_TAGGED] * len(tags))})", [value for tag in tags for value in _tag_range(tag)]


def _condition(filters: Filters) -> tuple[list[str], list[Value]]:
    where: list[str] = []
    args: list[Value] = []

    def need(sql: str, *values: Value) -> None:
        where.append(sql)
        args.extend(values)

    if filters.path:
        # "0" follows "/", as ";" follows ":": these are the ranges of everything below.
        need("(path = ? OR (path >= ? AND path < ?))", filters.path, filters.path + "/", filters.path + "0")
    for tag in filters.tags:
        need(_TAGGED, *_tag_range(tag))
    if filters.kind is not None:
        need("kind = ?", filters.kind)
    if (source := filters.source) is not None:
        need("(source = ? OR (source >= ? AND source < ?))", source, source + ":", source + ";")
    if filters.modified_after_ns is not None:
        need("mtime_ns >= ?", filters.modified_after_ns)
    if filters.modified_before_ns is not None:
        need("mtime_ns < ?", filters.modified_before_ns)
    if filters.paths is not None:
        need("path IN (SELECT value FROM json_each(?))", json.dumps(filters.paths))
    return where, args


def _chunk_row(row: Any) -> ChunkRow:
    seq, doc, ordinal, section, start, end, text, path, title, revision, source, untrusted, language, modified_ns = row
    headings = _headings(section)
    about = (path, title, revision, source, bool(untrusted), language, modified_ns)
    return ChunkRow(seq, doc, ordinal, headings, start, end, text, *about)


@lru_cache(maxsize=4_096)
def _headings(stored: str) -> tuple[str, ...]:
    return tuple(json.loads(stored))
