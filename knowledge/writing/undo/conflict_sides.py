"""Writes the chosen side at each conflict of an undo. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from knowledge.merge.document.units import bare, cut, split_lines
from knowledge.merge.model import Conflict
from knowledge.merge.three_way.join import Joined, join


def take_sides(
    base: str, current: str, before: str, joined: Joined, wanted: Sequence[bool]
) -> tuple[str, Sequence[bool]]:
    """Return the joined page with the text from before at the wanted conflicts, and for which of them it could be written.

    `joined` is the join of `current` and `before` over `base`; `wanted` has an entry for each of its conflicts. Where a text can't be
    written without touching another conflict, the current one stays.
    """
    conflicts = joined.conflicts
    if not any(wanted):
        return joined.text, wanted
    if all(wanted):
        # With the sides exchanged, the text from before wins wherever both touch the same text.
        return join(cut(base), cut(before), cut(current)).text, wanted
    text = _joined_with(base, current, before, conflicts, wanted)
    if text is not None:
        return text, wanted
    taken = [False] * len(conflicts)
    found = joined.text
    for at in (at for at, wants in enumerate(wanted) if wants):
        taken[at] = True
        text = _joined_with(base, current, before, conflicts, taken)
        if text is None:
            taken[at] = False
        else:
            found = text
    return found, taken


def _joined_with(
    base: str, current: str, before: str, conflicts: Sequence[Conflict], wanted: Sequence[bool]
) -> str | None:
    """Return the join as if the current page had the wanted texts already; None unless exactly the other conflicts are left then."""
    edited = _edited(current, [one for one, wants in zip(conflicts, wanted, strict=True) if wants])
    if edited is None:
        return None
    joined = join(cut(base), cut(edited), cut(before))
    left = [one for one, wants in zip(conflicts, wanted, strict=True) if not wants]
    return joined.text if _sides(joined.conflicts) == _sides(left) else None


def _edited(current: str, conflicts: Sequence[Conflict]) -> str | None:
    """Return the current page with the text from before at these conflicts; None if one of them is not found at its place."""
    lines = split_lines(current)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    found: list[tuple[int, int, str]] = []
    for one in conflicts:
        if not 1 <= one.line <= len(starts):
            return None
        start = starts[one.line - 1]
        # The content of a list item begins within its line.
        last = start + len(bare(lines[one.line - 1])) if one.line <= len(lines) else start
        at = current.find(one.ours, start, last + len(one.ours))
        if at < 0:
            return None
        end, text = at + len(one.ours), one.theirs
        if not text and (at == 0 or current[:at].endswith(("\n\n", "\n\r\n"))):
            # The blank lines after a removed block go with it.
            while end < len(current) and current[end] in "\r\n":
                end += 1
        elif text and bare(text) == text and end < len(current):
            text += one.ours[len(bare(one.ours)) :]
        found.append((at, end, text))
    found.sort()
    if any(one[1] > following[0] for one, following in pairwise(found)):
        return None
    parts: list[str] = []
    at = 0
    for start, end, text in found:
        parts += current[at:start], text
        at = end
    return "".join([*parts, current[at:]])


def _sides(conflicts: Iterable[Conflict]) -> Counter[tuple[str, str]]:
    return Counter((one.ours, one.theirs) for one in conflicts)
