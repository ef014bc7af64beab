"""Text that others wrote, as one line of a terminal: nothing in it moves the cursor, hides, or changes direction. Pure."""

from __future__ import annotations

from mcp_server.review.inert import marks

_BREAKS = {"\n": "⟦U+000A⟧", "\r": "⟦U+000D⟧"}


def visible(text: str) -> str:
    """Return `text` with a mark in the place of whatever would not be seen as it is; line ends get one too.

    A carriage return at the very end is that of a file with Windows line ends, and is left out.
    """
    pieces, at = [], 0
    text = text.removesuffix("\r")
    for mark in marks(text):
        pieces += [text[at : mark.start], mark.shown]
        at = mark.end
    line = "".join([*pieces, text[at:]])
    for character, shown in _BREAKS.items():
        line = line.replace(character, shown)
    return line.expandtabs()
