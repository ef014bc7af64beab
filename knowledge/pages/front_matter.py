"""The metadata at the head of a document: where it ends, and what it says as plain JSON. Pure.

YAML is read event by event into plain values: nothing is constructed, nothing recurses, and an alias that multiplies
itself runs into a budget instead of into memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MOST_CHARACTERS = 64 * 1024
DEEPEST = 20
MOST_VALUES = 10_000

_KEY_LINE = re.compile(r"([A-Za-z_][\w -]{0,63}?)[ \t]*:(?:[ \t]+(.*))?$")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,17})$")
_FLOAT = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]{1,3})?$")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ \t]+(\d\d?:\d\d:\d\d(?:\.\d+)?)$")
_NOT_JSON = frozenset({".nan", ".inf", "-.inf", "+.inf"})


class FrontMatter(NamedTuple):
    """`body` is the index, from 0, of the first line after it; `problem` is a sentence, empty when all is well."""

    body: int
    metadata: Mapping[str, object]
    problem: str = ""


class _FrontMatterRefused(Exception):
    """The block is YAML that we do not take."""


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Return what the front matter of a document says; with none, nothing, and the body begins at once."""
    first = lines[0].rstrip(" \t") if lines else ""
    if first == "+++":
        end = _closing(lines, ("+++",))
        return (
            FrontMatter(end + 1, {}, "the front matter is TOML, which is not read: write YAML between lines of ---")
            if end
            else _NONE
        )
    if first != "---":
        return _NONE
    end = _closing(lines, ("---", "..."))
    begins_with_key = any(_KEY_LINE.match(line) for line in lines[1 : min(4, end or 4)])
    if not end:
        problem = (
            "the front matter that line 1 opens is never closed with ---, so it was read as text"
            if begins_with_key
            else ""
        )
        return FrontMatter(0, {}, problem)
    return _read(lines[1:end], end + 1, begins_with_key=begins_with_key)


def _closing(lines: Sequence[str], marks: tuple[str, ...]) -> int:
    for number in range(1, len(lines)):
        if lines[number].startswith(marks) and lines[number].rstrip(" \t") in marks:
            return number
    return 0


def _read(block: Sequence[str], body: int, *, begins_with_key: bool) -> FrontMatter:
    text = "\n".join(block)
    if len(text) > MOST_CHARACTERS:
        return FrontMatter(
            body, {}, f"the front matter has {len(text)} characters, more than the {MOST_CHARACTERS} that are read"
        )
    import yaml

    try:
        value = _built(text)
    except _FrontMatterRefused as refused:
        return FrontMatter(body, {}, f"the front matter was not read: {refused}")
    except yaml.YAMLError as error:
        # libyaml has a limit of its own (1,000) and meets it while it still scans, before the builder sees anything.
        if "nesting depth" in str(error):
            return FrontMatter(body, {}, f"the front matter was not read: it is nested deeper than {DEEPEST}")
        if not begins_with_key:
            return _NONE
        return FrontMatter(
            body, _salvaged(block), f"the front matter is broken YAML{_where(error)}; only its plain lines were read"
        )
    if value is None or value == "":
        return FrontMatter(body, {})
    if isinstance(value, dict):
        return FrontMatter(body, value)
    if begins_with_key or isinstance(value, list):
        return FrontMatter(body, {}, "the front matter is no list of `key: value` lines, so it was not read")
    # Text between two rules, no front matter at all.
    return _NONE


def _built(text: str) -> object:
    """Return the first YAML document of `text` as plain JSON values."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = _FrontMatterBuilder()
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.ScalarEvent):
            plain = event.style is None or event.style == ""
            builder.scalar(event.value, event.anchor, plain=plain)
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


_DROPPED = object()


class _FrontMatterBuilder:
    """Puts YAML events together, counting every value, those behind an alias each time they appear."""

    def __init__(self) -> None:
        self.root: object = None
        self._stack: list[tuple[Any, str | None, int]] = []
        self._keys: list[str | None] = []
        self._anchors: dict[str, tuple[object, int]] = {}
        self._count = 0

    def scalar(self, text: str, anchor: str | None, *, plain: bool) -> None:
        wants_key = bool(self._stack) and isinstance(self._stack[-1][0], dict) and self._keys[-1] is None
        value = text if wants_key or not plain else _plain_value(text)
        self._spend(1)
        if anchor:
            self._anchors[anchor] = (value, 1)
        self._add(value)

    def open(self, value: object, anchor: str | None) -> None:
        if self._stack and isinstance(self._stack[-1][0], dict) and self._keys[-1] is None:
            raise _FrontMatterRefused("a key is no plain word")
        if len(self._stack) >= DEEPEST:
            raise _FrontMatterRefused(f"it is nested deeper than {DEEPEST}")
        self._spend(1)
        self._stack.append((value, anchor, self._count))
        self._keys.append(None)

    def close(self) -> None:
        value, anchor, before = self._stack.pop()
        self._keys.pop()
        if anchor:
            self._anchors[anchor] = (value, self._count - before + 1)
        self._add(value)

    def alias(self, anchor: str) -> None:
        # An anchor that is still open would contain itself.
        if anchor not in self._anchors:
            raise _FrontMatterRefused(f"its alias *{anchor[:40]} names nothing that is complete")
        value, size = self._anchors[anchor]
        self._spend(size)
        if self._depth_of(value) + len(self._stack) > DEEPEST:
            raise _FrontMatterRefused(f"it is nested deeper than {DEEPEST}")
        self._add(value)

    def _spend(self, values: int) -> None:
        self._count += values
        if self._count > MOST_VALUES:
            raise _FrontMatterRefused(f"it stands for more than {MOST_VALUES} values")

    def _depth_of(self, value: object) -> int:
        depth, level = 0, [value]
        while level and depth <= DEEPEST:
            level = [
                inner
                for outer in level
                if isinstance(outer, (dict, list))
                for inner in (outer.values() if isinstance(outer, dict) else outer)
            ]
            depth += 1
        return depth - 1

    def _add(self, value: object) -> None:
        if not self._stack:
            self.root = None if value is _DROPPED else value
            return
        holder = self._stack[-1][0]
        if isinstance(holder, list):
            if value is not _DROPPED:
                holder.append(value)
            return
        key = self._keys[-1]
        if key is None:
            if not isinstance(value, (str, int, float)):
                raise _FrontMatterRefused("a key is no plain word")
            self._keys[-1] = str(value)
            return
        self._keys[-1] = None
        if key == "<<" and isinstance(value, dict):
            for name, inner in value.items():
                holder.setdefault(name, inner)
        elif value is not _DROPPED:
            holder[key] = value


def _plain_value(text: str) -> object:
    """Return what an unquoted scalar means in JSON; YAML 1.1's `no`, `on` and `12:30` stay what the writer wrote."""
    lowered = text.lower()
    if lowered in ("", "~", "null"):
        return None
    if lowered in ("true", "false"):
        return lowered == "true"
    if lowered in _NOT_JSON:
        return _DROPPED
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text) and len(text) <= 64:
        number = float(text)
        return number if abs(number) != float("inf") else _DROPPED
    moment = _MOMENT.match(text)
    return f"{moment[1]}T{moment[2].zfill(8)}" if moment else text


def _salvaged(block: Sequence[str]) -> dict[str, object]:
    """Return the `key: value` lines of a block that is no YAML, values as text: a colon in a title must not cost the title."""
    found: dict[str, object] = {}
    for line in block:
        pair = _KEY_LINE.match(line)
        value = pair[2].strip() if pair and pair[2] else ""
        if pair and value and value[0] not in "[{&*|>!%@`":
            found[pair[1]] = value.strip("\"'")
    return found


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f" at line {mark.line + 2}" if mark is not None else ""


_NONE = FrontMatter(0, {})
