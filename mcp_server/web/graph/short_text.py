"""Text in pictures: short enough for its place, and inert. Pure."""

from __future__ import annotations

import re
import unicodedata

from mcp_server.web.text.sanitize import spelled_out

MOST_LINES = 3
MOST_CHARS = 500
"""The most characters of a text, even where it is shown in full."""
_BREAK = re.compile(r"[^_\-\s./:]*[_\-\s./:]*")
_BLANKS = re.compile(r"[ \t\n\r]+")
_WIDE = ("W", "F")


def in_lines(text: str, most_chars: int, most_lines: int = MOST_LINES) -> list[str]:
    """Return the text in lines of limited width, broken between words, with an ellipsis if some is left out.

    Invisible and bidirectional characters are named.
    """
    # A name can be megabytes long. Only what can fit is looked at, before and after it is spelled out.
    room = most_chars * (most_lines + 2)
    spelled = spelled_out(_BLANKS.sub(" ", text[:room]))[:room]
    lines = [""]
    for part in filter(None, _BREAK.findall(spelled)):
        rest = part
        if lines[-1] and columns(lines[-1] + rest.rstrip()) > most_chars:
            lines.append("")
        while columns(rest.rstrip()) > most_chars:
            cut = next(n for n in range(most_chars, 0, -1) if columns(rest[:n]) <= most_chars or n == 1)
            lines[-1], rest = rest[:cut], rest[cut:]
            lines.append("")
        lines[-1] += rest
    shown = [line.strip() for line in lines if line.strip()]
    if len(shown) <= most_lines:
        return shown
    last = shown[most_lines - 1]
    return [*shown[: most_lines - 1], last[: max(1, most_chars - 1)].rstrip() + "…"]


def columns(text: str) -> int:
    """Return the width of the text in columns; East Asian characters take two."""
    return sum(2 if unicodedata.east_asian_width(character) in _WIDE else 1 for character in text)


def plain(text: str) -> str:
    """Return the beginning of a text for places that take no marks, with invisible characters named."""
    # Half of a surrogate pair, which a name from JSON can hold, cannot be encoded.
    return spelled_out(cut(text)).encode("utf-8", "replace").decode()


def cut(text: str) -> str:
    """Return the beginning of the text on one line."""
    shown = _BLANKS.sub(" ", text[:MOST_CHARS])
    return shown if len(text) <= MOST_CHARS else shown + "…"


def px(number: float) -> str:
    """Return a coordinate as SVG has it."""
    return f"{round(number, 1):g}"
