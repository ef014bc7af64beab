"""Reading JSON as editors write it: comments, trailing commas, a byte order mark. Pure.

The tree keeps where everything stands in the text, so that `edit.py` can change one member and not a byte beside it.
Source: RFC 8259; comments and trailing commas as in Microsoft's jsonc-parser, which VS Code and its descendants use.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from knowledge.errors import KnowledgeError

BOM = "\ufeff"
DEEPEST = 200

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z]+")
_WORDS = {"true": True, "false": False, "null": None}
_LONGEST_NUMBER = 4000
"""Python refuses to read longer whole numbers; hosts read those as floating point anyway."""


class BadJson(KnowledgeError):
    """A text that is neither JSON nor JSON with comments; lines and columns count from 1."""

    def __init__(self, text: str, at: int, problem: str) -> None:
        before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
        self.line = before.count("\n") + 1
        self.column = len(before) - (before.rfind("\n") + 1) + 1
        self.problem = problem
        super().__init__(f"not valid JSON at line {self.line}, column {self.column}: {problem}")


@dataclass(frozen=True, slots=True)
class JsoncNode:
    """A value, where it stands, and what it is in Python.

    Of an object, `members` are its members as written (also twice the same key) and `tail` is where the last thing
    in it ends, a comment too: what follows up to the closing brace is white space.
    """

    start: int
    end: int
    value: object
    members: tuple[Member, ...] | None = None
    tail: int = 0


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object; `comma` is where the comma after it stands, if there is one."""

    key: str
    start: int
    node: JsoncNode
    comma: int | None


@dataclass(frozen=True, slots=True)
class JsoncDocument:
    """A whole text; `comment_ends` are the places where a `//` comment ends, which only a line break may follow."""

    root: JsoncNode
    comment_ends: frozenset[int]


@lru_cache(maxsize=2)  # one edit asks several things of one text, and Claude Code's can have megabytes
def parse(text: str) -> JsoncDocument:
    """Return the tree of `text`. Do not change what is in it: who asks again gets the same one.

    Raises:
        BadJson: it is not JSON, not even with comments and trailing commas, or nested deeper than `DEEPEST`.
    """
    reader = _JsoncReader(text)
    reader.skip()
    root = reader.value(0)
    reader.skip()
    if reader.at < len(text):
        raise BadJson(text, reader.at, "something follows after the end")
    return JsoncDocument(root, frozenset(reader.comment_ends))


def is_blank(text: str) -> bool:
    """Return whether there is nothing in `text` but white space: an empty file that some hosts create."""
    return not text.removeprefix(BOM).strip(" \t\r\n")


class _JsoncReader:
    """A cursor over the text. `last` is where the last token or comment ended."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = self.last = 1 if text.startswith(BOM) else 0
        self.comment_ends: set[int] = set()

    def skip(self) -> str:
        """Go past white space and comments, and return the character that comes then, or ''."""
        while True:
            found = _SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.text[self.at : self.at + 1] != "/":
                return self.text[self.at : self.at + 1]
            comment = _COMMENT.match(self.text, self.at)
            if comment is None:
                raise BadJson(self.text, self.at, "a comment that does not end, or a stray '/'")
            self.at = self.last = comment.end()
            if comment.group().startswith("//"):
                self.comment_ends.add(self.at)

    def value(self, depth: int) -> JsoncNode:
        if depth > DEEPEST:
            raise BadJson(self.text, self.at, f"nested deeper than {DEEPEST}")
        following = self.text[self.at : self.at + 1]
        if following == "{":
            return self.members_in_braces(depth)
        if following == "[":
            return self.items_in_brackets(depth)
        start = self.at
        return JsoncNode(start, value=self.scalar(following), end=self.at)

    def members_in_braces(self, depth: int) -> JsoncNode:
        start, members = self.at, list[Member]()
        self.step()
        while self.skip() != "}":
            key_start = self.at
            key = self.string()
            if self.skip() != ":":
                raise BadJson(self.text, self.at, f"a ':' is missing after {_short(key)}")
            self.step()
            self.skip()
            node = self.value(depth + 1)
            comma = self.comma("}")
            members.append(Member(key, key_start, node, comma))
        tail = self.last
        self.step()
        return JsoncNode(start, self.at, {m.key: m.node.value for m in members}, tuple(members), tail)

    def items_in_brackets(self, depth: int) -> JsoncNode:
        start, items = self.at, list[object]()
        self.step()
        while self.skip() != "]":
            items.append(self.value(depth + 1).value)
            self.comma("]")
        self.step()
        return JsoncNode(start, self.at, items)

    def comma(self, closing: str) -> int | None:
        """Go past the comma after a member or an item and return its place; None where `closing` comes instead."""
        following = self.skip()
        if following == closing:
            return None
        if following != ",":
            raise BadJson(self.text, self.at, f"a ',' or '{closing}' is missing" if following else "it ends too early")
        self.step()
        return self.at - 1

    def scalar(self, following: str) -> object:
        if following == '"':
            return self.string()
        if number := _NUMBER.match(self.text, self.at):
            self.at = self.last = number.end()
            digits = number.group()
            return float(digits) if len(digits) > _LONGEST_NUMBER else json.loads(digits)
        word = _WORD.match(self.text, self.at)
        if word is None or word.group() not in _WORDS:
            raise BadJson(self.text, self.at, "a value is missing" if following else "it ends too early")
        self.at = self.last = word.end()
        return _WORDS[word.group()]

    def string(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            at_end = self.at >= len(self.text)
            raise BadJson(self.text, self.at, "it ends too early" if at_end else 'a text in "double quotes" is missing')
        try:
            value = json.loads(found.group())
        except json.JSONDecodeError as error:
            raise BadJson(self.text, self.at + error.pos, "a text with an unknown escape") from error
        self.at = self.last = found.end()
        return str(value)

    def step(self) -> None:
        self.at += 1
        self.last = self.at


def _short(key: str) -> str:
    return repr(key if len(key) <= 40 else key[:37] + "...")
