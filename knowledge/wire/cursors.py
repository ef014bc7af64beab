"""Cursors: where a list goes on. A cursor says which question gave it out and behind what the next page begins. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence

from knowledge.errors import BadCursor

KEY_DIGITS = 12
MOST_WHOLE = 2**63 - 1
"""No engine counts further."""


def question(asked: Mapping[str, object]) -> str:
    """Return what tells this question from others, so that a cursor is not taken to another one."""
    plain = json.dumps(sorted((name, value) for name, value in asked.items() if value is not None))
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:KEY_DIGITS]


def seal(key: str, place: Sequence[str | int]) -> str:
    """Return a cursor of the question `key` that goes on behind `place`."""
    return base64.urlsafe_b64encode(json.dumps([key, *place]).encode()).decode().rstrip("=")


def unseal(cursor: str, key: str, *kinds: type) -> list[str | int]:
    """Return the place behind which to go on; its parts are of these kinds.

    Raises:
        BadCursor: it belongs to another question, or to none.
    """
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        raise BadCursor(cursor) from None
    if not isinstance(found, list) or found[:1] != [key] or [type(part) for part in found[1:]] != list(kinds):
        raise BadCursor(cursor)
    if any(isinstance(part, int) and abs(part) > MOST_WHOLE for part in found[1:]):
        raise BadCursor(cursor)
    return found[1:]
