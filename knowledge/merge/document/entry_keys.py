"""Recognises the entries of a reference, such as options, by the name at their beginning. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from knowledge.merge.model import Unit
from knowledge.pages.markdown.inline import plain

REMEMBERED = 8192
"""Texts whose key is cached."""

_CODE = r"(?:[*_]{0,3}`+[^`\n]{1,80}`+[*_]{0,3})"
_ENTRY = re.compile(
    r"\s*(?:(?:[-+*]|\d{1,9}[.)])\s+)?(?:"
    rf"(?P<code>{_CODE}(?:\s*[,/|]\s*{_CODE})*)(?:\s*\([^()\n]{{1,80}}\))?(?::|\s*\uff1a|\s+[-\u2013\u2014=]\s|\r?\n[ \t]*:\s)"
    r"|(?P<term>[^\s:][^\r\n]{0,80})\r?\n[ \t]*:\s)"
)
"""Code before a colon or a dash, or the term of a definition list (`term` and `: definition` on the next line)."""


def are_two_entries(one: Unit, other: Unit) -> bool:
    """Return whether two texts are entries of different names, so that what one says is never about the other.

    A sentence such as "Defaults to 90." then has another subject in each, although it has the same words.
    """
    mine = entry_key(one.text)
    return bool(mine) and entry_key(other.text) not in ("", mine)


@lru_cache(REMEMBERED)
def entry_key(text: str) -> str:
    """Return the name that a text says something about, folded; "" if it isn't an entry."""
    found = _ENTRY.match(text)
    return plain(found["code"] or found["term"]).casefold() if found else ""
