"""Cursors of lists. A cursor names the query that it belongs to and the entry after which the next page begins. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence

from knowledge.errors import BadCursor

KEY_DIGITS = 12
LARGEST_INTEGER = 2**63 - 1
"""The largest integer that databases can store."""


def question(arguments: Mapping[str, object]) -> str:
    """Return a key for the query with these arguments, so that its cursors are not used with another one."""
    plain = json.dumps(sorted((name, value) for name, value in arguments.items() if value is not None))
    return hashlib.sha256(plain.encode()).hexdigest()[:KEY_DIGITS]


def seal(key: str, place: Sequence[str | int]) -> str:
    """Return a cursor of the query `key` for the entries after `place`."""
    return base64.urlsafe_b64encode(json.dumps([key, *place]).encode()).decode().rstrip("=")


def unseal(cursor: str, key: str, *kinds: type) -> list[str | int]:
    """Return the place after which the next page begins; its parts have these types.

    Raises:
        BadCursor: it belongs to another query, or is not a cursor.
    """
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, RecursionError):
        raise BadCursor(cursor) from None
    if not isinstance(found, list) or found[:1] != [key] or [type(part) for part in found[1:]] != list(kinds):
        raise BadCursor(cursor)
    # Hosts can make up cursors, and a database would fail on a larger number.
    if any(isinstance(part, int) and abs(part) > LARGEST_INTEGER for part in found[1:]):
        raise BadCursor(cursor)
    return found[1:]
