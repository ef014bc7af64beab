"""The recorded work of a phase as HTML: objects as named fields, lists as lists, quotes with links to their pages. Pure.

Every text is inert. The same as JSON is folded away below it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from mcp_server.web.text.sanitize import sanitize, sanitize_line
from mcp_server.web.text.values import ANY_LENGTH

LONG_WORK = 12_000
"""Characters of one work that are shown at once."""
DEEPEST = 8
"""Levels of nesting that are laid out; deeper values are shown as JSON."""
SHORT = 100
LEAST = 8
"""Each value counts as this many characters more than it has, so that a hundred thousand empty lists are folded, too."""

_FIELDS = Markup('<dl class="fields">{0}</dl>')
_FIELD = Markup('<div class="{0}"><dt>{1}</dt><dd>{2}</dd></div>')
_QUOTE = Markup(
    '<figure class="quote"><blockquote class="foreign">{0}</blockquote><figcaption>{1}{2}</figcaption></figure>{3}'
)
_SOURCE = Markup('<a href="/history?path={0}"><bdi>{1}</bdi></a>')
_SECTION = Markup(' <span class="faint">in</span> <bdi>{0}</bdi>')
_RAW = Markup('<details class="raw"><summary>As JSON</summary><pre class="foreign" dir="ltr">{0}</pre></details>')
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
    """Return the work as HTML: all of it if `whole`, else at most its first `LONG_WORK` characters."""
    room = _CharacterRoom(ANY_LENGTH if whole else LONG_WORK)
    html = _shown(content, room, 0)
    raw = json.dumps(content, ensure_ascii=False, indent=2, default=dict)  # of a read-only mapping
    if isinstance(content, Mapping | list | tuple) and content and (whole or len(raw) <= LONG_WORK):
        html += _RAW.format(sanitize(raw))
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
    if _is_citation(value) and room.left > 0:
        return _citation(value, room, depth)
    parts: list[Markup] = []
    for n, (name, part) in enumerate(value.items()):
        if room.left <= 0:
            parts.append(_FIELD.format("", "…", _left_out(len(value) - n, "fields", room)))
            break
        room.left -= len(str(name))
        parts.append(_FIELD.format("short" if _short(part) else "", _title(str(name)), _shown(part, room, depth + 1)))
    return _FIELDS.format(Markup("").join(parts)) if parts else _NONE


def _title(name: str) -> Markup:
    """Return the name of a field as words."""
    return sanitize_line(name.replace("_", " ").capitalize() if name.isascii() else name)


def _is_citation(value: Mapping[str, Any]) -> bool:
    """Return whether this is a quote from a page of the knowledge base."""
    return all(isinstance(value.get(name), str) and value[name].strip() for name in ("quote", "path"))


def _citation(value: Mapping[str, Any], room: _CharacterRoom, depth: int) -> Markup:
    """Return a quote with a link to its page, and below it what else the object says."""
    path, section = value["path"], value.get("section")
    room.left -= len(path)
    source = _SOURCE.format(quote(path.encode("utf-8", "surrogatepass"), safe=""), sanitize_line(path))
    place = Markup("")
    if isinstance(section, str) and section.strip():
        room.left -= len(section)
        place = _SECTION.format(sanitize_line(section))
    rest = {name: part for name, part in value.items() if name not in ("quote", "path", "section") and part is not None}
    more = _object(rest, room, depth + 1) if rest else Markup("")
    kept = value["quote"][: max(0, room.left)]
    room.left -= len(kept)
    cut = _left_out_characters(value["quote"], kept, room)
    return _QUOTE.format(sanitize(kept) + cut, source, place, more)


def _left_out_characters(text: str, kept: str, room: _CharacterRoom) -> Markup:
    if len(kept) == len(text):
        return Markup("")
    room.folded = True
    return _CUT.format(f"{len(text) - len(kept):,}", "characters")


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
