"""Counts tokens, and says how many of a page are shown at once. Pure."""

from __future__ import annotations

WHOLE_TOKENS = 1000
"""A document of up to this many tokens is returned whole in every view. Of a longer document only the beginning is
returned, unless the caller asks for all of it."""


def count_tokens(text: str) -> int:
    """Return the tokens of `text`, estimated as characters / 4, rounded up."""
    return -(-len(text) // 4)
