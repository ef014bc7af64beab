"""What merging speaks of: pieces of a document, evidence, verdicts, and the plan that comes out. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple

PieceKind = Literal[
    "front", "heading", "paragraph", "fence", "code", "html", "quote", "list", "table", "break", "comment", "blank"
]
UnitKind = Literal["front", "heading", "paragraph", "fence", "code", "html", "quote", "item", "row", "comment"]
VerdictWord = Literal["unchanged", "integrate", "update", "retain", "flag", "conflict"]
Form = Literal["document", "section", "snippet", "append"]

SECTION_SEPARATOR = " > "
DIGEST_BYTES = 16
CUT_MARK = "..."
"""Ends a text that was cut."""
LONGEST_SIDE = 1_000


class DocumentPiece(NamedTuple):
    """Consecutive lines of a document that belong together.

    `text` holds them exactly, line ends included; `line` counts from 1. `section` is the heading path that the piece lies
    in; a heading lies in its own.
    """

    kind: PieceKind
    text: str
    line: int
    section: tuple[str, ...]


class Unit(NamedTuple):
    """The smallest text whose origin is kept: a paragraph, a list item with all in it, a table row, a key of the front matter.

    `piece` is the index of the piece that it lies in.
    """

    kind: UnitKind
    text: str
    line: int
    section: tuple[str, ...]
    piece: int


@dataclass(frozen=True, slots=True, eq=False)
class CutDocument:
    """A document in pieces: joined they are `text` again, character for character. Two cuts are equal if they are the same one."""

    text: str
    pieces: tuple[DocumentPiece, ...]


@dataclass(frozen=True, slots=True)
class Confidence:
    """How far a claim is to be believed: `confidence = 0.4 recency + 0.4 authority + 0.2 corroboration`, each in 0..1."""

    confidence: float
    recency: float
    authority: float
    corroboration: float


@dataclass(frozen=True, slots=True)
class Doubt:
    """What a language model holds of two statements: that they cannot both be true. Both are word for word as they stand.

    `by` names the model, `about` says what they differ in, in words of ours, `sure` is how sure the model says it is, 0..1.
    """

    existing: str
    new: str
    by: str
    about: str
    sure: float


@dataclass(frozen=True, slots=True)
class IncomingEvidence:
    """Where incoming knowledge comes from.

    `authority` is what the caller claims at most, None for what the table gives. `corroborated_by` are the lineages that
    the server has verified itself; `claimed_by` those that were only named. `against` are texts of the page that a person
    decided against, in favour of this. `doubts` are what a model found between it and the page.
    """

    source: str
    observed_at: datetime
    authority: float | None = None
    corroborated_by: tuple[str, ...] = ()
    claimed_by: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Origin:
    """Where one unit of a page comes from, as recorded. `digest` and `section` are how it is found again.

    `revision` is the one it came in with, `by` the principal who brought it, "" for an editor that told nobody.
    """

    digest: bytes
    section: tuple[str, ...]
    source: str
    authority: float
    observed_at: datetime
    revision: str
    by: str = ""
    corroborated_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a disagreement. `text` is what it says, cut where it is long; `confidence` None when nothing is known."""

    path: str
    section: str
    text: str
    source: str
    authority: float
    observed_at: datetime | None
    confidence: float | None
    revision: str | None


@dataclass(frozen=True, slots=True)
class BlockVerdict:
    """What became of one block of the incoming text, or of one of the document; `reason` is one sentence with the numbers."""

    section: str
    verdict: VerdictWord
    reason: str
    new: Confidence | None = None
    existing: Confidence | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Both sides changed the same block since the base. `ours` is what the document says now, `theirs` what came in.

    `line` is where `ours` begins in the current document, from 1.
    """

    section: str
    base: str
    ours: str
    theirs: str
    line: int


@dataclass(frozen=True, slots=True)
class Contradiction:
    """The incoming text says otherwise than the document, or than another page. `kind` is what differs: `number`, `date`, ...

    `model` says that only a language model found it.
    """

    kind: str
    subject: str
    reason: str
    existing: Side
    new: Side


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What merging would do. `text` is the document afterwards, equal to the current one when nothing would be written.

    `origins` are those of the units of `text`, in their order. `form` is how the incoming text was taken, `note` what the
    caller should know beside the verdicts.
    """

    text: str
    form: Form
    verdicts: Sequence[BlockVerdict] = ()
    conflicts: Sequence[Conflict] = ()
    contradictions: Sequence[Contradiction] = ()
    origins: Sequence[Origin] = ()
    note: str | None = None
    cut: CutDocument | None = None
    """`text` in pieces, where that is known already."""
    known: str | None = None
    """The document as the caller knows it now, who has not read what others wrote since the base; None where it is `text`."""


@lru_cache(maxsize=20_000)
def unit_digest(text: str) -> bytes:
    """Return the name of a unit: 16 bytes over its text, white space folded, so that wrapping and indenting keep it."""
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def cut_short(text: str) -> str:
    """Return what is put on record of one side of a disagreement: its text, white space at the ends off, cut where it is long."""
    text = text.strip()
    return text if len(text) <= LONGEST_SIDE else text[: LONGEST_SIDE - len(CUT_MARK)] + CUT_MARK


def section_name(path: Sequence[str]) -> str:
    """Return a heading path as it is shown and asked for: `A > B`."""
    return SECTION_SEPARATOR.join(path)
