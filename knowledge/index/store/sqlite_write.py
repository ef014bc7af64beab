"""Changing the index inside one transaction: rows, names, tags, directories and vocabulary stay true together."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

import apsw

from knowledge.index.store import sqlite_vectors as vectors
from knowledge.pages.paths import ancestors, parent
from knowledge.state.document_names import names_of
from knowledge.state.ports import (
    DocumentRecord,
    IndexChange,
    IndexedChunk,
    IndexIdentity,
    IndexPosition,
    Remove,
    Replace,
    Stamp,
    Touch,
)

RECORD_COLUMNS = (
    "path, title, summary, kind, source, language, lists, untrusted, revision, "
    "size, mtime_ns, inode, tokens, indexed_at_ns"
)
_FIRST_COLUMN = itemgetter(0)
EMPTIED = (
    *("document", "document_words", "tag", "name", "chunk", "code", "vector", "coming"),
    *("removal", "directory", "vocabulary"),
)


def record_of(row: Any) -> DocumentRecord:
    """Return the record from a row of `RECORD_COLUMNS`."""
    path, title, summary, kind, source, language, lists, untrusted, revision, size, mtime, inode, tokens, at = row
    tags, aliases, sections = json.loads(lists)
    return DocumentRecord(
        path,
        title,
        summary,
        kind,
        source,
        language,
        tuple(tags),
        tuple(aliases),
        tuple(sections),
        bool(untrusted),
        revision,
        Stamp(size, mtime, inode),
        tokens,
        at,
    )


def begin(identity: IndexIdentity, c: apsw.Connection) -> bool:
    """Return whether what is stored stays; if not, it is emptied and a new generation begins."""
    found = vectors.space(c).identity
    some = c.execute("SELECT 1 FROM document LIMIT 1").fetchall()
    if found.recipe == identity.recipe and (found.same_vectors(identity) or some):
        vectors.want(identity, c)
        return True
    for table in EMPTIED:
        c.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table names
    c.execute("INSERT INTO directory VALUES ('', NULL, 0, 0)")
    c.execute(
        "UPDATE meta SET generation = lower(hex(randomblob(8))), total = 0, embedder = ?, dimensions = ?, recipe = ?, "
        "coming_embedder = NULL, coming_dimensions = NULL",
        (identity.embedder, identity.dimensions, identity.recipe),
    )
    c.execute("UPDATE meta SET space = generation")
    return False


def apply(changes: Sequence[IndexChange], fence: int, c: apsw.Connection) -> IndexPosition:
    """Make all `changes` in the caller's transaction and return the new position."""
    vectors.require_fence(fence, c)
    row: Any = c.execute("SELECT generation, seq, doc, dimensions FROM meta").fetchall()[0]
    generation, seq, doc, dimensions = row
    batch = _Batch(c, seq, doc)
    for change in changes:
        if isinstance(change, Touch):
            batch.touch(change)
        elif isinstance(change, Remove):
            batch.remove(change.path)
        else:
            batch.replace(change)
    batch.flush()
    c.execute(
        "UPDATE meta SET seq = ?, doc = ?, dimensions = ?", (batch.seq, batch.doc, dimensions or batch.dimensions)
    )
    return IndexPosition(generation, batch.seq)


class _Batch:
    """The rows of one call, gathered so that each table is written in one go."""

    def __init__(self, c: apsw.Connection, seq: int, doc: int) -> None:
        self._c, self.seq, self.doc = c, seq, doc
        self._new_words: Counter[str] = Counter()
        self._gone_words: Counter[str] = Counter()
        self._documents: Counter[str] = Counter()
        self._touched: set[str] = set()
        self._records: list[tuple[Any, ...]] = []
        self._names: list[tuple[Any, ...]] = []
        self._tags: list[tuple[str, int]] = []
        self._chunks: list[tuple[Any, ...]] = []
        self._codes: list[tuple[Any, ...]] = []
        self._vectors: list[tuple[int, bytes]] = []
        self._packed: list[tuple[int, bytes]] = []
        self._written: set[str] = set()
        self.dimensions = 0
        """The length of the vectors, 0 when there were none."""

    def touch(self, change: Touch) -> None:
        stamp = change.stamp
        if change.path in self._written:
            self._flush_rows()
        self._c.execute(
            "UPDATE document SET size = ?, mtime_ns = ?, inode = ?, indexed_at_ns = ? WHERE path = ?",
            (stamp.size, stamp.mtime_ns, stamp.inode, change.indexed_at_ns, change.path),
        )
        if self._c.changes():
            self._touched.add(parent(change.path))

    def remove(self, path: str) -> int | None:
        """Remove the document and return its number, or None if there was none."""
        if path in self._written:
            self._flush_rows()
        sql = f"SELECT {RECORD_COLUMNS}, doc, words FROM document JOIN document_words USING (doc) WHERE path = ?"  # noqa: S608 - a constant
        row: Any = self._c.execute(sql, (path,)).fetchall()
        if not row:
            return None
        *columns, doc, words = row[0]
        self._forget(record_of(columns), doc)
        self._gone_words.update(unpack_words(words))
        gone: Any = self._c.execute("SELECT seq FROM code WHERE doc = ? ORDER BY seq", (doc,)).fetchall()
        for table in ("chunk", "vector", "code"):
            self._c.executemany(f"DELETE FROM {table} WHERE seq = ?", gone)  # noqa: S608 - our own table names
        self._c.executemany(
            "INSERT INTO removal VALUES (?, ?)", [(self.seq + i, old) for i, (old,) in enumerate(gone, start=1)]
        )
        self.seq += len(gone) + 1
        self._documents[parent(path)] -= 1
        self._touched.add(parent(path))
        return int(doc)

    def _forget(self, record: DocumentRecord, doc: int) -> None:
        for table in ("document", "document_words"):
            self._c.execute(f"DELETE FROM {table} WHERE doc = ?", (doc,))  # noqa: S608 - our own table names
        self._c.executemany(
            "DELETE FROM name WHERE key = ? AND rank = ? AND path = ? AND position = ?",
            [(n.key, n.rank, record.path, n.position) for n in names_of(record)],
        )
        self._c.executemany("DELETE FROM tag WHERE tag = ? AND doc = ?", [(tag, doc) for tag in set(record.tags)])

    def replace(self, change: Replace) -> None:
        record = change.record
        doc = self.remove(record.path)
        if doc is None:
            self.doc += 1
            doc = self.doc
        words = list(chain.from_iterable(chunk.words for chunk in change.chunks))
        # Counting twice is faster than adding two counters up: the one runs in C, the other does not.
        self._new_words.update(words)
        self._gather_document(doc, record)
        self._packed.append((doc, pack_words(Counter(words))))
        self._gather(doc, change.chunks)
        self._written.add(record.path)
        self._documents[parent(record.path)] += 1
        self._touched.add(parent(record.path))

    def _gather_document(self, doc: int, r: DocumentRecord) -> None:
        s = r.stamp
        self._records.append(
            (
                *(r.path, r.title, r.summary, r.kind, r.source, r.language, compact((r.tags, r.aliases, r.sections))),
                *(int(r.untrusted), r.revision, s.size, s.mtime_ns, s.inode, r.tokens, r.indexed_at_ns),
                *(doc, r.path.casefold(), parent(r.path)),
            )
        )
        self._names += [(n.key, n.rank, r.path, n.position, n.section, doc) for n in names_of(r)]
        self._tags += [(tag, doc) for tag in set(r.tags)]

    def _gather(self, doc: int, chunks: Sequence[IndexedChunk]) -> None:
        for seq, k in enumerate(chunks, start=self.seq + 1):
            self._chunks.append((seq, doc, k.ordinal, headings(k.section), k.line_start, k.line_end, k.text))
            self._codes.append((seq, doc, k.digest, k.code))
            self._vectors.append((seq, k.half))
            self.dimensions = self.dimensions or len(k.half) // 2
        self.seq += len(chunks) + 1

    def _flush_rows(self) -> None:
        self._c.executemany(
            f"INSERT INTO document ({RECORD_COLUMNS}, doc, path_key, parent) "  # noqa: S608 - a constant
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            self._records,
        )
        # In the order of the tables, neighbours share pages.
        self._names.sort(key=_FIRST_COLUMN)
        self._c.executemany(
            "INSERT INTO name (key, rank, path, position, section, doc) VALUES (?, ?, ?, ?, ?, ?)", self._names
        )
        self._c.executemany("INSERT INTO tag VALUES (?, ?)", sorted(self._tags))
        self._c.executemany("INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?)", self._chunks)
        self._c.executemany("INSERT INTO code VALUES (?, ?, ?, ?)", self._codes)
        self._c.executemany("INSERT INTO vector VALUES (?, ?)", self._vectors)
        self._c.executemany("INSERT INTO document_words VALUES (?, ?)", self._packed)
        self._records, self._names, self._tags = [], [], []
        self._chunks, self._codes, self._vectors, self._packed = [], [], [], []
        self._written.clear()

    def flush(self) -> None:
        self._flush_rows()
        self._flush_words()
        self._flush_directories()

    def _flush_words(self) -> None:
        new, gone = self._new_words, self._gone_words
        added = [(word, new[word]) for word in sorted(new)]
        taken = [(gone[word], word) for word in sorted(gone)]
        self._c.executemany(
            "INSERT INTO vocabulary VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET chunks = chunks + excluded.chunks",
            added,
        )
        self._c.executemany("UPDATE vocabulary SET chunks = chunks - ? WHERE word = ?", taken)
        self._c.executemany("DELETE FROM vocabulary WHERE word = ? AND chunks <= 0", [(word,) for _, word in taken])

    def _flush_directories(self) -> None:
        counts: Counter[str] = Counter()
        for folder, n in self._documents.items():
            for path in with_ancestors(folder):
                counts[path] += n
        above = {path for folder in self._touched for path in with_ancestors(folder)}
        # Deepest first: a directory's newest file is among its own files and what its subdirectories already say.
        for path in sorted(above, key=lambda p: p.count("/") + bool(p), reverse=True):
            self._flush_directory(path, counts[path])

    def _flush_directory(self, path: str, more: int) -> None:
        self._c.execute(
            "INSERT INTO directory VALUES (?1, ?2, ?3, max("
            "coalesce((SELECT max(mtime_ns) FROM document WHERE parent = ?1), 0), "
            "coalesce((SELECT max(modified_ns) FROM directory WHERE parent = ?1), 0))) "
            "ON CONFLICT (path) DO UPDATE "
            "SET documents = documents + excluded.documents, modified_ns = excluded.modified_ns",
            (path, parent(path) if path else None, more),
        )
        if path:
            self._c.execute("DELETE FROM directory WHERE path = ? AND documents <= 0", (path,))


def with_ancestors(folder: str) -> Iterable[str]:
    """Return the folder and everything above it, the root last."""
    return (folder, *ancestors(folder))


_COUNTED = b"\x01"
"""How packed words begin; JSON begins with a brace, and what zlib made of it with an `x`."""
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def compact(value: object) -> str:
    """Return `value` as JSON in few characters."""
    return _encoder.encode(value)


@lru_cache(maxsize=1024)
def headings(section: tuple[str, ...]) -> str:
    """Return a heading path as JSON; neighbouring chunks often share theirs."""
    return compact(section)


def pack_words(words: Counter[str]) -> bytes:
    """Return the counts in few bytes."""
    try:
        return b"".join((_COUNTED, "\n".join(words).encode(), b"\n\n", bytes(words.values())))
    except ValueError:  # a word is in more than 255 chunks of the document
        return compact(words).encode()


def unpack_words(packed: bytes) -> dict[str, int]:
    """Return what `pack_words` packed, or an earlier version of it."""
    if packed.startswith(_COUNTED):
        words, _, counts = packed[len(_COUNTED) :].partition(b"\n\n")
        return dict(zip(words.decode().split("\n"), counts, strict=True)) if counts else {}
    found: dict[str, int] = json.loads(packed if packed.startswith(b"{") else zlib.decompress(packed))
    return found
