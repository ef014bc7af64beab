"""A collection's options, mark and points, and queries and filters in Qdrant's form. Pure; needs no client."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from knowledge.index.engines.server_filters import filter_words, needs_numbers, sources_of
from knowledge.pages.markdown.tags import with_tags_above
from knowledge.pages.paths import ancestors
from knowledge.state.ports import DocumentRecord, Filters

LAYOUT = 3
"""Raise it when points change; collections of another layout are refilled."""
MARK = 0
"""The number of the point that is the mark."""
MEANING = "meaning"
"""The name of a point's vector."""
FEW = 5_000
"""The most document numbers in a query; for more, fetching more hits and dropping those not admitted is faster."""

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

    @property
    def shape(self) -> str:
        """A string that differs for collections with other options or another layout."""
        return f"{LAYOUT} " + " ".join(f"{key}={value}" for key, value in asdict(self).items())


@dataclass(frozen=True, slots=True)
class CollectionMark:
    """The payload of a collection's point 0."""

    collection: str
    shape: str
    dimensions: int
    generation: str
    seq: int

    def fits(self, shape: str, generation: str) -> bool:
        """Return whether the collection can be brought up to date by adding and deleting points."""
        return (self.shape, self.generation) == (shape, generation)


def parse_mark(stored: Mapping[str, Any] | None) -> CollectionMark | None:
    """Return the mark in a payload; None if it is missing or from another version."""
    try:
        return CollectionMark(**(stored or {}))
    except TypeError:
        return None


# --- points -----------------------------------------------------------------------------------------------------------


def payload(doc: int, record: DocumentRecord) -> dict[str, object]:
    """Return the values that filters compare: a path, tags and a source, each with those above it."""
    return {
        "doc": doc,
        "path": [record.path, *(folder for folder in ancestors(record.path) if folder)],
        "tags": with_tags_above(record.tags),
        "kind": record.kind,
        "source": sources_of(record.source),
        "modified_us": record.stamp.mtime_ns // 1_000,
    }


# --- questions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PointRestriction:
    """The conditions on a point; `wider` if they also admit hits that must be dropped, so more are fetched."""

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
    if not needs_numbers(filters):
        return PointRestriction(words or by_number(docs))
    return PointRestriction(by_number(docs)) if len(docs) <= FEW else PointRestriction(words, wider=True)


def by_number(docs: Collection[int]) -> tuple[Condition, ...]:
    """Return a condition that admits the documents with these numbers."""
    return ({"key": "doc", "match": {"any": sorted(docs)}},)


def _times(filters: Filters) -> tuple[Condition, ...]:
    # In microseconds, rounded outwards: nanoseconds don't fit in a JSON number.
    after, before = filters.modified_after_ns, filters.modified_before_ns
    bounds = {} if after is None else {"gte": after // 1_000}
    if before is not None:
        bounds["lt"] = -(-before // 1_000)
    return ({"key": "modified_us", "range": bounds},) if bounds else ()
