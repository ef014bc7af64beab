"""What Meilisearch is told and what it answers, as values: settings, documents, filters, questions, joined lists. Pure.

Source: the API of Meilisearch 1.50, https://www.meilisearch.com/docs/reference/api.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from knowledge.index.ports import QueryTerm, Scored
from knowledge.pages.paths import ancestors
from knowledge.state.ports import DocumentRecord, Filters, IndexPosition, TextRow

SHAPE = 1
"""Grows when settings or documents change; an index of another shape is filled anew beside the old one."""
MARK = 0
"""The key of the document that says how far its index is. No chunk has it: `seq` begins at 1."""
DEEP = 100
"""Chunks asked for each word: measured on Cranfield, nDCG@10 is 0.34 with 40, 0.36 with 100, and no better with 1,000."""
FEW = 300
"""Document numbers in a filter: each word's query takes 5 ms longer with 200 of them, 40 with 1,000, 220 with 2,000."""
WIDER = 8
PAYLOAD_BYTES = 8_000_000
PAYLOAD_ROWS = 10_000
SHORTEST_STEM = 4
FORGIVEN = (5, 9)
"""From so many letters on Meilisearch forgives one typing error, and two; its defaults, and our own rule."""

SETTINGS: Mapping[str, Any] = {
    # Where a word stands says more than how often: the engine counts no frequencies.
    "searchableAttributes": ["title", "heading", "text"],
    # All of them texts, compared for equality: numbers would each be kept in a tree of ranges that nobody asks for.
    "filterableAttributes": [
        {
            "attributePatterns": ["role", "after", "page", "places", "tags", "kind", "sources"],
            "features": {"facetSearch": False, "filter": {"equality": True, "comparison": False}},
        }
    ],
    # Each word is a query of its own (see `questions`), so there is no proximity to rank by, nor to index.
    "rankingRules": ["words", "typo", "attribute", "exactness"],
    "proximityPrecision": "byAttribute",
    "facetSearch": False,
    # Also the highest count of matches that it tells, from which the weight of a word is made.
    "pagination": {"maxTotalHits": 2_000_000_000},
    "typoTolerance": {
        "enabled": True,
        "minWordSizeForTypos": {"oneTypo": FORGIVEN[0], "twoTypos": FORGIVEN[1]},
        "disableOnNumbers": True,
    },
}


@dataclass(frozen=True, slots=True)
class IndexMark:
    """What an index says of itself: up to where it has the store's rows, and in which shape."""

    at: IndexPosition
    shape: int

    def document(self) -> dict[str, Any]:
        """Return it as it is kept among the documents, where no word finds it."""
        return {"seq": MARK, "role": "mark", "generation": self.at.generation, "at": self.at.seq, "shape": self.shape}


def mark_of(document: Mapping[str, Any]) -> IndexMark:
    """Return the mark that `document` is; one of no generation if it is none of ours."""
    generation, at, shape = document.get("generation"), document.get("at"), document.get("shape")
    if isinstance(generation, str) and isinstance(at, int) and isinstance(shape, int):
        return IndexMark(IndexPosition(generation, at), shape)
    return IndexMark(IndexPosition("", 0), 0)


# --- documents --------------------------------------------------------------------------------------------------------


def document(row: TextRow, record: DocumentRecord | None, after: IndexPosition) -> dict[str, Any]:
    """Return a chunk as it is stored by the step that goes on from `after`.

    Without its record (it is gone by now) it lies nowhere, so no filter admits it.
    """
    # Folded as our words of a question are (straße is strasse): nobody reads the text here, it is only searched.
    heading, text = " > ".join(row.section).casefold(), row.text.casefold()
    found: dict[str, Any] = {"seq": row.seq, "doc": row.doc, "heading": heading, "text": text}
    found |= {"page": _page(row.doc), "after": _step(after)}
    if record is None:
        return found
    return found | {
        "path": record.path,
        "title": record.title.casefold(),
        "language": record.language,
        "places": [_key(place) for place in (record.path, *ancestors(record.path))],
        "tags": [_key(tag) for tag in sorted(set(record.tags))],
        "kind": _key(record.kind),
        "sources": [_key(source) for source in _sources(record.source)],
    }


def payloads(documents: Sequence[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield `documents` as NDJSON, in pieces that a server takes and that fit in memory."""
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
    """Return the filter for what a step wrote that went on from `mark` and never came to its end."""
    return f"after = {_step(mark.at)}"


def _page(doc: int) -> str:
    return f"d{doc}"


def _step(after: IndexPosition) -> str:
    return f"s{after.seq}"


def _key(name: str) -> str:
    """Return what stands for `name` in a filter: the engine ignores case there and cuts long values, paths may not."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()


def _sources(source: str) -> Sequence[str]:
    """Return `source` and everything that, named in a filter, admits it: `zulip:design` and `zulip`."""
    parts = source.split(":")
    return [":".join(parts[:n]) for n in range(len(parts), 0, -1)]


# --- questions --------------------------------------------------------------------------------------------------------


def timed(filters: Filters | None) -> bool:
    """Return whether a filter looks at times, which nobody tells the engine when a file is touched without a change."""
    return filters is not None and (filters.modified_after_ns, filters.modified_before_ns) != (None, None)


@dataclass(frozen=True, slots=True)
class FilterRestriction:
    """A filter expression (None: everything), and whether it admits more than may be found, so that more is fetched."""

    expression: str | None = None
    wider: bool = False


def restriction(docs: Collection[int] | None, filters: Filters | None) -> FilterRestriction:
    """Return how the search is restricted: in words where they say it all, else in a few document numbers, else wider."""
    words = _in_words(filters) if filters else []
    said = " AND ".join(words) or None
    if docs is None or (words and not timed(filters)):
        return FilterRestriction(said)
    if len(docs) <= FEW:
        return FilterRestriction(f"page IN [{', '.join(map(_page, sorted(docs)))}]")
    return FilterRestriction(said, wider=True)


def _in_words(filters: Filters) -> list[str]:
    wanted = [("places", filters.path or None), ("kind", filters.kind), ("sources", filters.source)]
    wanted += [("tags", tag) for tag in filters.tags]
    return [f"{field} = {_key(value)}" for field, value in wanted if value is not None]


def asked(terms: Sequence[QueryTerm]) -> list[str]:
    """Return the queries for `terms`, one a word. The engine forgives typing errors itself; the last word is a prefix."""
    queries = [_query(term, last=number == len(terms) - 1) for number, term in enumerate(terms) if term.alternatives]
    return [query for query in dict.fromkeys(queries) if query]


def _query(term: QueryTerm, *, last: bool) -> str:
    """Return the query for one word: its stem as a prefix, for the engine knows no stems, else the word itself.

    Not a stem so short that no typing error would be forgiven, where one in the word would be.
    """
    word = " ".join(re.findall(r"\w+", term.word))
    stems = [text for text, weight in term.alternatives if weight == 1.0 and text != word and word.startswith(text)]
    for stem in sorted(stems, key=len, reverse=True):
        if len(stem) >= FORGIVEN[0] or SHORTEST_STEM <= len(stem) <= len(word) < FORGIVEN[0]:
            return stem
    # A query that does not end in a blank ends in a prefix.
    return word if last or not word else f"{word} "


def searches(index: str, queries: Sequence[str], *, deep: int, filter_: str | None) -> list[dict[str, Any]]:
    """Return the searches of one round trip: the mark, the number of chunks admitted, then one for each query.

    One query of all words would not do: the engine has no "any of these", it drops words from one end, and of a
    question in a sentence it keeps the wrong ones (nDCG@10 on Cranfield: 0.17 against 0.36 of single words joined).
    """
    plain: dict[str, Any] = {"indexUid": index, "q": "", "limit": 0}
    within = {"filter": filter_} if filter_ else {}
    keys = ["seq", "doc"]
    word = {"limit": deep, "attributesToRetrieve": keys, "showRankingScore": True} | within
    return [
        plain | {"limit": 1, "filter": "role = mark"},
        plain | within,
        # All parts of a word that the engine cuts in several must be there.
        *(plain | word | {"q": query, "matchingStrategy": "all"} for query in queries),
    ]


@dataclass(frozen=True, slots=True)
class MeilisearchAnswer:
    """What one round trip found: how far the index was, and the chunks, best first; `all` if there are no more."""

    mark: IndexMark
    found: Sequence[Scored]
    all: bool


def answer(results: Sequence[Mapping[str, Any]], *, limit: int, docs: frozenset[int] | None) -> MeilisearchAnswer:
    """Join the lists of single words: the score of a chunk is the sum, over its words, of how well times how rare.

    How rare is the idf of the embedded engines. What `docs` does not admit is left out: the engine may be late.
    """
    about, everything, *lists = results
    mark = mark_of(about["hits"][0]) if about["hits"] else IndexMark(IndexPosition("", 0), 0)
    total = int(everything["estimatedTotalHits"])
    scores: dict[tuple[int, int], float] = defaultdict(float)
    for one in lists:
        n = int(one["estimatedTotalHits"])
        idf = math.log(1 + (max(total - n, 0) + 0.5) / (n + 0.5))
        for hit in one["hits"]:
            scores[int(hit["seq"]), int(hit["doc"])] += idf * float(hit["_rankingScore"])
    found = [Scored(seq, doc, score) for (seq, doc), score in scores.items() if docs is None or doc in docs]
    every = all(len(one["hits"]) >= int(one["estimatedTotalHits"]) for one in lists)
    return MeilisearchAnswer(mark, sorted(found, key=lambda hit: (-hit.score, hit.seq))[:limit], every)
