"""A collection's options, mark and points, and questions and filters as Qdrant takes them. Pure; knows no client."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from knowledge.index.engines.server_filters import filter_words, has_times, sources_of
from knowledge.index.ports import QueryTerm
from knowledge.pages.paths import ancestors
from knowledge.state.ports import DocumentRecord, Filters, IndexPosition, TextRow

LAYOUT = 1
"""Goes up when points change; collections of another layout are filled again."""
MARK = 0
"""The number of the point that is the mark."""
MEANING, WORDS = "meaning", "words"
"""Names of the dense and the sparse vector of a point."""
K1 = 1.2
B = 0.75
FEW = 5_000
"""The most document numbers in a query; for more, fetching more hits and dropping those not admitted is faster."""

Terms = Callable[[TextRow], Sequence[str]]
Condition = Mapping[str, object]
"""A condition on the payload, in the form of Qdrant's REST interface."""

INDEXED: Mapping[str, Mapping[str, object]] = {
    "doc": {"type": "integer", "lookup": True, "range": False},
    "path": {"type": "keyword"},
    "tags": {"type": "keyword"},
    "kind": {"type": "keyword"},
    "source": {"type": "keyword"},
    "modified_us": {"type": "integer", "lookup": False, "range": True},
}
"""Every payload field in filters, with its index. No field is a tenant: a collection is one knowledge base."""


@dataclass(frozen=True, slots=True)
class QdrantOptions:
    """How collections are stored. Different options need a new collection, which then replaces the old one."""

    shards: int = 1
    replicas: int = 1
    write_consistency: int = 1
    on_disk: bool = False
    quantization: Literal["none", "scalar", "binary"] = "none"

    def shape(self, *, words: bool) -> str:
        """Return what distinguishes collections with other options or another layout."""
        return f"{LAYOUT} words={words} " + " ".join(f"{key}={value}" for key, value in asdict(self).items())


@dataclass(frozen=True, slots=True)
class CollectionMark:
    """The payload of a collection's point 0. `generation` is that of the vectors, `texts` that of the texts."""

    collection: str
    shape: str
    dimensions: int
    generation: str
    texts: str
    seq: int
    mean_length: float
    """Mean number of terms in a chunk when the collection was created; stored weights can't follow it."""
    mean_until: int
    """The `seq` up to which that mean is used; it came from too few rows, so beyond it the collection is filled again."""

    def fits(self, shape: str, at: IndexPosition, texts: str) -> bool:
        """Return whether the collection can be brought up to `at` by adding and deleting points."""
        return (self.shape, self.generation, self.texts) == (shape, at.generation, texts) and at.seq <= self.mean_until


def parse_mark(stored: Mapping[str, Any] | None) -> CollectionMark | None:
    """Return the mark in a payload; None if it is missing or from another version."""
    try:
        return CollectionMark(**(stored or {}))
    except TypeError:
        return None


# --- points -----------------------------------------------------------------------------------------------------------


def term_number(term: str) -> int:
    """Return the dimension of a term. Among half a million terms about thirty pairs share one."""
    return zlib.crc32(term.encode())


def weighed(terms: Sequence[str], mean_length: float) -> Mapping[int, float]:
    """Return the document's part of BM25 for the dimension of each term; the server multiplies with the question's idf.

    Source: Qdrant's documentation, "Text Search", BM25: tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))
    as weights of a sparse vector whose modifier is `idf`.
    """
    norm = K1 * (1 - B + B * len(terms) / mean_length) if mean_length else K1
    counts = Counter(term_number(term) for term in terms)
    return {number: count * (K1 + 1) / (count + norm) for number, count in counts.items()}


def payload(doc: int, record: DocumentRecord) -> dict[str, object]:
    """Return the values that filters compare: a path with the directories above it, a source with its kinds."""
    return {
        "doc": doc,
        "path": [record.path, *(folder for folder in ancestors(record.path) if folder)],
        "tags": list(record.tags),
        "kind": record.kind,
        "source": sources_of(record.source),
        "modified_us": record.stamp.mtime_ns // 1_000,
    }


# --- questions --------------------------------------------------------------------------------------------------------


def query_weights(terms: Sequence[QueryTerm]) -> Mapping[int, float]:
    """Return the question's part of BM25: every alternative of each word by its weight; shared ones add up."""
    values: dict[int, float] = {}
    for term in terms:
        best: dict[int, float] = {}
        for text, weight in term.alternatives:
            number = term_number(text)
            best[number] = max(weight, best.get(number, 0.0))
        for number, weight in best.items():
            values[number] = values.get(number, 0.0) + weight
    return values


@dataclass(frozen=True, slots=True)
class PointRestriction:
    """The conditions on a point; `wider` if they admit more than may be found, so that more must be fetched."""

    conditions: tuple[Condition, ...] = ()
    wider: bool = False


def restriction(docs: Collection[int] | None, filters: Filters | None) -> PointRestriction:
    """Return the filters as words if there are any, else as document numbers.

    The server does not learn when a file is touched without a change. So a filter by time is sent as document numbers;
    if there are too many, it is left out, and hits that `docs` does not admit are dropped.
    """
    words: tuple[Condition, ...] = tuple(
        {"key": key, "match": {"value": value}} for key, value in filter_words(filters)
    )
    if docs is None:
        return PointRestriction((*words, *_times(filters)) if filters else ())
    if not has_times(filters):
        return PointRestriction(words or by_number(docs))
    return PointRestriction(by_number(docs)) if len(docs) <= FEW else PointRestriction(words, wider=True)


def by_number(docs: Collection[int]) -> tuple[Condition, ...]:
    """Return the condition that the document is one of these."""
    return ({"key": "doc", "match": {"any": sorted(docs)}},)


def _times(filters: Filters) -> tuple[Condition, ...]:
    # In microseconds, rounded outwards: nanoseconds don't fit in a JSON number.
    after, before = filters.modified_after_ns, filters.modified_before_ns
    bounds = {} if after is None else {"gte": after // 1_000}
    if before is not None:
        bounds["lt"] = -(-before // 1_000)
    return ({"key": "modified_us", "range": bounds},) if bounds else ()
