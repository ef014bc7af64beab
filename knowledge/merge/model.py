"""The data of merging: pieces of a document, evidence, verdicts, and the plan of a merge. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Literal, NamedTuple

from knowledge.pages.claim_source import UNKNOWN_AUTHORITY
from knowledge.pages.paths import HEADING_SEPARATOR

PieceKind = Literal[
    "front", "heading", "paragraph", "fence", "code", "html", "quote", "list", "table", "break", "comment", "blank"
]
UnitKind = Literal["front", "heading", "paragraph", "fence", "code", "html", "quote", "item", "row", "comment"]
VerdictWord = Literal["unchanged", "integrate", "update", "retain", "flag", "conflict", "ask"]
Form = Literal["document", "section", "snippet", "append", "unclear"]
WHOLE_PAGE = "*"
"""The section name by which a caller states that the content is the whole page."""
ADDS_TO = "+ "
"""Begins a section name by which a caller states that the content is to be added to that section, not to replace it."""

DIGEST_BYTES = 16
CUT_MARK = "..."
"""The mark at the end of a text that was cut."""
LONGEST_SIDE = 1_000
NOT_SURE = 0.5
"""How sure a contradiction is if nothing is known about how it was found."""


class DocumentPiece(NamedTuple):
    """Consecutive lines of a document that belong together.

    `text` holds them exactly, line ends included; `line` counts from 1. `section` is the heading path above the piece; a
    heading is part of its own.
    """

    kind: PieceKind
    text: str
    line: int
    section: tuple[str, ...]


class Unit(NamedTuple):
    """The smallest text that has an origin: a paragraph, an outermost list item, a table row, a key of the front matter.

    `piece` is the index of the piece that holds it.
    """

    kind: UnitKind
    text: str
    line: int
    section: tuple[str, ...]
    piece: int


@dataclass(frozen=True, slots=True, eq=False)
class CutDocument:
    """A document in pieces that add up to `text`, character for character. Compared by identity, for fast hashing."""

    text: str
    pieces: tuple[DocumentPiece, ...]


@dataclass(frozen=True, slots=True)
class Confidence:
    """The confidence in a claim, by default `0.4 recency + 0.4 authority + 0.2 corroboration`; each is 0..1."""

    confidence: float
    recency: float
    authority: float
    corroboration: float

    def __str__(self) -> str:
        return (
            f"{self.confidence:.2f} (recency {self.recency:.2f}, authority {self.authority:.2f}, "
            f"corroboration {self.corroboration:.2f})"
        )


@dataclass(frozen=True, slots=True)
class Doubt:
    """A language model's opinion that two statements, quoted word for word, cannot both be true.

    `by` names the model; `about` says in this code's words, not the model's, what they differ in; `sure` is the confidence the
    model states, 0..1.
    """

    existing: str
    new: str
    by: str
    about: str
    sure: float


AnswerWord = Literal["same", "replaces", "both", "contradicts"]


@dataclass(frozen=True, slots=True)
class StatementAnswer:
    """A host's judgement of two statements, quoted word for word: how the new one relates to the existing one."""

    existing: str
    new: str
    answer: AnswerWord


@dataclass(frozen=True, slots=True)
class StatementQuestion:
    """Two statements whose relation no rule can decide, for the host to judge; `source` is the existing one's."""

    existing: str
    new: str
    section: str
    source: str


@dataclass(frozen=True, slots=True)
class IncomingEvidence:
    """The source of incoming knowledge.

    `authority` is the most that the caller claims, None to use that of the rules. `corroborated_by` are the lineages that the
    server has verified itself. `against` are texts of the page that a person rejected in favour of this. `doubts` are
    contradictions with the page that only a model found. `answers` are the host's judgements. `only_adds` says that the caller
    asked to add to a section, so that nothing there is corrected.
    """

    source: str
    observed_at: datetime
    authority: float | None = None
    corroborated_by: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    answers: tuple[StatementAnswer, ...] = ()
    only_adds: bool = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The recorded source of one unit of a page; `digest` and `section` identify the unit.

    `revision` is the first one that had the unit, "" until it is written. `by` is the principal who wrote it, "" if an editor
    outside this server did. `alias` stands for the source in sentences to a caller from whom it is hidden; it is not stored.
    """

    digest: bytes
    section: tuple[str, ...]
    source: str
    authority: float
    observed_at: datetime
    revision: str
    by: str = ""
    corroborated_by: tuple[str, ...] = ()
    alias: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        """The name of the source in sentences."""
        return self.alias or self.source


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a disagreement. A long `text` is cut; `confidence` is None if unknown."""

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
    """The outcome for one block of the incoming text, or of the document; `reason` is one sentence with the numbers."""

    section: str
    verdict: VerdictWord
    reason: str
    new: Confidence | None = None
    existing: Confidence | None = None


@dataclass(frozen=True, slots=True)
class OfferedPlace:
    """A place where a text could go, for the caller to choose. `fit` is its share of all places' likelihood, 0..1.

    `call` holds the arguments to change in the same call so that it writes there.
    """

    path: str
    section: str
    fit: float
    why: str
    call: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Both sides changed the same block since the base. `ours` is the document's text now, `theirs` the incoming one.

    `line` is where `ours` begins in the current document, from 1.
    """

    section: str
    base: str
    ours: str
    theirs: str
    line: int


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two statements that cannot both be true: incoming text and the document, or texts of two pages.

    `kind` is what differs: `number`, `date`, ...; `model` says that only a language model found it. `sure` is how sure the rule
    is that they contradict each other, 0..1.
    """

    kind: str
    subject: str
    reason: str
    existing: Side
    new: Side
    sure: float = NOT_SURE

    @property
    def confidence(self) -> float:
        """How much it deserves a person's attention, 0..1: `sure` times the confidence of the less credible side."""
        believed = (side.confidence for side in (self.existing, self.new))
        return self.sure * min(UNKNOWN_AUTHORITY if one is None else one for one in believed)

    @property
    def pair(self) -> bytes:
        """The digest of the two statements, in either order and however their lines are wrapped."""
        return pair_digest(self.existing.text, self.new.text)


Ruling = Literal["both", "existing"]
"""A person's ruling on a contradiction: both statements hold, or only the existing one does."""


@dataclass(frozen=True, slots=True)
class Dismissal:
    """A person's decision that a contradiction is not to be raised again, and the reason."""

    ruling: Ruling
    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class MergePlan:
    """The outcome of a merge that is not written yet. `text` equals the current document if nothing would be written.

    `origins` belong to the units of `text`, in order. `form` is how the incoming text was understood, `note` is for the
    caller, in addition to the verdicts.
    """

    text: str
    form: Form
    verdicts: Sequence[BlockVerdict] = ()
    conflicts: Sequence[Conflict] = ()
    contradictions: Sequence[Contradiction] = ()
    origins: Sequence[Origin] = ()
    places: Sequence[OfferedPlace] = ()
    """Where text that was not written could go, likeliest first."""
    questions: Sequence[StatementQuestion] = ()
    """Statements that were not written, each with the one of the page that it may be a version of."""
    note: str | None = None
    cut: CutDocument | None = None
    """`text` in pieces, if already known."""
    known: str | None = None
    """The document as the caller will know it, without what others wrote since the base; None if that equals `text`."""


@lru_cache(maxsize=20_000)
def unit_digest(text: str) -> bytes:
    """Return 16 bytes that identify a unit.

    They are a hash of its text with white space folded, so that wrapping and indenting do not change them.
    """
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()


def pair_digest(one: str, other: str) -> bytes:
    """Return 32 bytes that identify two statements, whichever comes first and however their lines are wrapped."""
    both = "\x00".join(sorted(" ".join(text.split()) for text in (one, other)))
    return hashlib.sha256(both.encode("utf-8", "surrogatepass")).digest()


def cut_short(text: str) -> str:
    """Return one side of a disagreement as it is recorded: stripped, and cut if it is long."""
    text = text.strip()
    return text if len(text) <= LONGEST_SIDE else text[: LONGEST_SIDE - len(CUT_MARK)] + CUT_MARK


def section_name(path: Sequence[str]) -> str:
    """Return a heading path in its written form, for display and as an argument: `A > B`."""
    return HEADING_SEPARATOR.join(path)


def quoted_section(path: Sequence[str]) -> str:
    """Return a heading path worded for a sentence."""
    return f'"{section_name(path)}"' if path else "the beginning of the page"
