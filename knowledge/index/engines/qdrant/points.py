"""What a chunk is as a point, and what a question and its filters are as a request. Pure; knows no client."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from knowledge.index.ports import QueryTerm
from knowledge.pages.paths import ancestors
from knowledge.state.ports import DocumentRecord, Filters

K1 = 1.2
B = 0.75
FEW = 5_000
"""So many document numbers go with a question; beyond, fetching more and dropping what is not admitted is quicker."""

Condition = Mapping[str, object]
"""One condition on the payload, in the words of Qdrant's REST interface."""

INDEXED: Mapping[str, Mapping[str, object]] = {
    "doc": {"type": "integer", "lookup": True, "range": False},
    "path": {"type": "keyword"},
    "tags": {"type": "keyword"},
    "kind": {"type": "keyword"},
    "source": {"type": "keyword"},
    "modified_us": {"type": "integer", "lookup": False, "range": True},
}
"""Every payload field that a filter asks for, with its index. None is a tenant: a collection is one knowledge base."""


def term_number(term: str) -> int:
    """Return the dimension of a term. Two of half a million terms share one in about thirty cases."""
    return zlib.crc32(term.encode())


def weighed(terms: Sequence[str], mean_length: float) -> Mapping[int, float]:
    """Return the document's side of BM25 for each term's dimension; the server multiplies with the question's idf.

    Source: Qdrant's documentation, "Text Search", BM25: tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))
    as weights of a sparse vector whose modifier is `idf`.
    """
    norm = K1 * (1 - B + B * len(terms) / mean_length) if mean_length else K1
    counts = Counter(term_number(term) for term in terms)
    return {number: count * (K1 + 1) / (count + norm) for number, count in counts.items()}


def asked(terms: Sequence[QueryTerm]) -> Mapping[int, float]:
    """Return the question's side: of each word every alternative by its weight; what two words share counts twice."""
    values: dict[int, float] = {}
    for term in terms:
        best: dict[int, float] = {}
        for text, weight in term.alternatives:
            number = term_number(text)
            best[number] = max(weight, best.get(number, 0.0))
        for number, weight in best.items():
            values[number] = values.get(number, 0.0) + weight
    return values


def payload(doc: int, record: DocumentRecord) -> dict[str, object]:
    """Return what filters ask for. A path comes with all above it, a source with all kinds that it is one of."""
    source = record.source
    return {
        "doc": doc,
        "path": [record.path, *(folder for folder in ancestors(record.path) if folder)],
        "tags": list(record.tags),
        "kind": record.kind,
        "source": [*(source[:i] for i, sign in enumerate(source) if sign == ":"), source],
        "modified_us": record.stamp.mtime_ns // 1_000,
    }


@dataclass(frozen=True, slots=True)
class PointRestriction:
    """What a point must meet. `wider` says that it admits more than was asked, so that more are to be fetched."""

    conditions: tuple[Condition, ...] = ()
    wider: bool = False


def restriction(docs: Collection[int] | None, filters: Filters | None) -> PointRestriction:
    """Return the filters in words where there are any, else the document numbers.

    When a file is touched without changing, nobody tells the engine. So a filter by time goes as numbers, or, when they
    are many, is left out here: then more is fetched, and what `docs` does not admit is dropped afterwards.
    """
    said = in_words(filters) if filters else ()
    timed = filters is not None and (filters.modified_after_ns, filters.modified_before_ns) != (None, None)
    if docs is None:
        return PointRestriction((*said, *_times(filters)) if filters else ())
    if not timed:
        return PointRestriction(said or by_number(docs))
    return PointRestriction(by_number(docs)) if len(docs) <= FEW else PointRestriction(said, wider=True)


def by_number(docs: Collection[int]) -> tuple[Condition, ...]:
    """Return the condition that the document is one of these."""
    return ({"key": "doc", "match": {"any": sorted(docs)}},)


def in_words(filters: Filters) -> tuple[Condition, ...]:
    """Return the conditions of `filters`, but for those on time."""
    single = (("path", filters.path or None), ("kind", filters.kind), ("source", filters.source))
    wanted = [(key, value) for key, value in single if value is not None] + [("tags", tag) for tag in filters.tags]
    return tuple({"key": key, "match": {"value": value}} for key, value in wanted)


def _times(filters: Filters) -> tuple[Condition, ...]:
    """Return the conditions on time, to the microsecond and rather too wide: nanoseconds do not fit in a JSON number."""
    after, before = filters.modified_after_ns, filters.modified_before_ns
    bounds = {} if after is None else {"gte": after // 1_000}
    if before is not None:
        bounds["lt"] = -(-before // 1_000)
    return ({"key": "modified_us", "range": bounds},) if bounds else ()
