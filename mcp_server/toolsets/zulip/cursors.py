"""Where a question about messages goes on: which way, and from which message. A cursor belongs to its question. Pure."""

from __future__ import annotations

from typing import Literal

from knowledge.errors import BadCursor
from knowledge.wire.cursors import seal, unseal

Way = Literal["older", "newer"]


def sealed(key: str, way: Way, message_id: int) -> str:
    """Return the cursor of the question with that key: it goes on from a message, older or newer."""
    return seal(key, (way, message_id))


def unsealed(cursor: str, key: str) -> tuple[Way, int]:
    """Return which way a cursor goes on, and from which message.

    Raises:
        BadCursor: it belongs to another question, or to none.
    """
    way, message_id = unseal(cursor, key, str, int)
    if way not in ("older", "newer"):
        raise BadCursor(cursor)
    return ("older" if way == "older" else "newer"), int(message_id)
