"""Counts tokens. Pure."""

from __future__ import annotations


def count_tokens(text: str) -> int:
    """Return the tokens of `text`, estimated as characters / 4, rounded up."""
    return -(-len(text) // 4)
