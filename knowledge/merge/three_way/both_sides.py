"""Joins a person's text of a whole page with what others wrote to the page meanwhile. Pure.

Where the two conflict, the result has both sides, marked, or the side that the person took.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from knowledge.merge.document.units import cut
from knowledge.merge.model import Conflict
from knowledge.merge.three_way.join import join

NOW_MARK, MIDDLE_MARK, YOURS_MARK = "<<<<<<< the page now", "=======", ">>>>>>> your text"
OTHER_MARK = ">>>>>>> the other side"
"""Used instead of `YOURS_MARK` if the other text is not the person's, but came with a synchronisation."""
SideTaken = Literal["now", "yours", "both"]


def conflicts_between(base: str, now: str, yours: str) -> Sequence[Conflict]:
    """Return the places that both changed since `base`: `ours` is the page's text now, `theirs` the person's."""
    return join(cut(base), cut(now), cut(yours)).conflicts


def with_both_sides(base: str, now: str, yours: str, *, mark: str = YOURS_MARK) -> str:
    """Return the page as it is now with the person's changes; where both changed the same text, it has both, marked."""
    return _with(base, now, yours, lambda _, conflict: _marked(conflict, mark))


def with_sides_taken(base: str, now: str, yours: str, taken: Sequence[SideTaken | None]) -> str:
    """Return the page as `with_both_sides` does, but with only the side of each conflict that is `taken`.

    `taken` follows the order of the conflicts. A conflict whose entry is None or missing has both sides, marked.
    """

    def side(number: int, conflict: Conflict) -> str:
        take = taken[number] if number < len(taken) else None
        if take is None:
            return _marked(conflict)
        ours, theirs = (f"{one.rstrip()}\n" if one.strip() else "" for one in (conflict.ours, conflict.theirs))
        end = conflict.ours[len(conflict.ours.rstrip()) :] or "\n"
        if take == "both":
            return f"{ours}\n{theirs}".rstrip() + end
        one = ours if take == "now" else theirs
        return one.rstrip() + end if one else ""

    return _with(base, now, yours, side)


def is_unsettled(text: str) -> bool:
    """Return whether marks of `with_both_sides` are left."""
    return any(line.rstrip() in (NOW_MARK, YOURS_MARK, OTHER_MARK) for line in text.splitlines())


def as_sent(before: str, text: str) -> str:
    """Return the text to send, with an empty front matter if the person removed the page's own.

    A text without any front matter would leave the page's own as it is.
    """
    had, has = before.startswith("---"), text.startswith("---")
    return f"---\n---\n{text}" if had and not has else text


def _with(base: str, now: str, yours: str, side: Callable[[int, Conflict], str]) -> str:
    joined = join(cut(base), cut(now), cut(yours))
    text, rest = joined.text, []
    for number, conflict in enumerate(joined.conflicts):
        shown = side(number, conflict)
        if conflict.ours.strip() and text.count(conflict.ours) == 1:
            text = text.replace(conflict.ours, shown)
        elif shown.rstrip() != conflict.ours.rstrip():
            rest.append(shown)
    return "".join([text if text.endswith("\n") or not rest else f"{text}\n", *rest])


def _marked(conflict: Conflict, mark: str = YOURS_MARK) -> str:
    ours, theirs = (f"{side.rstrip()}\n" if side.strip() else "" for side in (conflict.ours, conflict.theirs))
    end = conflict.ours[len(conflict.ours.rstrip()) :] or "\n"
    return f"{NOW_MARK}\n{ours}{MIDDLE_MARK}\n{theirs}{mark}{end}"
