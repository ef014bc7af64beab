"""Reads indexed documents whole, so that another index can store them without parsing or embedding anything."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import apsw

from knowledge.index.store.sqlite_write import RECORD_COLUMNS, TERM_SEPARATOR, record_of, unpack_words
from knowledge.pages.paths import PageLink
from knowledge.state.ports import IndexedChunk, IndexedProperties, Period, PropertyLines, Replace

_DOCUMENTS = (
    f"SELECT {RECORD_COLUMNS}, doc, words, links FROM document JOIN document_words USING (doc) "  # noqa: S608 - a constant
    "LEFT JOIN document_links USING (doc) WHERE path IN (SELECT value FROM json_each(?)) ORDER BY doc"
)
_CHUNKS = """
SELECT ordinal, section, line_start, line_end, text, digest, half, code
FROM code JOIN chunk USING (seq) JOIN vector USING (seq) WHERE code.doc = ? ORDER BY ordinal
"""


def copies(paths: Sequence[str], c: apsw.Connection) -> Sequence[Replace]:
    """Return the documents among `paths` as they are stored, in the order in which they were first stored."""
    rows: Any = c.execute(_DOCUMENTS, (json.dumps(list(paths)),)).fetchall()
    found = []
    for *columns, doc, words, links in rows:
        chunks: Any = c.execute(_CHUNKS, (doc,)).fetchall()
        found.append(
            Replace(
                record_of(columns),
                _chunks(chunks, Counter(unpack_words(words))),
                tuple(PageLink(target, bool(wiki)) for target, wiki in json.loads(links or "[]")),
                _properties(doc, c),
                _period(doc, c),
            )
        )
    return found


def _properties(doc: int, c: apsw.Connection) -> IndexedProperties | None:
    """Return the properties of a document, without their words: its first chunk has all of them."""
    rows: Any = c.execute("SELECT line_start, text, terms FROM property WHERE doc = ?", (doc,)).fetchall()
    return next(
        (IndexedProperties(PropertyLines(*lines), terms.split(TERM_SEPARATOR), ()) for *lines, terms in rows), None
    )


def _period(doc: int, c: apsw.Connection) -> Period | None:
    rows: Any = c.execute("SELECT first, last FROM period WHERE doc = ?", (doc,)).fetchall()
    return Period(*rows[0]) if rows else None


def _chunks(rows: Sequence[Any], words: Counter[str]) -> tuple[IndexedChunk, ...]:
    """Return the chunks of a document. Which words are in which chunk is not in the index, so the first chunk gets all of them."""
    chunks: list[IndexedChunk] = []
    for ordinal, section, start, end, text, digest, half, code in rows:
        own = tuple(words.elements()) if not chunks else ()
        chunks.append(IndexedChunk(ordinal, tuple(json.loads(section)), start, end, text, digest, half, code, own))
    return tuple(chunks)
