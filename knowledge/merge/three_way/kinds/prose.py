"""Joins two versions of one block of text: by lines, and within a line by sentences and words. Pure."""

from __future__ import annotations

import re
from itertools import pairwise

from knowledge.merge.document.units import blocks_of, split_lines
from knowledge.merge.three_way.alignment import AlignedNode, align_versions
from knowledge.merge.three_way.line_join import hunks, joined_lines, merge_lines
from knowledge.merge.three_way.sequence import PartJoin, SequenceMerge

APART = 3
"""The number of unchanged words that must be between the edits of two sides within one sentence: closer edits may not make
sense together."""

_SENTENCES = re.compile(
    r"[^.!?\u3002\uff01\uff1f]*(?:[.!?]+[\"')\]*_]*(?:\s+|$)|[\u3002\uff01\uff1f]+\s*|[.!?]+)|[^.!?\u3002\uff01\uff1f]+$"
)
# Chinese and Japanese have no blanks: each character is a word.
_WORDS = re.compile(r"\s+|[\u2e80-\U0003ffff]|[^\s\u2e80-\U0003ffff]+")


def join_text(base: str, ours: str, theirs: str) -> str | None:
    """Return the merged paragraph; None if both sides changed the same words."""

    def join(one: AlignedNode, mine: AlignedNode, other: AlignedNode) -> PartJoin:
        return PartJoin(join_line(one.text, mine.text, other.text))

    b, o, t = ([AlignedNode("line", line, "", line) for line in split_lines(text)] for text in (base, ours, theirs))
    merged = SequenceMerge(align_versions(b, o, t), join).merged()
    return None if merged.clashes else "".join(node.text for node in merged.parts)


def join_line(base: str, ours: str, theirs: str) -> str | None:
    """Return the merged line if the sides changed different sentences or words well apart, else None."""
    if ours in (base, theirs):
        return theirs
    if theirs == base:
        return ours
    sentences = [_SENTENCES.findall(text) for text in (base, ours, theirs)]
    found: list[str] = []
    for part in merge_lines(*sentences, strict=False):
        # If both sides added sentences at one place, nothing says in which order they belong.
        both_added = (
            not part.base
            and any(text not in ours for text in part.lines)
            and any(text not in theirs for text in part.lines)
        )
        if not part.clash and not both_added:
            found += part.lines
            continue
        words = _join_words("".join(part.base), "".join(part.lines), "".join(part.theirs))
        if words is None:
            return None
        found.append(words)
    return "".join(found)


def _join_words(base: str, ours: str, theirs: str) -> str | None:
    b, o, t = (_WORDS.findall(text) for text in (base, ours, theirs))
    mine, other = hunks(b, o), hunks(b, t)
    spans = sorted([(h.start, h.end, 0) for h in mine] + [(h.start, h.end, 1) for h in other])
    for (_, end, side), (start, _, following) in pairwise(spans):
        if side != following and sum(not word.isspace() for word in b[end:start]) < APART:
            return None
    words = joined_lines(merge_lines(b, o, t))
    return None if words is None else "".join(words)


def join_strictly(base: str, ours: str, theirs: str, kind: str, *, edges: tuple[int, int] = (0, 0)) -> str | None:
    """Return the merge of a block that must stay in one piece, or None if it is ambiguous.

    It is ambiguous if a side changed one of the first or last lines (`edges` says how many), or if no unchanged line lies between
    edits of two sides.
    """
    b, o, t = split_lines(base), split_lines(ours), split_lines(theirs)
    first, last = edges
    for side in (o, t):
        if side[:first] != b[:first] or (last and side[-last:] != b[-last:]):
            return None
    text = join_by_lines(base, ours, theirs)
    return text if text is not None and is_one(text, kind) else None


def join_by_lines(base: str, ours: str, theirs: str) -> str | None:
    """Return the text merged line by line; None if no unchanged line is between edits of the two sides."""
    lines = joined_lines(merge_lines(split_lines(base), split_lines(ours), split_lines(theirs), strict=True))
    return None if lines is None else "".join(lines)


def is_one(text: str, kind: str) -> bool:
    """Return whether `text` is exactly one block of that kind."""
    pieces = blocks_of(text)
    return len(pieces) == 1 and pieces[0].kind == kind
