"""Whether a record mentions what a person looks for. Pure; the command line and the review page search alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping


def mentions(fields: Mapping[str, object], text: str) -> bool:
    """Return whether each word of `text` stands in some value of the record, whatever its case; no words stand in all."""
    said = "\n".join(_values(fields)).casefold()
    return all(word in said for word in text.casefold().split())


def _values(field: object) -> Iterator[str]:
    """Yield every value in `field`, however deep; names of fields are not what a record says."""
    if isinstance(field, Mapping):
        for value in field.values():
            yield from _values(value)
    elif isinstance(field, list | tuple):
        for value in field:
            yield from _values(value)
    elif field is not None:
        yield str(field)
