"""What went wrong, for who tries again: filtered by its kind, the newest kept where there is too much. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agents.engine.graph import FeedbackKind
from agents.engine.state import Feedback
from knowledge.tokens import count_tokens

KINDS: dict[FeedbackKind, str] = {
    "validation": "validation failure",
    "soft_failure": "soft failure",
    "hard_failure": "hard failure",
}
"""How each kind is called in front of people and models."""
LEAST_CHARS = 80
"""So much of the newest is told whatever the room is: less says nothing."""
CUT = " [...]"


def newest_within(feedback: Sequence[Feedback], tokens: int) -> Sequence[Feedback]:
    """Return the newest feedback whose texts fit so many tokens together, oldest first: first in, first out."""
    kept = 0
    for one in reversed(feedback):
        tokens -= count_tokens(one.text)
        if tokens < 0:
            break
        kept += 1
    return feedback[len(feedback) - kept :]


def told(feedback: Sequence[Feedback], kinds: Collection[FeedbackKind], tokens: int) -> str:
    """Return the feedback of these kinds as a list within so many tokens, oldest first; the oldest are left out, and counted.

    The newest is always told, cut if it alone is too long.
    """
    lines = [_line(one) for one in feedback if one.kind in kinds]
    kept: list[str] = []
    for number, line in enumerate(reversed(lines), 1):
        if count_tokens("\n".join([*_left_out(len(lines) - number), line, *kept])) > tokens:
            break
        kept.insert(0, line)
    left = _left_out(len(lines) - len(kept))
    if lines and not kept:
        left = _left_out(len(lines) - 1)
        kept = [_cut(lines[-1], tokens - count_tokens("".join(f"{line}\n" for line in left)))]
    return "\n".join([*left, *kept])


def _cut(line: str, tokens: int) -> str:
    room = max(LEAST_CHARS, tokens * 4 - len(CUT))
    return line if len(line) <= room else line[:room].rstrip() + CUT


def _left_out(number: int) -> list[str]:
    room = "it does not fit here, the events have it" if number == 1 else "they do not fit here, the events have them"
    return [f"- ({number} older left out: {room})"] if number else []


def _line(one: Feedback) -> str:
    return f"- {KINDS[one.kind]} in {one.phase}: {' '.join(one.text.split())}"
