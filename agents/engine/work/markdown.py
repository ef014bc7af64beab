"""A work of any shape as readable Markdown, with every id and quote unchanged. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from agents.engine.events import Json, canonical
from knowledge.pages.document import shortened

MOST_INLINE, MOST_TEXT = 160, 32_000
"""In characters. A report shows a text artefact in full, because its reader may find it nowhere else."""
DEEPEST = 6
HEADLINES = ("title", "name", "text", "statement", "claim", "what")
"""The most descriptive fields of an object; the first that it has is shown beside its id."""
_BLOCK = re.compile(r"#{1,6}(?:\s|$)|[>|<]|[-+*](?:\s|$)|```|~~~|[=-]+\s*$")
"""Line beginnings that Markdown does not read as a paragraph."""
_CUT = "(cut: {more} more characters)"


def one_line(text: str, most: int) -> str:
    """Return the text as one line, cut at the end of a word if it is longer."""
    return shortened(" ".join(text.split()), most)


def counted(number: float, thing: str) -> str:
    """Return a number with its noun; the plural is formed with an s."""
    return f"{number:.15g} {thing}{'' if number == 1 else 's'}"


def quoted(text: str, most: int) -> list[str]:
    """Return the text as a quotation, line by line; a long one is cut, with a note on how much is missing."""
    shown = text[:most]
    lines = [f"> {line}".rstrip() for line in shown.strip().splitlines()] or [">"]
    return [*lines, f"> {_CUT.format(more=len(text) - most)}"] if len(text) > most else lines


def work_lines(work: Json, most: int) -> list[str]:
    """Return the work as nested lists within a number of characters; the last line says how much is left out."""
    lines = _fields(work, 0) if isinstance(work, Mapping) else _value("", work, 0)
    kept, size = list[str](), 0
    for line in lines:
        size += len(line) + 1
        if size > most:
            return [*kept, f"- ({len(lines) - len(kept)} more lines are left out here; the journey's state has them)"]
        kept.append(line)
    return kept


def _value(label: str, value: Json, depth: int) -> list[str]:
    """Return a value with its label as list items at that depth; none for an empty value."""
    if value is None or value in ("", [], {}):
        return []
    if depth > DEEPEST:
        return _scalar(label, canonical(value), depth)
    if isinstance(value, Mapping):
        return _object(label, value, depth)
    if isinstance(value, list | tuple):
        return _list(label, value, depth)
    return _scalar(label, _plain(value), depth)


def _plain(value: Json) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else canonical(value)


def _item(label: str, text: str, depth: int) -> str:
    line = f"{label}: {text}" if label and text else f"{label}:" if label else text
    escaped = f"\\{line}" if _BLOCK.match(line) else line
    return f"{'  ' * depth}- {escaped}"


def _scalar(label: str, text: str, depth: int) -> list[str]:
    """Return a text as one item, or as a quotation below its label if it has several lines."""
    lines = text.strip().splitlines()
    if len(lines) <= 1 and len(text) <= MOST_TEXT:
        return [_item(label, "".join(lines), depth)]
    indent = "  " * (depth + 1)
    return [_item(label or "text", "", depth), "", *(indent + line for line in quoted(text, MOST_TEXT)), ""]


def _object(label: str, value: Mapping[str, Json], depth: int) -> list[str]:
    """Return an object as one item, with its other fields below it."""
    if cited := _citation(value):
        rest = {name: inside for name, inside in value.items() if name not in ("path", "section", "quote")}
        return [_item(label, cited, depth), *_fields(rest, depth + 1)]
    head, rest = _headed(value)
    return [_item(label or ("" if head else "item"), head, depth), *_fields(rest, depth + 1)]


def _fields(value: Mapping[str, Json], depth: int) -> list[str]:
    return [line for name, inside in value.items() for line in _value(one_line(name, MOST_INLINE), inside, depth)]


def _citation(value: Mapping[str, Json]) -> str:
    """Return a citation as one line; "" if the object is not a citation, or has several lines."""
    path, section, quote = value.get("path"), value.get("section", ""), value.get("quote")
    if not (isinstance(path, str) and isinstance(section, str) and isinstance(quote, str)):
        return ""
    if len(f"{path}{section}{quote}".splitlines()) != 1:
        return ""
    where = f", section {section!r}" if section else ", before the first heading"
    return f'{path}{where}: "{quote}"'


def _headed(value: Mapping[str, Json]) -> tuple[str, dict[str, Json]]:
    """Return the headline of an object (its id and its most descriptive field), and its other fields."""
    rest, parts = dict(value), list[str]()
    # A backtick would end the code span around the id.
    if isinstance(id_ := rest.get("id"), str) and id_ and "`" not in id_ and len(id_.splitlines()) == 1:
        parts.append(f"`{rest.pop('id')}`")
    for name in HEADLINES:
        text = rest.get(name)
        if isinstance(text, str) and text.strip() and len(text.splitlines()) == 1 and len(text) <= MOST_TEXT:
            parts.append(rest.pop(name).strip())
            break
    return " ".join(parts), rest


def _list(label: str, value: Sequence[Json], depth: int) -> list[str]:
    """Return a list: short plain values on one line, otherwise one item each below the label."""
    plain = [_plain(one) for one in value if not isinstance(one, Mapping | list | tuple)]
    inline = ", ".join(plain)
    # A value with a comma would read as two values of the list.
    short = all(len(one.splitlines()) == 1 and "," not in one for one in plain) and len(inline) <= MOST_INLINE
    if label and len(plain) == len(value) and short:
        return [_item(label, inline, depth)]
    below = depth + 1 if label else depth
    items = [line for one in value for line in _value("", one, below)]
    return [_item(label, "", depth), *items] if label else items
