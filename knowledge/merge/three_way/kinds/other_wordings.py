"""Tells whether two blocks that two sides added at one place are wordings of one text. Pure."""

from __future__ import annotations

from functools import lru_cache

from knowledge.merge.claims.statements import is_paraphrase, read_statement, stemming_language
from knowledge.merge.document.units import BLANK, item_starts_in, split_lines
from knowledge.merge.three_way.alignment import ALIKE, AlignedNode, likeness

ONE_TEXT = 0.85
"""Share of words that two added texts must have in common to count as two wordings of one text."""
ONE_LIST = 0.5
"""Share of the shorter of two added lists' items that the other must have for both to count as versions of one list."""
_PROSE = frozenset({"paragraph", "fence", "code", "quote"})


def are_one_text(one: AlignedNode, other: AlignedNode) -> bool:
    """Return whether a reader would expect only one of these blocks in a place.

    Usually both sides copied a text from elsewhere and one changed it, or both wrote about the same thing. Single items and
    rows are similar anyway, so they are never one text.
    """
    if one.kind != other.kind:
        return False
    if one.kind == "list":
        mine, yours = items_of(one.text), items_of(other.text)
        return len(mine & yours) >= ONE_LIST * max(2, min(len(mine), len(yours)))
    if one.kind not in _PROSE:
        return False
    alike = likeness(one, other)
    if alike >= ONE_TEXT:
        return True
    if one.kind != "paragraph" or alike < ALIKE:
        return False
    language = stemming_language(f"{one.text}\n{other.text}")
    return is_paraphrase(read_statement(one.text, language), read_statement(other.text, language))


@lru_cache(maxsize=64)
def items_of(text: str) -> frozenset[str]:
    """Return the items of a list, each without the blanks around it."""
    lines, starts = split_lines(text), item_starts_in(text)
    return frozenset("".join(lines[a:b]).strip(BLANK) for a, b in zip(starts, [*starts[1:], len(lines)], strict=True))
