"""Reads typographic punctuation as the characters of a keyboard, so that texts copied by different programs compare equal. Pure."""

from __future__ import annotations

import re
from unicodedata import normalize

_SAME = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u02bc\u2039\u203a", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
        **dict.fromkeys("\u2014\u2015", " - "),
        "\u2026": " ... ",
        # Without a width, so nobody sees whether they were copied: soft hyphen, joiners and breaks, byte order mark.
        **dict.fromkeys("\u00ad\u200b\u2060\ufeff"),
    }
)
_DOTS = re.compile(r"\s*\.{3,}")
_LONG_DASH = re.compile(r"(?<=[^\W\d])-{2,3}(?=[^\W\d])|(?<=\s)-{2,3}(?=\s)")


def ascii_punctuation(text: str) -> str:
    """Return the text on one line with plain quotation marks, dashes, dots and blanks; a long dash has blanks around it."""
    same = normalize("NFC", text).translate(_SAME)
    if "..." in same:
        same = _DOTS.sub(" ... ", same)
    return " ".join((_LONG_DASH.sub(" - ", same) if "--" in same else same).split())
