"""JSON as models write it: with trailing commas, Python's words and quotes, or brackets left open. Pure.

Only what has one reading is mended. A text that ends inside a string was cut off, and is not completed.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

LONGEST = 200_000
"""Longer texts are only read as they are."""
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(\s*[}\]])', re.DOTALL)
_PAIRS = {"{": "}", "[": "]"}


def read_json(text: str, *, open_ended: bool = False) -> Any:
    """Return the value in a text. `open_ended`: brackets may be missing at its end.

    Raises:
        ValueError: it is not JSON, and cannot be mended without a guess.
    """
    try:
        # Not strict: unescaped line breaks inside texts are the most frequent slip of small models.
        return json.loads(text, strict=False, parse_constant=_reject_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError:
        if len(text) > LONGEST:
            raise
    mended = _TRAILING.sub(lambda found: found[1] or found[2], text)
    closed = mended.rstrip().rstrip(",") + _open_brackets(mended) if open_ended and ":" in mended else ""
    for candidate in filter(None, (mended, closed)):
        try:
            return json.loads(candidate, strict=False, parse_constant=_reject_constant)
        except (ValueError, RecursionError):
            continue
    try:
        value = ast.literal_eval(text.strip())
        # Through JSON, which has no tuples, sets and bytes.
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise ValueError("it is not JSON") from None


def first_value(text: str) -> tuple[str, int]:
    """Return the object or list with which a text begins, and its length there; an unfinished one is the rest of the text."""
    stack, inside, place = list[str](), False, 0
    while place < len(text):
        character = text[place]
        if inside and character == "\\":
            place += 1
        elif character == '"':
            inside = not inside
        elif not inside and character in _PAIRS:
            stack.append(_PAIRS[character])
        elif not inside and stack and character == stack[-1]:
            stack.pop()
            if not stack:
                return text[: place + 1], place + 1
        place += 1
    return text, len(text)


def _open_brackets(text: str) -> str:
    """Return the brackets that are missing at the end; none if the text ends inside a string."""
    stack, inside, escaped = list[str](), False, False
    for character in text:
        if escaped:
            escaped = False
        elif inside and character == "\\":
            escaped = True
        elif character == '"':
            inside = not inside
        elif not inside and character in _PAIRS:
            stack.append(_PAIRS[character])
        elif not inside and stack and character == stack[-1]:
            stack.pop()
    return "" if inside else "".join(reversed(stack))


def _reject_constant(name: str) -> None:
    # Python's decoder accepts NaN and Infinity, which are not JSON and could not be sent back.
    raise ValueError(f"{name} is not JSON")
