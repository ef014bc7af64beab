"""Where a question about messages goes on: which way, and from which message. A cursor belongs to its question. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Literal

from knowledge.errors import BadCursor

Way = Literal["older", "newer"]


KEY_DIGITS = 12


def fingerprint(*asked: object) -> str:
    """Return what tells this question from others, so that a cursor is not taken to another one."""
    return hashlib.sha256(repr(asked).encode("utf-8", "surrogatepass")).hexdigest()[:KEY_DIGITS]


def sealed(key: str, way: Way, message_id: int) -> str:
    """Return the cursor of the question with that key: it goes on from a message, older or newer."""
    return base64.urlsafe_b64encode(json.dumps([key, way, message_id]).encode()).decode()


def unsealed(cursor: str, key: str) -> tuple[Way, int]:
    """Return which way a cursor goes on, and from which message.

    Raises:
        BadCursor: it belongs to another question, or to none.
    """
    try:
        sealed_for, way, message_id = json.loads(base64.urlsafe_b64decode(cursor.encode()))
    except (ValueError, TypeError):
        raise BadCursor(cursor) from None
    if sealed_for != key or way not in ("older", "newer") or type(message_id) is not int:
        raise BadCursor(cursor)
    return way, message_id
