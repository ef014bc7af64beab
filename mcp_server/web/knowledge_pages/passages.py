"""A page as passages: consecutive blocks that the same people wrote, with their origins and open contradictions. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from knowledge.history.timeline.line_authors import AuthoredLines
from knowledge.history.timeline.timeline import Change
from knowledge.merge.evidence.confidence import UNKNOWN, Rules, confidence
from knowledge.merge.model import Confidence
from mcp_server.presenters.change import author
from mcp_server.web.markdown.rendered_page import RenderedBlock

MOST_NOTES = 12
"""Origins of one passage that are shown."""


@dataclass(frozen=True, slots=True)
class OriginNote:
    """The origin of some lines. `confidence` is None if their source is unknown."""

    first: int
    last: int
    author: str
    change: Change | None
    source: str
    corroborated_by: Sequence[str]
    confidence: Confidence | None

    @property
    def is_known(self) -> bool:
        """Whether anything is on record about these lines."""
        return bool(self.author or self.change or self.source != UNKNOWN)

    @property
    def names_source(self) -> bool:
        """Whether the source says more than the author."""
        return self.source not in ("user", UNKNOWN)


@dataclass(frozen=True, slots=True)
class OpenContradiction:
    """An open contradiction, at the line with its statement."""

    line: int
    id: int
    reason: str


@dataclass(frozen=True, slots=True)
class ShownPassage:
    """Consecutive blocks with the same origins. `more_notes` origins are left out."""

    blocks: Sequence[RenderedBlock]
    notes: Sequence[OriginNote]
    more_notes: int
    contradictions: Sequence[OpenContradiction]

    @property
    def lines(self) -> str:
        """The lines of the passage: `12` or `12-15`."""
        first, last = self.blocks[0].first, self.blocks[-1].last
        return f"{first}\N{EN DASH}{last}" if last > first else str(first)


def notes_of(runs: Sequence[AuthoredLines], rules: Rules, now: datetime) -> list[OriginNote]:
    """Return the origin of each run of lines."""
    notes = []
    for run in runs:
        origin, known = run.origin, run.origin.observed_at is not None
        trust = confidence(
            origin.source,
            datetime.fromisoformat(origin.observed_at) if origin.observed_at else None,
            now=now,
            rules=rules,
            authority=origin.authority,
            corroborated_by=origin.corroborated_by,
        )
        notes.append(
            OriginNote(
                first=run.first,
                last=run.first + len(run.lines) - 1,
                author=author(run.change) if run.change else origin.by,
                change=run.change,
                source=origin.source,
                corroborated_by=origin.corroborated_by,
                confidence=trust if known else None,
            )
        )
    return notes


def passages_of(
    blocks: Sequence[RenderedBlock], notes: Sequence[OriginNote], contradictions: Sequence[OpenContradiction]
) -> list[ShownPassage]:
    """Return the blocks in passages. Neighbours stay together while their lines have the same authors and sources."""
    at = _Overlapping(notes)
    parts = [(block, at(block)) for block in blocks]
    passages = []
    for _, group in groupby(parts, lambda part: list(dict.fromkeys(map(_facts, part[1])))):
        together = list(group)
        distinct: dict[tuple[object, ...], OriginNote] = {}
        for _, found in together:
            for note in found:
                distinct.setdefault(_facts(note), note)
        if not any(note.is_known for note in distinct.values()):
            distinct.clear()
        first, last = together[0][0].first, together[-1][0].last
        passages.append(
            ShownPassage(
                blocks=[block for block, _ in together],
                notes=list(distinct.values())[:MOST_NOTES],
                more_notes=max(0, len(distinct) - MOST_NOTES),
                contradictions=[one for one in contradictions if first <= one.line <= last],
            )
        )
    return passages


class _Overlapping:
    """Finds the notes on the lines of a block. Blocks are asked about from top to bottom."""

    def __init__(self, notes: Sequence[OriginNote]) -> None:
        self._notes, self._at = notes, 0

    def __call__(self, block: RenderedBlock) -> list[OriginNote]:
        notes = self._notes
        while self._at < len(notes) and notes[self._at].last < block.first:
            self._at += 1
        found, at = [], self._at
        while at < len(notes) and notes[at].first <= block.last:
            found.append(notes[at])
            at += 1
        return found


def _facts(note: OriginNote) -> tuple[object, ...]:
    change = note.change.id if note.change else None
    return (note.author, change, note.source, tuple(note.corroborated_by), note.confidence)
