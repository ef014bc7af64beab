"""Shortens JSON so that every reader still understands it, with a mark at every cut. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

ENDED = "removed when it ended"
RETENTION = "removed by retention"
NOT_SHOWN = "not shown"
MOST_OF_A_TEXT, MOST_OF_A_VALUE = 200, 1_000
"""Characters that are kept of a text, and of any other value, after its retention."""
# Characters of each text and items of each list, the most generous first.
_STEPS = ((400, 20), (120, 8), (60, 4), (20, 1))
_CUT = re.compile(r"\[[\d,]+ more characters (?:removed when it ended|removed by retention|not shown)\]$")


@dataclass(frozen=True, slots=True)
class Shortened:
    """The outcome of one round of shortening: the number of records that were due, and the bytes freed in them."""

    records: int = 0
    freed_bytes: int = 0


def shortened_text(text: str, most: int, why: str) -> str:
    """Return the beginning of the text, marked with how much is missing; the whole text if that would save nothing."""
    already = _CUT.search(text)
    # Sixty characters are room for the mark, so a text that was cut before is not cut for its own mark.
    if already and len(text) <= most + 60:
        return text
    mark = f" [{len(text) - most:,} more characters {why}]"
    return text if len(text) <= most + len(mark) else f"{text[:most]}{mark}"


def shortened(value: Any, room: int, why: str) -> Any:
    """Return JSON of the same form in about `room` characters: texts are cut, lists and objects keep their first items."""
    size = len(json.dumps(value, ensure_ascii=True))
    if size <= room:
        return value
    for most_text, most_items in _STEPS:
        short = _cut(value, most_text, most_items, why)
        if len(json.dumps(short, ensure_ascii=True)) <= room:
            return short
    return _skeleton(value)


def _cut(value: Any, most_text: int, most_items: int, why: str) -> Any:
    if isinstance(value, str):
        return shortened_text(value, most_text, why)
    if isinstance(value, list):
        return [_cut(item, most_text, most_items, why) for item in value[:most_items]]
    if isinstance(value, dict):
        # Readers look fields up by name, so an object keeps more entries than a list keeps items.
        kept = list(value.items())[: max(most_items, 20)]
        return {name[:200]: _cut(item, most_text, most_items, why) for name, item in kept}
    return value


def _skeleton(value: Any) -> Any:
    """Return an object's first names without their values, for the case that even the beginnings of values are too long."""
    if isinstance(value, dict):
        return {name[:40]: _empty(item) for name, item in list(value.items())[:20]}
    return _empty(value)


def _empty(value: Any) -> Any:
    if isinstance(value, str):
        return value[:40]
    if isinstance(value, list | dict):
        return type(value)()
    return value


def after_retention(text: str) -> str:
    """Return the JSON object of an event, a header or a frame with only the beginnings of its values."""
    try:
        form: dict[str, Any] = json.loads(text)
    except ValueError:  # the reader reports that it is broken
        return text
    short = {
        name: shortened_text(value, MOST_OF_A_TEXT, RETENTION)
        if isinstance(value, str)
        else shortened(value, MOST_OF_A_VALUE, RETENTION)
        for name, value in form.items()
    }
    return json.dumps(short, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
