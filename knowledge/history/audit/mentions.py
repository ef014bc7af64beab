"""Searches audit records for words. Pure; used by the command line and the review page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def mentions(fields: Mapping[str, object], text: str) -> bool:
    """Return whether every word of `text` is in some value of the record, ignoring case; an empty text is in every record."""
    values = without_case("\n".join(_values(fields)))
    return all(word in values for word in without_case(text).split())


def without_case(text: str) -> str:
    """Return `text` in lower case, with one form of the Greek sigma, whose lower case depends on its place in a word."""
    return text.lower().replace("\N{GREEK SMALL LETTER FINAL SIGMA}", "\N{GREEK SMALL LETTER SIGMA}")


def _values(field: object) -> Iterator[str]:
    """Yield every value in `field`, however deep, without the names of fields."""
    if isinstance(field, Mapping):
        for value in field.values():
            yield from _values(value)
    elif isinstance(field, list | tuple):
        for value in field:
            yield from _values(value)
    elif field is not None:
        yield str(field)
