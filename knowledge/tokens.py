"""Counts tokens, and says how many of a page are shown at once. Pure."""

from __future__ import annotations

WHOLE_TOKENS = 1000
"""A document up to this size is returned whole, whatever the view; of a longer one the beginning, unless all of it is asked for."""


def count_tokens(text: str) -> int:
    """Return the tokens of `text`, estimated as characters / 4, rounded up."""
    return -(-len(text) // 4)
