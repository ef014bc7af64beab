"""Filters as search servers take them: conditions on fields, in words. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from knowledge.state.ports import Filters


def needs_numbers(filters: Filters | None) -> bool:
    """Return whether a server needs the numbers of the documents that a filter admits.

    Servers don't learn when a file is touched without a change, and a list of paths may be long.
    """
    if filters is None:
        return False
    return (filters.modified_after_ns, filters.modified_before_ns, filters.paths) != (None, None, None)


def filter_words(filters: Filters | None) -> list[tuple[str, str]]:
    """Return the conditions of `filters` except times and paths, as field and value; all of them must hold."""
    if filters is None:
        return []
    single = (("path", filters.path or None), ("kind", filters.kind), ("source", filters.source))
    return [(field, value) for field, value in single if value is not None] + [("tags", tag) for tag in filters.tags]


def sources_of(source: str) -> Sequence[str]:
    """Return `source` and the kinds that it belongs to (`zulip:design`, `zulip`).

    A filter by any of these admits it.
    """
    parts = source.split(":")
    return [":".join(parts[:n]) for n in range(len(parts), 0, -1)]
