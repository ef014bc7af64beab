"""Where a person is while reviewing in a terminal, and what a key does there. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Word = Literal["approve", "reject", "harmful"]
"""What a person may say about a proposal."""
Asked = Word | Literal["trust", "quit"]
"""What a key may ask for beyond looking; `trust` is about a place that the proposal names."""

_STEPS = {"down": 1, "j": 1, "up": -1, "k": -1}
_WORDS: dict[str, Asked] = {"a": "approve", "r": "reject", "h": "harmful", "t": "trust"}


@dataclass(frozen=True, slots=True)
class ScreenPage:
    """What there is to show: how many proposals, how many lines of the present one, how many fit, whether some are folded."""

    count: int
    lines: int
    height: int
    folded: bool


@dataclass(frozen=True, slots=True)
class View:
    """`at` is the place in the list; `reading`: its proposal is open, from line `top`; `whole`: nothing of it is folded.

    `seen` lines from the beginning have been on the screen, without a gap.
    """

    at: int = 0
    reading: bool = False
    top: int = 0
    whole: bool = False
    seen: int = 0


def shown(view: View, page: ScreenPage) -> View:
    """Return the view after it was drawn. Jumping to the end shows the end, not what lies between."""
    if not view.reading or view.top > view.seen:
        return view
    return replace(view, seen=max(view.seen, min(view.top + page.height, page.lines)))


def lacking(view: View, page: ScreenPage) -> str:
    """Return what of the proposal the person has not been shown yet, as a sentence; "" when all of it was."""
    if page.folded:
        return "some of it is collapsed: press o, then read to the end"
    if view.seen < page.lines:
        return f"{page.lines - view.seen} lines have not been on the screen yet: read to the end (space)"
    return ""


def press(view: View, key: str, page: ScreenPage) -> tuple[View, Asked | None]:
    """Return where the key leads, and what is to be said or done beyond looking."""
    if key == "q":
        return view, "quit"
    if not page.count:
        return view, None
    return _in_proposal(view, key, page) if view.reading else (_in_list(view, key, page), None)


def _in_list(view: View, key: str, page: ScreenPage) -> View:
    if key in _STEPS:
        return replace(view, at=_within(view.at + _STEPS[key], page.count - 1))
    if key in ("enter", "right", "space"):
        return opened(view.at)
    return view


def _in_proposal(view: View, key: str, page: ScreenPage) -> tuple[View, Asked | None]:
    last = max(0, page.lines - page.height)
    leaps = {"space": page.height - 1, "pagedown": page.height - 1, "b": 1 - page.height, "pageup": 1 - page.height}
    if key in _WORDS:
        return view, _WORDS[key]
    if key in ("escape", "left", "backspace"):
        return View(at=view.at), None
    if key in ("n", "p"):
        at = view.at + (1 if key == "n" else -1)
        return (opened(at) if 0 <= at < page.count else view), None
    if key == "o":
        # What was on the screen above the first fold is a beginning of the whole, but how long it was is not known here.
        return (view if view.whole else replace(view, whole=True, top=0, seen=0)), None
    if key in ("g", "home"):
        return replace(view, top=0), None
    if key in ("G", "end"):
        return replace(view, top=last), None
    move = _STEPS.get(key, 0) + leaps.get(key, 0)
    return replace(view, top=_within(view.top + move, last)), None


def opened(at: int) -> View:
    """Return the view in which the proposal at that place is open, from its beginning."""
    return View(at=at, reading=True)


def _within(number: int, last: int) -> int:
    return max(0, min(number, last))
