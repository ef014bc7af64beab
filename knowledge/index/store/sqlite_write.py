"""Writes to the index inside one transaction, so that rows, names, tags, directories and vocabulary always agree."""

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

from knowledge.index.store import sqlite_vectors
from knowledge.pages.paths import PageLink, ancestors, parent
from knowledge.state.document_names import link_keys, names_of
from knowledge.state.ports import (
    DocumentRecord,
    IndexChange,
    IndexIdentity,
    IndexPosition,
    Remove,
    Replace,
    Stamp,
    Touch,
)
from knowledge.state.sqlite.database import CACHE_KB

RECORD_COLUMNS = (
    "path, title, summary, kind, source, language, lists, untrusted, revision, "
    "size, mtime_ns, inode, tokens, indexed_at_ns"
)
_FIRST_COLUMN = itemgetter(0)
_DECODER = json.JSONDecoder()
TERM_SEPARATOR = "\n"
BATCH_CACHE_KB, FEW_ROWS = 32_000, 256
"""A batch with more rows needs a larger cache of pages: a writer whose cache is full must write pages before the commit."""
EMPTIED = (
    *("document", "document_words", "document_links", "link", "tag", "name", "chunk", "code", "vector"),
    *("removal", "directory", "language", "vocabulary", "property", "property_term"),
    "period",
)


def record_of(row: Any) -> DocumentRecord:
    """Return the record in a row of `RECORD_COLUMNS`."""
    path, title, summary, kind, source, language, lists, untrusted, revision, size, mtime, inode, tokens, at = row
    (tags, aliases, sections), _ = _DECODER.raw_decode(lists)  # `loads` would look at the form of the text first
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
    """Return whether the content was kept; if not, it is deleted and a new generation begins."""
    space = sqlite_vectors.space(c)
    filled = c.execute("SELECT 1 FROM document LIMIT 1").fetchall()
    fits = filled or space.identity.same_vectors(identity) or space.wanted.same_vectors(identity)
    if fits and space.identity.recipe == identity.recipe:
        sqlite_vectors.want(identity, c)
        return True
    kept = sqlite_vectors.set_aside(identity, c) if filled or space.coming else None
    if kept is None:
        c.execute("DELETE FROM coming")
    for table in EMPTIED:
        c.execute(f"DELETE FROM {table}")  # noqa: S608 - our own table names
    c.execute("INSERT INTO directory VALUES ('', NULL, 0, 0)")
    c.execute(
        "UPDATE meta SET generation = lower(hex(randomblob(8))), total = 0, embedder = ?, dimensions = ?, recipe = ?, "
        "coming_embedder = ?, coming_dimensions = ?",
        (identity.embedder, identity.dimensions, identity.recipe, *(kept or (None, None))),
    )
    c.execute("UPDATE meta SET space = generation")
    return False


def apply(changes: Sequence[IndexChange], fence: int, c: apsw.Connection) -> IndexPosition:
    """Make all `changes` in the caller's transaction and return the new position."""
    sqlite_vectors.require_fence(fence, c)
    rows = len(changes) + sum(len(change.chunks) for change in changes if isinstance(change, Replace))
    # A cache grows to its limit in some hours and stays there, so only batches have the large one.
    c.execute(f"PRAGMA cache_size={-(CACHE_KB if rows <= FEW_ROWS else BATCH_CACHE_KB)}")
    row: Any = c.execute("SELECT generation, seq, doc, dimensions FROM meta").fetchall()[0]
    generation, seq, doc, dimensions = row
    batch = _Batch(c, seq, doc, _existing(changes, c))
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


def _existing(changes: Sequence[IndexChange], c: apsw.Connection) -> set[str]:
    """Return the paths of the documents to be replaced that exist."""
    paths = [change.record.path for change in changes if isinstance(change, Replace)]
    found = (
        c.execute("SELECT path FROM document WHERE path IN (SELECT value FROM carray(?))", (apsw.carray(tuple(paths)),))
        if paths
        else ()
    )
    return {path for (path,) in found}


_INSERTS = {
    "document": (
        f"INSERT INTO document ({RECORD_COLUMNS}, doc, path_key, parent) "  # noqa: S608 - a constant
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    ),
    "name": "INSERT INTO name (key, rank, path, position, section, doc) VALUES (?, ?, ?, ?, ?, ?)",
    "tag": "INSERT INTO tag VALUES (?, ?)",
    "link": "INSERT INTO link VALUES (?, ?, ?, ?)",
    "document_links": "INSERT INTO document_links VALUES (?, ?)",
    "chunk": "INSERT INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?)",
    "code": "INSERT INTO code VALUES (?, ?, ?, ?)",
    "vector": "INSERT INTO vector VALUES (?, ?)",
    "document_words": "INSERT INTO document_words VALUES (?, ?)",
    "property": "INSERT INTO property VALUES (?, ?, ?, ?)",
    "property_term": "INSERT INTO property_term VALUES (?, ?)",
    "period": "INSERT INTO period VALUES (?, ?, ?)",
}


class _Batch:
    """The rows of one call, collected so that each table is written at once."""

    def __init__(self, c: apsw.Connection, seq: int, doc: int, existing: set[str]) -> None:
        self._c, self.seq, self.doc = c, seq, doc
        self._existing = existing
        """Documents that may have to be removed before they are written: a query for each of thousands of new ones takes seconds."""
        self._new_words: Counter[str] = Counter()
        self._gone_words: Counter[str] = Counter()
        self._documents: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._touched: set[str] = set()
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _INSERTS}
        self._unwritten: set[str] = set()
        """Documents whose rows are not in the database yet."""
        self.dimensions = 0
        """The length of the vectors; 0 if there were none."""

    def touch(self, change: Touch) -> None:
        stamp = change.stamp
        # The document came in this batch already, and the update needs its row.
        if change.path in self._unwritten:
            self._flush_rows()
        self._c.execute(
            "UPDATE document SET size = ?, mtime_ns = ?, inode = ?, indexed_at_ns = ? WHERE path = ?",
            (stamp.size, stamp.mtime_ns, stamp.inode, change.indexed_at_ns, change.path),
        )
        if self._c.changes():
            self._touched.add(parent(change.path))

    def remove(self, path: str) -> int | None:
        """Remove the document and return its number, or None if there is none."""
        if path in self._unwritten:
            self._flush_rows()
        sql = (
            f"SELECT {RECORD_COLUMNS}, doc, words, links FROM document JOIN document_words USING (doc) "  # noqa: S608 - a constant
            "LEFT JOIN document_links USING (doc) WHERE path = ?"
        )
        row: Any = self._c.execute(sql, (path,)).fetchall()
        if not row:
            return None
        *columns, doc, words, links = row[0]
        record = record_of(columns)
        if links:
            gone_links = _link_rows(path, [PageLink(target, bool(wiki)) for target, wiki in json.loads(links)])
            self._c.executemany("DELETE FROM link WHERE key = ? AND page = ? AND path = ? AND wiki = ?", gone_links)
        for table in ("document", "document_words", "document_links", "period"):
            self._c.execute(f"DELETE FROM {table} WHERE doc = ?", (doc,))  # noqa: S608 - our own table names
        self._c.executemany(
            # The table is stored by key and has no index by document, so the keys are computed again from the record.
            "DELETE FROM name WHERE key = ? AND rank = ? AND path = ? AND position = ?",
            [(n.key, n.rank, record.path, n.position) for n in names_of(record)],
        )
        self._c.executemany("DELETE FROM tag WHERE tag = ? AND doc = ?", [(tag, doc) for tag in set(record.tags)])
        properties: Any = self._c.execute("DELETE FROM property WHERE doc = ? RETURNING terms", (doc,)).fetchall()
        gone_terms = [(term, doc) for (terms,) in properties for term in terms.split(TERM_SEPARATOR)]
        self._c.executemany("DELETE FROM property_term WHERE term = ? AND doc = ?", gone_terms)
        self._gone_words.update(unpack_words(words))
        gone: Any = self._c.execute("SELECT seq FROM code WHERE doc = ? ORDER BY seq", (doc,)).fetchall()
        for table in ("chunk", "vector", "code"):
            self._c.executemany(f"DELETE FROM {table} WHERE seq = ?", gone)  # noqa: S608 - our own table names
        self._c.executemany(
            "INSERT INTO removal VALUES (?, ?)", [(self.seq + i, old) for i, (old,) in enumerate(gone, start=1)]
        )
        # One more, so that a cache keyed by position also notices a document without chunks.
        self.seq += len(gone) + 1
        self._documents[parent(path)] -= 1
        self._languages[record.language] -= 1
        self._touched.add(parent(path))
        return int(doc)

    def replace(self, change: Replace) -> None:
        r, s = change.record, change.record.stamp
        doc = self.remove(r.path) if r.path in self._existing else None
        self._existing.add(r.path)
        if doc is None:
            self.doc += 1
            doc = self.doc
        properties = change.properties
        words = list(chain(*(chunk.words for chunk in change.chunks), properties.words if properties else ()))
        # Counting twice is faster than adding two counters: counting runs in C, adding does not.
        self._new_words.update(words)
        rows = self._rows
        rows["document"].append(
            (
                *(r.path, r.title, r.summary, r.kind, r.source, r.language, compact((r.tags, r.aliases, r.sections))),
                *(int(r.untrusted), r.revision, s.size, s.mtime_ns, s.inode, r.tokens, r.indexed_at_ns),
                *(doc, r.path.casefold(), parent(r.path)),
            )
        )
        rows["name"] += [(n.key, n.rank, r.path, n.position, n.section, doc) for n in names_of(r)]
        rows["tag"] += [(tag, doc) for tag in set(r.tags)]
        rows["document_words"].append((doc, pack_words(Counter(words))))
        if properties:
            rows["property"].append((doc, *properties.lines, TERM_SEPARATOR.join(properties.terms)))
            rows["property_term"] += [(term, doc) for term in properties.terms]
        if change.period:
            rows["period"].append((doc, *change.period))
        if change.links:
            rows["document_links"].append((doc, compact(change.links)))
            rows["link"] += _link_rows(r.path, change.links)
        for seq, k in enumerate(change.chunks, start=self.seq + 1):
            rows["chunk"].append((seq, doc, k.ordinal, headings(k.section), k.line_start, k.line_end, k.text))
            rows["code"].append((seq, doc, k.digest, k.code))
            rows["vector"].append((seq, k.half))
            self.dimensions = self.dimensions or len(k.half) // 2
        self.seq += len(change.chunks) + 1
        self._unwritten.add(r.path)
        self._documents[parent(r.path)] += 1
        self._languages[r.language] += 1
        self._touched.add(parent(r.path))

    def _flush_rows(self) -> None:
        # In the order of the table, adjacent rows share pages.
        self._rows["name"].sort(key=_FIRST_COLUMN)
        self._rows["tag"].sort()
        self._rows["property_term"].sort()
        self._rows["link"].sort()
        for table, sql in _INSERTS.items():
            self._c.executemany(sql, self._rows[table])
            self._rows[table] = []
        self._unwritten.clear()

    def flush(self) -> None:
        """Write everything that was collected."""
        self._flush_rows()
        self._flush_words()
        self._flush_languages()
        counts: Counter[str] = Counter()
        for folder, n in self._documents.items():
            for path in with_ancestors(folder):
                counts[path] += n
        above = {path for folder in self._touched for path in with_ancestors(folder)}
        # Deepest first: a directory's newest time comes from its own files and from its subdirectories' rows.
        for path in sorted(above, key=lambda p: p.count("/") + bool(p), reverse=True):
            self._flush_directory(path, counts[path])

    def _flush_words(self) -> None:
        new, gone = self._new_words, self._gone_words
        # Most words of a page that has changed were in it before, in as many chunks, and their rows stay as they are.
        added = [(word, more) for word in sorted(new) if (more := new[word] - gone.get(word, 0)) > 0]
        taken = [(fewer, word) for word in sorted(gone) if (fewer := gone[word] - new.get(word, 0)) > 0]
        self._c.executemany(
            "INSERT INTO vocabulary VALUES (?, ?) ON CONFLICT (word) DO UPDATE SET chunks = chunks + excluded.chunks",
            added,
        )
        self._c.executemany("UPDATE vocabulary SET chunks = chunks - ? WHERE word = ?", taken)
        self._c.executemany("DELETE FROM vocabulary WHERE word = ? AND chunks <= 0", [(word,) for _, word in taken])

    def _flush_languages(self) -> None:
        changed = [(language, more) for language, more in self._languages.items() if more]
        if changed:
            self._c.executemany(
                "INSERT INTO language VALUES (?, ?) "
                "ON CONFLICT (language) DO UPDATE SET documents = documents + excluded.documents",
                changed,
            )
            self._c.execute("DELETE FROM language WHERE documents <= 0")

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


def _link_rows(page: str, links: Iterable[PageLink]) -> list[tuple[str, str, str, int]]:
    return [(key, page, link.path, int(link.wiki)) for link in links for key in link_keys(page, link)]


def with_ancestors(folder: str) -> Iterable[str]:
    """Return the folder and all folders above it, the root last."""
    return (folder, *ancestors(folder))


_COUNTED = b"\x01"
"""The first byte of packed words. Earlier versions stored JSON, which begins with a brace, or zlib, which begins with an `x`."""
_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def compact(value: object) -> str:
    """Return `value` as compact JSON."""
    return _encoder.encode(value)


@lru_cache(maxsize=1024)
def headings(section: tuple[str, ...]) -> str:
    """Return a heading path as JSON; cached, because adjacent chunks often share theirs."""
    return compact(section)


def pack_words(words: Counter[str]) -> bytes:
    """Return the counts in few bytes."""
    try:
        return b"".join((_COUNTED, "\n".join(words).encode(), b"\n\n", bytes(words.values())))
    except ValueError:  # a word is in more than 255 chunks of the document
        return compact(words).encode()


def unpack_words(packed: bytes) -> dict[str, int]:
    """Return the counts in a result of `pack_words`, or of an earlier version of it."""
    if packed.startswith(_COUNTED):
        words, _, counts = packed[len(_COUNTED) :].partition(b"\n\n")
        return dict(zip(words.decode().split("\n"), counts, strict=True)) if counts else {}
    found: dict[str, int] = json.loads(packed if packed.startswith(b"{") else zlib.decompress(packed))
    return found
