"""The requests and answers of Meilisearch as values: settings, documents, filters, queries, joined lists. Pure.

Source: the API of Meilisearch 1.50, https://www.meilisearch.com/docs/reference/api.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from knowledge.index.engines.catch_up import NOWHERE
from knowledge.index.engines.server_filters import filter_words, needs_numbers, sources_of
from knowledge.index.ports import QueryTerm, Scored
from knowledge.pages.markdown.tags import with_tags_above
from knowledge.pages.paths import ancestors
from knowledge.state.ports import DocumentRecord, Filters, IndexPosition, TextRow

SHAPE = 3
"""Raise it when settings or documents change; an index of another shape is refilled, beside the old one."""
MARK = 0
"""The key of the document that is the mark. No chunk has it: `seq` begins at 1."""
DEEP = 100
"""Chunks requested for each word: on Cranfield, nDCG@10 is 0.34 with 40, 0.36 with 100, and no better with 1,000."""
FEW = 300
"""The most document numbers in a filter: each word's query takes 5 ms longer with 200, 40 with 1,000, 220 with 2,000."""
PAYLOAD_BYTES = 8_000_000
PAYLOAD_ROWS = 10_000
SHORTEST_STEM = 4
FORGIVEN = (5, 9)
"""Word lengths from which Meilisearch tolerates one typing error, and two: its defaults, and also our own rule."""

MOST_EXACT = 3
"""The most terms of a word that are asked for exactly."""

EXACT_FLOOR = 1 / 3
"""The least score of a chunk that has a word exactly. Without it, one word in a title would outweigh three in the text."""

_FIELDS = {"path": "places", "kind": "kind", "source": "sources", "tags": "tags"}
"""The names of `filter_words` in the index."""

Terms = Callable[[TextRow], Sequence[str]]
"""Returns the terms of a chunk's headings and text."""

SETTINGS: Mapping[str, Any] = {
    # The engine counts no frequencies, so the place of a word matters more.
    "searchableAttributes": ["title", "heading", "text"],
    # All are strings, compared for equality: numbers would be indexed for range queries, which we don't use.
    "filterableAttributes": [
        {
            "attributePatterns": ["role", "after", "page", "places", "tags", "kind", "sources"],
            "features": {"facetSearch": False, "filter": {"equality": True, "comparison": False}},
        }
    ],
    # Each word is a separate query (see `searches`), so proximity is neither ranked nor indexed.
    "rankingRules": ["words", "typo", "attribute", "exactness"],
    "proximityPrecision": "byAttribute",
    "facetSearch": False,
    # This also limits the reported number of matches, from which a word's weight is computed.
    "pagination": {"maxTotalHits": 2_000_000_000},
    "typoTolerance": {
        "enabled": True,
        "minWordSizeForTypos": {"oneTypo": FORGIVEN[0], "twoTypos": FORGIVEN[1]},
        "disableOnNumbers": True,
    },
}


@dataclass(frozen=True, slots=True)
class IndexMark:
    """The store's position that an index has caught up to, and its shape."""

    at: IndexPosition
    shape: int

    def document(self) -> dict[str, Any]:
        """Return the document that stores it, which no query finds."""
        return {"seq": MARK, "role": "mark", "generation": self.at.generation, "at": self.at.seq, "shape": self.shape}


def mark_of(document: Mapping[str, Any]) -> IndexMark:
    """Return the mark in `document`; a mark without generation if `document` is not a mark of ours."""
    generation, at, shape = document.get("generation"), document.get("at"), document.get("shape")
    if isinstance(generation, str) and isinstance(at, int) and isinstance(shape, int):
        return IndexMark(IndexPosition(generation, at), shape)
    return IndexMark(NOWHERE, 0)


# --- documents --------------------------------------------------------------------------------------------------------


def document(row: TextRow, record: DocumentRecord | None, after: IndexPosition, terms: Terms) -> dict[str, Any]:
    """Return the stored form of a chunk, for the step that begins after `after`.

    A chunk without a record (its document was removed in the meantime) passes no filter.
    """

    def analysed(section: tuple[str, ...], text: str) -> str:
        return " ".join(terms(replace(row, section=section, text=text)))

    # The terms of the embedded index, so that a query's term is found exactly. The text itself is never shown.
    heading, text = analysed(row.section, ""), analysed((), row.text)
    found: dict[str, Any] = {"seq": row.seq, "doc": row.doc, "heading": heading, "text": text}
    found |= {"page": _page(row.doc), "after": _step(after)}
    if record is None:
        return found
    return found | {
        "path": record.path,
        "title": analysed((), record.title),
        "language": record.language,
        "places": [_key(place) for place in (record.path, *ancestors(record.path))],
        "tags": [_key(tag) for tag in with_tags_above(record.tags)],
        "kind": _key(record.kind),
        "sources": [_key(source) for source in sources_of(record.source)],
    }


def payloads(documents: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield `documents` as NDJSON, in pieces that the server accepts and that fit in memory."""
    lines: list[bytes] = []
    size = 0
    for one in documents:
        line = json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        if lines and (size + len(line) > PAYLOAD_BYTES or len(lines) >= PAYLOAD_ROWS):
            yield b"\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield b"\n".join(lines)


def unmarked(mark: IndexMark) -> str:
    """Return the filter for rows that an unfinished step after `mark` has written."""
    return f"after = {_step(mark.at)}"


def _page(doc: int) -> str:
    return f"d{doc}"


def _step(after: IndexPosition) -> str:
    return f"s{after.seq}"


def _key(name: str) -> str:
    """Return a hash that replaces `name` in filters, where the engine ignores case and cuts long values."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


# --- searching --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterRestriction:
    """A filter expression (None for no filter); `wider` if it also admits hits that must be dropped, so more are fetched."""

    expression: str | None = None
    wider: bool = False


def restriction(docs: Collection[int] | None, filters: Filters | None) -> FilterRestriction:
    """Return the filter by fields if they express it fully, else by document numbers if these are few, else a wider filter."""
    words = [f"{_FIELDS[field]} = {_key(value)}" for field, value in filter_words(filters)]
    expression = " AND ".join(words) or None
    if docs is None or (words and not needs_numbers(filters)):
        return FilterRestriction(expression)
    if len(docs) <= FEW:
        return FilterRestriction(f"page IN [{', '.join(map(_page, sorted(docs)))}]")
    return FilterRestriction(expression, wider=True)


@dataclass(frozen=True, slots=True)
class WordQuery:
    """The two ways to ask for one word: `exact` are its terms as they are indexed, `loose` finds also what is written nearly so.

    A loose query takes three times as long as an exact one. So it is sent only if no exact one finds anything.
    """

    exact: tuple[str, ...]
    loose: str


def word_queries(terms: Sequence[QueryTerm]) -> list[WordQuery]:
    """Return the queries for `terms`, one for each different word."""
    asked = [_query(term, last=number == len(terms) - 1) for number, term in enumerate(terms) if term.alternatives]
    return [query for query in dict.fromkeys(asked) if query.loose]


def _query(term: QueryTerm, *, last: bool) -> WordQuery:
    """Return the queries for one word.

    The loose one is its stem as a prefix, else the word itself. The engine handles typing errors itself and treats the last word as a
    prefix. A stem is not used if it is too short for the typing errors that the engine would tolerate in the word.
    """
    word = _plain(term.word)
    # A misspelt word and its correction may have the same weight.
    most = max(weight for _, weight in term.alternatives)
    best = dict.fromkeys(_plain(text) for text, weight in term.alternatives if weight == most)
    # In quotation marks, a word is neither a prefix nor misspelt.
    exact = tuple(f'"{text}"' for text in best if text)[:MOST_EXACT]
    stems = [text for text, weight in term.alternatives if weight == 1.0 and text != word and word.startswith(text)]
    for stem in sorted(stems, key=len, reverse=True):
        if len(stem) >= FORGIVEN[0] or SHORTEST_STEM <= len(stem) <= len(word) < FORGIVEN[0]:
            return WordQuery(exact, stem)
    # Without a space at the end, the last word of a query is a prefix.
    return WordQuery(exact, word if last or not word else f"{word} ")


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


def searches(index: str, queries: Sequence[str], *, deep: int, filter_: str | None) -> list[dict[str, Any]]:
    """Return a search for each query.

    A single query of all words is worse: the engine has no OR, it drops words from one end, and of a sentence it keeps
    the wrong ones (nDCG@10 on Cranfield: 0.17, against 0.36 for single words joined).
    """
    word = {"limit": deep, "attributesToRetrieve": ["seq", "doc"], "showRankingScore": True}
    # If the engine splits a word, all its parts must match.
    return [_within(index, filter_) | word | {"q": query, "matchingStrategy": "all"} for query in queries]


def counting(index: str, filter_: str | None) -> dict[str, Any]:
    """Return the search that counts the admitted chunks."""
    return _within(index, filter_) | {"q": "", "limit": 0}


def _within(index: str, filter_: str | None) -> dict[str, Any]:
    return {"indexUid": index} | ({"filter": filter_} if filter_ else {})


@dataclass(frozen=True, slots=True)
class MeilisearchAnswer:
    """The chunks, best first; `all` if there are no more."""

    found: Sequence[Scored]
    all: bool


def matches(result: Mapping[str, Any]) -> int:
    """Return how many chunks a query has found, also beyond the limit."""
    return int(result["estimatedTotalHits"])


def answer(
    words: Sequence[Sequence[Mapping[str, Any]]], *, total: int, limit: int, docs: frozenset[int] | None
) -> MeilisearchAnswer:
    """Join the lists of each word: a chunk's score is the sum, over the words, of the engine's best score times the idf.

    The idf is that of the embedded engines, among `total` chunks. Chunks that `docs` does not admit are dropped: the
    server may be late.
    """
    scores: dict[tuple[int, int], float] = defaultdict(float)
    for lists in words:
        best: dict[tuple[int, int], float] = {}
        for one in lists:
            n = matches(one)
            idf = math.log(1 + (max(total - n, 0) + 0.5) / (n + 0.5))
            # A loose query's own scores leave room below for misspelt words.
            floor = EXACT_FLOOR if one["query"].startswith('"') else 0.0
            for hit in one["hits"]:
                key = int(hit["seq"]), int(hit["doc"])
                best[key] = max(best.get(key, 0.0), idf * (floor + (1 - floor) * float(hit["_rankingScore"])))
        for key, score in best.items():
            scores[key] += score
    found = [Scored(seq, doc, score) for (seq, doc), score in scores.items() if docs is None or doc in docs]
    every = all(len(one["hits"]) >= matches(one) for lists in words for one in lists)
    return MeilisearchAnswer(sorted(found, key=lambda hit: (-hit.score, hit.seq))[:limit], every)
