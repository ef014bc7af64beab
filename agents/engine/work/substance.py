"""Whether a text says anything. Pure."""

from __future__ import annotations


def blank(text: str) -> bool:
    """Return whether nobody would see anything of the text: it is empty, white space, or characters that have no shape."""
    return not any(letter.isprintable() and not letter.isspace() for letter in text)
