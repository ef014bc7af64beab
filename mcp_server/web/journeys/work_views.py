"""The recorded work of a phase as HTML: objects as named fields, lists as lists, every text inert. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from mcp_server.web.text.sanitize import sanitize, sanitize_line
from mcp_server.web.text.values import ANY_LENGTH

LONG_WORK = 12_000
"""Characters of one work that are shown at once."""
DEEPEST = 8
"""Levels of nesting that are laid out; deeper values are shown as JSON."""
SHORT = 100
LEAST = 8
"""Characters that each value counts in addition to its own, so that a hundred thousand empty lists are folded, too."""

_FIELDS = Markup('<dl class="fields">{0}</dl>')
_FIELD = Markup('<div class="{0}"><dt><code>{1}</code></dt><dd>{2}</dd></div>')
_ITEMS = Markup('<ol class="items">{0}</ol>')
_ITEM = Markup("<li>{0}</li>")
_BLOCK = Markup('<pre class="foreign prose" dir="ltr">{0}</pre>')
_LINE = Markup('<bdi class="foreign">{0}</bdi>')
_PLAIN = Markup("<code>{0}</code>")
_NONE = Markup('<span class="faint">nothing</span>')
_CUT = Markup('<span class="cut">… {0} more {1}</span>')


@dataclass(slots=True)
class _CharacterRoom:
    """How many characters may still be shown; `folded` once something was left out."""

    left: int
    folded: bool = False


@dataclass(frozen=True, slots=True)
class WorkHtml:
    """A work as HTML. `folded`: some of it was left out."""

    html: Markup
    folded: bool


def work_html(content: Any, *, whole: bool = False) -> WorkHtml:
    """Return the work as HTML, or only its beginning unless `whole`."""
    room = _CharacterRoom(ANY_LENGTH if whole else LONG_WORK)
    html = _shown(content, room, 0)
    return WorkHtml(html, room.folded)


def _shown(value: Any, room: _CharacterRoom, depth: int) -> Markup:
    room.left -= LEAST
    if isinstance(value, Mapping) and depth < DEEPEST:
        return _object(value, room, depth)
    if isinstance(value, list | tuple) and depth < DEEPEST:
        return _list(value, room, depth)
    if isinstance(value, str):
        return _text(value, room)
    if value is None:
        return _NONE
    text = json.dumps(value, ensure_ascii=False)
    return _PLAIN.format(text) if len(text) <= SHORT else _text(text, room)


def _text(text: str, room: _CharacterRoom) -> Markup:
    kept = text[: max(0, room.left)]
    room.left -= len(kept)
    rest = len(text) - len(kept)
    html = _LINE.format(sanitize_line(kept)) if _short(kept) else _BLOCK.format(sanitize(kept))
    if not rest:
        return html if text else _NONE
    room.folded = True
    return (html if kept else Markup("")) + _CUT.format(f"{rest:,}", "characters")


def _short(value: Any) -> bool:
    return not isinstance(value, Mapping | list) and "\n" not in str(value) and len(str(value)) <= SHORT


def _object(value: Mapping[str, Any], room: _CharacterRoom, depth: int) -> Markup:
    parts: list[Markup] = []
    for n, (name, part) in enumerate(value.items()):
        if room.left <= 0:
            parts.append(_FIELD.format("", "…", _left_out(len(value) - n, "fields", room)))
            break
        room.left -= len(str(name))
        parts.append(
            _FIELD.format("short" if _short(part) else "", sanitize_line(str(name)), _shown(part, room, depth + 1))
        )
    return _FIELDS.format(Markup("").join(parts)) if parts else _NONE


def _list(value: Sequence[Any], room: _CharacterRoom, depth: int) -> Markup:
    parts: list[Markup] = []
    for n, part in enumerate(value):
        if room.left <= 0:
            parts.append(_ITEM.format(_left_out(len(value) - n, "entries", room)))
            break
        parts.append(_ITEM.format(_shown(part, room, depth + 1)))
    return _ITEMS.format(Markup("").join(parts)) if parts else _NONE


def _left_out(count: int, what: str, room: _CharacterRoom) -> Markup:
    room.folded = True
    return _CUT.format(f"{count:,}", what)
