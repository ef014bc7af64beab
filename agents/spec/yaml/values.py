"""YAML as values that know their lines. Pure.

The parser's events are read one by one, as with the front matter of pages: no Python object is constructed, nothing recurses, and
anchors, tags and duplicate keys are refused. Unquoted words are text, except `true`, `false`, `null`, `~` and numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.engine.events import Json

MOST_BYTES = 100_000
DEEPEST = 40
MOST_VALUES = 10_000

# At most 18 digits fit 64 bits. Longer numbers, and those with leading zeros such as 007, stay text.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})$")
_FLOAT = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,18}(?:[eE][-+]?[0-9]{1,2})?$")
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_BLOCKS = ("|", ">")


class UnreadableFile(Exception):
    """A file that can't be read; `line` is where it fails."""

    def __init__(self, line: int, reason: str) -> None:
        self.line, self.reason = line, reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Marked:
    """A value of a file, and the line where it begins. `text_line` is the line of a text's first character.

    `value` is a plain value, or a list or mapping of marked ones; `key_lines` has the lines of a mapping's keys.
    """

    value: str | int | float | bool | list[Marked] | dict[str, Marked] | None
    line: int
    text_line: int = 0
    key_lines: Mapping[str, int] = field(default_factory=dict)

    @property
    def entries(self) -> Mapping[str, Marked]:
        """The entries of a mapping; none for another value."""
        return self.value if isinstance(self.value, dict) else {}

    @property
    def items(self) -> Sequence[Marked]:
        """The items of a list; none for another value."""
        return self.value if isinstance(self.value, list) else ()

    @property
    def kind(self) -> str:
        """The kind of value, in words."""
        kinds = {
            str: "text",
            bool: "true or false",
            int: "a number",
            float: "a number",
            list: "a list",
            dict: "a mapping",
        }
        return kinds.get(type(self.value), "nothing")

    def take(self, key: str) -> Marked | None:
        """Return a mapping's value for the key; None if the key is missing or has no value."""
        found = self.entries.get(key)
        return None if found is None or found.value is None else found

    def plain(self) -> Json:
        """Return the value without lines."""
        if isinstance(self.value, dict):
            return {key: inside.plain() for key, inside in self.value.items()}
        if isinstance(self.value, list):
            return [inside.plain() for inside in self.value]
        return self.value

    def line_at(self, path: Sequence[str | int]) -> int:
        """Return the line of the value at the path, or of the last part of the path that exists."""
        here, line = self, self.line
        for part in path:
            if isinstance(part, str) and part in here.entries:
                line, here = here.key_lines[part], here.entries[part]
            elif isinstance(part, int) and part < len(here.items):
                here = here.items[part]
                line = here.line
            else:
                break
        return line


def marked(value: Json, depth: int = 0) -> Marked:
    """Return a plain value as if it had been read from a file of one line.

    Raises:
        UnreadableFile: it is nested too deep.
    """
    if depth > DEEPEST:
        raise UnreadableFile(1, f"it is nested deeper than {DEEPEST}")
    if isinstance(value, Mapping):
        inside = {str(key): marked(one, depth + 1) for key, one in value.items()}
        return Marked(inside, 1, 1, dict.fromkeys(inside, 1))
    if isinstance(value, list | tuple):
        return Marked([marked(one, depth + 1) for one in value], 1, 1)
    return Marked(value, 1, 1)


def read_marked(raw: bytes) -> Marked:
    """Return the one document of a YAML (or JSON) file.

    Raises:
        UnreadableFile: it is not valid, or uses something that is not supported.
    """
    if len(raw) > MOST_BYTES:
        raise UnreadableFile(1, f"the file has {len(raw)} bytes, at most {MOST_BYTES} are read")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFile(raw[: error.start].count(b"\n") + 1, "the file is not UTF-8") from error
    import yaml

    try:
        return _built(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        # libyaml has its own limit (1,000) and reaches it while scanning, before the builder counts.
        if "nesting depth" in str(error):
            raise UnreadableFile(line, f"it is nested deeper than {DEEPEST}") from error
        raise UnreadableFile(line, f"this is not valid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        at = getattr(error, "position", None) or 0
        raise UnreadableFile(
            text[:at].count("\n") + 1, "this is not valid YAML: it contains a character that YAML does not allow"
        ) from error


def _built(text: str) -> Marked:
    import yaml

    # libyaml's parser is many times faster; a PyYAML built without it has only the Python one.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder, documents = _ValueBuilder(), 0
    for event in yaml.parse(text, Loader=loader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        _refuse(event, line)
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise UnreadableFile(line, "a second document begins here; one agent is one document")
        elif isinstance(event, yaml.ScalarEvent):
            # The text of a block scalar begins on the line after its | or >.
            begins = line + 1 if event.style in _BLOCKS else line
            builder.scalar(event.value, line, begins, plain=not event.style)
        elif isinstance(event, yaml.MappingStartEvent):
            builder.open({}, line)
        elif isinstance(event, yaml.SequenceStartEvent):
            builder.open([], line)
        elif isinstance(event, yaml.CollectionEndEvent):
            builder.close()
    if builder.root is None:
        raise UnreadableFile(1, "the file is empty")
    return builder.root


def _refuse(event: Any, line: int) -> None:
    """Raise UnreadableFile for an anchor, an alias or a tag."""
    import yaml

    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
        raise UnreadableFile(line, "anchors and aliases (&name, *name) are not supported: write the value out")
    if getattr(event, "tag", None):
        raise UnreadableFile(line, "tags (!name) are not supported")


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not been read yet."""

    value: list[Marked] | dict[str, Marked]
    line: int
    key: str | None = None
    key_lines: dict[str, int] = field(default_factory=dict)


class _ValueBuilder:
    """Builds marked values from events."""

    def __init__(self) -> None:
        self.root: Marked | None = None
        self._stack: list[_Open] = []
        self._count = 0

    def scalar(self, text: str, line: int, text_line: int, *, plain: bool) -> None:
        self._spend(line)
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            if text in top.key_lines:
                raise UnreadableFile(line, f"the key {text[:60]!r} is a duplicate, first at line {top.key_lines[text]}")
            top.key, top.key_lines[text] = text, line
            return
        self._add(Marked(_meaning(text) if plain else text, line, text_line))

    def open(self, value: list[Marked] | dict[str, Marked], line: int) -> None:
        self._spend(line)
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            raise UnreadableFile(line, "a key must be plain text; quote text with braces or brackets")
        if len(self._stack) >= DEEPEST:
            raise UnreadableFile(line, f"it is nested deeper than {DEEPEST}")
        self._stack.append(_Open(value, line))

    def close(self) -> None:
        done = self._stack.pop()
        self._add(Marked(done.value, done.line, done.line, done.key_lines))

    def _spend(self, line: int) -> None:
        self._count += 1
        if self._count > MOST_VALUES:
            raise UnreadableFile(line, f"it has more than {MOST_VALUES} values")

    def _add(self, marked: Marked) -> None:
        if not self._stack:
            self.root = marked
            return
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(marked)
        elif top.key is not None:
            top.value[top.key] = marked
            top.key = None


def _meaning(text: str) -> str | float | bool | None:
    """Return the value of an unquoted word."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text):
        return int(text)
    return float(text) if _FLOAT.match(text) else text
