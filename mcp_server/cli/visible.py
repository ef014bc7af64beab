"""Text that others wrote, as one line of a terminal: nothing in it moves the cursor, hides, or changes direction. Pure."""

from __future__ import annotations

from mcp_server.review.inert import spelled_out

_BREAKS = {"\n": "⟦U+000A⟧", "\r": "⟦U+000D⟧"}


def visible(text: str) -> str:
    """Return `text` with a mark in the place of whatever would not be seen as it is; line ends get one too.

    A carriage return at the very end is that of a file with Windows line ends, and is left out.
    """
    line = spelled_out(text.removesuffix("\r"))
    for character, shown in _BREAKS.items():
        line = line.replace(character, shown)
    return line.expandtabs()
