"""The metadata at the head of a document: where it ends, and its values as plain JSON. Pure.

YAML is read event by event into plain values. No objects are constructed, so a tag can't run code; nothing recurses; and every
value behind an alias is counted each time, so a text that multiplies itself by aliases hits a limit instead of filling memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

MOST_CHARACTERS = 64 * 1024
DEEPEST = 20
MOST_VALUES = 10_000

_KEY_LINE = re.compile(r"([A-Za-z_][\w -]{0,63}?)[ \t]*:(?:[ \t]+(.*))?$")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})$")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?$")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ \t]+(\d\d?:\d\d:\d\d(?:\.\d+)?)$")
_NOT_JSON = frozenset({".nan", ".inf", "-.inf", "+.inf"})
_TOO_DEEP = f"it is nested deeper than {DEEPEST}"
_DROPPED = object()
_YES = frozenset({"true", "yes", "on", "1"})


class FrontMatter(NamedTuple):
    """The front matter of a document.

    `body` is the index, from 0, of the first line after the front matter. `problem` is a sentence, empty if there was
    no problem.
    """

    body: int
    metadata: Mapping[str, object]
    problem: str = ""


_NONE = FrontMatter(0, {})


class _FrontMatterRefused(Exception):
    """The block is YAML that we do not accept."""


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Return the front matter of a document; without one the metadata is empty and the body begins at line 0."""
    first = lines[0].rstrip(" \t") if lines else ""
    if first == "+++":
        if not (end := _closing(lines, ("+++",))):
            return _NONE
        return FrontMatter(end + 1, {}, "the front matter is TOML, which is not read: write YAML between lines of ---")
    if first != "---":
        return _NONE
    end = _closing(lines, ("---", "..."))
    # Text between two rules can look like front matter; only a line `key: value` near the top shows that it was meant as such.
    begins_with_key = any(_KEY_LINE.match(line) for line in lines[1 : min(4, end or 4)])
    if not end:
        if begins_with_key:
            return FrontMatter(
                0, {}, "the front matter that line 1 opens is never closed with ---, so it was read as text"
            )
        return _NONE
    return _read(lines[1:end], end + 1, begins_with_key=begins_with_key)


def _closing(lines: Sequence[str], marks: tuple[str, ...]) -> int:
    for number in range(1, len(lines)):
        if lines[number].startswith(marks) and lines[number].rstrip(" \t") in marks:
            return number
    return 0


def _read(block: Sequence[str], body: int, *, begins_with_key: bool) -> FrontMatter:
    # Imported here because it takes 30 ms to load, which a start with nothing new to index should not pay.
    import yaml

    text = "\n".join(block)
    if len(text) > MOST_CHARACTERS:
        problem = f"the front matter has {len(text)} characters; at most {MOST_CHARACTERS} are read"
        return FrontMatter(body, {}, problem)
    try:
        value = _built(text)
    except _FrontMatterRefused as refused:
        return FrontMatter(body, {}, f"the front matter was not read: {refused}")
    except yaml.YAMLError as error:
        # libyaml has a limit of its own (1,000) and meets it while it still scans, before the builder sees anything.
        if "nesting depth" in str(error):
            return FrontMatter(body, {}, f"the front matter was not read: {_TOO_DEEP}")
        if not begins_with_key:
            return _NONE
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" at line {mark.line + 2}"
        problem = f"the front matter is broken YAML{where}; only its plain `key: value` lines were read"
        return FrontMatter(body, _salvaged(block), problem)
    if value is None or value == "":
        return FrontMatter(body, {})
    if isinstance(value, dict):
        return FrontMatter(body, value)
    if begins_with_key or isinstance(value, list):
        return FrontMatter(body, {}, "the front matter is not a list of `key: value` lines, so it was not read")
    return _NONE


def _built(text: str) -> object:
    """Return the first YAML document of `text` as plain JSON values."""
    import yaml  # as above

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _FrontMatterBuilder()
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.ScalarEvent):
            builder.scalar(event.value, event.anchor, plain=not event.style)
        elif isinstance(event, yaml.MappingStartEvent):
            builder.open({}, event.anchor)
        elif isinstance(event, yaml.SequenceStartEvent):
            builder.open([], event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            builder.alias(event.anchor or "")
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            builder.close()
        elif isinstance(event, yaml.DocumentEndEvent):
            break
    return builder.root


@dataclass(slots=True)
class _OpenValue:
    """A mapping or list that is not complete; `key` is a mapping's key whose value comes next, None if a key comes next."""

    value: Any
    anchor: str | None
    counted_before: int
    key: str | None = None

    @property
    def wants_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None


class _FrontMatterBuilder:
    """Builds values from YAML events and counts them all; a value behind an alias counts each time the alias appears."""

    def __init__(self) -> None:
        self.root: object = None
        self._stack: list[_OpenValue] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count = 0

    def scalar(self, text: str, anchor: str | None, *, plain: bool) -> None:
        is_key = bool(self._stack) and self._stack[-1].wants_key
        value = text if is_key or not plain else _plain_value(text)
        self._spend(1)
        if anchor:
            self._anchors[anchor] = (value, 1)
        self._add(value)

    def open(self, value: object, anchor: str | None) -> None:
        if self._stack and self._stack[-1].wants_key:
            raise _FrontMatterRefused("a key is not a plain word")
        if len(self._stack) >= DEEPEST:
            raise _FrontMatterRefused(_TOO_DEEP)
        self._spend(1)
        self._stack.append(_OpenValue(value, anchor, self._count))

    def close(self) -> None:
        closed = self._stack.pop()
        if closed.anchor:
            self._anchors[closed.anchor] = (closed.value, self._count - closed.counted_before + 1)
        self._add(closed.value)

    def alias(self, anchor: str) -> None:
        # An anchor that is still open would contain itself, so only complete values are in `_anchors`.
        if anchor not in self._anchors:
            raise _FrontMatterRefused(f"its alias *{anchor[:40]} does not name a complete value")
        value, size = self._anchors[anchor]
        self._spend(size)
        # Measured level by level instead of recursively, so that deep nesting can't exhaust the stack.
        depth, level = len(self._stack), [value]
        while level := [inner for outer in level for inner in _inside(outer)]:
            depth += 1
            if depth > DEEPEST:
                raise _FrontMatterRefused(_TOO_DEEP)
        self._add(value)

    def _spend(self, values: int) -> None:
        self._count += values
        if self._count > MOST_VALUES:
            raise _FrontMatterRefused(f"it stands for more than {MOST_VALUES} values")

    def _add(self, value: object) -> None:
        if not self._stack:
            self.root = None if value is _DROPPED else value
            return
        holder = self._stack[-1]
        if isinstance(holder.value, list):
            if value is not _DROPPED:
                holder.value.append(value)
        elif holder.key is None:
            if not isinstance(value, (str, int, float)):
                raise _FrontMatterRefused("a key is not a plain word")
            holder.key = str(value)
        else:
            key, holder.key = holder.key, None
            # YAML's merge key: keys that the mapping has itself win.
            if key == "<<" and isinstance(value, dict):
                for name, inner in value.items():
                    holder.value.setdefault(name, inner)
            elif value is not _DROPPED:
                holder.value[key] = value


def is_yes(value: object) -> bool:
    """Return whether a value of the front matter means yes."""
    return str(value).strip().lower() in _YES


def _inside(value: object) -> Sequence[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()


def _plain_value(text: str) -> object:
    """Return the JSON value of an unquoted scalar.

    YAML 1.1's `no`, `on` and `12:30` stay the text that the writer typed, and so does a number that would lose a figure: `3.10`.
    """
    lowered = text.lower()
    if lowered in ("", "~", "null"):
        return None
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in _NOT_JSON:
        return _DROPPED
    if _INTEGER.match(text):
        return int(text)
    # A number of thousands of digits would take long to convert, and no writer means one.
    if _FLOAT.match(text) and len(text) <= 64:
        number = float(text)
        if abs(number) == float("inf"):
            return _DROPPED
        # The title `3.10` is not 3.1.
        return number if str(number) == text else text
    # YAML writes times with a space. With a T they are ISO 8601, and texts that sort as the times do.
    moment = _MOMENT.match(text)
    return f"{moment[1]}T{moment[2].zfill(8)}" if moment else text


def _salvaged(block: Sequence[str]) -> dict[str, object]:
    """Return the `key: value` lines of invalid YAML, values as text: a colon in a title must not lose the title."""
    found: dict[str, object] = {}
    for line in block:
        pair = _KEY_LINE.match(line)
        value = pair[2].strip() if pair and pair[2] else ""
        # A value that begins with one of these is YAML structure, not text.
        if pair and value and value[0] not in "[{&*|>!%@`":
            found[pair[1]] = value.strip("\"'")
    return found
