"""Joining what two sides made of a document. Pure.

Blocks are matched first, then joined one by one, each by what it is. What comes out is cut again: it must be the blocks
that were planned, or it is not written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from knowledge.merge.document.units import BOM, bare, blocks_of, cut, level_of, split_lines, starts_of
from knowledge.merge.model import Conflict, CutDocument, DocumentPiece, section_name
from knowledge.merge.three_way.alignment import BODY, AlignedNode, likeness
from knowledge.merge.three_way.kinds.front_matter import joined_front
from knowledge.merge.three_way.kinds.lists import joined_list
from knowledge.merge.three_way.kinds.prose import is_one, joined_strictly, joined_text
from knowledge.merge.three_way.kinds.tables import joined_table
from knowledge.merge.three_way.line_account import is_accounted, settled
from knowledge.merge.three_way.line_join import clean, merge_lines
from knowledge.merge.three_way.moves import followed
from knowledge.merge.three_way.sequence import Clash, Inner, in_sequence
from knowledge.merge.three_way.unit_changes import UnitChange, changes_between

_BLANK = " \t\r\n"
_EDGES = {"fence": (1, 1), "html": (1, 1), "quote": (0, 0), "comment": (1, 1), "code": (0, 0)}
_CALLOUT = re.compile(r"[ \t]*>[ \t]*\[!")
_WHOLE = frozenset({"front", "fence", "html", "quote", "comment", "code", "table"})
_LINE_END = re.compile(r"\r\n|\n|\r")
_NO_FRONT = "---\n---\n"
_ATX = re.compile(r"( {0,3}#{1,6})([ \t]+)([^\r\n]*)([\r\n]*)$")


@dataclass(frozen=True, slots=True)
class Joined:
    """A joined document. Where there are conflicts it says there what the current one says; `cut` is `text` in pieces."""

    text: str
    changes: tuple[UnitChange, ...]
    conflicts: tuple[Conflict, ...]
    cut: CutDocument


class _Parts(NamedTuple):
    """A document taken apart; `end` is what follows its last block, `closed` whether that block's last line has its end."""

    bom: str
    lead: str
    nodes: list[AlignedNode]
    closed: bool
    end: str


def join(base: CutDocument, current: CutDocument, incoming: CutDocument) -> Joined:
    """Return `current` with what `incoming` changed since `base`. What both changed differently is a conflict and stays."""
    if incoming.text in (base.text, current.text):
        return Joined(current.text, (), (), current)
    if current.text == base.text:
        return Joined(incoming.text, changes_between(current, incoming), (), incoming)
    eol = line_end(current.text, base.text, incoming.text)
    b, o, t = _taken_apart(base, eol), _taken_apart(current, eol), _taken_apart(incoming, eol)
    found = _by_blocks(b, o, t, eol) or _by_lines(base, current, incoming)
    if found is None:
        whole = Conflict("", base.text, current.text, incoming.text, 1)
        return Joined(current.text, (), (whole,), current)
    document, clashes = found
    conflicts = tuple(
        Conflict(
            section_name(clash.section),
            _as_written(clash.base, base.text),
            _as_written(clash.ours, current.text),
            _as_written(clash.theirs, incoming.text),
            clash.line,
        )
        for clash in clashes
    )
    return Joined(document.text, changes_between(current, document), conflicts, document)


def _as_written(text: str, document: str) -> str:
    """Return a part of a document without the line end that its last line has not."""
    return bare_last(text) if not document.endswith(("\n", "\r")) and document.endswith(bare_last(text)) else text


def _taken_apart(document: CutDocument, eol: str) -> _Parts:
    pieces = list(document.pieces)
    bom = ""
    if pieces and pieces[0].text.startswith(BOM):
        bom = BOM
        pieces[0] = pieces[0]._replace(text=pieces[0].text[1:])
    lead = pieces.pop(0).text if pieces and pieces[0].kind == "blank" else ""
    end = pieces.pop().text if pieces and pieces[-1].kind == "blank" else ""
    closed = True
    if pieces and bare(pieces[-1].text) == pieces[-1].text:
        closed = False
        pieces[-1] = pieces[-1]._replace(text=pieces[-1].text + eol)
    return _Parts(bom, lead, _nodes(pieces), closed, end)


def _nodes(pieces: Sequence[DocumentPiece]) -> list[AlignedNode]:
    found: list[AlignedNode] = []
    last = len(pieces) - 1
    for at, piece in enumerate(pieces):
        if piece.kind == "blank":
            continue
        following = pieces[at + 1] if at < last else None
        gap = None if following is None else following.text if following.kind == "blank" else ""
        level = level_of(piece) if piece.kind == "heading" else BODY
        found.append(AlignedNode(piece.kind, piece.text, gap, piece.text, piece.line, piece.section, level))
    return found


def line_end(*texts: str) -> str:
    """Return the line end of the first line that has one in the first text that has any; LF without."""
    for text in texts:
        found = _LINE_END.search(text)
        if found:
            return found[0]
    return "\n"


def _by_blocks(b: _Parts, o: _Parts, t: _Parts, eol: str) -> tuple[CutDocument, list[Clash]] | None:
    """Return the document joined by its blocks and what clashes, None if what came out is not what was planned."""
    nodes = followed(_with_front(b.nodes, o.nodes, t.nodes), o.nodes, t.nodes, _alike)
    sequences = in_sequence(nodes, joined_block, gap=eol, rescue=_rescued)
    sequences.merge()
    if not settled(sequences):
        return None
    joint = sequences.joint()
    parts = list(joint.parts)
    frame = o._replace(
        bom=_newer(b.bom, o.bom, t.bom),
        lead=_newer(b.lead, o.lead, t.lead),
    )
    # How theirs ends counts where their last block is the last.
    last = sequences.kept[-1].theirs if sequences.kept else -1
    if (b.closed, b.end) == (o.closed, o.end) and last == len(nodes.theirs) - 1:
        frame = frame._replace(closed=t.closed, end=t.end)
    for _ in range(3):
        document = cut(_assembled(frame, parts))
        wrong = _not_as_planned(document, parts)
        if not wrong:
            return document, list(joint.clashes)
        loose = [at for at in wrong if at < len(parts) and not parts[at].gap]
        if not loose:
            return None
        for at in loose:
            parts[at] = parts[at]._replace(gap=eol)
    return None


def _with_front(base: list[AlignedNode], ours: list[AlignedNode], theirs: list[AlignedNode]) -> list[AlignedNode]:
    """Return the base with an empty front matter if both sides gave it one, so that the two meet key by key."""
    if _has_front(ours) and _has_front(theirs) and not _has_front(base):
        return [AlignedNode("front", "", None, ""), *base]
    return base


def _has_front(nodes: Sequence[AlignedNode]) -> bool:
    return bool(nodes) and nodes[0].kind == "front"


def _newer(base: str, ours: str, theirs: str) -> str:
    return theirs if ours == base else ours


def _assembled(frame: _Parts, parts: Sequence[AlignedNode]) -> str:
    texts = [frame.bom, frame.lead]
    for node in parts:
        texts += node.text, node.gap or ""
    if parts:
        if not frame.closed and not frame.end:
            texts[-2] = bare_last(texts[-2])
        texts[-1] = frame.end
    return "".join(texts)


def bare_last(text: str) -> str:
    """Return a text without its last line end."""
    for ending in ("\r\n", "\n", "\r"):
        if text.endswith(ending):
            return text[: -len(ending)]
    return text


def _not_as_planned(document: CutDocument, parts: Sequence[AlignedNode]) -> list[int]:
    """Return after which of `parts` a blank line may be missing: where the cut document goes another way than planned."""
    pieces = [piece for piece in document.pieces if piece.kind != "blank"]
    for at, node in enumerate(parts):
        if at >= len(pieces):
            return [max(at - 1, 0)]
        piece = pieces[at]
        if piece.kind != node.kind or piece.text.removeprefix(BOM).rstrip("\r\n") != node.text.rstrip("\r\n"):
            return sorted({max(at - 1, 0), at})
    return [] if len(pieces) == len(parts) else [len(parts) - 1]


def joined_block(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> Inner:
    """Return what both sides made of one block."""
    if not base.kind == ours.kind == theirs.kind:
        return Inner(None)
    kind = base.kind
    if kind == "front":
        return joined_front(base.text or _NO_FRONT, ours.text, theirs.text)
    if kind == "list":
        return _checked(joined_list(base, ours, theirs), kind)
    if kind == "table":
        return _checked(joined_table(base, ours, theirs), kind)
    if kind == "paragraph":
        return _checked(Inner(joined_text(base.text, ours.text, theirs.text)), kind)
    if kind == "heading":
        return _checked(Inner(_joined_heading(base.text, ours.text, theirs.text)), kind)
    if kind in _EDGES:
        edges = (1, 0) if _CALLOUT.match(base.text) else _EDGES[kind]
        return Inner(joined_strictly(base.text, ours.text, theirs.text, kind, edges=edges))
    return Inner(None)


def _checked(inner: Inner, kind: str) -> Inner:
    return inner if not inner.text or is_one(inner.text, kind) else Inner(None)


def _joined_heading(base: str, ours: str, theirs: str) -> str | None:
    """Return a heading whose level one side changed and whose words the other; None if both changed its words."""
    b, o, t = _ATX.match(base), _ATX.match(ours), _ATX.match(theirs)
    if not b or not o or not t:
        return None
    parts: list[str] = []
    for one, mine, other in zip(b.groups(), o.groups(), t.groups(), strict=True):
        if mine not in (one, other) and other != one:
            return None
        parts.append(other if mine == one else mine)
    return "".join(parts)


def _alike(one: AlignedNode, other: AlignedNode) -> float:
    if one.kind == other.kind == "front":
        return 1.0
    if one.kind == other.kind == "list":
        # A list is what it was while some items are.
        mine, yours = _items(one.text), _items(other.text)
        shared = len(mine & yours) / max(1, min(len(mine), len(yours)))
        return max(shared, likeness(one, other))
    return likeness(one, other)


@lru_cache(maxsize=64)
def _items(text: str) -> frozenset[str]:
    lines, starts = split_lines(text), starts_of(text)
    return frozenset("".join(lines[a:b]).strip(_BLANK) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True))


def _rescued(base: str, ours: str, theirs: str) -> Sequence[AlignedNode] | None:
    """Return blocks joined by plain lines where that is clean and leaves every block whole that must be."""
    lines = clean(merge_lines(split_lines(base), split_lines(ours), split_lines(theirs), strict=True))
    if lines is None:
        return None
    pieces = blocks_of("".join(lines))
    known = {p.text for text in (base, ours, theirs) for p in blocks_of(text) if p.kind in _WHOLE}
    if any(piece.kind in _WHOLE and piece.text not in known for piece in pieces):
        return None
    while pieces and pieces[0].kind == "blank":
        pieces = pieces[1:]
    return _nodes(pieces)


def _by_lines(base: CutDocument, current: CutDocument, incoming: CutDocument) -> tuple[CutDocument, list[Clash]] | None:
    """Return the document joined by plain lines, if no block that must be whole is cut by that."""
    texts = [split_lines(document.text) for document in (base, current, incoming)]
    parts = merge_lines(*texts, strict=True)
    clashes: list[Clash] = []
    found: list[str] = []
    at = 0
    for part in parts:
        if part.clash:
            at = _place(texts[1], part.lines, at)
            section = next((piece.section for piece in reversed(current.pieces) if piece.line <= at + 1), ())
            clashes.append(Clash("".join(part.base), "".join(part.lines), "".join(part.theirs), at + 1, section))
        found += part.lines
    document = cut("".join(found))
    known = {p.text for one in (base, current, incoming) for p in one.pieces}
    if any(piece.kind in _WHOLE and piece.text not in known for piece in document.pieces):
        return None
    if not is_accounted(base.text, current.text, incoming.text, document.text, clashes):
        return None
    return document, clashes


def _place(lines: Sequence[str], wanted: Sequence[str], start: int) -> int:
    """Return where `wanted` stands in `lines` from `start` on, `start` where it does not."""
    for at in range(start, len(lines) - len(wanted) + 1 if wanted else 0):
        if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted:
            return at
    return start


__all__ = ["Joined", "UnitChange", "changes_between", "join"]
