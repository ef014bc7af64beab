"""The position of a person who reviews in a terminal, and the effect of each key on it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Word = Literal["approve", "reject", "harmful", "changes"]
"""A decision on a proposal."""
Request = Word | Literal["trust", "renew", "quit"]
"""The acts that keys request, besides moving around. `trust` trusts a place that the proposal names; `renew` proposes it again."""

_STEPS = {"down": 1, "j": 1, "up": -1, "k": -1}
_WORDS: dict[str, Request] = {"a": "approve", "r": "reject", "h": "harmful", "c": "changes", "t": "trust", "w": "renew"}


@dataclass(frozen=True, slots=True)
class ScreenPage:
    """The number of proposals, the number of lines of the open one, how many fit on the screen, and whether some are folded."""

    count: int
    lines: int
    height: int
    folded: bool


@dataclass(frozen=True, slots=True)
class View:
    """The state of the screen. `at` is the place in the list.

    With `reading`, the proposal there is open, from line `top` on. With `whole`, nothing in it is folded. Its first
    `seen` lines have all been on the screen.
    """

    at: int = 0
    reading: bool = False
    top: int = 0
    whole: bool = False
    seen: int = 0


def shown(view: View, page: ScreenPage) -> View:
    """Return the view after drawing, with the lines that were shown counted as seen."""
    # Jumping to the end shows the end and not the lines in between, so those do not count as seen.
    if not view.reading or view.top > view.seen:
        return view
    return replace(view, seen=max(view.seen, min(view.top + page.height, page.lines)))


def lacking(view: View, page: ScreenPage) -> str:
    """Return which part of the proposal has not been on the screen yet, as a sentence; "" if all of it was."""
    if page.folded:
        return "part of it is collapsed: press o, then read to the end"
    if view.seen < page.lines:
        return f"{page.lines - view.seen} lines have not been on the screen yet: read to the end (space)"
    return ""


def press(view: View, key: str, page: ScreenPage) -> tuple[View, Request | None]:
    """Return the view after the key, and the action that the key requests, if any."""
    if key == "q":
        return view, "quit"
    if not page.count:
        return view, None
    if view.reading:
        return _in_proposal(view, key, page)
    if key in _STEPS:
        view = replace(view, at=_within(view.at + _STEPS[key], page.count - 1))
    elif key in ("enter", "right", "space"):
        view = opened(view.at)
    return view, None


def _in_proposal(view: View, key: str, page: ScreenPage) -> tuple[View, Request | None]:
    if key in _WORDS:
        return view, _WORDS[key]
    if key in ("escape", "left", "backspace"):
        return View(at=view.at), None
    if key in ("n", "p"):
        at = view.at + (1 if key == "n" else -1)
        return (opened(at) if 0 <= at < page.count else view), None
    if key == "o":
        # The whole text begins with the same lines up to the first fold, but their number is not known here.
        return (view if view.whole else replace(view, whole=True, top=0, seen=0)), None
    last = max(0, page.lines - page.height)
    if key in ("g", "home"):
        return replace(view, top=0), None
    if key in ("G", "end"):
        return replace(view, top=last), None
    turn = page.height - 1
    leaps = {"space": turn, "pagedown": turn, "b": -turn, "pageup": -turn}
    move = _STEPS.get(key, 0) + leaps.get(key, 0)
    return replace(view, top=_within(view.top + move, last)), None


def opened(at: int) -> View:
    """Return the view in which the proposal at that place is open, at its beginning."""
    return View(at=at, reading=True)


def _within(number: int, last: int) -> int:
    return max(0, min(number, last))
