"""Feedback for the next attempt: by kind, and the newest if there is too much. Pure."""

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
"""The names of the kinds for people and models."""
LEAST_CHARS = 80
"""The newest feedback keeps at least this many characters: less would be useless."""
CUT = " [...]"


def newest_within(feedback: Sequence[Feedback], tokens: int) -> Sequence[Feedback]:
    """Return the newest feedback that fits this many tokens, oldest first."""
    kept = 0
    for one in reversed(feedback):
        tokens -= count_tokens(one.text)
        if tokens < 0:
            break
        kept += 1
    return feedback[len(feedback) - kept :]


def feedback_list(
    feedback: Sequence[Feedback], kinds: Collection[FeedbackKind], tokens: int, *, dropped: int = 0
) -> str:
    """Return the feedback of these kinds as a list within a number of tokens, oldest first.

    The oldest that do not fit are only counted, together with those that were `dropped` before. The newest is always shown, cut if
    it is too long.
    """
    lines = [f"- {KINDS[f.kind]} in {f.phase}: {' '.join(f.text.split())}" for f in feedback if f.kind in kinds]
    kept: list[str] = []
    for number, line in enumerate(reversed(lines), 1):
        if count_tokens("\n".join([*_left_out(len(lines) - number + dropped), line, *kept])) > tokens:
            break
        kept.insert(0, line)
    left = _left_out(len(lines) - len(kept) + dropped)
    if lines and not kept:
        left = _left_out(len(lines) - 1 + dropped)
        newest, rest = lines[-1], tokens - count_tokens("".join(f"{line}\n" for line in left))
        # `count_tokens` estimates four characters to a token.
        room = max(LEAST_CHARS, rest * 4 - len(CUT))
        kept = [newest if len(newest) <= room else newest[:room].rstrip() + CUT]
    return "\n".join([*left, *kept])


def _left_out(number: int) -> list[str]:
    why = (
        "it is too long to show here; the events have it"
        if number == 1
        else "they are too long to show here; the events have them"
    )
    return [f"- ({number} older left out: {why})"] if number else []
