"""Joins the changes that two sides made to a document. Pure.

Blocks are matched first, then joined one by one, each by its kind. The result is cut again: it must be the blocks that were
planned, or it is not written (kb/decisions/0022).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from knowledge.merge.document.units import (
    BOM,
    bare,
    blocks_of,
    cut,
    heading_level,
    split_lines,
)
from knowledge.merge.model import Conflict, CutDocument, DocumentPiece, section_name
from knowledge.merge.three_way.alignment import BODY, AlignedNode, likeness
from knowledge.merge.three_way.kinds.front_matter import join_front_matter
from knowledge.merge.three_way.kinds.lists import join_list
from knowledge.merge.three_way.kinds.other_wordings import items_of
from knowledge.merge.three_way.kinds.prose import is_one, join_by_lines, join_strictly, join_text
from knowledge.merge.three_way.kinds.tables import join_table
from knowledge.merge.three_way.line_account import is_accounted, settle_lines
from knowledge.merge.three_way.line_join import merge_lines
from knowledge.merge.three_way.moves import follow_moves
from knowledge.merge.three_way.sequence import Clash, PartJoin, SequenceMerge
from knowledge.merge.three_way.unit_changes import UnitChange, changes_between

_EDGES = {"fence": (1, 1), "html": (1, 1), "quote": (0, 0), "comment": (1, 1), "code": (0, 0)}
"""Kinds joined by lines. The numbers say how many lines must stay at the beginning and at the end: the lines that
open and close the block."""
_CALLOUT = re.compile(r"[ \t]*>[ \t]*\[!")
_WHOLE = frozenset({"front", "fence", "html", "quote", "comment", "code", "table"})
"""Kinds of blocks of which a half would mean something different. After joining by plain lines, such a block must be
as one side has it."""
_LINE_END = re.compile(r"\r\n|\n|\r")
_NO_FRONT = "---\n---\n"
_ATX = re.compile(r"( {0,3}#{1,6})([ \t]+)([^\r\n]*)([\r\n]*)$")


@dataclass(frozen=True, slots=True)
class Joined:
    """A joined document. Where there are conflicts it keeps the current text; `cut` is `text` in pieces."""

    text: str
    changes: tuple[UnitChange, ...]
    conflicts: tuple[Conflict, ...]
    cut: CutDocument


class _Parts(NamedTuple):
    """The parts of a document: a byte order mark, what precedes the first block, the blocks, and what follows the last.

    `closed` says whether the last block ends with a line break.
    """

    bom: str
    lead: str
    nodes: list[AlignedNode]
    closed: bool
    end: str


def join(base: CutDocument, current: CutDocument, incoming: CutDocument) -> Joined:
    """Return `current` with what `incoming` changed since `base`. A part that both changed differently is a conflict and stays."""
    if incoming.text in (base.text, current.text):
        return Joined(current.text, (), (), current)
    if current.text == base.text:
        return Joined(incoming.text, changes_between(current, incoming), (), incoming)
    eol = _line_end(current.text, base.text, incoming.text)
    b, o, t = _taken_apart(base, eol), _taken_apart(current, eol), _taken_apart(incoming, eol)
    found = _by_blocks(b, o, t, eol) or _by_lines(base, current, incoming)
    if found is None:
        conflict = Conflict("", base.text, current.text, incoming.text, 1)
        return Joined(current.text, (), (conflict,), current)
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


def _line_end(*texts: str) -> str:
    """Return the first line end in the first of `texts` that has any; LF if none has."""
    return next((found[0] for text in texts if (found := _LINE_END.search(text))), "\n")


def _bare_last(text: str) -> str:
    """Return a text without its last line end."""
    return next((text[: -len(end)] for end in ("\r\n", "\n", "\r") if text.endswith(end)), text)


def _as_written(text: str, document: str) -> str:
    """Return `text`, a part of `document`, as it is written there.

    If it is the last part and the document does not end with a line end, the text does not either.
    """
    return _bare_last(text) if not document.endswith(("\n", "\r")) and document.endswith(_bare_last(text)) else text


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
    for piece, following in zip(pieces, [*pieces[1:], None], strict=False):
        if piece.kind != "blank":
            gap = None if following is None else following.text if following.kind == "blank" else ""
            level = heading_level(piece) if piece.kind == "heading" else BODY
            found.append(AlignedNode(piece.kind, piece.text, gap, piece.text, piece.line, piece.section, level))
    return found


# By blocks


def _by_blocks(b: _Parts, o: _Parts, t: _Parts, eol: str) -> tuple[CutDocument, list[Clash]] | None:
    """Return the document joined by its blocks and its clashes; None if the result is not as planned."""
    base = b.nodes
    if _has_front(o.nodes) and _has_front(t.nodes) and not _has_front(base):
        # Both sides gave the page a front matter: with an empty one in the base, the two are joined key by key.
        base = [AlignedNode("front", "", None, ""), *base]
    versions = follow_moves(base, o.nodes, t.nodes, _likeness)
    merge = SequenceMerge(versions, join_block, gap=eol, rescue=_rescued)
    merge.merge()
    if not settle_lines(merge):
        return None
    joined = merge.result()
    parts = list(joined.parts)
    frame = o._replace(
        bom=t.bom if o.bom == b.bom else o.bom,
        lead=t.lead if o.lead == b.lead else o.lead,
    )
    # If only theirs changed how the document ends, and their last block is the last, it ends as theirs does.
    last = merge.kept[-1].theirs if merge.kept else -1
    if (b.closed, b.end) == (o.closed, o.end) and last == len(versions.theirs) - 1:
        frame = frame._replace(closed=t.closed, end=t.end)
    # Blocks that run into each other (a paragraph under a list) get a blank line between them.
    for _ in range(3):
        document = cut(_assembled(frame, parts))
        wrong = _not_as_planned(document, parts)
        if not wrong:
            return document, list(joined.clashes)
        loose = [at for at in wrong if at < len(parts) and not parts[at].gap]
        if not loose:
            return None
        for at in loose:
            parts[at] = parts[at]._replace(gap=eol)
    return None


def _has_front(nodes: Sequence[AlignedNode]) -> bool:
    return bool(nodes) and nodes[0].kind == "front"


def _assembled(frame: _Parts, parts: Sequence[AlignedNode]) -> str:
    texts = [frame.bom, frame.lead]
    for node in parts:
        texts += node.text, node.gap or ""
    if parts:
        if not frame.closed and not frame.end:
            texts[-2] = _bare_last(texts[-2])
        texts[-1] = frame.end
    return "".join(texts)


def _not_as_planned(document: CutDocument, parts: Sequence[AlignedNode]) -> list[int]:
    """Return the indexes of the parts after which a blank line may be missing; none if the document is cut as planned."""
    pieces = [piece for piece in document.pieces if piece.kind != "blank"]
    for at, node in enumerate(parts):
        if at >= len(pieces):
            return [max(at - 1, 0)]
        piece = pieces[at]
        if piece.kind != node.kind or piece.text.removeprefix(BOM).rstrip("\r\n") != node.text.rstrip("\r\n"):
            return sorted({max(at - 1, 0), at})
    return [] if len(pieces) == len(parts) else [len(parts) - 1]


def join_block(base: AlignedNode, ours: AlignedNode, theirs: AlignedNode) -> PartJoin:
    """Return the merge of one block."""
    kind = base.kind
    if not kind == ours.kind == theirs.kind:
        return PartJoin(None)
    if kind == "front":
        return join_front_matter(base.text or _NO_FRONT, ours.text, theirs.text)
    if kind in _EDGES:
        edges = (1, 0) if _CALLOUT.match(base.text) else _EDGES[kind]
        return PartJoin(join_strictly(base.text, ours.text, theirs.text, kind, edges=edges))
    if kind == "list":
        joined = join_list(base, ours, theirs)
    elif kind == "table":
        joined = join_table(base, ours, theirs)
    elif kind == "paragraph":
        joined = PartJoin(join_text(base.text, ours.text, theirs.text))
    elif kind == "heading":
        joined = PartJoin(_join_heading(base.text, ours.text, theirs.text))
    else:
        return PartJoin(None)
    return joined if not joined.text or is_one(joined.text, kind) else PartJoin(None)


def _join_heading(base: str, ours: str, theirs: str) -> str | None:
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


def _likeness(one: AlignedNode, other: AlignedNode) -> float:
    if one.kind == other.kind == "front":
        return 1.0
    if one.kind == other.kind == "list":
        # Two lists are versions of one as long as they share items.
        mine, yours = items_of(one.text), items_of(other.text)
        shared = len(mine & yours) / max(1, min(len(mine), len(yours)))
        return max(shared, likeness(one, other))
    return likeness(one, other)


def _rescued(base: str, ours: str, theirs: str) -> Sequence[AlignedNode] | None:
    """Return blocks joined by plain lines; None if lines conflict or a block that must stay whole would be mixed."""
    joined = join_by_lines(base, ours, theirs)
    if joined is None:
        return None
    pieces = blocks_of(joined)
    known = {p.text for text in (base, ours, theirs) for p in blocks_of(text) if p.kind in _WHOLE}
    if any(piece.kind in _WHOLE and piece.text not in known for piece in pieces):
        return None
    while pieces and pieces[0].kind == "blank":
        pieces = pieces[1:]
    return _nodes(pieces)


# By lines


def _by_lines(base: CutDocument, current: CutDocument, incoming: CutDocument) -> tuple[CutDocument, list[Clash]] | None:
    """Return the document joined by plain lines, None if that cuts a block that must be whole, or loses or doubles a line."""
    texts = [split_lines(document.text) for document in (base, current, incoming)]
    clashes: list[Clash] = []
    found: list[str] = []
    at = 0
    for part in merge_lines(*texts, strict=True):
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
    """Return where `wanted` is in `lines` from `start` on, `start` if it is not there."""
    for at in range(start, len(lines) - len(wanted) + 1 if wanted else 0):
        if lines[at] == wanted[0] and lines[at : at + len(wanted)] == wanted:
            return at
    return start
