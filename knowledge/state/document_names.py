"""By which names a document can be called, and what falls under a filter. Pure; every engine uses these same rules."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from knowledge.pages.paths import HEADING_SEPARATOR, without_suffix

if TYPE_CHECKING:
    from knowledge.state.ports import DocumentRecord

BY = ("path", "path", "title", "alias", "heading")
"""What `NameMatch.by` says for each rank: the path, the file's name, the title, an alias, a heading."""

LAST_CHARACTER = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Name:
    """One way to call a document, or a section of it. Matches are ordered by `rank`, then path, then `position`."""

    key: str
    rank: int
    position: int
    section: str | None


def name_key(name: str) -> str:
    """Return what two names have in common that differ only in case, spacing or Unicode form."""
    return " ".join(unicodedata.normalize("NFC", name).casefold().split())


def names_of(record: DocumentRecord) -> frozenset[Name]:
    """Return every name of the document; a heading counts by itself and by its whole path."""
    return frozenset(name for name in _names(record) if name.key)


def _names(record: DocumentRecord) -> Iterator[Name]:
    for rank, shown in ((0, record.path), (1, record.path.rpartition("/")[2])):
        yield Name(name_key(shown), rank, 0, None)
        yield Name(name_key(without_suffix(shown)), rank, 1, None)
    yield Name(name_key(record.title), 2, 0, None)
    for position, alias in enumerate(record.aliases):
        yield Name(name_key(alias), 3, position, None)
    for position, section in enumerate(record.sections):
        yield Name(name_key(section), 4, position, section)
        yield Name(name_key(section.rpartition(HEADING_SEPARATOR)[2]), 4, position, section)


def begins_in(headings: Sequence[str], section: str | None) -> bool:
    """Return whether a chunk under `headings` lies in the section with that heading path; None is the whole document."""
    if section is None:
        return True
    path = HEADING_SEPARATOR.join(headings)
    return path == section or path.startswith(section + HEADING_SEPARATOR)


def after_prefix(prefix: str) -> str | None:
    """Return the smallest text, by code points, above everything that begins with `prefix`; None if there is none."""
    head = prefix.rstrip(LAST_CHARACTER)
    if not head:
        return None
    following = ord(head[-1]) + 1
    # Surrogates are no characters, and a database cannot hold them.
    return head[:-1] + chr(0xE000 if following == 0xD800 else following)
