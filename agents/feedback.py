"""What went wrong, for who tries again: filtered by its kind, the newest kept where there is too much. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agents.graph import FeedbackKind
from agents.state import Feedback
from knowledge.tokens import count_tokens

KINDS: dict[FeedbackKind, str] = {
    "validation": "validation failure",
    "soft_failure": "soft failure",
    "hard_failure": "hard failure",
}
"""How each kind is called in front of people and models."""


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
    """Return the feedback of these kinds as a list, oldest first, and how many of the oldest were left out for the room.

    The newest is always told, cut if it alone is too long.
    """
    of_kind = [one for one in feedback if one.kind in kinds]
    lines = {id(one): _line(one) for one in of_kind}
    kept: list[str] = []
    for one in reversed(of_kind):
        line = lines[id(one)]
        tokens -= count_tokens(line)
        if tokens < 0:
            break
        kept.insert(0, line)
    if of_kind and not kept:
        room = tokens + count_tokens(lines[id(of_kind[-1])])
        kept = [lines[id(of_kind[-1])][: max(room, 1) * 4].rstrip() + " [...]"]
    left = len(of_kind) - len(kept)
    return "\n".join([*([f"- ({left} older left out: {_room(left)})"] if left else []), *kept])


def _line(one: Feedback) -> str:
    return f"- {KINDS[one.kind]} in {one.phase}: {' '.join(one.text.split())}"


def _room(left: int) -> str:
    return "it does not fit here, the events have it" if left == 1 else "they do not fit here, the events have them"
