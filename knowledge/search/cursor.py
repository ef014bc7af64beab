"""Cursors: where a search goes on. They name what was shown, so that a later page repeats nothing while files change. Pure."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable

from knowledge.errors import BadCursor
from knowledge.state.ports import ChunkRow, Filters

MARK_BYTES = 6
"""Of a few hundred chunks two share a mark once in a thousand million times."""
KEY_DIGITS = 12


def fingerprint(query: str, mode: str, filters: Filters) -> str:
    """Return what tells this question from others, so that a cursor is not taken to another one."""
    return hashlib.sha256(repr((query, mode, filters)).encode()).hexdigest()[:KEY_DIGITS]


def mark(row: ChunkRow) -> str:
    """Return a name for what a chunk says and where, the same after its page was indexed anew."""
    said = "\0".join((row.path, *row.section, row.text)).encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(hashlib.blake2b(said, digest_size=MARK_BYTES).digest()).decode()


def seal(shown: Iterable[str], key: str) -> str:
    """Return the cursor of a question of which the chunks with these marks were shown."""
    return key + "".join(shown)


def unseal(cursor: str, key: str) -> list[str]:
    """Return the marks of what was shown.

    Raises:
        BadCursor: it belongs to another question, or to none.
    """
    length = len(base64.urlsafe_b64encode(bytes(MARK_BYTES)))
    told = cursor[KEY_DIGITS:]
    if cursor[:KEY_DIGITS] != key or len(told) % length or not told.isascii():
        raise BadCursor(cursor)
    return [told[at : at + length] for at in range(0, len(told), length)]
