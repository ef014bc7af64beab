"""What a source holds, in the same form for every kind. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from knowledge.errors import KnowledgeError
from knowledge.merge.model import Origin


class BadSource(KnowledgeError):
    """The source can't be read as what it was said to be. Nothing was imported."""


@dataclass(frozen=True, slots=True)
class IncomingPage:
    """A page of the source as it would be written.

    `origin` identifies it in the source, at every import: `notion:1a2b...`. `path` is where it goes.
    `origins` are those of its claims, if the source knows them.
    """

    origin: str
    path: str
    raw: bytes
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """An attachment of the source. `read` returns its bytes; it raises `BadSource` if they are not what the source claims."""

    origin: str
    path: str
    size: int
    read: Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class SkippedItem:
    """Something in the source that is not imported, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class LostLink:
    """A link of a page to something that is not in the import: it stays as it is written."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class RenamedFile:
    """A file that gets another name: another file has its name already, or some operating system does not allow it."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Incoming:
    """Everything that a source holds. `name` tells it from other sources of its kind; `rewritten` counts links that were adapted."""

    kind: str
    name: str
    pages: Sequence[IncomingPage]
    files: Sequence[IncomingFile] = ()
    skipped: Sequence[SkippedItem] = ()
    rewritten: int = 0
    lost: Sequence[LostLink] = field(default_factory=tuple)
    renamed: Sequence[RenamedFile] = ()
