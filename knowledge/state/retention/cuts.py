"""Shortening JSON so that every reader still understands it, and every cut says that it is one. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

ENDED = "removed when it ended"
RETENTION = "removed by retention"
NOT_SHOWN = "not shown"
_STEPS = ((400, 20), (120, 8), (60, 4), (20, 1))
_CUT = re.compile(r"\[[\d,]+ more characters (?:removed when it ended|removed by retention|not shown)\]$")


@dataclass(frozen=True, slots=True)
class Shortened:
    """What one round of shortening did: how many records were looked at, and how many bytes were freed in them."""

    records: int = 0
    freed_bytes: int = 0


def shortened_text(text: str, most: int, why: str) -> str:
    """Return the beginning of the text with what is missing behind it; the whole text where that would save nothing."""
    already = _CUT.search(text)
    if already and len(text) <= most + 60:
        return text
    mark = f" [{len(text) - most:,} more characters {why}]"
    return text if len(text) <= most + len(mark) else f"{text[:most]}{mark}"


def shortened(value: Any, room: int, why: str) -> Any:
    """Return JSON of the same form whose text has about `room` characters: texts cut, lists and objects of their first items."""
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
        kept = list(value.items())[: max(most_items, 20)]
        return {name[:200]: _cut(item, most_text, most_items, why) for name, item in kept}
    return value


def _skeleton(value: Any) -> Any:
    """Return what is left where even beginnings are too much: the first names of an object, without what they held."""
    if isinstance(value, dict):
        return {name[:40]: _empty(item) for name, item in list(value.items())[:20]}
    return _empty(value)


def _empty(value: Any) -> Any:
    if isinstance(value, str):
        return value[:40]
    if isinstance(value, list):
        return []
    return {} if isinstance(value, dict) else value


def shortened_object(text: str, most_text: int, room: int, why: str) -> str:
    """Return the JSON object with its texts cut to `most_text` characters, and what else is large in it to `room`."""
    try:
        form: dict[str, Any] = json.loads(text)
    except ValueError:  # whoever reads it says that it is broken
        return text
    short = {
        name: shortened_text(value, most_text, why) if isinstance(value, str) else shortened(value, room, why)
        for name, value in form.items()
    }
    return json.dumps(short, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
